"""The loop test of a tile program: its loops run with numbers, as their text goes through them, against the definition.

What is left out is what steps do. Each role of each CTA goes through its loops, those with copies body by body and jump
by jump (`convc.compiler.emit.kernel`), and a walk over fetched tiles is given tiles of other CTAs. What comes of it are
the filter tiles that are copied, and the products, of each tile of the output; the definition says which these are.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from convc.compiler.emit.kernel import known_stages, turns
from convc.compiler.plan.names import PART, RANK
from convc.compiler.schedules.skeleton import MAP_B
from convc.compiler.tile.program import Role
from convc.compiler.tile.steps.base import Compute, LookUp, Loop, Step, Strided
from convc.compiler.tile.steps.copies import TensorCopy
from convc.compiler.tile.steps.mma import Multiply
from convc.compiler.tile.steps.persistent import FetchLoop
from convc.compiler.tile.steps.rings import Advance
from convc.ir.debug_info import WALK
from convc.ir.expr import evaluate

Numbers = dict[str, int]


@dataclass
class Walk:
    """A role of a CTA on its way through its loops.

    Attributes:
        role, table: whose steps they are, and the table of the program.
        given: tiles that the CTA is given, its own first.
        stages: the stage of each ring, and `seen` at which of them each place of the text has been reached.
    """

    role: Role
    table: tuple[int, ...]
    given: list[int]
    stages: Counter[str] = field(default_factory=Counter)
    seen: dict[tuple[object, ...], set[int]] = field(default_factory=lambda: defaultdict(set))

    def steps(self, steps: tuple[Step, ...], numbers: Numbers, place: tuple[object, ...] = ()) -> Iterator[Step]:
        """The steps in the order of execution; `numbers` are those of each."""
        for step in steps:
            match step:
                case Loop(leads=True) if numbers.get(RANK):
                    continue
                case Loop():
                    for body, number in in_text(step):
                        numbers[step.var] = number
                        yield from self.steps(step.body, numbers, (*place, step.id, body))
                case Strided():
                    for number in range(numbers[step.first], step.limit, step.stride):
                        numbers[step.var] = number
                        yield from self.steps(step.body, numbers, (*place, step.id))
                case FetchLoop():
                    for number in self.given:
                        numbers[step.var] = number
                        yield from self.steps(step.body, numbers, (*place, step.id))
                case Compute() if step.expr.variables() <= numbers.keys():
                    numbers[step.dst] = int(evaluate(step.expr, numbers))
                case LookUp():
                    numbers[step.dst] = self.table[numbers[step.index]]
                case Advance():
                    self.seen[(*place, step.id, step.state)].add(self.stages[step.state])
                    self.stages[step.state] = (self.stages[step.state] + 1) % step.stages
                case _:
                    yield step


def in_text(loop: Loop) -> Iterator[tuple[object, int]]:
    """The bodies of a loop in the order of execution, each with its number."""
    repeated, rest = turns(loop)
    if loop.all_written:
        yield from ((body, body) for body in repeated)
        return
    number = 0
    while True:
        for body in repeated:
            yield body, number
            number += 1
        if number >= rest.start:
            break
    yield from ((("behind", number), number) for number in rest)


@dataclass
class Ran:
    """What the loops of a program are about, by tile of the output.

    Attributes:
        places: of the tiles, where they are worked out.
        copied, products: filter tiles that are copied, by their coordinates; products, by filter column and loops.
        known: the stages at which places of the text have been reached, where the text names one.
    """

    places: dict[tuple[int, ...], tuple[int, int]]
    copied: dict[tuple[int, ...], Counter[tuple[int, ...]]]
    products: dict[tuple[int, ...], Counter[tuple[int, ...]]]
    known: list[set[int]]


def run_loops(program, rng: random.Random) -> Ran:
    """Run all CTAs of a program; fetched tiles are dealt out by `rng`."""
    width, height, parts = program.launch.grid
    wide, high, _ = program.launch.cluster
    found = Ran({}, defaultdict(Counter), defaultdict(Counter), [])
    dealt = _dealt(program, rng)
    for m in range(width):
        for n in range(height):
            for part in range(parts):
                if m not in dealt:
                    continue  # another CTA was given its tile
                rank = (n % high) * wide + m % wide if parts == 1 else part
                numbers = {"cta": m} if program.numbered else {"tile_m": m, "tile_n": n}
                for role in program.roles:
                    if not (role.leads and rank):
                        walk = Walk(role, program.table, dealt[m])
                        _note(found, walk, {**numbers, RANK: rank, PART: part})
                        states = known_stages(role.steps)
                        found.known += [seen for place, seen in walk.seen.items() if place[-1] in states]
    return found


def _dealt(program, rng: random.Random) -> Mapping[int, list[int]]:
    """The tiles of each CTA that begins, its own first; where they are not fetched each has its own."""
    waiting = list(range(program.launch.grid[0]))
    if program.storage.answers is None:
        return {cta: [cta] for cta in waiting}
    dealt: dict[int, list[int]] = {}
    while waiting:
        mine = dealt.setdefault(waiting[0], [waiting.pop(0)])
        while waiting and rng.random() < 0.6:
            mine.append(waiting.pop(0))
    return dealt


def _note(found: Ran, walk: Walk, numbers: Numbers) -> None:
    """What copies and products of a role are about."""
    for step in walk.steps(walk.role.steps, numbers):
        names = (WALK,) if WALK in numbers else ("cta", "tile_m", "tile_n")
        tile = tuple(numbers.get(name, -1) for name in names)
        if isinstance(step, TensorCopy) and {"tile_m", "tile_n"} <= numbers.keys():
            found.places[tile] = numbers["tile_m"], numbers["tile_n"]
        if isinstance(step, TensorCopy) and step.map == MAP_B:
            found.copied[tile][tuple(numbers[name] for name in step.coords)] += 1
        elif isinstance(step, Multiply):
            column = -1 if step.column is None else int(evaluate(step.column, numbers))
            loops = tuple(numbers.get(name, -1) for name in ("r", "block", "k_step"))
            found.products[tile][(column, *loops)] += 1


def wrong(plan, program, rng: random.Random) -> str:
    """What the loops of a plan's program leave out or do twice; "" where they are the definition's."""
    ran = run_loops(program, rng)
    taps = math.prod(plan.problem.kernel)
    blocks = -(-plan.layout.c_pitch // plan.pipeline.channels)
    filters = {(block * plan.pipeline.channels, tap) for block in range(blocks) for tap in range(taps)}
    tiles = math.prod(plan.launch.tiles)
    together = plan.tiling.ctas  # the first CTA of a pair multiplies for both
    for what, per_tile, each in (("copies", ran.copied, tiles), ("products", ran.products, tiles // together)):
        if len(per_tile) != each:
            return f"{what} of {len(per_tile)} tiles, of {each}"
    places = set(ran.places.values())
    if places and places != set(itertools.product(*map(range, plan.launch.tiles))):
        return f"{len(places)} places of tiles, of {tiles}"
    for tile, copies in ran.copied.items():
        channels = {k for _, _, k in copies}
        for k in channels:
            of_k = Counter({(c, tap): times for (c, tap, at), times in copies.items() if at == k})
            if of_k.keys() != filters or len(set(of_k.values())) > 1:
                return f"tile {tile} copies filter tiles {sorted(of_k.items())} of channels from {k} on"
    for tile, found in ran.products.items():
        products = found
        if plan.launch.parts > 1:  # each part counts steps of its own
            products = Counter[tuple[int, ...]]()
            for (*loops, _), times in found.items():
                products[tuple(loops)] += times
        if sum(products.values()) % (taps * blocks) or len(set(products.values())) > 1:
            return f"tile {tile} has {sum(products.values())} products, of {taps} taps and {blocks} blocks"
    if any(len(stages) > 1 for stages in ran.known):
        return "a stage that the text knows is another one the next time"
    return ""
