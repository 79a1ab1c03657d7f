"""A quick suite for an environment that has convc and nothing of this checkout: ``python quick.py``, in any folder.

Every command by command line on three models, the verbs in Python, and one network. It needs what convc needs alone,
so it is no pytest module: what is wrong ends it with a traceback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
from click.testing import CliRunner

import convc
from convc.cli.main import main
from convc.derive import write
from convc.support.resources import model_folder

SHAPES = {"tiny_conv": (1, 16, 12, 12), "tiny_bf16": (2, 8, 10, 9), "tiny_two_convs": (1, 3, 16, 16)}
"""The models that convc carries, and the shapes of their inputs."""

KERNEL = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry twice(.param .u64 x)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d3, %d1, %d2;
    ld.global.u32 %r2, [%d3];
    add.u32 %r2, %r2, %r2;
    st.global.u32 [%d3], %r2;
    ret;
}
"""
LAUNCH = {
    "format": "convc-launch/1",
    "entry": "twice",
    "grid": [1, 1, 1],
    "block": [32, 1, 1],
    "buffers": {"x": {"dtype": "u32", "shape": [32], "file": "x.npy", "save": "y.npy"}},
    "params": [{"kind": "pointer", "buffer": "x"}],
}


def script(*arguments: object, expect: int = 0) -> str:
    """What the command ``convc`` of this environment prints; it must end with that exit code."""
    path = Path(sys.executable).parent / "convc"
    done = subprocess.run([str(path), *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == expect, f"convc {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}"
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def command(*arguments: object) -> str:
    """The same without a process of its own, which would spend its time on imports."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="convc")
    assert done.exit_code == 0, f"convc {' '.join(map(str, arguments))}:\n{done.output}"
    return done.output


def layers_of(model: Path) -> list[str]:
    """Names of the convolutions of a model."""
    return [node.name for node in onnx.load(model).graph.node if node.op_type == "Conv"]


def every_command(name: str, command: Callable[..., str]) -> None:
    """The commands about models and builds, on one model."""
    model = model_folder() / f"{name}.onnx"
    layers = layers_of(model)
    assert f"{len(layers)} of {len(layers)} layers right" in command("verify", model)
    command("compile", model, "-o", name)
    for layer in layers:
        assert "clean" in command("check", name, "--layer", layer)
    assert "tcgen05.mma" in command("inspect", model, "--layer", layers[0], "--full")
    np.save(f"{name}.npy", np.ones(SHAPES[name], np.float32))
    command("run", name, "--layer", layers[0], "--input", f"{name}.npy", "-o", f"{name}.y.npy")
    command("run", model, "--input", f"{name}.npy", "-o", f"{name}.z.npy")
    assert np.isfinite(np.load(f"{name}.z.npy").astype(np.float32)).all()


def other_commands() -> None:
    """The commands that need no model, and how a bad call ends."""
    assert "P100" in command("explain")
    np.save("x.npy", np.arange(32, dtype=np.uint32))
    Path("twice.ptx").write_text(KERNEL)
    Path("launch.json").write_text(json.dumps(LAUNCH))
    command("exec", "twice.ptx", "launch.json", "--check")
    assert (np.load("y.npy") == 2 * np.arange(32)).all()
    assert "no such" in script("verify", "absent.onnx", expect=2).lower()


def same_derivation() -> None:
    """What this sympy derives is what convc carries."""
    assert write.text() == write.FILE.read_text(encoding="utf-8"), "another derivation with this sympy"


def every_verb() -> None:
    """The verbs in Python, on a network of two layers."""
    model = model_folder() / "tiny_two_convs.onnx"
    x = np.ones(SHAPES["tiny_two_convs"], np.float32)
    network = convc.load(model)
    build = convc.compile(network, "api", schedule=convc.ScheduleOptions(schedule="reload"))
    assert convc.run(build, x, layer="stem").shape == (1, 16, 8, 8)
    assert convc.verify(onnx.load(model), seed=3).ok
    assert convc.check(build).ok
    assert "tcgen05.mma" in convc.inspect(network, "head").text
    assert all(y.shape[0] == 1 for y in convc.run_model(model, {"x": x}).values())
    assert convc.simulate("twice.ptx", "launch.json").ok


def run_all() -> None:
    """All of it, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="convc-quick-") as folder:
        os.chdir(folder)
        os.environ["CONVC_CACHE"] = "off"
        first, *others = SHAPES
        every_command(first, script)
        for name in others:
            every_command(name, command)
        other_commands()
        every_verb()
        same_derivation()
        os.chdir("/")
    versions = " ".join(f"{each} {version(each)}" for each in ("numpy", "onnx", "islpy", "sympy", "click", "msgspec"))
    print(f"right: convc {convc.__version__} from {Path(convc.__file__).parent}, {versions}")


if __name__ == "__main__":
    run_all()
