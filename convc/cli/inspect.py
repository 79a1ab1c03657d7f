"""``convc inspect``: how one layer is compiled, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from convc.cli.options import batch_option, dtype_option, layer_option, model_argument, schedule_options

if TYPE_CHECKING:
    from convc.plan.records import Options


@click.command("inspect", short_help="Show how a layer is compiled, and why.")
@model_argument
@layer_option(required=True)
@batch_option
@dtype_option
@schedule_options
def inspect_command(model: Path, layer: str, batch: int | None, dtype: str | None, options: Options) -> None:
    """Show how a layer of MODEL becomes a kernel: loops, index maps, plan, memory, steps, and the PTX."""
    from convc import api
    from convc.report.console import console
    from convc.report.inspect import print_inspection

    print_inspection(console(), api.compile_layer(model, layer, batch=batch, dtype=dtype, options=options))
