"""Ctrl-C while a command runs: an import is first brought to its end, and what comes of it is no mistake."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time

import click
import pytest

from convc.cli.main import main, noted_interrupts


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C is heard, also where a shell started the tests in the background, and they ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_import_is_brought_to_its_end(tmp_path, monkeypatch):
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\ntotal = sum(range(1000))\n"
    (tmp_path / "interrupted_import.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with noted_interrupts() as interrupted:
        module = importlib.import_module("interrupted_import")
        assert interrupted.is_set()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(60)
        assert time.monotonic() - began < 30  # nobody who waits for something waits for it to end
    assert module.total == 499500
    assert signal.getsignal(signal.SIGINT) is before
    del sys.modules["interrupted_import"]


@pytest.mark.parametrize("made", [KeyboardInterrupt, ImportError, RuntimeError])
def test_what_a_library_makes_of_it_is_an_interruption(convc, monkeypatch, made):
    """Python raises it in a library in C, which may make another exception of it."""

    def command(*arguments: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise made from None

    monkeypatch.setattr(type(main), "get_command", lambda *_: click.Command("explain", callback=command))
    result = convc("explain")
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
