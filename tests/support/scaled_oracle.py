"""What bytes with scale factors stand for, by the number types of ml_dtypes alone."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from convc.compiler.tile.steps.scaled import MmaScaled

ELEMENTS = {
    "mxfp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32),
    "mxfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32),
    "nvfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16),
}
"""Types of elements and factors, and elements of a block."""


def scaled_numbers(step: MmaScaled, rows: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Bytes of a tile (rows, bytes) and their factors as the numbers that they stand for, float32."""
    element, factor, block = ELEMENTS[step.operand]
    codes = rows[:, : 32 * step.atoms].astype(np.uint8)
    if element is ml_dtypes.float4_e2m1fn:
        codes = np.stack((codes & 15, codes >> 4), axis=-1).reshape(len(codes), -1)
    values = codes.view(element).astype(np.float32).reshape(len(codes), -1, block)
    scale = factors.astype(np.uint8)[:, : values.shape[1]].view(factor).astype(np.float32)
    return (values * scale[:, :, None]).reshape(len(codes), -1)
