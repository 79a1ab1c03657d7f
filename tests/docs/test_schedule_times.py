"""What `schedules.md` says that schedules take by the timing engine is what it says today."""

from __future__ import annotations

from functools import cache

import pytest
from network_profile import resnet50
from pages import DOCS

import convc
from benchmarks.ablation import LAYERS
from benchmarks.layers import square
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.timing.kernel import time_kernel
from convc.timing.parameters import read_chip

PRODUCT = LAYERS["GEMM 4096 x 4096 x 4096"]
VGG = LAYERS["VGG conv3, 3x3, 256 -> 256"]
STEM = square(64, 64, 56, kernel=3, batch=32)
WIDE = square(256, 256, 14, kernel=3, batch=32)
LONG = LAYERS["ResNet-50 layer4, 1x1, 2048 -> 512"]
ALONE = {"cta_group": "1", "persistent": "off"}
PERSISTENT = {"cta_group": "1", "persistent": "on"}
PERSISTENT_PAIRS = {"cta_group": "2", "persistent": "on"}
MASKED = {"schedule": "slide", "border": "mask", "store": "tma"}
OWN = {"schedule": "reload", **ALONE}
TMA = {"schedule": "slide", **PERSISTENT, "store": "tma"}
DIRECT = {"schedule": "slide", **PERSISTENT, "store": "direct"}
NARROW = square(64, 64, 56, batch=32)
DYNAMIC = {**PERSISTENT, "tile_scheduler": "dynamic"}


def third(channels: int, extent: int):
    """A 3x3 layer of ResNet-50 at batch 256."""
    return square(channels, channels, extent, kernel=3, batch=256)


SAID = {
    "the first 3x3 layer of 64 channels of ResNet-50 at batch 32 takes {us} us with them, and {us} with direct stores "
    "(`slide`, persistent CTAs). With a box the layer of 256 channels takes {us} us instead of {us}.": [
        (STEM, TMA), (STEM, DIRECT), (WIDE, TMA), (WIDE, DIRECT),
    ],
    "the 3x3 layer of 512 channels of ResNet-50 takes {us} us at batch 256 by `slide` with masks, persistent 2-CTA MMA "
    "and `--store tma` (`reload`: {us}), and {us} with a CTA for each tile.": [
        (third(512, 7), MASKED | PERSISTENT_PAIRS), (third(512, 7), {"schedule": "reload"} | PERSISTENT_PAIRS),
        (third(512, 7), MASKED | {"cta_group": "2", "persistent": "off"}),
    ],
    "the first 3x3 layer of 64 channels of ResNet-50 at batch 32 takes {cycles} cycles with a CTA for each tile, and "
    "{cycles} with persistent CTAs; the 1x1 layer from 64 to 256 channels {cycles} and {cycles}, the one from 256 to "
    "64 channels at batch 256 {cycles} and {cycles}.": [
        (STEM, ALONE), (STEM, PERSISTENT),
        (square(64, 256, 56, batch=32), ALONE), (square(64, 256, 56, batch=32), PERSISTENT),
        (square(256, 64, 56, batch=256), ALONE), (square(256, 64, 56, batch=256), PERSISTENT),
    ],
    "the 1x1 layer of 64 channels of ResNet-50 at batch 32 takes {cycles} cycles with the dynamic and {cycles} with "
    "the static scheduler, the 3x3 layer {cycles} and {cycles},": [
        (NARROW, DYNAMIC), (NARROW, PERSISTENT), (STEM, DYNAMIC), (STEM, PERSISTENT),
    ],
    "a product of 4096 x 4096 x 4096 takes {us} us with persistent 2-CTA MMA, {us} without either, {us} "
    "with persistent CTAs alone. What `auto` takes for the first 3x3 layers of ResNet-50 at batch 256 takes {us} us "
    "instead of {us} without pairs (128 channels), {us} instead of {us} (256) and {us} instead of {us} (512).": [
        (PRODUCT, PERSISTENT_PAIRS), (PRODUCT, ALONE), (PRODUCT, PERSISTENT),
        *((third(c, e), options) for c, e in ((128, 28), (256, 14), (512, 7)) for options in ({}, {"cta_group": "1"})),
    ],
    "a product of 4096 x 4096 x 4096 takes {us} us in clusters of 2 x 1, 1 x 2 or 2 x 2 with a CTA for each tile, {us} "
    "where each CTA loads for itself;": [
        (PRODUCT, OWN | {"multicast": "2x1"}), (PRODUCT, OWN),
    ],
    "The 3x3 layer of 256 channels of VGG at batch 32 takes {us} us (2 x 1) instead of {us}.": [
        (VGG, OWN | {"multicast": "2x1"}), (VGG, OWN),
    ],
    "the 3x3 layer of 256 channels of ResNet-50 at batch 32 takes {us} us instead of {us}": [
        (WIDE, OWN | {"multicast": "2x1"}), (WIDE, OWN),
    ],
    "its 1x1 layer from 2048 to 512 channels {us} instead of {us}.": [
        (LONG, OWN | {"multicast": "2x1"}), (LONG, OWN | {"split_k": "off"}),
    ],
}  # fmt: skip
"""Sentences of the page, and the layers with their options that give the numbers, in their order."""


