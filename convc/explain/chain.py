"""The way from the definition of a convolution to the kernel of a layer, and to those that it might have had.

Algorithms 1 to 3.b (`convc.derive.forms`) are shown with the numbers of a layer, in order, whatever its kernel is; each
says whether the kernel is of it, and why not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from convc.compiler.index.conditions import conditions
from convc.compiler.index.formulas import Instance
from convc.compiler.index.geometry import Geometry, geometry_of
from convc.compiler.index.maps import Counterexample, Outcome, Proof
from convc.compiler.index.reuse import shared_instance
from convc.compiler.index.row_walk import BORDERS, RowWalk
from convc.compiler.plan.candidates import pipeline_of
from convc.compiler.plan.records import Plan, ScheduleSummary
from convc.compiler.schedules.all import RELOAD, SCHEDULES, WINDOWS
from convc.compiler.schedules.base import ROWS, Schedule
from convc.compiler.schedules.features.changes import changes_of
from convc.compiler.schedules.nesting import nest_of, tile_numbers
from convc.compiler.schedules.sharing.indexing import schedule_form
from convc.errors import PlanError
from convc.explain.derived import Algorithm, FilledNest, algorithms, changed_by, kernel_theorems
from convc.explain.sharing import cut_lines
from convc.explain.taken import taken_choice, title_of
from convc.report.format import counted

NOTE = 'algorithms as in Pei Luo, "Blackwell SM_100a tensor core architecture"'
FOR_ALL = "a theorem, for all sizes"
ON_A_STREAM = ", on a stream of output rows"
"""Behind the title of tiles from which loads can be shared, where the kernel has others."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """An algorithm of a layer.

    Attributes:
        algorithm: its rewrites and its nest, with the numbers of the layer.
        said: whether the kernel is of it, and why or why not.
        cuts: the ways to cut the output into such tiles: how many there are, or the condition that is broken.
        source: the title of the algorithm that its rewrites begin with; "" of the definition.
        theorems: those by which the kernel's numbers are those of the nest; of other nests none.
    """

    algorithm: Algorithm
    said: str = ""
    cuts: tuple[str, ...] = ()
    source: str = ""
    theorems: tuple[str, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether it is the first algorithm in which one load serves several columns of the filter."""
        return any(rewrite.name.startswith("hoist") for rewrite in self.algorithm.rewrites)


def stages_of(instance: Instance, walk: RowWalk | None = None) -> tuple[Stage, ...]:
    """The algorithms on the way to one form."""
    found = algorithms(instance, walk)
    last = len(found) - 1
    return tuple(
        Stage(
            algorithm=each,
            source=found[number - 1].title if number else "",
            theorems=tuple(kernel_theorems(instance)) if number == last else (),
        )
        for number, each in enumerate(found)
    )


def kernel_stages(plan: Plan) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """The algorithms on the way to a plan's kernel, and what its launch changes of the last one's loops."""
    algorithms = stages_of(nest_of(plan).instance, None if plan.reuse is None else plan.reuse.walk)
    changes: list[Stage] = []
    for change in changes_of(plan):
        before = changes[-1] if changes else algorithms[-1]
        made = changed_by(before.algorithm, change)
        changes.append(Stage(algorithm=made, source=before.algorithm.title, said="taken: the kernel counts so"))
    return algorithms, tuple(changes)


def kernel_chain(plan: Plan) -> tuple[Stage, ...]:
    """The algorithms on the way to a plan's kernel, changes of its launch included."""
    algorithms, changes = kernel_stages(plan)
    return algorithms + changes


def claims_of(stages: Iterable[Stage]) -> tuple[Outcome, ...]:
    """The theorems of algorithms, and what they ask of a problem with its numbers, each once."""
    found: dict[str, Outcome] = {}
    for stage in stages:
        for rewrite in stage.algorithm.rewrites:
            for outcome in (*(Proof(name, FOR_ALL) for name in rewrite.theorems), *rewrite.conditions):
                found.setdefault(str(outcome), outcome)
        for name in stage.theorems:
            found.setdefault(name, Proof(name, FOR_ALL))
    return tuple(found.values())


def kernel_loops(plan: Plan) -> FilledNest:
    """The loops of a plan's kernel: the last nest on the way to it."""
    return kernel_chain(plan)[-1].algorithm.nest


def plan_stages(plan: Plan) -> tuple[Stage, ...]:
    """All algorithms with the numbers of a plan's layer, in the order of the note."""
    own, changes = kernel_stages(plan)
    kernel = own[-1].algorithm.title
    found = {stage.algorithm.title: stage for stage in own}
    for schedule in _others(plan):
        for stage in _other_stages(plan, schedule):
            title = stage.algorithm.title
            if title == kernel and plan.reuse is None:
                title += ON_A_STREAM
            source = stage.source + ON_A_STREAM if plan.reuse is None and stage.source == kernel else stage.source
            algorithm = msgspec.structs.replace(stage.algorithm, title=title)
            found.setdefault(title, Stage(algorithm=algorithm, source=source))
    stages: list[Stage] = []
    for title in sorted(found, key=_number):
        said = _verdict(plan, title, kernel, list(found)) + _shared(found[title])
        cuts = tuple(cut_lines(plan)) if found[title].shares else ()
        stages.append(msgspec.structs.replace(found[title], said=said, cuts=cuts))
        stages += changes if title == kernel else ()
    return tuple(stages)


def _number(title: str) -> str:
    """1, 2, 3 or 3.b; of several titles of one number the order is that of the chains."""
    return title.removeprefix("Algorithm ").split(":")[0]


