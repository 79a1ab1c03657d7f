"""Integer expressions as PTX: the lines, run by a few lines of Python, give what the expression says."""

from __future__ import annotations

import operator
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import some

from convc.compiler.tile.exprs import Code, Number, lower
from convc.errors import PlanError
from convc.ir.expr import And, Const, Less, Select, Var, add, bounds, evaluate, floor_div, mod, mul, subterms

LINE = re.compile(r"(?:@(?P<guard>%\w+) )?(?P<op>[\w.]+) (?P<args>.*);")


def wrap(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    """Towards zero, as PTX divides."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def execute(code: Code, registers: dict[str, int]) -> dict[str, int]:
    """Registers after the lines; a register keeps its bits as an unsigned number."""
    state = dict(registers)
    for line in code.lines:
        match = LINE.fullmatch(line)
        assert match, line
        if match["guard"] and not state[match["guard"]]:
            continue
        name, *modifiers = match["op"].split(".")
        kind = modifiers[-1]
        to, *args = (text.strip() for text in match["args"].split(","))
        if name == "cvt":
            source = modifiers[-1]
            value = wrap(value_of(state, args[0]), int(source[1:]), source[0] == "s")
            state[to] = wrap(value, int(modifiers[0][1:]), False)
            continue
        if kind == "pred":
            state[to] = state[args[0]] & state[args[1]]
            continue
        bits, signed = int(kind[1:]), kind[0] == "s"
        *front, last = args
        inputs = [wrap(value_of(state, arg), bits, signed) for arg in (front if name == "selp" else args)]
        if name == "selp":
            state[to] = wrap(inputs[0] if state[last] else inputs[1], bits, False)
            continue
        result = {
            "mov": lambda a: a,
            "add": operator.add,
            "sub": operator.sub,
            "mul": operator.mul,
            "mad": lambda a, b, c: a * b + c,
            "div": quotient,
            "rem": lambda a, b: a - b * quotient(a, b),
            "and": operator.and_,
            "shr": operator.rshift,
            "setp": operator.lt,
        }[name](*inputs)
        state[to] = wrap(result, 64 if "wide" in modifiers else 1 if name == "setp" else bits, False)
    return state


def value_of(state: dict[str, int], operand: str) -> int:
    return state[operand] if operand.startswith("%") else int(operand)


RANGES = {"i": (-100, 100), "j": (0, 200_000), "k": (0, 9), "big": (0, 1 << 40)}
NUMBERS = {name: Number(bits=64 if name == "big" else 32, low=low, high=high) for name, (low, high) in RANGES.items()}


def expressions() -> st.SearchStrategy:
    leaves = st.one_of(st.sampled_from([Var(name) for name in RANGES]), st.integers(-70_000, 70_000).map(Const))

    def grow(inner: st.SearchStrategy) -> st.SearchStrategy:
        divisor = st.one_of(st.integers(1, 3000), st.sampled_from([2, 64, 4096]))
        condition = st.one_of(
            st.builds(Less, inner, inner), st.builds(lambda a, b, c: And((Less(a, b), Less(b, c))), inner, inner, inner)
        )
        return st.one_of(
            st.builds(add, inner, inner, inner),
            st.builds(mul, inner, inner),
            st.builds(floor_div, inner, divisor),
            st.builds(mod, inner, divisor),
            st.builds(Select, condition, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=6)


def fits(interval: tuple[int, int]) -> bool:
    return interval[0] >= -(1 << 63) and interval[1] < 1 << 63


@settings(max_examples=some(300))
@given(expressions(), st.data())
def test_the_lines_compute_the_expression(expr, data):
    low, high = bounds(expr, RANGES)
    point = {
        name: data.draw(st.one_of(st.integers(*limits), st.sampled_from(limits)), name)
        for name, limits in RANGES.items()
    }
    bits = 32 if low >= -(1 << 31) and high < 1 << 31 else 64
    if any(not fits(bounds(part, RANGES)) for part in subterms(expr)):
        with pytest.raises(PlanError, match="64 bits cannot hold"):
            lower(expr, "d", bits, NUMBERS)
        return
    code = lower(expr, "d", bits, NUMBERS)
    registers = {f"%{name}": wrap(value, NUMBERS[name].bits, False) for name, value in point.items()}
    result = wrap(execute(code, registers)["%d"], bits, True)
    assert result == evaluate(expr, point)


def test_the_ends_of_64_bits_are_inside():
    low, high = -(1 << 63), (1 << 63) - 1
    one = add(Var("v"), Const(1))
    lower(one, "d", 64, {"v": Number(bits=64, low=low - 1, high=high - 1)})
    for beyond in ((low - 2, high - 1), (low - 1, high)):
        with pytest.raises(PlanError, match="64 bits cannot hold"):
            lower(one, "d", 64, {"v": Number(bits=64, low=beyond[0], high=beyond[1])})


def test_a_dividend_that_is_never_negative_is_divided_unsigned():
    assert lower(Var("j") // 56, "d", 32, NUMBERS).lines == ("div.u32 %d, %j, 56;",)
    assert lower(Var("j") % 56, "d", 32, NUMBERS).lines == ("rem.u32 %d, %j, 56;",)


def test_a_negative_dividend_is_rounded_down():
    code = lower(Var("i") // 7, "d", 32, NUMBERS)
    assert execute(code, {"%i": wrap(-1, 32, False)})["%d"] == wrap(-1, 32, False)
    assert not any("div.u" in line for line in code.lines)


def test_powers_of_two_need_no_division():
    assert lower(Var("i") // 8, "d", 32, NUMBERS).lines == ("shr.s32 %d, %i, 3;",)
    assert lower(Var("i") % 8, "d", 32, NUMBERS).lines == ("and.b32 %d, %i, 7;",)


def test_a_wide_product_of_narrow_numbers_is_one_instruction():
    assert lower(Var("j") * 1_000_000, "d", 64, NUMBERS).lines == ("mul.wide.u32 %d, %j, 1000000;",)
    assert lower(Var("i") * 100_000_000, "d", 64, NUMBERS).lines == ("mul.wide.s32 %d, %i, 100000000;",)


def test_equal_subterms_are_computed_once():
    term = Var("j") // 56
    assert sum("div" in line for line in lower(term * Var("k") + term, "d", 32, NUMBERS).lines) == 1


@pytest.mark.parametrize(
    ("expr", "bits", "message"),
    [
        (Var("nobody"), 32, "no register holds nobody"),
        (Var("d") + 1, 32, "reads the register that it writes"),
        (Less(Var("i"), Var("j")), 32, "only a selection can use it"),
    ],
)
def test_what_cannot_be_lowered_says_why(expr, bits, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lower(expr, "d", bits, {**NUMBERS, "d": Number(bits=32, low=0, high=1)} if "reads" in message else NUMBERS)


@pytest.mark.parametrize(("expr", "bits"), [(Var("j") * 100_000, 32), (Var("big") * Var("big"), 64)])
def test_numbers_too_large_for_a_register_are_an_error_of_the_plan(expr, bits):
    with pytest.raises(PlanError, match=f"which {bits} bits cannot hold"):
        lower(expr, "d", bits, NUMBERS)


def test_ptxas_accepts_every_shape(assembled):
    """One kernel with each kind of line."""
    i, j, k, big = (Var(name) for name in NUMBERS)
    exprs = [
        (i * 3 + j - k, 32),
        (i // 7, 32),
        (i % 7, 32),
        (i // 8, 32),
        (i % 8, 32),
        (j // 56 * k, 32),
        (Const(-3), 32),
        (j * 1_000_000, 64),
        (big + j, 64),
        (big // 1000, 64),
        (big % 1000, 32),
        (Select(And((Less(i, j), Less(k, i))), i, k), 32),
        (Select(Less(big, j), big, Const(5)), 64),
    ]
    body = []
    for expr, bits in exprs:
        code = lower(expr, "d", bits, NUMBERS)
        store = f"st.global.b{bits} [%p], %d;"
        body += ["{", f".reg .b{bits} %d;", *code.declarations, *code.lines, store, "}"]
    text = "\n".join(
        [
            ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p) {",
            ".reg .b32 %i, %j, %k; .reg .b64 %big, %p; ld.param.u64 %p, [p];",
            "ld.global.b32 %i, [%p]; ld.global.b32 %j, [%p]; ld.global.b32 %k, [%p]; ld.global.b64 %big, [%p];",
            *body,
            "ret; }",
        ]
    )
    assembled(text)
