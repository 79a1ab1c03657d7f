"""The benchmark command: budgets decide its exit code, and its rivals compute the same convolution."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from support.schedules import RELOAD_ONLY

from benchmarks import (
    batch,
    budget,
    check,
    foreign,
    layers,
    models,
    network,
    parsing,
    reuse,
    run,
    time_kernels,
    timing,
    twins,
)
from benchmarks import compile as compile_benchmark
from benchmarks.layers import light_files, light_models, resnet50
from convc.compiler.compile import compile_problem
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem
from convc.verification import reference


@pytest.fixture(autouse=True)
def once(monkeypatch) -> None:
    """Time everything once: nobody looks at how long it took."""
    best = functools.partial(timing.best, repeats=1)
    monkeypatch.setattr(timing, "REPEATS", 1)
    for module in (timing, check, foreign, parsing):
        monkeypatch.setattr(module, "best", best)


@pytest.mark.parametrize(
    ("value", "limits", "over"),
    [
        (3.0, {"at_most": 3.0}, False),
        (3.1, {"at_most": 3.0}, True),
        (7.5, {"at_least": 7.5}, False),
        (7.4, {"at_least": 7.5}, True),
        (1e9, {}, False),
    ],
)
def test_a_budget_may_be_met_but_not_passed(value, limits, over):
    assert budget.over_budget(value, limits) is over


def test_exceeding_fails_and_is_marked(capsys):
    budgets = {"network": {"seconds": {"at_most": 10.0}}}
    assert budget.report({"network": {"seconds": 9.0, "layers": 53}}, budgets) == 0
    assert "EXCEEDED" not in capsys.readouterr().out
    assert budget.report({"network": {"seconds": 11.0, "layers": 53}}, budgets) == 1
    assert "at most 10 EXCEEDED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "limits", "over"),
    [
        (4.5, {"at_most": 3.0}, False),
        (4.6, {"at_most": 3.0}, True),
        (5.0, {"at_least": 7.5}, False),
        (4.9, {"at_least": 7.5}, True),
        (3.1, {"at_most": 3, "count": True}, True),
        (52, {"at_least": 53, "count": True}, True),
        (53, {"at_least": 53, "count": True}, False),
        (9.0, {}, False),
    ],
)
def test_a_tolerance_is_for_times_and_not_for_counts(value, limits, over):
    assert budget.over_budget(value, limits, 1.5) is over


def test_with_a_tolerance_the_better_of_two_measurements_counts(monkeypatch, capsys):
    budgets = {
        "network": {"times": {"at_most": 10.0}, "apart": {"at_least": 0.8}, "layers": {"at_least": 53, "count": True}}
    }
    answers = iter([{"times": 19.0, "apart": 0.9, "layers": 53}, {"times": 14.0, "apart": 0.1, "layers": 53}] * 2)
    monkeypatch.setattr(run, "read_budgets", lambda: budgets)
    monkeypatch.setitem(run.BENCHMARKS, "network", lambda layers: next(answers))
    assert run.main(["network", "--tolerance", "1.5"]) == 0
    assert "at most 10 passed, within tolerance" in capsys.readouterr().out
    assert run.main(["network"]) == 1
    assert "at most 10 EXCEEDED" in capsys.readouterr().out
    lost = iter([{"times": 9.0, "apart": 0.9, "layers": 52}] * 2)
    monkeypatch.setitem(run.BENCHMARKS, "network", lambda layers: next(lost))
    assert run.main(["network", "--tolerance", "1.5"]) == 1


def test_what_is_no_time_says_so():
    """Every budget of a section without clocks, and of what is counted elsewhere, has no tolerance."""
    counted = {
        (name, key) for name, rows in budget.read_budgets().items() for key, row in rows.items() if row.get("count")
    }
    for name, rows in budget.read_budgets().items():
        for key in rows:
            clocked = any(word in key for word in ("times", "_cpu", "apart")) or name in ("planning", "draw", "twins")
            clocked = clocked or (name == "batch" and key != "peak_gib")
            assert ((name, key) in counted) is not clocked, (name, key)


def test_every_budget_belongs_to_a_benchmark():
    assert set(budget.read_budgets()) <= set(run.BENCHMARKS)


@pytest.mark.slow
def test_the_numbers_of_checking_have_their_budgets(monkeypatch):
    small = ConvProblem(in_channels=16, out_channels=16, in_extent=(9, 9), kernel=(3, 3))
    monkeypatch.setattr(check, "resnet50", lambda selection: (small,))
    numbers = check.measure("demo")
    assert set(budget.read_budgets()["check"]) <= set(numbers)
    assert numbers["layers"] == 1


@pytest.mark.slow
def test_the_numbers_of_compiling_have_their_budgets(monkeypatch):
    small = ConvProblem(in_channels=16, out_channels=16, in_extent=(9, 9), kernel=(3, 3))
    monkeypatch.setattr(layers, "resnet50", lambda selection: (small, small))
    monkeypatch.setattr(compile_benchmark, "REPEATS", 1)
    monkeypatch.setattr(compile_benchmark, "yardstick", lambda: 0.5)
    numbers = compile_benchmark.measure("demo")
    assert set(budget.read_budgets()["compile"]) <= set(numbers)
    assert numbers["kernels"] == 1
    assert numbers["calls"] > 1000


@pytest.mark.slow
def test_the_numbers_of_parsing_have_their_budgets():
    numbers = parsing.measure("demo")
    assert set(budget.read_budgets()["parsing"]) <= set(numbers)
    assert numbers["texts"] == 6
    assert numbers["times_sympy"] > numbers["parse_times_sympy"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("section", [twins, foreign])
def test_the_numbers_of_a_section_have_their_budgets(section):
    numbers = section.measure("demo")
    assert set(budget.read_budgets()[section.__name__.removeprefix("benchmarks.")]) <= set(numbers)
    assert min(numbers.values()) > 0


@pytest.mark.slow
def test_larger_batches_have_their_budgets(monkeypatch):
    monkeypatch.setattr(batch, "_times", lambda kernels, problem, images: (3.0, 1.0))
    numbers = batch.measure("all")
    assert set(budget.read_budgets()["batch"]) <= set(numbers)
    assert numbers["conv1_8"] == numbers["stages_32"] == 3
    assert "stages_32" not in batch.measure("demo")


@pytest.mark.slow
def test_the_numbers_of_timing_have_their_budgets(monkeypatch):
    [layer] = [problem for problem in resnet50() if problem.name == "layer1.0.conv2"]
    monkeypatch.setattr(time_kernels, "resnet50", lambda selection: (layer, layer))
    numbers = time_kernels.measure("all")
    assert set(budget.read_budgets()["time"]) <= set(numbers)
    assert 0 < numbers["all_times_plain"] < numbers["trace_times_plain"]


def test_a_cluster_is_recorded_whole():
    """Split-K CTAs run together or not at all."""
    problem = ConvProblem(in_channels=128, out_channels=32, in_extent=(16, 16), kernel=(1, 1))
    artifact = compile_problem(problem, options=ScheduleOptions(split_k="2"), stages=1).artifact
    assert artifact.launch.cluster == (1, 1, 2)
    time_kernels.record(artifact.ptx, artifact.launch)


def test_the_layers_are_resnet50():
    layers = resnet50()
    assert len(layers) == 53
    assert len({(p.in_channels, p.out_channels, p.in_extent, p.kernel, p.stride) for p in layers}) == 23
    assert sum(2e-9 * p.macs for p in layers) == pytest.approx(8.17, abs=0.01)


def test_the_light_models_have_73_distinct_wide_filters():
    layers = light_models()
    assert len(layers) == 73
    assert set(reuse.REPRESENTATIVE) <= set(layers)
    assert all(p.operand == "f16" and set(p.kernel) <= {3, 5, 7, 11} for p in layers.values())


def test_reuse_measures_what_the_machine_counts():
    problem = light_models()["resnet50/n155"]
    found = reuse.run(problem, "reload")
    plan = found.compiled.plan
    assert found.activation == plan.launch.ctas * plan.pipeline.steps * 128 * 128
    assert found.per_mma == 32 * (128 + plan.tiling.block_n)
    assert (found.lanes, found.waste) == (128 * plan.launch.ctas, (128 - 49) * plan.launch.ctas)


def test_schedules_are_compared_with_reload(monkeypatch, capsys, tmp_path):
    """Half the columns or one stage stand for a schedule, and tiles of 17 columns for one that no layer can have."""
    choices = {
        "reload": {"block_n": 64},
        "narrow": {"block_n": 32},
        "shallow": {"block_n": 64, "stages": 1},
        "odd": {"block_n": 17},
    }
    monkeypatch.setattr(reuse, "SCHEDULES", choices)
    monkeypatch.setattr(
        reuse, "twin", lambda problem, schedule: compile_problem(problem, options=RELOAD_ONLY, **choices[schedule])
    )
    found = reuse.run_all(("resnet50/n7", "resnet50/n39"))
    numbers = reuse.numbers(found)
    assert {name for name in numbers if name.startswith("odd")} == {"odd_layers"}
    assert (numbers["layers"], numbers["narrow_layers"], numbers["odd_layers"]) == (2, 2, 0)
    assert numbers["narrow_activation"] == 1  # twice the tiles of 128 pixels, each with the same activations
    assert numbers["shallow_operands_n64"] == 1
    assert "narrow_operands_n64" not in numbers
    assert numbers["narrow_cpu"] > 0
    monkeypatch.setattr(reuse, "REPRESENTATIVE", ("resnet50/n7",))
    monkeypatch.setattr(budget, "BUDGETS", tmp_path / "budgets.toml")
    budget.BUDGETS.write_text("[reuse]\nnarrow_activation = { at_most = 0.9 }\nslide_activation = { at_most = 0.1 }\n")
    assert reuse.main([]) == 1
    said = capsys.readouterr().out
    assert re.search(r" narrow +7\.03 MiB +2\.000 +5120 +0\.833 +1800 ", said)
    assert re.search(r" odd +- +- +- ", said)
    assert "resnet50/n7, odd: no kernel can be planned" in said
    assert "at most 0.9 EXCEEDED" in said


@pytest.mark.slow
def test_a_network_is_measured_with_all_its_convolutions():
    numbers = models.run(light_files()["zfnet512"], "onnxruntime")
    assert numbers["convolutions"] == numbers["compiled"] == 5
    assert 0 < numbers["machine_seconds"] < numbers["seconds"]
    assert numbers["peak_gib"] > 0


def test_im2col_is_the_convolution():
    problem = ConvProblem(
        in_channels=3, out_channels=5, in_extent=(9, 8), kernel=(3, 2), stride=(2, 1), pad_lo=(1, 0), pad_hi=(0, 1)
    )
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, problem.x_shape).astype(np.float32)
    w = rng.integers(-3, 4, problem.w_shape).astype(np.float32)
    got = network.im2col_sgemm(problem, x[0], w.reshape(5, -1))
    np.testing.assert_array_equal(got.reshape(problem.y_shape), reference.conv_problem(problem, x, w))


def test_the_memory_of_a_program_is_not_that_of_who_started_it():
    large = np.ones(1 << 25)  # 256 MiB; a fresh program that imports little takes a tenth
    command = [sys.executable, "-c", "from benchmarks.timing import peak_kib; print(peak_kib())"]
    own = int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert 0 < own < large.nbytes >> 10 <= timing.peak_kib()


ALL_LAYERS = {"compile": "kernels", "network": "layers"}
"""Sections with a kernel for each of the demo's layers, and the number that counts them."""


@pytest.mark.slow
@pytest.mark.parametrize("section", ["compile", "network", "check", "planning", "parsing", "foreign"])
def test_the_command_measures_a_section_and_writes_json(section, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(budget, "BUDGETS", tmp_path / "none.toml")
    (tmp_path / "none.toml").write_text("")
    assert run.main([section, "--layers", "demo", "--json", str(tmp_path / "b.json")]) == 0
    numbers = json.loads((tmp_path / "b.json").read_text())[section]
    assert min(numbers.values()) >= 0
    assert numbers.get(ALL_LAYERS.get(section), 6) == 6
    said = capsys.readouterr().out
    assert all(word in said for word in (section, *numbers))