def _others(plan: Plan) -> Iterator[Schedule]:
    """One schedule of each name: of several variants the one that the planner would take."""
    choices = {choice.schedule: choice for choice in plan.choices if choice.tiling is not None}
    for _, variants in itertools.groupby(SCHEDULES, lambda schedule: schedule.name):
        legal, *_ = sorted(variants, key=lambda one: choices[one.id].cycles if one.id in choices else float("inf"))
        if legal is not RELOAD and legal.name != plan.schedule.name:
            yield legal


def _other_stages(plan: Plan, schedule: Schedule) -> tuple[Stage, ...]:
    """The algorithms to a schedule that the kernel is not of, on the tiles that it would have had."""
    choice = next((one for one in plan.choices if one.schedule == schedule.id and one.tiling is not None), None)
    tiling = plan.tiling if choice is None or choice.tiling is None else choice.tiling
    pipeline = pipeline_of(plan.layout, tiling, plan.arch.limits.mma_atom_bytes)
    own = plan.reuse
    cuts = [own] if own is not None and not (own.windowed or own.stream.boxed or schedule is WINDOWS) else []
    best: tuple[int, tuple[Stage, ...]] | None = None
    for geometry in (*cuts, *_cuts(plan, schedule, tiling.block_m)):
        form = schedule_form(geometry, schedule)
        instance = shared_instance(plan.problem, geometry, form, tile_numbers(plan.layout, tiling, pipeline))
        broken = sum(isinstance(each, Counterexample) for each in conditions(instance, geometry.walk))
        if best is None or broken < best[0]:
            best = broken, stages_of(instance, geometry.walk)
    return () if best is None else best[1]


def _cuts(plan: Plan, schedule: Schedule, lanes: int) -> list[Geometry]:
    """The ways to cut the output, those with the fewest tiles first."""
    found: list[Geometry] = []
    for border, rows in itertools.product(BORDERS, ROWS):
        for windowed in (schedule is WINDOWS, False):
            try:
                cut = geometry_of(plan.problem, merged=rows == "merged", border=border, lanes=lanes, windowed=windowed)
            except PlanError:
                continue
            found.append(cut)
            break
    return sorted(found, key=lambda cut: cut.all_tiles)


def _verdict(plan: Plan, title: str, kernel: str, titles: Sequence[str]) -> str:
    taken = taken_choice(plan)
    if _number(title) == "1":
        return "what every kernel has to compute"
    if title == kernel:
        return f"taken: the kernel is {title_of(taken)}, about {taken.cycles:.0f} cycles"
    if title.endswith(ON_A_STREAM):
        return "on the way to Algorithm 3: places of a stream follow each other as the pixels of a copy do"
    variants = [choice for choice in plan.choices if title.endswith(f": {choice.schedule.name}")]
    on_the_way = titles.index(title) < titles.index(kernel)
    if on_the_way and not variants:
        return f"on the way to {kernel}"
    why = _why_not(variants, taken)
    return f"on the way to {kernel}; by itself {why}" if on_the_way else why


def _shared(stage: Stage) -> str:
    """What one load for several columns of the filter saves, and what it costs: the numbers of the stream."""
    sizes = stage.algorithm.nest.instance.sizes
    if not stage.shares:
        return ""
    columns, loads = (counted(sizes[name], word) for name, word in (("S", "filter column"), ("BUFFERS", "load")))
    return f"; {columns} from {loads}, {sizes['T']} lanes per row of {sizes['Q']} outputs"


def _why_not(variants: Sequence[ScheduleSummary], taken: ScheduleSummary) -> str:
    legal = [choice for choice in variants if choice.tiling is not None and not choice.fell]
    if legal:
        best = min(legal, key=lambda choice: choice.cycles)
        more = best.cycles / taken.cycles - 1
        return f"not taken: {title_of(best)} would take about {best.cycles:.0f} cycles ({more:+.0%})"
    if variants:
        reasons: dict[str, list[str]] = {}
        for choice in variants:
            reason = choice.reason.replace(choice.schedule.title, choice.schedule.name)
            reasons.setdefault(reason, []).append(choice.schedule.title)
        return "not possible here: " + "; ".join(f"{', '.join(them)}: {why}" for why, them in reasons.items())
    return "not considered: another schedule was requested"


def chain_lines(stages: Sequence[Stage]) -> Iterator[str]:
    """Algorithms as text: before each the rewrites that lead there, with theorems and what a problem has to meet."""
    yield NOTE
    for stage in stages:
        algorithm = stage.algorithm
        yield ""
        if stage.source:
            yield f"from {stage.source.split(': ')[0]}{ON_A_STREAM if stage.source.endswith(ON_A_STREAM) else ''}:"
        for place, rewrite in enumerate(algorithm.rewrites, 1):
            yield f"{place}. {rewrite.name}"
            yield from (f"   theorem: {name}" for name in rewrite.theorems)
            if rewrite.why:
                yield f"   {rewrite.why}"
            for outcome in rewrite.conditions:
                if isinstance(outcome, Counterexample):
                    yield f"   BROKEN: {algorithm.title.split(': ')[-1]} needs {outcome.claim}: {outcome.reason}"
                else:
                    yield f"   met: {outcome.claim} [{outcome.reason}]"
        yield f"-- {algorithm.title} --"
        if stage.said:
            yield stage.said
        yield from (f"   {line}" for line in stage.cuts)
        yield from algorithm.nest.text().lines()
        if stage.theorems:
            yield "the kernel computes what this nest says:"
            yield from (f"   theorem: {name}" for name in stage.theorems)
