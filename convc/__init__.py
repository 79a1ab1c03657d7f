"""convc: implicit-GEMM convolutions for NVIDIA Blackwell, compiled to PTX text that is run and checked here.

The four verbs `load`, `compile`, `run` and `verify` are the interface for programs (see `convc.api`).
Importing ``convc`` loads none of the rooms behind them.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from convc._version import __version__ as __version__

if TYPE_CHECKING:
    from convc.api import VerifyReport, compile, load, run
    from convc.build.folder import Build
    from convc.ir.network import Network

__all__ = ["Build", "Network", "VerifyReport", "compile", "load", "run", "verify"]

_HOME = {
    "Build": "convc.build.folder",
    "Network": "convc.ir.network",
    "VerifyReport": "convc.api",
    "compile": "convc.api",
    "load": "convc.api",
    "run": "convc.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'convc' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)


class _Package(ModuleType):
    """This package, where ``convc.verify`` is the verb although there is a room of that name.

    Importing the room would put it in the verb's place, so that assignment is left out; ``from
    convc.verify.compare import compare`` does not need it.
    """

    @property
    def verify(self) -> Any:
        from convc.api import verify

        return verify

    @verify.setter
    def verify(self, room: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
