"""Ctrl-C while a command runs.

Python raises `KeyboardInterrupt` wherever it is. Inside an import that goes wrong: what numpy imports from C prints a
traceback by itself, and makes an `ImportError` of it. So an import is first brought to its end. Libraries in C may make
another exception of it elsewhere too; so it is noted that there was a Ctrl-C: what is raised behind it comes of it.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.02
"""Seconds until an import is looked at again."""

MOST = 250
"""So often an import is waited for: 5 seconds, of which one that hangs has all."""


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Give an event that is set when Ctrl-C comes, which raises `KeyboardInterrupt` as soon as no import is under way.

    It is never set where the process ignores or handles Ctrl-C by itself, or outside of its main thread.
    """
    interrupted = threading.Event()
    waited = 0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal waited
        interrupted.set()
        waited += 1
        if _imports(frame) and waited <= MOST:
            again = threading.Timer(AGAIN, _interrupt_main)
            again.daemon = True
            again.start()
            return
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before not in (signal.default_int_handler, signal.SIG_DFL):
        yield interrupted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_main() -> None:
    """Send the main thread the signal, so that it wakes where it sleeps; what `_thread.interrupt_main` does waits."""
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame was called, through whatever lies between, by an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
