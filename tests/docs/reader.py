"""A reader who does what a page says: types its commands, runs its Python, and compares what comes out.

    block                 what the reader does with it
    ```console            types each line that starts with ``$ ``; the lines below it are what must come out
    ```python             runs it; the names that it makes stay for the later blocks of the page
    ```pycon              the same, line by line after ``>>> ``, and compares the values (`doctest`)
    ```<language> <file>  writes the block into that file

All blocks of a page work in one folder, in order. In what comes out ``...`` stands for anything, any amount of space is
like any other, and times (a number and s or ms) are not compared. A command whose exit code is not 0 must be followed
by ``$ echo $?``: a page may not show a failure without saying so.
"""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from convc.cli.main import main

FENCED = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\b\d+(?:\.\d+)? (?=m?s\b)")
FOR_THE_SHELL = re.compile(r"[|<>;&*$`]")
ASK_EXIT_CODE = "echo $?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, the file that it is written to (or ""), its text and its first line's number."""

    language: str
    file: str
    text: str
    line: int


def blocks_of(page: str) -> Iterator[Block]:
    """The fenced blocks of a page's text that name a language, in order."""
    for match in FENCED.finditer(page):
        line = page.count("\n", 0, match.start()) + 2
        yield Block(language=match[1], file=match[2] or "", text=match[3], line=line)


def typed(console: str) -> list[tuple[str, str]]:
    """(command, what must come out) of a console block; a command that ends with a backslash goes on below."""
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block starts with a command"
    pairs: list[tuple[str, str]] = []
    for part in parts[1:]:
        match = re.match(r"((?:.*\\\n)*.*)\n?", part)
        assert match is not None
        pairs.append((match[1].replace("\\\n", " "), part[match.end() :]))
    return pairs


def same(shown: str, made: str) -> bool:
    """Whether what a page shows is what was made; see the head of this file."""
    wanted, got = (" ".join(TIME.sub("# ", text).split()) for text in (shown, made))
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern.replace(r"\ .*", ".*").replace(r".*\ ", ".*"), got) is not None


@dataclass(slots=True)
class Reader:
    """Someone who reads a page in a folder of their own.

    Attributes:
        folder: where the page's commands run; also the current folder of this process.
        names: what the Python blocks have made so far.
        exit_code: of the last command.
    """

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0

    def follow(self, page: str) -> None:
        """Do all that a page says; AssertionError with the line where something else comes out."""
        for block in blocks_of(page):
            if block.file:
                (self.folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                self.type(block)
            elif block.language == "python":
                self.names = runpy.run_path(self._module(block), init_globals=self.names)
            elif block.language == "pycon":
                self.try_out(block)

    def type(self, block: Block) -> None:
        """Type the commands of a console block."""
        pairs = typed(block.text)
        for index, (command, shown) in enumerate(pairs):
            made = self.run(command)
            assert same(shown, made), (
                f"line {block.line}: $ {command}\n--- the page shows\n{shown}--- this came\n{made}"
            )
            said = index + 1 < len(pairs) and pairs[index + 1][0] == ASK_EXIT_CODE
            assert self.exit_code == 0 or said, f"line {block.line}: $ {command}\nexit code {self.exit_code}\n{made}"

    def try_out(self, block: Block) -> None:
        """Run a session, and compare each value that it shows."""
        session = doctest.DocTestParser().get_doctest(block.text, self.names, "page", "page", block.line)
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(session, out=report.append, clear_globs=False)
        self.names = session.globs
        assert not report, f"line {block.line}\n{''.join(report)}"

    def run(self, command: str) -> str:
        """What a command prints, stdout and stderr; a plain ``convc`` is called in this process, which is quicker."""
        if command.startswith("convc ") and not FOR_THE_SHELL.search(command):
            result = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="convc")
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            self.exit_code = result.exit_code
            return result.output
        done = subprocess.run(
            ["bash", "-c", f"(exit {self.exit_code})\n{command}"],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{self._tools()}{os.pathsep}{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        self.exit_code = 0 if command == ASK_EXIT_CODE else done.returncode
        return done.stdout

    def _module(self, block: Block) -> str:
        """A file with a Python block, at the line that it has in the page."""
        path = self._tools() / f"line_{block.line}.py"
        path.write_text("\n" * (block.line - 1) + block.text, encoding="utf-8")
        return str(path)

    def _tools(self) -> Path:
        """A folder with ``convc`` and ``python``, which are those that run this test."""
        tools = self.folder / ".tools"
        if not tools.exists():
            tools.mkdir()
            for name, start in (("convc", "-m convc"), ("python", "")):
                script = tools / name
                script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {start} "$@"\n', encoding="utf-8")
                script.chmod(0o755)
        return tools
