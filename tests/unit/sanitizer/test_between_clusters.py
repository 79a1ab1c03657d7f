"""Global memory between clusters, which nothing orders: stores that meet, loads of what another one stores."""

from __future__ import annotations

import pytest
from check_kernels import LEADER, check, line_of, only_error, rules
from support.kernels import module

from convc.ir.findings import Verdict
from convc.ir.tensormap import TensorMap

SHARED = ".shared .align 1024 .b8 data[2048];\n"
HEAD = """
.reg .b32 %t, %c, %n, %s, %v, %w, %z, %bar; .reg .b64 %a, %b; .reg .pred %p, %q, %skip;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %s, data; mov.u32 %z, 0; add.u32 %bar, %s, 1024;
mad.lo.u32 %n, %c, 32, %t; mul.wide.u32 %a, %n, 4; add.u64 %a, %a, %p_out; add.u32 %w, %c, 1; and.b32 %w, %w, 3;
mad.lo.u32 %n, %w, 32, %t; mul.wide.u32 %b, %n, 4; add.u64 %b, %b, %p_out;
"""
"""%a is the thread's own word, %b that of the next of four CTAs."""

MAP = TensorMap(
    mode="tile", buffer="out", dtype="u32", dims=(32, 8), strides=(128,), element_strides=(1, 1), box=(32, 1)
)


def kernel(*parts: str) -> str:
    return module("\n".join((HEAD, *parts)).replace("; ", ";\n"), shared=SHARED, maps=("map",))


def run(text: str, **more):
    return check(text, **{"grid": 4, "threads": 32, "maps": (MAP,)} | more)


STORE = "st.global.u32 [%a], %t;"


def test_a_cta_reads_what_another_one_writes():
    assert rules(run(kernel("ld.global.u32 %v, [%a];", STORE))) == set()
    text = kernel("ld.global.u32 %v, [%b];", STORE)
    found = only_error(run(text))
    load, store = line_of(text, "ld.global"), line_of(text, "st.global")
    assert found.rule == "race-global-memory"
    assert found.message == (
        f"CTA 3 reads buffer 'out' at byte 0, which CTA 0 writes (line {store}): nothing orders the two"
    )
    assert (found.line, found.cta, found.other.line, found.other.cta) == (load, 3, store, 0)
    assert found.region.runs == ((0, 0),)


def test_the_order_of_the_machine_is_no_excuse():
    """CTAs of one cohort run in lockstep, so that all have stored before any loads, or the other way round."""
    assert only_error(run(kernel(STORE, "ld.global.u32 %v, [%b];"))).rule == "race-global-memory"
    one = "bar.warp.sync 0xffffffff; setp.eq.u32 %p, %c, 2; @%p st.global.u32 [%p_out], %t;"
    found = only_error(run(kernel("ld.global.u32 %v, [%p_out];", one)))
    assert (found.cta != 2, found.other.cta) == (True, 2)


def test_inside_a_cluster_a_meeting_orders_them():
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    body = kernel(STORE, meet, "ld.global.u32 %v, [%b];")
    assert rules(run(body, cluster=4)) == set()
    assert only_error(run(body, cluster=2)).message.endswith("nothing orders the two")
    unordered = only_error(run(kernel(STORE, "ld.global.u32 %v, [%b];"), cluster=4))
    assert "read by warp 0 of CTA" in unordered.message
    assert "is not ordered after write by warp 0 of CTA" in unordered.message


@pytest.mark.parametrize("many", [4, 300])
def test_reads_are_remembered_from_cohort_to_cohort(many):
    """The last CTA stores what all others load."""
    store = f"bar.warp.sync 0xffffffff; setp.eq.u32 %p, %c, {many - 1}; @%p st.global.u32 [%p_out], %v;"
    body = f"ld.global.u32 %v, [%p_out]; {store}"
    found = only_error(run(kernel(body), grid=many))
    assert found.cta != many - 1
    assert found.other.cta == many - 1


INIT = f"""{LEADER.format(label="READY")} mbarrier.init.shared::cta.b64 [%bar], 1; fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%s], [%m_map, {{%z, LINE}}], [%bar];
READY: bar.warp.sync 0xffffffff; bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;
"""


def test_a_tensor_copy_reads_what_another_cta_writes():
    def body(line: str) -> str:
        return kernel(INIT.replace("LINE", line), STORE)

    assert rules(run(body("%c"))) == set()
    text = body("%w")
    found = only_error(run(text))
    assert found.line == line_of(text, "cp.async.bulk.tensor")
    assert found.message.startswith("CTA 3 reads buffer 'out' at byte 0, which CTA 0 writes")


@pytest.mark.parametrize("form", ["tensor", "bulk"])
def test_two_ctas_have_the_same_bytes_stored_by_copies(form):
    stores = {
        "tensor": "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%m_map, {%z, LINE}], [%s];",
        "bulk": "mad.wide.u32 %b, LINE, 128, %p_out; cp.async.bulk.global.shared::cta.bulk_group [%b], [%s], 128;",
    }
    fill = "shl.b32 %v, %t, 2; add.u32 %v, %v, %s; st.shared.u32 [%v], %t; fence.proxy.async; bar.sync 0;"

    def body(line: str) -> str:
        copy = stores[form].replace("LINE", line)
        wait = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; SENT: bar.warp.sync 0xffffffff;"
        return kernel(fill, LEADER.format(label="SENT"), copy, wait)

    assert rules(run(body("%c"))) == set()
    found = only_error(run(body("%z")))
    assert found.rule == "race-global-memory"
    assert found.message.startswith("more than one CTA stores to buffer 'out' at byte 0: CTA ")
    assert (found.warp, found.lanes) == (0, (0,))


