"""A Chromium without a window, which opens a page and prints what became of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
PLAYWRIGHT = ".cache/ms-playwright/chromium_headless_shell-*/*/*headless*shell"
MISSING = (
    "no browser: apt-get install chromium-headless-shell, python -m playwright install chromium-headless-shell, "
    "or set CONVC_BROWSER to the program of a Chromium"
)
ANSWER = re.compile(r'<script type="application/json" id="told">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class Browser:
    """A program, and a folder of its own for each call."""

    program: str
    folder: Path

    def told(self, page: str, width: int) -> dict[str, Any]:
        """What a script at the page's end left as JSON in an element of the id ``told``, in a window so wide."""
        found = ANSWER.search(self._call(page, width, "--dump-dom"))
        assert found, "the script of the test came to no end"
        return json.loads(found[1])

    def screenshot(self, page: str, width: int) -> bytes:
        """The first screen as PNG."""
        image = self.folder / "shot.png"
        self._call(page, width, f"--screenshot={image}")
        return image.read_bytes()

    def _call(self, page: str, width: int, what: str) -> str:
        (self.folder / "page.html").write_text(page)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"]
        flags += [f"--window-size={width},1200", f"--user-data-dir={self.folder}/profile"]
        call = [self.program, *flags, what, f"file://{self.folder}/page.html"]
        return subprocess.run(call, capture_output=True, text=True, timeout=60, check=True).stdout


def browser_program() -> str | None:
    """The program of CONVC_BROWSER, on the path, or of Playwright; None where there is none."""
    known = [os.environ.get("CONVC_BROWSER"), *map(shutil.which, NAMES), *map(str, Path.home().glob(PLAYWRIGHT))]
    return next(filter(None, known), None)
