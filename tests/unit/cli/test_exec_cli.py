"""``convc exec``: a kernel that is no convolution, its files, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

SCALE = """.version 8.6
.target sm_100a
.address_size 64

// y[i] = a * x[i]
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 a)
{
    .reg .b32 %i, %block, %threads;
    .reg .f32 %v, %a;
    .reg .b64 %x, %y, %offset;
    ld.param.u64 %x, [x];
    cvta.to.global.u64 %x, %x;
    ld.param.u64 %y, [y];
    cvta.to.global.u64 %y, %y;
    ld.param.f32 %a, [a];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %i, %tid.x;
    mad.lo.u32 %i, %block, %threads, %i;
    mul.wide.u32 %offset, %i, 4;
    add.u64 %x, %x, %offset;
    add.u64 %y, %y, %offset;
    ld.global.f32 %v, [%x];
    mul.rn.f32 %v, %v, %a;
    st.global.f32 [%y], %v;
    ret;
}
"""


class Folder:
    """A folder with a kernel, a launch file and its arrays."""

    def __init__(self, path: Path) -> None:
        self.kernel, self.launch = path / "scale.ptx", path / "launch.json"
        self.x = np.arange(512, dtype=np.float32)
        self.kernel.write_text(SCALE)
        np.save(path / "x.npy", self.x)
        self.write(lambda launch: None)

    def write(self, change) -> None:
        launch = {
            "format": "convc-launch/1",
            "entry": "scale",
            "grid": [4, 1, 1],
            "block": [128, 1, 1],
            "buffers": {
                "x": {"dtype": "f32", "shape": [512], "file": "x.npy"},
                "y": {"dtype": "f32", "shape": [512], "save": "y.npy"},
            },
            "params": [
                {"kind": "pointer", "buffer": "x"},
                {"kind": "pointer", "buffer": "y"},
                {"kind": "scalar", "dtype": "f32", "value": 2.5},
            ],
        }
        change(launch)
        self.launch.write_text(json.dumps(launch))


@pytest.fixture
def scale(tmp_path) -> Folder:
    (tmp_path / "k").mkdir()
    return Folder(tmp_path / "k")


def test_a_foreign_kernel_runs(convc, scale, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # files are relative to the launch file, not to here
    said = convc.good("exec", "k/scale.ptx", "k/launch.json")
    np.testing.assert_array_equal(np.load("k/y.npy"), 2.5 * scale.x)
    assert "scale: 4 CTAs" in said
    assert f"wrote {Path('k/y.npy')}: buffer y" in said
    assert sorted(os.listdir("k")) == ["launch.json", "scale.ptx", "x.npy", "y.npy"]


def test_counts_in_the_text_and_in_the_json(convc, scale, tmp_path):
    said = convc.good("exec", scale.kernel, scale.launch, "--counts", "--json", tmp_path / "r.json")
    assert "counts of scale:\n  CTAs          4\n" in said
    assert "  ld.global     2048 bytes\n  st.global     2048 bytes\n" in said
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["format"], report["findings"]) == ("convc-exec/1", [])
    assert report["counters"]["global_store_bytes"] == 2048
    assert report["counters"]["tma_loads"] == {}
    assert report["seconds"] > 0


def test_a_launch_that_saves_nothing_is_fine(convc, scale):
    scale.write(lambda launch: launch["buffers"]["y"].pop("save"))
    assert "wrote" not in convc.good("exec", scale.kernel, scale.launch)


def test_bfloat16_buffers_are_uint16_files(convc, scale):
    def halves(launch):
        launch["buffers"]["x"] = {"dtype": "bf16", "shape": [2, 512], "file": "x16.npy", "save": "x16_after.npy"}

    scale.write(halves)
    bits = np.arange(1024, dtype=np.uint16).reshape(2, 512)
    np.save(scale.kernel.parent / "x16.npy", bits)
    convc.good("exec", scale.kernel, scale.launch)
    np.testing.assert_array_equal(np.load(scale.kernel.parent / "x16_after.npy"), bits)
    np.save(scale.kernel.parent / "x16.npy", bits.view(ml_dtypes.bfloat16).astype(np.float32))
    said = convc.refused("exec", scale.kernel, scale.launch)
    assert "takes uint16 [2, 512], the file holds float32 [2, 512]" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["buffers"]["x"].update(shape=[513]), "takes float32 [513], the file holds float32 [512]"),
        (lambda d: d["buffers"]["x"].update(dtype="s32"), "takes int32 [512], the file holds float32 [512]"),
        (lambda d: d["buffers"]["x"].update(file="no.npy"), "there is no such file or folder"),
        (lambda d: d["buffers"]["y"].update(save="../y.npy"), "inside the launch file's folder"),
        (lambda d: d["buffers"]["y"].update(save="/tmp/y.npy"), "inside the launch file's folder"),
        (lambda d: d["buffers"]["y"].update(save="link/y.npy"), "inside the launch file's folder"),
        (lambda d: d["buffers"]["y"].update(save="."), "inside the launch file's folder"),
        (lambda d: d["buffers"]["y"].update(save="no/y.npy"), "folder to write to does not exist"),
        (lambda d: d["buffers"]["y"].update(shape=[2**33]), "error["),
        (lambda d: d.update(entry="other"), "entry 'other'"),
        (lambda d: d.update(grid=[0, 1, 1]), "grid.x must be in 1"),
        (lambda d: d.update(block=[1025, 1, 1]), "block.x"),
        (lambda d: d["params"].pop(), "3 parameters"),
        (lambda d: d["params"][0].update(buffer="z"), "names buffer 'z'"),
        (lambda d: d.pop("params"), "missing required field `params`"),
    ],
)
def test_a_wrong_launch_is_refused_and_nothing_is_written(convc, scale, tmp_path, change, message):
    os.symlink(tmp_path, scale.kernel.parent / "link")
    scale.write(change)
    said = convc.refused("exec", scale.kernel, scale.launch)
    assert message in said
    assert not list(tmp_path.rglob("y.npy"))


def test_files_that_are_missing_or_no_text(convc, scale, tmp_path):
    assert "there is no such file or folder" in convc.refused("exec", tmp_path / "no.ptx", scale.launch)
    assert "there is no such file or folder" in convc.refused("exec", scale.kernel, tmp_path / "no.json")
    scale.kernel.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in convc.refused("exec", scale.kernel, scale.launch)


def test_a_syntax_error_points_at_its_place(convc, scale):
    scale.kernel.write_text(SCALE.replace("mul.rn.f32 %v, %v, %a;", "mul.rn.f32 %v, %w, %a;"))
    said = convc.refused("exec", scale.kernel, scale.launch)
    line = SCALE[: SCALE.index("mul.rn.f32")].count("\n") + 1
    assert f"scale.ptx:{line}:20" in said
    assert "mul.rn.f32 %v, %w, %a;" in said


def test_a_finding_ends_with_1_and_the_buffers_can_be_looked_at(convc, scale):
    """Shared memory is read that nobody wrote."""
    text = SCALE.replace("    .reg .f32 %v, %a;", "    .shared .b32 slot;\n    .reg .f32 %v, %a;")
    scale.kernel.write_text(text.replace("ld.global.f32 %v, [%x];", "ld.shared.f32 %v, [slot];"))
    result = convc("exec", scale.kernel, scale.launch)
    assert result.exit_code == 1
    assert "unwritten" in result.stderr
    assert (scale.kernel.parent / "y.npy").exists()


def test_a_fault_ends_with_1_and_saves_nothing(convc, scale):
    scale.write(lambda launch: launch.update(grid=[5, 1, 1]))
    result = convc("exec", scale.kernel, scale.launch)
    assert result.exit_code == 1
    assert "error[M100]" in result.stderr
    assert "buffer 'x'" in result.stderr
    assert not (scale.kernel.parent / "y.npy").exists()


def test_what_the_kernel_in_front_may_use_is_said_with_an_option(convc, tmp_path):
    """The launch file need not know; a name that it does not have is refused."""
    text = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x)
{
    .reg .b64 %a; .reg .b32 %v;
    ld.param.u64 %a, [x];
    ld.global.u32 %v, [%a];
    griddepcontrol.wait;
    ret;
}
"""
    launch = {
        "format": "convc-launch/1", "entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1],
        "buffers": {"x": {"dtype": "u32", "shape": [8], "file": "x.npy"}},
        "params": [{"kind": "pointer", "buffer": "x"}],
    }  # fmt: skip
    (tmp_path / "k.ptx").write_text(text)
    (tmp_path / "l.json").write_text(json.dumps(launch))
    np.save(tmp_path / "x.npy", np.zeros(8, np.uint32))
    files = tmp_path / "k.ptx", tmp_path / "l.json"
    assert "these accesses were not checked" in " ".join(convc("exec", *files, "--check").output.split())
    result = convc("exec", *files, "--dependent", "x")
    assert result.exit_code == 1
    assert "error[dependent-access]" in result.output
    assert "dependent names buffer 'z', which the launch file does not have" in convc.refused(
        "exec", *files, "--dependent", "z"
    )
