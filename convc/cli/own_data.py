"""The part of ``convc verify`` that runs a network on data of the user's: ``--input``, ``--expect``, tolerances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc import api
from convc.api.options import WorkOptions
from convc.cli.options import Chosen, Command, inputs_option, noted_files
from convc.cli.streams import check_once, model_source, named_files, sources_of
from convc.cli.whole import judge

if TYPE_CHECKING:
    from convc import DataReport


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnData:
    """Options of ``convc verify`` on what the user gives and expects."""

    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    atol: float | None
    rtol: float | None

    @property
    def asked(self) -> tuple[str, ...]:
        """The options that were given, but for ``--input``."""
        given = (("--expect", self.expect), ("--atol", self.atol is not None), ("--rtol", self.rtol is not None))
        return tuple(name for name, value in given if value)


def data_options(command: Command) -> Command:
    """``--input``, ``--expect``, ``--atol`` and ``--rtol``: the fields of `OwnData`."""
    rule = "part of what an output may be off by, atol + rtol*|expected|; decides in place of what rounding explains."
    for name, words in (("rtol", f"Relative {rule}"), ("atol", f"Absolute {rule}")):
        command = click.option(f"--{name}", type=float, metavar="F", help=words)(command)
    command = click.option(
        "--expect",
        multiple=True,
        callback=noted_files(False),
        metavar="[NAME=]Y",
        help="What the network must give, .npy or .npz; needs --input.",
    )(command)
    return inputs_option("Run the whole network on this .npy or .npz (- is stdin), with its own weights, and compare.")(
        command
    )


def verify_own_data(model: Path, given: OwnData, host: str, json_file: Path | None, chosen: Chosen) -> None:
    """Run a network on data of the user's, and say what was found."""
    # Imported when the command runs: its help needs no report.
    from convc.report.own_data import data_json, print_data

    files = named_files(given.inputs, "--input")
    expected = named_files(given.expect, "--expect")
    check_once(model, *files.values(), *expected.values())

    def verify(work: WorkOptions) -> DataReport:
        wanted = api.Expected(
            outputs=sources_of(expected, "what is expected") if expected else None, atol=given.atol, rtol=given.rtol
        )
        feeds = sources_of(files, "an input")
        return api.verify_data(
            model_source(model),
            feeds,
            wanted,
            host=host,
            read=chosen.read,
            schedule=chosen.schedule,
            machine=chosen.machine,
            work=work,
        )

    judge(model, json_file, chosen, verify, print_data, data_json, shapes=lambda report: report.shapes)
