"""``convc verify``: right kernels pass, one wrong element fails and is traced to who wrote it."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from support.kernel_edits import EXPECT_MORE, FORGET_8_TO_15, MISPLACE, NEVER_FREE, ONE_ULP, edited
from support.schedules import RELOAD_ONLY

import convc as package
from convc.compiler import kernels
from convc.errors import InputError
from convc.ir.launch import KernelArtifact
from convc.support.resources import make_models


@pytest.fixture
def sabotage(monkeypatch):
    """Make the compiler's text wrong: replace what matches a pattern."""
    compile_problem = kernels.compile_problem

    def edit(pattern: str, replacement: str) -> None:
        def wrong(problem, options):
            compiled = compile_problem(problem, options=RELOAD_ONLY)
            text = edited(compiled.artifact.ptx, pattern, replacement)
            artifact = KernelArtifact(ptx=text, launch=compiled.artifact.launch)
            return dataclasses.replace(compiled, artifact=artifact)

        monkeypatch.setattr(kernels, "compile_problem", wrong)

    return edit


def test_right_kernels_pass(convc, two):
    said = convc.good("verify", two, "--wide")
    for word in ("stem", "head", "reload", "tf32 -> f32", "exact, in bound", "then relu", "fused: stem + relu"):
        assert word in said
    assert "2 of 2 layers right: 2 kernels, 4 launches" in said


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32"])
def test_every_type_on_one_layer(convc, tiny, dtype):
    said = convc.good("verify", tiny, "--layer", "conv", "--dtype", dtype, "--seed", 5, "--wide")
    assert f"{dtype} -> f16" in said
    assert "seed 5" in said


def test_json_to_stdout_is_json_and_nothing_else(convc, two):
    report = json.loads(convc.good("verify", two, "--json", "-"))
    assert report["ok"] is True
    assert report["format"] == "convc-verify/3"
    assert [layer["name"] for layer in report["layers"]] == ["stem", "head"]
    for layer in report["layers"]:
        assert layer["ok"]
        counters = layer["counters"]
        assert counters["ctas"] >= 1
        assert counters["mma_b_bytes"] == counters["mma"] * 16 * 32
        assert counters["tma_loads"]["activation"]["bytes"] > counters["tma_loads"]["activation"]["filled"]
        modes = {check["mode"]: check for check in layer["checks"]}
        assert set(modes) == {"integer", "normal"}
        assert modes["integer"]["comparison"]["worst_error"] == 0
        assert 0 <= modes["normal"]["comparison"]["worst_ratio"] <= 1
        assert all(check["seconds"] > 0 for check in layer["checks"])
    assert report["skipped"] == []
    assert report["layers"][0]["fused"] == ["relu"]
    assert report["layers"][0]["problem"]["epilogue"] == [{"kind": "relu"}]


def test_counts_are_listed_when_asked(convc, tiny):
    assert "counts of" not in convc.good("verify", tiny)
    said = convc.good("verify", tiny, "--schedule", "reload", "--counts")
    assert "counts of conv:" in said
    assert re.search(r"\n  TMA loads of activation +36, 147456 bytes, \d+ of them fill\n", said)


def test_json_to_a_file_comes_with_the_table(convc, tiny, tmp_path):
    said = convc.good("verify", tiny, "--json", tmp_path / "r.json")
    assert "1 of 1 layers right" in said
    assert json.loads((tmp_path / "r.json").read_text())["ok"] is True


