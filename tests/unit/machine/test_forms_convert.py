"""cvt in every direction: integers, IEEE formats, narrow formats (ml_dtypes as oracle), and packing."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from support.exact import BITS, decode, encode, f32, flush, round_to
from support.forms import Form, check, evaluate, sample
from support.recorded import assemble_all, recorded


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
NARROW = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8), "e5m2": (ml_dtypes.float8_e5m2, 8), "e2m3": (ml_dtypes.float6_e2m3fn, 6),
    "e3m2": (ml_dtypes.float6_e3m2fn, 6), "e2m1": (ml_dtypes.float4_e2m1fn, 4),
}  # fmt: skip


def bits_of(kind: str) -> int:
    return BITS[kind] if kind in BITS else int(kind[1:])


def register(kind: str) -> int:
    return max(16, bits_of(kind))


def limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def number(bits: int, kind: str) -> int:
    width = int(kind[1:])
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> width - 1 else bits


def form(mods: str, target: str, source: str) -> Form:
    return Form(f"cvt{mods}.{target}.{source} {{d}}, {{a}};", f"b{register(source)}", f"b{register(target)}")


def wide(value: int, target: str) -> int:
    """An integer result in its register: extended by its sign."""
    return number(value, target) & (1 << register(target)) - 1


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integer_to_integer(source, target):
    check(form("", target, source), lambda a: wide(number(a, source), target))
    low, high = limits(target)
    if not (limits(source)[0] >= low and limits(source)[1] <= high):
        check(form(".sat", target, source), lambda a: wide(max(low, min(high, number(a, source))), target))


TO_INTEGERS = [(s, t) for s in ("f16", "bf16", "f32", "f64") for t in INTEGERS if s != "bf16" or t[1:] != "8"]
"""Floating and integer types that cvt connects; ptxas has nothing between bf16 and 8 bits."""

ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def to_integer(source, target, mode, ftz=False):
    low, high = limits(target)

    def run(a):
        x = decode(flush(a, source) if ftz else a, source)
        if x != x:
            return wide(1 << bits_of(target) - 1 if source == "f64" or target[1:] == "64" else 0, target)
        if math.isinf(x):
            return wide(high if x > 0 else low, target)
        return wide(max(low, min(high, ROUND[mode](Fraction(x)))), target)

    return run


@pytest.mark.parametrize(("source", "target"), TO_INTEGERS)
def test_float_to_integer(source, target):
    for mode in ROUND:
        halves = [(encode(x / 2, source),) for x in range(-9, 10)]
        edges = [
            (encode(x, source),)
            for x in (127.5, 255.5, 32767.5, 65504.0, 2.0**31, 2.0**63, -(2.0**63), 2.0**64)
            if source != "f16" or abs(x) < 65505
        ]
        text = form(f".{mode}", target, source)
        check(text, to_integer(source, target, mode), sample(text, 40) + halves + edges)
    if source == "f32":
        check(form(".rni.ftz.sat", target, source), to_integer(source, target, "rni", True))


def to_float(source, target, mode, sat=False):
    def run(a):
        value = round_to(Fraction(number(a, source)), target, mode)
        return encode(max(0.0, min(1.0, value)) if sat else value, target)

    return run


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("target", "source"), TO_INTEGERS)
def test_integer_to_float(source, target):
    for mode in ("rn", "rz", "rm", "rp"):
        text = form(f".{mode}", target, source)
        # Just beside a tie between neighbours: a second rounding on the way would be seen.
        beside = [((1 << 62) | (1 << 62 - p) | 1,) for p in (8, 11, 24, 53)] if source.endswith("64") else []
        check(text, to_float(source, target, mode), sample(text, 40) + beside)
    if target != "bf16":
        check(form(".rn.sat", target, source), to_float(source, target, "rn", True))


def to_other(source, target, mode, *, relu=False, finite=False, sat=False, ftz=False):
    def run(a):
        x = decode(flush(a, source) if ftz and source == "f32" else a, source)
        if x == x and not math.isinf(x):
            x = round_to(Fraction(x), target, mode, x)
        if finite and math.isinf(x):
            x = math.copysign(
                {"f16": 65504, "bf16": (2 - 2**-7) * 2.0**127, "tf32": (2 - 2**-10) * 2.0**127}[target], x
            )
        if sat:
            x = min(x, 1.0) if x > 0 else 0.0
        if relu and x == x and not x > 0:
            x = 0.0
        out = encode(x, target)
        return flush(out, target) if ftz and target == "f32" else out

    return run


FLOATS = [
    ("", "f32", "f16", "rn", {}), ("", "f32", "bf16", "rn", {}), ("", "f64", "f32", "rn", {}),
    ("", "f64", "f16", "rn", {}),
    (".ftz", "f64", "f32", "rn", {"ftz": True}), (".ftz.sat", "f32", "f32", "rn", {"ftz": True, "sat": True}),
    *[(f".{m}", t, s, m, {}) for m in ("rn", "rz", "rm", "rp")
      for t, s in (("f32", "f64"), ("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("bf16", "f16"),
                   ("f16", "bf16"))],
    (".rn.ftz", "f32", "f64", "rn", {"ftz": True}), (".rn.sat", "f16", "f32", "rn", {"sat": True}),
    *[(f".{m}{'.relu' * r}{'.satfinite' * f}", t, "f32", m, {"relu": r, "finite": f})
      for t in ("f16", "bf16") for m in ("rn", "rz") for r in (True, False) for f in (True, False) if r or f],
    (".rna", "tf32", "f32", "rna", {}), (".rn", "tf32", "f32", "rn", {}),
    (".rz.relu", "tf32", "f32", "rz", {"relu": True}),
    (".rna.satfinite", "tf32", "f32", "rna", {"finite": True}),
]  # fmt: skip


@pytest.mark.parametrize(("mods", "target", "source", "mode", "options"), FLOATS)
def test_float_to_float(mods, target, source, mode, options):
    text = form(mods, target, source)
    ties = [(f32(1.0) + k * (1 << 12) - 1 + j,) for k in range(1, 8) for j in range(3)] if source == "f32" else []
    check(text, to_other(source, target, mode, **options), sample(text, 150) + ties)


def all_forms() -> list[Form]:
    """Spellings of the conversions between scalars, for the assembler."""
    found = [form("", t, s) for s in INTEGERS for t in INTEGERS]
    found += [form(f".{m}", t, s) for s, t in TO_INTEGERS for m in ROUND]
    found += [form(f".{m}", s, t) for s, t in TO_INTEGERS for m in ("rn", "rz", "rm", "rp")]
    found += [form(mods, t, s) for mods, t, s, _, _ in FLOATS]
    return found


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_rounding_to_an_integer_that_stays_a_float(mode, kind):
    def oracle(a):
        x = decode(a, kind)
        return encode(x if x != x or math.isinf(x) else math.copysign(ROUND[mode](Fraction(x)), x), kind)

    text = form(f".{mode}", kind, kind)
    check(text, oracle, sample(text, 60) + [(encode(x / 2, kind),) for x in range(-7, 8)])


# ---- narrow formats ----------------------------------------------------------------------------------------


def narrowed(value: float, name: str) -> int:
    """One number in a narrow format, nearest even, saturating; ml_dtypes is the oracle inside the range."""
    dtype, bits = NARROW[name]
    limit = float(ml_dtypes.finfo(dtype).max)
    if value != value:
        value = math.nan if bits == 8 else limit
    else:
        value = max(-limit, min(limit, value))
    if value != value:
        return 0x7F
    return int(np.array([value], np.float64).astype(np.float32).astype(dtype).view(np.uint8)[0]) & (1 << bits) - 1


def lifted_code(code: int, name: str) -> float:
    dtype, bits = NARROW[name]
    return float(np.array([code & (1 << bits) - 1], np.uint8).view(dtype)[0])


def narrow_inputs(name: str) -> list[float]:
    """Every value of the format, the middles between neighbours and what lies just beside them."""
    dtype, bits = NARROW[name]
    values = np.arange(1 << bits, dtype=np.uint8).view(dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(middles.astype(np.float32), np.float32(s)).astype(np.float64) for s in (-1e30, 1e30)]
    return [
        *values.tolist(),
        *middles.tolist(),
        *beside[0].tolist(),
        *beside[1].tolist(),
        1e30,
        -1e30,
        math.inf,
        math.nan,
        -0.0,
    ]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("relu", [False, True])
def test_f32_to_narrow_pairs(name, relu):
    each = 4 if name == "e2m1" else 8
    text = f"cvt.rn.satfinite{'.relu' * relu}.{name}x2.f32"
    if each == 4:
        text = "{{ .reg .b8 %x; " + text + " %x, {a}, {b}; mov.b16 {d}, {{%x, 0}}; }}"
    else:
        text += " {d}, {a}, {b};"

    def code(bits_of_number):
        x = decode(bits_of_number, "f32")
        return narrowed(0.0 if relu and not x > 0 and x == x else x, name)

    numbers = [f32(x) for x in narrow_inputs(name)]
    pairs = list(zip(numbers, numbers[7:] + numbers[:7], strict=True))
    check(Form(text, "b32 b32", "b16"), lambda a, b: code(a) << each | code(b), pairs[:900])


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_f16_pairs_to_narrow_pairs(name):
    codes = [
        encode(round_to(Fraction(x), "f16", "rn"), "f16") for x in narrow_inputs(name) if x == x and abs(x) < 65504
    ]
    pairs = [(a << 16 | b,) for a, b in zip(codes, codes[5:] + codes[:5], strict=True)] + [(0x7C007E00,), (0xFC00FFFF,)]
    check(
        Form(f"cvt.rn.satfinite.{name}x2.f16x2 {{d}}, {{a}};", "b32", "b16"),
        lambda a: narrowed(decode(a >> 16, "f16"), name) << 8 | narrowed(decode(a & 0xFFFF, "f16"), name),
        pairs[:900],
    )


@pytest.mark.parametrize("name", NARROW)
def test_narrow_pairs_to_f16_pairs_over_every_code(name):
    each = 4 if name == "e2m1" else 8
    top = (1 << each) - 1
    if each == 4:
        text = "{{ .reg .b8 %x, %y; mov.b16 {{%x, %y}}, {a}; cvt.rn.f16x2.e2m1x2 {d}, %x; }}"
    else:
        text = f"cvt.rn.f16x2.{name}x2 {{d}}, {{a}};"
    tuples = [((top - code) << each | code,) for code in range(top + 1)]
    check(
        Form(text, "b16", "b32"),
        lambda a: encode(lifted_code(a >> each, name), "f16") << 16 | encode(lifted_code(a & top, name), "f16"),
        tuples,
    )


def scale(mode, finite):
    """NVIDIA's own emulation in cuda_fp8.hpp, spelled with exponents."""

    def run(bits):
        x = abs(decode(bits, "f32"))
        if x != x:
            return 0xFF
        if math.isinf(x):
            return 0xFE if finite else 0xFF
        if x < 2.0**-127:
            return 0
        exponent = math.floor(math.log2(x))
        exponent += mode == "rp" and 2.0**exponent != x
        return min(exponent + 127, 0xFE if finite else 0xFF)

    return run


