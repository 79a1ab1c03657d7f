"""Integer expressions: what an index map becomes once the algebra is done.

The algebra of `convc.compiler.index` ends in a handful of integer operations, and this is all of them: a constant, a
variable, sum, product, floor division, floor remainder, comparison, conjunction and selection. A difference
is a sum with a product by -1. Expressions are plain immutable trees: they are hashed (so equal subtrees are
computed once when they are turned into instructions), written to disk in plans as small JSON lists, and
evaluated on Python ints and on numpy integer arrays alike.

Division has *floor* semantics, as in Python: ``-1 // 7 == -1`` and ``-1 % 7 == 6``. The division of a GPU
truncates towards zero, which is the same thing exactly where the dividend is not negative. `nonnegative`
answers that question by interval arithmetic over the ranges of the variables.

Nodes and what builds them are in `nodes`, what an expression is worth in `values`, its JSON in `json_form`.
"""

from convc.ir.expr.json_form import from_json, to_json
from convc.ir.expr.nodes import (
    Add,
    And,
    Const,
    FloorDiv,
    IntExpr,
    Less,
    Mod,
    Mul,
    Select,
    Var,
    add,
    children,
    floor_div,
    mod,
    mul,
    subterms,
)
from convc.ir.expr.values import Interval, bounds, evaluate, nonnegative, substitute

__all__ = [
    "Add",
    "And",
    "Const",
    "FloorDiv",
    "IntExpr",
    "Interval",
    "Less",
    "Mod",
    "Mul",
    "Select",
    "Var",
    "add",
    "bounds",
    "children",
    "evaluate",
    "floor_div",
    "from_json",
    "mod",
    "mul",
    "nonnegative",
    "substitute",
    "subterms",
    "to_json",
]
