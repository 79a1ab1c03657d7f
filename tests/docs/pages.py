"""The pages of ``convc/docs``: their blocks of code, and a module made of those that are Python."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import convc

DOCS = Path(convc.__file__).parent / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    """The text of a page, by the name of its file."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language, in order."""
    return [code for kind, code in BLOCK.findall(text_of(page)) if kind == language]


def module_of(page: str, folder: Path) -> ModuleType:
    """A module with all Python blocks of a page, written into a folder and imported from there."""
    name = f"page_{page.removesuffix('.md')}"
    path = folder / f"{name}.py"
    path.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints are looked up there
    spec.loader.exec_module(module)
    return module
