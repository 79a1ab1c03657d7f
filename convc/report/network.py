"""Reports on a whole network: a row per convolution, the drift of its outputs, and the layer that departs first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from convc.report.format import convolution, counted, number, times
from convc.report.layers import (
    ESTIMATED,
    Columns,
    estimate_cells,
    estimate_legend,
    first_wrong,
    model_record,
    nearest_to_bound,
    network_verdict,
    print_table,
    print_tuned,
    special_legend,
)
from convc.report.output import json_text
from convc.runtime.layer import to_standard_dtype
from convc.runtime.network.stats import NetworkRun, RunStats
from convc.runtime.network.steps import describe_value
from convc.verification.records import Check, DataReport, LayerReport, NetworkReport, OutputReport

NETWORK_COLUMNS: Columns = (
    ("layer", "left"),
    ("convolution", "left"),
    ("type", "left"),
    ("schedule", "left"),
    *ESTIMATED,
    ("worst error", "right"),
    ("of bound", "right"),
    ("onnxruntime", "right"),
    ("rel. RMS", "right"),
    ("seconds", "right"),
    ("verdict", "left"),
)
"""``of bound``: worst error as a share of the derived bound, against the float64 reference on the operands of the
kernel. ``onnxruntime``: the same against onnxruntime on the input that reached the layer. ``rel. RMS``: relative root
mean square error from onnxruntime's run of the whole network."""

SHOWN = ("layer", "convolution", "schedule", "of bound", "onnxruntime", "rel. RMS", "verdict")
"""The columns that are printed unless all are asked for."""

LEGEND = (
    "of bound, onnxruntime: the share of its bound that the worst element uses, 1 or less is right; "
    "rel. RMS: relative RMS error from onnxruntime's run of the whole network"
)


def print_network(console: Console, report: NetworkReport, wide: bool = False) -> None:
    """The table, everything that is wrong, what ran on the host, and the end; ``wide``: with all columns."""
    print_table(console, NETWORK_COLUMNS, report.layers, _row, None if wide else SHOWN)
    if report.layers:
        console.print("; ".join(filter(None, (LEGEND, special_legend(report.layers)))), soft_wrap=True)
    estimated = estimate_legend(layer.planned for layer in report.layers)
    if wide and estimated:
        console.print(estimated, soft_wrap=True)
    print_tuned(console, ((layer.name, layer.planned and layer.planned.tuning) for layer in report.layers))
    for layer in report.layers:
        for check in layer.checks:
            if not check.ok:
                _print_wrong(console, layer.name, check)
    print_empty(console, report.stats.empty)
    print_refused(console, report.stats.refused)
    print_hidden(console, report.stats.hidden)
    print_elsewhere(console, report.stats.elsewhere)
    print_floating(console, report.stats.floating)
    print_special(console, report.stats.special)
    for output in report.outputs:
        error = "not compared"
        if output.drift is not None:
            error = f"relative RMS error {number(output.drift)}, {_allowed(output)}"
        console.print(
            f"output {output.name}: {output.dtype} {times(output.shape) or 'scalar'}, {error}", soft_wrap=True
        )
    print_amplification(console, report)
    if report.silent:
        console.print(f"end to end: not compared: {report.silent}", soft_wrap=True)
    version = report.onnxruntime
    beside = f"onnxruntime {version}" if version else "no onnxruntime, the float64 reference alone"
    parts = [
        f"{report.count_right} of {len(report.layers)} convolutions right: {counted(report.kernels, 'kernel')}",
        f"{counted(report.stats.host, 'other node')} on the host{by_whom(report.stats)}",
        f"{report.stats.seconds:.2f} s simulated",
        f"{counted(report.replaced, 'tensor')} of random weights, seed {report.seed}",
    ]
    console.print(f"{', '.join(parts)}; {beside}", soft_wrap=True)
    share = report.zero_channels / max(1, report.channels)
    console.print(
        f"{report.zero_channels} of {report.channels} input channels are zero everywhere ({share:.2%}): their "
        "weights are not tested",
        soft_wrap=True,
    )
    if report.departs is not None:
        console.print(f"first departs: {report.departs}", soft_wrap=True)


def print_amplification(console: Console, report: NetworkReport | DataReport) -> None:
    """Print what another precision says of outputs whose error is larger than expected."""
    for sentence in amplification_lines(report):
        console.print(sentence, soft_wrap=True)


def amplification_lines(report: NetworkReport | DataReport) -> list[str]:
    """Sentences on what another precision says; none where no error is too large, or a convolution is wrong."""
    found = report.amplification
    if found is None:
        if report.ok or not all(layer.ok for layer in report.layers):
            return []
        return [
            "all convolutions are right: the difference comes from other nodes, or is rounding that the network "
            "amplifies; there is no other precision to compare with"
        ]
    what = "elements that differ:" if found.counts else "a relative RMS error of"
    own = f"{number(found.measured)} with {found.precision}"
    numbers = f"{what} {own}, {number(found.other_measured)} with {found.other}"
    said = [
        f"no convolution is wrong; the network amplifies the rounding of {found.precision}: {numbers}"
        if found.explained
        else f"all convolutions are right, and rounding does not explain the difference: {numbers}; another node "
        "is wrong, or the expected output"
    ]
    if found.node:
        said.append(
            f"the error grows from {found.node} on: {number(found.before)} before it, {number(found.behind)} behind it"
        )
    if found.agrees:
        said.append(f"--precision {found.other} agrees")
    elif found.explained and found.finer:
        said.append(f"--precision {found.other} is the most accurate: the rest is the amplified rounding of float32")
    elif found.explained:
        said.append(f"{found.precision} rounds about as float32 does, which the network amplifies too")
    return said


