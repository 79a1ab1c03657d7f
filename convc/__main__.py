"""``python -m convc`` is the command ``convc``."""

from __future__ import annotations

from convc.cli.main import entry

if __name__ == "__main__":
    entry()
