"""Limits of the hardware: one record on the compile side, and the simulator's own numbers beside it."""

from __future__ import annotations

import ast
import dataclasses
import operator
from pathlib import Path

import pytest

from convc.ir.arch import SM_100A
from convc.ir.tensormap import CORNER_BITS
from convc.machine.tensor_core import tensor_memory
from convc.machine.tma import walk

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "convc"
FILES = sorted(path for room in ("host_layout", "compiler") for path in (PACKAGE / room).rglob("*.py"))

ALLOWED = {
    "lanes.CHUNK": "columns cleared at a time are a choice",
    "lanes.MAIN_ROWS": "the 128 is in the name of the mode, im2col::w::128",
    "stores.PIECE_BYTES": "the vector that a lane stores is a choice",
    "spelling.UNIT_BYTES": "the unit of addresses in a matrix descriptor (PTX, matrix descriptor)",
    "slide.MOST_COLUMNS": "how many columns are written out is a choice",
    "persistent.MOST_HELD": "how many registers are spent on numbers is a choice",
    "registers.LANES": "a warpgroup has four warps (PTX, wgmma)",
    "setup.WARP_LANES": "threads of a warp",
    "storage.STAGE_ALIGN": "the period of the widest swizzle, 8 rows of 128 bytes",
    "storage.BARRIER_BYTES": "an mbarrier is 64 bits (PTX, mbarrier)",
    "storage.ANSWER_BYTES": "an answer is 128 bits (PTX, clusterlaunchcontrol)",
    "storage.NUMBERS_ALIGN": "the vector that a lane reads is a choice",
    "residency.WARP": "threads of a warp",
    "residency.RESERVED_SHARED": "what the driver keeps of each CTA's shared memory",
    "residency.SHARED_STEP": "steps of shared memory are a choice",
    "residency.MOST_CTAS": "CTAs of an SM",
    "options.MOST_CTAS": "CTAs of any grid, whatever the target",
    "work.SECTOR_BYTES": "a sector of global memory",
    "candidates.MAX_STAGES": "how far to look is a choice",
    "program.MOST_COPIES": "how much text a loop may have is a choice",
    "work.STORE_BYTES": "the vector that a lane stores is a choice",
    "stationary.CHUNK": "pixels read at a time are a choice",
    "block_scaled.CHANNELS": "blocks of channels, from the formats",
    "block_scaled.NAN_FACTOR": "codes, from the formats",
    "base.PARTS_OF": "split-K CTAs",
    "split.MOST_SUMS": "registers of a thread",
    "split.RANKS": "CTAs of a cluster, of any GPU",
    "verify_split.QUAD_BYTES": "four sums, as a lane reads and writes them",
    "requests.LINE_BYTES": "a line of L2",
    "requests.PIECE_BYTES": "what TMA fills behind the last channel is in such pieces",
}
"""Constants that happen to be equal to a limit, by module and name, and why they are none."""

OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


def values_of(node: ast.expr) -> list[object]:
    """The numbers, tuples of numbers and ranges (as first and last) that literals in an expression make."""
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return [value]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return [-value for value in values_of(operand) if isinstance(value, int)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            pairs = [(a, b) for a in values_of(left) for b in values_of(right)]
            return [OPERATIONS[type(op)](a, b) for a, b in pairs]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts = [values_of(element) for element in elements]
            return [tuple(part[0] for part in parts)] if all(len(part) == 1 for part in parts) else []
        case ast.Dict(values=entries):
            return [value for entry in entries for value in values_of(entry)]
        case ast.Call(func=ast.Name(id="range"), args=[first, end]):
            return [(low, high - 1) for low in values_of(first) for high in values_of(end)]
    return []


def constants(path: Path) -> dict[str, ast.expr]:
    """The module's constants: names in capitals, and what is assigned to them."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id: node.value for name in targets if isinstance(name, ast.Name) and name.id.isupper()}
    return found


def copies(path: Path) -> list[str]:
    """The module's constants that are written down with a value that `Limits` has too."""
    limits = set(dataclasses.astuple(SM_100A.limits)) - {1}  # which is no limit
    return [f"{path.stem}.{name}" for name, node in constants(path).items() if limits & set(values_of(node))]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_limits_are_written_down_in_the_record_alone(path):
    assert [name for name in copies(path) if name not in ALLOWED] == [], "read SM_100A.limits instead"


def test_every_exception_is_still_needed():
    found = {name for path in FILES for name in copies(path)}
    assert found >= ALLOWED.keys()


def test_a_copy_would_be_seen():
    written = ast.parse("range(-128, 128)\n(64, 128)\n{'a': 511}\n-(1 << 15), (1 << 15) - 1\n2**31 - 1").body
    limits = set(dataclasses.astuple(SM_100A.limits)) - {1}  # which is no limit
    assert all(limits & set(values_of(node.value)) for node in written)


def test_the_machine_has_the_same_numbers_of_its_own():
    limits = SM_100A.limits
    assert limits.tmem_lanes == tensor_memory.LANES
    assert limits.tmem_columns == tensor_memory.COLUMNS
    assert limits.wide_halo + 1 == walk.HALO_LIMIT["im2col_w"]
    assert limits.wide_128_halo + 1 == walk.HALO_LIMIT["im2col_w128"]
    assert limits.wide_offset + 1 == walk.WIDE_OFFSET_LIMIT
    assert limits.im2col_offset + 1 == 1 << CORNER_BITS[4]
    for corner, bits in ((limits.im2col_corner, CORNER_BITS[4]), (limits.wide_corner, 16)):
        assert corner == (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def test_tiles_fill_the_tensor_memory():
    limits = SM_100A.limits
    assert limits.mma_m == limits.ws_m == limits.tmem_lanes == 4 * limits.tmem_part_lanes
    assert max(limits.ws_n) == limits.mma_n_max
    assert set(limits.wide_swizzle_spans) < set(limits.swizzle_spans)
