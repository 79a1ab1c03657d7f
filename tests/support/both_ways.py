"""Run a kernel both ways, eager and lazy (`convc.machine.RunOptions.evaluation`), and demand that nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from convc.errors import ConvcError
from convc.ir.launch import LaunchSpec
from convc.machine import RunOptions, RunResult, run
from convc.machine.base.switches import Switches
from convc.sanitizer.run import check_kernel

Outcome = RunResult | ConvcError

DEFAULTS = Switches()


def outcome(
    work: Callable[[RunOptions], RunResult], evaluation: str, switches: Switches = DEFAULTS, policy: str = "eager"
) -> Outcome:
    """The result of a run, or the error that ended it."""
    try:
        return work(RunOptions(evaluation=evaluation, switches=switches, policy=policy))
    except ConvcError as error:
        return error


def same(eager: Outcome, lazy: Outcome) -> None:
    """Demand equal bytes in every buffer, counters and findings; or the same fault at the same place."""
    if isinstance(eager, ConvcError) or isinstance(lazy, ConvcError):
        assert type(eager) is type(lazy), (eager, lazy)
        assert vars(eager) | {"args": eager.args} == vars(lazy) | {"args": lazy.args}
        return
    assert eager.findings == lazy.findings
    assert eager.counters == lazy.counters
    for name, array in eager.buffers.items():
        other = lazy.buffers[name]
        if not np.array_equal(array.view(np.uint8), other.view(np.uint8)):  # the sign and payload of a NaN may differ
            assert array.dtype.kind not in "iu", name
            np.testing.assert_array_equal(array.astype(np.float64), other.astype(np.float64), name)


def run_both_ways(
    text: str,
    launch: LaunchSpec,
    inputs: Mapping[str, np.ndarray],
    switches: Switches = DEFAULTS,
    policy: str = "eager",
) -> Outcome:
    """Run both ways, compare, and return what the lazy run gave; ``policy``: when asynchronous work is performed."""

    def work(options: RunOptions) -> RunResult:
        return run(text, launch, inputs, options=options)

    lazy = outcome(work, "lazy", switches, policy)
    same(outcome(work, "eager", switches, policy), lazy)
    return lazy


def check_both_ways(text: str, launch: LaunchSpec, inputs: Mapping[str, np.ndarray]) -> None:
    """Check both ways, every checker watching, and demand the same findings, and buffers and counters."""
    eager, lazy = (check_kernel(text, launch, inputs, options=RunOptions(evaluation=how)) for how in ("eager", "lazy"))
    assert eager.findings == lazy.findings
    assert (eager.result is None) == (lazy.result is None)
    if eager.result is not None and lazy.result is not None:
        same(eager.result, lazy.result)
