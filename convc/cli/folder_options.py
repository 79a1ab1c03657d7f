"""Options of ``convc exec`` about folders that other compilers leave: what is in them, and launch files for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from convc.cli.choice import ParamType
from convc.cli.options import Command, path_type, target_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Wishes about a folder; there are none where neither ``triton_cache`` nor ``cute_dump`` is given."""

    triton_cache: Path | None = None
    cute_dump: Path | None = None
    kernel_name: str | None = None
    grid: tuple[int, int, int] | None = None
    arguments: tuple[tuple[str, str], ...] = ()
    shared_bytes: int | None = None
    emit_launch: Path | None = None


class _Grid(ParamType):
    """Extents x, y and z of a grid; y and z may be left out."""

    name = "X,Y,Z"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """Three numbers of at least 1, or click.BadParameter."""
        parts = [each.strip() for each in str(value).split(",")]
        if not 1 <= len(parts) <= 3 or not all(each.isdecimal() and int(each) for each in parts):
            self.fail(f"expected one to three whole numbers, as 8,1,1, got {value!r}", param, ctx)
        x, y, z = (*map(int, parts), 1, 1)[:3]
        return x, y, z


class _Argument(ParamType):
    """A name and what it is."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Both, or click.BadParameter."""
        name, equals, said = str(value).partition("=")
        if not name or not equals or not said:
            self.fail(f"expected NAME=VALUE, as x=x.npy, x=f16[64,64] or n=1000, got {value!r}", param, ctx)
        return name, said


OPTIONS = (
    click.option("--triton-cache", type=path_type, metavar="DIR", help="Instead of files: a kernel of Triton's cache."),
    click.option("--cute-dump", type=path_type, metavar="DIR", help="Instead of files: a kernel that CuTe DSL dumped."),
    click.option("--kernel", "kernel_name", metavar="NAME", help="The kernel, where the folder has several."),
    click.option("--grid", type=_Grid(), help="The grid of its launch, as in the program."),
    click.option("--arg", "arguments", type=_Argument(), multiple=True, help="One of its arguments, as x=f16[64,64]."),
    click.option("--shared-bytes", type=click.IntRange(0), metavar="N", help="Its dynamic shared memory."),
    click.option(
        "--emit-launch",
        type=target_type,
        metavar="FILE",
        help="Write its launch file; without it, list the arguments.",
    ),
)


def folder_options(command: Command) -> Command:
    """Give a command these options, as one argument ``asked``."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def answer(asked: Asked, kernel: Path | None) -> bool:
    """Do what is asked of a folder; False where nothing is.

    Raises:
        click.UsageError: options that have no use for one another.
    """
    folder = asked.triton_cache or asked.cute_dump
    if folder is None:
        if asked != Asked():
            raise click.UsageError(
                "--kernel, --grid, --arg, --shared-bytes, --emit-launch: give --triton-cache or --cute-dump."
            )
        return False
    if asked.triton_cache is not None and asked.cute_dump is not None:
        raise click.UsageError("--triton-cache and --cute-dump are two kinds of folders: give one of them.")
    if kernel is not None:
        raise click.UsageError(f"the kernel is one of {folder}: leave {kernel} out.")
    # Imported when the command runs: its help needs none of it.
    from convc.api.finding import find_kernels, write_launch

    tool = "triton" if asked.triton_cache is not None else "cute"
    if asked.emit_launch is not None:
        found = write_launch(
            folder,
            tool,
            asked.emit_launch,
            dict(asked.arguments),
            kernel=asked.kernel_name,
            grid=asked.grid,
            shared=asked.shared_bytes,
        )
        click.echo(f"wrote {asked.emit_launch}: kernel {found.name}")
        click.echo(f"next: convc exec {found.ptx} {asked.emit_launch} --check")
        return True
    for found in find_kernels(folder, tool):
        if asked.kernel_name in (None, found.name):
            click.echo(f"{found.name}: {found.ptx}")
            for argument in found.needed:
                click.echo(f"  {argument}")
            if found.grid is not None:
                click.echo(f"  grid {','.join(map(str, found.grid))}")
    option = "--triton-cache" if tool == "triton" else "--cute-dump"
    click.echo(f"next: convc exec {option} {folder} --grid 8,1,1 --arg NAME=VALUE --emit-launch launch.json")
    return True
