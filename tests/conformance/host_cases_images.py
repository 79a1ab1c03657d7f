"""Cases of operators that resize, pad, sample and shuffle images."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from conformance.host_cases import HostCase, case, counts, floats, ints, normal


def images_cases() -> Iterator[HostCase]:
    """All of them."""
    for part in (_resizes, _upsamples, _pads, _samplers, _shuffles):
        yield from part()


def _resizes() -> Iterator[HostCase]:
    x = normal(1, 2, 5, 6)
    plain = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for mode, how in itertools.product(("nearest", "linear", "cubic"), plain):
        for what, scales in {"up": (1, 1, 2, 3), "down": (1, 1, 0.6, 0.5), "odd": (1, 1, 1.7, 1.35)}.items():
            yield case(
                "Resize",
                f"{mode} {how} {what}",
                x,
                None,
                floats(*scales),
                mode=mode,
                coordinate_transformation_mode=how,
                opsets=(13, 99),
            )
            yield case(
                "Resize",
                f"{mode} {how} {what}",
                x,
                floats(),
                floats(*scales),
                mode=mode,
                coordinate_transformation_mode=how,
                opsets=(11, 12),
            )
        yield case(
            "Resize",
            f"{mode} {how} sizes",
            x,
            None,
            None,
            ints(1, 2, 8, 9),
            mode=mode,
            coordinate_transformation_mode=how,
            opsets=(13, 99),
        )
        yield case(
            "Resize",
            f"{mode} {how} sizes",
            x,
            floats(),
            floats(),
            ints(1, 2, 8, 9),
            mode=mode,
            coordinate_transformation_mode=how,
            opsets=(11, 12),
        )
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for how in plain:
            yield case(
                "Resize",
                f"{rounding} {how}",
                x,
                None,
                floats(1, 1, 1.5, 0.75),
                nearest_mode=rounding,
                coordinate_transformation_mode=how,
                opsets=(13, 99),
            )
    for mode in ("nearest", "linear", "cubic"):
        yield case(
            "Resize",
            f"{mode} half_pixel_symmetric",
            x,
            None,
            floats(1, 1, 1.7, 0.7),
            mode=mode,
            coordinate_transformation_mode="half_pixel_symmetric",
            opsets=(19, 99),
        )
        yield case(
            "Resize",
            f"{mode} crop",
            x,
            floats(0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9),
            None,
            ints(1, 2, 4, 4),
            mode=mode,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=7.0,
            opsets=(13, 99),
        )
        yield case("Resize", f"{mode} axes", x, None, floats(2, 1.5), mode=mode, axes=[2, 3], opsets=(18, 99))
        yield case("Resize", f"{mode} two axes", x, None, None, ints(7, 7), mode=mode, axes=[3, 2], opsets=(18, 99))
        for policy in ("not_larger", "not_smaller"):
            yield case(
                "Resize",
                f"{mode} {policy}",
                x,
                None,
                None,
                ints(7, 7),
                mode=mode,
                axes=[2, 3],
                keep_aspect_ratio_policy=policy,
                opsets=(18, 99),
            )
        yield case("Resize", f"{mode} sequence", normal(1, 2, 9), None, floats(1, 1, 2.5), mode=mode, opsets=(13, 99))
        yield case(
            "Resize", f"{mode} volume", normal(1, 2, 3, 4, 5), None, floats(1, 1, 2, 2, 2), mode=mode, opsets=(13, 99)
        )
    for mode in ("linear", "cubic"):
        yield case(
            "Resize", f"{mode} antialias", x, None, floats(1, 1, 0.6, 0.5), mode=mode, antialias=1, opsets=(18, 99)
        )
    for rate in (-0.5, -0.75):
        yield case(
            "Resize", f"cubic {rate}", x, None, floats(1, 1, 2, 2), mode="cubic", cubic_coeff_a=rate, opsets=(13, 99)
        )
    yield case(
        "Resize", "cubic exclude outside", x, None, floats(1, 1, 2, 2), mode="cubic", exclude_outside=1, opsets=(13, 99)
    )
    yield case("Resize", "set 10 nearest", x, floats(1, 1, 2, 2), opsets=(10, 10))
    yield case("Resize", "set 10 nearest down", x, floats(1, 1, 0.5, 0.6), opsets=(10, 10))
    yield case("Resize", "set 10 linear", x, floats(1, 1, 2, 3), mode="linear", opsets=(10, 10))
    yield case(
        "Resize", "bytes", counts(1, 1, 4, 4, low=0, high=200, dtype="u1"), None, floats(1, 1, 2, 2), opsets=(13, 99)
    )


def _upsamples() -> Iterator[HostCase]:
    x = normal(1, 2, 5, 6)
    for mode in ("nearest", "linear"):
        yield case("Upsample", mode, x, mode=mode, scales=[1.0, 1.0, 2.0, 3.0], opsets=(7, 8))
        yield case("Upsample", mode, x, floats(1, 1, 2, 3), mode=mode, opsets=(9, 9))
        yield case("Upsample", f"{mode} odd", x, floats(1, 1, 1.5, 2.5), mode=mode, opsets=(9, 9))


def _pads() -> Iterator[HostCase]:
    x = normal(1, 2, 4, 5)
    for mode in ("constant", "edge", "reflect", "wrap"):
        for what, pads in {
            "all": (0, 0, 1, 2, 0, 0, 2, 1),
            "crop": (0, 0, -1, 0, 0, 0, 0, -2),
            "both": (0, 0, -1, 2, 0, 0, 1, -1),
            "batch": (1, 0, 0, 0, 0, 1, 0, 0),
        }.items():
            if mode == "reflect" and what == "batch":
                continue
            yield case("Pad", f"{mode} {what}", x, ints(*pads), mode=mode, opsets=(11, 99))
            yield case("Pad", f"{mode} {what}", x, pads=list(pads), mode=mode, opsets=(7, 10))
    yield case("Pad", "value", x, ints(0, 0, 1, 1, 0, 0, 1, 1), floats(7).reshape(()), opsets=(11, 99))
    yield case("Pad", "value attribute", x, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=7.0, opsets=(7, 10))
    yield case("Pad", "axes", x, ints(1, 2, 0, 1), floats(3).reshape(()), ints(2, -1), opsets=(18, 99))
    yield case("Pad", "axes unsorted", x, ints(1, 2, 0, 1), None, ints(3, 1), opsets=(18, 99))
    yield case("Pad", "whole numbers", counts(2, 3), ints(0, 1, 1, 0), np.array(-4, "i4"), opsets=(11, 99))
    yield case("Pad", "far reflection", normal(1, 1, 6), ints(0, 0, 5, 0, 0, 5), mode="reflect", opsets=(11, 99))


def _samplers() -> Iterator[HostCase]:
    x = normal(2, 3, 6, 7)
    grid = (np.random.default_rng(2).uniform(-1.3, 1.3, (2, 4, 5, 2))).astype("f4")
    names = {16: ("bilinear", "nearest", "bicubic"), 20: ("linear", "nearest", "cubic")}
    for first, modes in names.items():
        for mode, pad, align in itertools.product(modes, ("zeros", "border", "reflection"), (0, 1)):
            yield case(
                "GridSample",
                f"{mode} {pad} {align}",
                x,
                grid,
                mode=mode,
                padding_mode=pad,
                align_corners=align,
                opsets=(first, 19 if first == 16 else 99),
            )
        yield case("GridSample", "defaults", x, grid, opsets=(first, 19 if first == 16 else 99))
    volume = np.random.default_rng(2).uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype("f4")
    for mode, align in itertools.product(("linear", "nearest"), (0, 1)):
        yield case(
            "GridSample",
            f"volume {mode} {align}",
            normal(1, 2, 4, 4, 4),
            volume,
            mode=mode,
            align_corners=align,
            opsets=(20, 99),
        )
    theta = np.array([[[1, 0.2, 0.1], [-0.1, 0.9, -0.3]]], "f4")
    for align in (0, 1):
        yield case("AffineGrid", f"2d {align}", theta, ints(1, 2, 4, 5), align_corners=align)
        yield case("AffineGrid", f"3d {align}", normal(1, 3, 4), ints(1, 2, 3, 4, 5), align_corners=align)
    rois = np.array([[0, 0, 5, 6], [1, 2, 9, 7], [-2, -1, 3, 3]], "f4")
    batch = ints(0, 1, 0)
    for mode, ratio in itertools.product(("avg", "max"), (0, 1, 2)):
        yield case(
            "RoiAlign",
            f"{mode} {ratio}",
            normal(2, 3, 9, 9),
            rois,
            batch,
            mode=mode,
            sampling_ratio=ratio,
            output_height=3,
            output_width=2,
        )
    for how in ("half_pixel", "output_half_pixel"):
        yield case(
            "RoiAlign",
            how,
            normal(2, 3, 9, 9),
            rois,
            batch,
            coordinate_transformation_mode=how,
            sampling_ratio=2,
            output_height=3,
            output_width=2,
            opsets=(16, 99),
        )
    yield case(
        "RoiAlign",
        "scaled",
        normal(2, 3, 9, 9),
        rois * 4,
        batch,
        spatial_scale=0.25,
        sampling_ratio=2,
        output_height=3,
        output_width=2,
    )
    boxes = np.array(
        [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [1, 101, 0, 100]]],
        "f4",
    )
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.8, 0.8, 0.2, 0.6, 0.7]]], "f4")
    for what, more in {
        "all": (ints(3), floats(0.5), floats(0.4)),
        "none": (ints(0),),
        "no thresholds": (ints(2),),
        "one": (ints(1), floats(0.5), floats(0.0)),
    }.items():
        for centre in (0, 1):
            yield case(
                "NonMaxSuppression", f"{what} {centre}", boxes, scores, *more, center_point_box=centre, opsets=(10, 99)
            )


def _shuffles() -> Iterator[HostCase]:
    x = normal(1, 8, 4, 6)
    yield case("DepthToSpace", "DCR", x, blocksize=2)
    yield case("DepthToSpace", "CRD", x, blocksize=2, mode="CRD")
    yield case("SpaceToDepth", "2", x, blocksize=2)
    yield case("CenterCropPad", "pad", x, ints(5, 9), axes=[2, 3])
    yield case("CenterCropPad", "crop", x, ints(2, 3), axes=[2, 3])
    yield case("CenterCropPad", "both", x, ints(1, 5, 7, 5))
