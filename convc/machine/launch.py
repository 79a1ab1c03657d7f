"""Run a kernel: text and launch file in, buffers out.

This is the door of the simulator. It parses (or takes) the text, refuses what it has no semantics for, places the
buffers, and runs the grid in cohorts of CTAs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from convc import ptx
from convc.errors import InputError, LaunchError, LimitError
from convc.ir.dtypes import ARRAY_TYPES
from convc.ir.findings import Finding, Judged, Verdict
from convc.ir.launch import AddressOf, BufferSpec, LaunchSpec
from convc.machine.execute.decode import DecodedKernel, decode
from convc.machine.execute.engine import run_cohort
from convc.machine.memory.global_memory import SHIFT, GlobalMemory
from convc.machine.options import RunOptions
from convc.machine.parameters import parameters_of
from convc.machine.state.counters import Counters
from convc.machine.state.grants import Grants
from convc.machine.state.launch import Launch
from convc.machine.state.observer import Observer
from convc.machine.state.variables import LIMITS, SHARED_BASE
from convc.machine.tensor_core.tensor_memory import COLUMNS, LANES
from convc.support.blas import one_blas_thread
from convc.support.collecting import staying, uncollected

Placed = tuple[tuple[str, int, int], ...]
"""Variables of a module that buffers are: name, bytes, address."""

WORKSPACE_BYTES = 32
"""Workspace of a cooperative launch: its size and the barrier of the grid behind it, a word each, zero here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Judged):
    """What a launch left behind.

    Attributes:
        buffers: every buffer after the launch, with the dtype and shape of the launch file.
        findings: what the simulator noticed (reads of unwritten memory, leaks), worst first.
        counters: what the launch did.
        seconds: wall time of the simulation, parsing included.
    """

    buffers: dict[str, np.ndarray]
    findings: tuple[Finding, ...]
    counters: Counters
    seconds: float


@lru_cache(maxsize=64)
def _decoded(text: str, file: str, entry: str, placed: Placed = ()) -> DecodedKernel:
    with staying():
        module = ptx.parse(text, file, entry)
        for kernel in module.kernels:
            if kernel.name == entry:
                return decode(module, kernel, _variables(module, placed))
    message = f"the launch file asks for entry {entry!r}, which {file} does not have"
    raise LaunchError(message, hint=f"entries: {module.listed()}")


def _variables(module: ptx.Module, placed: Placed) -> dict[str, int]:
    """The addresses of ``.global`` variables that buffers are."""
    found: dict[str, int] = {}
    for name, size, address in placed:
        variable = next((each for each in module.variables if each.name == name), None)
        if variable is None or variable.size_bytes != size or variable.space not in ("global", "const"):
            got = "there is none" if variable is None else f"it is .{variable.space}, of {variable.size_bytes} bytes"
            raise LaunchError(f"a buffer of {size} bytes is to be the .global or .const variable {name!r}, and {got}")
        if variable.space == "global":
            found[name] = address
    return found


def placed_in(launch: LaunchSpec) -> Placed:
    """The variables that buffers of a launch are."""
    return tuple(
        (spec.variable, spec.size_bytes, spec.address or number << SHIFT)
        for number, spec in enumerate(launch.buffers.values(), 1)
        if spec.variable is not None
    )


def program_of(text: str, file: str, entry: str, placed: Placed = ()) -> DecodedKernel:
    """Read and decode a kernel, as `run` does: what follows finds it done.

    Args:
        text, file, entry: the kernel.
        placed: what `placed_in` says of its launch, where there is one.

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError: it cannot be run.
    """
    return _decoded(text, file, entry, placed)


def run(
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    *,
    file: str = "kernel.ptx",
    options: RunOptions = RunOptions(),  # noqa: B008 - frozen record
    progress: Callable[[int, int], None] | None = None,
    observer: Observer | None = None,
) -> RunResult:
    """Execute one launch.

    Args:
        text: the PTX module.
        launch: grid, block, parameters and buffers.
        buffers: initial contents by name, any dtype of the right byte size; a buffer without one starts as poison.
        file: name of the text in messages.
        options: cohort size.
        progress: called with (CTAs done, CTAs in all) after every cohort.
        observer: told of everything that happens (see `convc.machine.state.observer`).

    Raises:
        PtxSyntaxError, UnmodelledError, LaunchError before anything runs; MachineError while it runs.
    """
    return _run(text, launch, buffers, file, options, progress, observer)[0]


