"""tcgen05.ld and st, cp and shift, deferred: a kernel that waits for them never notices."""

from __future__ import annotations

import numpy as np
import pytest
import tensor_kernels
from tensor_kernels import TEXTS, run_tensor

from convc.machine import RunOptions, RunResult
from convc.machine.state.observer import Observer
from convc.ptx.descriptors import SharedDescriptor, encode_shared

POLICIES = [("eager", 0), ("late", 0), *(("seeded", seed) for seed in range(4))]
LANES = np.arange(128, dtype=np.uint32)[:, None]
CELLS = 1000 + 16 * LANES + np.arange(16, dtype=np.uint32)
"""What columns 0 to 15 hold before."""

PLACES = "shl.b32 %j, %w, 21; add.u32 %j, %j, %c; add.u32 %k, %j, 8; mov.b32 %x0, 7;"
OVERWRITE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%j], {%x0}; tcgen05.wait::st.sync.aligned;"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%j];"
KEEP = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%k], {%v0}; tcgen05.wait::st.sync.aligned;"
LD_WAIT, ST_WAIT = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"


def run(monkeypatch, policy: str, seed: int, body: str = "", every: str = "", **more) -> tuple[np.ndarray, RunResult]:
    """Columns 0 to 15 after ``body`` (one thread, committed to %bar) and ``every`` (all threads)."""
    monkeypatch.setattr(tensor_kernels, "OPTIONS", RunOptions(policy=policy, seed=seed))
    return run_tensor(body, cells=CELLS, every=PLACES + every, shown=16, **more)


# ---- the warp's own moves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_a_waited_load_reads_before_what_follows(monkeypatch, policy, seed):
    got, result = run(monkeypatch, policy, seed, every=LOAD + LD_WAIT + OVERWRITE + KEEP)
    assert result.findings == ()
    assert (got[:, 0] == 7).all()
    assert np.array_equal(got[:, 8], CELLS[:, 0])


def test_a_load_that_is_not_waited_for_reads_late(monkeypatch):
    every = LOAD + OVERWRITE + KEEP
    assert np.array_equal(run(monkeypatch, "eager", 0, every=every)[0][:, 8], CELLS[:, 0])  # by luck
    assert (run(monkeypatch, "late", 0, every=every)[0][:, 8] == 7).all()


@pytest.mark.parametrize("use", ["add.u32 %v0, %v0, 0;", "setp.eq.u32 %p, %v0, 0;", "mov.b64 %a, {%v0, %v1};", KEEP])
def test_a_register_has_its_value_where_it_is_used(monkeypatch, use):
    """Without the wait, too (PTX manual, "Register dependencies, same thread")."""
    got, _ = run(monkeypatch, "late", 0, every=LOAD + use + OVERWRITE + KEEP)
    assert np.array_equal(got[:, 8], CELLS[:, 0])


def test_a_use_under_a_predicate_counts_as_one(monkeypatch):
    every = LOAD + "setp.ne.u32 %p, %x0, 7; @%p add.u32 %v0, %v0, 1;" + OVERWRITE + KEEP
    assert np.array_equal(run(monkeypatch, "late", 0, every=every)[0][:, 8], CELLS[:, 0])


def test_warps_that_went_apart_wait_for_their_own_loads(monkeypatch):
    """Warps 0 and 1 wait, by a branch or under a predicate."""
    for guarded in ("@!%p bra OVER; {} OVER:", "@%p {}"):
        every = f"{LOAD} setp.lt.u32 %p, %t, 64; {guarded.format(LD_WAIT)} {OVERWRITE} {KEEP}"
        got, _ = run(monkeypatch, "late", 0, every=every)
        assert np.array_equal(got[:, 8], np.where(LANES[:, 0] < 64, CELLS[:, 0], 7))


def test_a_load_under_a_predicate_leaves_the_other_warps_alone(monkeypatch):
    every = f"mov.b32 %v0, 3; setp.lt.u32 %p, %t, 64; @%p {LOAD} {LD_WAIT} {OVERWRITE} {KEEP}"
    for policy, seed in POLICIES:
        got, _ = run(monkeypatch, policy, seed, every=every)
        assert np.array_equal(got[:, 8], np.where(LANES[:, 0] < 64, CELLS[:, 0], 3))


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
def test_a_waited_store_is_there(monkeypatch, policy, seed):
    got, result = run(monkeypatch, policy, seed, every=OVERWRITE + LOAD + LD_WAIT + KEEP)
    assert result.findings == ()
    assert (got[:, [0, 8]] == 7).all()


