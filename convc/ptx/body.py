"""The body of a kernel: declarations, labels, scopes and instructions, up to its closing brace."""

from __future__ import annotations

from dataclasses import replace

from convc.ptx.declare import read_registers, read_variables, skip_line
from convc.ptx.diagnose import explain_head, explain_operands, near
from convc.ptx.grammar import match_head, resolve
from convc.ptx.lexer import Tokens, shown
from convc.ptx.numbers import read_number
from convc.ptx.scope import Budget, Entry, Names
from convc.ptx.syntax import (
    Address,
    Arguments,
    Form,
    Guard,
    Imm,
    Instr,
    Label,
    NotPred,
    Operand,
    Pair,
    Reg,
    Sink,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)

MAX_ITEMS = 256
"""Longest vector or argument list."""

_VARIABLES = (".shared", ".local", ".param", ".global", ".const")


def _has(target: str, needed: str) -> bool:
    """Whether an architecture has what came with another; ``sm_100a`` is only in later targets with a letter too."""
    number, wanted = (int(each.strip("sm_af")) for each in (target, needed))
    return number >= wanted and (needed[-1].isdigit() or not target[-1].isdigit())


class Body:
    """Reads the body that begins at token ``at`` (its ``{``).

    Attributes after `read`: ``body``, ``names`` (registers, variables, what it used of the module), ``at`` (the token
    after the closing brace).
    """

    def __init__(
        self,
        tokens: Tokens,
        at: int,
        outside: dict[str, Entry],
        params: tuple[Variable, ...],
        version: tuple[int, int],
        target: str,
        budget: Budget,
    ) -> None:
        self.tokens, self.at, self.version, self.target = tokens, at, version, target
        self.allowed: set[str] = set()
        self.names = Names(tokens, outside, at, budget)
        self.body: list[Instr] = []
        for param in params:
            if param.space == "reg":
                self.names.declare_registers(param.name, None, param.type, at)
            else:
                self.names.declare_variable(param, at)
        before = [mark for mark in tokens.marks if mark[0] <= at]
        self.mark_index = len(before)
        self.step, self.role = before[-1][1:] if before else (None, None)
        self._next_mark()

    def _next_mark(self) -> None:
        marks = self.tokens.marks
        self.marked_from = marks[self.mark_index][0] if self.mark_index < len(marks) else len(self.tokens.texts)

    def read(self) -> None:
        """Read up to the closing brace."""
        texts, names = self.tokens.texts, self.names
        self.at += 1
        while True:
            token = texts[self.at]
            if token == "}":
                for index, target in names.close():
                    self._aim(index, target)
                self.at += 1
                if not names.scopes:
                    return
            elif token == "{":
                names.open(self.at)
                self.at += 1
            elif token[:1] == ".":
                self._directive(token)
            elif token == "":
                opened = self.tokens.span(names.scopes[-1].opened_at)
                raise self.tokens.error(
                    self.at, "the text ends inside a '{', '}' is missing", f"it was opened at line {opened.line}"
                )
            elif texts[self.at + 1] == ":" and "." not in token:
                names.declare_label(token, len(self.body), self.at)
                self.at += 2
            else:
                self._instruction()

    def _aim(self, index: int, target: int) -> None:
        """Point the branch ``index`` at ``target``."""
        instr = self.body[index]
        aimed = {name: self._aimed(each, target) for name, each in instr.args.items()}
        self.body[index] = replace(
            instr, operands=tuple(self._aimed(each, target) for each in instr.operands), args=aimed
        )

    @staticmethod
    def _aimed(operand: Operand | None, target: int) -> Operand | None:
        return Label(operand.name, target) if isinstance(operand, Label) else operand

    def _directive(self, token: str) -> None:
        tokens = self.tokens
        if token == ".reg":
            self.at, declared = read_registers(tokens, self.at)
            for name, count, kind, where in declared:
                self.names.declare_registers(name, count, kind, where)
        elif token in _VARIABLES:
            self.at, found = read_variables(tokens, self.at, linkage=None, resolve=self.names.look_up)
            for variable, where in found:
                if variable.space in ("global", "const"):
                    raise tokens.error(where, f".{variable.space} variables stand outside of kernels")
                self.names.declare_variable(variable, where)
        elif token in (".loc", ".file"):
            self.at = skip_line(tokens, self.at)
        elif token == ".pragma":
            self.at += 2
            self._expect(";", "after the pragma")
        else:
            hint = near(token, (".reg", *_VARIABLES, ".loc", ".pragma"))
            raise tokens.error(self.at, f"{token!r} is not a directive that a kernel's body may have", hint)

    def _expect(self, wanted: str, where: str) -> None:
        token = self.tokens.texts[self.at]
        if token != wanted:
            raise self.tokens.error(self.at, f"expected {wanted!r} {where}, got {shown(token)}")
        self.at += 1

    def _instruction(self) -> None:
        texts, first = self.tokens.texts, self.at
        guard = self._guard() if texts[first] == "@" else None
        at = head_at = self.at
        head = texts[at]
        at += 1
        while texts[at][:1] == ".":
            head += texts[at]
            at += 1
        seen = self.names.scopes[-1].names
        operands, kinds, starts = [], [], []
        if texts[at] != ";":
            while True:
                starts.append(at)
                entry = seen.get(texts[at])
                after = texts[at + 1]
                if entry is not None and (after == "," or after == ";"):
                    operand, kind = entry
                    at += 1
                else:
                    self.at = at
                    operand, kind = self._operand()
                    at = self.at
                operands.append(operand)
                kinds.append(kind)
                token = texts[at]
                if token == ";":
                    break
                if token != ",":
                    self._unfinished(head, head_at, at)
                at += 1
        found = resolve(head, operands, ",".join(kinds))
        if found is None:
            self._explain(head, head_at, operands, [*starts, at])
        if head not in self.allowed:
            self._check_age(head, head_at, found.form)
            self.allowed.add(head)
        while first >= self.marked_from:
            _, self.step, self.role = self.tokens.marks[self.mark_index]
            self.mark_index += 1
            self._next_mark()
        index = len(self.body)
        if found.target is not None:
            name = operands[found.target].name
            self.names.scopes[-1].branches.append((index, name, starts[found.target]))
        self.body.append(
            Instr(
                form=found.form,
                mods=found.mods,
                slots=found.slots,
                operands=tuple(operands),
                args=found.args(operands),
                guard=guard,
                span=self.tokens.span(first, at),
                step=self.step,
                role=self.role,
                index=index,
            )
        )
        self.at = at + 1

    def _unfinished(self, head: str, head_at: int, at: int) -> None:
        """Something else than ``,`` or ``;`` after an operand."""
        tokens = self.tokens
        if not head[:1].isalpha() or not (match_head(head) or head.count(".")):
            self._explain_head(head, head_at)
        token = tokens.texts[at]
        here = tokens.span(at).line
        if token == "" or tokens.span(at - 1).line < here:
            before = at - 1
            end = tokens.starts[before] + len(tokens.texts[before])
            span = tokens.span_at(end - 1, 1)
            error = tokens.error(before, f"';' is missing after this instruction, {head!r}")
            error.span = span
            raise error
        raise tokens.error(at, f"expected ',' or ';' after the operand, got {shown(token)}")

    def _explain(self, head: str, head_at: int, operands: list[Operand], starts: list[int]) -> None:
        """Raise the error of an instruction that fits no form."""
        matches = match_head(head)
        if not matches:
            self._explain_head(head, head_at)
        index, message, hint = explain_operands(head, matches, operands)
        at = starts[min(index, len(starts) - 1)]
        operand = operands[index] if index < len(operands) else None
        if isinstance(operand, Label) and not hint:
            hint = near(operand.name, self.names.declared())
        raise self.tokens.error(at, message, hint)

    def _check_age(self, head: str, head_at: int, form: Form) -> None:
        """Raise where the text's ``.version`` or ``.target`` does not have the instruction."""
        if form.ptx > self.version:
            came, says = (".".join(map(str, each)) for each in (form.ptx, self.version))
            raise self.tokens.error(head_at, f"{head!r} needs .version {came}, this text says {says}")
        if not _has(self.target, form.target):
            raise self.tokens.error(head_at, f"{head!r} needs .target {form.target}, this text says {self.target}")

    def _explain_head(self, head: str, head_at: int) -> None:
        tokens = self.tokens
        if not head[:1].isalpha() or not head.isascii():
            raise tokens.error(head_at, f"expected an instruction, a label or a directive, got {shown(head)}")
        part, message, hint = explain_head(head)
        words = head.split(".")
        before = sum(len(word) + 1 for word in words[:part])
        error = tokens.error(head_at, message, hint)
        if tokens.texts[head_at] == head:
            length = len(words[part]) if part < len(words) else 1
            start = tokens.starts[head_at] + min(before, len(head) - 1)
            error.span = tokens.span_at(start, length)
        raise error

    def _guard(self) -> Guard:
        tokens = self.tokens
        self.at += 1
        negate = tokens.texts[self.at] == "!"
        if negate:
            self.at += 1
        reg = self._predicate()
        return Guard(reg.slot, reg.name, negate)

    def _predicate(self) -> Reg:
        name = self.tokens.texts[self.at]
        entry = self.names.look_up(name)
        if entry is None:
            raise self.tokens.error(
                self.at, f"predicate {shown(name)} is not declared", near(name, self.names.declared())
            )
        if entry[1] != "pred":
            raise self.tokens.error(self.at, f"expected a predicate register, {name!r} is declared as .{entry[1]}")
        self.at += 1
        return entry[0]

    def _operand(self) -> Entry:
        """Read one operand; the kind that comes with it is the key that forms are remembered by."""
        texts = self.tokens.texts
        token = texts[self.at]
        if token == "[":
            return self._address()
        if token == "{":
            items, kind = self._items("}")
            return Vector(items), f"{{{kind}}}"
        if token == "(":
            items, kind = self._items(")")
            return Arguments(items), f"({kind})"
        if token == "!":
            self.at += 1
            return NotPred(self._predicate()), "!"
        first = self._scalar()
        if texts[self.at] == "|":
            self.at += 1
            second = self._scalar()
            return Pair(first[0], second[0]), f"{first[1]}|{second[1]}"
        return first

    def _scalar(self) -> Entry:
        tokens = self.tokens
        token = tokens.texts[self.at]
        if token == "_":
            self.at += 1
            return Sink(), "_"
        if token == "-" or token[:1].isdigit() or (token[:1] == "." and token[1:2].isdigit()):
            number = self._number()
            return number, "i" if not number.is_float else f"f{number.width}"
        entry = self.names.look_up(token)
        if entry is None:
            if not (token[:1].isalpha() or token[:1] in "_$%") or not token.isascii() or token in "$%":
                raise tokens.error(self.at, f"expected an operand, got {shown(token)}")
            entry = Label(token, -1), "L"
        self.at += 1
        if tokens.texts[self.at] == "+" and isinstance(entry[0], Symbol):
            return replace(entry[0], offset=self._offset()), entry[1]
        return entry

    def _number(self) -> Imm:
        tokens, start = self.tokens, self.at
        negative = tokens.texts[start] == "-"
        at = start + 1 if negative else start
        number = read_number(tokens.texts[at], negative=negative)
        if number is None:
            raise tokens.error(at, f"{shown(tokens.texts[at])} is not a number of at most 64 bits")
        self.at = at + 1
        return number

    def _offset(self) -> int:
        """``+4``, ``+-4``, ``+4+8``."""
        tokens, total = self.tokens, 0
        while tokens.texts[self.at] == "+":
            self.at += 1
            number = self._number()
            if number.is_float:
                raise tokens.error(self.at - 1, "an offset is an integer")
            total += number.value
        return total

    def _items(self, closing: str) -> tuple[tuple[Operand, ...], str]:
        tokens, texts, opened = self.tokens, self.tokens.texts, self.at
        self.at += 1
        items, kinds = [], []
        while True:
            if texts[self.at] == closing and not items:
                break
            operand, kind = self._scalar()
            items.append(operand)
            kinds.append(kind)
            if isinstance(operand, Label):
                raise tokens.error(
                    self.at - 1, f"{operand.name!r} is not declared", near(operand.name, self.names.declared())
                )
            if len(items) > MAX_ITEMS:
                raise tokens.error(opened, f"more than {MAX_ITEMS} items")
            if texts[self.at] == closing:
                break
            if texts[self.at] != ",":
                raise tokens.error(self.at, f"expected ',' or {closing!r}, got {shown(texts[self.at])}")
            self.at += 1
        self.at += 1
        return tuple(items), " ".join(kinds)

    def _address(self) -> Entry:
        tokens, texts = self.tokens, self.tokens.texts
        self.at += 1
        where = self.at
        base, kind = self._scalar()
        if isinstance(base, Label):
            raise tokens.error(where, f"{base.name!r} is not declared", near(base.name, self.names.declared()))
        if not isinstance(base, Reg | Symbol | Imm) or (isinstance(base, Imm) and base.is_float):
            raise tokens.error(where, "an address begins with a register, a variable or an integer")
        offset = self._offset()
        if isinstance(base, Symbol) and base.offset:
            base, offset = replace(base, offset=0), base.offset
        token = texts[self.at]
        if token == "," and texts[self.at + 1] == "{" and not offset and not isinstance(base, Imm):
            self.at += 1
            items, kinds = self._items("}")
            self._expect("]", "at the end of the tensor address")
            return TensorAddress(base, Vector(items)), f"[{kind},{kinds}]"
        if token == "-":
            raise tokens.error(self.at, "an offset is added, '-' is not allowed here", "write [base+-4]")
        if token != "]":
            raise tokens.error(self.at, f"expected ']' at the end of the address, got {shown(token)}")
        self.at += 1
        return Address(base, offset), f"[{kind}]"
