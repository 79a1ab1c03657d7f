"""A folder full of files that users get wrong: models, arrays, build folders, kernels and launch files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from convc import api
from convc.support.resources import model_folder

SAXPY = Path(__file__).parents[1] / "foreign" / "saxpy"
PROBED = Path(__file__).parents[1] / "recordings" / "probes_h100.json"
W = (8, 4, 3, 3)


def fill(folder: Path) -> None:
    """Make all of it."""
    for name in ("tiny_conv", "tiny_two_convs"):
        shutil.copy(model_folder() / f"{name}.onnx", folder / f"{name}.onnx")
    (folder / "tiny_conv.onnx").rename(folder / "m.onnx")
    (folder / "tiny_two_convs.onnx").rename(folder / "two.onnx")
    plain_files(folder)
    models(folder)
    arrays(folder)
    api.compile(folder / "m.onnx", folder / "b")
    api.compile(folder / "two.onnx", folder / "b2")
    builds(folder)
    kernels(folder / "k")
    answers(folder / "probed")


def answers(folder: Path) -> None:
    """The answers of an H100 to the probes, and files with one mistake each; a file of parameters, and wrong ones."""
    folder.mkdir()
    record = json.loads(PROBED.read_text())
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "right": lambda d: None,
        "format": lambda d: d.update(format="convc-probed/9"),
        "name": lambda d: d["probes"][0].update(probe="elekt"),
        "target": lambda d: d["probes"][0].update(target="sm_80"),
        "hopper": lambda d: d["probes"][0].update(probe="shift"),
        "arch": lambda d: d["device"].update(arch="sm_120"),
        "twice": lambda d: d["probes"].append(d["probes"][0]),
        "size": lambda d: d["probes"][0].update(answers=["AAAA"]),
        "count": lambda d: d["probes"][0].update(answers=[]),
        "base64": lambda d: d["probes"][0].update(answers=["?"]),
        "field": lambda d: d.update(extra=1),
        "device": lambda d: d["device"].update(name="x" * 1000),
    }
    for name, change in changes.items():
        (folder / f"{name}.json").write_text(json.dumps(changed(record, change)))
    entry = 'fill = { value = 110, unit = "B/clk", class = "measured", source = "me", range = [100, 120] }'
    texts = {
        "right": f'base = "h200"\n[tma]\n{entry}\n',
        "base": f"[tma]\n{entry}\n",
        "chip": f'base = "h300"\n[tma]\n{entry}\n',
        "name": f'base = "h200"\n[tma]\n{entry.replace("fill", "full")}\n',
        "unit": f'base = "h200"\n[tma]\n{entry.replace("B/clk", "clk")}\n',
        "value": f'base = "h200"\n[tma]\n{entry.replace("110", "-1")}\n',
        "nan": f'base = "h200"\n[tma]\n{entry.replace("110", "nan")}\n',
        "half": 'base = "h200"\n[tma',
    }
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)


def changed(record: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A copy of a record with one change."""
    copied = json.loads(json.dumps(record))
    change(copied)
    return copied


