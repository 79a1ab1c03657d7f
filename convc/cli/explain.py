"""``convc explain``: what an error code means."""

from __future__ import annotations

import inspect

import click

from convc import errors
from convc.errors import ConvcError, InputError


def codes() -> dict[str, type[ConvcError]]:
    """Every class of error by its code."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ConvcError)]
    return {kind.code: kind for kind in sorted(kinds, key=lambda kind: kind.code) if kind is not ConvcError}


@click.command("explain", short_help="Say what an error code means.")
@click.argument("code", required=False)
def explain_command(code: str | None) -> None:
    """Explain an error CODE (as in error[P100]), or list them all."""
    known = codes()
    if code is None:
        for name, kind in known.items():
            click.echo(f"{name}  exit {kind.exit_code}  {first_line(kind)}")
        return
    wanted = code.strip("[] ").removeprefix("error").strip("[] ").upper()
    if wanted not in known:
        raise InputError(f"there is no error code {code!r}", hint=f"codes: {', '.join(known)}")
    kind = known[wanted]
    click.echo(f"{wanted}: {kind.__name__} (exit code {kind.exit_code})\n\n{inspect.getdoc(kind)}")


def first_line(kind: type[ConvcError]) -> str:
    """The first line of an error's explanation."""
    return (inspect.getdoc(kind) or "").splitlines()[0]
