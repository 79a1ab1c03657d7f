"""The changes of its loops that a kernel of any schedule may have, besides what its schedule does."""

from __future__ import annotations

from collections.abc import Iterator

from convc.derive.orders import orders
from convc.derive.parts import shares
from convc.derive.reindex import Reindexed
from convc.derive.walks import walks


def changes() -> Iterator[Reindexed]:
    """All of them."""
    yield from shares()
    yield from orders()
    yield from walks()
