"""The sections of the page on a layer, by the names that pick them: the command line lists them without the page."""

from __future__ import annotations

SECTION_NAMES = ("schedules", "plan", "loops", "maps", "memory", "steps", "ptx")
"""In the order of the page; `convc.explain.inspect.SECTIONS` has what prints each."""
