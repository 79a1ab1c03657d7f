"""``convc explain``: what an error code means."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from convc import errors
from convc.cli.options import json_option
from convc.errors import ConvcError, InputError


def codes() -> dict[str, type[ConvcError]]:
    """Every class of error that has a code of its own, by that code."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ConvcError)]
    own = (kind for kind in kinds if "code" in vars(kind) and kind is not ConvcError)
    return {kind.code: kind for kind in sorted(own, key=lambda kind: kind.code)}


@click.command("explain")
@click.argument("code", required=False)
@json_option
def explain_command(code: str | None, json_file: Path | None) -> None:
    """Explain an error CODE (as in error[P100]), or list them all."""
    known = codes()
    wanted = None if code is None else code.strip("[] ").removeprefix("error").strip("[] ").upper()
    if wanted is not None and wanted not in known:
        raise InputError(f"there is no error code {code!r}", hint=f"codes: {', '.join(known)}")
    if json_file is not None and explain_to(json_file, [known[wanted]] if wanted else list(known.values())):
        return
    if wanted is None:
        for name, kind in known.items():
            click.echo(f"{name}  exit {kind.exit_code}  {first_line(kind)}")
        return
    kind = known[wanted]
    click.echo(f"{wanted}: {kind.__name__} (exit code {kind.exit_code})\n\n{inspect.getdoc(kind)}")


def explain_to(file: Path, kinds: list[type[ConvcError]]) -> bool:
    """Write explanations as JSON; whether that was to stdout."""
    # Imported here because reports load numpy, and an explanation on the terminal needs nothing of the kind.
    from convc.report.output import check_reports, json_text, write_report

    quiet = check_reports(file)
    codes = [
        {"code": kind.code, "name": kind.__name__, "exit_code": kind.exit_code, "explanation": inspect.getdoc(kind)}
        for kind in kinds
    ]
    write_report(file, json_text({"format": "convc-explain/1", "codes": codes}))
    return quiet


def first_line(kind: type[ConvcError]) -> str:
    """The first line of an error's explanation."""
    return (inspect.getdoc(kind) or "").splitlines()[0]