def print_refused(console: Console, refused: Mapping[str, str]) -> None:
    """Convolutions that ran on the host, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        console.print(f"on the host: {counted(len(names), 'convolution')} ({listed}): {reason}", soft_wrap=True)


def print_empty(console: Console, empty: Sequence[str]) -> None:
    """Convolutions that multiplied nothing."""
    if empty:
        listed = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        console.print(f"no kernel needed: {listed}: an extent is 0, so the result is empty or the bias", soft_wrap=True)


def print_floating(console: Console, floating: Mapping[str, str]) -> None:
    """Quantised convolutions that ran in floating point, and why."""
    for name, reason in floating.items():
        console.print(f"floating-point: the quantised convolution {name}: {reason}", soft_wrap=True)


def print_special(console: Console, special: Mapping[str, str]) -> None:
    """Convolutions that were launched again for what is not finite, and why."""
    for name, reason in special.items():
        console.print(f"{name}: {reason}", soft_wrap=True)


def print_hidden(console: Console, hidden: Mapping[str, int]) -> None:
    """Convolutions inside nodes that ran on the host."""
    for name, count in hidden.items():
        console.print(
            f"on the host: {counted(count, 'convolution')} inside the node {name}, which runs there as a whole"
        )


def by_whom(stats: RunStats) -> str:
    """Say who ran the nodes of the host, and where there are two, which kinds: the end of a sentence."""
    kinds: dict[str, list[str]] = {}
    for kind, who in sorted(stats.evaluators.items()):
        kinds.setdefault(who, []).append(kind)
    if len(kinds) < 2:
        return "".join(f" by {who}" for who in kinds)
    return " by " + " and ".join(f"{who} ({', '.join(listed)})" for who, listed in sorted(kinds.items()))


def print_elsewhere(console: Console, elsewhere: Mapping[str, str]) -> None:
    """Nodes that were not run by who was chosen, each reason once."""
    reasons: dict[str, list[str]] = {}
    for name, reason in elsewhere.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        console.print(f"on the host: {listed} {reason}", soft_wrap=True)


def print_network_run(console: Console, run: NetworkRun) -> None:
    """Print what a run of a network did, in a line or two, and what it gave."""
    stats = run.stats
    print_empty(console, stats.empty)
    print_refused(console, stats.refused)
    print_hidden(console, stats.hidden)
    print_elsewhere(console, stats.elsewhere)
    print_floating(console, stats.floating)
    print_special(console, stats.special)
    fused = sum(map(len, stats.fused.values()))
    counts = f" with {counted(fused, 'node')} fused into them, {counted(stats.handed, 'buffer')} handed over"
    with_them = counts if fused or stats.handed else ""
    console.print(
        f"{counted(len(stats.compiled), 'convolution')} from PTX{with_them}, {stats.seconds:.3f} s simulated; "
        f"{counted(stats.host + len(stats.refused), 'node')} on the host{by_whom(stats)}",
        soft_wrap=True,
    )
    for name, value in run.outputs.items():
        wrote = f"wrote {run.files[name]}: " if name in run.files else ""
        console.print(f"{wrote}output {name}: {describe_value(value)}", soft_wrap=True)


def network_run_json(model: str, run: NetworkRun) -> bytes:
    """A run of a network as JSON: its outputs, the files that they went to, and what was done where."""
    outputs: list[dict[str, Any]] = []
    for name, value in run.outputs.items():
        array = hasattr(value, "dtype")  # else it is a sequence, or an empty optional
        outputs.append(
            {
                "name": name,
                "dtype": to_standard_dtype(value).dtype.name if array else type(value).__name__,
                "shape": list(value.shape) if array else [],
                "file": str(run.files[name]) if name in run.files else None,
            }
        )
    return json_text({"format": "convc-network-run/2", "model": model, "outputs": outputs, "stats": run.stats})


def network_json(report: NetworkReport) -> bytes:
    """A report on a network as JSON, with the verdict of the whole, of every layer and of every output spelled out."""
    record = model_record(report, "convc-network/2", departs=report.departs)
    for output, entry in zip(report.outputs, record["outputs"], strict=True):
        entry["ok"] = output.ok
    return json_text(record)


def _row(layer: LayerReport) -> tuple[str, ...]:
    problem = layer.problem
    right = layer.compared("network")
    agrees = layer.compared("network", "onnxruntime")
    nearest = ("-", "-") if right is None else map(number, nearest_to_bound(right))
    return (
        layer.name,
        convolution(problem),
        problem.types,
        layer.schedule,
        *estimate_cells(layer.planned),
        *nearest,
        "-" if agrees is None else number(agrees.worst_ratio),
        "-" if layer.drift is None else number(layer.drift),
        "-" if layer.seconds is None else f"{layer.seconds:.3f}",
        network_verdict(layer),
    )


def _allowed(output: OutputReport) -> str:
    """The error that is expected, and whether there is more."""
    expected = f"up to {number(output.allowed)} expected"
    if output.amplified:
        return f"{expected}, amplified rounding"
    return expected if output.ok else f"{expected}: DEPARTED"


def _print_wrong(console: Console, name: str, check: Check) -> None:
    """Say how far a layer's result is from what it was compared with."""
    who = "the float64 reference" if check.oracle == "reference" else check.oracle
    wrong = check.comparison
    if wrong is None:
        return
    console.print(
        f"{name}: {wrong.count_wrong} of {wrong.count} elements differ from {who}; {first_wrong(wrong)}, "
        f"off by at most {number(wrong.limit)}",
        soft_wrap=True,
    )
