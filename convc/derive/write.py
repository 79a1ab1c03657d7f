"""The derivation as data: ``convc/derived/derived.json``, so that compiling needs no sympy.

    python -m convc.derive.write

writes it anew. An expression is a constant and terms, each a number of sizes times an axis or a division; a number of
sizes is a list of products, such as [2, "P", "Q"] for 2*P*Q. Terms come in the order in which loops are nested.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sympy import Add, Expr, Mul, Pow, S, Symbol

from convc.derive.algebra import expanded
from convc.derive.changes import changes
from convc.derive.clusters import clusters
from convc.derive.columns import layouts
from convc.derive.forms import LoweredForm, forms
from convc.derive.hosted import hosted
from convc.derive.kernels import Map
from convc.derive.nests import Let, Load, Loop, Mask, Move, Nest, Place, RewriteStep
from convc.derive.reindex import Reindexed
from convc.derive.results import Fact, facts
from convc.derive.shares import Share, shares
from convc.derive.solve import Solved, solved
from convc.derive.symbols import AXES, Division, FloorDiv
from convc.derive.theorem import Bound, Condition, Either, Theorem

FORMAT = "convc-derived/1"
PARTS = ("expressions", "conditions", "theorems", "steps", "nests", "numbers")
FOLDER = Path(__file__).parent
FILE = FOLDER.parent / "derived" / "derived.json"

_ORDER = """p part cta turn step entry tile tile_m n m t image y row begun tile_n rank k round slab pack_c k_step warp
r s block chunk half window buffer tap q x lane column c e"""
NESTED = _ORDER.split()
"""Axes in the order in which a sum has them: the outermost loop first."""


def digest(folder: Path = FOLDER) -> str:
    """SHA-256 of the files of this folder, by which a record of them is known."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def record() -> dict[str, Any]:
    """Everything that is derived, anew."""
    book = _Book()
    entries = {form.name: book.form(form) for form in forms()}
    shared = {name: book.share(share) for name, share in (*shares(), *clusters())}
    changed = {change.name: book.change(change) for change in changes()}
    known = {fact.name: book.fact(fact) for fact in (*facts(), *layouts(), *hosted())}
    parts = {name: part.entries for name, part in book.parts.items()}
    return {
        "format": FORMAT,
        "digest": digest(),
        "forms": entries,
        "changes": changed,
        "shares": shared,
        "facts": known,
        **parts,
    }


