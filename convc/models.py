"""The models that travel with convc: small ONNX files, and the script that builds larger ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from convc.errors import BuildError


def model_folder() -> Path:
    """The folder of the models: inside the installed package, or at the top of a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_models", here.parent / "models"):
        if (folder / "make_models.py").is_file():
            return folder
    raise BuildError("the models are missing from this installation", hint="install convc again")


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
