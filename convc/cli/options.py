"""Arguments and options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path

import click

path_type = click.Path(path_type=Path)

model_argument = click.argument("model", type=path_type)

batch_option = click.option(
    "--batch", type=click.IntRange(min=1), metavar="N", help="Images, where the model leaves the batch open."
)
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["f16", "bf16", "tf32"]),
    help="Operand type, in place of the model's (float32 models run as tf32).",
)


def layer_option(required: bool = False):
    """``--layer NAME``."""
    return click.option("--layer", metavar="NAME", required=required, help="One convolution of the model.")
