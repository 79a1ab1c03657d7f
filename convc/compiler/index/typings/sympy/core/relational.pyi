"""Conditions that guard index maps."""

from collections.abc import Callable

from sympy import Basic, Expr

class Relational(Basic):
    @property
    def lhs(self) -> Expr: ...
    @property
    def rhs(self) -> Expr: ...
    @property
    def func(self) -> Callable[..., Relational]: ...

class LessThan(Relational):
    def __new__(cls, lhs: Expr, rhs: Expr, *, evaluate: bool) -> LessThan: ...

class StrictLessThan(Relational):
    def __new__(cls, lhs: Expr, rhs: Expr, *, evaluate: bool) -> StrictLessThan: ...
