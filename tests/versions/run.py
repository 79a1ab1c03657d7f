"""``python -m tests.versions.run``: the quick suite in fresh environments, with old and with new libraries.

    oldest    the lower bound of every range in pyproject.toml
    newest    what the package index has
    triton    the programs of tests/foreign, with the oldest and with the newest release of the extra convc[triton]

The wheel is built once, from the source archive, and both are held to ``twine check``. Each environment has the wheel,
what that needs, and nothing else; `quick.py` runs in it. ``--python 3.11 3.13`` names interpreters, by default all of
3.11 to 3.14 that there are; one that the oldest libraries have no wheels for is left out of that set. With
``--index-may-fail`` an environment that cannot be installed is left out, too; only what runs there can then be wrong.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICK = Path(__file__).with_name("quick.py")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST_PYTHON = "3.11"
"""The lower bounds are those of the oldest Python: the first wheels for a newer one are of later versions."""
SETS = ("oldest", "newest", "triton")
TRITON = ("oldest Triton", "newest Triton")
"""What the last of the sets is made of."""
PROGRAMS = ("triton_programs.py", "gluon_programs.py")
BOUND = re.compile(r"([A-Za-z0-9_.-]+)>=([0-9.]+)$")


def main(arguments: list[str] | None = None) -> int:
    """Run the quick suite in every environment; 0 where it is right in all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.versions.run")
    parser.add_argument("--python", nargs="*", default=PYTHONS, metavar="X.Y")
    parser.add_argument("--index-may-fail", action="store_true")
    parser.add_argument("--set", nargs="*", default=SETS, choices=SETS, dest="sets")
    chosen = parser.parse_args(arguments)
    wrong: list[str] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix="convc-versions-") as name:
        folder = Path(name)
        try:
            wheel = built(folder)
        except NotInstalledError:
            if not chosen.index_may_fail:
                raise
            print("0 passed, 0 failed: the package index has not what builds the wheel")
            return 0
        done = 0
        for version, libraries in environments(chosen.python, chosen.sets):
            title = f"Python {version}, {libraries}{'' if libraries in TRITON else ' libraries'}"
            print(f"== {title}", flush=True)
            started = time.monotonic()
            target = folder / f"{version}-{libraries.replace(' ', '-')}"
            try:
                right = tried(target, version, libraries, wheel)
            except NotInstalledError as problem:
                print(f"   not installed: {' '.join(problem.cmd)}", flush=True)
                left_out.append(title)
                right = chosen.index_may_fail
            if not right:
                wrong.append(title)
            done += 1
            shutil.rmtree(target, ignore_errors=True)  # 300 MB each
            print(f"   {time.monotonic() - started:.0f} s", flush=True)
    skipped = len(left_out) if chosen.index_may_fail else 0
    print(f"{done - len(wrong) - skipped} passed, {len(wrong)} failed, {skipped} left out")
    return 1 if wrong else 0


class NotInstalledError(subprocess.CalledProcessError):
    """pip or uv could not install."""


def environments(pythons: Iterable[str], sets: Iterable[str]) -> Iterable[tuple[str, str]]:
    """(version, set of libraries) of the environments to make; says which interpreters there are not."""
    for version in pythons:
        if interpreter(version) is None:
            print(f"== Python {version}: there is none here, left out")
            continue
        for libraries in sets:
            if libraries == "newest" or version == OLDEST_PYTHON:
                yield from ((version, each) for each in (TRITON if libraries == "triton" else (libraries,)))


@functools.cache
def interpreter(version: str) -> str | None:
    """The interpreter of a version; None where there is none that runs."""
    kept = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    for path in (shutil.which(f"python{version}"), *map(str, kept)):
        if path is not None and not _failed([path, "-c", "import ensurepip"], quiet=True):
            return path
    return sys.executable if version == f"{sys.version_info.major}.{sys.version_info.minor}" else None


def built(folder: Path) -> Path:
    """The wheel, made from the source archive, both good enough for the package index."""
    print("== source archive and wheel", flush=True)
    python = environment(folder / "build", f"{sys.version_info.major}.{sys.version_info.minor}")
    install(python, "build", "twine")
    dist = folder / "dist"
    run(str(python), "-m", "build", "--outdir", str(dist), str(ROOT), quiet=True)
    made = sorted(dist.iterdir())
    assert [path.suffix for path in made] == [".whl", ".gz"], made
    run(str(python), "-m", "twine", "check", "--strict", *map(str, made))
    return made[0]


def tried(target: Path, version: str, libraries: str, wheel: Path) -> bool:
    """Whether the quick suite, or the programs of Triton, are right in a new environment."""
    try:
        python = environment(target, version)
        if libraries in TRITON:
            oldest = [f"triton=={oldest_triton()}.*"] if libraries == TRITON[0] else []
            install(python, f"{wheel}[triton]", *oldest)
            for name in PROGRAMS:
                run(str(python), str(ROOT / "tests/foreign" / name), cwd=target, cache=target / "cache")
            return True
        bounds = target / "oldest.txt"
        bounds.write_text("".join(f"{line}\n" for line in lower_bounds()))
        install(python, str(wheel), *(("--constraint", str(bounds)) if libraries == "oldest" else ()))
        run(str(python), str(QUICK), cwd=target)
    except NotInstalledError:
        raise
    except subprocess.CalledProcessError as problem:
        print(f"   wrong: {' '.join(problem.cmd)} ended with {problem.returncode}", flush=True)
        return False
    return True


def lower_bounds() -> list[str]:
    """``name==version`` for the oldest version of everything that convc needs."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [BOUND.match(each) for each in needed]
    assert all(bounds), f"expected name>=version: {needed}"
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound is not None]


def oldest_triton() -> str:
    """The lower bound of the extra convc[triton]."""
    (needed,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["triton"]
    bound = BOUND.match(needed.partition(",")[0])
    assert bound is not None, f"expected triton>=version: {needed}"
    return bound[2]


def environment(target: Path, version: str) -> Path:
    """The interpreter of a new, empty environment."""
    if shutil.which("uv"):
        run("uv", "venv", "--quiet", "--python", version, str(target))
    else:
        run(str(interpreter(version)), "-m", "venv", str(target))
    return target / "bin" / "python"


def install(python: Path, *what: str) -> None:
    """Install from the package index, wheels alone; compiling them all would take longer than the suite."""
    if shutil.which("uv"):
        command = ["uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--python", str(python), *what]
    else:
        options = ("--quiet", "--no-compile", "--prefer-binary", "--disable-pip-version-check")
        command = [str(python), "-m", "pip", "install", *options, *what]
    if _failed(command):
        raise NotInstalledError(1, command)


def run(*command: str, cwd: Path | None = None, quiet: bool = False, cache: Path | None = None) -> None:
    """Run a command, with a cache for Triton; `subprocess.CalledProcessError` where it fails."""
    if _failed(list(command), cwd=cwd, quiet=quiet, cache=cache):
        raise subprocess.CalledProcessError(1, command)


def _failed(command: list[str], cwd: Path | None = None, quiet: bool = False, cache: Path | None = None) -> bool:
    """Whether a command fails; what a quiet one says is shown where it does."""
    where = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if cache is not None:
        where["TRITON_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        command, cwd=cwd, env=where, check=False, text=True, stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
    )  # fmt: skip
    return done.returncode != 0


if __name__ == "__main__":
    raise SystemExit(main())
