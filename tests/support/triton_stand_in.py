"""The stand-in for Triton (tests/support/triton_stub) in place of the package, in this process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

STUB = Path(__file__).parent / "triton_stub"
MODULES = [
    ".".join(path.relative_to(STUB).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(STUB.rglob("*.py"))
]


def stand_in(monkeypatch: pytest.MonkeyPatch, cache: Path | None = None) -> Any:
    """Put it in place of triton; ``cache``: the text of every kernel, in place of those in tests/foreign.

    Returns:
        The choice of drivers in its runtime.
    """
    monkeypatch.syspath_prepend(str(STUB))
    for name in [*MODULES, "convc.triton.driver"]:  # they are imported anew, and are gone afterwards
        monkeypatch.setitem(sys.modules, name, ModuleType("gone"))
        monkeypatch.delitem(sys.modules, name)
    if cache is not None:
        group = {cache.name: str(cache)}
        manager = SimpleNamespace(cache_dir="cache", get_group=lambda name: group)
        stored = importlib.import_module("triton.runtime.cache")
        monkeypatch.setattr(stored, "get_cache_manager", lambda hash: manager)
    return importlib.import_module("triton.runtime").driver


def kernel(name: str, signature: dict[str, Any], **metadata: Any) -> Any:
    """A kernel of the stand-in, with what its compiler said of it."""
    plain = {"hash": "h", "num_ctas": 1, "shared": 0, "global_scratch_size": 0, "profile_scratch_size": 0}
    made = SimpleNamespace(**plain | {"name": name} | metadata)
    return importlib.import_module("triton.runtime.jit").JITFunction(made, signature)
