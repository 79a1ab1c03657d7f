"""Ctrl-C, as a user presses it: on a process that a terminal started, and once more where nothing happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

PATIENCE_S = 15
LISTENING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
"""A shell lets what it runs in the background ignore Ctrl-C, and children inherit that; those of a terminal do not."""


def start(arguments: Sequence[object], **streams: int) -> subprocess.Popen:
    """A Python process, with these arguments, that leads a group of its own and can be interrupted."""
    command = [sys.executable, "-c", LISTENING, sys.executable, *arguments]
    return subprocess.Popen(command, text=True, start_new_session=True, **streams)


def interrupt(process: subprocess.Popen) -> str:
    """Interrupt a process of `start`, and give what it still said on stderr.

    Python drops a KeyboardInterrupt that falls into a finaliser, so that a rare Ctrl-C has no effect.
    """
    for _ in range(4):
        os.killpg(process.pid, signal.SIGINT)
        try:
            return process.communicate(timeout=PATIENCE_S)[1]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    raise AssertionError("the process goes on after four interrupts")
