"""Probes of a chip: the same instructions n and 5 n times, so that what surrounds them falls out of the difference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from convc.ir.launch import PointerParam, ScalarParam
from convc.probe.kernel import ProbeKernel, probe_kernel, probe_text
from convc.probe.probes import BLACKWELL, BOTH, Answer, ClockProbe
from convc.probe.tensor import f16_word, mma, place, plain, tensor_kernel
from convc.timing.parameters import chip_for, read_chip

COUNTS = (8, 40)
"""Instructions of the two launches."""

_PER = f"(cycles of {COUNTS[1]} - cycles of {COUNTS[0]}) / {COUNTS[1] - COUNTS[0]}"
"""The formula of a probe of one instruction, for people."""

ROUNDS = 8
"""Rounds of a launch; the first ones fetch instructions and warm caches."""

TILE = 16384
STREAMED = 4 * TILE
"""Bytes that a CTA reads again and again, so that they are in L2."""


def slope(answers: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Cycles of one instruction: of the quickest rounds, and the least and most of pairs of rounds but the first two.

    Args:
        answers: cycles of each round, of the launches of `COUNTS`.
    """
    few, many = (answer.reshape(-1)[:ROUNDS].astype(np.float64) for answer in answers)
    span = COUNTS[1] - COUNTS[0]
    apart = (many[2:] - few[2:]) / span
    return float(many.min() - few.min()) / span, float(apart.min()), float(apart.max())


def _measured(name: str, numbers: tuple[float, float, float]) -> Answer:
    """An answer of one parameter; none where the number cannot be one."""
    value, low, high = numbers
    if not (np.isfinite(numbers).all() and 0 < value < 1e6):
        return Answer()
    return Answer(values={name: value}, low={name: max(0.0, min(low, value))}, high={name: max(high, value)})


def _warp(body: str, target: str) -> tuple[ProbeKernel, ...]:
    given = np.ones(32, np.uint32)
    return tuple(
        probe_kernel(
            probe_text("clock", target, body * count),
            {"in": given, "out": np.zeros(ROUNDS, np.uint64)},
            threads=32,
        )
        for count in COUNTS
    )


def _instruction(name: str, question: str, parameter: str, body: str) -> ClockProbe:
    """A probe of one instruction of a warp; its result is the next one's operand."""

    def values(_target: str, answers: Sequence[np.ndarray]) -> Answer:
        return _measured(parameter, slope(answers))

    return ClockProbe(
        name=name,
        question=question,
        targets=BOTH,
        parameters=(parameter,),
        formula=_PER,
        kernel_list=functools.partial(_warp, body),
        values=values,
    )


_ROUND = """
    mov.u32 %i, 0;
again:
    mov.u64 %from, %clock64;
{body}
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];
    and.b32 %y, %i, 1;
done:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %y;
    @!%p bra done;
    mov.u64 %to, %clock64;
    sub.u64 %to, %to, %from;
    st.global.u64 [%more], %to;
    add.u64 %more, %more, 8;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 8;
    @%p bra again;
"""


def _issued(first: str, body: str, target: str) -> tuple[ProbeKernel, ...]:
    """A kernel for each count, in which one thread issues tcgen05 instructions, commits and waits."""
    image = np.zeros(16384, np.uint8)
    cells = np.zeros((128, 32), np.uint32)
    return tuple(tensor_kernel(first + _ROUND.format(body=body * count), image, cells) for count in COUNTS)


