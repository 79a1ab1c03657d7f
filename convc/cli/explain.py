"""``convc explain``: what a code or a short name in a message means."""

from __future__ import annotations

import difflib
import inspect
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from convc import errors
from convc.cli.options import json_option
from convc.errors import ConvcError, InputError
from convc.report.codes import AUDIT, FINDINGS, VERDICTS
from convc.support.guessing import nearest
from convc.support.resources import SCHEMAS, schema_file

NEAR = 3
"""Names that are guessed where there is none of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A name that messages have, and what it means.

    Attributes:
        code: as it is printed.
        kind: ``error``, ``finding``, ``audit``, ``verdict``, ``switch`` or ``rule``.
        name: the class of an error in Python, else ``code``.
        exit_code: of a command that ends with this error; None where other things decide that.
        explanation: some sentences.
    """

    code: str
    kind: str
    name: str
    exit_code: int | None
    explanation: str

    @property
    def first_line(self) -> str:
        """Its first sentence, or first line."""
        return re.split(r"(?<=[.:]) (?=[A-Z])|\n", self.explanation)[0]


HEADINGS = {
    "error": "Errors, as in error[P100]",
    "finding": "Findings of check and exec, as in error[hang]",
    "verdict": "Verdicts of check and verify",
    "switch": "Switches (--switch NAME=SETTING)",
    "audit": "Rules of audit, as in error[pair-rendezvous]",
    "rule": "Rules that reject a candidate (inspect)",
}
"""Kinds of codes, in the order of the list."""


def codes() -> dict[str, Code]:
    """Every name that a command prints in a message, by that name."""
    # Imported here because the planner and the simulator are large, and an error code is explained without them.
    from convc.api.rules import rejection_rules
    from convc.machine.base.switches import explained

    more = [
        *(_plain("switch", code, text) for code, text in explained().items()),
        *(_plain("rule", code, text) for code, text in sorted(rejection_rules().items())),
    ]
    return _light() | {each.code: each for each in more}


def _light() -> dict[str, Code]:
    """The codes that are known without the simulator and the planner."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ConvcError)]
    own = (kind for kind in kinds if "code" in vars(kind) and kind is not ConvcError)
    matches = [
        Code(
            code=kind.code,
            kind="error",
            name=kind.__name__,
            exit_code=kind.exit_code,
            explanation=inspect.getdoc(kind) or "",
        )
        for kind in sorted(own, key=lambda kind: kind.code)
    ]
    matches += [_plain("finding", code, text) for code, text in FINDINGS.items()]
    matches += [_plain("audit", code, text) for code, text in AUDIT.items()]
    matches += [_plain("verdict", code, text) for code, text in VERDICTS.items()]
    return {each.code: each for each in matches}


def _plain(kind: str, code: str, text: str) -> Code:
    """A code that is no class of errors."""
    return Code(code=code, kind=kind, name=code, exit_code=None, explanation=text)


@click.command("explain")
@click.argument("code", nargs=-1)
@click.option("--schema", metavar="FORMAT", help="Print the JSON Schema of a format, such as convc-check/1.")
@json_option
def explain_command(code: tuple[str, ...], schema: str | None, json_file: Path | None) -> None:
    """Explain each CODE of a message: an error (error[P100]), a finding, a verdict, a switch; or list all.

    --schema prints the JSON Schema of a format that convc writes or reads.
    """
    if schema is not None:
        if code or json_file is not None:
            raise click.UsageError("--schema prints a schema and nothing else: leave CODE and --json out.")
        _print_schema(schema)
        return
    chosen = _asked(code) if code else list(codes().values())
    if json_file is not None and explain_to(json_file, chosen):
        return
    if not code:
        _print_list(chosen)
        return
    click.echo("\n\n".join(_explained(one) for one in chosen))


def _explained(one: Code) -> str:
    status = "" if one.exit_code is None else f" (exit code {one.exit_code})"
    title = f"{one.code}: {one.name if one.kind == 'error' else one.kind}{status}"
    return f"{title}\n\n{one.explanation}"


def _asked(words: tuple[str, ...]) -> list[Code]:
    """The codes that words name: together one that has a blank in it, such as ``in bound``, or each one of its own."""
    try:
        return [_found(" ".join(words))]
    except InputError:
        if len(words) == 1:
            raise
    return [_found(word) for word in words]


def _found(word: str) -> Code:
    """The code that is asked for, as it was printed or nearly so; `InputError` with the nearest where there is none."""
    inside = re.fullmatch(r"\w*\[([^]]*)\]:?", word.strip())
    wanted = (inside[1] if inside else word).strip("[] :")
    for known in (_light, codes):
        by_name = {name.lower(): each for name, each in known().items()}
        if wanted.lower() in by_name:
            return by_name[wanted.lower()]
    near = difflib.get_close_matches(wanted.lower(), by_name, n=NEAR)
    guess = f"did you mean {' or '.join(by_name[name].code for name in near)}? " if near else ""
    raise InputError(f"there is no code {word!r}", hint=f"{guess}`convc explain` lists all codes")


def _print_schema(format: str) -> None:
    """The shipped schema of a format; `InputError` with the formats that there are."""
    known = sorted("/".join(file.stem.rsplit("-", 1)) for file in SCHEMAS.glob("*.json"))
    if format not in known:
        near = nearest(format, known)
        guess = "" if near is None else f"did you mean {near}? "
        raise InputError(f"there is no format {format!r}", hint=f"{guess}formats: {', '.join(known)}")
    click.echo(schema_file(format).read_text("utf-8"), nl=False)


def _print_list(listed: list[Code]) -> None:
    """All codes, kind by kind, each with its first sentence."""
    for kind, heading in HEADINGS.items():
        members = [each for each in listed if each.kind == kind]
        width = max(len(each.code) for each in members)
        click.echo(f"{heading}:")
        for each in members:
            status = "" if each.exit_code is None else f"exit {each.exit_code}  "
            click.echo(f"  {each.code:{width}}  {status}{each.first_line}")
        click.echo()


def explain_to(file: Path, chosen: list[Code]) -> bool:
    """Write explanations as JSON; whether that was to stdout."""
    # Imported here because reports load numpy, and an explanation on the terminal needs nothing of the kind.
    from convc.report.output import check_reports, json_text, write_report

    quiet = check_reports(file)
    write_report(file, json_text({"format": "convc-explain/2", "codes": [asdict(each) for each in chosen]}))
    return quiet
