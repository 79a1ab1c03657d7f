"""One layer, from the model's array to the model's array.

A kernel reads and writes packed buffers (`convc.host_layout.device_layout`). Around its launch the host turns
activations (N, C, H, W) into the kernel's layout (and the residual, where the epilogue adds one), adds the packed
weights, and turns the output back into (N, K, P, Q). What happens in between is the simulator's business: it gets the
text, the launch file and the buffers, and no word on what they mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np

from convc import machine
from convc.build.folder import Layer
from convc.errors import InputError
from convc.host_layout.device_layout import DeviceLayout, device_bytes, output_index
from convc.host_layout.repack import (
    pack_activation,
    pack_residual,
    scaled_bias,
    unpack_output,
)
from convc.ir import dtypes
from convc.ir.findings import Finding, Judged
from convc.ir.problem import shape_text
from convc.ir.sums import FLOAT32, Sums, sums_of
from convc.machine import Counters, RunOptions
from convc.runtime.gradients import operand_shapes, random_operands, weights_gradient
from convc.runtime.special_values import special_launch
from convc.support.arrays import arrays_of, read_arrays
from convc.support.counted import counted
from convc.support.files import NpyHeader, read_npy
from convc.support.memory import require_memory

FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Element types that an input may have; it is rounded to the operand type of the kernel, once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun(Judged):
    """The result of running a layer.

    Attributes:
        name: of the layer.
        y: (N, K, P, Q) in the storage type of the layer's output (see `convc.ir.dtypes`).
        findings: what the simulator noticed, worst first.
        counters: what the kernel did.
        seconds: wall time of the simulator, without packing.
        sums: how its products were added.
        special: what was not finite among the operands, and what was done for it; empty where nothing had to be.
    """

    name: str
    y: np.ndarray
    findings: tuple[Finding, ...]
    counters: Counters
    seconds: float
    sums: Sums = FLOAT32
    special: str = ""

    def __repr__(self) -> str:
        return f"<LayerRun {self.name}: {self.y.dtype.name} {list(self.y.shape)}, {self.verdict.name}>"


def run_layer(
    layer: Layer,
    x: np.ndarray,
    options: RunOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
    residual: np.ndarray | None = None,
) -> LayerRun:
    """Run a layer's kernel on activations.

    Args:
        layer: kernel, launch and weights.
        x: (N, C, H, W), a floating-point type, rounded to the operand type; or of the operand type.
        options: for the simulator.
        progress: called with (CTAs done, CTAs in all).
        residual: (N, K, P, Q), a floating-point type, rounded to the output type; where the epilogue adds one.

    Raises:
        InputError: x or the residual has another shape or type; a residual is missing, or too many.
        LimitError: the buffers do not fit into memory.
        PtxSyntaxError, UnmodelledError, LaunchError: the kernel or its launch is not acceptable.
        MachineFault, DeadlockError: the kernel does something that hardware would not survive.
    """
    _check_input(layer.layout, x.shape, x.dtype, f"layer {layer.name!r}")
    require_room(layer.layout)
    run = run_packed(layer, input_buffers(layer, x, residual), options, progress)
    return replace(run, y=unpack_output(layer.layout, run.y))


def run_packed(
    layer: Layer,
    buffers: Mapping[str, np.ndarray],
    options: RunOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LayerRun:
    """Run a layer's kernel on buffers in its own layout, perhaps from another kernel (`convc.host_layout.handover`).

    Args:
        buffers: ``activation``, and ``residual`` where the epilogue adds one, as `convc.host_layout.device_layout`
            lays them out; others are taken from the layer where they are not given.

    Returns:
        As of `run_layer`, but y is the output buffer as it is, (N, P, Q, k_pitch).
    """
    given = _constants(layer) | dict(buffers)
    options = options or RunOptions()
    special = special_launch(layer.layout, given)
    first = given if special is None else special.finite
    result = machine.run(layer.ptx, layer.launch, first, file=layer.file, options=options, progress=progress)
    seconds = [result.seconds]

    def launch(marked: Mapping[str, np.ndarray]) -> np.ndarray:
        """One launch more."""
        again = machine.run(layer.ptx, layer.launch, marked, file=layer.file, options=options)
        seconds.append(again.seconds)
        return output_of(layer.layout, again.buffers)

    y = output_of(layer.layout, result.buffers)
    said = ""
    if special is not None:
        y, launches = special.completed(y, launch)
        said = f"{special}: {counted(launches, 'launch', 'launches')} more"
    return LayerRun(
        name=layer.name,
        y=y,
        findings=result.findings,
        counters=result.counters,
        seconds=sum(seconds),
        sums=sums_of(layer.ptx, layer.layout.model.operand, options.switches.numerics),
        special=said,
    )


def input_buffers(layer: Layer, x: np.ndarray, residual: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """The buffers that the host fills before the launch.

    Raises:
        InputError: the layer adds a residual and there is none, or it is not one; or the layer adds none.
    """
    bias = scaled_bias(layer.layout, layer.bias, x)
    buffers = _constants(layer) | {"activation": pack_activation(layer.layout, x), "bias": bias}
    where = f"layer {layer.name!r}"
    if residual is not None:
        _check_residual(layer.layout, residual.shape, residual.dtype, where)
        return buffers | {"residual": pack_residual(layer.layout, residual)}
    if layer.layout.residual is not None:
        shape = list(layer.layout.model.y_shape)
        raise InputError(f"the layer adds a residual of shape {shape} (N, K, P, Q), and there is none", where=where)
    return buffers


def _constants(layer: Layer) -> dict[str, np.ndarray]:
    """The buffers that a layer has by itself; filters that are an input of the launch are put into it before."""
    found = {"bias": layer.bias}
    return found if layer.filter is None else found | {"filter": layer.filter}


def require_room(layout: DeviceLayout, arrays: int = 0) -> None:
    """Raise `LimitError` where a run does not fit into memory: arrays of the host (bytes), and its buffers twice."""
    model = layout.model
    shapes = f"x {shape_text(model.x_shape)}, y {shape_text(model.y_shape)}"
    require_memory(arrays + 2 * device_bytes(layout), f"running layer {model.name!r} ({shapes})")


def random_inputs(layer: Layer, seed: int) -> dict[str, np.ndarray]:
    """The arrays that a layer takes, of small whole numbers, float32; `LimitError` where a run on them has no room."""
    gradient = weights_gradient(layer)
    if gradient is not None:
        return random_operands(layer, gradient, seed)
    model = layer.layout.model
    require_room(layer.layout, 12 * math.prod(model.x_shape))  # drawn as int64
    found = {"x": np.random.default_rng(seed).integers(-3, 4, model.x_shape).astype(np.float32)}
    if layer.layout.residual is not None:
        found["residual"] = np.random.default_rng((seed, 1)).integers(-3, 4, model.y_shape).astype(np.float32)
    return found


def last_writer(
    layer: Layer, x: np.ndarray, element: tuple[int, ...], residual: np.ndarray | None = None
) -> Finding | None:
    """The CTA, warp, lane and line that wrote the output element (n, k, p, q); None if none did.

    Runs the kernel again, watching that address.
    """
    return last_writer_packed(layer, input_buffers(layer, x, residual), element)


def last_writer_packed(
    layer: Layer, buffers: Mapping[str, np.ndarray], element: tuple[int, ...], only: tuple[int, ...] = ()
) -> Finding | None:
    """`last_writer` on buffers in the kernel's own layout, of the CTAs of the numbers ``only`` alone; empty: of all."""
    given = _constants(layer) | dict(buffers)
    offset = output_index(layer.layout, element) * dtypes.BY_NAME[layer.layout.output.dtype].bytes
    return machine.writer_of(layer.ptx, layer.launch, given, "output", offset, file=layer.file, only=only)


