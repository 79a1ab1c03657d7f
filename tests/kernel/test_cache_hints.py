"""Copies that say what L2 should keep (``--cache-hints``): the same kernels with hints, and the same results."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel.test_random_problems import problems
from support.oracles import oracles_agree

import convc
from convc.compiler.compile import compile_problem
from convc.compiler.index.order_names import COLUMNS, HILBERT, ROWS
from convc.compiler.index.traffic import Bytes
from convc.compiler.options import ScheduleOptions
from convc.compiler.plan.cache_hints import Readers, choose_hints
from convc.compiler.plan.names import EVICT_FIRST, EVICT_LAST
from convc.compiler.planner.search import plan
from convc.compiler.schedules.all import SCHEDULES, STATIONARY
from convc.errors import InputError
from convc.host_layout.device_layout import device_layout
from convc.ir.epilogue import AddResidual
from convc.ir.problem import ConvProblem
from convc.support.resources import model_folder

SHARED = ConvProblem(
    batch=3, in_channels=64, out_channels=128, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1)
)
POINTWISE = ConvProblem(
    batch=5, in_channels=64, out_channels=96, in_extent=(8, 8), kernel=(1, 1), epilogue=(AddResidual(),)
)
STEM = ConvProblem(batch=2, in_channels=3, out_channels=32, in_extent=(24, 24), kernel=(5, 5), stride=(2, 2))
SCALED = ConvProblem(batch=2, in_channels=64, out_channels=96, in_extent=(9, 9), kernel=(1, 1), operand="nvfp4")
FORMS: tuple[tuple[ConvProblem, dict[str, object]], ...] = (
    *((SHARED, {"schedule": each.name, "shift": each.variant or "auto"}) for each in SCHEDULES),
    (POINTWISE, {"schedule": "reload", "store": "tma", "residual_load": "tma", "persistent": "on", "ctas": 2}),
    (POINTWISE, {"schedule": "reload", "cta_group": "2", "rasterization_order": "columns"}),
    (SHARED, {"schedule": "reload", "multicast": "2x2", "persistent": "off"}),
    (SHARED, {"schedule": "slide", "filters": "together", "cta_group": "2"}),
    (POINTWISE, {"schedule": "reload", "tile_scheduler": "dynamic", "persistent": "on"}),
    (SHARED, {"schedule": "reload", "split_k": "2"}),
    (STEM, {"schedule": "reload", "columns": "overlap"}),
    (SCALED, {"schedule": "reload"}),
    (SHARED, {"schedule": "reload", "target": "sm_90a"}),
    (SHARED, {"schedule": "slide", "target": "sm_90a"}),
    (POINTWISE, {"schedule": "reload", "target": "sm_90a", "persistent": "on", "ctas": 2, "store": "tma"}),
)
MAPS = {"activations": "map_a", "filters": "map_b", "residual": "map_residual"}
COPY = re.compile(r"cp\.async\.bulk\.tensor\S+complete_tx::bytes(\S*)\s+\[[^]]*\], \[%(\w+), [^;]*?(%evict_\w+)?;")


def without_hints(text: str) -> str:
    """The kernel that is left when policies, and all that names them, are taken away."""
    text = re.sub(r" *//@ step=\w+\.evict_\w+ [^\n]*\n *\{\n[^}]*\}\n", "", text)
    text = re.sub(r" *\.reg \.b64 (%evict_\w+(, )?)+;\n", "", text)
    return re.sub(r"\.L2::cache_hint|, %evict_\w+", "", text)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("problem", "form"), FORMS, ids=[" ".join(str(each) for each in form.values() if each) for _, form in FORMS]
)
def test_every_schedule_says_on_its_copies_what_the_plan_says(problem, form, assembled):
    width = None if form["schedule"] == STATIONARY.name else 32
    made = compile_problem(problem, options=ScheduleOptions(cache_hints="on", **form), block_n=width)
    text = made.artifact.ptx
    hints = made.plan.launch.hints
    planned = {MAPS[name]: getattr(hints, name) for name in MAPS}
    planned |= {f"map_scales_{name}": planned[f"map_{name}"] for name in "ab"}
    copies = [(name, policy) for _, name, policy in COPY.findall(text)]
    assert {name for name, _ in copies} >= {"map_a", "map_b"}
    assert all(policy == (f"%{planned[name]}" if planned[name] else "") for name, policy in copies)
    assert text.count(".L2::cache_hint") == sum(bool(policy) for _, policy in copies) > 0
    for policy in {policy for _, policy in copies} - {""}:
        assert text.count(f".b64 {policy}, 1.0;") == 1
        assert text.index(f".b64 {policy}, 1.0;") < text.index(".L2::cache_hint")
    plain = compile_problem(problem, options=ScheduleOptions(**form), block_n=width)
    assert without_hints(text) == plain.artifact.ptx
    assert assembled(text, form.get("target", "sm_100a")).spill_bytes == 0


@settings(max_examples=8, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(problems("f16"), st.sampled_from(["sm_100a", "sm_90a"]), st.integers(0, 2**32 - 1))
def test_results_do_not_depend_on_hints(assembled, problem, target, seed):
    options = ScheduleOptions(schedule="reload", cache_hints="on", target=target)
    made = oracles_agree(problem, seed, assembled, options, block_n=16)
    assert made.plan.launch.hints.any


def test_a_folder_says_what_was_asked(tmp_path):
    """A plan that was written down leads to the same kernel, and hints change nothing that a launch computes."""
    model = model_folder() / "tiny_two_convs.onnx"
    hinted = ScheduleOptions(schedule="reload", cache_hints="on")
    build = convc.compile(model, tmp_path / "hinted", schedule=hinted)
    found = convc.inspect(tmp_path / "hinted", "head")
    assert ".L2::cache_hint" in found.text
    assert found.compiled.artifact.ptx == found.text
    assert "filters: evict_first, read once" in str(found)
    x = np.arange(16 * 64, dtype=np.float32).reshape(1, 16, 8, 8) / 64
    plain = convc.compile(model, tmp_path / "plain", schedule=ScheduleOptions(schedule="reload"))
    assert np.array_equal(convc.run(build, x, "head"), convc.run(plain, x, "head"))


def readers(activations, filters, order=ROWS, taps=False, sizes=(400, 100), l2=1000) -> Readers:
    size = Bytes(activation=sizes[0], filter=sizes[1], residual=0, output=700, l2=l2)
    return Readers(activations=activations, filters=filters, taps=taps, residual=False, order=order, size=size)


@pytest.mark.parametrize(
    ("of", "activations", "filters"),
    [
        (readers(1, 49), EVICT_FIRST, EVICT_LAST),
        (readers(1, 49, taps=True), None, EVICT_LAST),
        (readers(4, 1), EVICT_LAST, EVICT_FIRST),
        (readers(4, 49, l2=500), EVICT_LAST, EVICT_LAST),
        (readers(4, 49, l2=499), EVICT_LAST, None),
        (readers(4, 1, l2=300), EVICT_LAST, EVICT_FIRST),
        (readers(1, 49, l2=300), EVICT_FIRST, EVICT_LAST),
        (readers(4, 49, order=COLUMNS, l2=450), None, EVICT_LAST),
        (readers(4, 49, order=HILBERT, l2=450), None, EVICT_LAST),
        (readers(4, 49, order=HILBERT, sizes=(100, 400), l2=450), EVICT_LAST, None),
        (readers(4, 49, l2=300), None, EVICT_LAST),
        (readers(4, 49, order=COLUMNS, sizes=(100, 400), l2=300), EVICT_LAST, None),
        (readers(1, 1), EVICT_FIRST, EVICT_FIRST),
    ],
)
def test_what_is_read_again_stays(of, activations, filters):
    hints = choose_hints("on", of)
    assert (hints.activations, hints.filters) == (activations, filters)
    assert all(
        str(priority or "no hint") in why for priority, why in zip((activations, filters), hints.why, strict=True)
    )
    assert choose_hints("estimate", of) == hints
    held = readers(4, 49, l2=1200)
    assert choose_hints("estimate", held).why == ("no cache hints: L2 holds all 1200 bytes",)
    assert not choose_hints("estimate", held).any


def test_readers_are_the_tiles_that_ask_for_the_same_bytes():
    def why(**form) -> tuple[str, ...]:
        options = ScheduleOptions(schedule="reload", split_k="off", **{"persistent": "off", **form})
        return plan(device_layout(SHARED), options=options, block_n=32).launch.hints.why

    assert why() == ()
    alone = why(cache_hints="on", cta_group="1")
    assert alone == (
        "activations: evict_last, read for 4 tiles of channels",
        "filters: evict_last, read for 4 tiles of pixels",
    )
    assert "for 2 tiles of pixels" in why(cache_hints="on", cta_group="2")[1]
    assert "for 2 tiles of pixels" in why(cache_hints="on", cta_group="1", multicast="2x1")[1]
    with pytest.raises(InputError, match="cache_hints must be one of auto, estimate, off, on, got 'always'"):
        why(cache_hints="always")
