"""``convc derive``: the loops of a schedule from the definition of a convolution, by rewrites that are theorems."""

from __future__ import annotations

from pathlib import Path

import click

from convc.api.deriving import BORDERS, GRADIENTS, ROWS, SCHEDULES, derive_gradient, derive_schedules, derive_theorem
from convc.cli.options import target_type


@click.command("derive")
@click.argument("name", required=False, metavar="[SCHEDULE | GRADIENT | THEOREM]")
@click.option(
    "--stream",
    "rows",
    default=ROWS[0],
    metavar="KIND",
    help="Output rows of a tile: outer (default), merged.",
)
@click.option(
    "--padding",
    "border",
    default=BORDERS[0],
    metavar="WAY",
    help="How lanes with padding get zeros: mask (default), zero.",
)
@click.option("--windows", is_flag=True, help="For shift: tiles are windows that overlap by the halo.")
@click.option("--latex", "latex_file", type=target_type, metavar="FILE", help="Write the theorems as a LaTeX document.")
def derive_command(name: str | None, rows: str, border: str, windows: bool, latex_file: Path | None) -> None:
    """Derive the loops of SCHEDULE (reload, slide, stationary, shift), or of all, from the definition of a convolution.

    Or those of GRADIENT: dgrad, by the input, or wgrad, by the weights.

    For all sizes at once: each rewrite with its theorem, the conditions on the problem, and the proof. The algorithms
    are numbered as in Pei Luo, "Blackwell SM_100a tensor core architecture". With the name of a theorem, as convc
    inspect prints it: its statement, conditions, proof and uses.
    """
    if name is None or name in SCHEDULES:
        derivation = derive_schedules(name, rows=rows, border=border, windows=windows)
    elif name in GRADIENTS:
        derivation = derive_gradient(name)
    else:
        derivation = derive_theorem(name)
    if latex_file is not None:
        from convc.report.output import write_report

        write_report(latex_file, derivation.latex.encode())
        if str(latex_file) == "-":
            return
        click.echo(f"wrote {latex_file}: the theorems of {', '.join(derivation.names)}")
    else:
        click.echo("\n".join(derivation.lines))
