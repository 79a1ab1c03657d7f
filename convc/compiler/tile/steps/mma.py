"""Steps that multiply operand tiles: tcgen05.mma in its kinds, and wgmma."""

from __future__ import annotations

import itertools

from convc.compiler.plan.names import Number, SmemName, TmemName
from convc.compiler.plan.storage import SmemTile
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.spelling import (
    ATOM_BYTES,
    UNIT_BYTES,
    Names,
    RoleContext,
    acc_address,
    atom_rows,
    atom_units,
    braces,
    descriptor,
    mask_registers,
    more_atoms,
    register_rows,
    stage_units,
    tensor_address,
    warpgroup_descriptor,
)
from convc.host_layout.block_scaled import FORMATS
from convc.ir import dtypes
from convc.ir.arch import SM_90A
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    ZeroColumnMask,
    encode_block_scaled,
    encode_instruction,
    encode_zero_mask,
)

MASKED = ", not where masked"
WARPGROUP_ROWS = SM_90A.limits.mma_m
WORD_BYTES = 4
ID_SHIFT = 30
"""Where an address has the byte of a cell in which its factors start."""
WS_SHIFTS = (0, 8, 16, 32)
"""Column shifts that a descriptor of tcgen05.mma.ws can allow for (PTX manual, instruction descriptor)."""


class Multiply(Step, frozen=True, kw_only=True):
    """A matrix multiplication: `atoms` instructions of 32 bytes of K each.

    Attributes:
        acc: accumulator tile, `m` lanes of `n` columns.
        b: tile with the filter rows.
        operand: type name of the activations, and of the filters unless `filter_operand` names another.
        counter: number that is 0 in the step whose first instruction overwrites the accumulator; None: all add.
        masked: whether the lanes that the role has in its mask registers (`LoadMask`, `JoinMask`) keep what they have.
    """

    acc: TmemName
    b: SmemName
    operand: str
    m: int
    n: int
    atoms: int
    counter: Number | None
    masked: bool = False
    filter_operand: str | None = None

    @property
    def types(self) -> str:
        """Types of activations and filters."""
        return f"{self.operand} x {self.filter_operand}" if self.filter_operand else self.operand

    def shown(self, product: str) -> str:
        """The multiplication in a few words."""
        masked = MASKED if self.masked else ""
        return f"{self.acc} += {product}: {self.m} x {self.n}, {self.atoms} MMAs of {self.types}{masked}"

    def mask(self, ctas: int) -> str:
        """The mask registers of the CTAs that multiply as the operand disable-output-lane; nothing without masks."""
        return f", {braces(itertools.chain(*map(mask_registers, range(ctas))))}" if self.masked else ""

    def _may_overwrite(self, context: RoleContext) -> bool:
        """Whether the first instruction may find its counter at 0."""
        return self.counter is not None and context.numbers[self.counter].low <= 0

    def _shared_names(
        self, context: RoleContext, *, weights_first: bool = False, reach: int = 0, span_rows: int | None = None
    ) -> Names:
        """What the templates of all multiplications take.

        Args:
            weights_first: whether the filter is the instruction's first operand.
            reach: the largest column shift of tcgen05.mma.ws.
            span_rows: of operands that are MN-major (`SharedMma.span_rows`).
        """
        b = context.storage.smem_tile(self.b)
        allowed = next(limit for limit in WS_SHIFTS if limit >= reach)
        kind = dtypes.KINDS[self.operand]
        sums = "s32" if kind == "i8" else "f32"
        first = self.operand
        second = self.filter_operand or self.operand
        if weights_first:
            first, second = second, first
        rows = context.pair * self.m
        shape = InstructionDescriptor(
            kind=kind,
            d_type=sums,
            a_type=first,
            b_type=second,
            m=rows,
            n=self.n,
            ws_max_shift=allowed,
            transpose_a=span_rows is not None,
            transpose_b=span_rows is not None,
        )
        operands = first if first == second else f"{first} and {second}"
        moved = f", columns shifted by up to {allowed}" if allowed else ""
        return {
            "layout": _operand_layout(b, span_rows),
            "b_address": stage_units(b),
            **descriptor(b, span_rows=span_rows).names("b"),
            "acc_address": acc_address(context.storage.tmem_tile(self.acc)),
            "counted": self._may_overwrite(context),
            "counter": self.counter or "",
            "kind": kind,
            "then_add": self._may_overwrite(context) and self.atoms > 1,
            "more_atoms": more_atoms(self.atoms, atom_rows(dtypes.BY_NAME[self.operand], span_rows)),
            "instruction": f"0x{encode_instruction(shape):08x}",
            "instruction_note": f"{rows} x {self.n}, {operands} in, {sums} out{moved}",
        }