def _tail(answers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The cycles behind the columns of tensor memory."""
    return [answer.reshape(-1)[128 * 32 :].view(np.uint64)[:ROUNDS] for answer in answers]


def _tensor(
    name: str, question: str, parameter: str, first: str, body: str, formula: str, number: Callable[[float], float]
) -> ClockProbe:
    """A probe of one tcgen05 instruction; ``number`` makes the parameter of its cycles."""

    def values(_target: str, answers: Sequence[np.ndarray]) -> Answer:
        value, low, high = (number(cycles) for cycles in slope(_tail(answers)))
        return _measured(parameter, (value, min(low, high), max(low, high)))

    return ClockProbe(
        name=name,
        question=question,
        targets=BLACKWELL,
        parameters=(parameter,),
        formula=formula,
        kernel_list=functools.partial(_issued, first, body),
        values=values,
    )


def _ashift(target: str) -> tuple[ProbeKernel, ...]:
    """Products of N = 256 with A in tensor memory: both counts without .ashift, and both with it."""
    first = plain("%b", 0, 256)
    kernels: list[ProbeKernel] = []
    for mods in (".collector::a::discard", ".ashift.collector::a::discard"):
        kernels += _issued(first, mma("[0]", f16_word(128, 256), d=32, mods=mods), target)
    return tuple(kernels)


def _ashift_cycles(_target: str, answers: Sequence[np.ndarray]) -> Answer:
    """Cycles of a product with .ashift, less those of one without."""
    cycles = _tail(answers)
    without = slope(cycles[:2])
    shifted = slope(cycles[2:])
    return _measured(
        "tensor_memory.ashift", (shifted[0] - without[0], shifted[1] - without[2], shifted[2] - without[1])
    )


def _wake(target: str) -> tuple[ProbeKernel, ...]:
    """Two warps, one of which wakes the other 256 times."""
    return (probe_kernel(probe_text("wake", target, ""), {"out": np.zeros(256, np.uint64)}, threads=64),)


PASSED_ON = 50.0
"""Cycles that passing the clock on takes at most: a store to shared memory and its load (recorded on an H200)."""


def _wake_cycles(_target: str, answers: Sequence[np.ndarray]) -> Answer:
    """The quickest wake-up, and the span of all of them but the slowest twentieth."""
    cycles = np.sort(answers[0].reshape(-1)[8:].astype(np.float64))
    quickest = float(cycles[0]) - PASSED_ON
    span = float(cycles[int(0.95 * cycles.size)] - cycles[0]) / 0.95
    if not (0 < quickest < 1e6 and 0 < span < 1e6):
        return Answer()
    found = {"mbarrier.wake": quickest, "mbarrier.poll": span}
    return Answer(values=found, low=found, high=found | {"mbarrier.wake": float(cycles[0])})


def _stream(target: str) -> tuple[ProbeKernel, ...]:
    """A CTA on each SM reads tiles of its own, and then the same as all the others."""
    ctas = int(read_chip(chip_for(target))["chip.sms"])
    kernels: list[ProbeKernel] = []
    for step in (STREAMED, 0):
        pointers = PointerParam(buffer="in"), PointerParam(buffer="out")
        kernels.append(
            probe_kernel(
                probe_text("stream", target, ""),
                {"out": np.zeros(ctas, np.uint64)},
                threads=32,
                ctas=ctas,
                shared_bytes=STREAMED + 32,
                params=(*pointers, ScalarParam(dtype="u32", value=step)),
                unread={"in": ctas * STREAMED},
            )
        )
    return tuple(kernels)


def _merged(target: str, answers: Sequence[np.ndarray]) -> Answer:
    """The requests of a GPC that L2 serves as one: reading the same takes so much less time."""
    own, same = (float(np.median(answer.astype(np.float64))) for answer in answers)
    together = own / same if 0 < same <= own else 0.0
    return _measured("gpc.together_in_step", (together, together, together))


CLOCKS: tuple[ClockProbe, ...] = (
    _instruction(
        "alu",
        "How long until the result of an integer mad can be used?",
        "threads.alu",
        "    mad.lo.u32 %x, %x, %one, %one;\n",
    ),
    _instruction("divide", "How long does div.u32 take?", "threads.divide", "    div.u32 %x, %x, %one;\n"),
    _instruction(
        "shared_load",
        "How long until the result of ld.shared can be used?",
        "shared_memory.load_latency",
        "    ld.volatile.shared.u32 %x, [%x];\n",
    ),
    _instruction(
        "global_load",
        "How long until the result of ld.global from L2 can be used?",
        "threads.global_latency",
        "    ld.global.cg.u64 %far, [%far];\n    cvt.u32.u64 %x, %far;\n",
    ),
    _instruction(
        "arrive",
        "How often can a thread arrive at an mbarrier?",
        "mbarrier.arrive",
        "    mbarrier.arrive.shared::cta.b64 _, [%bar];\n",
    ),
    ClockProbe(
        name="wake",
        question="How long after the last arrival does a thread that waits for an mbarrier go on?",
        targets=BOTH,
        parameters=("mbarrier.wake", "mbarrier.poll"),
        formula=f"least of 248 wake-ups - {PASSED_ON:g}; their span",
        kernel_list=_wake,
        values=_wake_cycles,
    ),
    ClockProbe(
        name="l2_sharing",
        question="Do the SMs of a GPC share requests to L2 that are the same?",
        targets=BOTH,
        parameters=("gpc.together_in_step",),
        formula="cycles of own tiles / cycles of the same",
        kernel_list=_stream,
        values=_merged,
    ),
    _tensor(
        "shift",
        "How long does tcgen05.shift take?",
        "tensor_memory.shift",
        "",
        "    tcgen05.shift.cta_group::1.down [%c];\n",
        _PER,
        lambda cycles: cycles,
    ),
    ClockProbe(
        name="ashift",
        question="How much longer does a product with .ashift take?",
        targets=BLACKWELL,
        parameters=("tensor_memory.ashift",),
        formula=f"{_PER} with .ashift, less without",
        kernel_list=_ashift,
        values=_ashift_cycles,
    ),
    _tensor(
        "copy",
        "How fast is tcgen05.cp.128x256b?",
        "tensor_memory.copy",
        place("%a", 0, 128, 256),
        "    tcgen05.cp.cta_group::1.128x256b [%c], %a;\n",
        f"4096 / ({_PER})",
        lambda cycles: 4096 / cycles if cycles else 0.0,
    ),
    _tensor(
        "copy_least",
        "How long does tcgen05.cp.128x128b take?",
        "tensor_memory.copy_least",
        place("%a", 0, 128, 256),
        "    tcgen05.cp.cta_group::1.128x128b [%c], %a;\n",
        _PER,
        lambda cycles: cycles,
    ),
    _tensor(
        "copy_small",
        "How long does tcgen05.cp.32x128b.warpx4 take?",
        "tensor_memory.copy_small",
        place("%a", 0, 128, 256),
        "    tcgen05.cp.cta_group::1.32x128b.warpx4 [%c], %a;\n",
        _PER,
        lambda cycles: cycles,
    ),
)
"""The probes of this module."""
