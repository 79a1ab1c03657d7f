"""Rewrites of loop nests out of order and with false parameters: none that changes a sum is taken.

A case is a chain of rewrites as a schedule has it, with some left out, said twice, exchanged, put elsewhere, or told
something else. Rewrites that `convc.derive` refuses are left out. The nest that comes of the others is run with small
numbers that meet its conditions, and must add up the products of the definition.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.subjects import Case

from convc.derive import symbols as z
from convc.derive.nests import Loop, Nest, definition
from convc.derive.reuse import hoist, mask, rows_inside, rows_masked, shift, zeroed
from convc.derive.rewrites import (
    accumulate,
    flatten,
    interchange,
    lengthen,
    one_group,
    split,
    stage,
    swap,
    tile,
    tile_windows,
)
from convc.derive.run import broken, difference
from convc.derive.symbols import FloorDiv
from convc.derive.theorem import Refused, below

SIZES = (
    "N",
    "C",
    "K",
    "R",
    "S",
    "P",
    "Q",
    "T",
    "Y",
    "BM",
    "BN",
    "BK",
    "BLOCKS",
    "TILES",
    "TILES_M",
    "TILES_N",
    "u",
    "d",
)
AXES = (
    "n",
    "p",
    "q",
    "k",
    "c",
    "r",
    "s",
    "m",
    "t",
    "tile_m",
    "lane",
    "tile_n",
    "column",
    "block",
    "e",
    "tap",
    "buffer",
)
DRAWS = 80
"""How often numbers are drawn that might meet the conditions."""


def symbol(name: str):
    """A size or an axis."""
    return getattr(z, name)


def loop(axis: str, extent: str) -> Loop:
    return Loop(axis=symbol(axis), extent=symbol(extent))


REWRITES: dict[str, Callable[..., Nest]] = {
    "interchange": lambda nest, *order: interchange(nest, tuple(map(symbol, order))),
    "flatten": lambda nest, digits, into, periods: flatten(
        nest, tuple(map(symbol, digits)), symbol(into), tuple(map(symbol, periods))
    ),
    "tile": lambda nest, old, outer, many, inner, by: tile(nest, symbol(old), loop(outer, many), loop(inner, by)),
    "windows": lambda nest, old, outer, many, inner, by: tile_windows(
        nest, symbol(old), loop(outer, many), loop(inner, by)
    ),
    "split": lambda nest, old, slow, many, fast, few, cycle: split(
        nest, symbol(old), loop(slow, many), loop(fast, few), symbol(cycle)
    ),
    "lengthen": lambda nest, axis, extent, digit, end: lengthen(
        nest, symbol(axis), symbol(extent), [below(FloorDiv(symbol(axis), symbol(digit)), symbol(end))]
    ),
    "one_group": one_group,
    "accumulate": lambda nest, inside: accumulate(nest, symbol(inside)),
    "stage": lambda nest, inside: stage(nest, symbol(inside)),
    "hoist": hoist,
    "mask": mask,
    "zeroed": zeroed,
    "rows_masked": rows_masked,
    "rows_inside": rows_inside,
    "shift": lambda nest, overlapping: shift(nest, overlapping=overlapping == "windows"),
    "swap": swap,
}

CHANNELS = [
    ["tile", "k", "tile_n", "TILES_N", "column", "BN"],
    ["tile", "c", "block", "BLOCKS", "e", "BK"],
    ["one_group"],
]
INNER = ("r", "block", "s", "lane", "column", "e")
COLUMNS = ["split", "s", "tap", "TAPS", "buffer", "BUFFERS", "u"]


def chain(rng: random.Random) -> list[list]:
    """The rewrites of a schedule, in order."""
    form = rng.choice(("reload", "outer", "outer", "merged", "merged"))
    if form == "reload":
        order = ("tile_m", "tile_n", "r", "s", "block", "lane", "column", "e")
        return [
            ["flatten", ["n", "p", "q"], "m", ["P", "Q"]],
            ["tile", "m", "tile_m", "TILES_M", "lane", "BM"],
            *CHANNELS,
            ["interchange", *order],
            ["accumulate", "tile_n"],
            ["stage", "block"],
        ]
    lanes = rng.choice(("tile", "windows"))
    if form == "outer":
        found = [
            ["interchange", "p", "n", "q", "k", "c", "r", "s"],
            ["flatten", ["n", "q"], "t", ["T"]],
            [lanes, "t", "tile", "TILES", "lane", "BM"],
            *CHANNELS,
            ["interchange", "p", "tile", "tile_n", *INNER],
            ["flatten", ["p", "tile"], "tile_m", ["TILES"]],
            ["lengthen", "tile_m", "TILES_M", "TILES", "P"],
        ]
    else:
        found = [
            ["flatten", ["n", "p", "q"], "t", ["Y", "T"]],
            [lanes, "t", "tile_m", "TILES", "lane", "BM"],
            *CHANNELS,
            ["interchange", "tile_m", "tile_n", *INNER],
        ]
    found += [["accumulate", "tile_n"], ["stage", "s"], COLUMNS, ["hoist", form]]
    found.append([rng.choice(("mask", "zeroed"))])
    if form == "merged":
        found.append([rng.choice(("rows_masked", "rows_inside"))])
    end = rng.choice((None, ["swap"], ["shift", lanes]))
    return found if end is None else [*found, end]


def changed(rng: random.Random, steps: list[list]) -> list[list]:
    """The same with a change."""
    steps = [list(step) for step in steps]
    at = rng.randrange(len(steps))
    match rng.choice(("leave out", "twice", "exchange", "elsewhere", "false", "false", "false", "other")):
        case "leave out":
            del steps[at]
        case "twice":
            steps.insert(rng.randrange(len(steps) + 1), list(steps[at]))
        case "exchange":
            other = rng.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        case "elsewhere":
            steps.insert(rng.randrange(len(steps)), steps.pop(at))
        case "other":
            steps.insert(at, rng.choice(chain(rng)))
        case "false":
            steps[at] = [steps[at][0], *(false(rng, each) for each in steps[at][1:])]
            if steps[at][0] == "interchange" and rng.random() < 0.7:
                order = sorted({*steps[at][1:]})
                rng.shuffle(order)
                steps[at][1:] = order
    return steps or chain(rng)


def false(rng: random.Random, parameter):
    """Another parameter, now and then."""
    if isinstance(parameter, list):
        return [false(rng, each) for each in parameter]
    if rng.random() < 0.6:
        return parameter
    if parameter in ("outer", "merged", "boxed"):
        return rng.choice(("outer", "merged", "boxed"))
    if parameter == "windows":
        return "tile"
    return rng.choice(AXES if parameter in AXES else SIZES)


def numbers(rng: random.Random) -> dict[str, int]:
    """Small numbers of a problem, and of a cut that may serve it."""
    u, d = rng.choice([(1, 1), (1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (2, 3)])
    groups = rng.choice((1, 1, 2))
    own = rng.randint(1, 2)
    at = {name: rng.randint(1, most) for name, most in {"N": 2, "C": 2, "R": 2, "S": 4, "P": 3, "Q": 4}.items()}
    at |= {"u": u, "d": d, "g": rng.choice((1, 1, 2)), "u_h": rng.randint(1, 2), "d_h": rng.randint(1, 2)}
    at |= {"H": rng.randint(1, 6), "W": rng.randint(1, 7), "pad_h": rng.randint(0, 2), "pad_w": rng.randint(0, 3)}
    at |= {"K_g": own, "K": own * groups, "C_PITCH": at["C"] + rng.randint(0, 1), "K_PITCH": own * groups, "ELEMENT": 2}
    at |= {"BM": rng.randint(1, 6), "BN": rng.choice((1, own)), "BK": rng.randint(1, 2), "BUFFERS": min(u, at["S"])}
    taps = at["TAPS"] = -(-at["S"] // u)
    halo = at["HALO"] = (taps - 1) * d
    lead = at["lead"] = rng.choice((0, 0, 1, 2))
    at["T"] = max(1, at["Q"] + rng.choice((0, halo, halo, halo - lead, 1)))
    if rng.random() < 0.7:  # images that keep step
        at["Y"] = at["P"] + rng.randint(0, 1)
        at["H"] = at["Y"] * at["u_h"]
    else:
        at["Y"] = at["P"] + rng.randint(-1, 1) or 1
    at |= {"WINDOW": halo + rng.randint(1, 3), "WINDOWS": rng.randint(1, 2)}
    at["USEFUL"] = max(1, at["WINDOW"] - halo)
    if rng.random() < 0.6:
        at["BM"] = at["WINDOW"] * at["WINDOWS"]
    each = min(at["BM"], at["USEFUL"] * at["WINDOWS"])
    at["TILES"] = -(-at["N"] * at["Y"] * at["T"] // each) + rng.choice((0, 0, 1, -1)) or 1
    at["TILES_M"] = max(at["TILES"] * at["P"], -(-at["N"] * at["P"] * at["Q"] // at["BM"])) + rng.randint(0, 1)
    at["TILES_N"] = -(-at["K"] // at["BN"]) + rng.choice((0, 0, 1, -1)) or 1
    at["GROUP_TILES"] = max(1, own // at["BN"])
    at["BLOCKS"] = -(-at["C"] // at["BK"]) + rng.choice((0, 0, 1, -1)) or 1
    return at


class Rewrites:
    """Chains of rewrites."""

    def __init__(self) -> None:
        self._known: dict[str, Nest | None] = {}
        self.taken = 0
        """Cases whose nest was run."""

    def case(self, rng: random.Random) -> Case:
        """A chain with some changes, and a seed for numbers."""
        steps = chain(rng)
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            steps = changed(rng, steps)
        return {"steps": steps, "seed": rng.randrange(1 << 30)}

    def check(self, case: Case) -> None:
        """Run what comes of it."""
        nest = self.nest(case["steps"])
        if nest.owes:
            return  # it says itself that it is none yet
        rng = random.Random(case["seed"])
        for _ in range(DRAWS):
            sizes = numbers(rng)
            if next(broken(nest, sizes), None) is None:
                self.taken += 1
                said = difference(nest, sizes)
                assert not said, f"{said}: {[step.name for step in nest.steps]} with {sizes}"
                return

    def nest(self, steps: list[list]) -> Nest:
        """The nest after those of the steps that are taken."""
        nest = definition()
        done = ""
        for step in steps:
            done += json.dumps(step)
            if done not in self._known:
                self._known[done] = _taken(nest, step)
                if len(self._known) > 4000:
                    self._known.clear()
            nest = self._known.get(done) or nest
        return nest

    def smaller(self, case: Case) -> Iterator[Case]:
        """Chains without one of the rewrites."""
        for at in range(len(case["steps"])):
            yield {**case, "steps": case["steps"][:at] + case["steps"][at + 1 :]}

    def write(self, case: Case, folder: Path) -> None:
        """Write the chain, and the nest that comes of it."""
        (folder / "case.json").write_text(json.dumps(case, indent=1))
        steps = self.nest(case["steps"]).steps
        (folder / "taken.txt").write_text("".join(f"{step.name}\n" for step in steps))


def _taken(nest: Nest, step: list) -> Nest | None:
    """The nest after a rewrite; None where it is refused."""
    name, *told = step
    try:
        return REWRITES[name](nest, *told)
    except Refused:
        return None
