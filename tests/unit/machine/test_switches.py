"""The switches of ordinary instructions change what they say; those of the tensor core are tested with its forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.kernels import execute, module
from support.recorded import assemble_all, recorded

import convc
from convc.errors import InputError
from convc.machine import RunOptions
from convc.machine.base.switches import CHOICES, OPEN, Switches, parse_switches
from convc.machine.tma.reduce import reduction

LANE = np.arange(32, dtype=np.uint32)
TINY = np.float32(2.0**-126)
"""The smallest normal number."""


@pytest.fixture(scope="module", autouse=True)
def every_kernel_is_ptx():
    with recorded() as texts:
        yield
    assemble_all(texts)


def run(body: str, switches: Switches, *, words: int = 32, shared: str = "", start: int = 0) -> np.ndarray:
    """``out`` (uint32) of one warp; ``%at`` is the address of each lane's own word, ``%d`` is stored there last."""
    head = """.reg .b32 %t, %d, %x, %y; .reg .b64 %at; .reg .pred %p;
    mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %p_out; mov.u32 %d, %t;
    """
    text = module(head + body, shared=shared)
    result = execute(text, {"out": np.full(words, start, np.uint32)}, options=RunOptions(switches=switches))
    return result.buffers["out"]


def both(name: str, body: str, **more) -> tuple[np.ndarray, np.ndarray]:
    """What a body stores under the first and under the second setting of a switch."""
    first, second = (run(body, Switches(**{name: setting}), **more) for setting in CHOICES[name])
    return first, second


KEEP = "st.global.u32 [%at], %d;"


def test_the_defaults_come_first():
    assert {name: getattr(Switches(), name) for name in CHOICES} == {name: c[0] for name, c in CHOICES.items()}


@pytest.mark.parametrize("name", CHOICES)
def test_the_page_names_every_setting(name):
    page = (Path(convc.__file__).parent / "docs/fidelity.md").read_text(encoding="utf-8")
    first, *others = CHOICES[name]
    row = next(line for line in page.splitlines() if f"`{name}={first}`" in line)
    assert all(f"`{setting}`" in row or f"`{name}={setting}`" in page for setting in others)


def test_every_other_setting_of_every_open_question():
    others = dict(Switches(elect="highest").others())
    assert len(others) == sum(len(CHOICES[name]) - 1 for name in OPEN)
    assert others["elect=lowest"] == Switches()
    assert others["six_bit=high"] == Switches(elect="highest", six_bit="high")
    assert not any(name.startswith("numerics") for name in others)


def test_switches_of_a_command_line():
    assert parse_switches(("elect=highest", "six_bit=high"), numerics="exact") == Switches(
        elect="highest", six_bit="high", numerics="exact"
    )
    with pytest.raises(InputError, match="there is no switch 'numerics'") as caught:
        parse_switches(("numerics=exact",))
    assert "ashift_then_cp, shift_extent" in str(caught.value)
    with pytest.raises(InputError, match="switch elect must be one of lowest, highest, got 'first'"):
        parse_switches(("elect=first",))


def test_the_elected_lane():
    body = "elect.sync %d|%p, 0xffffffff; @%p add.u32 %d, %d, 100;" + KEEP
    low, high = both("elect", body)
    assert np.array_equal(low, np.where(LANE == 0, 100, 0))
    assert np.array_equal(high, np.where(LANE == 31, 131, 31))
    parted = "mov.u32 %d, 0; and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 1; @!%p bra END; elect.sync %d|%p, 0xaaaaaaaa; END:"
    low, high = both("elect", parted + KEEP)
    assert np.array_equal(low, LANE % 2)
    assert np.array_equal(high, LANE % 2 * 31)


def test_the_side_of_a_branch_that_runs_first():
    body = """setp.lt.u32 %p, %t, 8; @%p bra LOW; st.global.u32 [%p_out], 1; bra END;
    LOW: st.global.u32 [%p_out], 2; END:"""
    target, following = both("divergence", body)
    assert (target[0], following[0]) == (1, 2)


def test_a_lane_that_takes_no_part_in_a_shuffle():
    body = (
        """setp.lt.u32 %p, %t, 8; @!%p bra END; add.u32 %d, %t, 50; shfl.sync.idx.b32 %d, %d, {source}, 31, 0xff;
    END:"""
        + KEEP
    )
    zero, own = both("absent_lane", body.format(source=20))
    assert np.array_equal(own, np.where(LANE < 8, LANE + 50, LANE))
    assert np.array_equal(zero, np.where(LANE < 8, 0, LANE))
    zero, own = both("absent_lane", body.format(source=3))
    assert np.array_equal(own, np.where(LANE < 8, 53, LANE))
    assert np.array_equal(zero, own)


