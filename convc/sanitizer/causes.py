"""Reasons why two accesses are not ordered, as far as it can be told: the rule, how bad it is, what to do.

* Strong accesses that meet need scopes that hold both threads, and so do the fences, releases and acquires by which
  others are ordered (PTX manual, "Memory Consistency Model", "Scope").
* A proxy fence orders accesses by the proxy and of the state space that it names (PTX manual, "Proxies").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from convc.ir.findings import Verdict
from convc.ptx import Instr
from convc.sanitizer.clocks import GENERIC, WEAK, WarpClocks
from convc.sanitizer.happens_before import ProxyFence
from convc.sanitizer.shadow import Access
from convc.sanitizer.strength import Locations, advice, apart

ORDINARY = ("st", "atom", "cp.async", "st.async", "red.async")
"""Kinds of ordinary writes: data, which an engine may not see without a proxy fence."""

LENIENT = frozenset(("mma", "cp"))
"""Operations that the tensor core is known to perform in the order in which a thread issues them."""

TWO_LANES = "; they are two lanes of one warp: put bar.warp.sync in between"
"""What to do about accesses of one warp."""

UNFENCED = "; only a proxy fence is missing in between"
"""What to do where the asynchronous proxy overwrites what the generic one has read."""

OTHER_SCOPE = "; their scopes do not include each other's thread; .cluster or .gpu does"
UNHEARD = "; a fence, release or acquire between them has scope .cta, which does not include the other CTA"


LATE_INIT = (
    "; the fence.mbarrier_init of its warp precedes the mbarrier.init, and the arrival at the cluster barrier is "
    "relaxed"
)
"""What keeps another CTA from knowing of an mbarrier by the letter alone."""


class Cause(NamedTuple):
    """The rule that two accesses break which are not ordered, how bad that is, and what is to say of it."""

    rule: str
    verdict: Verdict
    why: str


def cause_of(
    space: str,
    first: Access,
    second: Access,
    clocks: WarpClocks,
    known: str,
    locations: Locations,
    fences: Iterable[ProxyFence],
) -> Cause:
    """Find why ``second``, whose issuer has these clocks, is not ordered after ``first``.

    Args:
        space: of the place. known: what is known already: one of the sentences above, or nothing.
        locations: what CTAs released to each other. fences: proxy fences that were executed.
    """
    weakly = not known and clocks.time(WEAK, first.component) >= first.time
    same = first.instr.span.line == second.instr.span.line and first.kind == second.kind == "st"
    forgiven = same or known == UNFENCED or (weakly and (space == "tensor" or not _data(first, second)))
    verdict = Verdict.review if forgiven else Verdict.error
    if space != "tensor" and (wrong := _wrong_fence(space, first, second, clocks, fences)):
        why = f"; the {wrong.form.name}{_kind(wrong)} of line {wrong.span.line} is for another proxy or state space"
        return Cause("proxy-fence-wrong", verdict, why)
    if known == UNFENCED:
        return Cause("proxy-fence-missing", verdict, known)
    rule = f"race-{space}-memory"
    # What one thread issues to the tensor core it performs in that order, which the manual promises of some only.
    if first.component == second.component and {first.kind, second.kind} <= LENIENT:
        why = "; one thread issues both"
        return Cause(rule, Verdict.review if forgiven else Verdict.rule, why)
    if weakly and first.kind == "init" and clocks.time(GENERIC, first.component) < first.time:
        return Cause(rule, Verdict.rule, LATE_INIT)
    if first.row != second.row and apart(first.strength, second.strength, True):
        return Cause("scope-too-narrow", Verdict.error, OTHER_SCOPE)
    if same:
        return Cause(rule, verdict, "; they may store the same")
    if weakly:
        return Cause(rule, verdict, "; only a proxy fence or a tcgen05 fence is missing")
    if (first.row, second.row) in locations.unheard:
        return Cause("scope-too-narrow", verdict, UNHEARD)
    if first.generic and second.generic:
        return Cause(rule, verdict, advice(first.strength, second.strength) or known)
    return Cause(rule, verdict, known)


def _data(first: Access, second: Access) -> bool:
    """Whether an engine uses what ordinary instructions have written."""
    return first.kind in ORDINARY and not second.generic and not second.write


def _wrong_fence(
    space: str, first: Access, second: Access, clocks: WarpClocks, fences: Iterable[ProxyFence]
) -> Instr | None:
    """A proxy fence for something else between two accesses, of which an engine makes the second."""
    if second.generic or not first.generic or clocks.time(GENERIC, first.component) < first.time:
        return None
    between = (fence.instr for fence in fences if fence.between(first.component, first.time, clocks))
    return next((instr for instr in between if not _reaches(instr, space)), None)


def _reaches(fence: Instr, space: str) -> bool:
    """Whether a proxy fence is for the asynchronous proxy and a state space."""
    kind = _kind(fence)
    return kind == ".async" or kind.startswith(f".async.{space}")


def _kind(fence: Instr) -> str:
    """The proxies and the state space of a proxy fence, as its text has them."""
    if fence.form.name == "fence.proxy.restrict":
        return ".async"
    kind = fence.slots.get("proxykind")
    return f".{kind}" if kind else ""
