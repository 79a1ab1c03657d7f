"""Options of the verbs: a few records in place of long lists of parameters.

Each verb takes those that it has a use for, and what is left out means what it means on the command line. How a
convolution is scheduled is a record of the compiler, `ScheduleOptions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from convc.compiler.options import AUTO as AUTO
from convc.compiler.options import RENAMED as RENAMED
from convc.compiler.options import Option as Option
from convc.compiler.options import ScheduleOptions as ScheduleOptions
from convc.compiler.options import options as options
from convc.support.progress import Tell

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from convc.workers.pool import Pool


By = Literal["input", "weights", "both"]
"""What gradients are taken by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of reading a model.

    Attributes:
        batch: images, where the model leaves the batch open; 1 by default, which is said.
        shapes: extents of inputs by name, where the model leaves them open; not together with ``batch``.
        dtype: operand type, one of `convc.ir.dtypes.FLOAT_OPERANDS`, in place of the model's.
        precision: how float32 is multiplied where no ``dtype`` is given: tf32 (None means that too), bf16x3, bf16x6 or
            tf32x3 (`convc.host_layout.split_precision`).
        fuse: let convolutions take in what follows them (`convc.frontend.fusion`).
        gradient: take in place of each convolution its gradient by its ``input`` or its ``weights``, or ``both``
            (`convc.ir.gradients`), called NAME_dgrad and NAME_wgrad; None: the convolutions themselves.
        accumulate: add each gradient to one that there is, in the kernel (beta = 1); with ``gradient`` alone.
        say: called with a sentence on each thing that the model leaves open and how it is read.
    """

    batch: int | None = None
    dtype: str | None = None
    precision: str | None = None
    fuse: bool = True
    gradient: By | None = None
    accumulate: bool = False
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    say: Callable[[str], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """Options of running a kernel on the simulator.

    Attributes:
        numerics: how the tensor core adds: ``float32``, which is fast, or ``exact``, one truncated sum for each
            instruction, as measured on hardware. None: float32, but exact where `launch` compares with a GPU.
        switches: rules that no public source settles, read in another way: ``name=setting``, as
            ``elect=highest`` (`convc.machine.base.switches.Switches`).
        max_instructions: most instructions of a warp; a kernel that goes on is stopped (`EndlessError`). None for the
            machine's own limit (`convc.machine.options.MAX_INSTRUCTIONS`).
    """

    numerics: str | None = None
    switches: tuple[str, ...] = ()
    max_instructions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipOptions:
    """Options of the model of a chip.

    Attributes:
        chip: whose parameters to use, one of `convc.timing.parameters.chips`, or a file of one's own that ends in
            ``.toml``, as ``convc probe --apply`` writes it; None for the chip that the kernels are for.
        settings: parameters to set otherwise: ``tma.fill=110``, with or without the unit behind; ``tmem.banks=8x64``.
        clock: of the SMs, in GHz, in place of the chip's.
        cold: nothing is in L2 when a kernel begins.
        sass: take instructions, their cycles and registers from what ptxas makes of the text (``convc[sass]``).
        what_if: names of parameters to be timed at the ends of their range too, or of choices (``tmem.banks``) to be
            timed in each of their settings.
    """

    chip: str | None = None
    settings: tuple[str, ...] = ()
    clock: float | None = None
    cold: bool = False
    sass: bool = False
    what_if: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Options of a launch on a GPU.

    Attributes:
        compare: run the same text on the simulator, and compare every buffer.
        atol, rtol: what a floating-point element may differ from the simulator's: ``atol + rtol * |expected|``; with
            both 0 every byte must agree.
        repeat: launches to time, after the first one, whose results are kept.
        timeout: seconds to wait for a launch.
    """

    compare: bool = False
    atol: float = 0.0
    rtol: float = 0.0
    repeat: int = 0
    timeout: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Options of tuning.

    Attributes:
        candidates: of a problem that are measured, at most.
        seconds: for a problem: behind that, no more candidates are loaded and no more turns begin.
        on: ``gpu`` for the first GPU, ``engine`` for the timing engine; ``auto`` for the GPU where there is one.
        again: measure what is recorded already.
        timeout: seconds to wait for a launch on the GPU.
        own_target: take the target of the GPU in place of that of the options; None: where no options are given.
        records: a file of records to take before.
        export: a file to write the records of the layers to.
    """

    candidates: int = 12
    seconds: float = 20.0
    on: str = "auto"
    again: bool = False
    timeout: float = 10.0
    own_target: bool | None = None
    records: str | Path | None = None
    export: str | Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """Options of long work: where it is done, what is kept of it, and the callback for its progress.

    Attributes:
        jobs: worker processes of this machine; 1, or neither this nor an executor, is this process alone.
        executor: ``processes``, ``dask://HOST:PORT`` (`convc.workers.executors`), an executor of `concurrent.futures`
            that the caller closes, or a `convc.workers.pool.Pool` that several calls share.
        cache: where compiled kernels are kept from one process to the next: a folder, False for nowhere, None for what
            the environment variable ``CONVC_CACHE`` or else the system says (`convc.support.cache.open_cache`).
        progress: called with what is being done and the share of the whole that is done, 0 to 1.
    """

    jobs: int | None = None
    executor: str | Executor | Pool | None = None
    cache: str | Path | bool | None = None
    progress: Tell | None = None
