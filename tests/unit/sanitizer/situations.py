"""Situations in which asynchronous work goes wrong, each with its repaired twin: kernels to check.

The situations are those that Triton's concurrency sanitizer is tested with (the names of its tests say which): copies
by the tensor memory accelerator and by threads, wgmma, tcgen05, warps with roles of their own, mbarriers, clusters. The
kernels are our own. A kernel has warps with a body each; what a body does is a line of the functions below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from support.kernels import module

TILE = 1024
"""Bytes from one tile to the next in shared memory; a warp's lanes read, write and copy the first 128 of them."""

COPIED = 128
SHARED = f""".shared .align 1024 .b8 tiles[{8 * TILE}]; .shared .align 16 .b64 bars[8];
.shared .align 16 .b8 answers[32]; .shared .b32 slot;
"""
HEAD = """.reg .b32 %t, %warp, %lane, %v, %w, %b, %far, %rank, %x<8>; .reg .b64 %g, %l; .reg .pred %p, %q, %r, %s;
.reg .b128 %h; .reg .b16 %mask;
mov.u32 %t, %tid.x; shr.u32 %warp, %t, 5; and.b32 %lane, %t, 31; mov.u32 %v, tiles; mov.u32 %b, bars;
mov.u32 %rank, %cluster_ctarank; mad.lo.u32 %w, %lane, 4, %v; mul.wide.u32 %g, %lane, 4; add.u64 %g, %g, %p_out;
mov.b32 %x0, 0;
"""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A kernel that is wrong, and the change that mends it.

    Attributes:
        name: what is wrong.
        wrong, right: texts of the two.
        rule: what is found of the first. Of the second nothing is.
        launch: what `check_kernels.check` is called with.
    """

    name: str
    wrong: str
    right: str
    rule: str
    launch: Mapping[str, int] = field(default_factory=dict)


def of(name: str, rule: str, wrong: str, right: str, grid: int = 1, cluster: int = 1) -> Situation:
    """A line of a table of situations; a kernel has as many warps as bodies."""
    threads = 32 * max(text.count("NOT") // 2 for text in (wrong, right))
    launch = {"threads": threads, "grid": grid, "cluster": cluster}
    return Situation(name=name, wrong=wrong, right=right, rule=rule, launch=launch)


def once(text: str) -> str:
    """By the first lane of the warp, behind what all lanes did."""
    return f"{{ bar.warp.sync -1; setp.ne.u32 %q, %lane, 0; @%q bra OVER; {text} OVER: bar.warp.sync -1; }}"


def wait(bar: int, phase: int = 0) -> str:
    return f"{{ AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b+{8 * bar}], {phase}; @!%p bra AGAIN; }}"


def arrive(bar: int, count: int = 1) -> str:
    return once(f"mbarrier.arrive.shared::cta.b64 _, [%b+{8 * bar}], {count};")


def expect(bar: int, size: int = COPIED) -> str:
    return once(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b+{8 * bar}], {size};")


def bulk(tile: int, bar: int) -> str:
    """A bulk copy into a tile."""
    to, at = f"[%v+{TILE * tile}]", f"[%b+{8 * bar}]"
    return once(f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes {to}, [%p_out], {COPIED}, {at};")


def load(tile: int, bar: int) -> str:
    """A bulk copy with its bytes announced."""
    return expect(bar) + bulk(tile, bar)


def store(tile: int, at: int = 0) -> str:
    """A bulk copy from a tile, and its group."""
    to = f"[%p_out+{at}]"
    copy = f"cp.async.bulk.global.shared::cta.bulk_group {to}, [%v+{TILE * tile}], {COPIED};"
    return once(f"{copy} cp.async.bulk.commit_group;")


def stored(pending: int, read: str = "") -> str:
    return once(f"cp.async.bulk.wait_group{read} {pending};")


def small(tile: int) -> str:
    """A small copy by each lane, and its group."""
    return f"cp.async.ca.shared.global [%w+{TILE * tile}], [%g], 4; cp.async.commit_group;"


def smalls(pending: int) -> str:
    return f"cp.async.wait_group {pending}; bar.warp.sync -1;"


def read(tile: int) -> str:
    return f"ld.shared.u32 %x1, [%w+{TILE * tile}];"


def fill(tile: int) -> str:
    return f"st.shared.u32 [%w+{TILE * tile}], %lane;"


FENCE = "fence.proxy.async.shared::cta; bar.warp.sync -1;"


def kernel(
    *warps: str,
    counts: tuple[int, ...] = (1, 1, 1, 1),
    first: str = "",
    then: str = "",
    last: str = "",
    end: str = "bar.sync 0;",
    target: str = "sm_100a",
) -> str:
    """A kernel whose warps have a body each.

    ``counts``: arrivals of its mbarriers. ``first``, ``last``: what the first warp does before and behind all others.
    ``then``, ``end``: what all warps do between these and their bodies.
    """
    inits = "".join(f"mbarrier.init.shared::cta.b64 [%b+{8 * i}], {n};" for i, n in enumerate(counts) if n)
    made = once(inits + "fence.mbarrier_init.release.cluster;") if inits else ""
    lines = [HEAD, f"setp.ne.u32 %r, %warp, 0; @%r bra READY; {made} {first} READY: bar.sync 0; {then}"]
    for i, body in enumerate(warps):
        lines.append(f"setp.ne.u32 %r, %warp, {i}; @%r bra NOT{i}; {body} NOT{i}: bar.warp.sync -1;")
    lines.append(f"{end} setp.ne.u32 %r, %warp, 0; @%r bra END; {last} END:")
    return module("\n".join(lines).replace(";", ";\n"), shared=SHARED).replace("sm_100a", target)
