"""`Scan` on the host, as ONNX defines it where `onnx.reference` does not.

Its own class takes the operator of operator set 8, whose inputs have a batch axis and may be of different lengths, for
that of set 9, refuses other axes and directions than the first (and takes some of them for it), and has no result where
nothing is scanned.

Source: ONNX operators, ``Scan`` of versions 8 and 9, whose pseudo-code this is. What set 8 leaves undefined, behind the
end of a shorter sequence, is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

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
        states = list(given[: len(given) - num_scan_inputs])
        directions = more.get("scan_input_directions") or [0] * num_scan_inputs
        axes = more.get("scan_input_axes") or [0] * num_scan_inputs
        rows = [_rows(*each) for each in zip(given[len(states) :], axes, directions, strict=True)]
        made = self._one(states, rows, context, attributes)
        results = range(len(made) - len(states))
        forward = more.get("scan_output_directions") or [0 for _ in results]
        placed = more.get("scan_output_axes") or [0 for _ in results]
        scanned = [
            np.moveaxis(_rows(array, 0, backwards), 0, axis)
            for array, axis, backwards in zip(made[len(states) :], placed, forward, strict=True)
        ]
        return self._check_and_fix_outputs((*made[: len(states)], *scanned))

    def _one(
        self, states: list[Any], rows: Sequence[np.ndarray], context: dict[str, Any] | None, attributes: Any
    ) -> list[Any]:
        """One sequence: the last states, then what each turn gave besides, stacked; ``rows``: (turns, ...) each."""
        lengths = {len(array) for array in rows}
        if len(lengths) != 1:
            raise ValueError(f"inputs that are scanned together have one length, got {sorted(lengths)}")
        names = self.body.input_names
        pieces: list[list[np.ndarray]] = [[] for _ in self.body.output_names[len(states) :]]
        for turn in range(lengths.pop()):
            own = dict(zip(names, (*states, *(array[turn] for array in rows)), strict=True))
            made = self._run_body({**(context or {}), **own}, attributes=attributes)
            for scanned, piece in zip(pieces, made[len(states) :], strict=True):
                scanned.append(np.asarray(piece))
            states = list(made[: len(states)])
        stacked = [np.stack(each) if each else self._nothing(len(states) + n) for n, each in enumerate(pieces)]
        return [*states, *stacked]

    def _nothing(self, number: int) -> np.ndarray:
        """What no turn has scanned, as far as the body says what it would be; an open extent counts as 0."""
        kind = self.body.output_types[number].tensor_type
        extent = [max(0, size.dim_value) for size in kind.shape.dim]
        return np.zeros((0, *extent), helper.tensor_dtype_to_np_dtype(kind.elem_type or 1))


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
