"""The verbs of convc for Python programs: load, compile, run, verify.

    import convc
    network = convc.load("resnet50.onnx", batch=1)
    build = convc.compile(network, "build", layer="conv1")
    y = convc.run("build", x)
    report = convc.verify(network, seed=7)

Each takes a model as a path or as a loaded `Network`. Nothing heavy is imported before a verb needs it: `run`
works without onnx, sympy and jinja2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from convc.errors import InputError, NodeError
from convc.networks import Cache as Cache
from convc.networks import run_model as run_model
from convc.networks import verify_network as verify_network
from convc.support.progress import Progress, Tell

if TYPE_CHECKING:
    import numpy as np

    from convc.build.folder import Build
    from convc.compiler.compile import Compiled
    from convc.compiler.options import ScheduleOptions
    from convc.ir.network import ConvNode, Network
    from convc.verification.records import NetworkReport, VerifyReport
    from convc.workers.pool import Pool


def load(
    path: str | Path,
    batch: int | None = None,
    dtype: str | None = None,
    precision: str | None = None,
    fuse: bool = True,
) -> Network:
    """Read an ONNX model.

    Args:
        path: the file.
        batch: images, where the model leaves the batch open.
        dtype: operand type, one of `convc.ir.dtypes.FLOAT_OPERANDS`, in place of the model's.
        precision: how float32 is multiplied: tf32 (the default), bf16x3, bf16x6 or tf32x3
            (`convc.layout.split_precision`).
        fuse: let convolutions take in what follows them (`convc.frontend.fusion`).

    Raises:
        ModelError, NodeError, ProblemError: the model cannot be read, or has a convolution of a kind that
            convc does not compile.
    """
    from convc.frontend.onnx_reader import read_model

    return read_model(path, batch=batch, operand=dtype, precision=precision, fuse=fuse)


def compile(
    model: str | Path | Network,
    out_dir: str | Path,
    *,
    layer: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    precision: str | None = None,
    options: ScheduleOptions | None = None,
    assembler: Callable[[str, str], bytes] | None = None,
    cache: Cache = None,
    jobs: int | None = None,
    executor: str | Executor | Pool | None = None,
    progress: Tell | None = None,
    fuse: bool = True,
) -> Build:
    """Compile the convolutions of a model into a build folder (`convc.build.folder`), which is whole or not there.

    Args:
        model: a path, or a loaded network (then batch, dtype and precision were settled by `load`).
        out_dir: the folder; a build that is there is replaced, anything else is refused.
        layer: compile this one alone.
        options: which schedules to consider (`convc.compiler.options.ScheduleOptions`); all of them by default.
        assembler: called with the digest and the text of each kernel; what it gives becomes its
        ``kernel.cubin``.
        cache: where kernels are kept (see `Cache`).
        jobs, executor: where kernels are compiled (see `verify`).
        fuse: as of `load`, where a path is given.

    Raises:
        InputError: the folder or the cache cannot be used, or there is no such layer.
        PlanError: a layer has no kernel.
    """
    from convc.build.folder import check_build_target, load_build
    from convc.build.writer import write_build
    from convc.compiler.cache import kept_kernels
    from convc.compiler.kernels import Kernels
    from convc.compiler.options import ScheduleOptions
    from convc.workers.jobs import compile_all

    target = Path(out_dir)
    check_build_target(target)
    told = Progress(progress)
    told(f"read {_named(model)}", 0.0)
    network, convs = _select(model, layer, batch, dtype, precision, fuse)
    with kept_kernels(cache) as kept, _pool(executor, jobs) as pool:
        kernels = Kernels(options or ScheduleOptions(), kept)
        if pool is not None and not pool.optional:
            compile_all(kernels, convs, pool, told.part(0.0, 0.5))
        else:
            for index, conv in enumerate(convs):
                told(f"compile {conv.name}", 0.5 * index / len(convs))
                kernels.compiled(conv.problem)
        write_build(target, network, convs, kernels, assembler, told.part(0.5, 1.0))
    return load_build(target)


def compile_layer(
    model: str | Path | Network,
    layer: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    precision: str | None = None,
    options: ScheduleOptions | None = None,
    fuse: bool = True,
) -> Compiled:
    """Compile one convolution and keep every stage of it: problem, plan, tile program, text and launch.

    Raises:
        InputError: there is no such layer, or several and no name.
        PlanError: it has no kernel.
    """
    return compile_node(model, layer, batch, dtype, options, precision, fuse)[1]


def compile_node(
    model: str | Path | Network,
    layer: str | None = None,
    batch: int | None = None,
    dtype: str | None = None,
    options: ScheduleOptions | None = None,
    precision: str | None = None,
    fuse: bool = True,
) -> tuple[ConvNode, Compiled]:
    """`compile_layer`, with the convolution as the model has it: weights, tensors, and what was fused into it."""
    from convc.build.folder import pick_layer
    from convc.compiler.compile import compile_problem
    from convc.compiler.kernels import shared_problem
    from convc.compiler.options import ScheduleOptions

    network, convs = _select(model, layer, batch, dtype, precision, fuse)
    conv = pick_layer(convs, layer, network.name)
    return conv, compile_problem(shared_problem(conv.problem), options=options or ScheduleOptions())


def run(
    build_dir: str | Path,
    x: np.ndarray,
    layer: str | None = None,
    numerics: str = "float32",
    progress: Tell | None = None,
    residual: np.ndarray | None = None,
) -> np.ndarray:
    """Run one layer of a build folder on activations (N, C, H, W); gives (N, K, P, Q).

    Args:
        residual: (N, K, P, Q), where the layer's epilogue adds one.

    Raises:
        InputError: there is no such layer, or several and no name; or x or the residual does not fit it.
        BuildError, LaunchError, PtxSyntaxError, UnmodelledError: the folder or its kernel is damaged.
        MachineFault, DeadlockError: the kernel fails.
    """
    from convc.build.folder import load_build
    from convc.machine import RunOptions, Switches
    from convc.runtime.layer import run_layer

    options = RunOptions(switches=Switches(numerics=numerics))
    ready = load_build(Path(build_dir)).load(layer)
    told = Progress(progress).launch(f"run {ready.name}")
    return run_layer(ready, x, options, progress=told, residual=residual).y


def verify(
    model: str | Path | Network,
    layer: str | None = None,
    batch: int | None = None,
    seed: int = 0,
    dtype: str | None = None,
    precision: str | None = None,
    mode: str = "both",
    numerics: str = "float32",
    options: ScheduleOptions | None = None,
    cache: Cache = None,
    jobs: int | None = None,
    executor: str | Executor | Pool | None = None,
    progress: Tell | None = None,
    fuse: bool = True,
    *,
    reweight: int | None = None,
) -> VerifyReport | NetworkReport:
    """Compile every convolution of a model (or one layer), run the text, and compare it with the reference.

    Args:
        model: a path, or a loaded network (then batch, dtype and precision were settled by `load`).
        seed: of the data; at least 0.
        mode: integer (bit for bit), normal (the model's weights, derived bound), or both.
        numerics: how the tensor core adds: float32, or exact (see `convc.machine.Switches`).
        options: which schedules to consider; all of them by default.
        cache: where kernels are kept (see `Cache`).
        jobs, executor: where the layers are checked: in this process (the default), in that many processes of this
            machine, on an executor (see `convc.workers.executors.executor_opener`), or on a `Pool` that several calls
            share.
        fuse: as of `load`, where a path is given.
        reweight: give every layer random weights of this seed and verify the whole network (`verify_network`, which
            also says what comes back); ``seed``, ``mode``, ``jobs``, ``executor`` and ``fuse`` then have no say, and a
            ``layer`` is refused.

    Raises:
        InputError: an argument has a value that does not exist, or there is no such layer.
        LimitError, PlanError, WorkerError: a layer has no kernel or does not fit, or workers or a cluster fail.
    """
    if reweight is not None:
        if layer is not None or not isinstance(model, str | Path):
            raise InputError("reweight takes the path of a model, and no layer: it runs the whole network")
        return verify_network(
            model,
            reweight,
            batch=batch,
            dtype=dtype,
            precision=precision,
            numerics=numerics,
            options=options,
            cache=cache,
            progress=progress,
        )
    from convc.compiler.cache import kept_kernels
    from convc.compiler.kernels import Kernels
    from convc.compiler.options import ScheduleOptions
    from convc.machine import RunOptions, Switches
    from convc.verification.layer import check_layer, modes_of
    from convc.verification.records import VerifyReport
    from convc.workers.jobs import check_all, one_thread, worth_sending

    if seed < 0:
        raise InputError(f"seed must be at least 0, got {seed}")
    modes = modes_of(mode)
    machine = RunOptions(switches=Switches(numerics=numerics))
    told = Progress(progress)
    told(f"read {_named(model)}", 0.0)
    network, convs = _select(model, layer, batch, dtype, precision, fuse)
    reports = []
    with kept_kernels(cache) as kept, _pool(executor, jobs) as pool:
        kernels = Kernels(options or ScheduleOptions(), kept)
        if pool is not None and (not pool.optional or worth_sending(convs, modes)):
            reports = check_all(kernels, convs, pool, seed=seed, modes=modes, options=machine, progress=told)
        else:
            for index, conv in enumerate(convs):
                part = told.piece(index, len(convs))
                part(f"compile {conv.name}", 0.0)
                kernel = kernels.compiled(conv.problem)
                with one_thread():
                    reports.append(check_layer(conv, kernel, seed=seed, modes=modes, options=machine, progress=part))
    return VerifyReport(
        source=network.name,
        seed=seed,
        layers=tuple(reports),
        kernels=len(kernels),
        skipped=network.skipped,
    )


@contextmanager
def _pool(executor: str | Executor | Pool | None, jobs: int | None) -> Iterator[Pool | None]:
    """The pool asked for, which is closed again unless it is the caller's; None: work in this process."""
    from convc.workers.pool import Pool

    if isinstance(executor, Pool):
        yield None if executor.here else executor
        return
    with Pool(executor, 1 if executor is jobs is None else jobs) as pool:
        yield None if pool.here else pool


def _select(
    model: str | Path | Network,
    layer: str | None,
    batch: int | None,
    dtype: str | None,
    precision: str | None,
    fuse: bool,
) -> tuple[Network, tuple[ConvNode, ...]]:
    """The network, and the convolutions to work on: all, or the one named.

    Where one is named, the others need not be of a kind that convc compiles.
    """
    from convc.build.folder import pick_layer
    from convc.frontend.onnx_reader import read_model

    if isinstance(model, str | Path):
        network = read_model(
            model, batch=batch, operand=dtype, precision=precision, skip_refused=layer is not None, fuse=fuse
        )
    elif batch is None and dtype is None and precision is None:
        network = model
    else:
        raise InputError("batch, dtype and precision are given to load, not together with a loaded network")
    if layer is None:
        return network, network.convs
    for conv in network.convs:
        if layer in conv.fused:
            hint = f"compile {conv.name}, or fuse nothing (--no-fuse)"
            raise NodeError(f"fused into convolution {conv.name!r}", where=f"node {layer!r}", hint=hint)
    for node in network.skipped:
        if node.name == layer:
            raise NodeError(node.reason, where=f"node {node.name!r} ({node.op_type})")
    return network, (pick_layer(network.convs, layer, network.name),)


def _named(model: str | Path | Network) -> str:
    return Path(model).name if isinstance(model, str | Path) else model.name
