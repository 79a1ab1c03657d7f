"""Situations of clusters: copies for several CTAs, memory and barriers of a peer, CTA pairs, requests for more work."""

from __future__ import annotations

from check_kernels import MEET
from situations import COPIED, FENCE, TILE, Situation, arrive, expect, fill, kernel, of, once, read, wait
from situations_tensor import AFTER, BEFORE, LD_WAIT, THEN, ZERO

from convc.ptx.descriptors import InstructionDescriptor, encode_instruction

SHARED, TENSOR_RACE = "race-shared-memory", "race-tensor-memory"
FREE = 2
"""The barrier at which both CTAs say that they have read."""


def at(rank: int, text: str) -> str:
    """In one CTA of the cluster."""
    return f"{{ setp.ne.u32 %s, %rank, {rank}; @%s bra ELSEWHERE; {text} ELSEWHERE: bar.warp.sync -1; }}"


def cluster(*warps: str, **more) -> str:
    """A kernel of clusters whose CTAs meet before and behind all that they do."""
    return kernel(*warps, **({"then": MEET, "end": MEET} | more))


def duo(name: str, rule: str, wrong: str, right: str) -> Situation:
    """A line of a table, of one cluster of two CTAs."""
    return of(name, rule, wrong, right, grid=2, cluster=2)


def multicast(tile: int, bar: int, mask: int = 3) -> str:
    """A bulk copy by CTA 0 into a tile of the CTAs of a mask."""
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    return at(0, once(f"mov.b16 %mask, {mask}; {copy} [%v+{TILE * tile}], [%p_out], {COPIED}, [%b+{8 * bar}], %mask;"))


def tell(rank: int, bar: int) -> str:
    """Arrive at a barrier of a CTA."""
    return once(
        f"add.u32 %far, %b, {8 * bar}; mapa.shared::cluster.u32 %far, %far, {rank};"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];"
    )


def send(tile: int, rank: int) -> str:
    """Store to a tile of a CTA."""
    return f"add.u32 %far, %w, {TILE * tile}; mapa.shared::cluster.u32 %far, %far, {rank};" + (
        "st.shared::cluster.u32 [%far], %lane;"
    )


BOTH = expect(0) + multicast(0, 0)
AGAIN = expect(1) + multicast(0, 1) + wait(1)
COUNTS = (1, 1, 2, 1)

MULTICAST = (
    duo("a CTA reads what a peer copies for it, and does not wait", SHARED,
       cluster(BOTH + at(1, read(0)) + wait(0)), cluster(BOTH + wait(0) + at(1, read(0)))),
    duo("the bytes are announced in one of two CTAs", "hang",
       cluster(at(0, expect(0)) + multicast(0, 0) + wait(0)), cluster(BOTH + wait(0))),
    duo("the mask leaves out a CTA that waits", "hang",
       cluster(expect(0) + multicast(0, 0, 1) + wait(0)), cluster(BOTH + wait(0))),
    duo("the mask names a CTA that does not wait", SHARED,
       cluster(at(0, expect(0)) + at(1, fill(0)) + multicast(0, 0) + at(0, wait(0)) + at(1, expect(0) + wait(0))),
       cluster(at(0, expect(0)) + at(1, fill(0)) + multicast(0, 0, 1) + at(0, wait(0)))),
    duo("a tile is copied into again while the peer reads it", SHARED,
       cluster(BOTH + wait(0) + read(0) + FENCE + at(0, arrive(FREE) + arrive(FREE) + wait(FREE)) + AGAIN,
               counts=COUNTS),
       cluster(BOTH + wait(0) + read(0) + FENCE + tell(0, FREE) + at(0, wait(FREE)) + AGAIN, counts=COUNTS)),
)  # fmt: skip

MADE = once("mbarrier.init.shared::cta.b64 [%b], 1; fence.mbarrier_init.release.cluster;")
SENT = """mapa.shared::cluster.u32 %far, %w, 1; mapa.shared::cluster.u32 %x1, %b, 1;
st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%far], %lane, [%x1];"""

PEERS = (
    duo("a CTA reads what a peer stores, and does not wait", SHARED,
       cluster(at(0, send(0, 1) + tell(1, 0)) + at(1, read(0) + wait(0))),
       cluster(at(0, send(0, 1) + tell(1, 0)) + at(1, wait(0) + read(0)))),
    duo("a CTA reads what a peer stores asynchronously, and does not wait", SHARED,
       cluster(at(1, expect(0)) + MEET + at(0, SENT) + at(1, read(0) + wait(0))),
       cluster(at(1, expect(0)) + MEET + at(0, SENT) + at(1, wait(0) + read(0)))),
    duo("a peer is told before the store", SHARED,
       cluster(at(0, tell(1, 0) + send(0, 1)) + at(1, wait(0) + read(0))),
       cluster(at(0, send(0, 1) + tell(1, 0)) + at(1, wait(0) + read(0)))),
    duo("a barrier of a peer is used before the peer has made it", "peer-not-started",
       cluster(at(0, tell(1, 0)) + at(1, wait(0)), then=""), cluster(at(0, tell(1, 0)) + at(1, wait(0)))),
    duo("a CTA waits at a barrier that only its peer has made", "fault",
       cluster(wait(0, 1), counts=(0, 1), first=at(0, MADE)), cluster(wait(0, 1), counts=(0, 1), first=MADE)),
    duo("a CTA leaves while a peer stores to it", "exit-before-peer",
       cluster(at(0, send(0, 1)), end="bar.sync 0;"), cluster(at(0, send(0, 1)))),
)  # fmt: skip

