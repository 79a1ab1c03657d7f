"""The table of atoms against the machine: tensor memory, warpgroups, and their operands in shared memory."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import warpgroup_kernels
from support.atom_deals import collect, deal, laid
from tensor_kernels import BASE, mma_text, run_tensor
from warp_kernels import RANGES, STORED, words

from convc.atoms import tensor
from convc.atoms.families import atom_names, find_atom
from convc.atoms.held import SWIZZLES, Atom, Held
from convc.atoms.shared import SPANS
from convc.ptx.descriptors import (
    BlockScaledDescriptor,
    InstructionDescriptor,
    SharedDescriptor,
    encode_block_scaled,
    encode_instruction,
    encode_shared,
    encode_warpgroup,
)

NAMES = tuple(atom_names())
SUMS = 64
"""Column of D."""

UNTOUCHED = 0x7FC00123

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def chosen(start: str, most: int = 1 << 30) -> list[str]:
    """Names that start so, without moves of more than so many registers."""
    return [
        name for name in NAMES if name.startswith(start) and int((re.findall(r"\.x(\d+)$", name) or [0])[0]) <= most
    ]


def listed(names: list[str], slow: str) -> list:
    """The names as parameters; those in which the pattern is found are slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if re.search(slow, name) else name for name in names]


PACKED = [f"tcgen05.{verb}.{shape}.x4.{word}" for verb, word in (("ld", "pack::16b"), ("st", "unpack::16b"))
          for shape in tensor.PER_NUMBER]  # fmt: skip


def moved(name: str) -> tuple[Held, str, int, bool]:
    """The table, the instruction up to its operands, its registers, and whether they are packed."""
    atom = find_atom(name)
    (held,) = atom
    side = 2 if "pack" in name else 1
    return held, atom.title.partition(", ")[0], held.value_count // side, side == 2


