"""Break one thing in a kernel and demand that somebody notices: a checker, the simulator, or a wrong result.

Every synchronising instruction is left out, and every number in the text of a role is moved by one step (see
`sabotage_changes`). Changes that survive are listed with the reason why they are harmless (`sabotage_excuses`), and
must stay few: 2 percent of those of our kernels. `make slow` tries them all, `make test` a sample of those of a
few kernels that have no excuse: more of what is left out than of what is moved. Each test prints its own table
(``pytest -rP``). When there were 84 kernels, all together had 35993 changes, not counting those that make another
kernel which does the same:

| left out | noticed | moved | noticed |
| --- | --- | --- | --- |
| waits | 512 of 535 | byte counts | all 232 |
| commits | 221 of 227 | arrival counts | all 1763 |
| fences | 342 of 653 | phases | all 1720 |
| proxy fences | 34 of 40 | masks | all 1883 |
| expect_tx | all 116 | descriptors | all 6752 |
| arrivals | all 82 | tensor-memory columns | all 1835 |
| barriers | 1224 of 1247 | other numbers | 17859 of 17881 |
| allocations | 145 of 218 | | |
| copies, MMAs, loads | all 809 | | |

What survives in a kernel of ours are tcgen05 fences and the relinquish_alloc_permit, which order nothing there; where
activations are shared, waits of the role that loads for stages that are free in any case; and in kernels for Hopper
barriers and commits beside others that do as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, zip_longest
from typing import Any

import pytest
from jinja2 import nodes
from sabotage_caught import caught
from sabotage_changes import LEFT_OUT, MOVED, PROVED_STEPS, Change, Sabotage
from sabotage_excuses import EXCUSES, Excuse, excuse
from sabotage_kernels import ALL, CHOSEN, FILLED, KERNELS, SLOW, TESTS, conv, subject

from convc.compiler.emit.render import environment
from convc.support.resources import make_models, template_folder

PARTS = 6
"""Into which the changes of a kernel are dealt: each part takes less than a minute."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", ALL)
def test_one_change_is_noticed(name, part):
    judge(name, islice(changes_of(name), part, None, PARTS))


@pytest.mark.slow
def test_few_changes_have_an_excuse():
    """So few that 98 percent are noticed, as all others are: of all kernels of ours, and 96 of each."""
    total, excused = Counter(), Counter()
    for name in (each for each in ALL if subject(each).ours):
        for change in changes_of(name):
            reason = excuse(change.what, subject(name).text)
            total[name] += 1
            excused[name] += reason is not None and not reason.same
        assert total[name] >= 200
        assert excused[name] <= 0.04 * total[name], name
    assert excused.total() <= 0.02 * total.total()


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("turn", "name"), list(enumerate(KERNELS)), ids=list(KERNELS))
def test_a_twelfth_of_what_is_left_out_is_noticed_and_one_moved_number_in_72(turn, name):
    """In turns, so that what all kernels have is left out of some of them.

    What has an excuse is not tried: it may go unnoticed, and takes all checkers to go so.
    """
    kernel = subject(name)
    changes = [c for c in changes_of(name) if excuse(c.what, kernel.text) is None]
    left_out = [change for change in changes if change.category in LEFT_OUT]
    moved = [change for change in changes if change.category in MOVED]
    judge(name, left_out[turn % 12 :: 12] + moved[turn % 72 :: 72])


def changes_of(name: str) -> Iterator[Change]:
    """All changes of a kernel."""
    return Sabotage(subject(name).text, subject(name).ours).changes()


def judge(name: str, changes: Iterable[Change]) -> tuple[int, int]:
    """Demand that all changes of a kernel but those with an excuse are noticed; how many there were, and were."""
    kernel = subject(name)
    total, noticed, unknown = Counter(), Counter(), []
    for change in changes:
        seen = caught(name, change.text)
        reason = None if seen else excuse(change.what, kernel.text)
        if reason is not None and reason.same:
            continue
        total[change.category] += 1
        noticed[change.category] += seen
        if not seen and reason is None:
            unknown.append(f"{change.category}: {change.what}")
    print(name, *(f"{category} {noticed[category]}/{total[category]}" for category in total), sep="\n  ")
    assert not unknown, "\n".join(unknown)
    return total.total(), noticed.total()


# ---- is everything among the changes? ----------------------------------------------------------------------------

