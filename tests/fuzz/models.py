"""Damaged models: fields, shapes, attributes, external data, bytes. The answer must be right, or an error of ours."""

from __future__ import annotations

import base64
import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from fuzz.convolutions import OF_OURS
from fuzz.limits import within
from fuzz.subjects import Case
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from convc import api
from convc.frontend.onnx_reader import read_model

MODELS = Path(__file__).resolve().parents[2] / "models"
NUMBERS = (0, 1, -1, 2, 3, 7, 16, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
WORDS = (
    "",
    "x",
    "w",
    "Conv",
    "Relu",
    "Add",
    "../../etc/passwd",
    "/dev/zero",
    "data.bin",
    "SAME_UPPER",
    "VALID",
    "é" * 9,
)
READ_S = 20
MOST_WORK = 2_000_000
"""Multiply-adds that are run; larger ones are read alone."""


@cache
def sources() -> dict[str, bytes]:
    """The models that are damaged: those of the folder, and one with external data and fused nodes."""
    found = {path.name: path.read_bytes() for path in sorted(MODELS.glob("*.onnx"))}
    weight = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "data.bin"), ("offset", "0"), ("length", "432")):
        weight.external_data.add(key=key, value=value)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ConvTranspose", ["r", "v"], ["y"], strides=[2, 2]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, [1, 3, 6, 6]), helper.make_tensor_value_info("y", 1, None)]
    other = numpy_helper.from_array(np.ones((4, 2, 2, 2), np.float32), "v")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight, other])
    found["external"] = helper.make_model(graph, ir_version=10).SerializeToString()
    return found


def places(message: object) -> list[tuple[object, str, int | None]]:
    """(message, field, index) of every number and text that a model sets."""
    found: list[tuple[object, str, int | None]] = []
    for field, value in message.ListFields():  # pyright: ignore
        if field.type == field.TYPE_MESSAGE:
            for each in value if field.is_repeated else [value]:
                found += places(each)
        elif field.is_repeated:
            found += [(message, field.name, i) for i in range(min(len(value), 40))]
        else:
            found.append((message, field.name, None))
    return found


class Models:
    """Small models with a few changes each."""

    def case(self, rng: random.Random) -> Case:
        """A source and its changes: of fields, or of bytes."""
        edits = [
            [rng.choice(("field", "field", "field", "remove", "byte", "cut")), rng.random(), rng.random()]
            for _ in range(rng.choice((1, 1, 2, 4)))
        ]
        return {"source": rng.choice(sorted(sources())), "edits": edits, "skip": rng.random() < 0.5}

    def data(self, case: Case) -> bytes:
        """The damaged model."""
        data = sources()[case["source"]]
        for what, where, value in case["edits"]:
            data = changed(data, what, where, value)
        return data

    def check(self, case: Case) -> None:
        """Read it; a network that is small enough must be right on the simulator."""
        with tempfile.TemporaryDirectory(prefix="convc-fuzz-") as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(self.data(case))
            (path.parent / "data.bin").write_bytes(np.ones(108, np.float32).tobytes())
            with within(READ_S):
                network = read_model(path, skip_refused=case["skip"], fuse=True)
        if sum(conv.problem.macs for conv in network.convs) <= MOST_WORK:
            try:
                report = api.verify(network, seed=1)
            except OF_OURS as wrong:
                raise AssertionError(str(wrong)) from wrong
            assert report.ok, report

    def smaller(self, case: Case) -> Iterator[Case]:
        """The same without one of its changes."""
        edits = case["edits"]
        if len(edits) > 1:
            for i in range(len(edits)):
                yield case | {"edits": edits[:i] + edits[i + 1 :]}

    def write(self, case: Case, folder: Path) -> None:
        """The model as bytes, the data beside it, and what was changed."""
        data = self.data(case)
        (folder / "model.onnx").write_bytes(data)
        (folder / "data.bin").write_bytes(np.ones(108, np.float32).tobytes())
        text = json.dumps(case | {"model": base64.b64encode(data).decode()}, indent=1)
        (folder / "case.json").write_text(text + "\n", encoding="ascii")


def changed(data: bytes, what: str, where: float, value: float) -> bytes:
    """A model's bytes with one change."""
    if what == "cut":
        return data[: int(where * len(data))]
    if what == "byte":
        at = int(where * len(data))
        return data[:at] + bytes([int(value * 256)]) + data[at + 1 :]
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        return data
    found = places(model)
    if not found:
        return data
    message, field, index = found[int(where * len(found))]
    if what == "remove":
        if index is None:
            message.ClearField(field)  # pyright: ignore
        else:
            del getattr(message, field)[index]
        return model.SerializeToString()
    old = getattr(message, field) if index is None else getattr(message, field)[index]
    new = replacement(old, value)
    try:
        if index is None:
            setattr(message, field, new)
        else:
            getattr(message, field)[index] = new
    except (ValueError, TypeError):
        return data
    return model.SerializeToString()


def replacement(old: object, value: float) -> object:
    """Another value of the same kind."""
    match old:
        case str():
            return WORDS[int(value * len(WORDS))]
        case bytes():
            return old[: int(value * len(old))]
        case float():
            return (float("nan"), float("inf"), -1.0, 0.0, 1e300)[int(value * 5)]
    return NUMBERS[int(value * len(NUMBERS))]
