"""Executing tcgen05.mma: fetch operands, multiply, put D where its layout says.

All CTAs of a cohort are multiplied together, some at a time to stay inside a cache. Instructions that continue one
accumulation are one product over their joint K. Products are float32 (float64 where scale factors could leave its
range); sums of kind i8 are short enough to be exact, and wrap. With the switch ``numerics`` set to ``exact`` every
instruction is summed as the hardware does (`numerics`).
"""

from __future__ import annotations

import numpy as np

from convc.machine.tensor_core import numerics
from convc.machine.tensor_core.datapath import Datapath
from convc.machine.tensor_core.mma import Mma
from convc.machine.tensor_core.mma_operands import Operands, Select

Factors = list[np.ndarray]
"""Scale factors of A (ctas, rows, factors) and of B (ctas, n, factors)."""

WORKING_SET = 1 << 22
"""Bytes of operands and accumulators processed at a time: many CTAs a call, and they stay inside a level-3 cache."""


class Product:
    """A run of instructions that share a target, being executed."""

    def __init__(self, path: Datapath, run: list[Mma]) -> None:
        self.path = path
        self.run = run
        self.first = run[0]
        self.shape = self.first.shape
        self.rows = None if self.first.rows is None else np.asarray(self.first.rows)
        self.exact = path.switches.numerics == "exact" and self.shape.kind != "i8"

    def execute(self) -> None:
        """Check everything, then multiply a few CTAs at a time."""
        first = self.first
        shape = self.shape
        operands = Operands(self.path, self.run)
        a = operands.a()
        b = operands.b()
        lanes, column = operands.accumulator()
        scales = operands.scales() if shape.factors else None
        everyone = np.arange(self.path.ctas) if self.rows is None else self.rows
        per_cta = 4 * (2 * (shape.rows + shape.b_rows) * len(self.run) * shape.k + 2 * 128 * shape.columns)
        step = max(1, WORKING_SET // per_cta)
        step += step % 2 if shape.pair else 0
        for low in range(0, len(everyone), step):
            part = everyone[low : low + step]
            select = _together(part)
            mask = None
            if first.mask is not None:
                enabled = first.mask.enabled
                mask = (enabled if len(enabled) == 1 else enabled[low : low + step])[:, lanes]
            factors = None if scales is None else [f(select) for f in scales]
            self._multiply(select, a(select), b(select), factors, lanes, column, mask)
        operands.mark(lanes, column)

    # ---- arithmetic ------------------------------------------------------------------------------------------------

    def _multiply(
        self,
        select: Select,
        a: np.ndarray,
        b: np.ndarray,
        factors: Factors | None,
        lanes: np.ndarray,
        column: int,
        mask: np.ndarray | None,
    ) -> None:
        """One product for some CTAs.

        Args:
            select: the CTAs.
            a: float32 (ctas or 1, banks or 1, rows, k).
            b: float32 (ctas or 1, b_rows, k).
            factors: scale factors, where the kind has them.
            lanes: of D. column: its first one.
            mask: bool (ctas or 1, lanes): which lanes are written; None for all.
        """
        shape = self.shape
        accumulate = self.first.accumulate
        desc = shape.desc
        columns = slice(column, column + shape.columns)
        tensor = self.path.tensor
        if desc.negate_a != desc.negate_b:
            a = -a
        direct = isinstance(select, slice) and not shape.spread_lanes
        plain = shape.d_type == "f32" and not self.exact and factors is None
        if direct and plain and shape.banks == 1 and not shape.pair:
            target = tensor.panel(column, shape.columns)[select].view(np.float32)
            kept = None if mask is None else np.nonzero(~np.broadcast_to(mask, target.shape[:2]))
            old = None if kept is None else target[kept]
            b = np.ascontiguousarray(b.transpose(0, 2, 1))  # BLAS takes longer to transpose it
            if accumulate:
                if self.first.scale:
                    target *= np.float32(2.0**-self.first.scale)
                target += np.matmul(a[:, 0], b)
            else:
                np.matmul(a[:, 0], b, out=target)
            if kept is not None:
                target[kept] = old
            return
        old = tensor.panel(column, shape.columns)[select] if direct else tensor.cells[select][:, lanes, columns]
        a, b = (np.broadcast_to(x, (len(old), *x.shape[1:])) for x in (a, b))
        if self.exact:
            result = self._exact(a, b, factors, old)
        else:
            result = self._rounded(a, b, factors, old)
        if not direct:
            if mask is not None:
                result = np.where(mask[:, :, None], result, old)
            index = np.arange(tensor.ctas)[select]
            tensor.cells[index[:, None, None], lanes[None, :, None], np.arange(columns.start, columns.stop)] = result
        elif mask is None:
            old[...] = result
        else:
            np.copyto(old, result, where=mask[:, :, None])

    def _banked(self, b: np.ndarray) -> np.ndarray:
        """B (ctas, b_rows, k) or per-CTA (ctas, n, k) as (pairs, ctas of a pair or 1, banks, columns, k)."""
        shape = self.shape
        size = 2 if shape.pair else 1
        own = size * b.shape[1] // shape.n
        return b.reshape(b.shape[0] // size, own, shape.banks, shape.columns, -1)

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(ctas, 128 or 64, columns) of a (ctas, banks or 1, rows, k) and b (ctas, b_rows or n, k)."""
        shape = self.shape
        size = 2 if shape.pair else 1
        left = a.reshape(a.shape[0] // size, size, *a.shape[1:])
        found = np.matmul(left, self._banked(b).swapaxes(-1, -2))
        return found.reshape(a.shape[0], shape.banks * shape.rows, shape.columns)

    def _rounded(self, a: np.ndarray, b: np.ndarray, factors: Factors | None, old: np.ndarray) -> np.ndarray:
        """New cells by plain arithmetic."""
        shape = self.shape
        first = self.first
        if factors is not None:
            a, b = self._scaled(a, b, factors)
        product = self._matmul(a, b)
        if shape.d_type == "s32":
            return self._integer(product, old)
        product = product.astype(np.float32, copy=False)
        if first.accumulate:
            product += self._addend(old)
        if shape.d_type == "f16":
            return product.astype(np.float16).view(np.uint16).astype(np.uint32)
        return product.view(np.uint32)

    def _addend(self, old: np.ndarray) -> np.ndarray:
        """D as it was, in float32, scaled by scale-input-d."""
        if self.shape.d_type == "f16":
            value = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
        else:
            value = np.ascontiguousarray(old).view(np.float32)
        return value * np.float32(2.0**-self.first.scale) if self.first.scale else value

    def _integer(self, product: np.ndarray, old: np.ndarray) -> np.ndarray:
        """i8: wraps, or clamps where the descriptor saturates."""
        total = product.astype(np.int64)
        if self.first.accumulate:
            total += np.ascontiguousarray(old).view(np.int32)
        if self.shape.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return (total & 0xFFFFFFFF).astype(np.uint32)

    def _scaled(self, a: np.ndarray, b: np.ndarray, factors: Factors) -> tuple[np.ndarray, np.ndarray]:
        """Operands times their scale factors, in float64."""
        of_a, of_b = (np.repeat(f.astype(np.float64), self.shape.k // f.shape[-1], axis=-1) for f in factors)
        return a * of_a[:, None], self._joined(b) * of_b

    def _joined(self, b: np.ndarray) -> np.ndarray:
        """B with all N columns for every CTA, (ctas, n, k)."""
        if not self.shape.pair:
            return b
        both = b.reshape(b.shape[0] // 2, self.shape.n, -1)
        return np.repeat(both, 2, axis=0)

    def _exact(self, a: np.ndarray, b: np.ndarray, factors: Factors | None, old: np.ndarray) -> np.ndarray:
        """New cells as the hardware adds, bank by bank."""
        shape = self.shape
        desc = self.shape.desc
        b = self._joined(b)
        addend = self._addend(old) if self.first.accumulate else np.zeros(old.shape, np.float32)
        out = np.empty(old.shape, np.uint32)
        tiny = self.path.switches.e2m1_exponent
        for bank in range(shape.banks):
            lanes = slice(bank * shape.rows, (bank + 1) * shape.rows)
            part = slice(bank * shape.columns, (bank + 1) * shape.columns)
            left = a[:, min(bank, a.shape[1] - 1)]
            right = b[:, part]
            c = addend[:, lanes]
            if factors is None:
                x = numerics.terms(left, desc.a_type, tiny)
                y = numerics.terms(right, desc.b_type, tiny)
                out[:, lanes] = numerics.fused(x, y, c, shape.d_type)
                continue
            scale_type = shape.block_scaled.scale_type
            of_a = factors[0]
            of_b = factors[1][:, part]
            if shape.kind == "mxf8f6f4":
                x = numerics.scale(numerics.terms(left, desc.a_type, tiny), of_a, scale_type)
                y = numerics.scale(numerics.terms(right, desc.b_type, tiny), of_b, scale_type)
                out[:, lanes] = numerics.fused(x, y, c, shape.d_type)
            else:
                out[:, lanes] = numerics.fused_groups(left, right, of_a, of_b, scale_type, c)
        return out


def _together(rows: np.ndarray) -> Select:
    """CTAs as a slice where they are neighbours, as the first of a grid are that go on to a last tile."""
    first = int(rows[0])
    if bool((rows == np.arange(first, first + len(rows))).all()):
        return slice(first, first + len(rows))
    return rows
