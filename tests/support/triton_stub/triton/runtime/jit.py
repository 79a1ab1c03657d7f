"""Kernels that were compiled before; a call goes as Triton's runtime goes."""

from types import SimpleNamespace

from triton.runtime import driver


class JITFunction:
    """A kernel, with its compiler's metadata and the types of its arguments."""

    def __init__(self, metadata, signature):
        self.compiled = SimpleNamespace(signature=signature), metadata

    def __getitem__(self, grid):
        return lambda *args: self.run(*args, grid=grid)

    def run(self, *args, grid):
        active = driver.active
        run = active.launcher_cls(*self.compiled)
        name = self.compiled[1].name
        active.utils.load_binary(name, b"", self.compiled[1].shared, active.get_current_device())
        run(*(*grid, 1, 1)[:3], active.get_current_stream(0), "function", (), None, None, None, *args)
