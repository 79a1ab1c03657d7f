"""Programs of several CTAs (multicast, peers), of whole warps (cp.async), and of misaligned operands."""

from __future__ import annotations

import itertools
import random

from recordings.program_text import FIRST, WAIT, case, dump, entry, fetch

PLACE = (
    ".reg .b32 %rank, %cta, %peer, %far, %farbar, %size; mov.u32 %rank, %cluster_ctarank; mov.u32 %cta, %ctaid.x;\n"
    ".reg .b64 %own; mul.wide.u32 %d, %cta, 8192; add.u64 %own, %p_src, %d; add.u64 %d, %p_out, %d;\n"
)
MEET = "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n"


def cluster_case(name: str, send: str, size: int, expect: int, number: int = 0, kind: str = "bits", maps=()) -> dict:
    """Every CTA fills 8 KiB of its own, all meet, ``send`` runs, and the CTAs named by ``number`` expect bytes."""
    body = (
        PLACE
        + FIRST
        + fetch("%s", "%own", "8192")
        + (
            f"mov.u32 %size, {expect};\nmov.u32 %x, %n0; shr.b32 %y, %x, %rank; and.b32 %y, %y, 1;\n"
            "setp.eq.u32 %p, %y, 0; @%p mov.u32 %size, 0;\n@%p bra READY;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], %size;\nREADY:\n"
        )
        + MEET
        + send
        + (
            "setp.eq.u32 %p, %size, 0;\n@%p bra DONE;\n"
            + WAIT.format(W="ARRIVED", parity=1)
            + "DONE:\n"
            + MEET
            + "fence.proxy.async.shared::cta;\n"
            + dump(size, "%d")
            + "END:"
        )
    )
    buffers = {"src": (kind, sum(map(ord, name)), 4 * 8192), "out": ("zero", 0, 4 * 8192)}
    ranks = 4 if number > 3 else 2
    return case(
        name, entry(body, len(maps), tuple(buffers), 1), buffers, maps, [number], grid=[4, 1, 1], cluster=[ranks, 1, 1]
    )


def clusters(rng: random.Random) -> list[dict]:
    """Multicast, copies to a peer, barriers in a peer."""
    tmap = {
        "mode": "tile",
        "buffer": "src",
        "dtype": "f16",
        "dims": [64, 200],
        "strides": [128],
        "offset": 0,
        "fill": "zero",
        "element_strides": [1, 1],
        "swizzle": "128B",
        "box": [64, 16],
    }
    leader = "setp.ne.u32 %p, %rank, 0; @%p bra SENT;\n"
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    mask = "cvt.u16.u32 %h, %n0;\n"
    peer = (
        "xor.b32 %peer, %rank, 1; mapa.shared::cluster.u32 %far, %s, %peer; "
        "mapa.shared::cluster.u32 %farbar, %bar, %peer;\n"
    )
    where = "mul.lo.u32 %x, %cta, 24; mov.u32 %y, 0;\n"
    found = []
    for number in (1, 2, 3, 5, 10, 15):
        send = leader + mask + where + f"{load}.multicast::cluster [%s+1024], [%m0, {{%y, %x}}], [%bar], %h;\nSENT:\n"
        found.append(cluster_case(f"multicast to {number:#x}", send, 8192, 2048, number, maps=[tmap]))
        send = (
            leader
            + mask
            + (
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                "[%s+512], [%own+64], 1024, [%bar], %h;\nSENT:\n"
            )
        )
        found.append(cluster_case(f"bulk multicast to {number:#x}", send, 8192, 1024, number))
    send = (
        mask
        + where
        + "shl.b32 %far, %rank, 11; add.u32 %far, %far, %s;\n"
        + (f"{load}.multicast::cluster [%far], [%m0, {{%y, %x}}], [%bar], %h;\n")
    )
    found.append(cluster_case("multicast from both", send, 8192, 4096, 3, maps=[tmap]))
    found.append(cluster_case("multicast from all four", send, 8192, 8192, 15, maps=[tmap]))
    send = peer + where + f"{load} [%far], [%m0, {{%y, %x}}], [%farbar];\n"
    found.append(cluster_case("load into the peer", send, 8192, 2048, 3, maps=[tmap]))
    send = peer + where + f"{load} [%s], [%m0, {{%y, %x}}], [%farbar];\n"
    found.append(cluster_case("fault: barrier in the peer", send, 8192, 2048, 3, maps=[tmap]))
    for number in (0, 4):
        send = (
            leader
            + f"mov.u16 %h, {number};\n"
            + where
            + (f"{load}.multicast::cluster [%s+1024], [%m0, {{%y, %x}}], [%bar], %h;\nSENT:\n")
        )
        found.append(cluster_case(f"fault: multicast to {number:#x} of two", send, 8192, 2048, 0, maps=[tmap]))
    send = peer + (
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%far+2048], [%s+4096], 1024, "
        "[%farbar];\n"
    )
    found.append(cluster_case("copy to the peer", send, 8192, 1024, 3))
    for operation in (
        "add.u32",
        "add.s32",
        "add.u64",
        "min.u32",
        "min.s32",
        "max.u32",
        "max.s32",
        "inc.u32",
        "dec.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
    ):
        send = peer + (
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
            f"{operation} [%far+2048], [%s+4096], 1024, [%farbar];\n"
        )
        found.append(cluster_case(f"reduce {operation} to the peer", send, 8192, 1024, 3))
    return found


