"""What travels with convc beside its code: kernel templates, small ONNX models, the script that builds larger ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from convc.errors import BuildError

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package."""

SCHEMAS = PACKAGE / "docs" / "schemas"
"""The folder of the JSON Schemas of what commands write and read (`convc.report.schemas` makes them)."""


def schema_file(format: str) -> Path:
    """The file with the JSON Schema of a format, such as ``convc-check/1``."""
    return SCHEMAS / f"{format.replace('/', '-')}.json"


def template_folder() -> Path:
    """The folder of the kernel templates."""
    return _packaged("templates", "kernel.ptx.j2")


def model_folder() -> Path:
    """The folder of the models."""
    return _packaged("models", "make_models.py")


def _packaged(name: str, expected: str) -> Path:
    """A folder that is inside the installed package, or at the top of a checkout; ``expected`` is a file in it."""
    for folder in (PACKAGE / f"_{name}", PACKAGE.parent / name):
        if (folder / expected).is_file():
            return folder
    raise BuildError(
        f"the {name} are missing from this installation",
        where=str(PACKAGE / f"_{name}"),
        hint=f"install convc again; a checkout has them in {name}/",
    )


def make_models() -> ModuleType:
    """The script ``make_models.py`` as a module."""
    path = model_folder() / "make_models.py"
    spec = importlib.util.spec_from_file_location("convc_make_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
