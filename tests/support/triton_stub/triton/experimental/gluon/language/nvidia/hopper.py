"""Names for Hopper."""

fence_async_shared = mbarrier = tma = None