def writer_of(
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    buffer: str,
    offset: int,
    *,
    file: str = "kernel.ptx",
    only: tuple[int, ...] = (),
) -> Finding | None:
    """Which CTA, warp and lane, by which line, last wrote a byte of a buffer in this launch; None if none did.

    ``only`` restricts the launch, see `RunOptions`.
    """
    _, memory = _run(text, launch, buffers, file, RunOptions(only=only), watch=(buffer, offset))
    if not memory.writers:
        return None
    instr, cta, warp, lane = memory.writers[-1]
    return Finding(
        verdict=Verdict.clean,
        rule="writer",
        message=f"byte {offset} of buffer {buffer!r} was written here",
        file=file,
        line=instr.span.line,
        step=instr.step,
        cta=cta,
        warp=warp,
        lanes=(lane,),
    )


def _run(
    text: str,
    launch: LaunchSpec,
    buffers: Mapping[str, np.ndarray],
    file: str,
    options: RunOptions,
    progress: Callable[[int, int], None] | None = None,
    observer: Observer | None = None,
    watch: tuple[str, int] | None = None,
) -> tuple[RunResult, GlobalMemory]:
    """Execute one launch; ``watch``: (buffer, offset) of a byte whose writers are noted."""
    started = time.perf_counter()
    launch.check("launch")
    decoded = _decoded(text, file, launch.entry, placed_in(launch))
    decoded.check_block(launch.block)
    _expect_memory(decoded, launch, options)
    memory = _memory(decoded, launch, buffers)
    workspace = memory.add_variable("the workspace of the grid", np.zeros(WORKSPACE_BYTES, np.uint8))
    if watch is not None:
        memory.watch = memory.by_name[watch[0]].base + watch[1]
    params, maps = parameters_of(decoded.variables.parameters, launch, memory)
    state = Launch(
        program=decoded,
        memory=memory,
        params=params,
        tensor_maps=maps,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        dynamic_shared=launch.shared_bytes,
        file=file,
        workspace=workspace.base if decoded.slots.cooperative else 0,
        switches=options.switches,
        policy=options.policy,
        seed=options.seed,
        grants=_grants(launch, options, asks=decoded.asks),
        evaluation=options.evaluation,
        repeats=options.repeats,
        max_instructions=options.max_instructions,
    )
    size = cohort_size(decoded, launch, options)
    cohorts: Iterable[tuple[int, int]] = _cohorts(launch, options, size)
    first, end = (0, len(options.only) * math.prod(launch.cluster)) if options.only else _range(launch, options)
    total = end - first
    if decoded.asks and not options.only:
        cohorts = state.grants.begin(options.resident, size)
    if decoded.slots.cooperative and total != launch.ctas:
        raise InputError("this is a cooperative launch (the kernel reads %envreg): run the whole grid")
    collection = uncollected() if observer is None else nullcontext()
    done = 0
    with one_blas_thread(), collection:
        for first, count in cohorts:
            with uncollected():  # an observer makes much that stays, and little in circles: looked at between cohorts
                run_cohort(state, decoded, first, count, observer)
            done += count
            if progress is not None:
                progress(total if decoded.asks and not state.grants.waiting else done, total)
    results: dict[str, np.ndarray] = {}
    for name, spec in launch.buffers.items():
        buffer = memory.by_name[name]
        results[name] = buffer.data[: buffer.size].view(ARRAY_TYPES[spec.dtype]).reshape(spec.shape)
    findings = tuple(sorted(state.findings.values(), key=lambda f: (-f.verdict, f.line)))
    seconds = time.perf_counter() - started
    return RunResult(buffers=results, findings=findings, counters=state.counters, seconds=seconds), memory


def _memory(decoded: DecodedKernel, launch: LaunchSpec, buffers: Mapping[str, np.ndarray]) -> GlobalMemory:
    """Global memory with the module's variables and every buffer of the launch."""
    memory = GlobalMemory()
    images = dict(decoded.variables.global_images())
    for name, data in images.items():
        memory.add_variable(name, data)
    images |= decoded.constant_images()
    for name in buffers:
        if name not in launch.buffers:
            raise LaunchError(
                f"buffer {name!r} is not in the launch file", hint=f"its buffers: {', '.join(launch.buffers)}"
            )
    for name, spec in launch.buffers.items():
        given = buffers.get(name)
        initial = images.get(spec.variable) if given is None and spec.variable is not None else given
        memory.add(name, _contents(name, spec, initial), spec.address)
    variables = {spec.variable: memory.by_name[name] for name, spec in launch.buffers.items() if spec.variable}
    decoded.set_constants({name: buffer.data[: buffer.size] for name, buffer in variables.items()})
    for name, spec in launch.buffers.items():
        if spec.values is not None and name not in buffers:
            _fill(memory, name, spec.values, spec.dtype)
    return memory


def _fill(memory: GlobalMemory, name: str, values: Sequence[int | AddressOf], dtype: str) -> None:
    """Give a buffer the elements that the launch file lists, now that all buffers have their places."""
    numbers = [v if isinstance(v, int) else memory.by_name[v.address_of].base + v.offset for v in values]
    data = np.array(numbers, ARRAY_TYPES[dtype]).reshape(-1).view(np.uint8)
    memory.by_name[name].data[: data.size] = data


