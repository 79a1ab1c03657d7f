"""Shares of L2 where SMs ask for the same place, or for less than lines, as `convc.timing.shares` has them."""

from __future__ import annotations

import math

from convc.compiler.plan.constraints import TileGrid
from convc.compiler.plan.requests import LINE_BYTES
from convc.compiler.plan.work import CtaWork
from convc.ir.arch import Rates

REQUEST_BYTES = 64
"""Bytes of L2's rate that a request takes at least (`convc.timing.accesses.REQUEST`)."""


def fullest_cpc(asking: float, rates: Rates) -> float:
    """SMs that ask of the CPC that has most of them (`convc.timing.shares.fullest_cpc`)."""
    whole = -(-rates.sms // (rates.gpcs * rates.cpcs))
    beyond = max(0.0, asking - rates.sms / 2) / rates.gpcs
    return max(1.0, min(whole, min(asking / rates.gpcs / rates.cpcs, whole / 2) + beyond))


def asked_in_parts(tiles: TileGrid, work: CtaWork, rows: tuple[float, float]) -> float:
    """Bytes of L2's rate of a CTA whose rows are no whole lines (`convc.timing.resources.Share.asked`).

    A request takes `REQUEST_BYTES` at least. Filters are asked for by as many SMs as there are tiles of pixels: those
    that ask for the same at the same time wait for each other.
    """
    rates = tiles.arch.rates
    activations, filters = work.asked_bytes
    alike = min(1.0, tiles.grid[0] / min(rates.sms, math.prod(tiles.grid)))
    met = (rates.same_place - REQUEST_BYTES) * rates.meeting * alike
    asked_a = max(REQUEST_BYTES * activations / work.row_bytes * rows[0], activations)
    requests = filters / work.row_bytes * rows[1]
    return asked_a + max(REQUEST_BYTES * requests, filters) + met * requests


def in_parts(work: CtaWork, rows: tuple[float, float], rates: Rates) -> bool:
    """Whether a CTA asks for less than lines, where it is known what that takes of L2.

    Args:
        work, rates: of the CTA, and of the target.
        rows: cycles of a row of activations, and of one of the filter (`convc.compiler.plan.requests.row_cycles`).
    """
    return rates.meeting > 0 and (work.row_bytes < LINE_BYTES or rows[1] > work.row_bytes / rates.fill_bytes)
