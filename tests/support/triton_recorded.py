"""Kernels of Triton with what its compiler said of them, for tests that run where there is no Triton."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from convc.triton.session import Call
from convc.triton.tensors import Tensor

FOREIGN = Path(__file__).parents[1] / "foreign"
CACHE = FOREIGN / "triton_cache"
"""A cache as Triton 3.9 leaves it, with the kernel of the page your_kernels.md: as it is there first, and mended."""
(CACHED,) = (
    path for path in CACHE.glob("*/pointwise.ptx") if path.with_suffix(".source").read_text().count("wait_barrier") == 2
)
"""The text of the first, which has a race."""


@dataclass
class Descriptor:
    """A tensor descriptor of the host, with the fields of Triton's."""

    base: Any
    shape: Any
    strides: Any
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False
    element_strides: Any = None
    pixel_box_lower_corner: Any = None
    pixel_box_upper_corner: Any = None


def described(array: np.ndarray, block: list[int], **more: Any) -> Descriptor:
    tensor = Tensor(array)
    return Descriptor(tensor, tensor.shape, tensor.stride(), block, **more)


def tile(block: list[int], elem_type: int = 6, size: int = 2, **more: Any) -> dict[str, Any]:
    """What Triton's compiler says of a descriptor with a swizzle of 128 bytes."""
    return {"swizzle": 3, "elem_size": size, "elem_type": elem_type, "block_size": block, "fp4_padded": False, **more}


def call_of(folder: str, signature: dict[str, Any], maps: list[dict[str, Any]], **more: Any) -> Call:
    """A call of a kernel of tests/foreign, whose launch file has the rest."""
    text = (FOREIGN / folder / "kernel.ptx").read_text()
    launch = json.loads((FOREIGN / folder / "launch.json").read_text())
    made = {"ctas": launch["cluster"][0], "shared": launch["shared_bytes"], "scratch": (0, 0)} | more
    return Call(name=launch["entry"], text=text, file=f"{folder}/kernel.ptx", signature=signature, maps=maps, **made)


def pointwise_metadata() -> dict[str, Any]:
    """The metadata of the kernel in `CACHED`."""
    return json.loads(CACHED.with_suffix(".json").read_text())


POINTWISE = {
    "x": "tensordesc<fp16[128,64],layout>", "w": "tensordesc<fp16[64,64],layout>",
    "y": "tensordesc<fp16[128,64],layout>", "C": "i32",
}  # fmt: skip


@dataclass
class PointwiseData:
    """Arguments of the kernel in `CACHED`, small integers."""

    x: np.ndarray = field(default_factory=lambda: integers(0, (196, 256)))
    w: np.ndarray = field(default_factory=lambda: integers(1, (64, 256)))
    y: np.ndarray = field(default_factory=lambda: np.zeros((196, 64), np.float16))

    @property
    def arguments(self) -> tuple[Any, ...]:
        pairs = ((self.x, [128, 64]), (self.w, [64, 64]), (self.y, [128, 64]))
        return (*(described(array, block) for array, block in pairs), 256)


def integers(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)
