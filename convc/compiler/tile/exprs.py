"""Integer expressions as straight-line PTX.

An `IntExpr` means integers without limit and division that rounds down; PTX has registers of 32 and 64 bits and
division that rounds towards zero. Interval arithmetic bridges the two: every subterm whose values fit a signed 32-bit
register lives in one, every other in a 64-bit one, and a product of two narrow values that may be wide is one
``mul.wide``. Division and remainder by a power of two are a shift and a mask, which round down whatever the sign. Any
other divisor uses the unsigned instruction where the dividend is proved not to be negative, and a signed one with a
correction where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from convc.errors import PlanError
from convc.ir.expr import (
    Add,
    And,
    Const,
    FloorDiv,
    Interval,
    IntExpr,
    Less,
    Mod,
    Mul,
    Select,
    Var,
    bounds,
)

NARROW: Interval = (-(2**31), 2**31 - 1)
WIDE: Interval = (-(2**63), 2**63 - 1)


class Number(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A register that holds an integer: its width in bits and the values it can have."""

    bits: int
    low: int
    high: int


class Code(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Lines that compute one number, and the declarations of the registers they use besides the result."""

    declarations: tuple[str, ...]
    lines: tuple[str, ...]


def lower(expr: IntExpr, dst: str, bits: int, numbers: Mapping[str, Number]) -> Code:
    """PTX lines that set the register ``%dst`` (of `bits` bits) to the value of `expr`.

    Args:
        numbers: the registers that hold the variables, by name.

    Raises:
        PlanError: the result may leave `bits` bits, or a subterm 64 bits.
        ValueError: a variable is not in `numbers` or is `dst` itself, or a divisor may not be positive.
    """
    if dst in expr.variables():
        raise ValueError(f"{dst} = {expr} reads the register that it writes")
    unknown = sorted(expr.variables() - numbers.keys())
    if unknown:
        raise ValueError(f"{dst}: no register holds {', '.join(unknown)}")
    ranges = {name: (number.low, number.high) for name, number in numbers.items()}
    writer = _Writer(numbers, ranges)
    if bits < writer.bits(expr):
        raise PlanError(f"{dst} = {expr} may be {bounds(expr, ranges)}, which {bits} bits cannot hold")
    writer.into(f"%{dst}", bits, expr)
    return Code(declarations=tuple(writer.declarations()), lines=tuple(writer.lines))


def _power(value: IntExpr) -> int | None:
    """n where the expression is the constant 2^n."""
    if isinstance(value, Const) and value.value > 0 and value.value.bit_count() == 1:
        return value.value.bit_length() - 1
    return None


class _Writer(msgspec.Struct):
    numbers: Mapping[str, Number]
    ranges: Mapping[str, Interval]
    lines: list[str] = msgspec.field(default_factory=list)
    made: dict[tuple[IntExpr, int], str] = msgspec.field(default_factory=dict)
    count: dict[str, int] = msgspec.field(default_factory=lambda: {"t": 0, "w": 0, "p": 0})

    def declarations(self) -> list[str]:
        types = {"t": ".b32", "w": ".b64", "p": ".pred"}
        return [f".reg {types[kind]} %{kind}<{used}>;" for kind, used in self.count.items() if used]

    def fresh(self, kind: str) -> str:
        self.count[kind] += 1
        return f"%{kind}{self.count[kind] - 1}"

    def bits(self, expr: IntExpr) -> int:
        """32 where all values of the expression fit a signed 32-bit register, else 64."""
        low, high = bounds(expr, self.ranges)
        if NARROW[0] <= low and high <= NARROW[1]:
            return 32
        if WIDE[0] <= low and high <= WIDE[1]:
            return 64
        raise PlanError(f"{expr} may be {(low, high)}, which 64 bits cannot hold")

    def operation_bits(self, expr: IntExpr) -> int:
        """Width of the instruction that makes the expression; sums and products may drop high bits of operands."""
        match expr:
            case Var(name):
                return self.numbers[name].bits
            case FloorDiv(a, b) | Mod(a, b):
                return max(self.bits(a), self.bits(b))
            case _:
                return self.bits(expr)

    def nonnegative(self, *exprs: IntExpr) -> bool:
        return all(bounds(expr, self.ranges)[0] >= 0 for expr in exprs)

    def value(self, expr: IntExpr, bits: int) -> str:
        """The operand that holds the expression: an immediate, or a register of that width."""
        if isinstance(expr, Const):
            return str(expr.value)
        if isinstance(expr, Var) and self.numbers[expr.name].bits == bits:
            return f"%{expr.name}"
        key = (expr, bits)
        if key not in self.made:
            register = self.fresh("t" if bits == 32 else "w")
            self.into(register, bits, expr)
            self.made[key] = register
        return self.made[key]

    def into(self, to: str, bits: int, expr: IntExpr) -> None:
        """Lines that put the expression into the register `to`."""
        made = self.operation_bits(expr)
        match expr:
            case Const(value):
                self.lines.append(f"mov.b{bits} {to}, {value};")
            case Mul((a, b)) if bits == 64 and self.bits(a) == self.bits(b) == 32:
                sign = "u" if self.nonnegative(a, b) else "s"
                a, b = (b, a) if isinstance(a, Const) else (a, b)
                self.lines.append(f"mul.wide.{sign}32 {to}, {self.value(a, 32)}, {self.value(b, 32)};")
            case _ if made > bits:
                self.lines.append(f"cvt.u32.u64 {to}, {self.value(expr, 64)};")
            case _ if made < bits:
                sign = "u" if self.nonnegative(expr) else "s"
                self.lines.append(f"cvt.{sign}64.{sign}32 {to}, {self.value(expr, 32)};")
            case Var(name):
                self.lines.append(f"mov.b{bits} {to}, %{name};")
            case Add(args):
                self._sum(to, bits, args)
            case Mul(args):
                left = self.value(args[0], bits)
                for factor in args[1:]:
                    self.lines.append(f"mul.lo.s{bits} {to}, {left}, {self.value(factor, bits)};")
                    left = to
            case FloorDiv(a, b) | Mod(a, b):
                self._divide(to, bits, isinstance(expr, Mod), a, b)
            case Select(cond, a, b):
                first = self.value(a, bits)
                second = self.value(b, bits)
                self.lines.append(f"selp.b{bits} {to}, {first}, {second}, {self.predicate(cond)};")
            case _:
                raise ValueError(f"{expr} is a condition; only a selection can use it")

    def _sum(self, to: str, bits: int, args: tuple[IntExpr, ...]) -> None:
        """Add up from a plain term on, so that the narrow products that follow are multiply-adds."""
        first = next((index for index, arg in enumerate(args) if not isinstance(arg, Mul | Const)), 0)
        total = self.value(args[first], bits)
        for arg in args[:first] + args[first + 1 :]:
            match arg:
                case Mul((a, Const(-1))):
                    line = f"sub.s{bits} {to}, {total}, {self.value(a, bits)};"
                case Mul((a, b)) if bits == 32:
                    line = f"mad.lo.s32 {to}, {self.value(a, 32)}, {self.value(b, 32)}, {total};"
                case _:
                    line = f"add.s{bits} {to}, {total}, {self.value(arg, bits)};"
            self.lines.append(line)
            total = to

    def _divide(self, to: str, bits: int, remainder: bool, a: IntExpr, b: IntExpr) -> None:
        if bounds(b, self.ranges)[0] <= 0:
            raise ValueError(f"the divisor {b} may not be positive")
        power = _power(b)
        dividend = self.value(a, bits)
        divisor = self.value(b, bits)
        if power is not None and remainder:
            self.lines.append(f"and.b{bits} {to}, {dividend}, {(1 << power) - 1};")
        elif power is not None:
            self.lines.append(f"shr.s{bits} {to}, {dividend}, {power};")
        elif self.nonnegative(a):
            self.lines.append(f"{'rem' if remainder else 'div'}.u{bits} {to}, {dividend}, {divisor};")
        else:  # towards zero first; a negative remainder says that rounding down is one step further
            rest = self.fresh("t" if bits == 32 else "w")
            below = self.fresh("p")
            self.lines.append(f"rem.s{bits} {rest}, {dividend}, {divisor};")
            self.lines.append(f"setp.lt.s{bits} {below}, {rest}, 0;")
            if remainder:
                self.lines.append(f"mov.b{bits} {to}, {rest};")
                self.lines.append(f"@{below} add.s{bits} {to}, {to}, {divisor};")
            else:
                self.lines.append(f"div.s{bits} {to}, {dividend}, {divisor};")
                self.lines.append(f"@{below} add.s{bits} {to}, {to}, -1;")

    def predicate(self, cond: IntExpr) -> str:
        """A predicate register that holds the condition."""
        key = (cond, 1)
        if key in self.made:
            return self.made[key]
        match cond:
            case Less(a, b):
                bits = max(self.bits(a), self.bits(b))
                first = self.value(a, bits)
                second = self.value(b, bits)
                to = self.fresh("p")
                self.lines.append(f"setp.lt.s{bits} {to}, {first}, {second};")
            case And(args):
                parts = [self.predicate(arg) for arg in args]
                to = self.fresh("p")
                self.lines.append(f"and.pred {to}, {parts[0]}, {parts[1] if len(parts) > 1 else parts[0]};")
                self.lines.extend(f"and.pred {to}, {to}, {part};" for part in parts[2:])
            case _:
                raise ValueError(f"{cond} is not a condition")
        self.made[key] = to
        return to