def plain_files(folder: Path) -> None:
    """Files that are no model, and folders that are in the way."""
    whole = (folder / "m.onnx").read_bytes()
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "half.onnx").write_bytes(whole[: len(whole) // 2])
    (folder / "garbage.onnx").write_bytes(bytes(range(256)) * 20)
    (folder / "text.onnx").write_text("this is not a model\n")
    (folder / "page.onnx").write_text("<!DOCTYPE html><html>404: Not Found</html>")
    (folder / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    (folder / "notes.txt").write_text("mine\n")
    (folder / "dir.onnx").mkdir()
    (folder / "void").mkdir()
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine\n")
    (folder / "loop").symlink_to("loop")
    (folder / "gone").symlink_to("nowhere")


def model(
    path: Path,
    nodes: list[onnx.NodeProto] | None = None,
    weights: dict[str, np.ndarray] | None = None,
    x: tuple[Any, ...] = (1, 4, 8, 8),
    opset: int = 17,
    ir: int = 8,
    kind: int = TensorProto.FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """Save a model with one input ``x`` and one output ``y``: by default a Conv ``c`` with these attributes."""
    made = helper.make_model(
        helper.make_graph(
            nodes or [helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attributes)],
            "g",
            [helper.make_tensor_value_info("x", kind, x)],
            [helper.make_tensor_value_info("y", kind, None)],
            [numpy_helper.from_array(a, n) for n, a in (weights or {"w": np.ones(W, np.float32)}).items()],
        ),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)],
        ir_version=ir,
    )
    onnx.save(made, path)
    return made


def ones(*shape: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"w": np.ones(shape, dtype)}


def models(folder: Path) -> None:
    """Models that a convolution compiler has to refuse."""
    node = helper.make_node
    conv = node("Conv", ["x", "w"], ["y"], name="c")
    for name, attributes in {
        "stride0": {"strides": [0, 1]},
        "stride3": {"strides": [1, 1, 1]},
        "dilation0": {"dilations": [0, 1]},
        "kernel_other": {"kernel_shape": [5, 5]},
        "kernel_long": {"kernel_shape": [3, 3, 3]},
        "pads_short": {"pads": [1, 1]},
        "pads_negative": {"pads": [-1, 0, 0, 0]},
        "auto_pad": {"auto_pad": "SAME_MIDDLE"},
        "group3": {"group": 3},
        "group0": {"group": 0},
    }.items():
        model(folder / f"{name}.onnx", **attributes)
    model(folder / "nopixel.onnx", weights=ones(8, 4, 9, 9))
    model(folder / "channels.onnx", weights=ones(8, 5, 3, 3))
    model(folder / "rank4.onnx", weights=ones(8, 4, 1, 1, 1, 1), x=(1, 4, 2, 2, 2, 2))
    model(folder / "rank0.onnx", weights=ones(8, 4), x=(1, 4))
    model(folder / "rankmix.onnx", weights=ones(8, 4, 3))
    model(folder / "noconv.onnx", nodes=[node("Relu", ["x"], ["y"])])
    drawn = node("RandomNormalLike", ["w0"], ["w"])
    model(folder / "computed.onnx", nodes=[drawn, conv], weights={"w0": np.ones(W, np.float32)})
    model(folder / "noweight.onnx", weights={"v": np.ones(W, np.float32)})
    model(folder / "noinput.onnx", nodes=[node("Conv", ["z", "w"], ["y"], name="c")])
    model(folder / "oneinput.onnx", nodes=[node("Conv", ["x"], ["y"], name="c")])
    model(folder / "doubles.onnx", weights=ones(*W, dtype=np.float64), kind=TensorProto.DOUBLE)
    model(folder / "halfweights.onnx", weights=ones(*W, dtype=np.float16))
    model(
        folder / "bias.onnx",
        nodes=[node("Conv", ["x", "w", "b"], ["y"], name="c")],
        weights=ones(*W) | {"b": np.ones(7, np.float32)},
    )
    model(folder / "open.onnx", x=("n", 4, 8, 8))
    model(folder / "opensize.onnx", x=(1, 4, "h", "w"))
    model(folder / "huge.onnx", x=(1, 4, 2**31, 2**31))
    model(folder / "oldopset.onnx", opset=3)
    model(folder / "newopset.onnx", opset=99)
    model(folder / "newir.onnx", ir=99)
    model(folder / "unknown.onnx", nodes=[conv, node("Frobnicate", ["y"], ["z"], domain="com.example", name="f")])
    model(folder / "escape.onnx", nodes=[node("Conv", ["x", "w"], ["y"], name="a\x1b[31m")])
    model(folder / "cycle.onnx", nodes=[node("Conv", ["y", "w"], ["y"], name="c")])
    model(folder / "nan.onnx", weights={"w": np.full(W, np.nan, np.float32)})
    two = [node("Conv", ["x", "w"], ["h"], name="c"), node("Conv", ["h", "v"], ["y"], name="d")]
    model(folder / "second.onnx", nodes=two, weights=ones(*W) | {"v": np.ones((8, 3, 1, 1), np.float32)})
    for name, entries in {
        "ext_missing": {"location": "nowhere.bin"},
        "ext_outside": {"location": "../secret.bin"},
        "ext_absolute": {"location": "/etc/passwd"},
        "ext_short": {"location": "short.bin"},
        "ext_offset": {"location": "short.bin", "offset": "x"},
        "ext_nowhere": {"offset": "0"},
    }.items():
        made = model(folder / f"{name}.onnx")
        weight = made.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            weight.external_data.add(key=key, value=value)
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
    (folder / "short.bin").write_bytes(bytes(10))


def arrays(folder: Path) -> None:
    """Inputs for the models, most of them wrong."""
    x = np.ones((1, 16, 12, 12), np.float16)
    np.save(folder / "x.npy", x)
    np.save(folder / "x2.npy", np.ones((1, 3, 16, 16), np.float32))
    np.save(folder / "x_channels.npy", x[:, :15])
    np.save(folder / "x_flat.npy", x.ravel())
    np.save(folder / "x_nhwc.npy", x.transpose(0, 2, 3, 1))
    np.save(folder / "x_batch.npy", np.concatenate([x, x]))
    np.save(folder / "x_int.npy", x.astype(np.int32))
    np.save(folder / "x_bool.npy", x.astype(bool))
    np.save(folder / "x_complex.npy", x.astype(np.complex64))
    np.save(folder / "x_text.npy", np.array(["a", "b"]))
    np.save(folder / "x_scalar.npy", np.float32(1))
    np.save(folder / "x_objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(folder / "x_fields.npy", np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]))
    whole = (folder / "x.npy").read_bytes()
    (folder / "x_cut.npy").write_bytes(whole[:-5])
    (folder / "x_header.npy").write_bytes(whole[:20])
    (folder / "x_empty.npy").write_bytes(b"")
    (folder / "x_csv.npy").write_text("1,2,3\n")
    (folder / "x_version.npy").write_bytes(whole[:6] + b"\x09\x00" + whole[8:])
    (folder / "x_dir.npy").mkdir()


def edit(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON file."""
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def builds(folder: Path) -> None:
    """Build folders with one thing wrong in each: ``broken/NAME``."""

    def broken(name: str) -> tuple[Path, Path]:
        path = Path(shutil.copytree(folder / "b", folder / "broken" / name))
        (kernel,) = path.glob("kernels/*")
        return path, kernel

    for name, change in {
        "format": lambda d: d.update(format="convc-build/1"),
        "field": lambda d: d.update(surprise=1),
        "nolayers": lambda d: d.pop("layers"),
        "kernelname": lambda d: d["layers"][0].update(kernel="../../etc"),
        "stem": lambda d: d["layers"][0].update(stem="../x"),
        "problem": lambda d: d["layers"][0]["problem"].update(stride=[0, 1]),
        "twice": lambda d: d["layers"].append(d["layers"][0]),
        "operand": lambda d: d["layers"][0]["problem"].update(operand="f17"),
        "none": lambda d: d.update(layers=[]),
        "option": lambda d: d["schedule"].update(schedule="no such"),
        "together": lambda d: d["schedule"].update(schedule="stationary", store="tma"),
    }.items():
        edit(broken(name)[0] / "network.json", change)
    (broken("nonetwork")[0] / "network.json").unlink()
    (broken("nojson")[0] / "network.json").write_text("{")
    (broken("emptyjson")[0] / "network.json").write_text("")
    shutil.rmtree(broken("nokernel")[1])
    shutil.rmtree(broken("noweights")[0] / "weights")
    (broken("noptx")[1] / "kernel.ptx").unlink()
    (broken("emptyptx")[1] / "kernel.ptx").write_text("")
    (broken("binaryptx")[1] / "kernel.ptx").write_bytes(b"\xff\xfe\x00")
    (broken("nolaunch")[1] / "launch.json").unlink()
    (broken("launch")[1] / "launch.json").write_text("[]")
    edit(broken("grid")[1] / "launch.json", lambda d: d.update(grid=[0, 1, 1]))
    edit(broken("buffer")[1] / "launch.json", lambda d: d["buffers"]["output"].update(shape=[1]))
    path, _ = broken("weights")
    np.save(path / "weights" / "conv.filter.npy", np.ones(3, np.float16))
    path, _ = broken("cutweights")
    file = path / "weights" / "conv.filter.npy"
    file.write_bytes(file.read_bytes()[:-1])
    _, kernel = broken("typo")
    text = (kernel / "kernel.ptx").read_text()
    (kernel / "kernel.ptx").write_text(text.replace("mbarrier.init", "mbarier.init", 1))
    _, kernel = broken("nowait")
    (kernel / "kernel.ptx").write_text(
        "".join(line for line in text.splitlines(True) if "tcgen05.wait::ld" not in line)
    )


PTX = {
    "typo": ("fma.rn.f32", "fmma.rn.f32"),
    "rounding": ("fma.rn.f32", "fma.rx.f32"),
    "type": ("ld.global.f32 %left", "ld.global.f33 %left"),
    "width": ("ld.global.f32 %left", "ld.global.f64 %left"),
    "register": ("mov.u32 %i, %tid.x", "mov.u32 %j, %tid.x"),
    "special": ("%ntid.x", "%ntid.q"),
    "semicolon": ("ret;\n}", "ret\n}"),
    "brace": ("ret;\n}", "ret;\n"),
    "operands": ("add.u64 %x, %x, %offset;", "add.u64 %x, %x;"),
    "label": ("@!%inside ret;", "@!%inside bra DONE;"),
    "param": ("[n]", "[m]"),
    "noversion": (".version 8.6\n", ""),
    "directive": (".reg .pred %inside;", ".rug .pred %inside;"),
    "twice": (".reg .pred %inside;", ".reg .pred %inside; .reg .pred %inside;"),
    "cuda": (None, "__global__ void saxpy(float *x) { x[0] = 1; }\n"),
    "blank": (None, ""),
    "comment": ("// y[i]", "/* y[i]"),
    "trap": ("st.global.f32 [%y], %right;", "trap;"),
    "address": ("mul.wide.u32 %offset, %i, 4;", "mul.wide.u32 %offset, %i, 4000;"),
    "misaligned": ("mul.wide.u32 %offset, %i, 4;", "mul.wide.u32 %offset, %i, 3;"),
    "hang": ("@!%inside ret;", "bar.sync 0, 256;"),
    "endless": ("@!%inside ret;", "MORE: add.u32 %i, %i, 1; bra MORE;"),
    "entry": ("saxpy(", "daxpy("),
    "predicate": ("@!%inside ret;", "@!%i ret;"),
    "immediate": ("mul.wide.u32 %offset, %i, 4;", "mul.wide.u32 %offset, %i, 4q;"),
}
"""By name: a piece of the kernel, and what a user writes in its place."""

LAUNCH: dict[str, Callable[[dict[str, Any]], Any]] = {
    "grid0": lambda d: d.update(grid=[0, 1, 1]),
    "grid2": lambda d: d.update(grid=[8, 1]),
    "gridtext": lambda d: d.update(grid="8"),
    "block": lambda d: d.update(block=[2048, 1, 1]),
    "blockneg": lambda d: d.update(block=[-1, 1, 1]),
    "noblock": lambda d: d.pop("block"),
    "noentry": lambda d: d.pop("entry"),
    "otherentry": lambda d: d.update(entry="sxpy"),
    "unknown": lambda d: d.update(blocks=[1, 1, 1]),
    "format": lambda d: d.update(format="convc-launch/9"),
    "shared": lambda d: d.update(shared_bytes=1 << 20),
    "sharedneg": lambda d: d.update(shared_bytes=-4),
    "cluster": lambda d: d.update(cluster=[3, 1, 1]),
    "fewparams": lambda d: d["params"].pop(),
    "manyparams": lambda d: d["params"].append({"kind": "scalar", "dtype": "u32", "value": 1}),
    "nobuffer": lambda d: d["params"][0].update(buffer="z"),
    "kind": lambda d: d["params"][0].update(kind="pointr"),
    "scalar": lambda d: d["params"][3].update(dtype="u33"),
    "value": lambda d: d["params"][3].update(value=-1),
    "text": lambda d: d["params"][3].update(value="many"),
    "width": lambda d: d["params"][3].update(dtype="u64"),
    "order": lambda d: d["params"].reverse(),
    "dtype": lambda d: d["buffers"]["x"].update(dtype="float32"),
    "shape": lambda d: d["buffers"]["x"].update(shape=[999]),
    "shapeneg": lambda d: d["buffers"]["x"].update(shape=[-1]),
    "huge": lambda d: d["buffers"]["x"].update(shape=[1 << 40]),
    "missing": lambda d: d["buffers"]["x"].update(file="z.npy"),
    "outside": lambda d: d["buffers"]["y"].update(save="../out.npy"),
    "over": lambda d: d["buffers"]["y"].update(save="x.npy"),
    "savedir": lambda d: d["buffers"]["y"].update(save="no/out.npy"),
    "small": lambda d: d["buffers"]["x"].update(shape=[10], file=None),
}
"""By name: what is wrong in a launch file of the kernel."""


def kernels(folder: Path) -> None:
    """The saxpy kernel with its launch file, and every one with a mistake beside it."""
    folder.mkdir()
    text = (SAXPY / "kernel.ptx").read_text()
    launch = json.loads((SAXPY / "launch.json").read_text())
    (folder / "kernel.ptx").write_text(text)
    (folder / "launch.json").write_text(json.dumps(launch))
    for name, (old, new) in PTX.items():
        assert old is None or old in text, name
        (folder / f"{name}.ptx").write_text(new if old is None else text.replace(old, new))
    for name, change in LAUNCH.items():
        (folder / f"{name}.json").write_text(json.dumps(launch))
        edit(folder / f"{name}.json", change)
    (folder / "half.json").write_text(json.dumps(launch)[:40])
    (folder / "empty.json").write_text("")
    (folder / "list.json").write_text("[1, 2]")
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00\x01")
    for name in ("x", "y"):
        np.save(folder / f"{name}.npy", np.arange(1000, dtype=np.float32))
