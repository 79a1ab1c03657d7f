"""`Scan` on the host, as ONNX defines it where `onnx.reference` does not.

Its own class takes the operator of operator set 8, whose inputs have a batch axis and may be of different lengths, for
that of set 9, refuses other axes and directions than the first (and takes some of them for it), and has no result where
nothing is scanned.

Source: ONNX operators, ``Scan`` of versions 8 and 9, whose pseudo-code this is. What set 8 leaves undefined, behind the
end of a shorter sequence, is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TypeProto
from onnx.reference.op_run import OpRun

from convc.runtime.network.loop import Body, stacked

_FIRST_WITHOUT_BATCH = 9
"""The operator set since which `Scan` has no batch axis."""


class Scan(OpRun):
    """The operator for `onnx.reference`, which knows it by the name of the class."""

    op_domain = ""
    body: Any  # the class of ONNX makes an attribute of each of the node's, and a method that runs each graph
    _run_body: Any

    def need_context(self) -> bool:
        """The body may name tensors of the graphs around it."""
        return True

    def _run(
        self, *given: Any, context: dict[str, Any] | None = None, num_scan_inputs: int = 0, **more: Any
    ) -> tuple[Any, ...]:
        """The last states, then what is scanned; ``more``: the attributes, and what is passed to the body."""
        attributes = more.get("attributes")
        if self.run_params["opsets"][""] < _FIRST_WITHOUT_BATCH:
            batch = _Batch(given[0], given[1 : len(given) - num_scan_inputs], given[len(given) - num_scan_inputs :])
            directions = more.get("directions") or [0] * num_scan_inputs
            return tuple(batch.joined([self._one(*batch.item(n, directions), context, attributes) for n in batch]))
        made = run_scan(given, num_scan_inputs, more, self._body(context, attributes), self.body.output_types)
        return self._check_and_fix_outputs(tuple(made))

    def _body(self, context: dict[str, Any] | None, attributes: Any) -> Body:
        names = self.body.input_names

        def run(given: Sequence[Any]) -> Sequence[Any]:
            own = dict(zip(names, given, strict=True))
            return self._run_body({**(context or {}), **own}, attributes=attributes)

        return run

    def _one(
        self, states: list[Any], rows: Sequence[np.ndarray], context: dict[str, Any] | None, attributes: Any
    ) -> list[Any]:
        """One sequence: the last states, then what each turn gave besides, stacked; ``rows``: (turns, ...) each."""
        return _sequence(states, rows, self._body(context, attributes), self.body.output_types)


def run_scan(
    given: Sequence[Any], scanned: int, attributes: Mapping[str, Any], body: Body, kinds: Sequence[TypeProto]
) -> list[Any]:
    """Run the body of a `Scan` of operator set 9 or later: the last states, then what is scanned.

    Args:
        given: the inputs of the node.
        scanned: how many of them are, which are the last ones.
        attributes: of the node: axes and directions.
        body: called with the states and a slice of each input that is scanned.
        kinds: types of what it gives, as far as the model says them.
    """
    states = list(given[: len(given) - scanned])
    directions = attributes.get("scan_input_directions") or [0] * scanned
    axes = attributes.get("scan_input_axes") or [0] * scanned
    rows = [_rows(*each) for each in zip(given[len(states) :], axes, directions, strict=True)]
    made = _sequence(states, rows, body, kinds)
    results = range(len(made) - len(states))
    forward = attributes.get("scan_output_directions") or [0 for _ in results]
    placed = attributes.get("scan_output_axes") or [0 for _ in results]
    moved = [
        np.moveaxis(_rows(array, 0, backwards), 0, axis)
        for array, axis, backwards in zip(made[len(states) :], placed, forward, strict=True)
    ]
    return [*made[: len(states)], *moved]


def _sequence(states: list[Any], rows: Sequence[np.ndarray], body: Body, kinds: Sequence[TypeProto]) -> list[Any]:
    """The last states, then what each turn gave besides, stacked; ``rows``: (turns, ...) each."""
    lengths = {len(array) for array in rows}
    if len(lengths) != 1:
        raise ValueError(f"inputs that are scanned together have one length, got {sorted(lengths)}")
    pieces: list[list[np.ndarray]] = [[] for _ in kinds[len(states) :]]
    for turn in range(lengths.pop()):
        made = body((*states, *(array[turn] for array in rows)))
        for scanned, piece in zip(pieces, made[len(states) :], strict=True):
            scanned.append(np.asarray(piece))
        states = list(made[: len(states)])
    return [*states, *stacked(pieces, kinds[len(states) :])]


def _rows(array: np.ndarray, axis: int, backwards: int) -> np.ndarray:
    """The array with what is scanned in front, in the order in which it is."""
    first = np.moveaxis(array, axis, 0)
    return first[::-1] if backwards else first


class _Batch:
    """The sequences of a `Scan` of operator set 8: axis 0 counts them, axis 1 is scanned.

    Args:
        lengths: of each sequence; None where all are whole.
        states: what each sequence begins with. scanned: the inputs that are scanned.
    """

    def __init__(self, lengths: np.ndarray | None, states: Sequence[np.ndarray], scanned: Sequence[np.ndarray]) -> None:
        self._states = states
        self._scanned = scanned
        self._count, self._longest = scanned[0].shape[:2]
        self._lengths = [self._longest] * self._count if lengths is None else [int(length) for length in lengths]

    def __iter__(self) -> Any:
        return iter(range(self._count))

    def item(self, number: int, directions: Sequence[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """States and rows of one sequence."""
        length = self._lengths[number]
        pairs = zip(self._scanned, directions, strict=True)
        rows = [_rows(array[number, :length], 0, backwards) for array, backwards in pairs]
        return [state[number] for state in self._states], rows

    def joined(self, made: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
        """The results of all sequences, with the batch axis in front."""
        states = [np.stack([each[n] for each in made]) for n in range(len(self._states))]
        scanned = [np.stack([self._padded(each[n]) for each in made]) for n in range(len(states), len(made[0]))]
        return [*states, *scanned]

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """The rows, and zeros up to the length of the longest sequence."""
        return np.pad(rows, [(0, self._longest - len(rows)), *[(0, 0)] * (rows.ndim - 1)])
