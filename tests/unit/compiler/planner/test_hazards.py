"""What no public source settles is left alone: rules that are assumed, and collectors that CTAs of an SM share."""

from __future__ import annotations

import pytest

from convc.compiler.options import ScheduleOptions
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import STATIONARY, schedule_of
from convc.host_layout.device_layout import device_layout
from convc.ir.problem import ConvProblem


def same(batch: int, channels: int, filters: int, extent: int, kernel: tuple[int, int]) -> ConvProblem:
    """A convolution whose output has the extent of its input."""
    pad = (kernel[0] // 2, kernel[1] // 2)
    return ConvProblem(
        batch=batch,
        in_channels=channels,
        out_channels=filters,
        in_extent=(extent, extent),
        kernel=kernel,
        pad_lo=pad,
        pad_hi=pad,
    )


@pytest.mark.parametrize(
    "problem", [same(1, 32, 512, 112, (7, 7)), same(4, 512, 128, 112, (1, 9))], ids=lambda problem: problem.describe()
)
def test_no_schedule_that_rests_on_assumed_rules_is_estimated_fastest(problem):
    """With several CTAs on an SM ``stationary`` would be, by 9 and 5 percent."""
    found = plan(device_layout(problem))
    legal = [(choice.cycles, schedule_of(choice.schedule).assumed) for choice in found.choices if choice.tiling]
    assert min(cycles for cycles, assumed in legal if assumed) > min(legal)[0]
    assert not schedule_of(found.schedule).assumed


@pytest.mark.parametrize("persistent", ["on", "off"])
@pytest.mark.parametrize("problem", [same(32, 64, 128, 56, (3, 3)), same(8, 16, 128, 112, (3, 3))], ids=["64", "16"])
def test_a_kernel_that_keeps_pixels_in_the_tensor_core_has_its_sm_for_itself(problem, persistent):
    found = plan(device_layout(problem), options=ScheduleOptions(schedule=STATIONARY.name, persistent=persistent))
    rates = found.arch.rates
    assert found.estimate.beside == 1
    assert 2 * (found.storage.smem_bytes + 1024) > rates.sm_shared_bytes
