"""The mistakes that a kernel which shares activations invites, one by one: each must be noticed."""

from __future__ import annotations

import re

import pytest
from sabotage_caught import caught, with_mistake

UNAWAITED = "a halo short by one pixel, and nobody waits for it"

TEXTS = {
    "a mask off by one lane": (
        "slide", r"(vote\.sync\.ballot\.b32 %word, %masked, 0xffffffff;)", r"\1 shl.b32 %word, %word, 1;",
    ),
    "a halo short by one pixel": (
        "slide", r"mov\.b16 %more, 2;", "mov.b16 %more, 1;",
    ),
    UNAWAITED: (
        "slide", r"mov\.b16 %more, 2;", "mov.b16 %more, 1;",
    ),
    "a shift too many": (
        "shift chain", r"(tcgen05\.shift\.cta_group::1\.down \[%to\];)", r"\1 \1",
    ),
    "a shift too few": (
        "shift chain", r"tcgen05\.shift\.cta_group::1\.down \[%to\];", "",
    ),
    "a refresh from the wrong row": (
        "shift chain", r"(mad\.lo\.u32 %word, %halo, 32, %word;)", r"\1 add.u32 %word, %word, 8;",
    ),
    "no wait between .ashift and the refresh": (
        "shift ashift", r"mma_settle_retry:\s+mbarrier[^;]*;\s+@!%passed bra mma_settle_retry;", "",
    ),
    "a first MMA that is masked without clearing": (
        "shift ashift", r"tcgen05\.st\.sync[^;]*;", "",
    ),
    "windows that do not overlap": (
        "shift windows", r"mad\.lo\.s32 (%\w+), %window, 30, ", r"mad.lo.s32 \1, %window, 32, ",
    ),
    "a zeroed column too many": (
        "stationary", r"selp\.b32 %high, 0x00(..)0081", r"selp.b32 %high, 0x00\g<1>0181",
    ),
    "pixels shifted by one column too few": (
        "stationary", r"mov\.b32 %high, 0x01000000;", "mov.b32 %high, 0x00000000;",
    ),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("mistake", TEXTS)
def test_the_mistake_is_noticed(mistake):
    name, pattern, replacement = TEXTS[mistake]
    text = with_mistake(name, pattern, replacement)
    if mistake == UNAWAITED:
        size = re.search(r"step=load\.expect_a[\s\S]*?, (\d+);", text)
        text = text[: size.start(1)] + str(int(size[1]) - 128) + text[size.end(1) :]
    assert caught(name, text)
