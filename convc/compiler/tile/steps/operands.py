"""Steps that move operand tiles and multiply them."""

from __future__ import annotations

import math

from convc.compiler.plan.names import MapName, NewNumber, Number, PointerName, Priority, RingName, SmemName, TmemName
from convc.compiler.tile.steps.base import Step
from convc.ir.element_types import ELEMENT_TYPES
from convc.ir.tensormap import TensorMap

MASKED = ", not where masked"


class MakePolicy(Step, frozen=True, kw_only=True):
    """Set the number `dst` to a cache policy: the priority with which L2 gives up what copies with it bring.

    Attributes:
        priority: as PTX names it, of every line of a copy (PTX manual, ``createpolicy.fractional``).
    """

    dst: NewNumber
    priority: Priority

    def describe(self) -> str:
        return f"{self.dst} = policy {self.priority} of L2"


class PrefetchTiles(Step, frozen=True, kw_only=True):
    """Have boxes of tensor maps brought to L2, by one lane of the warp; changes nothing.

    `tiles`: the map of each, and its start coordinates, innermost dimension first.
    """

    tiles: tuple[tuple[MapName, tuple[Number, ...]], ...]

    def describe(self) -> str:
        tiles = (f"{source}[{', '.join(coords)}]" for source, coords in self.tiles)
        return f"prefetch {', '.join(tiles)} to L2"


class PrefetchNumbers(Step, frozen=True, kw_only=True):
    """Have numbers of channels, from `channel` on, brought to L2, by one lane of the warp; changes nothing.

    Attributes:
        buffer: with a row of 32-bit numbers for each use, `pitch` numbers behind each other.
        columns: channels; the bytes are whole pieces of 16.
    """

    buffer: PointerName
    channel: Number
    columns: int
    rows: int
    pitch: int

    def describe(self) -> str:
        return f"prefetch {self.columns} numbers of {self.buffer} from {self.channel} to L2"


class TensorCopy(Step, frozen=True, kw_only=True):
    """A copy through a tensor map into the current stage of a tile; its bytes count on `ring`.

    Attributes:
        coords: the start coordinates, innermost dimension first.
        policy: number with the cache policy of what it brings (`MakePolicy`); None: no hint.
    """

    map: MapName
    tile: SmemName
    ring: RingName
    coords: tuple[Number, ...]
    policy: Number | None = None

    @property
    def hint(self) -> str:
        """The cache policy, for people; empty where there is none."""
        return f", {self.policy}" if self.policy else ""

    @property
    def map_mode(self) -> str:
        """Mode of the tensor maps that the copy goes through."""
        raise TypeError(f"{type(self).__name__} does not say which maps it takes")

    def bytes_through(self, source: TensorMap) -> int:
        """Bytes that the copy brings through a tensor map, zero-filled ones included."""
        each = math.prod(source.box) if source.mode == "tile" else source.rows * source.channels
        return each * ELEMENT_TYPES[source.dtype].bytes


class TmaLoad(TensorCopy, frozen=True, kw_only=True):
    """Copy a box of a tensor map.

    Attributes:
        offsets: of im2col maps: what moves every pixel by a filter tap, W first.
        at: number with the byte in the tile where the box begins; None: its start, and the box fills the tile.
        ctas: number with the CTAs of the cluster that get the copy, a bit for each rank, in each of which its bytes
            count on the barrier at this place; None: the CTA itself.
        bringers: CTAs that each bring a part of the tile in this way.
    """

    offsets: tuple[Number, ...] = ()
    at: Number | None = None
    ctas: Number | None = None
    bringers: int = 1

    @property
    def map_mode(self) -> str:
        """``im2col`` where a filter tap moves the pixels, else ``tile``."""
        return "im2col" if self.offsets else "tile"

    def describe(self) -> str:
        moved = f" + ({', '.join(self.offsets)})" if self.offsets else ""
        place = f"{self.tile} + {self.at}" if self.at else self.tile
        whose = f" of the CTAs {self.ctas}" if self.ctas else ""
        return f"copy {self.map}[{', '.join(self.coords)}]{moved} to {place}{whose}, counted on {self.ring}{self.hint}"


class TmaWideLoad(TensorCopy, frozen=True, kw_only=True):
    """Copy pixels of an image row, and a halo behind them; the map is im2col_w or im2col_w128.

    Attributes:
        halo, offset: wHalo and wOffset.
        halo_each_window: whether every 32 pixels have a halo of their own (im2col_w128).
        at: number with the byte in the tile where the copy begins; None: its start.
    """

    halo: int
    offset: int
    halo_each_window: bool = False
    at: Number | None = None

    @property
    def map_mode(self) -> str:
        """``im2col_w128`` where every 32 pixels have a halo, else ``im2col_w``."""
        return "im2col_w128" if self.halo_each_window else "im2col_w"

    def bytes_through(self, source: TensorMap) -> int:
        """Bytes that the copy brings, those of the halo included."""
        halo = 4 * self.halo if source.mode == "im2col_w128" else self.halo
        return (source.rows + halo) * source.channels * ELEMENT_TYPES[source.dtype].bytes

    def describe(self) -> str:
        place = f"{self.tile} + {self.at}" if self.at else self.tile
        source = f"{self.map}[{', '.join(self.coords)}] + {self.offset}"
        return f"copy {source}, halo {self.halo}, to {place}, counted on {self.ring}{self.hint}"


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


class SharedMma(Multiply, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, both operands in shared memory.

    Attributes:
        a: tile with the activations.
        row: number of the row of `a` that lane 0 reads; None: row 0.
        b_row: number of the row of `b` that column 0 reads; None: row 0, and `b` has as many rows as there are columns.
    """

    a: SmemName
    row: Number | None = None
    b_row: Number | None = None

    def describe(self) -> str:
        rows = f"{self.a} from row {self.row} on" if self.row else self.a
        filters = f"{self.b} from row {self.b_row} on" if self.b_row else self.b
        return self.shown(f"{rows} x {filters}")


class Mma(SharedMma, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, with the accumulator in tensor memory."""


class WarpgroupMma(SharedMma, frozen=True, kw_only=True):
    """acc (+)= a @ b.T over one stage, with the accumulator in registers: every four warps have 64 rows (wgmma)."""


class MmaTensor(Multiply, frozen=True, kw_only=True):
    """acc (+)= a @ b.T with the activations `a` in tensor memory.

    `moves`: its rows move by one lane afterwards (.ashift).
    """

    a: TmemName
    moves: bool

    def describe(self) -> str:
        also = f", then move the rows of {self.a} by one lane" if self.moves else ""
        return self.shown(f"{self.a} x {self.b}") + also


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


class CarryFactors(Step, frozen=True, kw_only=True):
    """Bring the factors of a stage from rows of shared memory into lanes of tensor memory.

    Cell (lane, column j) of each word gets 4 bytes of row 32 * j + lane % 32 of `source`, from the byte `first` on for
    the first word. All four warps do it, each for its own sub-partition.

    Attributes:
        source, tile: tiles in shared and in tensor memory.
        lane: number of the thread's lane in its warp.
        first: number of the byte where the factors of the step start.
        rows: rows of the operand, a multiple of 16; the last group reads to its 32nd row.
        words: words of four factors.
        spacing: columns from a word to the next.
    """

    source: SmemName
    tile: TmemName
    lane: Number
    first: Number
    rows: int
    words: int
    spacing: int

    def describe(self) -> str:
        rows = f"rows 0..{self.rows - 1} of {self.source}"
        return f"{rows}, {self.words} words from byte {self.first} on, to lanes and columns of {self.tile}"
