"""``convc explain-descriptor``: the fields of a descriptor as a table."""

from __future__ import annotations

import click

from convc.cli.choice import Choice


def descriptor_options(command: click.decorators.FC) -> click.decorators.FC:
    """``WORD``, ``--as`` and ``--kind``: a descriptor as it is written down."""
    command = click.option(
        "--kind", metavar="KIND", help="Of the tcgen05.mma, for an instruction descriptor: f16, tf32, f8f6f4, i8, ..."
    )(command)
    command = click.option(
        "--as",
        "name",
        type=Choice(["matrix", "instruction", "zero-mask", "tensormap"]),
        help="Kind of descriptor; by default by its size: 32 bits, 64 bits, or the 128 bytes of a tensor map.",
    )(command)
    return click.argument("word", metavar="0x...")(command)


@click.command("explain-descriptor")
@descriptor_options
@click.pass_context
def explain_descriptor_command(ctx: click.Context, word: str, name: str | None, kind: str | None) -> None:
    """Say what each field of a descriptor means, from bit 0 up; exit code 1 where sm_100a takes no such descriptor.

    A descriptor is a number, 0x8100010. A tensor map is the 256 hexadecimal digits of its bytes by address.
    """
    # Imported when the command runs: its help needs neither numpy nor the simulator.
    from convc.draw.fields import explain_word

    explanation = explain_word(word, name, kind)
    click.echo(explanation.title)
    width = max(len(field.name) for field in explanation.fields)
    bits = max(len(field.bits) for field in explanation.fields)
    digits = max(len(field.digits) for field in explanation.fields)
    click.echo(f"{'bits':{bits}}  {'field':{width}}  {'value':{digits}}  meaning")
    for field in explanation.fields:
        click.echo(f"{field.bits:{bits}}  {field.name or '-':{width}}  {field.digits:{digits}}  {field.meaning}")
    if explanation.wrong:
        click.echo(f"wrong: {explanation.wrong}")
        ctx.exit(1)
