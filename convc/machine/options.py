"""Options of a launch: how it is read, in which order it runs, and how far it may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from convc.errors import InputError
from convc.machine.base.completion import POLICIES
from convc.machine.base.switches import Switches
from convc.machine.state.grants import check_grants

MAX_INSTRUCTIONS = 10_000_000
"""Most instructions of a warp where no other number is given: tens of milliseconds of a GPU, and minutes here.

A loop with a wrong bound, or one that polls for what never comes, looks like one that takes long: only a number can
tell them apart. GPGPU-Sim (``-gpgpu_max_insn``) and gem5 (``maxinsts``) have one too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run.

    Attributes:
        cohort: most CTAs to run in lockstep; more share what an instruction costs, up to the size of the caches.
        cohort_bytes: most bytes of shared and tensor memory a cohort may take.
        switches: how to read what the manual leaves open, and how the tensor core adds.
        policy, seed: when asynchronous work takes effect (see `convc.machine.base.completion`).
        grants: which cluster a running one gets that asks for one that has not begun (`convc.machine.state.grants`).
        resident: how many clusters begin at a time in a kernel that asks; None: one in five, so that there is
            something to ask for.
        evaluation: ``lazy``: copies and products wait until their results are looked at (`convc.machine.lazy`);
            ``eager``: everything is performed when it is issued. Nothing that a kernel, a caller or an observer can see
            differs but the order in which float32 sums are rounded. Runs with exact numerics are always eager.
        ctas: run only the CTAs from the first number up to, and not with, the second, whole clusters; None: all. What
            the others would have written stays as it was.
        memory_bytes: most bytes that buffers, variables and a cohort may take together.
        only: run only the CTAs of these numbers, or the clusters that begin with them (clusters count one after the
            other, x fastest); empty: all of ``ctas``.
        repeats: a launch may replay an earlier one (`convc.machine.state.replay`); no result differs.
        max_instructions: most instructions that a warp may execute, those of loops that wait included. It is looked
            at when a warp has had its turn, so that it may be passed by two (`convc.machine.execute.engine.TURN`).
    """

    cohort: int = 296
    cohort_bytes: int = 256 << 20
    switches: Switches = Switches()  # noqa: RUF009 - frozen record
    policy: str = "eager"
    seed: int = 0
    grants: str = "ordered"
    resident: int | None = None
    evaluation: Literal["lazy", "eager"] = "lazy"
    ctas: tuple[int, int] | None = None
    memory_bytes: int = 64 << 30
    only: tuple[int, ...] = ()
    repeats: bool = True
    max_instructions: int = MAX_INSTRUCTIONS

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"the completion policy must be one of {', '.join(POLICIES)}, got {self.policy!r}")
        check_grants(self.grants, self.resident)
        if self.evaluation not in ("lazy", "eager"):
            raise InputError(f"the evaluation must be lazy or eager, got {self.evaluation!r}")
        if self.max_instructions < 1:
            raise InputError(f"a warp must be allowed at least 1 instruction, got {self.max_instructions}")
