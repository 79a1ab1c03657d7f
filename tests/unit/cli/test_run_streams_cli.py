"""``convc run`` with .npz files, stdin and stdout, drawn inputs, and inputs that are kept."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import onnx
import pytest

import convc as package
from convc.errors import InputError

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[N, 3, 6, 6] x, float[N, 3, 6, 6] more) => (float[N, 3, 6, 6] y, int64[4] z) {
    y = Add (x, more)
    z = Shape (y)
}"""


def piped(*words: object, data: bytes = b"", folder) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "convc", "run", *map(str, words)]
    return subprocess.run(command, input=data, capture_output=True, cwd=folder, check=False)


@pytest.fixture
def model(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_inputs_that_are_drawn_are_kept_and_give_the_same_again(convc, model, tmp_path):
    said = convc("run", model, "--seed", 3, "--save-inputs", tmp_path / "used.npz", "-o", tmp_path / "y.npz")
    assert said.exit_code == 0
    assert "note: the batch of 'x' is open, and taken to be 1 (--batch N, or --shape x:1x3x6x6)" in said.stderr
    with np.load(tmp_path / "used.npz") as used, np.load(tmp_path / "y.npz") as made:
        assert {name: array.shape for name, array in used.items()} == {"x": (1, 3, 6, 6), "more": (1, 3, 6, 6)}
        assert sorted(made) == ["y", "z"]
        np.testing.assert_array_equal(made["y"], used["x"] + used["more"])
    convc.good("run", model, "--input", tmp_path / "used.npz", "-o", tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    for words in (["--batch", 2], ["--shape", "x:2x3x6x6"]):
        assert "[2, 3, 6, 6]" in convc.good("run", model, "--seed", 3, *words)


def test_streams(convc, two, x, tmp_path):
    feed = np.ones((1, 3, 16, 16), np.float32)
    stream = io.BytesIO()
    np.save(stream, feed)
    done = piped(two, "--input", "-", "-o", "-", data=stream.getvalue(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), package.run_model(two, feed)["head.y"])
    assert b"2 convolutions from PTX" in done.stderr
    np.savez(tmp_path / "x.npz", x=feed)
    again = piped("-", "--input", "x.npz", "-o", "-", data=two.read_bytes(), folder=tmp_path)
    assert again.stdout == done.stdout
    assert "which is empty" in convc("run", two, "--input", "-", stdin=b"").stderr
    assert sorted(each.name for each in tmp_path.iterdir() if each != x) == ["x.npz"]


def test_a_layer_of_a_build(convc, build, tmp_path):
    convc.good("run", build, "--seed", 1, "--save-inputs", tmp_path / "used.npz", "-o", tmp_path / "y.npz")
    convc.good("run", build, "--input", tmp_path / "used.npz", "-o", tmp_path / "y.npy")
    with np.load(tmp_path / "y.npz") as made:
        np.testing.assert_array_equal(made["y"], np.load(tmp_path / "y.npy"))
    with pytest.raises(InputError, match=r"the input is missing(.*\n)+.*a random one with --seed N"):
        package.run_layer(build, package.InputData())
    with pytest.raises(InputError, match="seed must be at least 0"):
        package.run_layer(build, package.InputData(seed=-1))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "-", "--input", "more=-"], "can be read once"),
        (["--seed", "1", "-o", "-", "--json", "-"], "only one output or report can go to stdout"),
        (["--seed", "1", "-o", "-"], "say which with -o y=-"),
        (["--seed", "1", "-o", "q=-"], "no output named 'q'"),
        (["--seed", "1", "--save-inputs", "x.npy"], "2 inputs do not fit into a .npy file"),
        (["--input", "x.npz", "--save-inputs", "x.npz"], "would overwrite"),
        (["--input", "x.npz", "-o", "x.npz"], "would overwrite"),
        (["--seed", "1", "--save-inputs", "model.onnx"], "would overwrite"),
        (["--input", "x.npz", "--shape", "x:2x3x6x6"], "expected the shape [2, 3, 6, 6] that was asked for"),
        (["--input", "x.npz", "--shape", "xx:2x3x6x6"], "did you mean 'x'?"),
        (["--input", "x.npz", "--batch", "2"], "batch is for random inputs"),
        (["--seed", "1", "--save-inputs", "none/x.npz"], "the folder to write to does not exist"),
    ],
)
def test_calls_that_are_refused(convc, model, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", x=np.ones((1, 3, 6, 6), np.float32), more=np.ones((1, 3, 6, 6), np.float32))
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    result = convc("run", model, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
