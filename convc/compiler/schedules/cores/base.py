"""Decisions about a kernel that follow from the instruction of a tensor core, besides its text.

A schedule says what is loaded and multiplied. Where the accumulator lies, which warps multiply and which carry results
away, and how the end of a multiplication is told follow from the instruction: one `TensorCore` for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from convc.compiler.plan.names import Number
from convc.compiler.plan.records import Plan
from convc.compiler.plan.storage import BarrierRing
from convc.compiler.schedules.base import Roles
from convc.compiler.schedules.skeleton import warps_role
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Step
from convc.compiler.tile.steps.mma import SharedMma
from convc.ir.expr import IntExpr


class TensorCore(ABC):
    """A tensor core's instruction.

    Attributes:
        product: the step that multiplies two tiles in shared memory.
        written_out: whether the epilogue's steps name registers by their chunk, so that its loop is written out.
    """

    product: type[SharedMma]
    written_out: bool

    @abstractmethod
    def warps(self, rows: int, *, apart: bool = False) -> int:
        """Warps of a CTA whose tile has so many rows; `apart`: those that load share no warpgroup with others."""

    @abstractmethod
    def releases(self, rows: int) -> int:
        """Arrivals that give a stage of operand tiles back."""

    @abstractmethod
    def done(self) -> tuple[BarrierRing, ...]:
        """The ring that tells the epilogue of a complete accumulator, where that is another role."""

    @abstractmethod
    def release(
        self, id: str, note: str, ring: BarrierRing, *, before: IntExpr | None, closes: bool
    ) -> tuple[Step, ...]:
        """Give the current stage of a ring back once it has been multiplied.

        Args:
            id, note: of the step.
            ring: which.
            before: a number that is 0 where no stage of the ring was given back before; None: one always was.
            closes: whether anything was multiplied since the last such step.
        """

    @abstractmethod
    def complete(self) -> tuple[Step, ...]:
        """The end of the role that multiplies: the accumulator is complete."""

    @abstractmethod
    def joined(self, roles: Roles) -> Roles:
        """Join the roles that the same warps have: the epilogue is then part of the role that multiplies."""

    @abstractmethod
    def setup(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """Make the roles that prepare a CTA."""

    @abstractmethod
    def main(self, plan: Plan, roles: Roles) -> tuple[Role, ...]:
        """The roles that run side by side."""

    @abstractmethod
    def teardown(self, plan: Plan) -> tuple[Role, ...]:
        """Make the roles that end a CTA."""

    @abstractmethod
    def meet(self, plan: Plan, id: str, note: str) -> Step:
        """The step at which all threads meet: of the CTA, or of all CTAs that multiply as one."""

    def cleared(self, plan: Plan) -> Role:
        """The role of the set-up in which those meet who wait until the accumulator is clear: all."""
        step = self.meet(plan, "ready.sync", "the accumulator is zero")
        return warps_role("ready", plan.launch.warps - 1, "nobody multiplies before it is clear", (step,))

    @abstractmethod
    def columns(self, plan: Plan) -> int:
        """Columns of the accumulator that a lane of the epilogue has at a time."""

    @abstractmethod
    def chunks(self, plan: Plan) -> int:
        """Count the chunks that the epilogue reads."""

    @abstractmethod
    def lane(self) -> tuple[Step, ...]:
        """The steps that find the row of the accumulator that a thread of the epilogue has."""

    @abstractmethod
    def accumulated(self) -> tuple[Step, ...]:
        """The wait of the epilogue for the accumulator."""

    @abstractmethod
    def vacated(self, plan: Plan) -> tuple[Step, ...]:
        """The wait of the epilogue until operand tiles are read, which the tile of results lies over."""

    @abstractmethod
    def read(self, columns: int, slab: Number | None = None, slab_chunks: int = 0) -> tuple[Step, ...]:
        """The steps of the epilogue that read columns of a chunk: the first two set the number ``column``, and read.

        Args:
            columns: that a lane has at a time.
            slab: the number of the slab whose chunks these are, where results are staged; ``column`` counts in it.
            slab_chunks: chunks of a slab.
        """


def first_that_divides(width: int, choices: Iterable[int]) -> int:
    """The first of some numbers that divides a width."""
    return next(choice for choice in choices if width % choice == 0)
