"""Damaged PTX: tokens, numbers, lines, truncations. The answer must be a run or an error of convc's own."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fuzz.limits import Endless, within
from fuzz.subjects import Case

from convc import ptx
from convc.ir.launch import LaunchSpec, load_launch
from convc.machine import RunOptions, run

TESTS = Path(__file__).parents[1]
TOKEN = re.compile(r"[\w$%.:]+|\s+|[^\w\s]")
SNIPPETS = (
    "0", "-1", "1", "7", "0xFFFFFFFF", "4294967296", "9" * 30, "0f7F800000", "%r1", "%rd1", "%p1", "{", "}", "[", "]",
    ";", ",", "@", "!", "bra", "ret", ".shared", ".global", ".reg .b32 %z<9>;", ".local .b8 q[999999999999];",
    "bar.sync 0;",
    "mbarrier.init.shared::cta.b64 [0], 1;", "exit;", "trap;", ".b64", ".f16", "%tid.x", "%ctaid.x", "_",
)  # fmt: skip
RUN_S = 6
"""Seconds after which a run is left: a damaged kernel may well be endless."""

READ_S = 20
"""Seconds after which reading a text is a finding."""


@cache
def sources() -> dict[str, str]:
    """Kernels with their launch files, and texts that are read alone."""
    folders = sorted(path.parent for path in TESTS.glob("foreign/*/kernel.ptx"))
    found = {str(folder.relative_to(TESTS)): (folder / "kernel.ptx").read_text(encoding="utf-8") for folder in folders}
    found |= {
        str(path.relative_to(TESTS)): path.read_text(encoding="utf-8") for path in sorted(TESTS.glob("golden/*/*.ptx"))
    }
    return {name: text for name, text in found.items() if len(text) < 60_000}


class Texts:
    """Texts of kernels with a few changes each."""

    def case(self, rng: random.Random) -> Case:
        """A source and its changes."""
        source = rng.choice(sorted(sources()))
        edits = [self._edit(rng) for _ in range(rng.choice((1, 1, 1, 2, 3, 6)))]
        return {"source": source, "edits": edits}

    def _edit(self, rng: random.Random) -> list:
        """[what, where (0 to 1), other place (0 to 1), text]."""
        what = rng.choice(("token", "number", "delete", "swap", "line", "lines", "drop", "insert", "cut"))
        return [what, rng.random(), rng.random(), rng.choice(SNIPPETS)]

    def text(self, case: Case) -> str:
        """The text with its changes."""
        text = sources()[case["source"]]
        for what, where, other, snippet in case["edits"]:
            text = changed(text, what, where, other, snippet)
        return text

    def check(self, case: Case) -> None:
        """Read it, and run one cluster of it."""
        text = self.text(case)
        with within(READ_S):
            ptx.parse(text)
        launch = self._launch(case)
        if launch is None:
            return
        cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        try:
            with within(RUN_S):
                run(text, launch, {}, options=RunOptions(ctas=(0, cluster), memory_bytes=1 << 30))
        except Endless:
            return

    def _launch(self, case: Case) -> LaunchSpec | None:
        path = TESTS / case["source"] / "launch.json"
        if not path.is_file():
            return None
        return load_launch(path)

    def smaller(self, case: Case) -> Iterator[Case]:
        """The same without one of its changes."""
        edits = case["edits"]
        for i in range(len(edits)):
            if len(edits) > 1:
                yield case | {"edits": edits[:i] + edits[i + 1 :]}

    def write(self, case: Case, folder: Path) -> None:
        """The text, its launch, and what was changed."""
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n", encoding="ascii")
        (folder / "kernel.ptx").write_text(self.text(case), encoding="utf-8")
        launch = TESTS / case["source"] / "launch.json"
        if launch.is_file():
            (folder / "launch.json").write_text(launch.read_text(encoding="utf-8"), encoding="utf-8")


def changed(text: str, what: str, where: float, other: float, snippet: str) -> str:
    """A text with one change."""
    if what == "cut":
        return text[: int(where * len(text))]
    if what in ("line", "lines", "drop"):
        lines = text.splitlines(keepends=True) or [""]
        at = int(where * len(lines))
        to = int(other * len(lines))
        if what == "drop":
            return "".join(lines[:at] + lines[at + 1 :])
        if what == "line":
            return "".join([*lines[:to], lines[at], *lines[to:]])
        lines[at], lines[to] = lines[to], lines[at]
        return "".join(lines)
    tokens = TOKEN.findall(text) or [""]
    if what == "number":
        places = [i for i, token in enumerate(tokens) if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", token)] or [0]
        tokens[places[int(where * len(places))]] = snippet
        return "".join(tokens)
    places = [i for i, token in enumerate(tokens) if not token.isspace()] or [0]
    at = places[int(where * len(places))]
    to = places[int(other * len(places))]
    match what:
        case "token":
            tokens[at] = tokens[to]
        case "delete":
            tokens[at] = ""
        case "swap":
            tokens[at], tokens[to] = tokens[to], tokens[at]
        case "insert":
            tokens[at] = f"{snippet} {tokens[at]}"
    return "".join(tokens)
