"""Where the compiler's own files are, and what they are now: a digest that changes when any of them does."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from importlib import resources
from pathlib import Path

from convc._version import __version__
from convc.errors import BuildError

SHAPING = ("jinja2", "msgspec", "sympy")
"""Libraries whose version can change what is compiled, or how it is written down."""


def template_folder() -> Path:
    """The folder of the templates: inside the installed package, or at the top of a checkout."""
    installed = resources.files("convc") / "_templates"
    for folder in (Path(str(installed)), Path(__file__).resolve().parents[1] / "templates"):
        if (folder / "kernel.ptx.j2").is_file():
            return folder
    raise BuildError(
        "the kernel templates are missing from this installation",
        where=str(installed),
        hint="install convc again; a checkout has them in templates/",
    )


@functools.cache
def compiler_digest() -> str:
    """SHA-256 of the version of convc, of its source files and templates, and of the versions of `SHAPING`.

    Reading the 300 files takes about ten milliseconds, once a process. Files are taken by their contents, not their
    times, so that a checkout of another commit is noticed, and one back again too.
    """
    digest = hashlib.sha256(__version__.encode())
    for name in SHAPING:
        digest.update(f"\0{name} {importlib.metadata.version(name)}".encode())
    for folder, pattern in ((Path(__file__).resolve().parent, "*.py"), (template_folder(), "*.j2")):
        for path in sorted(folder.rglob(pattern)):
            content = path.read_bytes()
            digest.update(f"\0{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
