"""``convc verify --reweight``: whole networks with random weights."""

from __future__ import annotations

from pathlib import Path

import click


def verify_network(
    models: tuple[Path, ...], seed: int, host: str, json_file: Path | None, others: dict[str, object], **how
) -> None:
    """Verify one model as a network, and say what was found; exit code 1 where anything is wrong.

    Args:
        models: of which there must be one.
        others: options of ``convc verify`` by name that a network does not take; they must not be given.
        how: cache, batch, dtype, precision, numerics, options.
    """
    from convc import api
    from convc.report.console import console, progress_bar
    from convc.report.network import network_json, print_network
    from convc.report.output import check_reports, write_report

    given = [f"--{name}" for name, value in others.items() if value]
    if given:
        raise click.UsageError(f"--reweight runs the whole network: leave {', '.join(given)} out.")
    if len(models) > 1:
        raise click.UsageError("--reweight runs one network: give one MODEL.")
    quiet = check_reports(json_file)
    with progress_bar() as progress:
        network = api.verify_network(models[0], seed, host=host, progress=progress, **how)
    if not quiet:
        print_network(console(), network)
    if json_file is not None:
        write_report(json_file, network_json(network))
    if not network.ok:
        raise click.exceptions.Exit(1)
