"""Ctrl-C, as a user presses it: once more where nothing happened."""

from __future__ import annotations

import os
import signal
import subprocess

PATIENCE_S = 15


def interrupt(process: subprocess.Popen) -> str:
    """Interrupt a process that leads a group of its own, and give what it still said on stderr.

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
