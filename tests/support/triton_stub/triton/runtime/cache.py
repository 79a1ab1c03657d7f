"""The cache of compiled kernels: a folder for each hash."""

from pathlib import Path

CACHE = Path(__file__).parents[4] / "foreign" / "triton_cache"


class CacheManager:
    """The folder of a hash."""

    def __init__(self, hash):
        self.cache_dir = str(CACHE)
        self.hash = hash

    def get_group(self, name):
        for found in CACHE.glob(f"*/{name}"):
            if self.hash in found.read_text():
                return {each.name: str(each) for each in found.parent.iterdir()}
        return {}


def get_cache_manager(hash):
    return CacheManager(hash)
