r"""Infinities and NaN, in kernels whose layout multiplies numbers that do not belong together.

Some layouts fill filters with zeros where an output does not read an activation: packs of groups
(`convc.host_layout.groups`), phases of transposed convolutions (`convc.host_layout.transposed`), places of folded axes
that no tap reads (`convc.host_layout.fold`). For finite numbers such a product is zero. But infinity times zero is NaN,
and would reach outputs that the model keeps apart. So would an infinite weight by the zeros of padding.

So a launch that meets such numbers is made of several, of the same kernel, all on finite numbers:

1. The launch itself, with zeros in the place of what is not finite. Every output that reads nothing of it is done.
2. Launches on *marks*, numbers that are positive where something is and zero elsewhere. A sum of their products is not
   zero just where an output reads such a pair. With x the activations and w the weights, the sum of an output is

       +inf   if a pair is  (+inf, w > 0), (-inf, w < 0), (x > 0, +inf) or (x < 0, -inf)
       -inf   if a pair is  (+inf, w < 0), (-inf, w > 0), (x < 0, +inf) or (x > 0, -inf)
       NaN    if a pair has a NaN, or is an infinity and a zero; or if there are pairs of both kinds above

   A pair that does not occur in the data needs no launch: NaN among the activations takes one, infinities two or
   three of each sign.
3. The host puts bias and epilogue on these sums, and the results into their places.

What is padding is not multiplied: there is no pixel, so that a weight that is not finite means nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convc.host_layout.block_scaled import NAN_FACTOR
from convc.host_layout.device_layout import DeviceLayout, has_multipliers, unread_products
from convc.host_layout.repack import pack_activation, pack_filter
from convc.ir import dtypes
from convc.ir.epilogue import neutral_residual
from convc.ir.epilogue_values import after_epilogue

Launch = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Launches the kernel on buffers: the output buffer, as elements."""

MARKS = ((1.0, 1.0), (-1.0, 1.0), (256.0, 256.0), (-256.0, 256.0))
"""Marks of activations and weights to choose from: the products must pass the epilogue."""

COUNTS = np.array([1.0, 2.0, 7.0, 1000.0])
"""Products that a sum of marks may have, for that choice."""

