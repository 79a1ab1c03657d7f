"""``python -m convc`` is the command ``convc``.

Until the command is imported Ctrl-C simply ends the process: there is nothing yet to clean up, and nobody to say so.
"""

from __future__ import annotations

import signal
from typing import NoReturn


def entry() -> NoReturn:
    """Import the command line and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from convc.cli.main import entry as command

    command()


if __name__ == "__main__":
    entry()
