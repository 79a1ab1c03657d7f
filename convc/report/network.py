"""Reports on a whole network: a row per convolution, a line per output, and the layer that departs first."""

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
from convc.verification.records import RMS_ERROR, Check, LayerReport, NetworkReport, OutputReport, VerifyReport

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
"""The columns that are printed of a network with random weights, unless all are asked for."""

SHOWN_OF_DATA = ("layer", "convolution", "type", "worst error", "of bound", "seconds", "verdict")
"""Those of a network with its own weights, which onnxruntime computes as a whole."""

LEGEND = (
    "of bound, onnxruntime: the share of its bound that the worst element uses, 1 or less is right; "
    "rel. RMS: relative RMS error from onnxruntime's run of the whole network"
)


def print_network(console: Console, report: VerifyReport, network: NetworkReport, wide: bool = False) -> None:
    """The table, everything that is wrong, what ran on the host, and the end; ``wide``: with all columns."""
    drawn = network.replaced is not None
    shown = SHOWN if drawn else SHOWN_OF_DATA
    print_table(console, NETWORK_COLUMNS, report.layers, _row, None if wide else shown)
    legend = (LEGEND if drawn and report.layers else "", special_legend(report.layers))
    if any(legend):
        console.print("; ".join(filter(None, legend)), soft_wrap=True)
    estimated = estimate_legend(layer.planned for layer in report.layers)
    if wide and estimated:
        console.print(estimated, soft_wrap=True)
    print_tuned(console, ((layer.name, layer.planned and layer.planned.tuning) for layer in report.layers))
    for layer in report.layers:
        for check in layer.checks:
            if not check.ok:
                _print_wrong(console, layer.name, check)
    print_stats(console, network.stats)
    if network.silent:
        console.print(f"onnxruntime was not run: {network.silent}", soft_wrap=True)
    for sentence in (
        *map(output_line, network.outputs),
        *amplification_lines(report),
        network_summary(report, network),
    ):
        console.print(sentence, soft_wrap=True)
    if drawn:
        share = network.zero_channels / max(1, network.channels)
        console.print(
            f"{network.zero_channels} of {network.channels} input channels are zero everywhere ({share:.2%}): their "
            "weights are not tested",
            soft_wrap=True,
        )
    if report.departs is not None:
        console.print(f"first departs: {report.departs}", soft_wrap=True)


def network_summary(report: VerifyReport, network: NetworkReport) -> str:
    """The sum of a report on a network in one line."""
    compared = [output for output in network.outputs if output.decided_by]
    right = f"{sum(output.ok for output in compared)} of {len(compared)} outputs right by {network.oracle}"
    parts = [
        f"{report.count_right} of {len(report.layers)} convolutions right by the derived bound",
        right if compared else "no output compared",
        counted(report.kernels, "kernel"),
        f"{counted(network.stats.host, 'other node')} on the host{by_whom(network.stats)}",
        f"{network.stats.seconds:.2f} s simulated",
    ]
    if network.replaced is not None:
        parts.append(f"{counted(network.replaced, 'tensor')} of random weights, seed {report.seed}")
    return ", ".join(parts)


def output_line(output: OutputReport) -> str:
    """Say what became of an output, and which rule decided."""
    name = f"output {output.name}: {output.dtype} {times(output.shape) or 'scalar'}"
    if not output.decided_by:
        return f"{name}, not compared"
    verdict = "right" if output.ok else "WRONG"
    if output.amplified:
        verdict = "right except for amplified rounding,"
    start = f"{name}, {verdict} by {output.decided_by}: worst error {number(output.worst_error)}"
    if output.count_nan:
        start = f"{start}, {counted(output.count_nan, 'element')} NaN on both sides"
    if output.decided_by == RMS_ERROR:
        return f"{start}, relative RMS error {number(output.measured)}, up to {number(output.limit)} expected"
    if output.decided_by == "derived bound":
        start = f"{start}, {number(output.measured)} of the bound"
    if output.first is None:
        return start
    place = ", ".join(map(str, output.first))
    return (
        f"{start}; {output.count_wrong} elements are wrong, the first is [{place}]: got {output.got!r}, "
        f"expected {output.expected!r}"
    )


def amplification_lines(report: VerifyReport) -> list[str]:
    """Sentences on what another precision says; none where no error is too large, or a convolution is wrong."""
    amplification = report.network and report.network.amplification
    if amplification is None:
        if report.ok or not all(layer.ok for layer in report.layers):
            return []
        return [
            "all convolutions are right: the difference comes from other nodes, or is rounding that the network "
            "amplifies; there is no other precision to compare with"
        ]
    what = "elements that differ:" if amplification.counts else "a relative RMS error of"
    own = f"{number(amplification.measured)} with {amplification.precision}"
    numbers = f"{what} {own}, {number(amplification.other_measured)} with {amplification.other}"
    said = [
        f"no convolution is wrong; the network amplifies the rounding of {amplification.precision}: {numbers}"
        if amplification.explained
        else f"all convolutions are right, and rounding does not explain the difference: {numbers}; another node "
        "is wrong, or the expected output"
    ]
    if amplification.node:
        grows = f"{number(amplification.before)} before it, {number(amplification.behind)} behind it"
        said.append(f"the error grows from {amplification.node} on: {grows}")
    if amplification.agrees:
        said.append(f"--precision {amplification.other} agrees")
    elif amplification.explained and amplification.finer:
        said.append(
            f"--precision {amplification.other} is the most accurate: the rest is the amplified rounding of float32"
        )
    elif amplification.explained:
        said.append(f"{amplification.precision} rounds about as float32 does, which the network amplifies too")
    return said


def print_stats(console: Console, stats: RunStats) -> None:
    """Print of a run which convolutions went another way than the usual one, which nodes did, and why."""
    lines: list[str] = []
    if stats.empty:
        lines.append(f"no kernel needed: {_some(stats.empty)}: an extent is 0, so the result is empty or the bias")
    for reason, names in _by_reason(stats.refused).items():
        lines.append(f"on the host: {counted(len(names), 'convolution')} ({_some(names)}): {reason}")
    for name, count in stats.hidden.items():
        inside = counted(count, "convolution")
        lines.append(f"on the host: {inside} inside the node {name}, which runs there as a whole")
    lines += [f"on the host: {_some(names)} {reason}" for reason, names in _by_reason(stats.elsewhere).items()]
    for name, reason in stats.floating.items():
        lines.append(f"floating-point: the quantised convolution {name}: {reason}")
    lines += [f"{name}: {reason}" for name, reason in stats.special.items()]
    for line in lines:
        console.print(line, soft_wrap=True)


def _by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """The names that have each reason."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return names


def _some(names: Sequence[str]) -> str:
    """The first five names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def by_whom(stats: RunStats) -> str:
    """Say who ran the nodes of the host, and where there are two, which kinds: the end of a sentence."""
    kinds: dict[str, list[str]] = {}
    for kind, who in sorted(stats.evaluators.items()):
        kinds.setdefault(who, []).append(kind)
    if len(kinds) < 2:
        return "".join(f" by {who}" for who in kinds)
    return " by " + " and ".join(f"{who} ({', '.join(listed)})" for who, listed in sorted(kinds.items()))


def print_network_run(console: Console, run: NetworkRun) -> None:
    """Print what a run of a network did, in a line or two, and what it gave."""
    stats = run.stats
    print_stats(console, stats)
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
        "-" if layer.relative_rms_error is None else number(layer.relative_rms_error),
        "-" if layer.seconds is None else f"{layer.seconds:.3f}",
        network_verdict(layer),
    )


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
