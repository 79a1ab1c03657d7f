"""The next command to try, as a line that works as printed."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from convc.api.options import ReadOptions, ScheduleOptions
from convc.cli.options import Chosen
from convc.cli.streams import DASH

if TYPE_CHECKING:
    from convc.report.console import Console


class Timed(Protocol):
    """Anything with an estimate."""

    @property
    def cycles(self) -> float:
        """Clock cycles of a launch."""
        ...


def slowest(layers: Iterable[tuple[str, Timed | None]]) -> str | None:
    """The name of the layer that should take longest: the first where nothing is estimated; None where none is."""
    estimates = list(layers)
    return max(estimates, key=lambda layer: 0.0 if layer[1] is None else layer[1].cycles)[0] if estimates else None


def print_next(
    console: Console, command: str, path: Path, layer: str | None, chosen: Chosen | None = None, *more: str
) -> None:
    """Print a command on one layer of a model or a build folder.

    Nothing where no layer is named, where the model came from stdin, which nobody can read again, or where the name
    cannot be typed.
    """
    if layer is None or str(path) == DASH or not layer.isprintable():
        return
    named = [f"--layer={layer}"] if layer.startswith("-") else ["--layer", layer]
    words = ["convc", command, str(path), *named, *(() if chosen is None else arguments(chosen)), *more]
    console.print(f"next: {shlex.join(words)}", soft_wrap=True)


def arguments(chosen: Chosen) -> list[str]:
    """Spell as options how a model is read and its layers are scheduled."""
    words: list[str] = []
    for record, default in ((chosen.read, ReadOptions()), (chosen.schedule, ScheduleOptions())):
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if field.name == "say" or value == getattr(default, field.name):
                continue
            if field.name == "shapes":
                words += [word for name, shape in value.items() for word in ("--shape", _shape(name, shape))]
                continue
            name = field.name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no-{name}")
            else:
                words += [f"--{name}", str(value)]
    return words


def _shape(name: str, shape: tuple[int, ...]) -> str:
    """A shape as ``--shape`` takes it."""
    return f"{name}:{'x'.join(map(str, shape))}"
