"""The body of a kernel: declarations, labels, scopes and instructions, up to its closing brace."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from operator import itemgetter

from convc.errors import PtxSyntaxError
from convc.ptx.declare import expect, read_parameters, read_registers, read_variables, skip_line
from convc.ptx.diagnose import near
from convc.ptx.grammar import resolve
from convc.ptx.lexer import Tokens
from convc.ptx.mistakes import check_age, no_comma, no_form, no_semicolon
from convc.ptx.operands import unwrapped
from convc.ptx.reading import OperandReader
from convc.ptx.scope import Budget, Entry, Names, check_name
from convc.ptx.syntax import Guard, Instr, Label, Prototype, Targets, Variable

_VARIABLES = (".shared", ".local", ".param", ".global", ".const")


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
        self.cta_group: str | None = None
        self.names = Names(tokens, outside, at, budget)
        self.reader = OperandReader(tokens, self.names)
        self.body: list[Instr] = []
        self.lists: list[list[Label]] = []
        self.list_names: dict[str, int] = {}
        self.list_users: list[int] = []
        for param in params:
            if param.space == "reg":
                self.names.declare_registers(param.name, None, param.type, at)
            else:
                self.names.declare_variable(param, at, rename=False)
        self.mark_index = bisect_right(tokens.marks, at, key=itemgetter(0))
        self.step, self.role = tokens.marks[self.mark_index - 1][1:] if self.mark_index else (None, None)
        self._next_mark()

    def _next_mark(self) -> None:
        marks = self.tokens.marks
        self.marked_from = marks[self.mark_index][0] if self.mark_index < len(marks) else len(self.tokens.texts)

    def read(self) -> None:
        """Read up to the closing brace."""
        texts, names = self.tokens.texts, self.names
        self.at += 1
        while names.scopes:
            token = texts[self.at]
            if token == "}":
                for (index, position), target in names.close():
                    self._aim(index, position, target)
                self.at += 1
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
                if texts[self.at + 2] == ".branchtargets":
                    self._branch_targets(token)
                elif texts[self.at + 2] == ".callprototype":
                    self._call_prototype(token)
                else:
                    names.declare_label(token, len(self.body), self.at)
                    self.at += 2
            else:
                self._instruction()
        lists = {name: Targets(name, tuple(self.lists[number])) for name, number in self.list_names.items()}
        for index in self.list_users:
            instr = self.body[index]
            targets = lists[instr.args["targets"].name]
            self.body[index] = replace(
                instr, operands=(*instr.operands[:-1], targets), args={**instr.args, "targets": targets}
            )

    def _aim(self, index: int, position: int, target: int) -> None:
        """Point the branch ``index`` (-1), or label ``position`` of list ``index``, at ``target``."""
        if position >= 0:
            self.lists[index][position] = Label(self.lists[index][position].name, target)
        else:
            instr = self.body[index]
            label = Label(instr.args["tgt"].name, target)
            self.body[index] = replace(instr, operands=(label,), args={"tgt": label})

    def _branch_targets(self, name: str) -> None:
        """``name: .branchtargets A, B;`` (manual 11.4 "Control flow directives")."""
        texts, where, number = self.tokens.texts, self.at, len(self.lists)
        labels: list[Label] = []
        self.at += 2
        while not labels or texts[self.at] == ",":
            self.at += 1
            check_name(self.tokens, texts[self.at], self.at)
            self.names.scopes[-1].branches.append(((number, len(labels)), texts[self.at], self.at))
            labels.append(Label(texts[self.at], -1))
            self.at += 1
        self.at = expect(self.tokens, self.at, ";", "or ',' after the label")
        unique = f"{name}${number}" if name in self.list_names else name
        self.lists.append(labels)
        self.list_names[unique] = number
        self.names.declare_targets(name, Targets(unique, ()), where)

    def _call_prototype(self, name: str) -> None:
        """``name: .callprototype (.param .b32 _) _ (.param .b64 _);`` (manual 11.4)."""
        tokens, where = self.tokens, self.at

        def listed() -> tuple[Variable, ...]:
            if tokens.texts[self.at] != "(":
                return ()
            found, self.at = read_parameters(tokens, self.at, self.names.look_up, nameless=True)
            return found

        self.at += 3
        returns = listed()
        self.at = expect(tokens, self.at, "_", "where the name of a function would stand")
        params = listed()
        if tokens.texts[self.at] == ".noreturn":
            self.at += 1
        self.at = expect(tokens, self.at, ";", "after the prototype")
        self.names.declare_prototype(name, Prototype(name, returns, params), where)

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
            self.at = expect(tokens, self.at + 2, ";", "after the pragma")
        else:
            hint = near(token, (".reg", *_VARIABLES, ".loc", ".pragma"))
            raise tokens.error(self.at, f"{token!r} is not a directive that a kernel's body may have", hint)

    def _check_cta_group(self, group: str | None, at: int) -> None:
        """Manual 9.7.16.5: all tcgen05 instructions of a kernel have the same ``.cta_group``; ptxas refuses others."""
        self.cta_group = self.cta_group or group
        if group is not None and group != self.cta_group:
            raise self.tokens.error(
                at, f"this is .{group}, but an instruction above is .{self.cta_group}: a kernel uses one of them"
            )

    def _instruction(self) -> None:
        first = self.at
        try:
            self._read_instruction(first)
        except PtxSyntaxError as error:
            raise no_semicolon(self.tokens, first) or error from None

    def _read_instruction(self, first: int) -> None:
        texts, reader = self.tokens.texts, self.reader
        at, guard = first, None
        if texts[at] == "@":
            negate = texts[at + 1] == "!"
            reg = reader.predicate(at + 2 if negate else at + 1)
            guard, at = Guard(reg.slot, reg.name, negate), reader.at
        head_at, head = at, texts[at]
        at += 1
        while texts[at][:1] == ".":
            head += texts[at]
            at += 1
        seen = self.names.scopes[-1].names
        operands, kinds, starts = [], [], []
        token = texts[at]
        while token != ";":
            starts.append(at)
            entry = seen.get(texts[at])
            after = texts[at + 1]
            if entry is not None and (after == "," or after == ";"):
                at += 1
            else:
                entry = reader.read(at)
                at = reader.at
            operands.append(entry[0])
            kinds.append(entry[1])
            token = texts[at]
            if token == ",":
                at += 1
            elif token != ";":
                raise no_comma(self.tokens, head, head_at, at)
        found = resolve(head, operands, ",".join(kinds))
        if found is None:
            raise no_form(self.tokens, self.names, head, head_at, operands, [*starts, at])
        if head not in self.allowed:
            check_age(self.tokens, head, head_at, found.form, self.version, self.target)
            if found.form.opcode == "tcgen05":
                self._check_cta_group(found.slots.get("cta_group"), head_at)
            self.allowed.add(head)
        while first >= self.marked_from:
            _, self.step, self.role = self.tokens.marks[self.mark_index]
            self.mark_index += 1
            self._next_mark()
        if found.wrapped:
            operands = list(map(unwrapped, found.specs, operands))
        if found.target is not None:
            goal = operands[found.target]
            if isinstance(goal, Targets):
                self.list_users.append(len(self.body))
            else:
                self.names.scopes[-1].branches.append(((len(self.body), -1), goal.name, starts[found.target]))
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
                index=len(self.body),
            )
        )
        self.at = at + 1
