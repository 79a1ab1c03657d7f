"""Why an instruction is none of the forms: the slow path, taken once per mistake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from convc.ptx.grammar import MAX_MODIFIERS, Match, broken_rule, in_any_order, in_order, slots_of, walk
from convc.ptx.operands import BITS, Spec, UpTo, accepts, number_fits
from convc.ptx.syntax import (
    REGISTER_TYPES,
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
from convc.ptx.tables import Choice, Condition, Row, choices, opcodes, rows_of

Diagnosis = tuple[int, str, str]
"""Which part is wrong (0 = the opcode, n = modifier n; or the operand's index), message, hint."""


TEXTURES = "textures and surfaces are not read: their filters and formats are not public; ld.global.nc is"
NOT_HERE = {
    **{(name,): TEXTURES for name in ("tex", "tld4", "txq", "suld", "sust", "sured", "suq")},
    ("mma", "block_scale"): "mma with .block_scale is of sm_120a only; sm_100a has tcgen05.mma with .block_scale",
}
"""Opcodes, and modifiers of one, that belong to other targets or are left out, with what to do."""


def near(word: str, known: Iterable[str]) -> str:
    """A hint that names the known words most like ``word``, or ""."""
    import difflib  # only needed when something is wrong

    found = difflib.get_close_matches(word[:60], list(known)[:5000], n=3, cutoff=0.6)
    return f"did you mean {' or '.join(repr(each) for each in found)}?" if found else ""


def listed(words: Sequence[str], joint: str = "or") -> str:
    """``a, b or c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {joint} {words[-1]}"


def explain_head(head: str) -> Diagnosis:
    """What is wrong with an opcode and its modifiers."""
    opcode, *mods = head.split(".")
    rows = rows_of(opcode)
    elsewhere = next((why for words, why in NOT_HERE.items() if words[0] == opcode and set(words[1:]) <= set(mods)), "")
    if not rows:
        return 0, f"unknown instruction {_short(opcode)}", elsewhere or near(opcode, opcodes())
    if len(mods) > MAX_MODIFIERS:
        return 0, f"{opcode!r} with {len(mods)} modifiers is no instruction", ""
    for row in rows:
        chosen = in_order(row, mods) or in_any_order(row, mods)
        if chosen is None:
            continue
        broken = broken_rule(row, chosen)
        if broken is not None:
            return _explain_rule(head, mods, slots_of(chosen), *broken)
    far, expected = _furthest(rows, mods)
    for at in range(far, -1, -1):
        missing = _missing(rows, mods, at)
        if missing:
            before = f" before .{mods[at]}" if at < len(mods) else ""
            after = ".".join((opcode, *mods[:at]))
            return at, f"modifier missing after {after!r}: expected {_choice_text(missing)}{before}", ""
    if far == len(mods):
        return far, f"modifier missing after {head!r}: expected {_choice_text(expected)}", ""
    so_far = ".".join((opcode, *mods[:far]))
    wrong = mods[far]
    if wrong in mods[:far]:
        return far + 1, f".{wrong} is given twice", ""
    hint = elsewhere or near(f".{wrong}", [f".{word}" for word in expected]) or _elsewhere(rows, wrong)
    if not expected:
        return far + 1, f"{so_far!r} takes no modifier .{wrong} here", hint
    return far + 1, f".{wrong} cannot follow {so_far!r}: expected {_choice_text(expected, wrong)}", hint


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else f"{word[:37]}...")


def _choice_text(words: Sequence[str], wrong: str = "") -> str:
    """Up to twelve of the modifiers, those that begin like the wrong one first."""
    ordered = sorted(words, key=lambda word: word[:1] != wrong[:1])
    names = [f".{word}" for word in ordered[:12]]
    return listed(names) if len(words) <= 12 else f"{', '.join(names)} or another"


def _furthest(rows: Sequence[Row], mods: Sequence[str]) -> tuple[int, list[str]]:
    """How far the modifiers make sense, and what could come there."""
    best = 0
    expected: dict[str, None] = {}

    def tried(at: int, choice: Choice) -> None:
        nonlocal best
        if at > best:
            best = at
            expected.clear()
        if at == best:
            expected.update(dict.fromkeys(choice.values))

    for row in rows:
        for _ in walk(row.items, mods, 0, tried):
            best = max(best, len(mods))
            expected.clear()
    return best, list(expected)


def _missing(rows: Sequence[Row], mods: Sequence[str], at: int) -> list[str]:
    """Single modifiers that would make it an instruction if they stood at ``at``."""
    found: dict[str, None] = {}
    for row in rows:
        for item in row.items:
            if isinstance(item, Choice):
                for value, parts in item.values.items():
                    chosen = in_order(row, [*mods[:at], *parts, *mods[at:]])
                    if chosen is not None and broken_rule(row, chosen) is None:
                        found[value] = None
    return list(found)


def _elsewhere(rows: Sequence[Row], wrong: str) -> str:
    """A hint where the modifier is known but stands in the wrong place, or ""."""
    for row in rows:
        if any(wrong in choice.values for choice in choices(row.items)):
            return f"the order is {row.form.pattern.partition(' ')[0]}"
    return ""


def _explain_rule(
    head: str, mods: Sequence[str], slots: dict[str, str], when: tuple[Condition, ...], then: Condition
) -> Diagnosis:
    """What a broken ``if`` line says, of its condition that holds and the one that does not."""
    because = [f".{slots[slot]}" for slot, _ in when if slot in slots]
    because = because or [f"{head.partition('.')[0]!r} without .{when[0][0]}"]
    slot, values = then
    wanted = [f".{value}" for value in values if value != "none"]
    have = slots.get(slot)
    if have is None:
        what = f"needs {listed(wanted) or f'.{slot}'}"
    else:
        what = f"goes with {listed(wanted)}, not .{have}" if wanted else f"does not go with .{have}"
    marked = (have or because[0].lstrip(".")).split(".")[0]
    index = mods.index(marked) + 1 if marked in mods else 0
    return index, f"{listed(because, 'and')} {what}", ""


def explain_operands(head: str, matches: Sequence[Match], operands: Sequence[Operand]) -> Diagnosis:
    """What is wrong with the operands of a head that fits ``matches``. The index may be the number of operands."""
    shapes = [shape for match in matches for shape in match.shapes]
    for index, operand in enumerate(operands):
        kinds = {shape[index].kind for shape in shapes if len(shape) > index}
        if isinstance(operand, Label) and "label" not in kinds:
            what = "register" if operand.name[0] == "%" else "name"
            if "func" in kinds:
                what = "function"
            return index, f"{what} {_short(operand.name)} is not declared", ""
    fitting = [shape for shape in shapes if len(shape) == len(operands)]
    if not fitting:
        counts = sorted({len(shape) for shape in shapes})
        pattern = matches[0].form.pattern.partition(" ")[2] or "none"
        need = listed([str(count) for count in counts])
        noun = "operand" if counts == [1] else "operands"
        index = min(len(operands), counts[-1])
        return index, f"{head!r} takes {need} {noun}, got {len(operands)}", f"the operands are: {pattern}"

    def first_wrong(shape: Sequence[Spec]) -> int:
        return next(
            i for i, (spec, operand) in enumerate(zip(shape, operands, strict=True)) if not accepts(spec, operand)
        )

    index = max(first_wrong(shape) for shape in fitting)
    operand = operands[index]
    specs = [shape[index] for shape in fitting if first_wrong(shape) == index]
    alike = [spec for spec in specs if (spec.length is not None) == isinstance(operand, Vector)] or specs
    wanted = list(dict.fromkeys(map(wanted_text, alike)))
    message = f"operand {index + 1} ({alike[0].name}) of {head!r} must be {listed(wanted)}; got {got_text(operand)}"
    return index, message, ""


def _types_text(types: Sequence[str], *, wider: bool) -> str:
    return listed([_register_text(each, wider=wider) for each in types])


def _register_text(kind: str, *, wider: bool) -> str:
    if kind == "pred":
        return "a predicate register"
    bits = TYPE_BITS[kind]
    name = f"a .b{bits}"
    if kind in BITS:
        name = f"a {bits}-bit"
    elif kind in REGISTER_TYPES:
        name = f"a .{kind} or .b{bits}"
    return f"{name} register or a wider one" if wider else f"{name} register"


_WANTED = {
    "list": "a list in parentheses",
    "label": "a label",
    "targets": "a .branchtargets list",
    "func": "a function",
    "prototype": "a .callprototype",
    "sink": "'_'",
}
"""What a spec wants whose kind says everything."""


def wanted_text(spec: Spec) -> str:
    """What a spec wants, in words."""
    if spec.kind in _WANTED:
        return _WANTED[spec.kind]
    if spec.kind == "address":
        return _address_text(spec.space)
    if spec.kind == "tensor":
        return f"a tensor address [map, {{…}}] with {spec.length} coordinates"
    if spec.kind == "imm":
        return f"a number{_numbers_text(spec)}"
    if spec.kind == "parts":
        return f"a vector {{…}} that fills .{spec.types[0]}"
    text = _types_text(spec.types, wider="wider" in spec.flags)
    if spec.kind == "value" and any(
        number_fits(each, Imm(0, False, 0)) or each in ("f32", "f64") for each in spec.types
    ):
        text += f" or a number{_numbers_text(spec)}"
    if spec.length is not None:
        return f"a vector of {spec.length}, each {text}"
    if spec.second is not None and not spec.second_optional:
        return f"a pair {spec.name}|{spec.second} ({text}, and a predicate register)"
    return text


def _address_text(space: str | None) -> str:
    if space == "tmem":
        return "an address [a] in tensor memory (a 32-bit register)"
    where = "" if space == "generic" else f" in .{space} space"
    width = "a 64-bit register" if space in ("generic", "global") else "a 32- or 64-bit register"
    return f"an address [a]{where} ({width} or a variable)"


def _numbers_text(spec: Spec) -> str:
    numbers = spec.numbers
    if numbers is None:
        return ""
    if isinstance(numbers, UpTo):
        return f" above 0, {numbers.most} at most"
    if isinstance(numbers, range):
        step = f" (a multiple of {numbers.step})" if numbers.step > 1 else ""
        return f" from {numbers.start} to {numbers[-1]}{step}"
    return f" {listed([str(each) for each in numbers])}"


_NAMED = {Targets: "the .branchtargets list", Func: "the function", Prototype: "the .callprototype"}


def got_text(operand: Operand) -> str:
    """An operand in words."""
    match operand:
        case Reg(_, name, declared):
            return f"{name}, a .{declared} register"
        case Imm():
            return f"the number {operand.value}"
        case Special(name):
            return f"the special register %{name} (mov it to a register first)"
        case Symbol(name, space):
            return f"the address of {name} (.{space})"
        case Address() | TensorAddress() | Vector() | Pair():
            return _composed_text(operand)
        case Sink():
            return "'_'"
        case NotPred(reg):
            return f"!{reg.name}"
        case Label(name, _):
            return f"{name!r}, which is not declared"
        case Targets(name) | Func(name) | Prototype(name):
            return f"{_NAMED[type(operand)]} {name}"
        case Arguments():
            return "a list in parentheses"


def _composed_text(operand: Address | TensorAddress | Vector | Pair) -> str:
    """An operand that is made of others, in words."""
    match operand:
        case Address(base, _):
            return f"[{got_text(base)}]"
        case TensorAddress(base, coords):
            return f"[{got_text(base)}, {{{len(coords.items)} coordinates}}]"
        case Vector(items):
            return f"a vector of {len(items)}" + (f" ({got_text(items[0])}, …)" if items else "")
        case Pair(first, second):
            return f"a pair ({got_text(first)} | {got_text(second)})"
