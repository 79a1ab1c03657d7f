"""Floating-point forms against exact fractions and against plain float64 for the approximate ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.exact import BITS, KINDS, decode, encode, f32, flush, round_to
from support.forms import Form, check, evaluate, sample

NAN32 = 0x7FFFFFFF


def operate(name: str, kind: str, mode: str = "rn", ftz: bool = False):
    """Oracle of add, sub, mul, fma, div, rcp, sqrt: infinities and NaN by Python, the rest by fractions."""

    def run(*bits: int) -> int:
        x = [decode(flush(b, kind) if ftz else b, kind) for b in bits]
        out = encode(value(x), kind)
        return flush(out, kind) if ftz else out

    def value(x: list[float]) -> float:
        with np.errstate(all="ignore"):
            loose = float(LOOSE[name](*map(np.float64, x)))
        if (
            not all(map(math.isfinite, x))
            or math.isnan(loose)
            or (math.isinf(loose) and name in ("div", "rcp") and x[-1] == 0)
        ):
            return loose
        if name == "sqrt":
            return root(x[0], kind, mode)
        exact = EXACT[name](*map(Fraction, x))
        zero = loose
        if name in ("add", "sub", "fma") and exact == 0 and mode == "rm":
            first = x[0] * x[1] if name == "fma" else x[0]
            second = -x[1] if name == "sub" else x[-1]
            plus = math.copysign(1, first) > 0 and math.copysign(1, second) > 0
            zero = 0.0 if plus else -0.0
        if exact == 0 and name == "fma":
            zero = math.copysign(0.0, zero)
        return round_to(exact, kind, mode, zero)

    return run


EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b, "rcp": lambda a: 1 / a,
}  # fmt: skip
LOOSE = {**EXACT, "rcp": lambda a: np.float64(1) / a, "sqrt": np.sqrt}


def root(x: float, kind: str, mode: str) -> float:
    """Square root by comparing squares of neighbours."""
    if x == 0 or math.isinf(x):
        return x
    scale = 200 + KINDS[kind][0] * 2
    exact = Fraction(x)
    shift = 2 * (scale + 600)
    whole = math.isqrt(int(exact * 2**shift))
    near = Fraction(whole, 2 ** (shift // 2))
    if near * near != exact:
        near += Fraction(1, 2 ** (shift // 2 + 1))  # strictly between neighbours: rounds as the root does
    return round_to(near, kind, mode)


def halves(function):
    """The packed form of a 16-bit oracle."""

    def run(*values):
        return function(*[v >> 16 for v in values]) << 16 | function(*[v & 0xFFFF for v in values])

    return run


def words(function):
    def run(*values):
        return function(*[v >> 32 for v in values]) << 32 | function(*[v & 0xFFFFFFFF for v in values])

    return run


def then(function, step):
    return lambda *v: step(function(*v))


def saturate(kind):
    def run(bits):
        x = decode(bits, kind)
        return encode(0.0 if not x > 0 else min(x, 1.0), kind)

    return run


def relu(kind):
    return lambda bits: bits if decode(bits, kind) != decode(bits, kind) or decode(bits, kind) > 0 else 0


def names(count: int) -> str:
    return ", ".join(["{d}", "{a}", "{b}", "{c}"][: count + 1])


ARITHMETIC = []
for _name, _count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)):
    for _mode in ("rn", "rz", "rm", "rp"):
        for _kind in ("f32", "f64"):
            ARITHMETIC.append((_name, _count, _mode, _kind, f".{_mode}", False))
    ARITHMETIC.append((_name, _count, "rn", "f32", ".rn.ftz", True))
for _name, _count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
    for _kind in ("f16", "bf16"):
        ARITHMETIC.append((_name, _count, "rn", _kind, ".rn", False))
    ARITHMETIC.append((_name, _count, "rn", "f16", ".rn.ftz", True))


def arithmetic_form(name, count, kind, mods) -> Form:
    b = f"b{BITS[kind]}"
    return Form(f"{name}{mods}.{kind} {names(count)};", " ".join([b] * count), b)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("name", "count", "mode", "kind", "mods", "ftz"), ARITHMETIC)
def test_correctly_rounded_arithmetic(name, count, mode, kind, mods, ftz):
    form = arithmetic_form(name, count, kind, mods)
    tuples = sample(form, 160)
    near = [(t[0], t[0] ^ 1 << BITS[kind] - 1, *t[2:]) for t in tuples[:20]] if count > 1 else []
    check(form, operate(name, kind, mode, ftz), tuples + near)


B32, B64 = "b32 b32", "b64 b64"
MODIFIED = [
    (Form("add.sat.f32 {d}, {a}, {b};", B32, "b32"), then(operate("add", "f32"), saturate("f32"))),
    (Form("fma.rm.ftz.sat.f32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"),
     then(operate("fma", "f32", "rm", True), saturate("f32"))),
    (Form("mul.rn.ftz.sat.f16x2 {d}, {a}, {b};", B32, "b32"),
     halves(then(operate("mul", "f16", "rn", True), saturate("f16")))),
    (Form("fma.rn.relu.bf16 {d}, {a}, {b}, {c};", "b16 b16 b16", "b16"), then(operate("fma", "bf16"), relu("bf16"))),
    (Form("fma.rn.relu.f16x2 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"),
     halves(then(operate("fma", "f16"), relu("f16")))),
    (Form("add.rn.bf16x2 {d}, {a}, {b};", B32, "b32"), halves(operate("add", "bf16"))),
    (Form("sub.rn.bf16x2 {d}, {a}, {b};", B32, "b32"), halves(operate("sub", "bf16"))),
    (Form("add.rz.f32x2 {d}, {a}, {b};", B64, "b64"), words(operate("add", "f32", "rz"))),
    (Form("mul.rn.ftz.f32x2 {d}, {a}, {b};", B64, "b64"), words(operate("mul", "f32", "rn", True))),
    (Form("fma.rp.f32x2 {d}, {a}, {b}, {c};", "b64 b64 b64", "b64"), words(operate("fma", "f32", "rp"))),
    (Form("neg.ftz.f32 {d}, {a};", "b32", "b32"), lambda a: flush(a, "f32") ^ 1 << 31),
    (Form("abs.f16x2 {d}, {a};", "b32", "b32"), lambda a: a & 0x7FFF7FFF),
    (Form("neg.bf16x2 {d}, {a};", "b32", "b32"), lambda a: a ^ 0x80008000),
    (Form("abs.f64 {d}, {a};", "b64", "b64"), lambda a: a & (1 << 63) - 1),
    (Form("copysign.f32 {d}, {a}, {b};", B32, "b32"), lambda a, b: a & 1 << 31 | b & (1 << 31) - 1),
    (Form("copysign.f64 {d}, {a}, {b};", B64, "b64"), lambda a, b: a & 1 << 63 | b & (1 << 63) - 1),
]  # fmt: skip


@pytest.mark.parametrize(("form", "oracle"), MODIFIED, ids=lambda v: v.text if isinstance(v, Form) else "")
def test_modifiers_and_packed_types(form, oracle):
    check(form, oracle)


def mixed(name, half, mode, sat):
    def run(*bits):
        x = [encode(decode(b, half), "f32") for b in bits[:-1]]
        out = operate(name, "f32", mode)(*x, bits[-1])
        return saturate("f32")(out) if sat else out

    return run


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize(("name", "count"), [("add", 2), ("sub", 2), ("fma", 3)])
@pytest.mark.parametrize(("mode", "sat"), [("rn", False), ("rz", True)])
def test_mixed_precision(half, name, count, mode, sat):
    form = Form(f"{name}.{mode}{'.sat' * sat}.f32.{half} {names(count)};", "b16 " * (count - 1) + "b32", "b32")
    check(form, mixed(name, half, mode, sat))


def extreme(largest, kind, nan=False, xorsign=False, ftz=False):
    def run(*bits):
        bits = [flush(b, kind) if ftz else b for b in bits]
        top = 1 << BITS[kind] - 1
        sign = 0
        if xorsign:
            sign = (bits[0] ^ bits[1]) & top
            bits = [b & ~top for b in bits]
        numbers = [b for b in bits if decode(b, kind) == decode(b, kind)]
        if not numbers or (nan and len(numbers) < len(bits)):
            return encode(math.nan, kind)
        best = (max if largest else min)(numbers, key=lambda b: (decode(b, kind), math.copysign(1, decode(b, kind))))
        return best | sign

    return run


EXTREMES = [
    (Form("max.f32 {d}, {a}, {b};", B32, "b32"), extreme(True, "f32")),
    (Form("min.ftz.NaN.f32 {d}, {a}, {b};", B32, "b32"), extreme(False, "f32", nan=True, ftz=True)),
    (Form("max.NaN.xorsign.abs.f32 {d}, {a}, {b};", B32, "b32"), extreme(True, "f32", nan=True, xorsign=True)),
    (Form("min.xorsign.abs.bf16 {d}, {a}, {b};", "b16 b16", "b16"), extreme(False, "bf16", xorsign=True)),
    (Form("min.f64 {d}, {a}, {b};", B64, "b64"), extreme(False, "f64")),
    (Form("max.f16 {d}, {a}, {b};", "b16 b16", "b16"), extreme(True, "f16")),
    (Form("min.NaN.f16x2 {d}, {a}, {b};", B32, "b32"), halves(extreme(False, "f16", nan=True))),
    (Form("max.bf16x2 {d}, {a}, {b};", B32, "b32"), halves(extreme(True, "bf16"))),
]
THREE = [
    (Form("max.f32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"), extreme(True, "f32")),
    (Form("min.NaN.f32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"), extreme(False, "f32", nan=True)),
    (Form("min.abs.f32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"),
     lambda *v: extreme(False, "f32")(*[x & (1 << 31) - 1 for x in v])),
]  # fmt: skip


@pytest.mark.parametrize(("form", "oracle"), EXTREMES + THREE, ids=lambda v: v.text if isinstance(v, Form) else "")
def test_min_and_max(form, oracle):
    zeros = sample(form, 20, seed=3)
    mask = 0x80008000 if form.text[4:].split()[0].endswith("x2") else 1 << int(form.inputs[1:3]) - 1
    zeros = [tuple(v & mask for v in t) for t in zeros]
    check(form, oracle, sample(form) + zeros)


def property_of(name, kind):
    def run(bits):
        x = decode(bits, kind)
        tiny = 2.0 ** KINDS[kind][1]
        return int(
            {
                "finite": math.isfinite(x),
                "infinite": math.isinf(x),
                "number": x == x,
                "notanumber": x != x,
                "normal": math.isfinite(x) and abs(x) >= tiny,
                "subnormal": 0 < abs(x) < tiny,
            }[name]
        )

    return run


@pytest.mark.parametrize("name", ["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_testp(name, kind):
    check(Form(f"testp.{name}.{kind} {{d}}, {{a}};", f"b{kind[1:]}", "pred"), property_of(name, kind))


def compared(name, kind, ftz=False):
    def run(a, b):
        x, y = (decode(flush(v, kind) if ftz else v, kind) for v in (a, b))
        unordered = x != x or y != y
        if name in ("num", "nan"):
            return int(unordered == (name == "nan"))
        holds = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[name[:2]]
        return int(unordered or holds) if len(name) == 3 else int(holds and not unordered)

    return run


RELATIONS = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_setp(name, kind):
    b = f"b{BITS[kind]}"
    check(Form(f"setp.{name}.{kind} {{d}}, {{a}}, {{b}};", f"{b} {b}", "pred"), compared(name, kind))


def both(function, join=None):
    """setp and set of packed pairs: (lower half, upper half)."""

    def run(a, b, *c):
        low, high = function(a & 0xFFFF, b & 0xFFFF), function(a >> 16, b >> 16)
        return (join(low, c[0]), join(high, c[0])) if c else (low, high)

    return run


PAIRS = [
    (Form("setp.lt.f16x2 {d}|{q}, {a}, {b};", B32, "pred"), both(compared("lt", "f16"))),
    (Form("setp.geu.and.bf16x2 {d}|{q}, {a}, {b}, {c};", B32 + " pred", "pred"),
     both(compared("geu", "bf16"), lambda h, c: h & c)),
    (Form("setp.gt.or.ftz.f32 {d}|{q}, {a}, {b}, !{c};", B32 + " pred", "pred"),
     lambda a, b, c: (compared("gt", "f32", True)(a, b) | 1 - c, 1 - compared("gt", "f32", True)(a, b) | 1 - c)),
    (Form("set.le.f16x2.f16x2 {d}, {a}, {b};", B32, "b32"),
     lambda a, b: sum(0x3C00 * v << 16 * i for i, v in enumerate(both(compared("le", "f16"))(a, b)))),
    (Form("set.nan.u32.bf16x2 {d}, {a}, {b};", B32, "b32"),
     lambda a, b: sum(0xFFFF * v << 16 * i for i, v in enumerate(both(compared("nan", "bf16"))(a, b)))),
    (Form("set.gt.bf16.f32 {d}, {a}, {b};", B32, "b16"), lambda a, b: 0x3F80 * compared("gt", "f32")(a, b)),
    (Form("set.ne.u16.f16 {d}, {a}, {b};", "b16 b16", "b16"), lambda a, b: 0xFFFF * compared("ne", "f16")(a, b)),
    (Form("slct.f32.f32 {d}, {a}, {b}, {c};", "b32 b32 b32", "b32"), lambda a, b, c: a if decode(c, "f32") >= 0 else b),
]  # fmt: skip


@pytest.mark.parametrize(("form", "oracle"), PAIRS, ids=lambda v: v.text if isinstance(v, Form) else "")
def test_comparisons_with_two_results(form, oracle):
    check(form, oracle)


# ---- approximations: compared in float64, within the manual's error ----------------------------------------

APPROXIMATE = [
    ("rcp.approx.f32", "f32", lambda x: 1 / x),
    ("sqrt.approx.f32", "f32", np.sqrt),
    ("rsqrt.approx.f32", "f32", lambda x: 1 / np.sqrt(x)),
    ("sin.approx.f32", "f32", np.sin),
    ("cos.approx.f32", "f32", np.cos),
    ("lg2.approx.f32", "f32", np.log2),
    ("ex2.approx.f32", "f32", np.exp2),
    ("tanh.approx.f32", "f32", np.tanh),
    ("ex2.approx.f16", "f16", np.exp2),
    ("tanh.approx.f16", "f16", np.tanh),
    ("tanh.approx.bf16", "bf16", np.tanh),
]


def approximated(function, kind):
    def run(bits):
        with np.errstate(all="ignore"):
            value = float(function(np.float64(decode(bits, kind))))
        if not math.isfinite(value) or value == 0:
            return encode(value, kind)
        return encode(round_to(Fraction(value), kind, "rn"), kind)

    return run


@pytest.mark.parametrize(("name", "kind", "function"), APPROXIMATE, ids=lambda v: v if isinstance(v, str) else "")
def test_approximations_are_the_rounded_value(name, kind, function):
    b = f"b{BITS[kind]}"
    form = Form(f"{name} {{d}}, {{a}};", b, b)
    ordinary = [(encode(round_to(Fraction(x), kind, "rn"), kind),) for x in np.linspace(-20, 20, 81).tolist() if x]
    check(form, approximated(function, kind), sample(form) + ordinary)


def test_packed_and_flushed_approximations():
    exp = approximated(np.exp2, "bf16")
    ftz = then(lambda a: exp(flush(a, "bf16")), lambda a: flush(a, "bf16"))
    one = Form("ex2.approx.ftz.bf16 {d}, {a};", "b16", "b16")
    two = Form("ex2.approx.f16x2 {d}, {a};", "b32", "b32")
    ordinary = [(encode(x, "f16") << 16 | encode(-x, "f16"),) for x in np.linspace(0, 9, 19).tolist()]
    check(two, halves(approximated(np.exp2, "f16")), sample(two) + ordinary)
    got = evaluate(one, sample(one))
    # numpy's bfloat16 has subnormals; the form flushes what is below 2**-126.
    for (a,), g in zip(sample(one), got, strict=True):
        x = decode(a, "bf16")
        if x == x and abs(x) < 126:
            assert g == ftz(a)


def test_approximate_division():
    cases = {
        (1.0, 3.0): f32(1 / 3),
        (1.0, 0.0): f32(math.inf),
        (-1.0, 0.0): f32(-math.inf),
        (0.0, 0.0): NAN32,
        (3.0, 2.0**126): f32(3 * 2.0**-126),
        (3.0, 2.0**126 + 2.0**103): 0,
        (1.0, 2.0**127): 0,
        (-1.0, 2.0**127): 1 << 31,
        (math.inf, 2.0**127): NAN32,
        (5.0, math.inf): 0,
    }
    form = Form("div.approx.f32 {d}, {a}, {b};", B32, "b32")
    check(form, lambda a, b: cases[decode(a, "f32"), decode(b, "f32")], [(f32(a), f32(b)) for a, b in cases])
    full = Form("div.full.f32 {d}, {a}, {b};", B32, "b32")
    assert evaluate(full, [(f32(1.0), f32(2.0**127))]) == [f32(2.0**-127)]


def test_double_approximations_use_the_upper_words():
    rcp = Form("rcp.approx.ftz.f64 {d}, {a};", "b64", "b64")
    rsqrt = Form("rsqrt.approx.ftz.f64 {d}, {a};", "b64", "b64")
    for form, function in ((rcp, lambda x: 1 / x), (rsqrt, lambda x: 1 / math.sqrt(x))):
        for x in (1.0, 3.0, 7.25, 1e-300, 123456.789):
            (got,) = evaluate(form, [(encode(x, "f64"),)])
            assert got & 0xFFFFFFFF == 0
            assert decode(got, "f64") == pytest.approx(function(x), rel=2**-18)


def test_a_double_square_root_is_upside_down_in_full():
    """Without .ftz all bits count, subnormal ones too; a division and a root round once each."""
    form = Form("rsqrt.approx.f64 {d}, {a};", "b64", "b64")
    for x in (1.0, 3.0, 7.25, 5e-324, 1e300, 0.11341865083372567):
        (got,) = evaluate(form, [(encode(x, "f64"),)])
        assert decode(got, "f64") == pytest.approx(1 / math.sqrt(x), rel=2**-52)
    specials = [(encode(x, "f64"),) for x in (0.0, -0.0, math.inf, -1.0)]
    assert [decode(got, "f64") for got in evaluate(form, specials[:3])] == [math.inf, -math.inf, 0.0]
    assert math.isnan(decode(evaluate(form, specials[3:])[0], "f64"))
