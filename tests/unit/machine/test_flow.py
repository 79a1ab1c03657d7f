"""Post-dominators and liveness on small control-flow graphs."""

from __future__ import annotations

from convc.machine.state.flow import Flow, FlowFacts


def fact(target=None, falls=True, reads=(), writes=(), guard=None):
    read, written = (sum(1 << slot for slot in slots) for slots in (reads, writes))
    return FlowFacts(target, falls, read, written, guard)


def test_if_without_else_joins_at_the_target():
    flow = Flow([fact(target=3), fact(), fact(), fact(falls=False)])
    assert flow.join(0) == 3


def test_if_else_joins_after_both_sides():
    # 0: @p bra 3 / 1: x / 2: bra 4 / 3: y / 4: ret
    flow = Flow([fact(target=3), fact(), fact(target=4, falls=False), fact(), fact(falls=False)])
    assert flow.join(0) == 4


def test_loop_branch_joins_behind_the_loop():
    flow = Flow([fact(), fact(target=0), fact(), fact(falls=False)])
    assert flow.join(1) == 2


def test_sides_that_both_exit_never_join():
    flow = Flow([fact(target=2), fact(falls=False), fact(falls=False)])
    assert flow.join(0) is None


def test_a_register_read_behind_the_join_is_live_there_and_one_overwritten_is_not():
    flow = Flow([fact(target=2), fact(writes=[0]), fact(reads=[1], writes=[2]), fact(reads=[2], falls=False)])
    assert flow.live_in(2) == {1}
    assert flow.live_in(3) == {2}
    assert flow.live_in(0) == {1}


def test_a_register_carried_round_a_loop_is_live_at_its_head():
    flow = Flow([fact(writes=[0]), fact(reads=[0], writes=[1]), fact(reads=[1], target=1), fact(falls=False)])
    assert flow.live_in(1) == {0}
    assert flow.live_in(0) == frozenset()


def test_who_reads_under_the_guard_of_a_write_reads_what_was_written():
    """Register 0 is written under predicate 9, and read under it, under its opposite, or after it has changed."""
    load = fact(guard=(9, False), reads=[9], writes=[0])
    for changes, guard, live in (
        ((), (9, False), {9}),
        ((), (9, True), {0, 9}),
        ((fact(writes=[9]),), (9, False), {0, 9}),
        ((fact(reads=[9], writes=[9]),), (9, False), {0, 9}),
        ((fact(guard=(8, False), reads=[8], writes=[9]),), (9, False), {0, 8, 9}),
        ((fact(guard=(8, False), reads=[8], writes=[0]),), (9, False), {8, 9}),
    ):
        flow = Flow([load, *changes, fact(guard=guard, reads=[0, 9]), fact(falls=False)])
        assert flow.live_in(0) == live