SHAPE = encode_instruction(InstructionDescriptor(kind="f16", d_type="f32", a_type="f16", b_type="f16", m=256, n=32))
ALLOC = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32;"
LOOK = THEN.replace("mov.b32 %id", f"mov.b32 %id, {SHAPE}; mov.b32 %far")
MULTIPLY = at(0, once(
    "tcgen05.mma.cta_group::2.kind::f16 [%d], %da, %db, %id, %no;"
    "mov.b16 %mask, MASK; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [%b], %mask;"
))  # fmt: skip
DONE = wait(0) + AFTER
LOOKED = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%x2}}, [%d]; {LD_WAIT}"


def pair(body: str, *, mask: int = 3, met: str = MEET) -> str:
    """A kernel of CTA pairs of one warp: operands of zeros, columns for both, a body, and columns given back."""
    return kernel(
        body.replace("MASK", str(mask)),
        first=ZERO + FENCE + met + ALLOC,
        then=MEET + LOOK,
        end=BEFORE + MEET + AFTER,
        last="tcgen05.dealloc.cta_group::2.sync.aligned.b32 %d, 32;",
    )


RIGHT = pair(MULTIPLY + DONE + LOOKED)
PAIRS = (
    duo("the second CTA of a pair reads its accumulator, and does not wait", TENSOR_RACE,
       pair(MULTIPLY + at(0, DONE) + LOOKED + at(1, DONE)), RIGHT),
    duo("the commit tells one CTA of a pair", "hang", pair(MULTIPLY + DONE + LOOKED, mask=1), RIGHT),
    duo("the second CTA stores over its operand before the product is waited for", SHARED,
       pair(MULTIPLY + at(1, fill(0)) + DONE), pair(MULTIPLY + DONE + at(1, fill(0)))),
    duo("the first CTA multiplies before the second has its operands", SHARED,
       pair(at(1, fill(0) + FENCE) + MULTIPLY + DONE), pair(at(1, fill(0) + FENCE) + MEET + MULTIPLY + DONE)),
    duo("a pair allocates before both CTAs run", "pair-allocation",
       pair(MULTIPLY + DONE + LOOKED, met=""), RIGHT),
    duo("the second CTA stores its operand without a proxy fence", SHARED,
       pair(at(1, fill(0)) + MEET + MULTIPLY + DONE), pair(at(1, fill(0) + FENCE) + MEET + MULTIPLY + DONE)),
)  # fmt: skip

REQUEST = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answers], [%b+{}];"
ANSWER = """ld.shared.b128 %h, [answers]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %s, %h;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x2, %x3, %x4, _}, %h;"""


def ask(bar: int) -> str:
    return expect(bar, 16) + once(REQUEST.format(8 * bar))


def twice(between: str, asker: str = FENCE, reader: str = FENCE) -> str:
    """A warp asks again where work was granted; another one reads the first answer too."""
    more = f"{{ @!%s bra DECLINED; {between} {ask(1)} {wait(1)} DECLINED: bar.warp.sync -1; }}"
    return kernel(ask(0) + wait(0) + ANSWER + asker + more, wait(0) + ANSWER + reader + arrive(FREE))


def both_ask(reader: str = FENCE) -> str:
    """CTA 0 asks for both CTAs, and again when both have given the first answer back."""
    everywhere = REQUEST.replace("bytes.b128", "bytes.multicast::cluster::all.b128")
    first, second = (expect(bar, 16) + at(0, once(everywhere.format(8 * bar))) for bar in (0, 1))
    back = at(0, FENCE) + at(1, reader) + tell(0, FREE)
    more = f"{{ @!%r bra DECLINED; {at(0, wait(FREE))} {second} {wait(1)} DECLINED: bar.warp.sync -1; }}"
    return cluster(first + wait(0) + ANSWER.replace("%s", "%r") + back + more, counts=COUNTS)


CONTROL = (
    of("an answer is read before it is waited for", SHARED,
         kernel(ask(0) + ANSWER + wait(0)), kernel(ask(0) + wait(0) + ANSWER)),
    of("an answer of fewer bytes is announced", "hang",
         kernel(expect(0, 8) + once(REQUEST.format(0)) + wait(0)), kernel(ask(0) + wait(0) + ANSWER)),
    of("a request overwrites an answer that a warp reads", SHARED, twice(""), twice(wait(FREE)), grid=4),
    of("the CTA of a declined request is used", "declined-request-used",
         kernel(ask(0) + wait(0) + ANSWER + "st.global.u32 [%g], %x2;"),
         kernel(ask(0) + wait(0) + ANSWER + "@!%s bra NONE; st.global.u32 [%g], %x2; NONE: bar.warp.sync -1;")),
    of("a request follows one that was declined", "launch-control-after-decline",
         kernel(ask(0) + wait(0) + ANSWER + FENCE + ask(1) + wait(1) + ANSWER),
         kernel(ask(0) + wait(0) + ANSWER)),
    of("a request follows the read of an answer without a proxy fence", "proxy-fence-missing",
         twice(wait(FREE), asker=""), twice(wait(FREE)), grid=4),
    of("a warp gives an answer back without a proxy fence behind its read", "proxy-fence-missing",
         twice(wait(FREE), reader=""), twice(wait(FREE)), grid=4),
    of("a peer gives an answer back without a proxy fence behind its read", "proxy-fence-missing",
         both_ask(reader=""), both_ask(), grid=8, cluster=2),
    of("a warp gives an answer back, and the proxy fence is for global memory", "proxy-fence-wrong",
         twice(wait(FREE), reader=FENCE.replace("shared::cta", "global")), twice(wait(FREE)), grid=4),
)  # fmt: skip

CLUSTERS = (*MULTICAST, *PEERS, *PAIRS, *CONTROL)