OPCODES = {
    "wait": r"mbarrier\.(try|test)_wait|tcgen05\.wait|wgmma\.wait|cp\.async\.\S*wait|barrier\.cluster\.wait",
    "commit": r"tcgen05\.commit|wgmma\.commit|cp\.async\.\S*commit",
    "fence": r"fence\.(acq_rel|sc|mbarrier_init)|(tcgen05|wgmma)\.fence",
    "proxy fence": r"fence\.proxy",
    "expect_tx": r"mbarrier\.\S*expect_tx",
    "arrival": r"mbarrier\.arrive(?!\.expect)|barrier\.cluster\.arrive",
    "barrier": r"(bar|barrier\.cta)\.sync|bar\.warp\.sync|mbarrier\.init",
    "byte count": r"expect_tx",
    "arrival count": r"mbarrier\.init|bar\.sync",
    "phase": r"wait\.parity",
    "mask": r"elect\.sync|bar\.warp\.sync|\.multicast::cluster",
    "descriptor": r"tcgen05\.(mma|cp)",
    "column": r"tcgen05\.(alloc|dealloc)",
}
"""What of each category a text has, found by its words; of the last ones each must have numbers that are moved."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ALL)
def test_every_category_is_among_the_changes(name):
    kernel = subject(name)
    code = re.sub(r"//[^\n]*", "", kernel.text)
    made = Counter(change.category for change in changes_of(name))
    for category, pattern in OPCODES.items():
        there = len(re.findall(rf"(?<![\w.]){pattern}", code))
        assert made[category] >= (there if category in LEFT_OUT else min(there, 2)), (category, there)
    assert set(made) <= {*LEFT_OUT, *MOVED}
    if kernel.ours:
        missing = {"arrival", "proxy fence"}  # arrivals come from engines; no ordinary store is read by one
        missing |= set() if "tcgen05" in code else {"column", "descriptor"}  # those of wgmma are sums in registers
        assert set(OPCODES) - set(made) <= missing


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXCUSES)))
def test_every_excuse_is_needed(number):
    """It is the reason for a change that survives; none is left of kernels that are made no more."""
    reason = EXCUSES[number]
    assert any(not caught(name, change_of(name, place)) for name, place in last_first(reason)), reason


def last_first(reason: Excuse) -> Iterator[tuple[str, int]]:
    """Changes of which this is the reason if they survive: the last one of each kernel, then those before them."""
    found = ([(name, number) for number, each in reversed(reasons(name)) if each == reason] for name in CHOSEN | ALL)
    return (change for turn in zip_longest(*found) for change in turn if change is not None)


def change_of(name: str, number: int) -> str:
    """The text of a kernel with one of its changes."""
    return next(islice(changes_of(name), number, None)).text


@cache
def reasons(name: str) -> list[tuple[int, Excuse]]:
    """Changes of a kernel by number, and their reasons. All the texts would take gigabytes."""
    found = ((number, excuse(change.what, subject(name).text)) for number, change in enumerate(changes_of(name)))
    return [(number, reason) for number, reason in found if reason is not None]


def test_every_proved_step_is_in_a_kernel():
    left = set(PROVED_STEPS)
    for name in ("stationary", "slide", *ALL):
        left = {step for step in left if not re.search(rf"//@ step={step} ", subject(name).text)}
        if not left:
            return
    assert not left


def test_golden_kernels_and_the_demo_are_among_the_kernels():
    golden = {path.parent.name: schedule_of(path.read_text()) for path in (TESTS / "golden").glob("*/kernel.ptx")}
    layers = {f"demo {layer.name}" for layer in make_models().read_layers("demo")}
    reload = {f"golden {name}" for name, schedule in golden.items() if schedule == "reload"}
    assert reload | layers <= set(SLOW)
    ours = (subject(name) for name in ALL)
    assert set(golden.values()) <= {schedule_of(kernel.text) for kernel in ours if kernel.ours}


def schedule_of(text: str) -> str:
    return re.search(r"^// Schedule ([^;]*);", text, re.MULTILINE)[1]


def test_every_branch_of_every_template_is_taken():
    """Each test of a template comes out both ways, and each loop has a trip, in the kernels that are sabotaged."""
    for name in ALL:
        subject(name)
    for path in sorted(template_folder().rglob("*.ptx.j2")):
        name = path.relative_to(template_folder()).as_posix()
        assert name in FILLED
        tree = environment().parse(path.read_text())
        for branch in tree.find_all(nodes.If):
            taken = {bool(names[branch.test.name]) for names in FILLED[name]}
            assert taken == {True, False}, (name, branch.test.name)
        assert {loop.iter.name for loop in tree.find_all(nodes.For)} == set().union(
            *(trips(tree, n) for n in FILLED[name])
        )


def trips(node: nodes.Node, names: Mapping[str, Any]) -> set[str]:
    """Lists that a template goes through with a trip at least, lists in the entries of lists included."""
    if not isinstance(node, nodes.For):
        return set().union(*(trips(child, names) for child in node.iter_child_nodes()))
    found = set()
    for entry in names[node.iter.name]:
        several = isinstance(node.target, nodes.Tuple)
        targets, values = (node.target.items, entry) if several else ([node.target], [entry])
        inside = {**names, **{target.name: value for target, value in zip(targets, values, strict=True)}}
        found |= {node.iter.name}.union(*(trips(child, inside) for child in node.body))
    return found


def test_a_bias_does_not_change_the_text():
    """So that kernels with and without one need not both be sabotaged: the buffer is read in any case."""
    with_bias, without = (conv(in_channels=8, out_channels=16, bias=bias).text for bias in (True, False))
    assert with_bias.replace(", bias,", ",") == without
