"""Which package may import which, where outside libraries come in, and what a fresh process really loads."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.parsed import nodes_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "convc"

ARROWS = {
    "errors _version": "",
    "derive layout": "",
    "ir ptx support": "errors",
    "derived": "derive ir support",
    "frontend": "ir support",
    "atoms": "layout",
    "host_layout": "derived ir support",
    "foreign": "ir",
    "auditor": "ir.launch ir.tensormap ir.element_types ir.findings ptx",
    "machine": "ir ptx support.blas support.collecting",
    "sanitizer": "ir ptx machine",
    "recorder": "ir ptx machine sanitizer support",
    "timing": "ir ptx machine support",
    "gpu": "_version ir support compiler.emit.render",
    "probe": "_version ir ptx.descriptors machine timing.parameters gpu support",
    "compiler": "_version derived ir host_layout ptx.descriptors support",
    "build": "ir host_layout support compiler.kernels compiler.options",
    "runtime": "ir build compiler.kernels host_layout frontend machine support",
    "verification": "ir runtime build compiler.kernels host_layout frontend machine support",
    "workers": "ir verification runtime compiler machine support",
    "report": (
        "_version atoms compiler.tuning_file auditor ir verification runtime build machine timing frontend "
        "host_layout support gpu probe recorder"
    ),
    "explain": "derive.text derived ir ptx build.folder compiler report",
    "draw": "atoms ir layout ptx machine compiler.index compiler.plan compiler.tile explain report timing support",
    "page": "ir ptx.parser compiler.compile compiler.plan compiler.tile report explain draw timing",
    "api": (
        "derive foreign ir host_layout support frontend compiler build runtime verification workers sanitizer "
        "auditor machine explain timing report.console gpu draw page.records probe recorder"
    ),
    "triton": "api foreign ir machine report.launch support timing",
    "cli": "_version layout support report explain draw page api machine.base.switches",
    "__init__": "_version api build compiler.options gpu ir probe runtime verification workers recorder",
    "__main__": "cli",
    "pytest_plugin": "api ir recorder report support triton",
    "backend": "compiler frontend machine runtime support",
}
"""What files of a package may import besides errors and their own: packages, or modules and what lies below them."""

INNER = {
    "compiler.index": "",
    "compiler.plan": "index",
    "compiler.tile": "plan.names plan.storage",
    "compiler.emit": "tile",
    "compiler.schedules": "index plan tile options",
    "compiler.planner": "index plan schedules options",
    "machine.base": "",
    "machine.memory": "base",
    "machine.tensor_core": "base memory",
    "machine.tma": "base memory",
    "machine.lazy": "base memory tensor_core tma",
    "machine.state": "base memory tensor_core tma lazy",
    "machine.isa": "base memory tensor_core tma lazy state",
    "machine.execute": "base state isa",
}
"""Packages inside of two packages, and what they may import there besides their own; files beside them import any."""

ONLY = {
    "page": ("api/paging.py", "cli/report.py", "page/"),
    "draw": ("api/", "cli/", "draw/", "page/"),
    "explain": ("api/inspecting.py", "cli/inspect.py", "draw/", "explain/", "page/"),
    "report": ("api/inspecting.py", "cli/", "draw/", "explain/", "page/", "pytest_plugin.py", "report/", "triton/"),
    "api": ("api/", "cli/", "triton/", "__init__.py", "pytest_plugin.py"),
}
"""Packages that only these files (by the start of their path) may import."""

DOORS = {
    "click": ("cli/",),
    "cuda": ("gpu/cuda.py",),
    "diskcache": ("support/cache.py",),
    "islpy": ("compiler/index/presburger.py",),
    "distributed": ("workers/executors.py",),
    "jinja2": ("compiler/emit/render.py", "page/render.py"),
    "numpy": (
        "api", "atoms/", "backend.py", "build/", "compiler/index/", "compiler/kernels.py",
        "compiler/tile/verify_order.py", "derive/run.py", "draw/",
        "explain/", "frontend/", "gpu/", "ir/", "host_layout/", "machine/", "networks.py", "probe/",
        "recorder/", "runtime/", "sanitizer/", "support/", "timing/", "triton/", "verification/",
    ),
    "perfetto": ("report/perfetto.py",),
    "onnx": ("backend.py", "frontend/", "runtime/network/", "verification/"),
    "pytest": ("pytest_plugin.py",),
    "platformdirs": ("support/cache.py",),
    "resvg_py": ("draw/png.py",),
    "rich": ("report/", "explain/"),
    "sympy": ("derive/", "layout/extents.py"),
    "threadpoolctl": ("support/",),
    "torch": ("triton/driver.py",),
    "triton": ("triton/driver.py",),
}  # fmt: skip
"""The files (by the start of their path) that may import an outside library."""

ANYWHERE_OUTSIDE_PTX = {"ml_dtypes", "msgspec"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path: Path) -> str:
    """The package at the top of the package that a file is in."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def inner_package_of(path: Path) -> str:
    """The package and, where it has packages inside, the one in there; else the package."""
    return ".".join(path.relative_to(PACKAGE).parts[:2]).removesuffix(".py")


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Full names of all modules that a file imports, inside functions too."""
    found: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [whole if is_module(whole := f"{node.module}.{a.name}") else node.module for a in node.names]
    return tuple(found)


def permitted(path: Path, name: str) -> bool:
    """Whether a file may import a module of convc, by its full name."""
    package, inner = package_of(path), inner_package_of(path)
    arrows = next(arrows for packages, arrows in ARROWS.items() if package in packages.split())
    inside = name.removeprefix("convc.")
    if is_in(inside, package):
        own = [f"{package}.{arrow}" for arrow in INNER[inner].split()] if inner in INNER else [package]
        return any(is_in(inside, arrow) for arrow in (inner, *own))
    return any(is_in(inside, arrow) for arrow in ("errors", *arrows.split()))


def is_in(inside: str, arrow: str) -> bool:
    """Whether a module is what an arrow names, or lies below it."""
    return inside == arrow or inside.startswith(f"{arrow}.")


def refused(wrong: Callable[[Path, str], bool]) -> list[str]:
    """All imports of the package that are wrong, a sentence each."""
    return [
        f"{path.relative_to(ROOT)} must not import {name}"
        for path in sources()
        for name in imports_of(path)
        if wrong(path, name)
    ]


def test_the_package_needs_no_test_to_run():
    assert refused(lambda _, name: name.partition(".")[0] in ("tests", "benchmarks")) == []


def test_imports_follow_the_arrows():
    assert refused(lambda path, name: name.startswith("convc.") and not permitted(path, name)) == []


def used(folder: str) -> set[str]:
    """All modules of convc that the files of a folder, or a module, import."""
    paths = [path for path in sources() if is_in(".".join(path.relative_to(PACKAGE).with_suffix("").parts), folder)]
    return {name.removeprefix("convc.") for path in paths for name in imports_of(path)}


def test_every_arrow_is_used():
    """An arrow that no import needs any more goes."""
    table = [(packages.split(), arrows.split()) for packages, arrows in ARROWS.items()]
    for inner, arrows in INNER.items():
        package = inner.partition(".")[0]
        table.append(([inner], [f"{package}.{arrow}" for arrow in arrows.split()]))
    for packages, arrows in table:
        found = set().union(*map(used, packages))
        assert [arrow for arrow in arrows if not any(is_in(name, arrow) for name in found)] == [], packages


def test_the_auditor_shares_no_code_with_those_it_judges():
    """It has the manual's rules of its own: not those that encode descriptors, plan, emit, check maps, or run."""
    shared = ("compiler", "host_layout", "machine", "sanitizer", "ptx.descriptors", "ptx.forms", "ir.arch", "timing")
    assert [name for name in used("auditor") if any(is_in(name, each) for each in shared)] == []
    text = "".join(path.read_text("utf-8") for path in (PACKAGE / "auditor").rglob("*.py"))
    assert "tensormap import check" not in text, "the encoder's rules of tensor maps are the simulator's as well"