@pytest.mark.parametrize("name", listed([*chosen("tcgen05.ld.", 4), *PACKED[:5]], r"x2(\.|$)"))
def test_a_load_gives_every_register_the_cell_of_the_table(name):
    held, verb, count, packed = moved(name)
    cells = np.random.default_rng(1).integers(0, 1 << 32, (128, 64), np.uint64).astype(np.uint32)
    listed = "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"
    tail = f", {find_atom(name).title.rpartition(', ')[2]}" if "16x32bx2" in name else ""
    body = f"setp.ne.u32 %skip, %w, 0; @%skip bra DONE;\n{verb} {listed}, [%c]{tail};\ntcgen05.wait::ld.sync.aligned;\n"
    body += f"mul.wide.u32 %from, %t, {4 * count}; add.u64 %from, %ar, %from;\n"
    body += "".join(f"st.global.b32 [%from+{4 * i}], %v{i};\n" for i in range(count)) + "DONE:\n"
    args = np.zeros(32 * count, np.uint32)
    _, done = run_tensor("", cells=cells, shown=0, every=body, args=args)
    got = done.buffers["args"].reshape(32, count)
    want = deal(held, cells)
    if packed:
        want = want[:, 0::2] & 0xFFFF | want[:, 1::2] << 16
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", listed([*chosen("tcgen05.st.", 4), *PACKED[5:]], r"x2(\.|$)"))
def test_a_store_puts_every_register_into_the_cell_of_the_table(name):
    held, verb, count, packed = moved(name)
    listed = "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"
    tail = f" {find_atom(name).title.rpartition(', ')[2]}," if "16x32bx2" in name else ""
    body = "setp.ne.u32 %skip, %w, 0; @%skip bra DONE;\n"
    body += "".join(f"mad.lo.u32 %v{i}, %t, 0x00010001, {1000 + 0x1000000 * i + 64 * i};\n" for i in range(count))
    body += f"{verb} [%c],{tail} {listed};\ntcgen05.wait::st.sync.aligned;\nDONE:\n"
    thread, register = np.indices((32, count))
    given = (thread * 0x10001 + 1000 + 0x1000040 * register).astype(np.uint32)
    if packed:
        given = np.stack([given & 0xFFFF, given >> 16], axis=2).reshape(32, -1)
    cells = np.full((128, 64), 7, np.uint32)
    got, _ = run_tensor("", cells=cells, every=body)
    want = cells.copy()
    thread, value, row, column = held.places
    want[row, column] = given[thread, value]
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", [name for name in chosen("tcgen05.cp.") if "b8x16" not in name])
def test_a_copy_puts_every_word_where_the_table_says(name):
    (held,) = find_atom(name)
    shape = name.removeprefix("tcgen05.cp.")
    row, word = np.indices((128, 8))
    source = np.zeros((4096,), np.uint32)
    source[(row % 8 * 16 + row // 8 * 256 + word // 4 * 128) // 4 + word % 4] = row * 8 + word
    descriptor = encode_shared(SharedDescriptor(start=BASE, lbo=128, sbo=256, swizzle="none"))
    body = f"mov.b64 %a, {descriptor}; tcgen05.cp.cta_group::1.{shape} [%c], %a;"
    cells = np.full((128, 8), 99999, np.uint32)
    got, _ = run_tensor(body, image=source.view(np.uint8), cells=cells, shown=8)
    want = cells.copy()
    thread, value, lane, column = held.places
    want[lane, column] = thread * 8 + value
    assert np.array_equal(got, want)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of 4 or 6 bits, 16 a row, in the first bytes of 16: (..., 16) both; what is behind them is not read."""
    digits = (codes[..., None] >> np.arange(bits)) & 1
    data = np.packbits(digits.reshape(*codes.shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little")
    return np.pad(data, [(0, 0)] * (codes.ndim - 1) + [(0, 16 - data.shape[-1])], constant_values=0xA5)


BYTE = {4: 2, 6: 0}
"""Lowest bit of an element in its byte of tensor memory."""


@pytest.mark.parametrize("name", [name for name in chosen("tcgen05.cp.") if "b8x16" in name])
def test_a_copy_unpacks_every_element_into_the_byte_of_the_table(name):
    (held,) = find_atom(name)
    bits = tensor.UNPACKED[name.rpartition(".")[2]]
    thread, value, lane, column = held.places
    descriptor = encode_shared(SharedDescriptor(start=BASE, lbo=128, sbo=256, swizzle="none"))
    body = f"mov.b64 %a, {descriptor}; {find_atom(name).title} [%c], %a;"
    cells = np.full((128, 8), 0x5A5A5A5A, np.uint32)
    number = np.arange(128 * 32).reshape(128, 2, 16)
    for low in range(0, 12, bits):  # the digits of its number, one after the other: no two elements are alike
        row, unit = np.indices((128, 2))
        source = np.zeros((1024, 16), np.uint8)
        source[(row % 8 * 16 + row // 8 * 256 + unit * 128) // 16] = packed(number >> low & (1 << bits) - 1, bits)
        got, _ = run_tensor(body, image=source.reshape(-1), cells=cells, shown=8)
        want = cells.view(np.uint8).copy()
        want[lane, column] = ((thread * 32 + value) >> low & (1 << bits) - 1) << BYTE[bits]
        assert np.array_equal(got, want.view(np.uint32))


def described(held: Held, start: int) -> SharedDescriptor:
    """How a descriptor says where the blocks of a tile lie, by the text of the manual."""
    span = SPANS[held.swizzle]
    k = held.value_count
    if "K-major" in held.what:
        rows = held.thread_count if "CTA" not in held.what else held.thread_count // 2
        return SharedDescriptor(start=start, lbo=16 * rows if span == 16 else 16, sbo=8 * span, swizzle=held.swizzle)
    along_k = (4 if held.swizzle == "128B_atom32" else 8) * span
    lbo, sbo = (along_k, k * span) if span == 16 else (k * span, along_k)
    return SharedDescriptor(start=start, lbo=lbo, sbo=sbo, swizzle=held.swizzle)


def operand(held: Held, element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (rows, k), and their bytes in shared memory, (ctas, bytes)."""
    shape = (held.thread_count, held.value_count)
    rng = np.random.default_rng(seed)
    ctas = 2 if "CTA" in held.what else 1
    if held.bits == 4:
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        tile = laid(held, codes)
        return E2M1[codes], (tile[:, 0::2] | tile[:, 1::2] << 4).reshape(ctas, -1)
    if element in tensor.PADDED:
        codes = rng.integers(0, 1 << tensor.PADDED[element], shape).astype(np.uint8)
        tile = packed(laid(held, codes).reshape(-1, 16), tensor.PADDED[element])
        return codes.view(NARROW[element]).astype(np.float64), tile.reshape(ctas, -1)
    low, high = RANGES.get(element, (-4, 5))
    values = rng.integers(low, high, shape).astype(STORED[element])
    return values.astype(np.float64), laid(held, values).reshape(ctas, -1)


def factors(held: Held, scale: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scale factors (rows, factors), and the columns of tensor memory that hold them, (lanes, columns)."""
    powers = np.random.default_rng(seed).integers(-1, 2, (held.thread_count, held.value_count))
    codes = (powers + 127 if scale == "ue8m0" else powers + 7 << 3).astype(np.uint8)
    return 2.0**powers, laid(held, codes).view(np.uint32)


SLOW = (
    r"bf16|e5m2|u8|tf32(\.2cta|\.ws|$)|e4m3(\.2|\.w|$)|m256n64\.(s8|mx)|mxf4$|s8\.ws|m64n32\.s8|m128\w*\.f16\.(ws|ts)$"
)
"""What differs from other names in its type alone."""

NARROW = {"e2m1": ml_dtypes.float4_e2m1fn, "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}

KIND = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "e4m3": "f8f6f4",
    "e5m2": "f8f6f4",
    "s8": "i8",
    "u8": "i8",
} | dict.fromkeys(NARROW, "f8f6f4")


def instruction(atom: Atom) -> tuple[str, int, str]:
    """Its kind, its instruction descriptor, and the type of its scale factors."""
    m, n, element = re.match(r"tcgen05\.mma\.m(\d+)n(\d+)\.(\w+)", atom.name).groups()
    if element in tensor.FACTORS:
        scale = "ue4m3" if element == "mxf4nvf4" else "ue8m0"
        code = "e4m3" if element == "mxf8f6f4" else "e2m1"
        fields = BlockScaledDescriptor(kind=element, a_type=code, b_type=code, scale_type=scale, m=int(m), n=int(n))
        return element, encode_block_scaled(fields), scale
    turned = ".mn" in atom.name
    fields = InstructionDescriptor(
        kind=KIND[element], d_type="s32" if element in ("s8", "u8") else "f32", a_type=element, b_type=element,
        m=int(m), n=int(n), transpose_a=turned, transpose_b=turned,
    )  # fmt: skip
    return KIND[element], encode_instruction(fields), ""


@pytest.mark.parametrize("name", listed(chosen("tcgen05.mma."), SLOW))
def test_d_of_a_tensor_core_lies_where_the_table_says(name):
    atom = find_atom(name)
    kind, word, scale = instruction(atom)
    element = "f16" if scale and kind != "mxf8f6f4" else "e4m3" if scale else name.split(".")[3]
    group = 2 if ".2cta" in name else 1
    a, b = atom["A"], atom["B"]
    right, image = operand(b, element, 1)
    cells = np.full((128 * group, SUMS + atom["D"].columns), UNTOUCHED, np.uint32)
    left_at = "[32]"
    if a.space == "tensor":
        rng = np.random.default_rng(2)
        shape = (a.thread_count, a.value_count)
        if element in tensor.PADDED:
            bits = tensor.PADDED[element]
            given = rng.integers(0, 1 << bits, shape).astype(np.uint8)
            left = given.view(NARROW[element])
            given = given << BYTE[bits]
        else:
            given = left = rng.integers(-4, 5, shape).astype(np.float16)
        tile = np.zeros((a.rows, a.columns), given.dtype)
        thread, value, lane, column = a.places
        tile[lane, column] = given[thread, value]
        cells[:, 32:40] = tile.view(np.uint32)
    else:
        left, own = operand(a, element, 2)
        at = -(-image.shape[1] // 1024) * 1024
        image = np.concatenate([np.pad(image, ((0, 0), (0, at - image.shape[1]))), own], axis=1)
        left_at = str(encode_shared(described(a, BASE + at)))
    more = {"form": ".ws"} if ".ws" in name else {}
    body = ""
    if scale:
        scales = []
        for i, held in enumerate((atom["SFA"], atom["SFB"])):
            values, columns = factors(held, scale, 3 + i)
            cells[:, 16 * i : 16 * i + columns.shape[1]] = columns
            scales.append(values)
        left = left * np.repeat(scales[0], left.shape[1] // scales[0].shape[1], axis=1)
        right = right * np.repeat(scales[1], right.shape[1] // scales[1].shape[1], axis=1)
        size = ".scale_vec::4X" if kind == "mxf4nvf4" else ""
        more |= {"mods": f".block_scale{size}", "scales": ", [%x6], [%x7]"}
        body = "add.u32 %x6, %c, 0; add.u32 %x7, %c, 16;\n"
    body += mma_text(left_at, encode_shared(described(b, BASE)), word, d=SUMS, kind=kind, group=group, **more)
    shaped = cells.reshape(group, 128, -1) if group == 2 else cells
    got, done = run_tensor(
        body, image=image if group == 2 else image[0], cells=shaped, shown=cells.shape[1], group=group
    )
    assert done.findings == ()
    after = np.ascontiguousarray(got.reshape(128 * group, -1)[:, SUMS:])
    sums = deal(atom["D"], after.view(np.int32 if kind == "i8" else np.float32))
    assert np.array_equal(sums, left.astype(np.float64) @ right.T)
    assert (after == UNTOUCHED).sum() == after.size - sums.size  # lanes that the table leaves out


@pytest.mark.parametrize("name", listed(chosen("wgmma."), r"n256|bf16|e5m2|u8|n64k(32|8)\.|n8k\d+\.\w+\.ss"))
def test_a_warpgroup_has_its_registers_and_operands_where_the_table_says(name):
    atom = find_atom(name)
    shape, element = name.split(".")[1:3]
    a, b, d = atom
    sums = "s32" if element in ("s8", "u8") else "f32"
    right, image = operand(b, element, 1)
    if a.space == "shared":
        left, own = operand(a, element, 2)
        at = -(-image.shape[1] // 1024) * 1024
        image = np.concatenate([np.pad(image, ((0, 0), (0, at - image.shape[1]))), own], axis=1)
        given, a_word = None, encode_warpgroup(described(a, at))
    else:
        low, high = RANGES.get(element, (-4, 5))
        left = np.random.default_rng(2).integers(low, high, (a.rows, a.columns)).astype(np.float64)
        dealt = deal(a, left)
        given, a_word = np.concatenate([words(part, element) for part in np.split(dealt, 4)]).view(np.uint32), 0
    mma = warpgroup_kernels.Wgmma(
        f"{shape}.{sums}.{element}.{element}", a_in_registers=given is not None, b_mn=b.what.find("MN-major") > 0
    )
    work = warpgroup_kernels.instructions(mma, [(a_word, encode_warpgroup(described(b, 0)))], ["0"])
    data = np.zeros(-(-image.shape[1] // 2048) * 2048, np.uint8)
    data[: image.shape[1]] = image[0]
    text = warpgroup_kernels.kernel(mma, data.size, work)
    done = warpgroup_kernels.run(text, mma, data, np.zeros((64, d.columns)), given)
    assert done.findings == ()
    got = collect(d, done.buffers["out"].reshape(128, -1).view(STORED[sums]))
    assert np.array_equal(got, left @ right.T)


def test_every_swizzle_of_a_descriptor_has_its_operand_here():
    """The tests above have drawn them all."""
    told = {held.swizzle for name in NAMES for held in find_atom(name)}
    assert told == set(SWIZZLES)
