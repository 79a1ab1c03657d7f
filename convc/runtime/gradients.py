"""Operands of a layer that makes the gradient of weights: its filters are an input, as its activations are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from convc.build.folder import Layer
from convc.errors import InputError
from convc.host_layout.repack import pack_filter
from convc.ir.gradients import WEIGHTS, wgrad_operands, wgrad_result
from convc.ir.network import Gradient
from convc.support.memory import require_memory


def weights_gradient(layer: Layer) -> Gradient | None:
    """Give what a layer is the gradient of, if that is by weights: it takes x and dy then, and no activations alone."""
    return layer.gradient if layer.gradient is not None and layer.gradient.of == WEIGHTS else None


def operand_shapes(layer: Layer, gradient: Gradient) -> dict[str, tuple[int, ...]]:
    """Shapes of the forward input x (N, C, H, W), of the gradient dy of the output (N, K, P, Q), and of an old dw."""
    forward = gradient.forward
    old = {} if layer.layout.residual is None else {"residual": forward.w_shape}
    return {"x": forward.x_shape, "dy": forward.y_shape, **old}


def random_operands(layer: Layer, gradient: Gradient, seed: int) -> dict[str, np.ndarray]:
    """Small whole numbers, float32."""
    rng = np.random.default_rng(seed)
    shapes = operand_shapes(layer, gradient)
    require_memory(12 * sum(map(math.prod, shapes.values())), f"random operands of {gradient.forward.name!r}")
    return {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}


def ready_for(layer: Layer, arrays: Mapping[str, np.ndarray]) -> tuple[Layer, np.ndarray, np.ndarray | None]:
    """A layer with its filters, its activations, and its residual where its epilogue adds one.

    Args:
        layer: as a build has it.
        arrays: x; dy, where it is the gradient of weights; and residual.

    Raises:
        InputError: the shapes are others.
    """
    gradient = weights_gradient(layer)
    residual = arrays.get("residual")
    if gradient is None:
        return layer, arrays["x"], residual
    if "dy" not in arrays:
        raise InputError(
            f"a gradient of weights needs dy of shape {list(gradient.forward.y_shape)} (N, K, P, Q) beside x",
            where=f"layer {layer.name!r}",
            hint="give a .npz file with x and dy, or convc.run(build, x, dy=dy)",
        )
    x, dy = wgrad_operands(gradient, arrays["x"], arrays["dy"])
    old = None if residual is None else wgrad_result(residual)  # the same exchange of K and C/G
    return replace(layer, filter=pack_filter(layer.layout, dy)), x, old


def as_model(layer: Layer, y: np.ndarray) -> np.ndarray:
    """A result as the model has it: the gradient of weights in the order of the weights."""
    return y if weights_gradient(layer) is None else wgrad_result(y)
