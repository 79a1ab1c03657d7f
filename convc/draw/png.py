"""Pictures as PNG, through the library of the extra ``convc[draw]``."""

from __future__ import annotations

import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from convc.draw.svg import Picture, plain
from convc.errors import InputError, ToolError
from convc.support.progress import Tell

EXTRA = "convc[draw]"

LARGEST = 16_000
"""Pixels of the longest side."""

WORDS_A_SECOND = 4000
"""Words that are drawn in a second, about: they take nearly all of the time."""

LONG_S = 1.0
"""A picture that should take longer is drawn in a process of its own where somebody is told: the library holds the
interpreter while it draws."""

TOLD_S = 0.2
"""Seconds from one sign of life to the next."""


def require_png() -> None:
    """Raise `ToolError` where the package that makes PNG files cannot be imported."""
    try:
        import resvg_py as _  # noqa: F401
    except ImportError as missing:
        raise ToolError(
            f"pictures become PNG with the package resvg-py, which cannot be imported: {missing}",
            hint=f"pip install '{EXTRA}', or name a file that ends in .svg",
        ) from missing


def png(picture: Picture, tell: Tell | None = None) -> bytes:
    """The PNG of a picture, in its colours for light pages.

    Args:
        picture: what is drawn.
        tell: called with what is being done and about the share that is done; None: not called.

    Raises:
        ToolError: the package is not there.
        InputError: a side has more than `LARGEST` pixels.
    """
    require_png()
    if max(picture.width, picture.height) > LARGEST:
        size = f"{picture.width:.0f} x {picture.height:.0f}"
        raise InputError(f"a PNG has at most {LARGEST} pixels a side, this picture is {size}", hint="write FILE.svg")
    text = plain(picture.svg())
    seconds = text.count("<text") / WORDS_A_SECOND
    if tell is None or seconds < LONG_S:
        return drawn(text)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        work: Future[bytes] = pool.submit(drawn, text)
        started = time.monotonic()
        while not wait([work], TOLD_S).done:
            past = time.monotonic() - started
            tell("draw the PNG", past / (past + seconds))
        return work.result()


def drawn(svg: str) -> bytes:
    """The PNG of an SVG."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg))
