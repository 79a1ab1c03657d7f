"""The verb `survey`: every ONNX model of a folder, a line for each on what convc makes of it.

    listed      which convolutions there are, and which of them convc does not compile, and why
    verified    each of them compiled, run and compared with the float64 reference (`convc.verify`)
    run         the whole network on drawn data with its own weights, held against onnxruntime (`convc.verify` on feeds)

Each model has a process of its own and a limit of time: one that takes all memory, hangs or crashes costs its own line.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convc.api.arguments import given_options, whole
from convc.api.inputs import InputData
from convc.api.models import read_network
from convc.api.options import ReadOptions, WorkOptions
from convc.api.verifying import verify
from convc.errors import ConvcError, InputError, WorkerError
from convc.frontend.inline import inlined
from convc.frontend.input_shapes import guessed_shapes
from convc.frontend.model_file import load_model
from convc.frontend.onnx_reader import has_convolutions
from convc.ir.network import CONVOLUTIONS, Network
from convc.support.missing import no_file
from convc.support.progress import Progress
from convc.verification.survey import REFUSED, RIGHT, UNFINISHED, WRONG, SurveyedModel, SurveyReport
from convc.workers.limited import limited


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What the process of a model is told."""

    file: Path
    name: str
    seed: int
    sample: int | None
    extent: int
    host: str
    read: ReadOptions
    cache: str | Path | bool | None


def survey(
    folder: str | Path,
    *,
    seed: int = 0,
    sample: int | None = None,
    limit: float = 300.0,
    extent: int = 64,
    host: str = "auto",
    read: ReadOptions | None = None,
    work: WorkOptions | None = None,
) -> SurveyReport:
    """List, verify and run every ``.onnx`` file of a folder and of those in it, each in a process of its own.

    Args:
        folder: is searched, or a single file.
        seed: of the data.
        sample: as of `verify`, for large layers.
        limit: seconds that a model may take.
        extent: of axes of inputs that a model leaves open, but for the batch, which is 1.
        host: who runs the nodes that are no convolutions.
        read: how models are read; ``shapes`` are those of the inputs of these names, where a model has them.
        work: where kernels are kept, and the progress callback.

    Returns:
        A line for each model, sorted by file name; ``report.ok`` says whether nothing that was compared is wrong.

    Raises:
        InputError: the folder does not exist, or has no model.

    Example:
        >>> convc.survey(".")
        <SurveyReport .: 3 models, 3 right, 0 wrong, 0 refused, 0 unfinished>
    """
    home = Path(folder)
    chosen = given_options(work, WorkOptions, "work")
    reading = given_options(read, ReadOptions, "read")
    if limit <= 0:
        raise InputError(f"limit must be more than 0 seconds, got {limit:g}")
    files = model_files(home)
    told = Progress(chosen.progress)
    models: list[SurveyedModel] = []
    for index, file in enumerate(files):
        name = str(file.relative_to(home)) if home.is_dir() else file.name
        told.piece(index, len(files))(name, 0.0)
        task = _Task(
            file=file,
            name=name,
            seed=whole(seed, "seed"),
            sample=None if sample is None else whole(sample, "sample"),
            extent=whole(extent, "extent", 1),
            host=host,
            read=dataclasses.replace(reading, say=None),
            cache=chosen.cache,
        )
        models.append(_surveyed(task, limit))
    return SurveyReport(folder=str(folder), seed=seed, models=tuple(models))


def model_files(home: Path) -> list[Path]:
    """The ``.onnx`` files of a folder and of those in it, sorted; links to folders are not followed."""
    if home.is_file():
        return [home]
    if not home.is_dir():
        raise no_file(home)
    files = sorted(path for path in home.rglob("*.onnx") if path.is_file())
    if not files:
        raise InputError("no .onnx file here, nor in the folders in it", where=str(home))
    return files


