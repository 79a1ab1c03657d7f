"""Options with a choice of values: the nearest is guessed for one that there is not, as for names everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from convc.support.guessing import nearest

if TYPE_CHECKING:  # classes of click 8.1 have no parameter
    ClickChoice = click.Choice[str]
    ParamType = click.ParamType[Any]
else:
    ClickChoice = click.Choice
    ParamType = click.ParamType


class Choice(ClickChoice):
    """One of some values.

    Args:
        choices: the values.
        meant: what other names for them are to say, such as ``fp8``, which is two types.
    """

    def __init__(self, choices: Sequence[str], meant: Mapping[str, str] | None = None) -> None:
        super().__init__(choices)
        self.meant = dict(meant or {})

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or click.BadParameter with those there are and the one that was meant."""
        names = [str(choice) for choice in cast("Sequence[object]", self.choices)]
        word = str(value)
        if word in names:
            return word
        known = ", ".join(names)
        near = nearest(word, names)
        guess = self.meant.get(word.casefold()) or ("" if near is None else f"did you mean {near!r}?")
        return self.fail(f"{word!r} is not one of {known}{f'; {guess}' if guess else ''}", param, ctx)


DTYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "mxfp8", "mxfp4", "nvfp4")
"""The types of ``--dtype``: all of `convc.ir.dtypes.FLOAT_OPERANDS` but float32 in parts, which ``--precision`` has."""

FLOAT_NAMES = {
    "fp8": "fp8 is e4m3 or e5m2 (or mxfp8, with scale factors)",
    "float8": "float8 is e4m3 or e5m2 (or mxfp8, with scale factors)",
    "f8": "f8 is e4m3 or e5m2 (or mxfp8, with scale factors)",
    "float8e4m3fn": "say e4m3",
    "float8_e4m3fn": "say e4m3",
    "float8e5m2": "say e5m2",
    "float8_e5m2": "say e5m2",
    "fp4": "fp4 is nvfp4 or mxfp4",
    "float4": "float4 is nvfp4 or mxfp4",
    "e2m1": "e2m1 comes with scale factors: nvfp4 or mxfp4",
    "fp16": "say f16",
    "float16": "say f16",
    "half": "say f16",
    "bfloat16": "say bf16",
    **dict.fromkeys(("fp32", "f32", "float32", "float"), "float32 runs as tf32; --precision comes nearer to it"),
    **dict.fromkeys(
        ("int8", "s8", "u8", "uint8", "i8"), "integers come from a quantised model, whose scales are known"
    ),
    **dict.fromkeys(("fp64", "f64", "float64", "double"), "float64 is not compiled"),
}
"""What people call types, and what of ``--dtype`` that is."""
