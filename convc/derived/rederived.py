"""The derivation of a `convc.derive` that was changed since ``derived.json`` was written: derived anew, once, and kept.

It is kept beside compiled kernels (`convc.support.cache`): under the digest of what it was derived by, whole or not at
all, and derived again where the entry is damaged. What it says decides what kernels compute, so that it is neither read
from a folder of another user nor written to one.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec

from convc.errors import DerivationError
from convc.support.cache import KernelCache, kept_kernels

_log = logging.getLogger(__name__)


def rederived(digest: str) -> bytes:
    """The record of the derivation as it is now, as JSON: from the user's cache, or derived anew.

    Raises:
        DerivationError: a rewrite or a theorem is refused as it is now.
    """
    with kept_kernels() as cache:
        key = f"derived.json {digest}"
        own = cache if cache is not None and _own(cache.folder) else None
        found = None if own is None else own.get(key)
        if found is not None and names(found) == digest:
            return found
        found = _derived(own)
        if own is not None:
            own.put(key, found)
        return found


def names(record: bytes) -> str:
    """The digest that a record names; "" where it is damaged."""
    try:
        return msgspec.json.decode(record, type=_Head).digest
    except msgspec.MsgspecError:
        return ""


class _Head(msgspec.Struct, frozen=True):
    digest: str


def _derived(cache: KernelCache | None) -> bytes:
    # Imported here because only a changed derivation needs sympy.
    from convc.derive.theorem import Refused
    from convc.derive.write import text

    started = time.monotonic()
    try:
        found = text().encode()
    except Refused as refused:
        raise DerivationError(
            f"the derivation is refused: {refused}",
            where="convc/derive, which is not as it was released",
            hint="undo what was changed there, or install convc anew",
        ) from None
    _log.warning(
        "convc/derive has changed since derived.json was written: derived anew in %.1f s, %s",
        time.monotonic() - started,
        "and not kept" if cache is None else f"kept in {cache.folder}",
    )
    return found


def _own(folder: Path) -> bool:
    """Whether a folder, or the nearest one above it that there is, belongs to this user or to the system."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return not hasattr(os, "getuid") or folder.stat().st_uid in (os.getuid(), 0)
