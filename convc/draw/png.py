"""Pictures as PNG, through the library of the extra ``convc[draw]``."""

from __future__ import annotations

from convc.draw.svg import Picture, plain
from convc.errors import InputError, ToolError

EXTRA = "convc[draw]"

LARGEST = 16_000
"""Pixels of the longest side."""


def require_png() -> None:
    """Raise `ToolError` where the package that makes PNG files cannot be imported."""
    try:
        import resvg_py as _  # noqa: F401
    except ImportError as missing:
        raise ToolError(
            f"pictures become PNG with the package resvg-py, which cannot be imported: {missing}",
            hint=f"pip install '{EXTRA}', or name a file that ends in .svg",
        ) from missing


def png(picture: Picture) -> bytes:
    """The PNG of a picture, in its colours for light pages.

    Raises:
        ToolError: the package is not there.
        InputError: a side has more than `LARGEST` pixels.
    """
    require_png()
    import resvg_py

    if max(picture.width, picture.height) > LARGEST:
        size = f"{picture.width:.0f} x {picture.height:.0f}"
        raise InputError(f"a PNG has at most {LARGEST} pixels a side, this picture is {size}", hint="write FILE.svg")
    return bytes(resvg_py.svg_to_bytes(svg_string=plain(picture.svg())))
