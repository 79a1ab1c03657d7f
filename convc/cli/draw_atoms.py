"""``convc draw atom|hmma``: who holds which element of a tensor-core instruction, and in which steps it is done."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.contradictions import refuse_given
from convc.cli.draw_output import check_output, table_option, write_picture


@click.command("atom", short_help="Which thread and value hold each element of an instruction's matrices.")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--list", "listed", is_flag=True, help="Print the names of all atoms, each family under its spelling.")
@click.option("--most", type=click.IntRange(min=1), help="Rows and columns that are drawn of each matrix.")
@table_option
def atom_command(name: str | None, listed: bool, most: int | None, output: Path | None) -> None:
    """Draw which thread holds which element of an instruction: mma.m16n8k16.f16, tcgen05.ld.16x256b.x2, ...

    Below A, B and D stand their thread-value layouts in CuTe's notation. Of tcgen05.mma, wgmma and tcgen05.cp places
    in tensor memory and in shared memory are drawn.
    """
    from convc.draw.atoms import named_picture, names_by_spelling

    if listed == (name is not None):
        raise click.UsageError("expected the name of an atom or --list, such as: convc draw atom mma.m16n8k16.f16")
    if name is None:
        refuse_given("--list prints names and draws nothing", {"most", "output"})
        for spelling, names in names_by_spelling():
            click.echo(f"{spelling}\n{names}")
        return
    check_output(output)
    write_picture(named_picture(name, most), output)


@click.command("hmma", short_help="Sets and steps of a wmma on Volta or Turing.")
@click.option("--arch", required=True, metavar="volta|turing", help="The GPU whose steps are drawn.")
@click.option("--sums", default="f32", show_default=True, metavar="f32|f16", help="Type of C and D.")
@table_option
def hmma_command(arch: str, sums: str, output: Path | None) -> None:
    """Draw the HMMAs of a wmma m16n16k16 of f16, with cycles and register reads as published, and who holds A, B and D.

    Beside the registers of Volta stand those of the simulator, which are those of Turing and later.
    """
    from convc.draw.hmma import hmma_picture

    check_output(output)
    write_picture(hmma_picture(arch, sums), output)
