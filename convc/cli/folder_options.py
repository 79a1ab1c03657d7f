"""Options of ``convc exec`` about folders that other compilers leave: what is in them, and launch files for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from convc.cli.choice import ParamType
from convc.cli.options import Command, path_type, target_type


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """Options on a folder of kernels; none is used where neither ``triton_cache`` nor ``cute_dump`` is given."""

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
    """Give a command these options, the fields of `FolderOptions`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def answer(options: FolderOptions, kernel: Path | None) -> bool:
    """Do what is asked of a folder; False where nothing is.

    Raises:
        click.UsageError: options that have no use for one another.
    """
    folder = options.triton_cache or options.cute_dump
    if folder is None:
        if options != FolderOptions():
            raise click.UsageError(
                "--kernel, --grid, --arg, --shared-bytes, --emit-launch: give --triton-cache or --cute-dump."
            )
        return False
    if options.triton_cache is not None and options.cute_dump is not None:
        raise click.UsageError("--triton-cache and --cute-dump are two kinds of folders: give one of them.")
    if kernel is not None:
        raise click.UsageError(f"the kernel is one of {folder}: leave {kernel} out.")
    # Imported when the command runs: its help needs none of it.
    from convc.api.finding import find_kernels, write_launch

    tool = "triton" if options.triton_cache is not None else "cute"
    if options.emit_launch is not None:
        written = write_launch(
            folder,
            tool,
            options.emit_launch,
            dict(options.arguments),
            kernel=options.kernel_name,
            grid=options.grid,
            shared=options.shared_bytes,
        )
        click.echo(f"wrote {options.emit_launch}: kernel {written.name}")
        click.echo(f"next: convc exec {written.ptx} {options.emit_launch} --check")
        return True
    for written in find_kernels(folder, tool):
        if options.kernel_name in (None, written.name):
            click.echo(f"{written.name}: {written.ptx}")
            for argument in written.needed:
                click.echo(f"  {argument}")
            if written.grid is not None:
                click.echo(f"  grid {','.join(map(str, written.grid))}")
    option = "--triton-cache" if tool == "triton" else "--cute-dump"
    click.echo(f"next: convc exec {option} {folder} --grid 8,1,1 --arg NAME=VALUE --emit-launch launch.json")
    return True
