"""The verbs of convc for Python programs, one module each; all of them are names of the package ``convc`` itself.

    verb             module               what it does
    load             loading              read an ONNX model
    compile          compiling            a model becomes a build folder
    inspect          inspecting           one layer with every stage of its compilation
    run, run_layer   running              run one layer of a build: its result, or all that was learnt
    run_model,       running_networks     run a whole model: its outputs, or also what ran where
    run_network
    gradients        differentiating      the gradients of one convolution, by kernels on the simulator
    verify           verifying            compile, run and compare every convolution of a model, or a whole network
    survey           surveying            every model of a folder: listed, verified, run, a line each
    audit            auditing             read kernels against the rules of the PTX manual, without running them
    check            checking             look for races, hangs and uses of unwritten memory in a build
    simulate         simulating           run any PTX kernel with a launch file
    record           recording            run a CUDA host program without a GPU
    launch           launching            launch a kernel on a real GPU, and compare it with the simulator
    sanitize         sanitizing           what compute-sanitizer says of a launch, beside convc's checkers
    write_host_      launching            the same launch as a program in C++
    program
    assumptions,     probing              what is assumed of the hardware, and what small kernels on a GPU say to it
    run_probes,
    settle_probes
    time             timing               how long kernels take on a chip, and what they wait for
    tune,            tuning               measure the candidates of layers, and remember the fastest
    tune_layers

A model is a file, a loaded `onnx.ModelProto` or, for all but whole networks, what `load` gives; a build is a folder, or
an open `Build`. How a verb goes about its work is said by a few records (`convc.api.options`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import convc

if TYPE_CHECKING:
    from convc import Pool as Pool
    from convc import assumptions as assumptions
    from convc import audit as audit
    from convc import check as check
    from convc import compile as compile
    from convc import gradients as gradients
    from convc import inspect as inspect
    from convc import launch as launch
    from convc import load as load
    from convc import load_build as load_build
    from convc import record as record
    from convc import run as run
    from convc import run_layer as run_layer
    from convc import run_model as run_model
    from convc import run_network as run_network
    from convc import run_probes as run_probes
    from convc import sanitize as sanitize
    from convc import settle_probes as settle_probes
    from convc import simulate as simulate
    from convc import survey as survey
    from convc import time as time
    from convc import tune as tune
    from convc import tune_layers as tune_layers
    from convc import verify as verify
    from convc import write_host_program as write_host_program


def __getattr__(name: str) -> Any:
    if name not in convc.__all__:
        raise AttributeError(f"module 'convc.api' has no attribute {name!r}")
    return getattr(convc, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *convc.__all__})