def _range(launch: LaunchSpec, options: RunOptions) -> tuple[int, int]:
    first, end = options.ctas or (0, launch.ctas)
    cluster = math.prod(launch.cluster)
    if not 0 <= first < end <= launch.ctas or first % cluster or end % cluster:
        whole = f" and whole clusters of {cluster}" if cluster > 1 else ""
        raise InputError(f"CTAs to run must be a range within 0..{launch.ctas}{whole}, got {first}..{end}")
    return first, end


def _cohorts(launch: LaunchSpec, options: RunOptions, size: int) -> Iterable[tuple[int, int]]:
    """First CTA and number of CTAs of everything that is run in lockstep; of a large grid they are many."""
    if options.only:
        whole = math.prod(launch.cluster)
        if not all(0 <= cta < launch.ctas and cta % whole == 0 for cta in options.only):
            first = f", the first of whole clusters of {whole}" if whole > 1 else ""
            raise InputError(f"single CTAs to run must be numbers below {launch.ctas}{first}; got {options.only}")
        return [(cta, whole) for cta in options.only]
    start, end = _range(launch, options)
    return ((first, min(size, end - first)) for first in range(start, end, size))


def _grants(launch: LaunchSpec, options: RunOptions, *, asks: bool) -> Grants:
    """The clusters of a launch, none of which has begun; single ones that are run ask in vain."""
    if options.only or not asks:
        return Grants()
    cluster = math.prod(launch.cluster)
    first, end = _range(launch, options)
    return Grants(options.grants, options.seed, range(first // cluster, end // cluster), cluster)


def cohort_size(decoded: DecodedKernel, launch: LaunchSpec, options: RunOptions) -> int:
    """CTAs to run together: whole clusters, bounded by the options and by the memory their state takes.

    Raises:
        LaunchError: the CTAs of a cooperative kernel do not fit into one cohort.
    """
    per_cta = _cta_bytes(decoded, launch)
    size = math.prod(launch.cluster)
    if decoded.slots.cooperative:
        if launch.ctas * per_cta > options.cohort_bytes:
            raise LaunchError(
                f"the {launch.ctas} CTAs of a cooperative launch (the kernel reads %envreg) take "
                f"{launch.ctas * per_cta} bytes together",
                hint=f"the simulator runs at most {options.cohort_bytes} bytes of CTAs at once: launch fewer "
                "CTAs, or raise the limit",
            )
        return launch.ctas
    return max(1, min(options.cohort, options.cohort_bytes // per_cta) // size) * size


def _cta_bytes(decoded: DecodedKernel, launch: LaunchSpec) -> int:
    size = decoded.shared_bytes(launch.shared_bytes) + decoded.local_bytes * math.prod(launch.block)
    return size + 4 * LANES * COLUMNS if decoded.uses_tensor_memory else size


def _expect_memory(decoded: DecodedKernel, launch: LaunchSpec, options: RunOptions) -> None:
    """Refuse a launch that does not fit into memory, before anything is allocated.

    Raises:
        LimitError: with the bytes that it would need.
    """
    shared = decoded.shared_bytes(launch.shared_bytes) - SHARED_BASE
    if shared > LIMITS["shared"]:
        raise LimitError(f"a CTA needs {shared} bytes of shared memory, and there are at most {LIMITS['shared']}")
    ctas = min(cohort_size(decoded, launch, options), launch.ctas)
    parts = {
        "buffers": sum(spec.size_bytes for spec in launch.buffers.values()),
        ".global variables": decoded.variables.global_bytes,
        f"shared, local and tensor memory of {ctas} CTAs": ctas * _cta_bytes(decoded, launch),
    }
    total = sum(parts.values())
    if total > options.memory_bytes:
        listed = ", ".join(f"{size} for {what}" for what, size in parts.items())
        raise LimitError(
            f"the launch needs {total} bytes ({listed}), and {options.memory_bytes} are available",
            hint="launch smaller blocks or clusters, or use a machine with more memory",
        )


def _contents(name: str, spec: BufferSpec, given: np.ndarray | None) -> np.ndarray:
    """Initial bytes of a buffer: a private copy of what was given, or poison."""
    if given is None:
        return np.full(spec.size_bytes, 0xFF, np.uint8)
    array = np.ascontiguousarray(given)
    if array.nbytes != spec.size_bytes:
        raise LaunchError(
            f"buffer {name!r}: the launch file says {spec.dtype} {list(spec.shape)} ({spec.size_bytes} bytes), "
            f"the array given is {array.dtype} {list(array.shape)} ({array.nbytes} bytes)"
        )
    return array.reshape(-1).view(np.uint8).copy()
