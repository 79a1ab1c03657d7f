"""The verbs of convc for whole networks: run a model, and verify it with random weights.

Nothing heavy is imported before a verb needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from convc.errors import InputError
from convc.support.progress import Progress, Tell

if TYPE_CHECKING:
    import numpy as np

    from convc.compiler.options import ScheduleOptions
    from convc.verification.records import NetworkReport

Cache = str | Path | bool | None
"""Where compiled kernels are kept from one process to the next: a folder, False for nowhere, None for what the
environment variable ``CONVC_CACHE`` or else the system says (see `convc.compiler.cache.open_cache`)."""


def verify_network(
    model: str | Path,
    seed: int,
    *,
    batch: int | None = None,
    dtype: str | None = None,
    precision: str | None = None,
    numerics: str = "float32",
    host: str = "reference",
    options: ScheduleOptions | None = None,
    cache: Cache = None,
    progress: Tell | None = None,
) -> NetworkReport:
    """Give every layer of a model random weights, run the network, and compare it layer by layer and end to end.

    Nothing is fused: every node is compared by itself.

    Args:
        model: path of the file.
        seed: of weights and inputs; at least 0.
        batch: what stands for extents that the inputs leave open; 1 by default.
        dtype: operand type in place of the model's.
        precision: of float32 convolutions where ``dtype`` is not given: tf32, or in parts
            (`convc.layout.split_precision`).
        numerics: how the tensor core adds (see `verify`).
        host: who runs the nodes that are no convolutions: reference, or onnxruntime, which is faster.
        cache: where kernels are kept (see `Cache`).

    Raises:
        ModelError, NodeError: the model cannot be read, or has a node that nobody can run.
    """
    from convc.compiler.cache import kept_kernels
    from convc.frontend.model_file import load_model
    from convc.machine import RunOptions, Switches
    from convc.runtime.network.io import convolutions_of, errors_in
    from convc.verification.network import verify_graph

    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    if batch is not None and batch < 1:
        raise InputError(f"batch must be at least 1, got {batch}")
    machine = RunOptions(switches=Switches(numerics=numerics))
    path = Path(model)
    with kept_kernels(cache) as kept, errors_in(path):
        return verify_graph(
            load_model(path),
            seed=seed,
            folder=path.parent,
            batch=1 if batch is None else batch,
            convolutions=convolutions_of(dtype, precision or "tf32", options, machine, kept),
            host=host,
            progress=Progress(progress),
        )


def run_model(
    model: str | Path,
    feeds: Mapping[str, np.ndarray],
    *,
    dtype: str | None = None,
    precision: str = "tf32",
    numerics: str = "float32",
    host: str = "reference",
    fuse: bool = True,
    cache: Cache = None,
    progress: Tell | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of a whole model by name, its convolutions from their PTX and all other nodes on the host.

    Args:
        model: path of the file.
        feeds: an array for each input, by name; floating-point ones are rounded to the type of the input.
        dtype, precision, numerics, host, cache: see `verify_network`.
        fuse: let convolutions take in the BatchNormalization, activations and residuals behind them, and read what
            others wrote without repacking where they can. Weights with a folded BatchNormalization are rounded once
            more than without.

    Raises:
        InputError: an input is missing, or has another shape or type.
        NodeError, ProblemError, PlanError: a convolution that convc does not compile, or a node that nobody can run.
    """
    from convc.compiler.cache import kept_kernels
    from convc.machine import RunOptions, Switches
    from convc.runtime.network.io import cast_feeds, convolutions_of, errors_in, open_graph

    machine = RunOptions(switches=Switches(numerics=numerics))
    path = Path(model)
    with kept_kernels(cache) as kept, errors_in(path):
        graph = open_graph(path, convolutions_of(dtype, precision, None, machine, kept), host=host, fuse=fuse)
        return graph.run(cast_feeds(graph, feeds), progress=Progress(progress))