def read_inputs(source: Path | bytes, layer: Layer) -> dict[str, np.ndarray]:
    """Read the arrays that a layer takes from a ``.npy`` or ``.npz`` file or its bytes.

    They are called ``x`` and ``residual``, and ``dy`` too where the layer is a gradient of weights; one without a
    name is x. Each is checked before its data are loaded. bfloat16, which .npy cannot name, is taken from 2-byte
    records without a type (as numpy writes them).

    Raises:
        InputError: the file is missing or damaged, or holds another shape or type, or arrays of other names.
    """
    checks = _checks(layer)

    def accept(array: str, header: NpyHeader) -> str | None:
        check = checks.get(array or "x")
        if check is None:
            return f"expected arrays called {' and '.join(map(repr, checks))}, got {array!r}"
        return _reason(lambda: check(header.shape, from_npy_dtype(header.dtype)))

    found = arrays_of(source, "stdin", accept) if isinstance(source, bytes) else read_arrays(source, accept)
    arrays = {array or "x": values.view(from_npy_dtype(values.dtype)) for array, values in found.items()}
    if "x" not in arrays:
        raise InputError("there is no array 'x' in the file", where=f"layer {layer.name!r}")
    return arrays


Check = Callable[[tuple[int, ...], np.dtype], None]
"""Raises `InputError` for an array of a shape and type that is not taken."""


