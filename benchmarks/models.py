"""The nine light models of the onnx package as whole networks, with random weights, batch 1.

Every convolution that convc compiles runs from its PTX (``compiled``) with the nodes that it took in (``fused``) and
without repacking where it can (``handed``, buffers); others and all other nodes run on the host.
Seconds are what a user waits for one image in a fresh process: reading the model, compiling each distinct kernel, host
nodes and machine; not the drawing of random weights. Twice: other nodes by `onnx.reference`, and by onnxruntime.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.layers import light_files
from benchmarks.timing import yardstick
from convc.frontend.model_file import load_model
from convc.runtime.network.constants import StartValues
from convc.runtime.network.convolutions import Convolutions
from convc.runtime.network.executor import Graph
from convc.verification.network import random_inputs
from convc.verification.random_weights import random_weights

HOSTS = ("reference", "onnxruntime")
SEED = 0


def measure(selection: str) -> dict[str, float]:
    """All numbers of this benchmark; with ``demo`` those of ResNet-50 alone."""
    names = [name for name in light_files() if selection == "all" or name == "resnet50"]
    runs = {host: {name: fresh(name, host) for name in names} for host in HOSTS}
    by_reference = runs["reference"]
    numbers = {f"resnet50_{key}": value for key, value in by_reference["resnet50"].items()}
    for key in ("convolutions", "compiled", "seconds", "machine_seconds"):
        numbers[f"all_{key}"] = sum(run[key] for run in by_reference.values())
    numbers["peak_gib"] = max(run["peak_gib"] for run in by_reference.values())
    numbers["resnet50_onnxruntime_seconds"] = runs["onnxruntime"]["resnet50"]["seconds"]
    numbers["resnet50_times_sympy"] = by_reference["resnet50"]["cpu_seconds"] / yardstick()
    numbers["all_times_sympy"] = sum(run["cpu_seconds"] for run in by_reference.values()) / yardstick()
    numbers["all_onnxruntime_seconds"] = sum(run["seconds"] for run in runs["onnxruntime"].values())
    return numbers


def fresh(name: str, host: str) -> dict[str, float]:
    """The numbers of one model, from a process of its own."""
    command = [sys.executable, "-m", "benchmarks.models", name, host]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def run(path: Path, host: str) -> dict[str, float]:
    """Run a model once."""
    started = time.perf_counter()
    worked = time.process_time()
    model = load_model(path)
    drawing = time.perf_counter()
    drawing_worked = time.process_time()
    weights = random_weights(model.graph, StartValues(model.graph, path.parent), SEED)
    drawn = time.perf_counter() - drawing
    drawn_worked = time.process_time() - drawing_worked
    graph = Graph(
        model, folder=path.parent, convolutions=Convolutions(), refused="host", host=host, replaced=weights, fuse=True
    )
    graph.run(random_inputs(graph.inputs, SEED, batch=1))
    seconds = time.perf_counter() - started - drawn
    cpu_seconds = time.process_time() - worked - drawn_worked
    return {
        "convolutions": len(graph.convolutions),
        "compiled": len(graph.stats.compiled),
        "fused": sum(map(len, graph.stats.fused.values())),
        "handed": graph.stats.handed,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "machine_seconds": graph.stats.seconds,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    print(json.dumps(run(light_files()[sys.argv[1]], sys.argv[2])))
