"""One BLAS thread for numpy's products: they are small, a second one stalls more than it helps; sums keep one order."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit the BLAS that numpy loaded to one thread, as long as the context lasts."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """The thread pools of this process: looking for them takes milliseconds, so once."""
    return ThreadpoolController()
