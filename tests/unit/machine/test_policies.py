"""Completion policies: a right kernel gives the same under all, a kernel that does not wait does not."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support.kernels import execute, module
from support.schedules import RELOAD_ONLY

from convc.build.writer import layer_of
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import kernel_of
from convc.errors import InputError
from convc.ir.problem import ConvProblem
from convc.ir.tensormap import TensorMap
from convc.machine import RunOptions
from convc.machine.base.completion import Pending
from convc.machine.memory.bulk_groups import BulkGroups
from convc.runtime.layer import run_layer
from convc.sanitizer.run import check_kernel
from convc.verification.data import integer_data

POLICIES = [("late", 0), *(("seeded", seed) for seed in range(6))]


@pytest.mark.parametrize("operand", ["f16", "tf32"])
def test_a_kernel_of_ours_does_not_depend_on_when_work_is_performed(operand):
    problem = ConvProblem(
        in_channels=96,
        out_channels=48,
        in_extent=(11, 13),
        kernel=(3, 3),
        pad_lo=(1, 1),
        pad_hi=(1, 1),
        operand=operand,
        out="f32",
        bias=True,
    )
    x, weight, bias = integer_data(problem, 3)
    layer = layer_of(problem, kernel_of(compile_problem(problem, options=RELOAD_ONLY, stages=2)), weight, bias)
    right = run_layer(layer, x).y
    for policy, seed in POLICIES:
        run = run_layer(layer, x, RunOptions(policy=policy, seed=seed))
        assert run.findings == ()
        assert np.array_equal(run.y, right), (policy, seed)


COPY = """
.reg .b32 %t, %v, %z, %s, %bar; .reg .b64 %a; .reg .pred %p;
mov.u32 %t, %tid.x; mov.b32 %z, 0; mov.u32 %s, tile; add.u32 %bar, %s, 1024;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
mbarrier.init.shared::cta.b64 [%bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
{load}
IDLE: bar.warp.sync 0xffffffff; }}
{before}
shl.b32 %v, %t, 2; add.u32 %v, %v, %s; ld.shared.u32 %v, [%v];
{after}
mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;
"""
LOADS = {
    "tensor": "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%m_y, {%z}], [%bar];",
    "bulk": "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%p_x], 128, [%bar];",
}
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
X = TensorMap(mode="tile", buffer="x", dtype="u32", dims=(32,), strides=(), element_strides=(1,), box=(32,))


def copy(waits_first: bool, policy: str, load: str):
    body = COPY.format(load=LOADS[load], before=WAIT if waits_first else "", after="" if waits_first else WAIT)
    text = module(body, pointers=("x", "out"), maps=("y",), shared=".shared .align 1024 .b8 tile[1032];\n")
    buffers = {"out": np.zeros(32, np.uint32), "x": np.arange(32, dtype=np.uint32)}
    return execute(text, buffers, pointers=("x", "out"), maps=(X,), options=RunOptions(policy=policy))


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("policy", ["eager", "late", "seeded"])
def test_a_copy_that_is_waited_for_is_there(policy, load):
    result = copy(True, policy, load)
    assert result.findings == ()
    assert np.array_equal(result.buffers["out"], np.arange(32))


@pytest.mark.parametrize("load", LOADS)
def test_a_copy_that_is_read_too_early_is_not(load):
    assert np.array_equal(copy(False, "eager", load).buffers["out"], np.arange(32))  # by luck
    late = copy(False, "late", load)
    assert (late.buffers["out"] == 0xFFFFFFFF).all()
    assert [f.rule for f in late.findings] == ["shared-memory-unwritten"]


def test_the_checkers_compare_policies():
    from convc.ir.launch import BufferSpec, LaunchSpec, PointerParam, TensorMapParam

    body = COPY.format(load=LOADS["tensor"], before="", after=WAIT)
    text = module(body, maps=("y",), shared=".shared .align 1024 .b8 tile[1032];\n")
    specs = {name: BufferSpec(dtype="u32", shape=(32,)) for name in ("out", "x")}
    launch = LaunchSpec(
        entry="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        buffers=specs,
        params=(TensorMapParam(map=X), PointerParam(buffer="out")),
    )
    found = check_kernel(text, launch, {"out": np.zeros(32, np.uint32), "x": np.arange(32, dtype=np.uint32)}).findings
    late = [f.message for f in found if f.rule == "completion-order"]
    assert any("buffer 'out' depends on when asynchronous operations complete" in m and "late" in m for m in late)
    assert "race-shared-memory" in {f.rule for f in found}


def test_copies_may_pass_each_other_but_the_tensor_core_keeps_its_order():
    orders = set()
    for seed in range(20):
        done: list[str] = []
        pending = Pending("seeded", seed)
        for name in ("c1", "c2", "c3"):
            pending.copy(functools.partial(done.append, name))
        for name in ("t1", "t2"):
            pending.tensor(functools.partial(done.append, name))
        while pending.perform_one():
            pass
        assert done.index("t1") < done.index("t2")
        orders.add(tuple(done))
    assert len(orders) > 5


STORE = """
.reg .b32 %t, %v, %z, %s; .reg .b64 %a, %b; .reg .pred %p;
mov.u32 %t, %tid.x; mov.b32 %z, 0; mov.u32 %s, tile; shl.b32 %v, %t, 2; add.u32 %v, %v, %s; mov.u64 %b, %p_out;
st.shared.u32 [%v], %t; fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @!%one bra IDLE;
{store}
cp.async.bulk.commit_group; {second} cp.async.bulk.wait_group.read {left};
IDLE: bar.warp.sync 0xffffffff; }}
mov.u32 %t, 7777; st.shared.u32 [%v], %t;
{{ .reg .pred %one; elect.sync _|%one, 0xffffffff; @%one cp.async.bulk.wait_group 0; }}
"""
BULK_STORE = "cp.async.bulk.global.shared::cta.bulk_group [%b], [%s], 128;"
STORES = {
    "bulk": BULK_STORE,
    "tensor": "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%m_y, {%z}], [%s];",
}
OUT = TensorMap(mode="tile", buffer="out", dtype="u32", dims=(32,), strides=(), element_strides=(1,), box=(32,))


def stored(store: str, left: int, second: str, policy: str) -> np.ndarray:
    """What 32 threads store of their numbers, where they overwrite the source after waiting for all but ``left``."""
    body = STORE.format(store=STORES[store], left=left, second=second)
    text = module(body, pointers=("out",), maps=("y",), shared=".shared .align 1024 .b8 tile[128];\n")
    result = execute(text, {"out": np.zeros(64, np.uint32)}, maps=(OUT,), options=RunOptions(policy=policy))
    return result.buffers["out"][:32]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("policy", ["eager", "late", "seeded"])
def test_a_source_that_waited_for_its_store_may_be_overwritten(store, policy):
    assert np.array_equal(stored(store, 0, "", policy), np.arange(32))


@pytest.mark.parametrize("store", STORES)
def test_a_source_that_did_not_wait_is_overwritten_under_the_store(store):
    assert np.array_equal(stored(store, 1, "", "eager"), np.arange(32))  # by luck
    assert (stored(store, 1, "", "late") == 7777).all()


@pytest.mark.parametrize("store", STORES)
def test_a_wait_for_all_but_one_group_is_a_wait_for_the_first_of_two(store):
    second = f"add.u64 %b, %b, 128; {BULK_STORE} cp.async.bulk.commit_group;"
    assert np.array_equal(stored(store, 1, second, "late"), np.arange(32))


@pytest.mark.parametrize("store", STORES)
def test_a_reduction_counts_as_a_group(store):
    add = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%b+128], [%s], 128;"
    assert np.array_equal(stored(store, 1, f"{add} cp.async.bulk.commit_group;", "late"), np.arange(32))


def test_groups_of_ctas_that_go_apart_are_all_waited_for():
    thread, groups = (0, 0), BulkGroups(2)
    for rows in (None, np.array([1])):
        groups.issue(thread, rows, None)
        groups.commit(thread, rows)
        left = groups.wait(thread, None, 1)
        assert left == (1 if rows is None else 0)


def test_an_unknown_policy_is_refused():
    with pytest.raises(InputError, match="must be one of eager, late, seeded, got 'lazy'"):
        RunOptions(policy="lazy")
