"""Networks in narrow types, made of float32 ones by the tools that people use."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import onnx
from onnxruntime.quantization import quantize_dynamic
from support.quantised_models import quantised, resnet

from zoo.classifiers import mobilenet_v4, shufflenet


def qdq() -> onnx.ModelProto:
    """A residual network with QuantizeLinear and DequantizeLinear around its nodes, scales per channel."""
    return quantised(resnet(), "qdq", per_channel=True)


def dynamic() -> onnx.ModelProto:
    """A mobile network quantised while it runs: DynamicQuantizeLinear, ConvInteger, and the scale behind."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "dynamic.onnx"
        onnx.save(mobilenet_v4(), source)
        logging.disable(logging.WARNING)
        try:
            quantize_dynamic(source, target, op_types_to_quantize=["Conv"])
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load(target)


def float16() -> onnx.ModelProto:
    """A network that onnxruntime's converter made float16, with Casts at its ends and nodes in no order."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    logging.disable(logging.WARNING)
    try:
        return convert_float_to_float16(shufflenet(), keep_io_types=True)
    finally:
        logging.disable(logging.NOTSET)
