"""What comments behind `mbarrier.init` call barriers."""

from __future__ import annotations

import pytest

from convc.timing.forms import BarrierNames, names_in


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("mbarrier.init.b64 [%smem+8], 1;  // full_a[0]", ("full_a[0]",)),
        ("@%mine mbarrier.init.b64 [%bar+8], 1;  // full[0:2], empty[1:2]", ("full[0]", "full[1]", "empty[1]")),
        ("mbarrier.init.b64 [%smem], 1;  // one warp a phase", ()),
        ("mbarrier.init.b64 [%smem], 1;", ()),
        ("mbarrier.init.b64 [%smem], 1;  // full[3:1]", ()),
        ("mbarrier.init.b64 [%smem], 1;  // full[0:2], and others", ()),
    ],
)
def test_a_comment_names_one_barrier_or_those_of_all_lanes(line, names):
    assert names_in(line) == names


def test_no_more_are_named_than_a_warp_has_lanes():
    assert names_in("x // a[0:9999], b[0:9999]") == tuple(f"a[{index}]" for index in range(32))


def test_lanes_have_addresses_behind_each_other_in_each_cta():
    names = BarrierNames()
    line = "// full[0:2], done[0:1]"
    called = [names.called(line, 7, row, 1024 + 64 * row + 8 * lane) for row in range(2) for lane in range(4)]
    assert called == 2 * ["full[0]", "full[1]", "done[0]", None]
    assert names.called("// done", 9, 0, 4096) == names.called("// done", 9, 0, 5000) == "done"
