"""Reports on a console: names are printed as they are, bars appear on terminals alone, tables hold every number."""

from __future__ import annotations

import dataclasses
import io
import os
import pty
import re
import sys
import threading
from multiprocessing import resource_tracker

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import convc
from convc.build.folder import Build, LayerRecord, NetworkRecord
from convc.cli.main import main
from convc.ir.findings import Finding, Verdict
from convc.ir.network import SkippedNode, TensorRef
from convc.ir.planned import Planned
from convc.ir.problem import ConvProblem
from convc.machine import Counters
from convc.machine.state.counters import Copies
from convc.report import console as consoles
from convc.report.build import print_build, print_skipped
from convc.report.counts import print_counts
from convc.report.format import convolution
from convc.report.launch import print_findings
from convc.report.verify import print_report, report_json
from convc.support.resources import model_folder
from convc.verification.compare import Comparison
from convc.verification.records import Check, LayerReport, VerifyReport

PROBLEM = ConvProblem(in_channels=16, out_channels=24, in_extent=(12, 10), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
PLANNED = Planned(
    schedule="reload",
    cycles=2000,
    microseconds=1.1,
    clock_mhz=1850,
    chip="B200",
    peak_share=0.01,
    traffic_bytes=4096,
    bottleneck="L2",
)


def on_paper() -> Console:
    return Console(file=io.StringIO(), width=160, markup=False, highlight=False, emoji=False)


def text_of(console: Console) -> str:
    return console.file.getvalue()


def comparison(**changes) -> Comparison:
    values = {
        "ok": True,
        "count": 2880,
        "count_wrong": 0,
        "worst_error": 0.25,
        "worst_ratio": 0.5,
        "first": None,
        "got": 1.0,
        "expected": 1.25,
        "limit": 0.5,
    }
    return Comparison(**(values | changes))


COUNTED = Counters(
    ctas=7,
    mma=63,
    mma_lanes=63 * 128,
    mma_a_bytes=63 * 4096,
    mma_b_bytes=63 * 1024,
    masked_lanes=11,
    tma_loads={"activation": Copies(count=9, bytes=3 << 20, filled=5), "filter": Copies(count=9, bytes=9 << 10)},
)


def report_of(*checks: Check, name: str = "conv", counters: Counters | None = COUNTED) -> VerifyReport:
    layer = LayerReport(
        name=name,
        problem=PROBLEM,
        schedule="reload",
        kernel="k/kernel.ptx",
        counters=counters,
        checks=checks,
    )
    skipped = (SkippedNode(name="r", op_type="Relu", reason="not a convolution"),) * 3
    return VerifyReport(source="m", seed=9, layers=(layer,), kernels=1, skipped=skipped)


def test_a_good_layer_is_one_row():
    integer = Check(mode="integer", ok=True, seconds=0.5, comparison=comparison(worst_error=0.0, worst_ratio=0.0))
    normal = Check(mode="normal", ok=True, seconds=0.25, comparison=comparison())
    report = report_of(integer, normal)
    console = on_paper()
    print_report(console, report, wide=True)
    lines = text_of(console).splitlines()
    assert len(lines) == 5
    row = lines[1]
    counts = (" 7 ", " 63 ", "3 MiB", "9 KiB", " 5120 ", " 11 ")
    for word in ("conv", "reload", *counts, "0.25", "0.5", "0.250", "exact, in bound"):
        assert word in row
    assert lines[3] == "not compiled: 3 x Relu (not a convolution)"
    assert lines[4] == "1 of 1 layers right: 1 kernel, 2 launches, 0.75 s simulated, seed 9"
    assert report.ok


def test_a_layer_that_did_not_run_has_dashes_for_counts():
    console = on_paper()
    stopped = Check(mode="integer", ok=False, seconds=0.0, fault="error[M100]: stopped")
    print_report(console, report_of(stopped, counters=None), counts=True, wide=True)
    assert re.search(r" reload( +-){12} +integer: stopped", text_of(console))
    assert "counts of" not in text_of(console)


def test_counts_are_listed_on_demand_without_what_did_not_happen():
    console = on_paper()
    print_report(console, report_of(), counts=True)
    said = text_of(console).split("counts of conv:\n")[1].splitlines()
    assert said[:-2] == [
        "  CTAs                       7",
        "  TMA loads of activation    9, 3145728 bytes, 5 of them fill",
        "  TMA loads of filter        9, 9216 bytes",
        "  tcgen05.mma                63",
        "  lanes of D                 8064, 11 of them masked",
        "  shared memory read by mma  258048 bytes of A, 64512 of B",
        "  the same per MMA           5120 bytes",
    ]


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Counters)])
def test_every_count_is_listed(name):
    counters, console = Counters(mma=10, mma_lanes=10, mma_a_bytes=10), on_paper()
    copies = Copies(count=41, bytes=42)
    some = {int: 4142, Copies: copies, dict: {"4x256b": 4142 if name == "cp" else copies}}
    setattr(counters, name, some[type(getattr(counters, name))])
    print_counts(console, "k", counters)
    assert re.search("4142|41, 42 bytes", text_of(console))


