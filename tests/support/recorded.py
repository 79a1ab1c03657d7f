"""What the simulator ran, given to ptxas: a test kernel that ptxas refuses proves nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from support import forms, kernels

from convc.support.ptxas import assemble

MOST = 50
"""Kernels assembled per test file; those that differ in numbers only count once."""


@contextmanager
def recorded() -> Iterator[dict[str, str]]:
    """Record the texts of all kernels that tests run; by their text without numbers."""
    texts: dict[str, str] = {}
    run = kernels.run

    def record(text, *args, **options):
        result = run(text, *args, **options)
        texts.setdefault(re.sub(r"\d+", "", text), text)
        return result

    kernels.run = forms.run = record
    try:
        yield texts
    finally:
        kernels.run = forms.run = run


def assemble_all(texts: dict[str, str]) -> None:
    """Every recorded kernel is PTX for its target."""
    for text in list(texts.values())[:MOST]:
        assemble(text, "sm_90a" if ".target sm_90a" in text else "sm_100a")
