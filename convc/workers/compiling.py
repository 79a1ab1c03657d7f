"""Compiling in worker processes: what `convc compile` needs of them, without the checks of `convc.workers.jobs`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from convc.compiler.fingerprint import compiler_digest
from convc.compiler.kernels import Kernel, Kernels, KernelTimer, compile_shared, kernel_of, shared_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import WorkerError
from convc.ir.network import ConvNode
from convc.ir.problem import ConvProblem
from convc.ir.tuned import Tuned
from convc.support.progress import SILENT, Progress
from convc.workers.pool import Pool, Task

one_at_a_time = threading.RLock()
"""Work of one process is done piece by piece, even where its executor has threads: they would not be faster."""


def require_same(digest: str) -> None:
    """Raise `WorkerError` where the sender's convc is another one."""
    if digest != compiler_digest():
        raise WorkerError(
            "a worker has another version of convc, or of the libraries it compiles with, than this process",
            hint="install the same convc on all machines of the cluster, and start its workers anew",
        )


def compile_job(
    digest: str,
    problem: ConvProblem,
    options: ScheduleOptions,
    timer: KernelTimer | None = None,
    tuned: Tuned | None = None,
) -> Kernel:
    """Compile a problem in a worker; ``digest`` is that of the sender's convc (see `convc.compiler.fingerprint`).

    Raises:
        PlanError: there is no kernel.
        WorkerError: this is another convc.
    """
    require_same(digest)
    with one_at_a_time:
        return kernel_of(compile_shared(problem, options, timer, tuned))


def compile_all(kernels: Kernels, convs: Sequence[ConvNode], pool: Pool, progress: Progress = SILENT) -> None:
    """Compile in workers what `kernels` does not know yet, each distinct problem once.

    Raises:
        PlanError: a problem has no kernel.
        WorkerError: compiling loses its worker, each time, or see `Pool.run`.
    """
    # Backwards, so that a problem that several layers share is called by the name of the first.
    unknown = [conv for conv in reversed(convs) if kernels.known(conv.problem) is None]
    distinct = list({shared_problem(conv.problem): conv for conv in unknown}.values())
    digest = compiler_digest()
    pieces: list[Task] = []
    for conv in distinct:
        arguments = (digest, conv.problem, kernels.options, kernels.timer, kernels.tuned(conv.problem))
        pieces.append(Task(name=f"compile {conv.name}", function=compile_job, arguments=arguments))
    if pieces:
        progress(f"compile {len(pieces)} kernels", 0.0)
    for count, (index, kernel) in enumerate(pool.run(pieces), 1):
        if isinstance(kernel, WorkerError):
            raise kernel
        kernels.add(distinct[index].problem, kernel)
        progress(f"{pieces[index].name} ({count} of {len(pieces)} kernels)", count / len(pieces))
