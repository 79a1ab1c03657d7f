"""What an operand of a form may be, and whether one is that.

A place of a row (`tables.Place`) becomes a `Spec` once the modifiers are known, because types and vector lengths
come from them. The rules are those of the PTX manual, 9.4 "Type information for instructions and operands":

* a register must have the width of the instruction's type; ``.bX`` goes with everything of that width, ``.uX`` and
  ``.sX`` go with one another, a floating-point type goes with itself and with ``.bX`` (table 28);
* ld, st and cvt also take wider registers (table 29 and 30: "wider" in the rows);
* a vector's elements all have one width.

Numbers: an integer goes with integer and bit types, a floating-point constant with f32 and f64, ``0f…`` with .b32 and
``0d…`` or a decimal one with .b64 (as ptxas 13 judges). Half-precision instructions take no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from convc.ptx.special import SHORT_SPECIALS, SPECIAL_TYPES
from convc.ptx.syntax import (
    TYPE_BITS,
    Address,
    Arguments,
    Func,
    Imm,
    Label,
    NotPred,
    Operand,
    Pair,
    Prototype,
    Reg,
    Sink,
    Special,
    Symbol,
    Targets,
    TensorAddress,
    Vector,
)
from convc.ptx.tables import Place

_INTEGERS = frozenset(("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"))
BITS = frozenset(("b8", "b16", "b32", "b64", "b128"))
_NUMBERED = _INTEGERS | BITS | {"f32", "f64", "pred"}
SPACES = frozenset(("shared", "global", "local", "const", "param", "tmem"))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpTo:
    """Numbers above 0, and at most so much."""

    most: int

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int | float) and 0 < number <= self.most


Numbers = range | tuple[int, ...] | UpTo
"""What an immediate may be."""


class Spec(NamedTuple):
    """An operand that is wanted.

    Attributes:
        name, second: its names in the row (second: of ``d|p``); second_optional: ``d`` alone will do.
        kind: dest, reg, value, imm, address, tensor, list, label, targets, func, prototype, sink,
            parts (a vector that fills the type).
        types: instruction types that it may have.
        flags: wider, sink, not, special, symbol, some (a vector with a register in it), one (``{a}`` will do for
            ``a``).
        length: of the vector (of the coordinates, for a tensor), or None for a scalar.
        numbers: those that an immediate may be, or None for any.
        space: state space of an address.
    """

    name: str
    second: str | None
    second_optional: bool
    kind: str
    types: tuple[str, ...]
    flags: frozenset[str]
    length: int | None
    numbers: Numbers | None
    space: str | None


def spec_of(place: Place, slots: Mapping[str, str | None], sizes: Mapping[str, int], default: str | None) -> Spec:
    """The operand wanted at ``place``, once the modifiers are chosen.

    Args:
        place: the operand of the row, with the words that describe it (docs/add_a_form.md explains them).
        slots: the modifier chosen for each slot.
        sizes: the number that each chosen modifier stands for, where it has one.
        default: type of the operands that name none, such as ``.type``.
    """
    words = list(place.words)
    vector = words[:1] == ["vector"]
    length = _length(words[1], sizes) if vector else None
    if vector:
        del words[:2]
    flags: set[str] = set()
    kind, types = _kind_of(place, words, flags, default)
    space = (slots.get("space") or "generic").partition("::")[0] if kind == "address" else None
    numbers: Numbers | None = None
    while words:
        word = words.pop(0)
        if word == "when":  # the operand is there with some modifier only, which has been decided already
            break
        if word in SPACES and kind in ("address", "tensor"):
            space = word
        elif kind == "tensor":
            length = _length(word, sizes)
        elif word.startswith("."):
            types = word
        elif word[0].isdigit():
            numbers = _numbers(word)
        elif word == "step":
            every = numbers if isinstance(numbers, range) else range(1 << 32)
            numbers = every[:: int(words.pop(0))]
        else:
            flags.add(word)
    if vector and length is None:  # the modifier that makes it a vector is absent: {a} may stand for a all the same
        flags.discard("sink")
        flags.add("one")
    names = _type_names(types, slots, double="double" in flags)
    return Spec(place.name, place.second, place.second_optional, kind, names, frozenset(flags), length, numbers, space)


def _kind_of(place: Place, words: list[str], flags: set[str], default: str | None) -> tuple[str, str | None]:
    """Kind and type of a place by its shape, by the first of its words (which is taken off), or by its name."""
    if place.shape != "plain":
        return place.shape, default
    if words:
        kind = words.pop(0)
        if kind == "parts":
            flags.add(f"parts {words.pop(0)}")
        return kind, default
    if place.name == "d":
        return "dest", default
    return ("dest", ".pred") if place.name in ("p", "q") else ("value", default)


def _type_names(text: str | None, slots: Mapping[str, str | None], *, double: bool) -> tuple[str, ...]:
    """``.type`` or ``.b32|.f32`` as names of types, those of slots looked up; twice as wide if ``double``."""
    names = [slots.get(each) or each for each in (text or "").replace(".", "").split("|")]
    return tuple([f"{name[0]}{2 * TYPE_BITS[name]}" for name in names] if double else names)


def _length(word: str, sizes: Mapping[str, int]) -> int | None:
    """``shape*num``, ``dim-2`` or ``4``; None where the modifier that gives the length is absent."""
    product, _, less = word.partition("-")
    total = 1
    for factor in product.split("*"):
        if not factor.isdigit() and factor not in sizes:
            return None
        total *= int(factor) if factor.isdigit() else sizes[factor]
    return total - int(less or 0)


def _numbers(word: str) -> Numbers:
    """``0..31`` as a range, ``1|2|4`` as a tuple, ``0<..1`` as a part."""
    if word.startswith("0<.."):
        return UpTo(most=int(word.removeprefix("0<..")))
    low, dots, high = word.partition("..")
    return range(int(low), int(high) + 1) if dots else tuple(map(int, word.split("|")))


def register_fits(wanted: str, declared: str, *, wider: bool = False) -> bool:
    """Whether a register of one type may stand where an instruction has another."""
    if declared == "pred" or wanted == "pred":
        return declared == wanted
    bits = TYPE_BITS[declared]
    needed = TYPE_BITS[wanted]
    if bits != needed and not (wider and bits > needed):
        return False
    if wanted in BITS or declared in BITS:
        return True
    if wanted in _INTEGERS:
        return declared in _INTEGERS
    return declared == wanted


def number_fits(wanted: str, number: Imm) -> bool:
    """Whether a number may stand where an instruction has a type."""
    if wanted not in _NUMBERED:
        return False
    if not number.is_float:
        return wanted not in ("f32", "f64")
    return wanted in ("f32", "f64") or (wanted in ("b32", "b64") and TYPE_BITS[wanted] == number.width)


_RECORDS = {
    "list": Arguments,
    "label": Label,
    "targets": Targets,
    "func": Func,
    "prototype": Prototype,
    "sink": Sink,
}
"""Kinds for which the record of the operand says everything."""


def accepts(spec: Spec, operand: Operand) -> bool:
    """Whether ``operand`` is what ``spec`` wants."""
    record = _RECORDS.get(spec.kind)
    if record is not None:
        return isinstance(operand, record)
    if spec.kind == "address":
        return isinstance(operand, Address) and _address_fits(spec.space, operand)
    if spec.kind == "tensor":
        return isinstance(operand, TensorAddress) and _tensor_fits(spec, operand)
    if spec.kind == "imm":
        return _scalar_fits(spec, operand)
    if spec.kind == "parts":
        return isinstance(operand, Vector) and _parts_fit(spec, operand)
    if spec.second is not None:
        return _pair_fits(spec, operand)
    if spec.length is None:
        return _scalar_fits(spec, unwrapped(spec, operand))
    if not isinstance(operand, Vector) or len(operand.items) != spec.length:
        return False
    return all(_scalar_fits(spec, item) for item in operand.items) and _uniform(spec, operand)


def _pair_fits(spec: Spec, operand: Operand) -> bool:
    """``d|p``, whose second may be thrown away where it may be left out."""
    if not isinstance(operand, Pair):
        return spec.second_optional and _scalar_fits(spec, operand)
    sink = "sink" in spec.flags and spec.second_optional and isinstance(operand.second, Sink)
    return _scalar_fits(spec, operand.first) and (sink or _is_predicate(operand.second))


def unwrapped(spec: Spec, operand: Operand) -> Operand:
    """``{a}`` stands for ``a`` in a load or store that takes vectors too (ptxas reads it so)."""
    if "one" in spec.flags and isinstance(operand, Vector) and len(operand.items) == 1:
        return operand.items[0]
    return operand


def _is_predicate(operand: Operand) -> bool:
    return isinstance(operand, Reg) and operand.type == "pred"


def _uniform(spec: Spec, vector: Vector) -> bool:
    """All registers of one width, and at least one of them where it matters."""
    widths = {TYPE_BITS[item.type] for item in vector.items if isinstance(item, Reg)}
    return len(widths) == 1 or (not widths and spec.kind == "value" and "some" not in spec.flags)


def _scalar_fits(spec: Spec, operand: Operand) -> bool:
    """Whether one register, number or name is what the spec, or an item of its vector, wants."""
    match operand:
        case Reg(_, _, declared):
            wider = "wider" in spec.flags
            return spec.kind != "imm" and any(register_fits(each, declared, wider=wider) for each in spec.types)
        case Imm():
            if spec.kind == "imm":
                return not operand.is_float and (spec.numbers is None or operand.value in spec.numbers)
            if spec.kind != "value" or not any(number_fits(each, operand) for each in spec.types):
                return False
            return spec.numbers is None or operand.value in spec.numbers
        case Sink():
            return "sink" in spec.flags
        case NotPred():
            return "not" in spec.flags and "pred" in spec.types
        case Special(name):
            known = SPECIAL_TYPES[name], SHORT_SPECIALS.get(name, SPECIAL_TYPES[name])
            return "special" in spec.flags and any(register_fits(each, kind) for each in spec.types for kind in known)
        case Symbol() | Func():
            return "symbol" in spec.flags and any(
                TYPE_BITS[each] in (32, 64) and each in _INTEGERS | BITS for each in spec.types
            )
        case _:
            return False


def _parts_fit(spec: Spec, vector: Vector) -> bool:
    """Whether 2 or 4 items of one width fill the type; a source may have numbers among them, a result sinks."""
    total = TYPE_BITS[spec.types[0]]
    count = len(vector.items)
    if count not in (2, 4) or total // count < 8:
        return False
    registers = [item for item in vector.items if isinstance(item, Reg)]
    is_source = "parts value" in spec.flags
    others_fit = all(
        isinstance(item, Reg)
        or (is_source and isinstance(item, Imm) and not item.is_float)
        or ("sink" in spec.flags and isinstance(item, Sink))
        for item in vector.items
    )
    return (
        bool(registers)
        and others_fit
        and all(item.type != "pred" and TYPE_BITS[item.type] * count == total for item in registers)
    )


def _address_fits(space: str | None, address: Address) -> bool:
    """Whether an address may point into a state space: variables of it, or registers of the width it takes."""
    base = address.base
    if isinstance(base, Imm):
        return space == "local"
    if isinstance(base, Symbol):
        if space == "generic":
            return base.space != "param"
        return base.space == space
    if base.type not in _INTEGERS | BITS:
        return False
    bits = TYPE_BITS[base.type]
    if space == "tmem":
        return bits == 32
    return bits == 64 or (bits == 32 and space in ("shared", "local", "const", "param"))


def _tensor_fits(spec: Spec, operand: TensorAddress) -> bool:
    """Whether the map is a variable or a 64-bit register, and there are as many 32-bit coordinates as it wants."""
    base = operand.map
    if isinstance(base, Symbol):
        if base.space not in ("global", "const"):
            return False
    elif base.type not in ("b64", "u64", "s64"):
        return False
    return len(operand.coords.items) == spec.length and all(
        (isinstance(item, Reg) and register_fits("b32", item.type) and not item.type.startswith("f"))
        or (isinstance(item, Imm) and not item.is_float)
        for item in operand.coords.items
    )
