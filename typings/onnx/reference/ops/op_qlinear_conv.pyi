from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

class QLinearConv(OpRun):
    def _run(self, *inputs: Any, **attributes: Any) -> tuple[np.ndarray]: ...
