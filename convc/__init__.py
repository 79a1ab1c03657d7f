"""convc: implicit-GEMM convolutions for NVIDIA Blackwell, compiled to PTX text that is run and checked here.

The four verbs `load`, `compile`, `run` and `verify` are the interface for programs (see `convc.api`).
Importing ``convc`` loads none of the rooms behind them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from convc._version import __version__ as __version__

if TYPE_CHECKING:
    from convc.api import compile, load, run, verify
    from convc.build.folder import Build
    from convc.ir.network import Network
    from convc.verification.records import VerifyReport

__all__ = ["Build", "Network", "VerifyReport", "compile", "load", "run", "verify"]

_HOME = {
    "Build": "convc.build.folder",
    "Network": "convc.ir.network",
    "VerifyReport": "convc.verification.records",
    "compile": "convc.api",
    "load": "convc.api",
    "run": "convc.api",
    "verify": "convc.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'convc' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