def test_a_store_that_is_not_waited_for_comes_late(monkeypatch):
    every = OVERWRITE.replace(ST_WAIT, "") + LOAD + LD_WAIT + KEEP
    assert (run(monkeypatch, "eager", 0, every=every)[0][:, 8] == 7).all()  # by luck
    got, _ = run(monkeypatch, "late", 0, every=every)
    assert np.array_equal(got[:, 8], CELLS[:, 0])
    assert (got[:, 0] == 7).all()  # the wait of the next store was one for this one too


def test_a_store_keeps_the_registers_it_was_issued_with(monkeypatch):
    every = OVERWRITE.replace(ST_WAIT, f"mov.b32 %x0, 9; add.u32 %j, %j, 1; {ST_WAIT}")
    got, _ = run(monkeypatch, "late", 0, every=every)
    assert (got[:, 0] == 7).all()
    assert np.array_equal(got[:, 1], CELLS[:, 1])


class Last(Observer):
    """Keeps what column 0 holds when all warps have exited."""

    def end(self, cohort) -> None:
        """Called once."""
        self.column = cohort.tensor.cells[0, :, 0].copy()


def test_a_store_that_nobody_waits_for_comes_when_its_warp_exits(monkeypatch):
    """Warps 2 and 3 store and exit; the barriers behind that count only those that are there."""
    last, real = Last(), tensor_kernels.run
    monkeypatch.setattr(tensor_kernels, "run", lambda *a, **k: real(*a, observer=last, **k))
    store = OVERWRITE.replace(ST_WAIT, "")
    run(monkeypatch, "late", 0, every=f"setp.lt.u32 %p, %t, 64; @%p bra STAY; {store} ret; STAY: bar.sync 0;")
    assert np.array_equal(last.column, np.where(LANES[:, 0] < 64, CELLS[:, 0], 7))


# ---- the tensor pipe ------------------------------------------------------------------------------------------------

HARNESS_WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
SOURCE = encode_shared(SharedDescriptor(start=tensor_kernels.BASE, lbo=2048, sbo=128, swizzle="none"))
PIPE = {
    "cp": f"mov.b64 %a, {SOURCE}; tcgen05.cp.cta_group::1.128x256b [%c], %a;",
    "shift": "tcgen05.shift.cta_group::1.down [%c];",
}
IMAGE = np.arange(4096, dtype=np.int64).astype(np.uint8)


def made(name: str) -> np.ndarray:
    """Column 0 afterwards."""
    if name == "cp":
        return IMAGE.reshape(2, 128, 16)[0, :, :4].copy().view(np.uint32)[:, 0]
    return np.where(LANES[:, 0] % 32 == 31, CELLS[:, 0], np.roll(CELLS[:, 0], -1))


def piped(monkeypatch, name: str, policy: str, seed: int, *, waits_first: bool) -> np.ndarray:
    """Column 8: what every warp read of column 0, before or after waiting for the commit."""
    real = tensor_kernels.tensor_text
    monkeypatch.setattr(tensor_kernels, "tensor_text", lambda *a, **k: real(*a, **k).replace(HARNESS_WAIT, "", 1))
    before, after = (HARNESS_WAIT, "") if waits_first else ("", HARNESS_WAIT)
    every = f"{before} tcgen05.fence::after_thread_sync; {LOAD} {LD_WAIT} {after} {KEEP}"
    got, result = run(monkeypatch, policy, seed, PIPE[name], every, image=IMAGE)
    assert result.findings == ()
    return got[:, 8]


@pytest.mark.parametrize(("policy", "seed"), POLICIES)
@pytest.mark.parametrize("name", PIPE)
def test_what_was_waited_for_is_there(monkeypatch, name, policy, seed):
    assert np.array_equal(piped(monkeypatch, name, policy, seed, waits_first=True), made(name))


@pytest.mark.parametrize("name", PIPE)
def test_what_was_not_waited_for_comes_late(monkeypatch, name):
    assert np.array_equal(piped(monkeypatch, name, "eager", 0, waits_first=False), made(name))  # by luck
    monkeypatch.undo()
    assert np.array_equal(piped(monkeypatch, name, "late", 0, waits_first=False), CELLS[:, 0])


def test_the_assembler_takes_every_text(ptxas_batch):
    ptxas_batch(TEXTS)