def threads(rng: random.Random) -> list[dict]:
    """cp.async of every size, with src-size and ignore-src, and its ways to wait."""
    found = []
    fill = "setp.ne.u32 %p, %t, 0; @%p bra FULL;\n" + fetch("%s", "%p_src", "1024") + "FULL: bar.sync 0;\n"
    address = "shl.b32 %x, %t, 4; add.u32 %y, %x, %s; mul.wide.u32 %d, %t, 48; add.u64 %d, %d, %p_src;\n"
    end = "bar.sync 0; fence.proxy.async.shared::cta;\n" + FIRST + dump(1024) + "END:"
    counted = "mbarrier.inval.shared::cta.b64 [%bar]; mbarrier.init.shared::cta.b64 [%bar], {n};\n"
    waits = {
        "all": "cp.async.wait_all;\n",
        "group": "cp.async.commit_group; cp.async.wait_group 0;\n",
        "noinc": "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\n" + WAIT.format(W="OVER", parity=0),
        "inc": "cp.async.mbarrier.arrive.shared::cta.b64 [%bar]; mbarrier.arrive.shared::cta.b64 _, [%bar];\n"
        + WAIT.format(W="OVER", parity=0),
    }
    for (cop, size), (how, wait) in itertools.product((("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)), waits.items()):
        prepare = "setp.ne.u32 %p, %t, 0; @%p bra READY;\n" + counted.format(n=32) + "READY: bar.sync 0;\n"
        for kind, extra in (("", ""), ("size", ", %far"), ("ignore", ", %p")):
            setup = f".reg .b32 %far; rem.u32 %far, %t, {size + 1}; and.b32 %bar, %bar, %bar;\n"
            setup += "and.b32 %x, %t, 1; setp.eq.u32 %p, %x, 1;\n"
            body = (
                fill
                + (prepare if "inc" in how else "")
                + address
                + setup
                + (f"cp.async.{cop}.shared.global [%y], [%d], {size}{extra};\n" + wait + end)
            )
            buffers = {"src": ("bits", 30 + size, 2048), "out": ("zero", 0, 1024)}
            found.append(case(f"cp.async {cop} {size} {how} {kind}", entry(body, 0, tuple(buffers)), buffers))
    return found


def faults() -> list[dict]:
    """Misaligned cp.async and tensor maps."""
    buffers = {"src": ("bits", 30, 2048), "out": ("zero", 0, 1024)}
    found = []
    for what, dst, src in (("source", "%s", "%p_src+4"), ("destination", "%s+4", "%p_src")):
        body = FIRST + f"cp.async.ca.shared.global [{dst}], [{src}], 8;\ncp.async.wait_all;\n" + dump(16) + "END:"
        found.append(case(f"cp.async fault: {what}", entry(body, 0, tuple(buffers)), buffers))
    buffers = {"desc": ("zero", 0, 256), "out": ("zero", 0, 64)}
    for at in (64, 32, 16):
        body = FIRST + f"tensormap.replace.tile.rank.global.b1024.b32 [%p_desc+{at}], 1;\nEND:"
        found.append(case(f"map fault: edited at {at}", entry(body, 0, tuple(buffers)), buffers))
        body = (
            FIRST
            + "".join(f"st.shared.b64 [%s+{8 * j}], 0;\n" for j in range(32))
            + (f"tensormap.replace.tile.rank.shared::cta.b1024.b32 [%s+{at}], 1;\nEND:")
        )
        found.append(case(f"map fault: edited in shared memory at {at}", entry(body, 0, tuple(buffers)), buffers))
    return found


def addresses() -> list[dict]:
    """What shared addresses look like in a cluster: own, mapped to rank 0 and 1, generic."""
    body = (
        ".reg .b32 %cta; mov.u32 %cta, %ctaid.x; mul.wide.u32 %d, %cta, 32; add.u64 %d, %d, %p_out;\n"
        + FIRST
        + "st.global.u32 [%d], %s; mapa.shared::cluster.u32 %x, %s, 0; st.global.u32 [%d+4], %x;\n"
        "mapa.shared::cluster.u32 %x, %s, 1; st.global.u32 [%d+8], %x;\n"
        "cvt.u64.u32 %e, %s; cvta.shared.u64 %e, %e; st.global.u64 [%d+16], %e;\nEND:"
    )
    buffers = {"out": ("zero", 0, 128)}
    return [case("addresses", entry(body, 0, tuple(buffers)), buffers, grid=[4, 1, 1], cluster=[2, 1, 1])]