class SharedMma(Multiply, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, both operands in shared memory.

    Attributes:
        a: tile with the activations.
        row: number of the row of `a` that lane 0 reads; None: row 0.
        b_row: number of the row of `b` that column 0 reads; None: row 0, and `b` has as many rows as there are columns.
        span_rows: where operands are MN-major, a row of a tile a term of the sum: rows of a span, which has as many
            rows or columns of the product as a row of the tile holds; spans lie behind each other. None: K-major.
    """

    a: SmemName
    row: Number | None = None
    b_row: Number | None = None
    span_rows: int | None = None

    @property
    def atom_rows(self) -> int | None:
        """Rows of a tile that an instruction takes of MN-major operands."""
        return atom_rows(dtypes.BY_NAME[self.operand], self.span_rows)

    def describe(self) -> str:
        if self.span_rows is not None:
            return self.shown(f"{self.a} x {self.b}, both MN-major")
        rows = f"{self.a} from row {self.row} on" if self.row else self.a
        filters = f"{self.b} from row {self.b_row} on" if self.b_row else self.b
        return self.shown(f"{rows} x {filters}")


class Mma(SharedMma, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, with the accumulator in tensor memory."""

    def spelling(self, context: RoleContext) -> Names:
        a = context.storage.smem_tile(self.a)
        return self._shared_names(context, span_rows=self.span_rows) | {
            "a_address": stage_units(a),
            "atom_units": atom_units(a, self.atom_rows),
            "mask": self.mask(context.pair),
            "group": context.pair,
            "moved": self.row is not None,
            "row": self.row or "",
            "filters_moved": self.b_row is not None,
            "b_row": self.b_row or "",
            "row_units": a.row_bytes // UNIT_BYTES,
            **descriptor(a, span_rows=self.span_rows).names("a"),
        }


class WarpgroupMma(SharedMma, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, with the accumulator in registers: every four warps have 64 rows (wgmma)."""

    def spelling(self, context: RoleContext) -> Names:
        a = context.storage.smem_tile(self.a)
        b = context.storage.smem_tile(self.b)
        return {
            "layout": _operand_layout(b, self.span_rows),
            "a_address": stage_units(a),
            "atom_units": atom_units(a, self.atom_rows),
            "several": self.m > WARPGROUP_ROWS,
            "group_units": (self.span_rows or WARPGROUP_ROWS) * a.row_bytes // UNIT_BYTES,
            "moved": self.row is not None,
            "row": self.row or "",
            "filters_moved": self.b_row is not None,
            "b_row": self.b_row or "",
            "row_units": a.row_bytes // UNIT_BYTES,
            **warpgroup_descriptor(a, self.span_rows).names("a"),
            "b_address": stage_units(b),
            **warpgroup_descriptor(b, self.span_rows).names("b"),
            "counted": self._may_overwrite(context),
            "counter": self.counter or "",
            "then_add": self._may_overwrite(context) and self.atoms > 1,
            "shape": self._shape(),
            "values": register_rows(f"%d{i}" for i in range(self.n // 2)),
            "modifiers": _WARPGROUP_MODIFIERS[dtypes.KINDS[self.operand]] if self.span_rows is None else _MN_MAJOR,
            "more_atoms": more_atoms(self.atoms, self.atom_rows),
        }

    def _shape(self) -> str:
        """Shape and types of an instruction: K has 32 bytes."""
        operand = dtypes.BY_NAME[self.operand]
        sums = "s32" if operand.integer else "f32"
        k = ATOM_BYTES // operand.bytes
        return f"m{WARPGROUP_ROWS}n{self.n}k{k}.{sums}.{self.operand}.{self.filter_operand or self.operand}"


class MmaTensor(Multiply, frozen=True, kw_only=True):
    """acc (+)= a @ b.T with the activations `a` in tensor memory.

    `moves`: its rows move by one lane afterwards (.ashift).
    """

    a: TmemName
    moves: bool

    def describe(self) -> str:
        also = f", then move the rows of {self.a} by one lane" if self.moves else ""
        return self.shown(f"{self.a} x {self.b}") + also

    def spelling(self, context: RoleContext) -> Names:
        return self._shared_names(context) | {
            "a_address": tensor_address("%a", context.storage.tmem_tile(self.a)),
            "mask": self.mask(context.pair),
            "group": context.pair,
            "shift": ".ashift" if self.moves else "",
        }


class MmaStationary(Multiply, frozen=True, kw_only=True):
    """acc (+)= b @ a.T: `m` output channels in lanes, `n` pixels in columns (tcgen05.mma.ws).

    Attributes:
        a: tile with the activations.
        shift: column j reads pixel j + shift.
        reach: largest shift of any tap: what the instruction descriptor allows for.
        runs: lengths of the runs of columns that are zeroed and that are used; None: none is zeroed.
        entered: number of the column, counted from the start of the zeroed run, that column 0 is; None as above.
        collector: what happens to the pixels kept in the tensor core: fill, use, lastuse or discard.
    """

    a: SmemName
    shift: int
    reach: int
    runs: tuple[int, int] | None
    entered: Number | None
    collector: str

    def describe(self) -> str:
        zeroed = f", {self.runs[0]} of {sum(self.runs)} columns zeroed" if self.runs else ""
        return self.shown(f"{self.b} x {self.a}[{self.shift} columns on]") + zeroed

    def spelling(self, context: RoleContext) -> Names:
        a = context.storage.smem_tile(self.a)
        zeroed, used = self.runs or (1, 1)
        runs = f"{zeroed} columns of padding, then {used} pixels, and so on" if self.runs else "none"
        usage = "" if self.collector == "discard" else self.collector
        return self._shared_names(context, weights_first=True, reach=self.reach) | {
            "a_address": stage_units(a),
            **descriptor(a).names("a"),
            "mask_note": f"{runs}; pixels shifted by {self.shift} columns",
            "zeroing": self.runs is not None,
            "entered": self.entered or "",
            "zeroed": zeroed,
            "begins_used": self._zero_mask(begins_zeroed=False),
            "begins_zeroed": self._zero_mask(begins_zeroed=True),
            "collector": _collector(usage, 0),
            "more_atoms": [(_collector(usage, i), text) for i, text in enumerate(more_atoms(self.atoms), 1)],
        }

    def _zero_mask(self, *, begins_zeroed: bool) -> str:
        """The upper word of a zero-column mask, whose first column is zeroed or used."""
        zeroed, used = self.runs or (1, 1)
        mask = ZeroColumnMask(
            generate=self.runs is not None,
            zeroed=zeroed,
            used=used,
            zero_first=(begins_zeroed, False, False, False),
            shift=self.shift,
        )
        return f"0x{encode_zero_mask(mask) >> 32:08x}"


class MmaScaled(Multiply, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, every element times the factors of its block.

    Attributes:
        a: tile with the activations.
        factors_a, factors_b: tiles of tensor memory with the factors.
        spacing_a, spacing_b: columns from a word of four factors to the next.
        each: factors of an instruction.
    """

    a: SmemName
    factors_a: TmemName
    factors_b: TmemName
    spacing_a: int
    spacing_b: int
    each: int

    def describe(self) -> str:
        return self.shown(f"{self.a} x {self.b} times {self.factors_a} x {self.factors_b}")

    def spelling(self, context: RoleContext) -> Names:
        a = context.storage.smem_tile(self.a)
        b = context.storage.smem_tile(self.b)
        fmt = FORMATS[self.operand]
        more: list[tuple[str, str, str, str]] = []
        for index, text in enumerate(more_atoms(self.atoms), 1):
            word, byte = divmod(index * self.each, WORD_BYTES)
            place_a = f"0x{(byte << ID_SHIFT) + self.spacing_a * word:08x}"
            place_b = f"0x{(byte << ID_SHIFT) + self.spacing_b * word:08x}"
            more.append((text, self._instruction(byte), place_a, place_b))
        return {
            "layout": _operand_layout(b),
            "a_address": stage_units(a),
            **descriptor(a).names("a"),
            "b_address": stage_units(b),
            **descriptor(b).names("b"),
            "acc_address": acc_address(context.storage.tmem_tile(self.acc)),
            "factors_a": tensor_address("%first_a", context.storage.tmem_tile(self.factors_a)),
            "factors_b": tensor_address("%first_b", context.storage.tmem_tile(self.factors_b)),
            "counter": self.counter or "",
            "instruction": self._instruction(0),
            "instruction_note": f"{self.m} x {self.n}, {fmt.element} with factors of {fmt.factor} in, f32 out",
            "kind": dtypes.KINDS[self.operand],
            "size": fmt.size,
            "then_add": self.atoms > 1,
            "more_atoms": more,
        }

    def _instruction(self, byte: int) -> str:
        """The instruction descriptor for factors that start in a byte of their cells."""
        fmt = FORMATS[self.operand]
        fields = BlockScaledDescriptor(
            kind=dtypes.KINDS[self.operand],
            a_type=fmt.element,
            b_type=fmt.element,
            scale_type=fmt.factor,
            m=self.m,
            n=self.n,
            sfa_id=byte,
            sfb_id=byte,
        )
        return f"0x{encode_block_scaled(fields):08x}"


_WARPGROUP_MODIFIERS = {"f16": ", 1, 1, 0, 0", "tf32": ", 1, 1", "f8f6f4": ", 1, 1", "i8": ""}
"""Behind the scale of d: signs of both operands, and for 16 bits their major-ness (PTX, wgmma.mma_async)."""
_MN_MAJOR = ", 1, 1, 1, 1"
"""The same where both operands are MN-major."""


def _operand_layout(tile: SmemTile, span_rows: int | None = None) -> str:
    """How the rows of an operand tile lie, in words."""
    if span_rows is not None:
        apart = f"{8 * tile.row_bytes} bytes from 8 rows to the next 8, {span_rows * tile.row_bytes} from span to span"
        return f"MN-major, {tile.row_bytes}-byte swizzle, {apart}"
    return f"K-major, {tile.row_bytes}-byte swizzle, {8 * tile.row_bytes} bytes from 8 rows to the next 8"


def _collector(usage: str, buffer: int) -> str:
    """The qualifier that says what happens to the pixels in a collector buffer; each 32 bytes of K have their own."""
    return f".collector::b{buffer}::{usage}" if usage else ""
