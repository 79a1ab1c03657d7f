"""What all tests share: golden files, the assembler, and hypothesis without deadlines.

Helpers live in ``tests/support`` and are imported as ``from support.oracles import oracles_agree``.
"""

from __future__ import annotations

import difflib
import gc
import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import hypothesis
import pytest
from support import examples
from support.rotation import Rotation
from support.sampling import leave_to_the_slow_part

from convc.runtime.network.host import default_host
from convc.support.ptxas import Assembled, assemble

os.environ.pop("COLUMNS", None)  # tables are as wide as they are, whoever starts the tests
os.environ["CONVC_CACHE"] = "off"  # no test uses the user's compile cache, nor does a process that a test starts
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles all files of convc anew

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden from what the tests make now")
    parser.addoption(
        "--rotate", type=int, metavar="SEED", help="a third of the tests, in an order that only this seed has"
    )
    parser.addoption("--for", type=float, metavar="SECONDS", dest="seconds", help="begin no test later than that")


def pytest_configure(config: pytest.Config) -> None:
    """Say how many random examples there are, before the first test is collected: all of them in ``make slow``."""
    if config.option.markexpr == "slow or hypothesis":
        examples.run_all()
    profile = hypothesis.settings(max_examples=examples.some(100), deadline=None, print_blob=True)
    hypothesis.settings.register_profile("convc", profile)
    hypothesis.settings.load_profile("convc")
    config.pluginmanager.register(Rotation(config.option.rotate, config.option.seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say who ran the nodes that are no convolutions: what passes with one may not with the other."""
    terminalreporter.write_line(f"host: {default_host()}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for garbage among the tests while they are collected, nor ever after: there are 14,000."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before ``-m`` chooses by it."""
    leave_to_the_slow_part(items)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Mapping[str, str]], None]:
    """``golden(folder, {file name: text})`` compares with ``tests/golden/folder`` byte for byte."""

    def check(folder: str, files: Mapping[str, str]) -> None:
        home = GOLDEN / folder
        if request.config.getoption("--update-golden"):
            home.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (home / name).write_text(text, encoding="utf-8")
        for name, text in files.items():
            path = home / name
            assert path.is_file(), f"{path} does not exist: run pytest with --update-golden, then read it"
            blessed = path.read_text(encoding="utf-8")
            if text != blessed:
                lines = difflib.unified_diff(
                    blessed.splitlines(), text.splitlines(), f"golden/{folder}/{name}", "now", lineterm="", n=2
                )
                shown = "\n".join(list(lines)[:60])
                pytest.fail(
                    f"{shown}\nif this is what you mean: pytest --update-golden, and review the diff", pytrace=False
                )

    return check


@pytest.fixture(scope="session")
def assembled() -> Callable[[str], Assembled]:
    """``assembled(ptx)``: what ptxas makes of a text for sm_100a; a refusal fails the test with ptxas's words."""
    return assemble
