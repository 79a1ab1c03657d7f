"""A Chromium without a window, which opens a page and prints what became of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
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

LET_GO = """<script>
new MutationObserver((_, observer) => {
  if (document.getElementById("told") === null) return;
  observer.disconnect();
  document.getElementById("held").src = "data:,";
}).observe(document.body, { childList: true });
</script>"""


@dataclass(frozen=True)
class Browser:
    """A program, and a folder of its own for each call."""

    program: str
    folder: Path

    def told(self, page: str, width: int, height: int = 1200) -> dict[str, Any]:
        """What a script at the page's end left as JSON in an element of the id ``told``, in real time."""
        found = ANSWER.search(self._call(page, width, height, "--dump-dom"))
        assert found, "the script of the test came to no end"
        return json.loads(found[1])

    def screenshot(self, page: str, width: int, height: int) -> bytes:
        """The first screen as PNG, when a script at the page's end has left ``told``."""
        image = self.folder / "shot.png"
        self._call(page, width, height, f"--screenshot={image}")
        return image.read_bytes()

    def _call(self, page: str, width: int, height: int, *what: str) -> str:
        """Do something with a loaded page: loading waits for a picture that never comes, until ``told`` is there."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            here = f"http://127.0.0.1:{silent.getsockname()[1]}"
            held = page.replace("default-src 'none'", f"default-src 'none'; img-src data: {here}", 1)
            held = held.replace("</body>", f'<img id="held" alt="" hidden src="{here}/">{LET_GO}</body>')
            return self._run(held, width, height, *what)

    def _run(self, page: str, width: int, height: int, *what: str) -> str:
        (self.folder / "page.html").write_text(page)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += [f"--window-size={width},{height}", f"--user-data-dir={self.folder}/profile"]
        call = [self.program, *flags, *what, f"file://{self.folder}/page.html"]
        return subprocess.run(call, capture_output=True, text=True, timeout=120, check=True).stdout


def browser_program() -> str | None:
    """The program of CONVC_BROWSER, on the path, or of Playwright; None where there is none."""
    known = [os.environ.get("CONVC_BROWSER"), *map(shutil.which, NAMES), *map(str, Path.home().glob(PLAYWRIGHT))]
    return next(filter(None, known), None)
