"""``convc run MODEL.onnx``: a whole network, from .npy files to .npy files."""

from __future__ import annotations

from pathlib import Path

from convc.errors import InputError


def named_files(values: tuple[str, ...], option: str) -> dict[str, Path]:
    """``NAME=FILE`` by name, ``FILE`` alone under ""; `InputError` for a name that comes twice."""
    files: dict[str, Path] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals or Path(value).exists():
            name, file = "", value
        if name in files:
            raise InputError(f"{option} is given twice for {name!r}" if name else f"{option} needs names: NAME=FILE")
        files[name] = Path(file)
    return files


def run_network(
    model: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    dtype: str | None,
    precision: str,
    fuse: bool,
    host: str,
    switches: tuple[str, ...],
    numerics: str,
    no_cache: bool,
    json_file: Path | None,
) -> None:
    """Run a model, and write or describe its outputs."""
    from convc.compiler.cache import kept_kernels
    from convc.machine import RunOptions
    from convc.machine.base.switches import parse_switches
    from convc.report.console import console, progress_bar
    from convc.report.network import network_run_json, print_run_stats
    from convc.report.output import check_reports, write_report
    from convc.runtime.network.host import describe_value
    from convc.runtime.network.io import cast_feeds, convolutions_of, errors_in, open_graph, read_feeds, write_results
    from convc.support.files import check_target
    from convc.support.progress import Progress

    out = console(stderr=check_reports(json_file))
    machine = RunOptions(switches=parse_switches(switches, numerics=numerics))
    targets = named_files(outputs, "--output")
    for target in targets.values():
        check_target(target)
    with kept_kernels(False if no_cache else None) as kept:
        graph = open_graph(model, convolutions_of(dtype, precision, None, machine, kept), host=host, fuse=fuse)
        files = _files_of(graph.outputs, targets)
        feeds = read_feeds(graph, named_files(inputs, "--input"))
        with progress_bar() as progress, errors_in(model):
            results = graph.run(cast_feeds(graph, feeds), progress=Progress(progress))
    write_results(results, files)
    write_report(json_file, network_run_json(str(model), graph.stats, results, files))
    print_run_stats(out, graph.stats)
    for name, value in results.items():
        wrote = f"wrote {files[name]}: " if name in files else ""
        out.print(f"{wrote}output {name}: {describe_value(value)}", soft_wrap=True)


def _files_of(outputs: tuple[str, ...], targets: dict[str, Path]) -> dict[str, Path]:
    """Files by output of the model, of which "" means the only one; `InputError` for names that it has not."""
    from convc.runtime.network.io import by_name

    files = by_name(targets, outputs, "output", "-o")
    unknown = sorted(set(files) - set(outputs))
    if unknown:
        listed = ", ".join(map(repr, outputs))
        raise InputError(f"the model has no output named {unknown[0]!r}", hint=f"outputs: {listed}")
    return files


def looks_like_model(path: Path) -> bool:
    """Whether the argument of ``convc run`` is a model and not a build folder."""
    return not path.is_dir() and (path.suffix.lower() == ".onnx" or path.is_file())
