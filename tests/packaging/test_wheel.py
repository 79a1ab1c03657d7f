"""The wheel: what it must carry, and that it works far away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PARTS = ("convc", "templates", "models", "pyproject.toml", "LICENSE", "README.md")


def run(*command: object, cwd: Path, path: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy of the checkout, so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    run("-m", "pip", "wheel", *options, "--wheel-dir", folder / "out", folder, cwd=folder)
    (made,) = (folder / "out").glob("convc-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The wheel, unpacked where nothing of the checkout is in reach."""
    target = tmp_path_factory.mktemp("installed")
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    run("-m", "pip", "install", *options, "--target", target, wheel, cwd=target)
    return target


def test_the_wheel_carries_templates_models_and_grammar(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside, patterns in (
        ("templates", "convc/_templates", ("*.j2",)),
        ("models", "convc/_models", ("*.onnx", "*.toml", "*.py")),
        ("convc", "convc", ("*.py", "*.txt", "*.md", "*.svg", "py.typed")),
    ):
        for pattern in patterns:
            files = [path for path in (ROOT / folder).rglob(pattern) if "__pycache__" not in path.parts]
            assert files, f"{folder} has no {pattern}"
            missing = {f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" for path in files} - names
            assert not missing


def test_the_wheel_carries_nothing_else(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"convc"}


def test_the_installed_command_compiles_and_verifies_a_packaged_model(installed, tmp_path):
    model = installed / "convc/_models/tiny_conv.onnx"
    where = run("-c", "import convc; print(convc.__file__)", cwd=tmp_path, path=installed)
    assert Path(where.strip()) == installed / "convc/__init__.py"
    run("-m", "convc", "compile", model, "-o", "build", cwd=tmp_path, path=installed)
    assert len(list((tmp_path / "build/kernels").glob("*/kernel.ptx"))) == 1
    said = run("-m", "convc", "verify", model, cwd=tmp_path, path=installed)
    assert "1 of 1 layers right" in said


def test_the_version_is_said_once(wheel):
    import convc

    assert wheel.name == f"convc-{convc.__version__}-py3-none-any.whl"
    assert PYPROJECT["project"]["dynamic"] == ["version"]