def _surveyed(task: _Task, limit: float) -> SurveyedModel:
    """The line of a model, from a process of its own."""
    started = time.perf_counter()
    try:
        return limited(limit, _look_at, task)
    except WorkerError as error:
        took = {"all": time.perf_counter() - started}
        return SurveyedModel(file=task.name, verdict=UNFINISHED, problem=error.message, seconds=took)


def _look_at(task: _Task) -> SurveyedModel:
    """List, verify and run one model; where a step fails the line says why, and the others are still done."""
    look = _Look(task)
    line = SurveyedModel(file=task.name)
    seconds: dict[str, float] = {}
    for name, step in (("list", look.listed), ("verify", look.verified), ("run", look.ran)):
        started = time.perf_counter()
        try:
            fields = step()
        except ConvcError as error:
            fields = {"verdict": REFUSED if error.exit_code == 2 else WRONG, "problem": str(error)}
        except Exception as error:  # a mistake of convc's own must not end the survey
            fields = {"verdict": WRONG, "problem": f"an error in convc: {type(error).__name__}: {error}"}
        seconds[name] = time.perf_counter() - started
        if line.verdict != RIGHT:  # the first message stays, but for a wrong number
            fields.pop("problem" if fields.get("verdict") != WRONG else "", None)
            fields["verdict"] = WRONG if WRONG in (line.verdict, fields.get("verdict")) else line.verdict
        line = dataclasses.replace(line, **fields, seconds=seconds)
    return line


class _Look:
    """The three steps of a line; each gives the fields of `SurveyedModel` that it settles."""

    def __init__(self, task: _Task) -> None:
        self._task = task
        self._work = WorkOptions(cache=task.cache)
        self._read = task.read
        self._network: Network | None = None

    def listed(self) -> dict[str, Any]:
        """What convolutions there are."""
        task = self._task
        model = load_model(task.file)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in constants]
        names = {value.name for value in inputs}
        known = {name: shape for name, shape in task.read.shapes.items() if name in names}
        shapes = guessed_shapes(inputs, known, task.extent)
        self._read = dataclasses.replace(task.read, shapes=shapes, batch=None)
        if not has_convolutions(inlined(model).graph):
            return {"convolutions": 0, "verified": 0}
        network = read_network(task.file, self._read)
        self._network = network
        left_out = [node for node in network.skipped if node.op_type in CONVOLUTIONS]
        return {
            "convolutions": len(network.convs),
            "left_out": tuple(f"{node.name}: {node.reason}" for node in left_out),
        }

    def verified(self) -> dict[str, Any]:
        """Whether each of them is right."""
        if self._network is None or not self._network.convs:
            return {}
        report = verify(self._network, seed=self._task.seed, sample=self._task.sample, work=self._work)
        wrong = next((layer for layer in report.layers if not layer.ok), None)
        return {
            "verified": report.count_right,
            "verdict": RIGHT if wrong is None else WRONG,
            "problem": "" if wrong is None else f"{wrong.name}: {wrong.verdict}",
        }

    def ran(self) -> dict[str, Any]:
        """Whether the network makes what onnxruntime makes."""
        data = InputData(seed=self._task.seed)
        report = verify(self._task.file, feeds=data, host=self._task.host, read=self._read, work=self._work)
        assert report.network is not None, "feeds are for a whole network"
        compared = [output for output in report.network.outputs if output.decided_by]
        layer = next((layer for layer in report.layers if not layer.ok), None)
        output = next((output for output in compared if not output.ok), None)
        problem = ""
        if layer is not None:
            problem = f"{layer.name}: {layer.verdict} on its own input"
        elif output is not None:
            problem = f"output {output.name}: worst error {output.worst_error:.3g}, by {output.decided_by}"
        return {
            "outputs": len(compared),
            "outputs_right": sum(each.ok for each in compared),
            "oracle": report.network.oracle,
            "verdict": WRONG if problem else RIGHT,
            "problem": problem,
        }
