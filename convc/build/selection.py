"""Layers by name: one of them, several, or all that a pattern fits, with a guess where no layer is meant."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from convc.errors import InputError
from convc.support.guessing import nearest

LISTED = 20
"""So many names fit into a message."""

LayerNames = str | Sequence[str]
"""Names or patterns (``*``, ``?`` and ``[...]``, as a shell has them), one or several."""


class Named(Protocol):
    """Any record of a layer."""

    @property
    def name(self) -> str:
        """As in the model; unique."""
        ...


LayerT = TypeVar("LayerT", bound=Named)


def pick_layer(layers: Iterable[LayerT], name: str | None, where: str) -> LayerT:
    """The one layer that a name or a pattern means; the only one there is where no name is given.

    Raises:
        InputError: there is no such layer, or several.
    """
    found = tuple(layers) if name is None else pick_layers(layers, name, where)
    if len(found) == 1:
        return found[0]
    names = [layer.name for layer in found]
    if name is None:
        message = f"there are {len(names)} layers: choose one with --layer"
    else:
        message = f"{name!r} matches {len(names)} layers, expected one"
    raise InputError(message, where=where, hint=f"layers: {_listed(names)}")


def pick_layers(layers: Iterable[LayerT], wanted: LayerNames | None, where: str) -> tuple[LayerT, ...]:
    """The layers that names or patterns mean, each once and in the order of the model; all where none is given.

    Raises:
        InputError: a name or a pattern means no layer.
    """
    known = {layer.name: layer for layer in layers}
    if wanted is None:
        return tuple(known.values())
    chosen: set[str] = set()
    for pattern in names_of(wanted):
        meant = {pattern} & known.keys() or set(fnmatch.filter(known, pattern))
        if not meant:
            raise InputError(f"there is no layer {pattern!r}", where=where, hint=_hint(pattern, list(known)))
        chosen |= meant
    return tuple(layer for name, layer in known.items() if name in chosen)


def names_of(wanted: LayerNames) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (wanted,) if isinstance(wanted, str) else tuple(wanted)


def _hint(name: str, known: Sequence[str]) -> str:
    listed = f"layers: {_listed(known)}"
    near = nearest(name, known)
    return listed if near is None else f"did you mean {near!r}? {listed}"


def _listed(names: Sequence[str]) -> str:
    """Names, the first of them where there are many."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
