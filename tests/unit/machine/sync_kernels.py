"""Kernels whose threads meet in groups, as PTX and as the steps of `support.slow_sync`.

Thread t of CTA c belongs to the group (key(t) + c) mod groups, so that CTAs in lockstep name different barriers. In
every round the threads of a group store, meet, and load what another one of them has stored.
"""

from __future__ import annotations

from typing import NamedTuple

from support.slow_sync import Step

GROUPS = {"warp": ("shr.u32 %k, %t, 5;", 5), "pair": ("shr.u32 %k, %t, 6;", 6)}
LANES = {"lane": 32, "quad": 4}


class Round(NamedTuple):
    """How the threads of a group meet.

    Attributes:
        kind: of groups: ``warp``, ``pair`` (of warps), ``lane`` (of all warps) or ``quad`` (lanes that agree mod 4).
        meet: ``arrive`` (once each), ``count`` (1 to 3 arrivals), ``bytes`` (expected and completed),
            ``named`` (a CTA barrier; groups of warps only), or ``test``
            (the CTA meets after the arrivals, and everybody asks).
        shift: which thread's word is loaded.
        late: a warp that comes by a path of its own.
    """

    kind: str
    meet: str
    shift: int
    late: int


def groups_of(kind: str, threads: int) -> int:
    """How many groups there are."""
    return LANES[kind] if kind in LANES else threads >> GROUPS[kind][1]


def key(kind: str, t: int) -> int:
    """The group of a thread in CTA 0."""
    return t % LANES[kind] if kind in LANES else t >> GROUPS[kind][1]


def partner(one: Round, t: int, threads: int) -> int:
    """Another thread of the same group."""
    if one.kind in LANES:
        return (t + LANES[one.kind] * one.shift) % threads
    return t ^ (one.shift % (1 << GROUPS[one.kind][1]))


def arrivals(one: Round, t: int) -> int:
    """How often a thread arrives."""
    return t % 3 + 1 if one.meet == "count" else 1


def counts(rounds: list[Round], threads: int, cta: int) -> dict[int, int]:
    """The count of every mbarrier: 32 for each round."""
    found: dict[int, int] = {}
    for number, one in enumerate(rounds):
        size = groups_of(one.kind, threads)
        for t in range(threads):
            group = 32 * number + (key(one.kind, t) + cta) % size
            found[group] = found.get(group, 0) + arrivals(one, t)
    return found


def steps(rounds: list[Round], threads: int, cta: int, t: int) -> list[Step]:
    """What a thread does."""
    found = [Step("add", 7 * t + cta)]
    for number, one in enumerate(rounds):
        size = groups_of(one.kind, threads)
        group = (key(one.kind, t) + cta) % size
        bar = 32 * number + group
        found += [Step("store")]
        if t // 32 == one.late:
            found += [Step("add", 5)]
        match one.meet:
            case "named":
                found += [Step("sync", group + 1, threads // size)]
            case "bytes":
                found += [
                    Step("expect", bar, 16 * (t % 3)),
                    Step("arrive", bar, 1),
                    Step("complete", bar, 16 * (t % 3)),
                ]
            case _:
                found += [Step("arrive", bar, arrivals(one, t))]
        if one.meet == "test":
            found += [Step("sync", 0, threads), Step("test", bar, t % 2)]
        elif one.meet != "named":
            found += [Step("wait", bar, 0)]
        found += [Step("load", partner(one, t, threads)), Step("sync", 0, threads)]
    return found


HEAD = """
.reg .b32 %t, %w, %c, %v, %g, %k, %n, %m, %x, %s, %b; .reg .b64 %a; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; shr.u32 %w, %t, 5; mov.u32 %s, data; mad.lo.u32 %v, %t, 7, %c;
"""


def body(rounds: list[Round], threads: int) -> str:
    """The kernel: buffers ``counts`` (u32, ctas x 32 rounds) and ``out`` (u32, ctas x threads)."""
    total = 32 * len(rounds)
    words = 8 * total
    lines = [HEAD, "mov.u32 %x, %t;"]
    lines += [
        f"INIT: setp.ge.u32 %p, %x, {total}; @%p bra READY;",
        f"mad.lo.u32 %n, %c, {total}, %x; mul.wide.u32 %a, %n, 4; add.u64 %a, %a, %p_counts; ld.global.u32 %n, [%a];",
        "setp.ne.u32 %q, %n, 0; shl.b32 %b, %x, 3; add.u32 %b, %b, %s;",
        "@%q mbarrier.init.shared::cta.b64 [%b], %n;",
        f"add.u32 %x, %x, {threads}; bra INIT; READY: bar.sync 0;",
    ]
    for number, one in enumerate(rounds):
        size = groups_of(one.kind, threads)
        find = f"and.b32 %k, %t, {size - 1};" if one.kind in LANES else GROUPS[one.kind][0]
        lines += [
            f"shl.b32 %m, %t, 2; add.u32 %m, %m, %s; st.shared.u32 [%m+{words}], %v;",
            f"setp.ne.u32 %p, %w, {one.late}; @%p bra SAME{number}; add.u32 %v, %v, 5; SAME{number}:",
            f"{find} add.u32 %k, %k, %c; rem.u32 %k, %k, {size};",
            f"shl.b32 %b, %k, 3; add.u32 %b, %b, %s; add.u32 %b, %b, {256 * number}; rem.u32 %n, %t, 3;",
        ]
        match one.meet:
            case "named":
                lines += [f"add.u32 %k, %k, 1; bar.sync %k, {threads // size};"]
            case "bytes":
                lines += [
                    "shl.b32 %n, %n, 4; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %n;",
                    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%b], %n;",
                ]
            case "count":
                lines += ["add.u32 %n, %n, 1; mbarrier.arrive.release.cta.shared::cta.b64 _, [%b], %n;"]
            case _:
                lines += ["mbarrier.arrive.shared::cta.b64 _, [%b];"]
        if one.meet == "test":
            lines += [
                "bar.sync 0; and.b32 %n, %t, 1; mbarrier.test_wait.parity.shared::cta.b64 %p, [%b], %n;",
                "selp.u32 %n, 1, 0, %p; mad.lo.u32 %v, %v, 2, %n;",
            ]
        elif one.meet != "named":
            wait = f"mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra WAIT{number};"
            lines += [f"WAIT{number}: {wait}"]
        if one.kind in LANES:
            lines += [f"add.u32 %x, %t, {LANES[one.kind] * one.shift}; rem.u32 %x, %x, {threads};"]
        else:
            lines += [f"xor.b32 %x, %t, {one.shift % (1 << GROUPS[one.kind][1])};"]
        lines += [
            f"shl.b32 %m, %x, 2; add.u32 %m, %m, %s; ld.shared.u32 %x, [%m+{words}]; mad.lo.u32 %v, %v, 3, %x;",
            "bar.sync 0;",
        ]
    lines += [
        f"mad.lo.u32 %g, %c, {threads}, %t; mul.wide.u32 %a, %g, 4; add.u64 %a, %a, %p_out; st.global.u32 [%a], %v;"
    ]
    return "\n".join(lines)