def test_a_wrong_element_is_traced_to_its_writer(convc, tiny, sabotage, tmp_path):
    sabotage(r"add\.rn\.f32 %v1, %v1, %b1;", "mov.f32 %v1, 0f461C4000;  // 10000")
    result = convc("verify", tiny, "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    said = result.stdout
    assert "0 of 1 layers right" in said
    assert re.search(r"integer: (\d+) WRONG, normal: \1 WRONG", said)
    assert re.search(r"  \d+ of 3456 elements are wrong", said)
    assert "the first is (n=0, k=1, p=0, q=0): got 10000.0, expected" in said
    assert "written by CTA 0, warp 0, lane 0, at" in said
    assert "(step epilogue.write)" in said
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["ok"] is False
    check = report["layers"][0]["checks"][0]
    assert check["comparison"]["first"] == [0, 1, 0, 0]
    assert (check["writer"]["cta"], check["writer"]["warp"], check["writer"]["lanes"]) == (0, 0, [0])


def test_the_writer_is_the_right_cta_and_lane(tiny, sabotage):
    """Only pixels from 128 + 5 on get a wrong value, and of them only channels 8 and 9 of each pass."""
    sabotage(r"(\n.*st\.global\.v4\.b32 \[%to\+16\])", WRONG + r"\1")
    report = package.verify(tiny, mode="integer")
    (check,) = report.layers[0].checks
    assert not check.ok
    n, k, p, q = check.comparison.first
    assert (n, k, p * 12 + q) == (0, 8, 128 + 5)
    assert (check.writer.cta, check.writer.warp, check.writer.lanes) == (1, 0, (5,))


WRONG = """
    {
        .reg .pred %late;
        setp.ge.s32 %late, %m, 133;
        @%late mov.b32 %h4, 0x64006400;
    }"""


def test_an_element_that_nobody_writes(convc, tiny, sabotage):
    sabotage(*FORGET_8_TO_15)
    result = convc("verify", tiny)
    assert result.exit_code == 1
    assert "the first is (n=0, k=8, p=0, q=0): got nan" in result.stdout
    assert "no thread wrote that element" in result.stdout


def test_a_fault_is_a_failed_check_of_its_layer(convc, tiny, sabotage):
    sabotage(*MISPLACE)
    result = convc("verify", tiny)
    assert result.exit_code == 1
    assert "integer: stopped, normal: stopped" in result.stdout
    assert "error[M100]" in result.stdout


def test_a_kernel_that_hangs_is_a_failed_check_of_its_layer(convc, tiny, sabotage):
    sabotage(*EXPECT_MORE)
    result = convc("verify", tiny)
    assert result.exit_code == 1
    assert "integer: stopped, normal: stopped" in result.stdout
    assert "error[M200]" in result.stdout
    assert "0 of 1 layers right" in result.stdout


def test_integers_are_compared_bit_for_bit(two, sabotage):
    sabotage(*ONE_ULP)
    report = package.verify(two, layer="stem")
    integer, normal = report.layers[0].checks
    assert not integer.ok
    assert normal.ok
    assert normal.comparison.count_wrong == 0


def test_a_right_result_with_a_finding_is_not_right(convc, tiny, sabotage):
    sabotage(*NEVER_FREE)
    result = convc("verify", tiny)
    assert result.exit_code == 1
    assert "integer: findings, normal: findings" in result.stdout
    assert "0 of 1 layers right" in result.stdout


def test_a_kernel_is_compiled_once(tiny, monkeypatch):
    calls = []
    compile_problem = kernels.compile_problem
    monkeypatch.setattr(
        kernels, "compile_problem", lambda p, options: calls.append(p) or compile_problem(p, options=RELOAD_ONLY)
    )
    cache = kernels.Kernels()
    problem = package.load(tiny).convs[0].problem
    first = cache.compiled(problem)
    assert cache.compiled(dataclasses.replace(problem, name="other")) is first
    assert len(calls) == len(cache) == 1
    cache.compiled(dataclasses.replace(problem, bias=False))
    assert len(calls) == len(cache) == 2


def test_equal_problems_share_a_kernel(tmp_path):
    models = make_models()
    layers = models.read_layers()
    same = [layer for layer in layers if layer.name.startswith("layer4.") and layer.name.endswith("conv2")]
    models.build_resnet50_layers(tmp_path / "m.onnx", same)
    build = package.compile(tmp_path / "m.onnx", tmp_path / "b")
    assert len(build.names) == 3
    assert len({layer.kernel for layer in build.network.layers}) == 2
    assert len(list((tmp_path / "b/kernels").iterdir())) == 2


def test_a_seed_repeats_the_data_and_another_changes_them(tiny):
    def worst(seed):
        report = package.verify(tiny, seed=seed, mode="normal")
        return report.layers[0].checks[0].comparison.worst_error

    assert worst(3) == worst(3)
    assert worst(3) != worst(4)


def test_a_loaded_network_gives_the_same_report(tiny):
    network = package.load(tiny, dtype="bf16")
    report = package.verify(network, mode="integer")
    assert report.ok
    assert report.layers[0].problem.operand == "bf16"
    with pytest.raises(InputError, match="already has batch"):
        package.verify(network, read=package.ReadOptions(batch=2))


def test_constant_of_shape_weights(convc, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5])
    shape = onnx.numpy_helper.from_array(np.array([8, 4, 3, 3], np.int64), "s")
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["s"], ["w"], value=value),
            helper.make_node("Conv", ["x", "w"], ["y"], name="c"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [shape],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    assert "1 of 1 layers right" in convc.good("verify", path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", "-1"), "-1 is not in the range"),
        (("--dtype", "f8"), "'f8' is not one of"),
        (("--layer", "tail"), "no layer 'tail'"),
        (("--batch", "x"), "'x' is not a valid integer"),
        (("--json", "/no/such/folder/r.json"), "error[I100]"),
    ],
)
def test_a_bad_call_is_refused(convc, tiny, arguments, message):
    assert message in convc.refused("verify", tiny, *arguments)


