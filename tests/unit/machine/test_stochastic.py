"""cvt.rs: the rule of carrying out, in exact arithmetic; where random bits lie; extremes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.exact import decode
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

from convc.machine import RunOptions
from convc.machine.base.switches import Switches
from convc.machine.isa.float.rounding import FORMATS
from convc.machine.isa.float.rounding import decode as numbers_of


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


COUNT = 256


def convert(mods: str, packed: str, values: np.ndarray, random: np.ndarray, **switches: str) -> np.ndarray:
    """Results (threads, numbers) of cvt.rs as float64, the first operand's first."""
    count = values.shape[1]
    register = "b16" if packed == "e2m1x4" else "b32"
    names = ["%f0", "%f1", "%f2", "%f3"][:count]
    operands = ", ".join(names) if count == 2 else "{" + ", ".join(names) + "}"
    text = module(
        f".reg .f32 %f<4>; .reg .b32 %id, %bits; .reg .{register} %d; .reg .b64 %o; mov.u32 %id, %tid.x;"
        "mul.wide.u32 %o, %id, 16; add.u64 %p_x, %p_x, %o; mul.wide.u32 %o, %id, 4;"
        "add.u64 %p_r, %p_r, %o; add.u64 %p_out, %p_out, %o;\n"
        + "".join(f"ld.global.f32 %f{i}, [%p_x+{4 * i}];\n" for i in range(count))
        + f"ld.global.b32 %bits, [%p_r];\ncvt.rs{mods}.{packed}.f32 %d, {operands}, %bits;\n"
        + f"st.global.{register} [%p_out], %d;",
        pointers=("x", "r", "out"),
    )
    wide = np.zeros((COUNT, 4), np.float32)
    wide[:, :count] = values
    given = {"x": wide, "r": random, "out": np.zeros(COUNT, np.uint32)}
    options = RunOptions(switches=Switches(**switches))
    result = execute(text, given, pointers=("x", "r", "out"), block=(COUNT, 1, 1), options=options)
    word = result.buffers["out"].reshape(-1)
    bits = (16 if register == "b16" else 32) // count
    target = packed[:-2]
    codes = [(word >> np.uint32(bits * (count - 1 - i))) & np.uint32((1 << bits) - 1) for i in range(count)]
    dtype = np.uint16 if bits == 16 else np.uint8
    return np.stack([numbers_of(code.astype(dtype), target) for code in codes], axis=1)


def expected(value: float, target: str, random: int, bits: int, *, saturate: bool, relu: bool) -> float:
    """The rule of the manual, in exact arithmetic."""
    form = FORMATS[target]
    exact = abs(Fraction(value))
    exponent = max(math.frexp(value)[1] - 1, form.low) - (form.precision - 1)
    unit = Fraction(2) ** exponent
    kept = exact // unit
    left = exact / unit - kept
    carry = math.floor(left * 2**bits) + random >= 2**bits
    result = float((kept + carry) * unit)
    if result > form.largest:
        result = form.largest if saturate or not form.infinite else math.inf
    result = math.copysign(result, value)
    return 0.0 if relu and result < 0 else result


def inputs(count: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    shape = (COUNT, count)
    values = rng.choice([-1, 1], shape) * (1 + rng.random(shape)) * 2.0 ** rng.integers(low, high, shape)
    values[:8] = 0
    values[8:12] = 2.0**high * 1.99
    return values.astype(np.float32), rng.integers(0, 1 << 32, COUNT, dtype=np.uint32)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("saturate", ["", ".satfinite"])
@pytest.mark.parametrize(("kind", "bits", "low", "high"), [("f16", 13, -20, 16), ("bf16", 16, -130, 127)])
def test_stochastic_rounding(kind, bits, low, high, saturate, relu):
    values, random = inputs(2, low, high)
    got = convert(relu + saturate, kind + "x2", values, random)
    options = {"saturate": bool(saturate), "relu": bool(relu)}
    for row, word, found in zip(values.tolist(), random.tolist(), got.tolist(), strict=True):
        parts = (word >> 16 & (1 << bits) - 1, word & (1 << bits) - 1)
        assert found == [expected(x, kind, part, bits, **options) for x, part in zip(row, parts, strict=True)]


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("setting", ["shared", "apart"])
@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_stochastic_rounding_of_four(kind, setting, relu):
    values, random = inputs(4, FORMATS[kind].low - 5, round(math.log2(FORMATS[kind].largest)) + 1)
    got = convert(relu + ".satfinite", kind + "x4", values, random, random_bits=setting)
    for row, word, found in zip(values.tolist(), random.tolist(), got.tolist(), strict=True):
        bits = 16 if setting == "shared" else 8
        places = (16, 16, 0, 0) if setting == "shared" else (24, 16, 8, 0)
        parts = [word >> place & (1 << bits) - 1 for place in places]
        options = {"saturate": True, "relu": bool(relu)}
        assert found == [expected(x, kind, part, bits, **options) for x, part in zip(row, parts, strict=True)]


def test_numbers_that_a_format_has_never_move():
    values = np.tile(np.array([[0.5, -1.0, 6.0, 1.5]], np.float32), (COUNT, 1))
    got = convert(".satfinite", "e2m1x4", values, np.full(COUNT, 0xFFFFFFFF, np.uint32))
    assert np.array_equal(got, values)


def test_what_is_no_number():
    values = np.tile(np.array([[np.nan, -np.inf]], np.float32), (COUNT, 1))
    random = np.arange(COUNT, dtype=np.uint32)
    plain = convert("", "f16x2", values, random)
    assert np.isnan(plain[:, 0]).all()
    assert (plain[:, 1] == -np.inf).all()
    assert (convert(".satfinite", "bf16x2", values, random)[:, 1] == -FORMATS["bf16"].largest).all()
    four = convert(".satfinite", "e4m3x4", np.tile(values, (1, 2)), random)
    assert np.isnan(four[:, [0, 2]]).all()
    assert (four[:, [1, 3]] == -448).all()
    assert math.isnan(decode(0x7FFF, "f16"))


def test_relu_has_no_negative_zero():
    values = np.tile(np.float32([-0.0, -1.5]), (COUNT, 1))
    random = np.zeros(COUNT, np.uint32)
    assert np.signbit(convert("", "f16x2", values, random)).all()
    assert not np.signbit(convert(".relu", "f16x2", values, random)).any()