def test_findings_alone_make_a_layer_wrong():
    finding = Finding(verdict=Verdict.error, rule="leak", message="columns stay", file="k", line=3, cta=4)
    check = Check(mode="normal", ok=False, seconds=0.1, comparison=comparison(), findings=(finding,))
    console = on_paper()
    report = report_of(check)
    print_report(console, report)
    assert "normal: findings" in text_of(console)
    assert "k:3: error[leak]: columns stay (CTA 4)" in text_of(console)
    assert not report.ok


def test_json_spells_the_verdicts():
    import json

    bad = comparison(ok=False, count_wrong=1, first=(0, 1, 2, 3), worst_error=float("inf"))
    report = report_of(Check(mode="integer", ok=False, seconds=0.1, comparison=bad))
    data = json.loads(report_json(report))
    assert data["ok"] is False
    assert data["layers"][0]["ok"] is False
    assert data["layers"][0]["checks"][0]["comparison"]["first"] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["[red]x[/red]", "[/]", ":smile:", "a/b\\c", "\\[bold]"])
def test_names_are_printed_as_they_are(name):
    console = on_paper()
    tensor = TensorRef(name="x", dtype="f16", shape=(1,))
    record = LayerRecord(
        name=name, stem="s", kernel="0" * 16, problem=PROBLEM, planned=PLANNED, input=tensor, output=tensor
    )
    print_build(console, Build(path=None, network=NetworkRecord(source="m", layers=(record,))))
    print_skipped(console, (SkippedNode(name=name, op_type=name, reason="[b]"),))
    print_findings(console, (Finding(verdict=Verdict.review, rule="r", message=name),))
    print_report(console, report_of(name=name))
    said = text_of(console)
    assert said.count(name) == 5


def test_a_convolution_in_words():
    assert convolution(PROBLEM) == "1x16x12x10 * 24x3x3, pad 1 -> 12x10"
    uneven = ConvProblem(
        in_channels=3, out_channels=8, in_extent=(9, 9), kernel=(2, 3), stride=(2, 1), dilation=(2, 2), pad_hi=(0, 1)
    )
    assert convolution(uneven) == "1x3x9x9 * 8x2x3, stride 2,1, dilation 2, pad 0,0,0,1 -> 4x6"


def test_without_a_terminal_there_is_no_bar_and_lines_are_wide(capsys):
    with consoles.progress_bar() as bar:
        assert bar is None
    consoles.console().print("x" * 150)
    assert capsys.readouterr().out == "x" * 150 + "\n"


def on_terminal(monkeypatch, work) -> str:
    """What ``work`` writes to stderr when that is a terminal."""
    main, other = pty.openpty()
    chunks: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(main, 4096):
                chunks.append(chunk)
        except OSError:
            pass  # the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(other, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        work()
    reader.join()
    os.close(main)
    return b"".join(chunks).decode()


def test_a_bar_appears_on_a_terminal_after_a_while(monkeypatch):
    def work(patience: float) -> None:
        monkeypatch.setattr(consoles, "PATIENCE_S", patience)
        with consoles.progress_bar() as bar:
            for part in range(5):
                bar(f"layer [{part}]", part / 4)

    assert "layer [4]" in on_terminal(monkeypatch, lambda: work(0.0))
    assert on_terminal(monkeypatch, lambda: work(60.0)) == ""


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("compile", ("read tiny_two_convs.onnx", "compile stem", "compile head", "write head")),
        ("verify", ("compile stem", "stem, integer data", "head, normal data")),
        pytest.param(
            "verify --jobs 2",
            ("compile 2 kernels", "(2 of 2 kernels)", "check 2 layers", "(2 of 2 layers)"),
            marks=pytest.mark.slow,
        ),
        ("check", ("check stem", "check head")),
        ("run", ("run head",)),
    ],
)
def test_long_work_names_its_layers_on_a_terminal(monkeypatch, tmp_path, capsys, verb, words):
    model, build, x = model_folder() / "tiny_two_convs.onnx", tmp_path / "build", tmp_path / "x.npy"
    if verb in ("check", "run"):
        convc.compile(model, build)
        np.save(x, np.zeros((1, 16, 8, 8), np.float32))
    arguments = {
        "compile": [model, "-o", build],
        "check": [build],
        "run": [build, "--layer", "head", "--input", x, "-o", tmp_path / "y.npy"],
    }.get(verb, [model])
    monkeypatch.setattr(consoles, "PATIENCE_S", 0.0)
    seen: list[str] = []
    update = Progress.update
    monkeypatch.setattr(Progress, "update", lambda *a, **k: (seen.append(k.get("description", "")), update(*a, **k)))
    resource_tracker.ensure_running()  # it lives on, and would hold the terminal that it is started on
    call = [*verb.split(), *map(str, arguments)]
    drawn = on_terminal(monkeypatch, lambda: main(call, standalone_mode=False))
    assert drawn
    for word in words:
        assert any(word in what for what in seen), (word, seen)
    assert words[0] not in capsys.readouterr().out