_PAIRS = {
    "above": (("+inf", "above"), ("-inf", "below"), ("above", "+inf"), ("below", "-inf")),
    "below": (("+inf", "below"), ("-inf", "above"), ("below", "+inf"), ("above", "-inf")),
    "nan": (("nan", "any"), ("any", "nan"), ("inf", "zero"), ("zero", "inf")),
}
"""Kinds of activation and weight, by the sum that their product makes; above and below zero are infinities too."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One operand, as its buffer holds it.

    Attributes:
        layout: of the kernel.
        name: activation or filter.
        packed: the buffer.
    """

    layout: DeviceLayout
    name: str
    packed: np.ndarray

    @cached_property
    def special(self) -> bool:
        """Whether something is not finite: where a magnitude, as a whole number, is that of infinity or above."""
        if self.layout.blocks is not None:
            return bool(self._nan_blocks().any())
        kind = self._kind
        words = self.packed.view(f"u{kind.storage.itemsize}")
        [infinity] = dtypes.encode(kind, np.array([np.inf])).view(words.dtype)
        return bool(words.size) and bool((words & (infinity | infinity - 1)).max() >= infinity)

    def finite(self) -> np.ndarray:
        """The buffer with zeros in the place of what is not finite."""
        made = self.packed.copy()
        if self.layout.blocks is not None:
            self._factors(made)[self._nan_blocks()] = 0
        else:
            made[~np.isfinite(self._values)] = 0
        return made

    def occurs(self, kind: str) -> bool:
        """Whether the buffer may have something of a kind of `_PAIRS`."""
        if kind == "any":
            return True
        if self.layout.blocks is not None:
            return kind == "nan" and self.special
        if kind in ("above", "below", "zero"):
            return bool(_of_kind(kind, self._values).any())
        return self.special and bool(_of_kind(kind, self._values).any())

    def marks(self, kind: str, mark: float) -> np.ndarray | None:
        """A buffer with ``mark`` where the operand is of a kind of `_PAIRS`; None: it is so nowhere."""
        shape = self.layout.model.x_shape if self.name == "activation" else self.layout.model.w_shape
        pack = pack_activation if self.name == "activation" else pack_filter
        marks = pack(self.layout, np.full(shape, mark, np.float32))
        if kind == "any":
            return marks
        if self.layout.blocks is not None:
            blocks = self._elements(marks)
            blocks[~self._nan_blocks()] = 0
            return marks
        chosen = _of_kind(kind, self._values) & (marks != 0)
        return np.where(chosen, marks, np.zeros((), marks.dtype)) if chosen.any() else None

    @property
    def _kind(self) -> dtypes.DType:
        buffer = self.layout.activation if self.name == "activation" else self.layout.filter
        return dtypes.BY_NAME[buffer.dtype]

    @cached_property
    def _values(self) -> np.ndarray:
        return dtypes.widen(self._kind, self.packed)

    @property
    def _groups(self) -> int:
        """Runs of channels in a row of the buffer."""
        return self.layout.problem.groups if self.name == "activation" else 1

    def _nan_blocks(self) -> np.ndarray:
        """Which scale factors are NaN, bool (..., runs, blocks of a run)."""
        assert self.layout.blocks is not None
        return self._factors(self.packed) == NAN_FACTOR[self.layout.blocks.factor]

    def _factors(self, packed: np.ndarray) -> np.ndarray:
        """The scale factors of a buffer, a view (..., runs, blocks of a run)."""
        assert self.layout.blocks is not None
        behind = packed[..., self._groups * self.layout.c_pitch :]
        rows = behind.reshape(*packed.shape[:-1], self._groups, self.layout.factor_pitch)
        return rows[..., : self.layout.c_pitch // self.layout.blocks.factor_bytes]

    def _elements(self, packed: np.ndarray) -> np.ndarray:
        """The elements of a buffer, a view (..., runs, blocks of a run, bytes of a block)."""
        assert self.layout.blocks is not None
        elements = packed[..., : self._groups * self.layout.c_pitch]
        return elements.reshape(*packed.shape[:-1], self._groups, -1, self.layout.blocks.factor_bytes)


@dataclass(frozen=True, kw_only=True)
class Special:
    """A launch that meets what is not finite.

    Attributes:
        layout: of the kernel.
        given: all its buffers.
        x, w: the operands.
        marks: of activations and weights.
    """

    layout: DeviceLayout
    given: Mapping[str, np.ndarray]
    x: Side
    w: Side
    marks: tuple[float, float]

    @cached_property
    def finite(self) -> dict[str, np.ndarray]:
        """The buffers of the launch itself."""
        return {**self.given, "activation": self.x.finite(), "filter": self.w.finite()}

    def __str__(self) -> str:
        met = " and ".join(name for side, name in ((self.x, "activations"), (self.w, "weights")) if side.special)
        return f"some {met} are not finite, and {unread_products(self.layout) or 'padding is not to be multiplied'}"

    def completed(self, y: np.ndarray, launch: Launch) -> tuple[np.ndarray, int]:
        """The output buffer of the launch, with the results that are not finite; and how many launches that took."""
        found = {name: np.zeros(y.shape, bool) for name in _PAIRS}
        launches = 0
        for name, pairs in _PAIRS.items():
            for buffers in self._marked(pairs):
                found[name] |= self._not_zero(launch(buffers))
                launches += 1
        nan = found["nan"] | (found["above"] & found["below"])
        place = np.nonzero(nan | found["above"] | found["below"])
        sums = np.where(nan[place], np.nan, np.where(found["above"][place], np.inf, -np.inf))
        numbers = self.given["bias"].reshape(-1, self.layout.bias.shape[-1])
        residual = None
        if "residual" in self.given:
            residual = dtypes.decode(self._out, self.given["residual"][place])
        with np.errstate(invalid="ignore"):
            if self.layout.problem.multiplier:
                sums *= numbers[1, place[-1]]
            sums += numbers[0, place[-1]]
        made = y.copy()
        made[place] = dtypes.encode(self._out, after_epilogue(self.layout.problem.epilogue, sums, residual))
        return made, launches

    @property
    def _out(self) -> dtypes.DType:
        return dtypes.BY_NAME[self.layout.output.dtype]

    def _marked(self, pairs: tuple[tuple[str, str], ...]) -> Iterator[dict[str, np.ndarray]]:
        """Buffers of the launches on marks of pairs that occur: no bias, no scale, a residual that changes nothing."""
        bias = np.zeros_like(self.given["bias"])
        if has_multipliers(self.layout.problem):
            bias[1] = np.float32(1)
        others = {"bias": bias}
        if "residual" in self.given:
            others["residual"] = np.full_like(self.given["residual"], neutral_residual(self.layout.problem.epilogue))
        for of_x, of_w in pairs:
            if not (self.x.occurs(of_x) and self.w.occurs(of_w)):
                continue
            activation = self.x.marks(of_x, self.marks[0])
            taps = None if activation is None else self.w.marks(of_w, self.marks[1])
            if activation is not None and taps is not None:
                yield {**self.given, **others, "activation": activation, "filter": taps}

    def _not_zero(self, y: np.ndarray) -> np.ndarray:
        """Where sums of marks are not zero; an element that no CTA wrote (all ones: NaN) is not."""
        none, step = _step(self.layout, self.marks)
        with np.errstate(invalid="ignore"):
            return np.abs(dtypes.decode(self._out, y) - none) > step / 2


def special_launch(layout: DeviceLayout, given: Mapping[str, np.ndarray]) -> Special | None:
    """Look for what is not finite among the operands of a launch; None: it needs nothing besides the launch.

    Args:
        given: the buffers.
    """
    if layout.problem.operand_dtype.integer:
        return None
    x = Side(layout=layout, name="activation", packed=given["activation"])
    w = Side(layout=layout, name="filter", packed=given["filter"])
    if not w.special and not (unread_products(layout) and x.special):
        return None
    marks = next((marks for marks in MARKS if _step(layout, marks)[1] > 0), None)
    # An epilogue that makes the same of all sums leaves nothing to be found by marks; nor is there much to be right.
    return None if marks is None else Special(layout=layout, given=given, x=x, w=w, marks=marks)


def _of_kind(kind: str, values: np.ndarray) -> np.ndarray:
    match kind:
        case "above":
            return values > 0
        case "below":
            return values < 0
        case "zero":
            return values == 0
        case "nan":
            return np.isnan(values)
        case "inf":
            return np.isinf(values)
        case _:
            return values == float(kind)


def _step(layout: DeviceLayout, marks: tuple[float, float]) -> tuple[float, float]:
    """The result of a sum of no marks, and how far from it those of some marks are at least; 0: it cannot be told."""
    out = dtypes.BY_NAME[layout.output.dtype]
    sums = np.concatenate([[0.0], COUNTS * marks[0] * marks[1]])
    epilogue = layout.problem.epilogue
    made = after_epilogue(epilogue, sums, np.full_like(sums, neutral_residual(epilogue)))
    none, *some = dtypes.decode(out, dtypes.encode(out, made))
    return float(none), float(min(min(abs(one - none) for one in some), 1.0))
