"""The table of atoms against the machine: every register that an instruction reads or writes holds what it says."""

from __future__ import annotations

import re

import numpy as np
import pytest
import warp_kernels
from support.atom_deals import collect, deal
from support.kernels import execute, module
from test_sparse_mma import run as run_sparse
from warp_kernels import BITS, RANGES, STORED, Mma

from convc.atoms.families import atom_names, find_atom
from convc.atoms.held import Atom, Held
from convc.atoms.warp import sparse
from convc.machine.isa.warp import fragments, wmma_fragments
from convc.machine.isa.warp.sparse import sparsity

NAMES = tuple(atom_names())
MMA, QUADS, SPARSE, WMMA, MATRIX = (
    [name for name in NAMES if re.fullmatch(pattern, name)]
    for pattern in (r"mma\.m\w+\.\w+", r"mma\.m8n8k4\.f16\..*", r"mma\.sp\..*", r"wmma\..*", r"(ld|st)matrix\..*")
)
FLOATS = ("e4m3", "e5m2", "tf32", "f16", "bf16", "f64")


def numbers(element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small numbers, so that every sum is exact; nearly all products differ."""
    low, high = RANGES.get(element, (-4, 5))
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float64)


def head_of(atom: Atom) -> str:
    """Modifiers of the mma.sync of an atom, as `Mma` takes them."""
    parts = atom.name.split(".")
    if len(parts) > 3:
        _, shape, element, a, b, d = parts
        return f"{shape}.{a}.{b}.{d}.f16.f16.{d}"
    _, shape, element = parts
    d = "f64" if element == "f64" else "f32" if element in FLOATS else "s32"
    tail = ".and.popc" if element == "b1" else ""
    return f"{shape}.row.col.{d}.{element}.{element}.{d}{tail}"


def multiply(atom: Atom, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D of one warp whose registers the table fills, as the table reads them."""
    mma = Mma(head_of(atom))
    tiles = dict(zip("abc", (a, b, c), strict=True))
    raw = {name: warp_kernels.words(deal(atom[name.upper().replace("C", "D")], tile), mma.types[name])
           for name, tile in tiles.items()}  # fmt: skip
    bytes_of = {name: each.shape[1] for name, each in raw.items()} | {"d": raw["c"].shape[1]}
    data = np.concatenate([raw[name] for name in "abc"], axis=1).reshape(-1)
    out = np.zeros(32 * bytes_of["d"], np.uint8)
    done = execute(warp_kernels.kernel(mma, bytes_of), {"x": data, "out": out}, pointers=("x", "out"))
    values = done.buffers["out"].reshape(32, -1).view(STORED[mma.types["d"]])
    return collect(atom["D"], values).astype(np.float64)


@pytest.mark.parametrize("name", [*MMA, *QUADS])
def test_mma_multiplies_what_the_table_deals(name):
    atom = find_atom(name)
    element = name.split(".")[2]
    a, b, c = (
        numbers(kind, (held.rows, held.columns), seed)
        for seed, (kind, held) in enumerate(((element, atom["A"]), (element, atom["B"]), ("c", atom["D"])))
    )
    got = multiply(atom, a, b, c)
    count = 4 if "row" in name or "col" in name else 1
    x, y, z = (each.reshape(8 if count > 1 else len(each), count, -1).swapaxes(0, 1) for each in (a, b, c))
    want = x @ y.swapaxes(-1, -2) + z
    assert np.array_equal(got, want.swapaxes(0, 1).reshape(got.shape))


def machine_elements(layout: fragments.Layout, matrices: int = 1) -> np.ndarray:
    """The number of the place of each element of each lane, matrices side by side: (32, elements)."""
    rows, columns = layout.shape[1:]
    tile = np.arange(rows * matrices * columns).reshape(rows, matrices, columns).swapaxes(0, 1)
    return layout.elements(np.ascontiguousarray(tile)[None, None]).reshape(32, -1)


def table_elements(held: Held) -> np.ndarray:
    return deal(held, np.arange(held.rows * held.columns).reshape(held.rows, held.columns))


@pytest.mark.parametrize("name", MMA)
def test_the_machine_has_the_same_element_in_every_register(name):
    """A row of A and of D, or both columns of B and D, could change places unseen: here each is asked by itself."""
    atom = find_atom(name)
    bits = BITS[name.split(".")[2]]
    m, k = atom["A"].rows, atom["A"].columns
    assert np.array_equal(table_elements(atom["A"]), machine_elements(fragments.operand(m, k, bits)))
    assert np.array_equal(table_elements(atom["B"]), machine_elements(fragments.operand(8, k, bits)))
    assert np.array_equal(table_elements(atom["D"]), machine_elements(fragments.accumulator(m)))


@pytest.mark.parametrize("name", QUADS)
def test_the_four_products_of_a_quad_pair_are_the_machines(name):
    atom = find_atom(name)
    a, b, d = name.split(".")[3:]
    rows, columns = fragments.quad_rows, fragments.quad_columns
    layouts = (
        rows(4) if a == "row" else columns(),
        rows(4) if b == "col" else columns(),
        fragments.quad_sums() if d == "f32" else rows(8),
    )
    for held, layout in zip(atom, layouts, strict=True):
        assert np.array_equal(table_elements(held), machine_elements(layout, 4)), held.name


@pytest.mark.parametrize("name", WMMA)
def test_wmma_fragments_are_those_of_the_machine(name):
    """These the machine has from recordings, which test_wmma replays."""
    atom = find_atom(name)
    shape = wmma_fragments.shape_of(name.split(".")[1])
    element = name.split(".")[2]
    kinds = (element, element, "f64" if element == "f64" else "f32")
    for held, matrix, kind in zip(atom, "abd", kinds, strict=True):
        fragment = wmma_fragments.fragment_of(shape, matrix, kind)
        mine = table_elements(held)
        if matrix == "d" and fragment.transposed:
            mine = mine // held.columns + mine % held.columns * held.rows
        assert np.array_equal(mine, machine_elements(fragment.layout)), matrix


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_metadata_say_which_of_a_is_stored(name):
    """A dense row has what the metadata that the table deals name, and nothing else."""
    atom = find_atom(name)
    element = name.split(".")[-1]
    depth = int(name.split("k")[1].split(".")[0])
    rng = np.random.default_rng(7)
    count, width = {4: (4, 2), 32: (2, 1)}.get(BITS[element], (4, 1))
    kept = 2 if count == 4 else 1
    chunks = depth // (count * width)
    picks = np.sort(rng.permuted(np.tile(np.arange(count), (16, chunks, 1)), axis=-1)[..., :kept])
    codes = picks[..., 0] | picks[..., -1] << 2 if kept == 2 else np.where(picks[..., 0] == 0, 0b0100, 0b1110)
    stored = numbers(element, (16, chunks, kept, width), 8)
    dense = np.zeros((16, chunks, count, width))
    np.put_along_axis(dense, picks[..., None], stored, axis=2)
    b = numbers(element, (8, depth), 9)
    c = numbers("c", (16, 8), 10)
    d = "f32" if element in FLOATS else "s32"
    words = np.zeros((1, 32, 13), np.uint32)
    for at, held, tile, kind in (
        (0, atom["A"], stored.reshape(16, -1), element), (4, atom["B"], b, element), (8, atom["D"], c, d),
    ):  # fmt: skip
        given = warp_kernels.words(deal(held, tile), kind).view(np.uint32)
        words[0, :, at : at + given.shape[1]] = given
    nibbles = deal(atom["E"], codes.astype(np.uint64), fill=4)  # of threads that are not asked: another meaning
    words[0, :, 12] = (nibbles << np.arange(0, 4 * nibbles.shape[1], 4, dtype=np.uint64)).sum(axis=1)
    done = run_sparse(f"{depth} {d}.{element}.{element}.{d} 0", words)
    got = collect(atom["D"], done.buffers["out"].reshape(32, 4).view(STORED[d]))
    assert np.array_equal(got, dense.reshape(16, -1) @ b.T + c)
    assert done.findings == ()


@pytest.mark.parametrize("name", SPARSE)
def test_one_thread_is_asked_for_the_metadata_of_a_chunk(name):
    """That which the machine asks, by recordings of each selector."""
    element = name.split(".")[-1]
    depth = int(name.split("k")[1].split(".")[0])
    chunks = find_atom(name)["E"].columns
    for selector in range(16 // chunks):
        held = sparse(depth, element, selector)["E"]
        thread, value, row, column = (each.reshape(-1) for each in held.places)
        order = np.lexsort((column, row))
        assert np.array_equal(np.stack((row, column), axis=1)[order], np.argwhere(np.ones((16, chunks), bool)))
        asked = sparsity(depth, BITS[element], selector)
        assert np.array_equal(thread[order].reshape(16, chunks), asked.lanes)
        assert np.array_equal(4 * value[order].reshape(16, chunks), asked.shifts)


FILL = """.shared .align 16 .b8 s[1024];
.reg .b32 %s, %t, %a, %x<4>, %r<4>; .reg .b64 %g;
mov.u32 %s, s; mov.u32 %t, %tid.x; mul.wide.u32 %g, %t, 16; add.u64 %p_x, %p_x, %g; add.u64 %p_out, %p_out, %g;
ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%p_x]; shl.b32 %a, %t, 4; add.u32 %a, %a, %s;
"""


def move(body: str, image: np.ndarray) -> np.ndarray:
    done = execute(module(FILL + body, pointers=("x", "out")), {"x": image, "out": np.zeros_like(image)},
                   pointers=("x", "out"))  # fmt: skip
    assert done.findings == ()
    return done.buffers["out"].reshape(32, 4)


def spread(rows: np.ndarray, packed: str) -> np.ndarray:
    """Rows of 16 bytes as bytes of one element each."""
    bits = int(packed[1])
    flat = np.unpackbits(rows.view(np.uint8).reshape(len(rows), 16), axis=1, bitorder="little")
    codes = flat[:, : 16 * bits].reshape(len(rows), 16, bits)
    return (codes << np.arange(bits)).sum(axis=2).astype(np.uint8)


@pytest.mark.parametrize("name", MATRIX)
def test_ldmatrix_and_stmatrix_move_what_the_table_says(name):
    atom = find_atom(name)
    verb, shape, number, *mods = name.split(".")
    held = atom["registers"]
    rows, kind = held.rows, np.dtype(f"u{held.bits // 8}")
    count = rows // 8
    image = np.random.default_rng(2).integers(0, 1 << 32, 128, np.uint64).astype(np.uint32)
    listed = "{" + ", ".join(f"%r{i}" for i in range(count)) + "}"
    trans = ".trans" * ("trans" in mods)
    tail = f".b8x16.{mods[-1]}" if mods and mods[-1].startswith("b") else ".b16" if held.bits == 16 else ".b8"
    address = atom["addresses"]
    assert deal(address, np.arange(rows * address.columns).reshape(rows, -1))[:, 0].tolist() == [
        thread * address.columns for thread in range(rows)
    ]  # as the kernels below give them: thread i has row i
    if verb == "stmatrix":
        body = "".join(f"mov.b32 %r{i}, %x{i};\n" for i in range(4))
        body += f"{verb}.sync.aligned.{shape}.{number}{trans}.shared{tail} [%a], {listed};\nbar.warp.sync -1;\n"
        body += f"setp.lt.u32 %q, %t, {rows}; @%q ld.shared.v4.u32 {{%x0, %x1, %x2, %x3}}, [%a];"
        out = move(".reg .pred %q;\n" + body + "st.global.v4.u32 [%p_out], {%x0, %x1, %x2, %x3};", image)
        given = image.reshape(32, 4)[:, :count].copy().view(kind)
        assert np.array_equal(collect(held, given), out[:rows].copy().view(kind).reshape(rows, -1))
        return
    body = "st.shared.v4.u32 [%a], {%x0, %x1, %x2, %x3};\nbar.warp.sync -1;\n"
    body += f"{verb}.sync.aligned.{shape}.{number}{trans}.shared{tail} {listed}, [%a];\n"
    body += "".join(f"st.global.u32 [%p_out+{4 * i}], %r{i};\n" for i in range(count))
    memory = image.reshape(32, 4)[:rows].copy()
    tile = spread(memory, mods[-1]) if tail.startswith(".b8x16") else memory.view(kind).reshape(rows, -1)
    assert np.array_equal(move(body, image)[:, :count].copy().view(kind), deal(held, tile))


def test_movmatrix_transposes_as_the_table_says():
    atom = find_atom("movmatrix.m8n8.trans")
    image = np.random.default_rng(3).integers(0, 1 << 32, 128, np.uint64).astype(np.uint32)
    out = move("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %x0; st.global.u32 [%p_out], %r0;", image)
    before, after = (words[:, :1].copy().view(np.uint16) for words in (image.reshape(32, 4), out))
    assert np.array_equal(collect(atom["from"], before), collect(atom["to"], after))
