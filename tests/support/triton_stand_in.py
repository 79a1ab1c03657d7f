"""A stand-in for the package triton: as much of it as convc's driver imports, with kernels compiled before."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass(frozen=True)
class GPUTarget:
    backend: str
    arch: int
    warp_size: int


class Config:
    """The runtime's choice of a driver."""

    _active: Any = "the GPU"

    def set_active(self, driver: Any) -> None:
        self._active = driver

    @property
    def active(self) -> Any:
        return self._active


class JITFunction:
    """A kernel that was compiled before; a call goes as Triton's runtime goes."""

    config: Config

    def __init__(self, metadata: Any, signature: dict[str, Any]) -> None:
        self.compiled = SimpleNamespace(signature=signature), metadata

    def run(self, *args: Any, grid: Any, warmup: bool = False) -> Any:
        driver = self.config.active
        run = driver.launcher_cls(*self.compiled)
        driver.utils.load_binary(self.compiled[1].name, b"", self.compiled[1].shared, driver.get_current_device())
        x, y, z = (*grid, 1, 1, 1)[:3]
        run(x, y, z, driver.get_current_stream(0), "function", (), None, None, None, *args)


def stand_in(monkeypatch: pytest.MonkeyPatch, cache: Path | None, version: str = "3.9.0") -> Config:
    """Put it in place of triton, whose cache has this text for every kernel."""
    config = Config()
    monkeypatch.setattr(JITFunction, "config", config, raising=False)
    group = {} if cache is None else {cache.name: str(cache)}
    manager = SimpleNamespace(cache_dir="cache", get_group=lambda name: group)
    tools = SimpleNamespace(ptxas="ptxas", ptxas_blackwell="ptxas")
    parts: dict[str, dict[str, Any]] = {
        "triton": {"__version__": version, "knobs": SimpleNamespace(nvidia=tools)},
        "triton.backends": {},
        "triton.backends.compiler": {"GPUTarget": GPUTarget},
        "triton.backends.driver": {"DriverBase": object},
        "triton.runtime": {"driver": config},
        "triton.runtime.cache": {"get_cache_manager": lambda hash: manager},
        "triton.runtime.jit": {"JITFunction": JITFunction},
    }
    for name, held in parts.items():
        module = ModuleType(name)
        module.__dict__.update(held)
        monkeypatch.setitem(sys.modules, name, module)
    # The driver is imported anew, and is gone afterwards.
    monkeypatch.setitem(sys.modules, "convc.triton.driver", ModuleType("gone"))
    monkeypatch.delitem(sys.modules, "convc.triton.driver")
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    return config
