"""The choice of cache hints: L2 is to keep what is read again, and may lose first what is read once.

A copy can name a cache policy, an eviction priority of the lines that it brings (PTX manual, ``createpolicy``,
``.L2::cache_hint``). It is a hint: results never depend on it. The timing engine does not price it.

Every tile of pixels reads all filters of its channels, every tile of channels all activations of its pixels. What
is read again stays, as far as L2 holds it: then results, which pass through, go first. Where L2 does not hold both, the
rasterization order says which comes back late: along M first every column of tiles reads all activations again, while
its own filters are in constant use; along N first it is the other way round. In other orders both come back soon, and
the smaller one stays.
"""

from __future__ import annotations

import msgspec

from convc.compiler.index.order_names import COLUMNS, ROWS, OrderName
from convc.compiler.index.traffic import Bytes
from convc.compiler.plan.names import EVICT_FIRST, EVICT_LAST, Priority


class CacheHints(msgspec.Struct, frozen=True, kw_only=True):
    """The priority of what copies bring; None: no hint.

    Attributes:
        activations, filters: operands, each with its scale factors.
        residual: where tensor copies bring it.
        why: a sentence for each, and what speaks against hints where there are none; empty where none are requested.
    """

    activations: Priority | None = None
    filters: Priority | None = None
    residual: Priority | None = None
    why: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether a copy has a hint."""
        return any((self.activations, self.filters, self.residual))


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of a launch that read the same, and its bytes.

    Attributes:
        activations, filters: copies of other tiles that bring the same bytes; 1: those of one tile alone.
        taps: whether the filter taps of a tile read pixels again.
        residual: whether tensor copies bring a residual.
        order: of the tiles.
        size: bytes of the launch.
    """

    activations: int
    filters: int
    taps: bool
    residual: bool
    order: OrderName
    size: Bytes


def choose_hints(asked: str, readers: Readers) -> CacheHints:
    """Choose what stays in L2, and say why.

    Args:
        asked: ``off``, ``on``, or ``estimate``, where hints are worth a try if L2 does not hold the launch.
        readers: of the launch.
    """
    size = readers.size
    if asked == "off":
        return CacheHints()
    if asked == "estimate" and size.all <= size.l2:
        return CacheHints(why=(f"no cache hints: L2 holds all {size.all} bytes",))
    activations, about_activations = _of_activations(readers)
    filters, about_filters = _of_filters(readers)
    residual = ("residual: evict_first, read once",) if readers.residual else ()
    return CacheHints(
        activations=activations,
        filters=filters,
        residual=EVICT_FIRST if readers.residual else None,
        why=(f"activations: {about_activations}", f"filters: {about_filters}", *residual),
    )


def _of_activations(readers: Readers) -> tuple[Priority | None, str]:
    if readers.activations == 1:
        if readers.taps:
            return None, "no hint, read again by the filter taps of a tile alone"
        return EVICT_FIRST, "evict_first, read once"
    read = f"read for {readers.activations} tiles of channels"
    if _both_stay(readers) or _activations_first(readers):
        return EVICT_LAST, f"evict_last, {read}"
    return None, f"no hint, {read}, but the filters stay"


def _of_filters(readers: Readers) -> tuple[Priority | None, str]:
    if readers.filters == 1:
        return EVICT_FIRST, "evict_first, read once"
    read = f"read for {readers.filters} tiles of pixels"
    if readers.activations == 1 or _both_stay(readers) or not _activations_first(readers):
        return EVICT_LAST, f"evict_last, {read}"
    return None, f"no hint, {read}, but the activations stay"


def _both_stay(readers: Readers) -> bool:
    """Whether L2 has room for both operands, as long as results go before them."""
    return readers.size.activation + readers.size.filter <= readers.size.l2


def _activations_first(readers: Readers) -> bool:
    """Whether activations, which are read again, are what stays where L2 has no room for both."""
    size = readers.size
    if readers.filters == 1:
        return True
    if readers.order == ROWS and size.activation <= size.l2:
        return True
    if readers.order == COLUMNS and size.filter <= size.l2:
        return False
    return size.activation < size.filter
