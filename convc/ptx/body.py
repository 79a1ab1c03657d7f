"""The body of a kernel: declarations, labels, scopes and instructions, up to its closing brace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from convc.errors import PtxSyntaxError
from convc.ptx.declare import DeclaredRegisters, expect, read_parameters, read_registers, read_variables, skip_line
from convc.ptx.diagnose import near
from convc.ptx.grammar import Resolved, resolve
from convc.ptx.lexer import Tokens
from convc.ptx.mistakes import check_age, no_comma, no_form, no_semicolon
from convc.ptx.operands import unwrapped
from convc.ptx.phrases import Phrase, Said, guard_of, learn, phrase_of, wording_of
from convc.ptx.reading import OperandReader
from convc.ptx.scope import BRANCH, Budget, Entry, Jump, Names, check_name
from convc.ptx.syntax import Guard, Instr, Label, Operand, Prototype, Targets, Variable

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
        self.tokens = tokens
        self.at = at
        self.version = version
        self.target = target
        self.allowed: set[str] = set()  # heads that the version and the target are known to have
        self.cta_group: str | None = None
        self.names = Names(tokens, outside, at, budget)
        self.reader = OperandReader(tokens, self.names)
        self.body: list[Instr] = []
        self.lists: list[list[Label]] = []
        self.list_names: dict[str, int] = {}
        self.list_users: list[tuple[int, str]] = []  # instructions that take a target list, and its name
        for param in params:
            if param.space == "reg":
                self.names.declare_registers(param.name, None, param.type, at)
            else:
                self.names.declare_variable(param, at, rename=False)
        self.mark_index = bisect_right(tokens.marks, at, key=itemgetter(0))
        self.step, self.role = tokens.marks[self.mark_index - 1][1:] if self.mark_index else (None, None)
        self.marked_from = self._next_mark()

    def _next_mark(self) -> int:
        """The token that the next mark stands before."""
        marks = self.tokens.marks
        return marks[self.mark_index][0] if self.mark_index < len(marks) else len(self.tokens.texts)

    def _pass_marks(self, at: int) -> int:
        """Take in the marks up to a token, which are some; the token that the last of them stands before."""
        token = -1
        while at >= self.marked_from:
            token, self.step, self.role = self.tokens.marks[self.mark_index]
            self.mark_index += 1
            self.marked_from = self._next_mark()
        return token

    def read(self) -> None:
        """Read up to the closing brace.

        A step that is named before an opening brace has that block alone, any other mark is about all that follows.
        """
        texts = self.tokens.texts
        lines = self.tokens.lines
        names = self.names
        self.at += 1
        outer: list[tuple[str | None, str | None] | None] = []  # what goes on behind each block that is open
        while names.scopes:
            line = lines.get(self.at)
            if line is not None:
                if line.phrase is not None and self._say_again(line.phrase):
                    continue
                if line.declared is not None:
                    self._declare(line.declared, len(line.tokens))
                    continue
            token = texts[self.at]
            if token == "}":
                self._close(outer)
            elif token == "{":
                self._open(outer)
            elif token[:1] == ".":
                self._directive(token)
            elif token == "":
                opened = self.tokens.span(names.scopes[-1].opened_at)
                raise self.tokens.error(
                    self.at, "the text ends inside a '{', '}' is missing", f"it was opened at line {opened.line}"
                )
            elif texts[self.at + 1] == ":" and "." not in token:
                self._labelled(token)
            else:
                self._instruction()
        self._fill_target_lists()

    def _open(self, outer: list[tuple[str | None, str | None] | None]) -> None:
        """Enter a block, whose own step may be named before it."""
        before = self.step, self.role
        marked = self.at >= self.marked_from
        own = marked and self._pass_marks(self.at) == self.at and self.step is not None
        outer.append(before if own else None)
        self.names.open(self.at)
        self.at += 1

    def _close(self, outer: list[tuple[str | None, str | None] | None]) -> None:
        """Leave a block, behind which the step goes on that it has interrupted."""
        if self.at >= self.marked_from:
            self._pass_marks(self.at)
        for jump, target in self.names.close():
            self._aim(jump, target)
        before = outer.pop() if outer else None
        if before is not None:
            self.step, self.role = before
        self.at += 1

    def _labelled(self, name: str) -> None:
        """``name:`` and what it names: a target list, a prototype, or the next instruction."""
        what = self.tokens.texts[self.at + 2]
        if what == ".branchtargets":
            self._branch_targets(name)
        elif what == ".callprototype":
            self._call_prototype(name)
        else:
            self.names.declare_label(name, len(self.body), self.at)
            self.at += 2

    def _aim(self, jump: Jump, target: int) -> None:
        """Point a branch, or a label of a target list, at the instruction ``target``."""
        label = Label(jump.name, target)
        if jump.position == BRANCH:
            branch = self.body[jump.user]
            branch.operands = (label,)
        else:
            self.lists[jump.user][jump.position] = label

    def _fill_target_lists(self) -> None:
        """Give the instructions that take a target list its labels, now that all of these are known."""
        for index, name in self.list_users:
            instr = self.body[index]
            targets = Targets(name, tuple(self.lists[self.list_names[name]]))
            instr.operands = (*instr.operands[:-1], targets)

    def _branch_targets(self, name: str) -> None:
        """``name: .branchtargets A, B;`` (manual 11.4 "Control flow directives")."""
        texts = self.tokens.texts
        where = self.at
        number = len(self.lists)
        labels: list[Label] = []
        self.at += 2
        while not labels or texts[self.at] == ",":
            self.at += 1
            check_name(self.tokens, texts[self.at], self.at)
            self.names.scopes[-1].jumps.append(Jump(number, len(labels), texts[self.at], self.at))
            labels.append(Label(texts[self.at], -1))
            self.at += 1
        self.at = expect(self.tokens, self.at, ";", "or ',' after the label")
        unique = f"{name}${number}" if name in self.list_names else name
        self.lists.append(labels)
        self.list_names[unique] = number
        self.names.declare_targets(name, Targets(unique, ()), where)

    def _call_prototype(self, name: str) -> None:
        """``name: .callprototype (.param .b32 _) _ (.param .b64 _);`` (manual 11.4)."""
        tokens = self.tokens
        where = self.at

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

    def _declare(self, declared: Sequence[DeclaredRegisters], length: int) -> None:
        """Declare the registers of a statement of so many tokens."""
        for name, numbered, kind, at in declared:
            self.names.declare_registers(name, numbered, kind, self.at + at)
        self.at += length

    def _directive(self, token: str) -> None:
        tokens = self.tokens
        if token == ".reg":
            end, declared = read_registers(tokens, self.at)
            self._declare(declared, end - self.at)
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

    def _say_again(self, phrase: Phrase) -> bool:
        """Add the instruction of a phrase whose line begins here, if its names are of the kinds that they were."""
        pattern, names, look_up, numbers = phrase
        kinds, makes, _, negate, head, head_at, found, goal_at, length = pattern
        try:
            entries = () if look_up is None else look_up(self.names.seen)
        except KeyError:
            entries = ()
        if not entries and names:
            entries = [self.names.meaning(name) for name in names]
        meanings: tuple[Any, ...] = ()
        now: tuple[str, ...] = ()
        if entries:
            meanings, now = zip(*entries)  # noqa: B905 - all are pairs; asking for it takes longer
        if now != kinds:
            return False
        guard = None
        operands: tuple[Any, ...] = meanings + numbers if numbers else meanings
        if negate is not None:
            predicate = meanings[0]
            guard = guard_of(predicate.slot, predicate.name, negate)
        if makes is not None:
            operands = tuple([make(operands) for make in makes])
        elif guard is not None:
            operands = operands[1:]
        at = self.at
        if head not in self.allowed:
            self._allow(head, at + head_at, found)
        self._add(at, length, guard, found, operands, at + goal_at)
        return True

    def _instruction(self) -> None:
        first = self.at
        line = self.tokens.statement(first)
        if line is not None and line.joined and line.phrase is not None and self._say_again(line.phrase):
            return
        wording = None if line is None else wording_of(line.tokens)
        if line is not None and wording is not None:
            line.phrase = phrase_of(wording, self.names.meaning)
            if line.phrase is not None and self._say_again(line.phrase):
                return
        try:
            said = self._read_instruction(first)
        except PtxSyntaxError as error:
            raise no_semicolon(self.tokens, first) or error from None
        if line is not None and wording is not None and not said.found.wrapped:
            line.phrase = learn(wording, said, self.names.meaning)

    def _read_instruction(self, first: int) -> Said:
        """Guard, head, operands, semicolon; the instruction goes to the end of ``body``."""
        guard, head_at = self._guard(first) if self.tokens.texts[first] == "@" else (None, first)
        head, at = self._head(head_at)
        operands, kinds, starts = self._operands(head, head_at, at)
        found = resolve(head, operands, ",".join(kinds))
        if found is None:
            raise no_form(self.tokens, self.names, head, head_at, operands, starts)
        if head not in self.allowed:
            self._allow(head, head_at, found)
        goal_at = 0 if found.target is None else starts[found.target]
        own = list(map(unwrapped, found.specs, operands)) if found.wrapped else operands
        length = starts[-1] + 1 - first
        self._add(first, length, guard, found, tuple(own), goal_at)
        line = tuple(self.tokens.texts[first : first + length])
        return Said(line, guard, head, head_at - first, [at - first for at in starts], operands, found)

    def _add(
        self, first: int, count: int, guard: Guard | None, found: Resolved, operands: tuple[Operand, ...], goal_at: int
    ) -> None:
        """Add the instruction of so many tokens from one on; at ``goal_at`` is the label that it jumps to, if any."""
        if first >= self.marked_from:
            self._pass_marks(first)
        if found.target is not None:
            self._note_target(operands[found.target], goal_at)
        body = self.body
        form = found.form
        mods = found.mods
        slots = found.slots
        step = self.step
        role = self.role
        body.append(Instr(form, mods, slots, operands, found, guard, self.tokens, first, count, step, role, len(body)))
        self.at = first + count

    def _guard(self, at: int) -> tuple[Guard, int]:
        """``@p`` or ``@!p``, and the token after it."""
        texts = self.tokens.texts
        negate = texts[at + 1] == "!"
        reg = self.reader.predicate(at + 2 if negate else at + 1)
        return guard_of(reg.slot, reg.name, negate), self.reader.at

    def _head(self, at: int) -> tuple[str, int]:
        """The opcode with its modifiers, which may have blanks between them, and the token after it."""
        texts = self.tokens.texts
        head = texts[at]
        at += 1
        while texts[at][:1] == ".":
            head += texts[at]
            at += 1
        return head, at

    def _operands(self, head: str, head_at: int, at: int) -> tuple[list[Operand], list[str], list[int]]:
        """The operands, their kinds, and the first token of each and of the semicolon."""
        texts = self.tokens.texts
        reader = self.reader
        seen = self.names.seen
        numbers = reader.numbers
        operands: list[Operand] = []
        kinds: list[str] = []
        starts: list[int] = []
        token = texts[at]
        while token != ";":
            starts.append(at)
            name = texts[at]
            entry = seen.get(name) or numbers.get(name)
            after = texts[at + 1]
            if entry is not None and (after == "," or after == ";"):
                at += 1  # most operands are one name or number that was met before: no need for the reader
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
        starts.append(at)
        return operands, kinds, starts

    def _allow(self, head: str, head_at: int, found: Resolved) -> None:
        """Check once for each head that this text may have it.

        Manual 9.7.16.5: all tcgen05 instructions of a kernel have the same ``.cta_group``; ptxas refuses others.
        """
        check_age(self.tokens, head, head_at, found.form, self.version, self.target)
        group = found.slots.get("cta_group") if found.form.opcode == "tcgen05" else None
        if group is not None:
            self.cta_group = self.cta_group or group
            if group != self.cta_group:
                raise self.tokens.error(
                    head_at,
                    f"this is .{group}, but an instruction above is .{self.cta_group}: a kernel uses one of them",
                )
        self.allowed.add(head)

    def _note_target(self, goal: Operand, at: int) -> None:
        """Remember where the next instruction of ``body`` jumps: labels may stand further down."""
        if isinstance(goal, Targets):
            self.list_users.append((len(self.body), goal.name))
        elif isinstance(goal, Label):
            self.names.scopes[-1].jumps.append(Jump(len(self.body), BRANCH, goal.name, at))