@pytest.mark.parametrize(
    ("load", "store", "verdict"),
    [
        ("ld.relaxed.gpu.global.u32 %v, [%b];", "st.relaxed.gpu.global.u32 [%a], %t;", Verdict.clean),
        ("ld.volatile.global.u32 %v, [%b];", "st.release.sys.global.u32 [%a], %t;", Verdict.clean),
        ("ld.relaxed.gpu.global.u32 %v, [%b];", STORE, Verdict.review),
        ("ld.global.u32 %v, [%b]; atom.global.add.u32 %v, [%a], %t;", STORE, Verdict.review),
        ("ld.global.u32 %v, [%b]; st.shared.u32 [%s], 0; atom.shared.add.u32 %v, [%s], %t;", STORE, Verdict.error),
    ],
)
def test_strong_accesses_may_order_the_others(load, store, verdict):
    """Strong ones do not race; beside them the weak ones are for a person to look at."""
    found = [f for f in run(kernel(load, store)).findings if "reads buffer" in f.message]
    assert max((f.verdict for f in found), default=Verdict.clean) is verdict
    advice = {Verdict.review: "a lock or a flag must order the two", Verdict.error: "nothing orders the two"}
    assert all(advice[verdict] in f.message for f in found)


def test_single_bytes_of_neighbours_are_told_apart():
    body = "cvt.u64.u32 %b, %c; add.u64 %b, %b, %p_out; st.global.u8 [%b], %c;"
    apart = kernel("setp.ne.u32 %p, %t, 0; @%p bra DONE;", body, "DONE:")
    assert rules(run(apart)) == set()


def test_variables_of_the_module_are_looked_at_too():
    text = kernel("st.global.u32 [total], %c;").replace(SHARED, SHARED + ".global .align 4 .u32 total;\n")
    found = only_error(run(text))
    assert found.message.startswith("more than one CTA stores to buffer 'total' at byte 0")


@pytest.mark.parametrize(
    ("thread", "offset", "cluster", "who"),
    [
        (0, 2048, 1, (0, 3)),
        (37, 2056, 1, (0, 3)),
        (63, 4088, 2, (1, 2)),
    ],
)
def test_the_place_of_two_stores_that_meet(thread, offset, cluster, who):
    """One thread of two CTAs stores to the same two words; all others have two of their own.

    The single word before that makes the checker look at words, of which each thread then stores two.
    """
    pick = [
        f"setp.eq.u32 %p, %c, {cta}; setp.eq.and.u32 %p, %t, {thread}, %p; @%p mov.u32 %n, {offset};" for cta in who
    ]
    text = kernel(
        "setp.eq.u32 %p, %c, 0; setp.eq.and.u32 %p, %t, 0, %p; @%p st.global.u32 [%p_out], 0;",
        "mad.lo.u32 %n, %c, 64, %t; shl.b32 %n, %n, 3;", *pick, "cvt.u64.u32 %b, %n; add.u64 %b, %b, %p_out;",
        "st.global.v2.u32 [%b], {%t, %t};",
    )  # fmt: skip
    found = only_error(run(text, threads=64, cluster=cluster))
    line = line_of(text, "st.global.v2")
    assert (found.warp, found.lanes) == (thread // 32, (thread % 32,))
    assert (found.line, found.other.line) == (line, line)
    assert {found.cta, found.other.cta} == set(who)
    assert found.region.runs == ((offset, offset),)
    assert f"more than one CTA stores to buffer 'out' at byte {offset}: " in found.message


@pytest.mark.parametrize("offset", [0, 4, 1020])
def test_the_place_of_a_load_of_what_is_stored(offset):
    one = f"setp.eq.u32 %p, %c, 2; setp.eq.and.u32 %p, %t, 9, %p; @%p st.global.u32 [%p_out+{offset}], %t;"
    other = f"setp.eq.u32 %p, %c, 1; setp.eq.and.u32 %p, %t, 5, %p; @%p ld.global.u32 %v, [%p_out+{offset}];"
    found = only_error(run(kernel(other, one)))
    assert (found.cta, found.other.cta) == (1, 2)
    assert found.region.runs == ((offset, offset),)
    assert f"CTA 1 reads buffer 'out' at byte {offset}, which CTA 2 writes" in found.message


def test_the_first_cta_stores_before_another_one_does():
    body = "setp.eq.u32 %p, %c, 0; sub.u64 %b, %a, 128; @%p st.global.u32 [%a], %t; @!%p st.global.b32 [%b], %t;"
    text = kernel(body)
    found = only_error(run(text, grid=2))
    first, second = line_of(text, "st.global.u32"), line_of(text, "st.global.b32")
    assert (found.line, found.cta, found.other.line, found.other.cta) == (second, 1, first, 0)


def test_each_load_has_a_place_of_its_own():
    """CTA 0 loads what CTA 1 stores, and what CTA 2 stores."""
    near, far = "ld.global.u32 %v, [%a+128];", "ld.global.u32 %w, [%a+256];"
    text = kernel(f"setp.ne.u32 %p, %c, 0; @!%p {near} @!%p {far}", STORE)
    found = {f.line: (f.cta, f.other.cta, f.region.runs[0][0]) for f in run(text).findings}
    assert found == {line_of(text, near): (0, 1, 128), line_of(text, far): (0, 2, 256)}
