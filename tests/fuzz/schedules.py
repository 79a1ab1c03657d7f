"""Random problems with random choices about the schedule; three oracles say whether a result is right.

Every choice of `convc.ScheduleOptions` with a list of values takes part, so that one which is added later does too.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

from fuzz.convolutions import ASSEMBLED, OF_OURS, assembled, unseen
from fuzz.subjects import Case
from support.oracles import oracles_agree

from convc.api.choices import schedule_choices
from convc.auditor.run import audit_kernel
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from convc.ir.epilogue import AddResidual, Relu
from convc.ir.problem import ConvProblem

OPERANDS = ("f16",) * 4 + ("bf16", "tf32", "e4m3", "s8")
WHOLE = ("s8",)
"""Operands whose sums are whole numbers, which have no epilogue."""

DRAWN = (1, 1, 2, 2, 3, 4)
"""How many choices are made in place of the planner."""

OTHER_TARGET = 0.3
"""How often the target is drawn as well."""

NEEDS = {"tile_scheduler": ("persistent", "on"), "shift": ("schedule", "shift"), "filters": ("schedule", "slide")}
"""What a choice is refused without, and comes before it, unless that is drawn otherwise."""

CTAS = ("auto", "auto", 1, 2, 3)
"""Persistent CTAs, where any do; auto: one an SM, each of which has one tile of so few."""


class Schedules:
    """Convolutions of a few tiles, compiled with choices that the planner would not always make."""

    most_work = 12_000_000
    """Multiply-adds of a case: enough for several tiles, and for a K loop that several CTAs share."""

    batches = (1, 1, 2, 3, 5)
    most_extent = 24
    """Most pixels of an output's row or column, of steps of one and without padding."""

    def case(self, rng: random.Random) -> Case:
        """A problem that is not too large, and choices."""
        while True:
            case = self._case(rng)
            work = case["batch"] * case["inputs"] * case["outputs"] // case["group"]
            if work * math.prod(case["kernel"]) * math.prod(case["extent"]) <= self.most_work:
                return case

    def _case(self, rng: random.Random) -> Case:
        kernel = [rng.choice((1, 1, 2, 3, 3, 5)) for _ in range(2)]
        dilation = [rng.choice((1, 1, 1, 2)) for _ in range(2)]
        group = rng.choice((1, 1, 1, 1, 2))
        operand = rng.choice(OPERANDS)
        return {
            "batch": rng.choice(self.batches),
            "inputs": group * rng.choice((3, 8, 16, 40, 64, 96, 128, 256)),
            "outputs": group * rng.choice((5, 8, 16, 24, 48, 64, 96, 160)),
            "group": group,
            "kernel": kernel,
            "dilation": dilation,
            "stride": [rng.choice((1, 1, 1, 2)) for _ in range(2)],
            "pads": [rng.randint(0, 2) for _ in range(4)],
            "extent": [(k - 1) * d + rng.randint(1, self.most_extent) for k, d in zip(kernel, dilation, strict=True)],
            "operand": operand,
            "bias": rng.random() < 0.5,
            "residual": operand not in WHOLE and rng.random() < 0.3,
            "relu": operand not in WHOLE and rng.random() < 0.3,
            "options": self._options(rng),
            "seed": rng.randrange(1 << 32),
        }

    def _options(self, rng: random.Random) -> dict[str, str | int]:
        """Choices, of which the last is the first to go where they cannot be had together: the target last of all."""
        left_open = ("auto", "estimate")
        choices = {name: [one for one in values if one not in left_open] for name, values in schedule_choices().items()}
        targets = choices.pop("target")
        chosen: dict[str, str | int] = {"target": rng.choice(targets)} if rng.random() < OTHER_TARGET else {}
        for name in rng.sample(sorted(choices), rng.choice(DRAWN)):
            if name in NEEDS:
                chosen.setdefault(*NEEDS[name])
            chosen.setdefault(name, rng.choice(choices[name]))
        ctas = rng.choice(CTAS)
        return chosen | ({"ctas": ctas} if ctas != "auto" and chosen.get("persistent") == "on" else {})

    def problem(self, case: Case) -> ConvProblem:
        """The case as a problem."""
        steps = [AddResidual()] * case["residual"] + [Relu()] * case["relu"]
        return ConvProblem(
            batch=case["batch"],
            in_channels=case["inputs"],
            out_channels=case["outputs"],
            in_extent=tuple(case["extent"]),
            kernel=tuple(case["kernel"]),
            stride=tuple(case["stride"]),
            dilation=tuple(case["dilation"]),
            pad_lo=tuple(case["pads"][:2]),
            pad_hi=tuple(case["pads"][2:]),
            groups=case["group"],
            operand=case["operand"],
            out={"s8": "s32", "tf32": "f32"}.get(case["operand"], "f16"),
            bias=case["bias"],
            epilogue=tuple(steps),
        )

    def check(self, case: Case) -> None:
        """Let the oracles agree on the first kernel that can be had, with fewer and fewer of the choices.

        A choice that is refused is refused with an error of ours, or it is a finding.
        """
        problem = self.problem(case)
        chosen = dict(case["options"])
        while True:
            try:
                self.agree(problem, case["seed"], ScheduleOptions(**chosen))
            except (InputError, PlanError):
                if not chosen:
                    raise
                chosen.popitem()
            except OF_OURS as wrong:
                raise AssertionError(str(wrong)) from wrong
            else:
                return

    def agree(self, problem: ConvProblem, seed: int, options: ScheduleOptions) -> None:
        """Let the oracles agree on the kernel of these choices; an error of ours where there is none.

        The auditor has nothing to say of it, and follows all of it.
        """
        made = oracles_agree(problem, seed, unseen if seed % ASSEMBLED else assembled, options).artifact
        audited = audit_kernel(made.ptx, made.launch)
        said = [*map(str, audited.findings), *map(str, audited.unclear)]
        assert not said, said

    def smaller(self, case: Case) -> Iterator[Case]:
        """The same with less of one thing."""
        for name in case["options"]:
            yield case | {"options": {other: value for other, value in case["options"].items() if other != name}}
        for name, least in (("residual", False), ("relu", False), ("bias", False), ("batch", 1), ("group", 1)):
            if case[name] != least:
                yield case | {name: least}
        for name in ("inputs", "outputs"):
            half = case[name] // 2 // case["group"] * case["group"]
            if half:
                yield case | {name: half}
        for name, least in (("pads", 0), ("stride", 1), ("dilation", 1), ("kernel", 1), ("extent", 1)):
            for i, value in enumerate(case[name]):
                for less in (least, value // 2):
                    if least <= less < value:
                        yield case | {name: [*case[name][:i], less, *case[name][i + 1 :]]}

    def write(self, case: Case, folder: Path) -> None:
        """The numbers that make the case."""
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n", encoding="ascii")
