"""`Loop` on the host, as ONNX defines it where `onnx.reference` does not.

Its own class makes no turn where the condition is left out, lets the condition of the body end a loop that has none,
and joins what is scanned along the first axis of the pieces in place of a new one.

Source: ONNX operators, ``Loop``: the four forms of its inputs, and "scan outputs are concatenated along a new axis".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TypeProto, helper
from onnx.reference.ops.op_loop import Loop as ReferenceLoop

Body = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs a body on the values of its inputs."""


class Loop(ReferenceLoop):
    """The operator for `onnx.reference`, which knows it by the name of the class."""

    op_domain = ""
    body: Any  # the class of ONNX makes an attribute of each of the node's, and a method that runs each graph
    _run_body: Any

    def _run(
        self,
        M: np.ndarray | None,
        cond: np.ndarray | None,
        *initial: Any,
        context: dict[str, Any] | None = None,
        body: Any = None,
        attributes: Any = None,
        **more: Any,
    ) -> tuple[Any, ...]:
        """The values that are carried, then what is scanned, (turns, *piece); ``more`` is passed to the body."""
        names = self.body.input_names

        def turn(given: Sequence[Any]) -> Sequence[Any]:
            inside = {**(context or {}), **dict(zip(names, given, strict=True))}
            return self._run_body(inside, attributes=attributes, **more)

        return self._check_and_fix_outputs(tuple(run_loop(M, cond, initial, turn, self.body.output_types)))


def run_loop(
    most: np.ndarray | None,
    condition: np.ndarray | None,
    initial: Sequence[Any],
    body: Body,
    kinds: Sequence[TypeProto],
) -> list[Any]:
    """Run the body of a loop: the values that are carried, then what is scanned, (turns, *piece).

    Args:
        most, condition: the first two inputs of the node, None where one is left out.
        initial: what is carried into the first turn.
        body: called with the number of the turn, true, and what is carried.
        kinds: types of what it gives, as far as the model says them.
    """
    carried = list(initial)
    scanned: list[list[np.ndarray]] = [[] for _ in kinds[1 + len(carried) :]]
    turn = 0
    goes_on = condition is None or bool(np.all(condition))
    while goes_on and (most is None or turn < int(np.asarray(most).item())):
        made = body((np.array(turn, np.int64), np.array(True), *carried))
        for pieces, piece in zip(scanned, made[1 + len(carried) :], strict=True):
            pieces.append(np.asarray(piece))
        carried = list(made[1 : 1 + len(carried)])
        goes_on = condition is None or bool(np.all(made[0]))
        turn += 1
    return [*carried, *stacked(scanned, kinds[1 + len(carried) :])]


def stacked(scanned: Sequence[list[np.ndarray]], kinds: Sequence[TypeProto]) -> list[np.ndarray]:
    """The pieces of all turns along a new first axis; without a turn as far as the body says what they would be."""
    return [np.stack(pieces) if pieces else _nothing(kind) for pieces, kind in zip(scanned, kinds, strict=True)]


def _nothing(kind: TypeProto) -> np.ndarray:
    """No pieces of a type; an open extent counts as 0."""
    extent = [max(0, size.dim_value) for size in kind.tensor_type.shape.dim]
    return np.zeros((0, *extent), helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type or 1))