def test_the_api_refuses_what_the_options_refuse(tiny):
    with pytest.raises(InputError, match="seed must be at least 0"):
        package.verify(tiny, seed=-1)
    with pytest.raises(InputError, match="both, integer, normal or network"):
        package.verify(tiny, mode="fast")


def test_progress_goes_from_0_to_1(two):
    seen = []
    package.verify(two, work=package.WorkOptions(progress=lambda what, part: seen.append((what, part))))
    parts = [part for _, part in seen]
    assert parts == sorted(parts)
    assert parts[0] == 0
    assert parts[-1] == 1
    assert {what for what, _ in seen} >= {"compile stem", "stem, integer data", "head, normal data"}


@pytest.mark.parametrize("precision", ["tf32", "bf16x3", "bf16x6", "tf32x3"])
def test_precisions_of_float32(convc, two, precision):
    said = convc.good("verify", two, "--precision", precision, "--wide")
    assert f"{precision} -> f32" in said
    assert "2 of 2 layers right" in said


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_eight_bits(convc, two, dtype):
    said = convc.good("verify", two, "--dtype", dtype, "--wide")
    assert f"{dtype} -> f32" in said
    assert "2 of 2 layers right" in said


def test_precision_is_of_float32_alone(convc, two):
    said = convc.refused("verify", two, "--precision", "bf16x3", "--dtype", "f16")
    assert "dtype replaces float32, whose precision is then not used" in said


def test_a_sample_is_never_called_the_whole(convc, two, tmp_path):
    said = convc.good("verify", two, "--sample", 1, "--csv", tmp_path / "sample.csv")
    assert "sampled: exact, in bound" in said
    assert "2 of 2 layers right in a sample of 2 of 2 CTAs:" in said
    assert (tmp_path / "sample.csv").read_text().splitlines()[1].endswith("1 of 1 CTAs,sampled")
    report = json.loads(convc.good("verify", two, "--sample", 1, "--json", "-"))
    assert report["sampled"] == {"ctas": 2, "of": 2}
    assert report["layers"][0]["sampled"] == {"ctas": 1, "of": 1}
    assert json.loads(convc.good("verify", two, "--json", "-"))["sampled"] is None


def test_a_wrong_element_of_a_sample_is_traced(convc, tiny, sabotage):
    sabotage(r"(add\.rn\.f32 %v1, %v1, %b1;)", r"\1 add.rn.f32 %v1, %v1, %v1;")
    result = convc("verify", tiny, "--sample", 0)
    assert result.exit_code == 1
    assert "sampled: integer:" in result.stdout
    assert "written by CTA" in result.stdout


def test_a_sample_is_of_layers(convc, two):
    assert "leave --sample out" in convc.refused("verify", two, "--sample", 2, "--reweight", 1)
    convc.refused("verify", two, "--sample", -1)