def text() -> str:
    """The record as it is written: a line for each entry."""
    found = record()
    lines = [f'"format": {json.dumps(FORMAT)}', f'"digest": {json.dumps(found["digest"])}']
    for kind in ("forms", "changes", "shares", "facts"):
        parts = [f"{json.dumps(name)}: {_json(entry)}" for name, entry in found[kind].items()]
        lines.append(f'"{kind}": {{\n' + ",\n".join(parts) + "\n}")
    for name in PARTS:
        lines.append(f'"{name}": [\n' + ",\n".join(map(_json, found[name])) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class _Numbered:
    """Entries that are written once, and found by their numbers."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._known: dict[str, int] = {}

    def number(self, entry: Any) -> int:
        key = _json(entry)
        if key not in self._known:
            self._known[key] = len(self.entries)
            self.entries.append(entry)
        return self._known[key]


class _Book:
    """What forms have in common, each of it once: expressions, nests, steps, theorems, conditions."""

    def __init__(self) -> None:
        self.parts = {name: _Numbered() for name in PARTS}
        self._written: dict[Expr, int] = {}

    def form(self, form: LoweredForm) -> dict[str, Any]:
        algorithms: list[Any] = []
        before = 0
        for title, nest in form.algorithms:
            steps = [self.step(each) for each in nest.steps[before:]]
            algorithms.append([title, self.nest(nest), steps])
            before = len(nest.steps)
        return {
            "algorithms": algorithms,
            "maps": {name: self.map(found) for name, found in form.maps.items()},
            "theorems": [self.theorem(each) for each in form.theorems],
            "conditions": list(dict.fromkeys(number for each in form.nest.steps for number in self.conditions(each))),
            "solved": {each.symbol.name: self.solved(each) for each in solved(form.nest)},
        }

    def solved(self, found: Solved) -> int:
        demands = [
            [
                each.least,
                [None if limit is None else self.expr(limit.value) for limit in each.limits],
                self.bounds(each.bounds),
            ]
            for each in found.demands
        ]
        entry = [found.greatest, demands, [self.theorem(each) for each in found.theorems]]
        return self.parts["numbers"].number(entry)

    def change(self, change: Reindexed) -> dict[str, Any]:
        return {
            "title": change.title,
            "step": self.step(change.step),
            "old": [axis.name for axis in change.old],
            "loops": self.loops(change.loops),
            "lets": [self.let(each) for each in change.lets],
            "guard": self.bounds(change.guard),
            "inside": {old.name: new.name for old, new in change.inside.items()},
            "added": None if change.added is None else change.added.name,
            "maps": {name: self.map(found) for name, found in change.maps.items()},
            "conditions": self.conditions(change.step),
        }

    def share(self, share: Share) -> dict[str, Any]:
        return {"map": self.map(share.map), "theorems": [self.theorem(each) for each in share.theorems]}

    def fact(self, fact: Fact) -> dict[str, Any]:
        theorem = fact.theorems[0].name
        return {
            "says": fact.says,
            "theorem": theorem,
            "theorems": [self.theorem(each) for each in fact.theorems],
            "conditions": [self.condition(each, theorem) for each in fact.conditions],
            "maps": {name: self.map(found) for name, found in fact.maps.items()},
        }

    def loops(self, loops: Iterable[Loop]) -> list[Any]:
        return [[loop.axis.name, self.expr(loop.extent), loop.words] for loop in loops]

    def let(self, let: Let) -> list[Any]:
        cases = [
            [self.expr(case.value), self.expr(case.key), None if case.key is None else products(case.limit)]
            for case in let.cases
        ]
        return [let.inside.name, let.axis.name, cases, let.found]

    def map(self, found: Map) -> list[Any]:
        return [[axis.name for axis in found.axes], self.place(found.results), self.bounds(found.guard)]

    def nest(self, nest: Nest) -> int:
        entry = {
            "loops": self.loops(nest.loops),
            "space": self.place(nest.space),
            "guard": self.bounds(nest.guard),
            "accumulate": None if nest.accumulate is None else nest.accumulate.name,
            "load": None if nest.load is None else self.load(nest.load),
            "pixel": self.place(nest.pixel()) if nest.load is None else [],
            "read": self.expr(nest.read),
            "move": None if nest.move is None else self.move(nest.move),
            "masks": [self.mask(each) for each in nest.masks],
            "swapped": nest.swapped,
            **({} if nest.updates == "y" else {"updates": nest.updates}),
        }
        return self.parts["nests"].number(entry)

    def step(self, step: RewriteStep) -> int:
        entry = {
            "name": step.name,
            "why": step.why,
            "theorems": [self.theorem(each) for each in step.theorems],
            "conditions": self.conditions(step),
        }
        return self.parts["steps"].number(entry)

    def theorem(self, theorem: Theorem) -> int:
        says, given = (list(map(str, each)) for each in (theorem.says, theorem.given))
        return self.parts["theorems"].number({"name": theorem.name, "says": says, "given": given})

    def conditions(self, step: RewriteStep) -> list[int]:
        """The conditions of a rewrite, each with the theorem that it is for."""
        theorem = step.theorems[0].name if step.theorems else step.why
        return [self.condition(each, theorem) for each in step.conditions]

    def condition(self, condition: Condition, theorem: str) -> int:
        if isinstance(condition, Either):
            either = self.bounds(condition.bounds)
        else:
            either = self.bounds((condition,))
        entry = {"text": str(condition), "words": condition.words, "theorem": theorem, "either": either}
        return self.parts["conditions"].number(entry)

    def place(self, found: Place) -> list[Any]:
        return [[name, self.expr(expr)] for name, expr in found.items()]

    def bounds(self, each: Iterable[Bound]) -> list[Any]:
        return [["<" if one.strict else "<=", self.expr(one.low), self.expr(one.high)] for one in each]

    def load(self, load: Load) -> dict[str, Any]:
        return {
            "inside": load.inside.name,
            "row": load.row.name,
            "rows": self.expr(load.rows),
            "pixel": self.place(load.pixel),
            "since": self.expr(load.since),
            "words": load.words,
        }

    def move(self, move: Move) -> dict[str, Any]:
        return {"inside": move.inside.name, "lanes": self.expr(move.lanes), "words": move.words}

    def mask(self, mask: Mask) -> dict[str, Any]:
        sides = {"need": mask.need, "end": mask.end, "held": mask.held, "held_end": mask.held_end, "since": mask.since}
        return {"axis": mask.axis.name, **{name: self.expr(expr) for name, expr in sides.items()}}

    def expr(self, expr: Expr | None) -> int | None:
        if expr is None:
            return None
        if expr not in self._written:
            self._written[expr] = self.parts["expressions"].number(expression(expr))
        return self._written[expr]


def expression(expr: Expr) -> list[Any]:
    """[constant, [[factor, atom], ...]]."""
    constant: list[Expr] = []
    factors: dict[Expr, list[Expr]] = {}
    for term in Add.make_args(expanded(expr)):
        parts = Mul.make_args(term)
        atoms = [part for part in parts if _is_atom(part)]
        factor = Mul(*(part for part in parts if not _is_atom(part)))
        if len(atoms) > 1:
            raise ValueError(f"{term} is no number times an axis or a division, in {expr}")
        if atoms:
            factors.setdefault(atoms[0], []).append(factor)
        else:
            constant.append(factor)
    terms = sorted(factors.items(), key=lambda each: (_nesting(each[0]), str(each[0])))
    return [products(Add(*constant)), [[products(Add(*each)), _atom(atom)] for atom, each in terms]]


def _is_atom(part: Expr) -> bool:
    """Whether a factor is known in the kernel alone: an axis, a division, powers of neither."""
    if isinstance(part, Pow) and _is_atom(part.base):
        raise ValueError(f"{part} is no index expression")
    return isinstance(part, Division) or (isinstance(part, Symbol) and part.name in AXES)


def _nesting(atom: Expr) -> int:
    """The place of an atom in a sum: that of the outermost loop that it reads."""
    places = (NESTED.index(each.name) if each.name in NESTED else len(NESTED) for each in _axes(atom))
    return min(places, default=len(NESTED))


def _axes(atom: Expr) -> Iterable[Symbol]:
    return [each for each in atom.free_symbols if each.name in AXES]


def _atom(atom: Expr) -> Any:
    if isinstance(atom, Symbol):
        return atom.name
    assert isinstance(atom, Division)
    return ["//" if isinstance(atom, FloorDiv) else "%", expression(atom.dividend), products(atom.divisor)]


def products(expr: Expr) -> list[list[int | str]]:
    """A number of sizes as a sum of products."""
    found: list[list[int | str]] = []
    for term in Add.make_args(expanded(expr)):
        if term == 0:
            continue
        number, rest = term.as_coeff_Mul()
        names: list[int | str] = []
        for factor in Mul.make_args(rest):
            base, power = factor.as_base_exp()
            names += [str(base)] * int(power) if base is not S.One else []
        found.append([int(number), *names])
    return found


def main() -> None:
    """Write the file anew."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
