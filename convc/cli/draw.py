"""``convc draw``: pictures, each a command of its own; those that need no model are here."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from convc.api.options import AUTO
from convc.cli.contradictions import MODEL_OPTIONS, refuse_given
from convc.cli.draw_layer import lanes_command, layer_of_model, memory_command, operands_command, tile_command
from convc.cli.draw_layouts import layout_command, tiled_command
from convc.cli.draw_output import check_output, output_option, write_picture
from convc.cli.draw_time import (
    memory_time_command,
    passes_command,
    roofline_command,
    schedules_command,
    timeline_command,
)
from convc.cli.explain_descriptor import descriptor_options
from convc.cli.once import OnceGroup
from convc.cli.options import Chosen


@click.command("atom", short_help="Which thread and value hold each element of an instruction's matrices.")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--list", "listed", is_flag=True, help="Print the names of all atoms, by instruction.")
@click.option("--most", type=click.IntRange(min=1), help="Maximum rows and columns of each matrix.")
@output_option
def atom_command(name: str | None, listed: bool, most: int | None, output: Path | None) -> None:
    """Draw which thread holds which element of an instruction: mma.m16n8k16.f16, tcgen05.ld.16x256b.x2, ...

    Thread-value layouts in CuTe's notation are printed below A, B and D. For tcgen05.mma, wgmma and tcgen05.cp the
    addresses in tensor memory and shared memory are drawn.
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
@output_option
def hmma_command(arch: str, sums: str, output: Path | None) -> None:
    """Draw the HMMAs of a wmma m16n16k16 of f16: published cycles and register reads, and the layouts of A, B and D.

    Beside the registers of Volta it shows those of the simulator, which are those of Turing and later.
    """
    from convc.draw.hmma import hmma_picture

    check_output(output)
    write_picture(hmma_picture(arch, sums), output)


@click.group("draw", cls=OnceGroup)
def draw_command() -> None:
    """Draw a picture as SVG, in colours for light and dark pages.

    Pictures are drawn from convc's own data: the plan, the tiles as copies fill them, the addresses that the
    simulator's tensor core reads, the trace of the timing model.
    """


@draw_command.command("mma-layout", short_help="Places of the elements of a tcgen05.mma.")
@click.option("--kind", required=True, metavar="KIND", help="Of the tcgen05.mma: f16, tf32, f8f6f4, i8, mxf8f6f4, ...")
@click.option("--m", type=int, required=True, help="Rows of D, of both CTAs of a pair.")
@click.option("--n", type=int, required=True, help="Columns of D.")
@click.option("--k", type=int, help="Elements of K that are shown; by default those of one instruction.")
@click.option("--swizzle", default="128B", show_default=True, help="Of A and B in shared memory: none, 32B, 64B, 128B.")
@click.option("--pair", is_flag=True, help="A pair of CTAs multiplies (cta_group::2).")
@output_option
def draw_mma_layout(kind: str, m: int, n: int, k: int | None, swizzle: str, pair: bool, output: Path | None) -> None:
    """Draw the place of each element of a tcgen05.mma: A and B, K-major, in shared memory, D in tensor memory."""
    from convc.draw.mma import mma_layout, mma_picture

    check_output(output)
    write_picture(mma_picture(mma_layout(kind, m, n, k=k, swizzle=swizzle, pair=pair)), output)


@draw_command.command("swizzle", short_help="Places of the units of eight rows in shared memory.")
@click.argument("mode", metavar="none|32B|64B|128B")
@output_option
def draw_swizzle(mode: str, output: Path | None) -> None:
    """Draw the places of the 16-byte units of eight rows in the lines of shared memory."""
    from convc.draw.swizzles import swizzle_picture

    check_output(output)
    write_picture(swizzle_picture(mode), output)


@draw_command.command("registers", short_help="Threads and registers of a tcgen05.ld.")
@click.option("--shape", required=True, metavar="SHAPE", help="Of tcgen05.ld: 32x32b, 16x64b, 16x128b or 16x256b.")
@click.option("--num", "number", default="x1", show_default=True, help="How often the shape is repeated: x1 to x128.")
@output_option
def draw_registers(shape: str, number: str, output: Path | None) -> None:
    """Draw the thread and the register that receive each cell of tensor memory."""
    from convc.draw.atoms import registers_picture

    check_output(output)
    write_picture(registers_picture(shape, number), output)


@draw_command.command("descriptor", short_help="The bits of a descriptor and their meaning.")
@descriptor_options
@output_option
def draw_descriptor(word: str, name: str | None, kind: str | None, output: Path | None) -> None:
    """Draw the bits of a descriptor, with name, range, value and meaning of each field (see explain-descriptor)."""
    from convc.draw.descriptors import descriptor_picture
    from convc.draw.fields import explain_word

    check_output(output)
    write_picture(descriptor_picture(explain_word(word, name, kind)), output)


def _grid(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Tiles along M and along N of ``PxQ``."""
    if text is None:
        return None
    numbers = text.split("x")
    if len(numbers) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in numbers):
        raise click.BadParameter(f"expected tiles along M and along N, such as 16x12, got {text!r}", ctx, param)
    return int(numbers[0]), int(numbers[1])


@draw_command.command("rasterization-order", short_help="The order in which tiles begin.")
@functools.partial(layer_of_model, required=False)
@click.option("--grid", callback=_grid, metavar="PxQ", help="Tiles along M and along N, in place of a layer's.")
@click.option("--sms", type=click.IntRange(min=1), default=148, show_default=True, help="SMs of the chip.")
@output_option
def draw_rasterization_order(
    model: Path | None,
    layer: str | None,
    grid: tuple[int, int] | None,
    sms: int,
    output: Path | None,
    chosen: Chosen,
) -> None:
    """Draw the order in which the tiles of a grid start, and the wave of each.

    The grid is that of a layer's plan, or given with --grid.
    """
    from convc import api
    from convc.draw.tile_order import grid_order, plan_order, tile_order_picture

    if (model is None) == (grid is None):
        raise click.UsageError("expected a model, whose layer has a grid, or --grid PxQ, and not both")
    check_output(output)
    if grid is not None:
        refuse_given("--grid is a grid without a layer", {*MODEL_OPTIONS, "layer"} - {"rasterization_order"})
        order = chosen.schedule.rasterization_order
        drawn = grid_order(*grid, sms, "rows" if order == AUTO else order)
    else:
        assert model is not None
        plan = api.inspect(model, layer, read=chosen.read, schedule=chosen.schedule).plan
        drawn = plan_order(plan)
    write_picture(tile_order_picture(drawn, sms), output)


for each in (
    atom_command,
    hmma_command,
    layout_command,
    tiled_command,
    lanes_command,
    tile_command,
    memory_command,
    memory_time_command,
    operands_command,
    passes_command,
    timeline_command,
    roofline_command,
    schedules_command,
):
    draw_command.add_command(each)
