"""The evaluator of `onnx.reference` as convc calls it: arrays by name in, a list out."""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import FunctionProto, GraphProto, ModelProto
from onnx.reference.op_run import OpRun

class ReferenceEvaluator:
    functions_: dict[tuple[str, str], ReferenceEvaluator]
    def __init__(
        self,
        proto: ModelProto | GraphProto,
        opsets: dict[str, int] | None = None,
        functions: Sequence[ReferenceEvaluator | FunctionProto] | None = None,
        new_ops: Sequence[type[OpRun]] | None = None,
    ) -> None: ...
    def run(self, output_names: None, feed_inputs: Mapping[str, Any]) -> list[Any]: ...
