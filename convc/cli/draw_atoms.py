"""``convc draw atom``: who holds which element of a tensor-core instruction."""

from __future__ import annotations

from pathlib import Path

import click

from convc.cli.contradictions import refuse_given
from convc.cli.draw_output import check_output, table_option, write_picture


@click.command("atom", short_help="Threads and values of an instruction's matrices.")
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