def past_its_entrance(path: Path, name: str) -> bool:
    """Whether a package is entered from another than those that may."""
    parts = name.split(".")
    if parts[0] != "convc" or len(parts) < 2 or parts[1] not in ONLY:
        return False
    return not path.relative_to(PACKAGE).as_posix().startswith(ONLY[parts[1]])


def test_some_packages_are_entered_from_few_others():
    assert refused(past_its_entrance) == []


def past_its_door(path: Path, name: str) -> bool:
    """Whether an outside library is imported where it is not at home; ptx leans on nothing but errors."""
    top = name.partition(".")[0]
    if top == "convc" or top in sys.stdlib_module_names:
        return False
    if top in ANYWHERE_OUTSIDE_PTX:
        return package_of(path) == "ptx"
    return not path.relative_to(PACKAGE).as_posix().startswith(DOORS.get(top, ()))


def test_outside_libraries_come_through_their_door():
    assert refused(past_its_door) == []


HEAVY = ("onnx", "islpy", "jinja2", "numpy", "click", "rich", "sympy")
DECIDERS = ("convc.compiler", "convc.frontend", "convc.ir.network", "convc.ir.problem", "convc.host_layout")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("convc", HEAVY),
        ("convc.errors", HEAVY),
        ("convc.layout", HEAVY),
        ("convc.ptx", ("msgspec", *HEAVY)),
        ("convc.ir.launch", HEAVY),
        ("convc.machine", ("onnx", "islpy", "jinja2", *DECIDERS)),
        (
            "convc.runtime.layer",
            ("onnx", "islpy", "jinja2", "convc.compiler.plan", "convc.compiler.index", "convc.compiler.emit"),
        ),
        ("convc.verification.compare", ("onnx", "islpy", "jinja2", "convc.machine")),
        (
            "convc.compiler.emit",
            ("islpy", "numpy", "convc.compiler.plan", "convc.compiler.index", "convc.machine"),
        ),
        ("convc.compiler.compile", ("convc.machine", "convc.runtime", "onnx")),
        ("convc.compiler.planner.search", ("sympy", "convc.derive")),
        ("convc.gpu.perform", ("onnx", "islpy", "jinja2", "cuda", "convc.machine")),
        ("convc.cli.main", ("onnx", "islpy", "jinja2", "numpy")),
        ("convc.api.choices", ("msgspec", *HEAVY)),
    ],
)
def test_a_fresh_process_loads_only_what_it_needs(module, absent):
    code = f"import sys, {module}; print(*(name for name in {absent!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"importing {module} loads {done.stdout}"
