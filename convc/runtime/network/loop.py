"""`Loop` on the host, as ONNX defines it where `onnx.reference` does not.

Its own class makes no turn where the condition is left out, lets the condition of the body end a loop that has none,
and joins what is scanned along the first axis of the pieces in place of a new one.

Source: ONNX operators, ``Loop``: the four forms of its inputs, and "scan outputs are concatenated along a new axis".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.ops.op_loop import Loop as ReferenceLoop


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
        carried = list(initial)
        scanned: list[list[np.ndarray]] = [[] for _ in range(self.K)]
        turn = 0
        goes_on = cond is None or bool(np.all(cond))
        while goes_on and (M is None or turn < int(np.asarray(M).item())):
            number = np.array(turn, np.int64)
            going = np.array(True)
            given = {**(context or {}), **dict(zip(names, (number, going, *carried), strict=True))}
            made = self._run_body(given, attributes=attributes, **more)
            carried = list(made[1 : 1 + self.N])
            for pieces, piece in zip(scanned, made[1 + self.N :], strict=True):
                pieces.append(np.asarray(piece))
            goes_on = cond is None or bool(np.all(made[0]))
            turn += 1
        joined = [np.stack(pieces) if pieces else self._nothing(number) for number, pieces in enumerate(scanned)]
        return self._check_and_fix_outputs((*carried, *joined))

    def _nothing(self, number: int) -> np.ndarray:
        """What no turn has scanned, as far as the body says what it would be; an open extent counts as 0."""
        kind = self.body.output_types[1 + self.N + number].tensor_type
        extent = [max(0, size.dim_value) for size in kind.shape.dim]
        return np.zeros((0, *extent), helper.tensor_dtype_to_np_dtype(kind.elem_type or 1))