@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("finite", [False, True])
def test_scale_factors(mode, finite):
    numbers = [f32(m * 2.0**e) for e in (-149, -130, -128, -127, -126, -3, 0, 5, 127) for m in (1.0, 1.5, 1.9)]
    numbers += [0, 0x7F800000, 0x7FC00000, 0x7F7FFFFF, f32(-3.0)]
    one = scale(mode, finite)
    suffix = ".satfinite" * finite
    check(
        Form(f"cvt.{mode}{suffix}.ue8m0x2.f32 {{d}}, {{a}}, {{b}};", "b32 b32", "b16"),
        lambda a, b: one(a) << 8 | one(b),
        list(zip(numbers, numbers[::-1], strict=True)),
    )
    check(
        Form(f"cvt.{mode}{suffix}.ue8m0x2.bf16x2 {{d}}, {{a}};", "b32", "b16"),
        lambda a: one(a & 0xFFFF0000) << 8 | one(a << 16 & 0xFFFFFFFF),
    )


def test_scale_factors_back():
    def value(code):
        return 0x7FFF if code == 0xFF else encode(2.0 ** (code - 127), "bf16")

    check(
        Form("cvt.rn.bf16x2.ue8m0x2 {d}, {a};", "b16", "b32"),
        lambda a: value(a >> 8) << 16 | value(a & 255),
        [((255 - code) << 8 | code,) for code in range(256)],
    )


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mods", ["rn", "rz", "rn.relu", "rz.satfinite", "rn.relu.satfinite"])
def test_two_f32_into_halves(kind, mods):
    one = to_other("f32", kind, mods[:2], relu="relu" in mods, finite="satfinite" in mods)
    check(Form(f"cvt.{mods}.{kind}x2.f32 {{d}}, {{a}}, {{b}};", "b32 b32", "b32"), lambda a, b: one(a) << 16 | one(b))


PACKS = [("u16", 16), ("s16", 16), ("u8", 8), ("s8", 8), ("u4", 4), ("s4", 4), ("u2", 2), ("s2", 2)]


@pytest.mark.parametrize(("kind", "bits"), PACKS)
def test_cvt_pack(kind, bits):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)

    def oracle(a, b, c=0):
        x, y = (max(low, min(high, number(v, "s32"))) & (1 << bits) - 1 for v in (a, b))
        return (c << 2 * bits | x << bits | y) & 0xFFFFFFFF

    more, inputs = ("", "b32 b32") if bits == 16 else (".b32", "b32 b32 b32")
    third = ", {c}" if more else ""
    text = Form(f"cvt.pack.sat.{kind}.s32{more} {{d}}, {{a}}, {{b}}{third};", inputs, "b32")
    check(text, oracle, sample(text, 60) + [tuple(v % 300 for v in t) for t in sample(text, 40, seed=1)])


def test_results_extend_into_wider_registers():
    assert evaluate(Form("cvt.s8.s32 {d}, {a};", "b32", "b64"), [(0x80,)]) == [(1 << 64) - 128]
    assert evaluate(Form("cvt.u8.u32 {d}, {a};", "b32", "b64"), [(0x180,)]) == [0x80]
