"""All mutants of a source text: one operator, number, condition, argument or call is another in each.

The mutant is written into the text where the expression stands; all else of the file stays as it is. What only types
and formats read is left alone: annotations, docstrings, decorators, and the strings of messages.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

OTHER_OPERATOR: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OTHER_CALL = {"max": "min", "min": "max", "any": "all", "all": "any", "sorted": "list"}
"""Names of functions that take the same arguments and do something else with them."""

IN_ANY_ORDER = {
    "min", "max", "clip", "minimum", "maximum", "gcd", "lcm", "isclose", "array_equal", "swapaxes",
}  # fmt: skip
"""Names of functions, and methods of numpy, that do not mind the order of their first two arguments (or mostly)."""

UNREAD = {"annotation", "returns", "decorator_list", "type_params"}
"""Fields of the tree that no run reads, or that make a class of its body."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One change of a file.

    Attributes:
        path: the file, from the root of the checkout.
        line, statement: where the changed code begins, and the statement that it is in; the first line is 1.
        kind: ``operator``, ``constant``, ``condition``, ``argument`` or ``call``.
        first, last: the changed bytes of the file's text.
        before, after: what stands there, and what comes in its place.
    """

    path: str
    line: int
    statement: int
    kind: str
    first: int
    last: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """What says which mutant it is: the place and the change."""
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def text(self, source: str) -> str:
        """The file with the change."""
        data = source.encode()
        return (data[: self.first] + self.after.encode() + data[self.last :]).decode()


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to draw mutants from."""

    path: str
    text: str

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        """All of them, in the order of the tree."""
        found = [
            self._mutant(kind, place, ast.unparse(other), statement)
            for node, statement in self._read(ast.parse(self.text), 1)
            for kind, place, other in (*_values(node), *_calls(node), *_conditions(node))
        ]
        return tuple(
            dict.fromkeys(mutant for mutant in found if mutant.after not in (mutant.before, f"({mutant.before})"))
        )

    @cached_property
    def _starts(self) -> list[int]:
        """The byte at which each line begins."""
        starts = [0]
        for line in self.text.encode().split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def _mutant(self, kind: str, node: ast.expr | ast.stmt, after: str, statement: int) -> Mutant:
        first = self._starts[node.lineno - 1] + node.col_offset
        last = self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = self.text.encode()[first:last].decode()
        after = f"({after})" if isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Name) else after
        return Mutant(
            path=self.path, line=node.lineno, statement=statement, kind=kind, first=first, last=last, before=before,
            after=after,
        )  # fmt: skip

    def _read(self, node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, int]]:
        """A node and all below it that a run reads, with the lines of their statements.

        Formatted strings cannot be written into in place.
        """
        if isinstance(node, ast.JoinedStr) or _types_only(node):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return  # lengths that are equal, or the code is wrong
        statement = node.lineno if isinstance(node, ast.stmt) else statement
        yield node, statement
        for name, value in ast.iter_fields(node):
            if name in UNREAD or (name == "keywords" and isinstance(node, ast.ClassDef)):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.UnaryOp) and isinstance(node, ast.Call) and _name(node.func) == "reshape":
                    yield child, statement  # any negative number stands for the length that is left
                elif isinstance(child, ast.AST):
                    yield from self._read(child, statement)


def _types_only(node: ast.AST) -> bool:
    """Whether it stands under `TYPE_CHECKING`, or names a type."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in ("Literal", "Annotated")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar")


Change = tuple[str, ast.expr | ast.stmt, ast.expr | ast.stmt]
"""Kind, what is replaced, and by what."""


def _values(node: ast.AST) -> Iterator[Change]:
    """Other operators and numbers."""
    match node:
        case ast.Compare():
            for i, operator in enumerate(node.ops):
                if type(operator) in OTHER_OPERATOR:
                    ops = [*node.ops[:i], OTHER_OPERATOR[type(operator)](), *node.ops[i + 1 :]]
                    yield "operator", node, ast.Compare(node.left, ops, node.comparators)
        case ast.BinOp() if type(node.op) in OTHER_OPERATOR:
            yield "operator", node, ast.BinOp(node.left, OTHER_OPERATOR[type(node.op)](), node.right)
        case ast.BoolOp():
            yield "operator", node, ast.BoolOp(OTHER_OPERATOR[type(node.op)](), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "operator", node, node.operand
        case ast.Constant(value=bool()):
            yield "constant", node, ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", node, ast.Constant(node.value + 1)


def _calls(node: ast.AST) -> Iterator[Change]:
    """Calls left out, of another function, or with other arguments."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.Raise() | ast.AugAssign():
            yield "call", node, ast.Pass()
        case ast.Call():
            if isinstance(node.func, ast.Name) and node.func.id in OTHER_CALL:
                yield "call", node.func, ast.Name(OTHER_CALL[node.func.id], ast.Load())
            first, second, *rest = [*node.args, None, None]
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            if first and second and not starred and _name(node.func) not in IN_ANY_ORDER:
                yield "argument", node, ast.Call(node.func, [second, first, *rest[:-2]], node.keywords)
            for i, keyword in enumerate(node.keywords):
                if keyword.arg not in (None, "strict"):
                    others = [*node.keywords[:i], *node.keywords[i + 1 :]]
                    yield "argument", node, ast.Call(node.func, node.args, others)


def _name(function: ast.expr) -> str:
    """The last word of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _conditions(node: ast.AST) -> Iterator[Change]:
    """Conditions that always hold, or never do; of a loop the latter alone, as the former says nothing."""
    match node:
        case ast.IfExp():
            yield "condition", node, node.body
            yield "condition", node, node.orelse
        case ast.If():
            yield "condition", node.test, ast.Constant(True)
            yield "condition", node.test, ast.Constant(False)
        case ast.While():
            yield "condition", node.test, ast.Constant(False)
        case ast.comprehension():
            for test in node.ifs:
                yield "condition", test, ast.Constant(True)