@cache
def taken(problem, options: tuple) -> dict[str, str]:
    """Cycles and microseconds of a layer on a B200, as the page writes them."""
    made = compile_problem(problem, options=ScheduleOptions(**dict(options)))
    time = time_kernel(made.artifact.ptx, made.artifact.launch, {}, read_chip("b200"))
    return {"cycles": f"{time.cycles:,.0f}", "us": f"{time.microseconds:.1f}"}


@pytest.mark.slow
def test_the_times_of_schedules_are_those_of_the_engine():
    page = " ".join((DOCS / "schedules.md").read_text("utf-8").split())
    stale = []
    for sentence, cases in SAID.items():
        said = sentence
        for problem, options in cases:
            number = taken(problem, tuple(options.items()))
            unit = min(number, key=lambda each: said.find(f"{{{each}}}") % (1 << 30))
            said = said.replace(f"{{{unit}}}", number[unit], 1)
        if said not in page:
            stale.append(said)
    assert not stale, "\n".join(stale)


@pytest.mark.slow
def test_what_split_k_is_worth_for_a_network():
    read = convc.ReadOptions(dtype="f16")
    split = convc.time(resnet50(1), read=read)
    whole = convc.time(resnet50(1), read=read, schedule=ScheduleOptions(split_k="off"))
    both = [
        (f"{a.kernel.microseconds:.1f}", f"{b.kernel.microseconds:.1f}")
        for a, b in zip(split.layers, whole.layers, strict=True)
    ]
    assert all(float(shared) <= float(alone) for shared, alone in both), "none of the layers gets slower"
    names = [layer.name for layer in split.layers]
    long, middle, flat = (both[names.index(name)] for name in ("n155", "n93", "n162"))
    page = " ".join((DOCS / "schedules.md").read_text("utf-8").split())
    said = (
        f"all convolutions of ResNet-50 take {split.microseconds:.1f} us instead of {whole.microseconds:.1f}: its 3x3 "
        f"layers of 512 channels {long[0]} instead of {long[1]} (stride 1), those of 256 channels {middle[0]} instead "
        f"of {middle[1]}, the 1x1 layers from 2048 to 512 channels {flat[0]} instead of {flat[1]}."
    )
    assert said in page, said


@pytest.mark.slow
def test_what_copies_of_a_residual_are_worth():
    cycles: list[str] = []
    for way in ("tma", "direct"):
        options = ScheduleOptions(residual_load=way)
        report = convc.time(resnet50(32), layer="n12", read=convc.ReadOptions(dtype="f16"), schedule=options)
        cycles.append(f"{report.layers[0].kernel.cycles:,.0f}")
    page = " ".join((DOCS / "schedules.md").read_text("utf-8").split())
    said = f"at batch 32 the timing engine says {cycles[0]} cycles with them and {cycles[1]} without"
    assert said in page, said
