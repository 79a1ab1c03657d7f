"""Settings of a chip side by side, with what each makes of the times: for people, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from convc.report.console import print_heading
from convc.report.grid import Column, Row, print_grid
from convc.timing.what_if import WhatIf, WhatIfSetting

if TYPE_CHECKING:
    from convc.report.schemas import WhatIfJson

NUMBERS = {
    "tensor_memory.shift": "tcgen05.shift, cycles",
    "tensor_memory.ashift": ".ashift adds, cycles",
    "tensor_memory.conflict": "16x256b loads, factor",
}
"""What the parameters that a choice sets are called in its table."""


def print_what_if(console: Console, answer: WhatIf) -> None:
    """A table with a column for each setting, and a line for each number and each kernel."""
    print_heading(console, f"what if {answer.name}")
    columns = [Column("", "left", name=True), *(Column(_heading(one, answer), "right") for one in answer.settings)]
    rows: list[Row] = []
    if not answer.unit:
        rows += [
            Row((NUMBERS.get(name, name), *(f"{one.numbers[name]:g}" for one in answer.settings)))
            for name in answer.settings[0].numbers
        ]
    for at, time in enumerate(answer.settings[0].times):
        called = f"{time.schedule}, us" if answer.schedules else f"{time.layer}, us"
        rows.append(Row((called, *(_microseconds(one, at, answer.schedules) for one in answer.settings))))
    print_grid(console, columns, rows)
    if answer.schedules:
        planned = answer.settings[0].times[0]
        console.print(f"* the fastest legal schedule of {planned.layer}; planned is {planned.schedule}", soft_wrap=True)


def _heading(one: WhatIfSetting, answer: WhatIf) -> str:
    """A setting of a choice, or which end of a range it is, with the number."""
    return f"{one.setting} {one.numbers[answer.name]:g} {answer.unit}" if answer.unit else one.setting


def _microseconds(one: WhatIfSetting, at: int, marks: bool) -> str:
    time = one.times[at]
    mark = "* " if marks and time.cycles == one.fastest.cycles else ""
    return f"{mark}{time.microseconds:.2f}"


def what_ifs_json(answers: Sequence[WhatIf]) -> list[WhatIfJson]:
    """Answers as plain data."""
    return [
        {
            "name": answer.name,
            "unit": answer.unit or None,
            "settings": [
                {
                    "setting": one.setting,
                    "numbers": dict(one.numbers),
                    "times": [
                        {
                            "layer": time.layer,
                            "schedule": time.schedule or None,
                            "planned": time.planned,
                            "fastest": answer.schedules and time.cycles == one.fastest.cycles,
                            "cycles": time.cycles,
                            "microseconds": time.microseconds,
                        }
                        for time in one.times
                    ],
                }
                for one in answer.settings
            ],
        }
        for answer in answers
    ]
