"""What the tests of architecture share: files are parsed once, and the trees dropped behind the last test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture import parsed


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    yield
    parsed.forget()
