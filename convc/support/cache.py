"""The compile cache: what was compiled once is read from the user's cache folder the next time.

Entries are bytes under a name, in one SQLite database that `diskcache` keeps: processes may read and write at the same
time, and the oldest entries go when the folder is full. What is stored are compressed bytes and never pickles, so
opening somebody else's cache runs nothing. An entry holds a digest of its name and contents: entries that were changed,
cut off or exchanged are compiled anew. The digest is no signature: who may write to the folder may write a kernel of
his own into it, so that only the user should. A cache may always be lost: an entry or a database that is damaged
costs a compilation, no more.

The environment variable ``CONVC_CACHE`` names another folder, or is ``off``.
"""

# pyright: reportMissingTypeStubs=false, reportIncompatibleMethodOverride=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportArgumentType=false
# diskcache has no types: what is inferred from its code (a timeout that must be an int) is not what it takes.

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import diskcache
import platformdirs

from convc.errors import InputError

VARIABLE = "CONVC_CACHE"
OFF = "off"

SIZE_LIMIT = 256 << 20
"""Bytes of the folder; a kernel takes about 14 KiB."""

MAX_ENTRY_BYTES = 64 << 20
"""An entry that unpacks to more is damaged."""

PATIENCE_S = 10.0
"""How long to wait for another process that writes."""

_BLOB = 1
"""The only way in which an entry is stored."""

_log = logging.getLogger(__name__)


class _Blobs(diskcache.Disk):
    """Texts as keys and bytes as values, inside the database: no files beside it, and no pickles."""

    def put(self, key: object) -> tuple[str, bool]:
        """A key as the database has it."""
        if type(key) is not str:
            raise TypeError(f"a key is a text, got {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: bool) -> Any:
        """Give a key back as it is in the database."""
        return key

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, memoryview]:
        """Columns size (of a file), mode, file name and value of an entry."""
        return 0, _BLOB, None, sqlite3.Binary(value)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> bytes | None:
        """The value of an entry that `store` wrote; None for any other."""
        return value if mode == _BLOB and filename is None and type(value) is bytes else None

    def remove(self, file_path: str) -> None:
        """Nothing: there are no files, whatever the database says."""


DIGEST_BYTES = 32
"""Bytes in front of an entry's: the SHA-256 of its name and contents."""


def _digest(key: str, data: bytes) -> bytes:
    """The digest of an entry, which an entry of another name does not have."""
    name = key.encode()
    return sha256(len(name).to_bytes(8, "little") + name + data).digest()


class KernelCache:
    """Bytes by name in a folder.

    The database is opened when it is first needed. Where it does not work, that is said once, and from then on
    nothing is found and nothing kept.
    """

    def __init__(self, folder: Path, size_limit: int = SIZE_LIMIT) -> None:
        self.folder = folder
        self.size_limit = size_limit
        self._open: diskcache.Cache | None = None
        self._broken = False

    def get(self, key: str) -> bytes | None:
        """Read what was kept under this name; None where there is nothing, or nothing whole."""
        packed = self._do(lambda cache: cache.get(key))
        if not isinstance(packed, bytes):
            return None
        unpack = zlib.decompressobj()
        try:
            data = unpack.decompress(packed, MAX_ENTRY_BYTES)
        except zlib.error:
            return None
        if not unpack.eof or data[:DIGEST_BYTES] != _digest(key, data[DIGEST_BYTES:]):
            return None  # cut off, changed, or put under another name
        return data[DIGEST_BYTES:]

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes under this name, in place of what is there."""
        packed = zlib.compress(_digest(key, data) + data, 1)
        self._do(lambda cache: cache.set(key, packed))

    def close(self) -> None:
        """Let go of the database; it is opened again when it is needed."""
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _do(self, work: Callable[[diskcache.Cache], object]) -> object:
        """What work on the open database gives; None where the database is busy or broken."""
        if self._broken:
            return None
        try:
            if self._open is None:
                self._open = diskcache.Cache(
                    str(self.folder),
                    timeout=PATIENCE_S,
                    disk=_Blobs,
                    size_limit=self.size_limit,
                    eviction_policy="least-recently-stored",
                    statistics=0,
                    tag_index=0,
                )
            return work(self._open)
        except diskcache.Timeout:
            return None
        except Exception as problem:
            self._broken = True
            self.close()
            _log.warning(
                "the compile cache in %s cannot be used (%s): compiling without it; delete the folder if it is damaged",
                self.folder,
                problem,
            )
            return None


def open_cache(setting: str | Path | bool | None = None) -> KernelCache | None:
    """The compile cache to use, or None for none.

    Args:
        setting: a folder; False for none; None or True for what ``CONVC_CACHE`` says (a folder or ``off``), and where
            it says nothing the user's cache folder.

    Raises:
        InputError: the folder that was named is a file, or cannot be made or written to.
    """
    if setting is False:
        return None
    if isinstance(setting, str | Path):
        return KernelCache(_usable(Path(setting), "the compile cache"))
    named = os.environ.get(VARIABLE, "")
    if named.lower() == OFF:
        return None
    if named:
        return KernelCache(_usable(Path(named), f"environment variable {VARIABLE}"))
    return KernelCache(default_folder())


@contextmanager
def kept_kernels(setting: str | Path | bool | None = None) -> Generator[KernelCache | None, None, None]:
    """The compile cache as `open_cache` gives it, closed at the end of the block."""
    cache = open_cache(setting)
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


def default_folder() -> Path:
    """Name the folder of this user's cache, such as ``~/.cache/convc/kernels``."""
    return platformdirs.user_cache_path("convc", appauthor=False) / "kernels"


def _usable(folder: Path, who: str) -> Path:
    """The folder, which is made where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "it may not be written to")
    except OSError as problem:
        raise InputError(
            f"expected a folder to keep compiled kernels in: {problem.strerror}",
            where=f"{who}: {folder}",
            hint=f"name a folder, or switch the cache off (--no-cache, {VARIABLE}={OFF})",
        ) from None
    return folder.resolve()