def test_a_uniform_value_shuffled_from_a_lane_that_takes_no_part():
    body = "setp.lt.u32 %p, %t, 8; @!%p bra END; mov.u32 %x, 7; shfl.sync.idx.b32 %d, %x, 20, 31, 0xff; END:" + KEEP
    zero, own = both("absent_lane", body)
    assert (own[0], zero[0]) == (7, 0)


@pytest.mark.parametrize("space", ["global", "shared"])
def test_stores_to_one_place(space):
    body = "st.global.u32 [%p_out], %t;"
    if space == "shared":
        body = "setp.gt.u32 %p, %t, 4; mov.b32 %x, word; @%p st.shared.u32 [%x], %t; ld.shared.u32 %d, [%x];" + KEEP
    low, high = both("colliding_stores", body, shared=".shared .align 4 .b8 word[4];\n")
    assert (high[0], low[0]) == ((31, 0) if space == "global" else (31, 5))


def test_atomics_at_one_place():
    body = "atom.global.exch.b32 %d, [%p_out], %t; add.u64 %at, %at, 4;" + KEEP
    up, down = both("atomic_order", body, words=33, start=99)
    assert up.tolist() == [31, 99, *range(31)]
    assert down.tolist() == [0, *range(1, 32), 99]


def test_reductions_of_several_ctas_at_one_place():
    body = """.reg .b32 %t, %x, %y; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %x, %ctaid.x;
    mov.b32 %y, data; st.shared.v4.u32 [%y], {%x, %x, %x, %x};
    fence.proxy.async.shared::cta; setp.ne.u32 %p, %t, 0; @%p bra END;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u32 [%p_out], [%y], 16;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"""
    text = module(body, shared=".shared .align 16 .b8 data[16];\n")
    results = {}
    for setting in CHOICES["atomic_order"]:
        options = RunOptions(switches=Switches(atomic_order=setting))
        out = execute(text, {"out": np.full(4, 1, np.uint32)}, grid=(3, 1, 1), options=options).buffers["out"]
        results[setting] = out.tolist()
    assert results == {"ascending": [2] * 4, "descending": [0] * 4}  # from 1: 0, 1, 2 with limits 0, 1, 2; 2, 0, 0


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("divisor", ["%x", "0"])
def test_divisions_by_zero(kind, divisor):
    for operation in ("div", "rem"):
        ones, zero = both("divide_by_zero", f"mov.b32 %x, 0; {operation}.{kind} %d, %t, {divisor};" + KEEP)
        assert (ones == 0xFFFFFFFF).all()
        assert not zero.any()
    right = f"mov.b32 %x, 3; div.{kind} %d, %t, %x;" + KEEP
    assert all(np.array_equal(found, LANE // 3) for found in both("divide_by_zero", right))


def test_the_rounding_of_approximations():
    body = "cvt.rn.f32.u32 %x, %t; rcp.approx.f32 %d, %x;" + KEEP
    nearest, zero = (x.view(np.float32) for x in both("approximate", body))
    with np.errstate(divide="ignore"):
        exact = 1 / LANE.astype(np.float64)
    assert np.array_equal(nearest, exact.astype(np.float32))
    assert np.array_equal(np.where(nearest > exact, np.nextafter(nearest, np.float32(0)), nearest), zero)
    assert 5 < (zero != nearest).sum() < 27
    nearest, zero = both("approximate", "mov.b32 %x, 0f43480000; ex2.approx.f32 %d, %x;" + KEEP)
    assert np.isinf(nearest.view(np.float32)).all(), "2^200 overflows"
    assert np.array_equal(nearest, zero)


def test_sums_of_flushing_types():
    old, source = (np.array([x * TINY], np.float32) for x in (1.5, -1.25))
    kept, flushed = (reduction("add", "f32_ftz", setting)[1](old, source)[0] for setting in ("keep", "flush"))
    assert (kept, flushed) == (TINY / 4, 0)
    for setting in CHOICES["ftz_sum"]:
        subnormal = reduction("add", "tf32_ftz", setting)[1](old, np.array([TINY / 2], np.float32))[0]
        assert subnormal == old[0], "operands are flushed by both"


def test_the_columns_that_an_allocation_takes():
    body = (
        """mov.b32 %x, slot; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%x], 64;
    ld.shared.u32 %d, [%x]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %d, 64;"""
        + KEEP
    )
    first, last = both("placement", body, shared=".shared .align 4 .b8 slot[4];\n")
    assert (first[0], last[0]) == (0, 448)
