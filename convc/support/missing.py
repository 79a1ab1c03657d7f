"""A file that is not there: one sentence wherever it is looked for, with the name next to it that was meant."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from convc.errors import ConvcError, InputError
from convc.support.guessing import nearest

NO_FILE = "there is no such file or folder"

LOOKED_AT = 5000
"""Entries of a folder among which a name is guessed."""


def is_missing(path: Path) -> bool:
    """Whether there is nothing of that name; False where the system does not say, which is told by who opens it."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def no_file(path: Path, error: type[ConvcError] = InputError, hint: str = "") -> ConvcError:
    """The error for a file that is not there; ``hint``: what else can be done where no name is near."""
    return error(NO_FILE, where=str(path), hint=_meant(path) or hint)


def _meant(path: Path) -> str:
    """Name the file that was meant, if one beside it is called nearly so, or the first folder that is not there."""
    gone = next((each for each in reversed(path.parents) if is_missing(each)), None)
    if gone is not None:
        return f"the folder {str(gone)!r} is not there{_guess(gone)}"
    if path.is_symlink():
        return f"it is a link to {str(path.readlink())!r}, which is not there"
    return _guess(path).removeprefix("; ")


def _guess(path: Path) -> str:
    """A question for the entry of a folder that is called nearly as one that is not there; empty where none is."""
    try:
        names = [entry.name for entry in islice(path.parent.iterdir(), LOOKED_AT)]
    except OSError:
        return ""
    # Endings make all names alike, so names of the same ending are compared without it, and others have to be nearer.
    stems = {Path(name).stem: name for name in names if Path(name).suffix == path.suffix}
    stem = nearest(path.stem, stems)
    near = nearest(path.name, names, ratio=0.8) if stem is None else stems[stem]
    return "" if near is None else f"; did you mean {str(path.with_name(near))!r}?"