def _checks(layer: Layer) -> dict[str, Check]:
    """The arrays that a layer takes."""
    where = f"layer {layer.name!r}"
    gradient = weights_gradient(layer)
    if gradient is None:
        return {
            "x": lambda shape, dtype: _check_input(layer.layout, shape, dtype, where),
            "residual": lambda shape, dtype: _check_residual(layer.layout, shape, dtype, where),
        }
    shapes = operand_shapes(layer, gradient)

    def of(name: str) -> Check:
        return lambda shape, dtype: _check_floats(name, shapes[name], shape, dtype, where)

    return {name: of(name) for name in shapes}


def _check_floats(name: str, expected: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    if tuple(shape) != expected:
        raise InputError(f"expected {name} of shape {list(expected)}, got {list(shape)}", where=where)
    if dtype.name not in FLOATS:
        raise InputError(f"expected {name} of {', '.join(FLOATS)}, got {dtype.name}", where=where)


def read_beside(name: str, given: np.ndarray | str | Path | None, layer: Layer) -> np.ndarray | None:
    """An array that a layer takes beside its activations, from its ``.npy`` file where it is given as one.

    Raises:
        InputError: the layer takes none of that name; or as of `read_inputs`.
    """
    check = _checks(layer).get(name)
    if given is None:
        return None
    if check is None:
        raise InputError(f"the layer takes {' and '.join(_checks(layer))}, not {name}", where=f"layer {layer.name!r}")
    if isinstance(given, np.ndarray):
        check(given.shape, given.dtype)
        return given

    def fits(header: NpyHeader) -> str | None:
        return _reason(lambda: check(header.shape, from_npy_dtype(header.dtype)))

    array = read_npy(Path(given), check=fits)
    return array.view(from_npy_dtype(array.dtype))


def _reason(check: Callable[[], None]) -> str | None:
    """The message of the `InputError` that a check raises; None where it raises none."""
    try:
        check()
    except InputError as problem:
        return problem.message
    return None


def to_standard_dtype(y: np.ndarray) -> np.ndarray:
    """An array's values in a type that every numpy reads: bfloat16 becomes float32, others stay as they are."""
    return y.astype(np.float32) if y.dtype == ml_dtypes.bfloat16 else y


def output_of(layout: DeviceLayout, buffers: Mapping[str, np.ndarray]) -> np.ndarray:
    """The output among the buffers of a launch as elements, in the kernel's layout."""
    storage = dtypes.BY_NAME[layout.output.dtype].storage
    return buffers["output"].reshape(-1).view(storage).reshape(layout.output.shape)


def from_npy_dtype(dtype: np.dtype) -> np.dtype:
    """The type that an array from a ``.npy`` file stands for: numpy writes bfloat16 as two bytes without a type."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == np.dtype("V2") else dtype


def _check_input(layout: DeviceLayout, shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    """Raise `InputError` where an array is no input of the layer."""
    expected = layout.model.x_shape
    if tuple(shape) != expected:
        raise InputError(f"expected an input of shape {list(expected)} (N, C, H, W), got {list(shape)}", where=where)
    own = layout.model.operand_dtype.storage.name
    if dtype.name not in FLOATS and dtype.name != own:
        known = FLOATS if own in FLOATS else (*FLOATS, own)
        raise InputError(f"expected an input of {', '.join(known[:-1])} or {known[-1]}, got {dtype.name}", where=where)


def _check_residual(layout: DeviceLayout, shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    """Raise `InputError` where an array is no residual of the layer."""
    expected = layout.model.y_shape
    if layout.residual is None:
        raise InputError("the layer adds no residual, and there is one", where=where)
    if tuple(shape) != expected:
        raise InputError(f"expected a residual of shape {list(expected)} (N, K, P, Q), got {list(shape)}", where=where)
    if dtype.name not in FLOATS:
        raise InputError(f"expected a residual of {', '.join(FLOATS)}, got {dtype.name}", where=where)
