"""``convc exec`` on folders that other compilers leave."""

from __future__ import annotations

import pytest

from tests.support.triton_recorded import CACHED, FOREIGN


def test_a_folder_is_listed(convc):
    said = convc.good("exec", "--triton-cache", CACHED.parent)
    assert "  x: a tensor of rank 2 of f16, as x=f16[64,64]\n" in said
    assert f"next: convc exec --triton-cache {CACHED.parent}" in said


def test_a_launch_file_is_written_and_runs(convc, tmp_path):
    target = tmp_path / "launch.json"
    given = ("arg0=f32[1024]", "arg1=f32[1024]", "arg2=2")
    options = [part for each in given for part in ("--arg", each)]
    said = convc.good("exec", "--cute-dump", FOREIGN / "cute_dump", "--emit-launch", target, *options)
    (ptx,) = (FOREIGN / "cute_dump").glob("*.ptx")
    assert f"next: convc exec {ptx} {target} --check" in said
    assert "8 CTAs" in convc.good("exec", ptx, target)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--triton-cache", FOREIGN, "--cute-dump", FOREIGN), "are two kinds of folders"),
        (("--grid", "1"), "give --triton-cache or --cute-dump"),
        (("--triton-cache", FOREIGN, FOREIGN / "saxpy/kernel.ptx"), "leave"),
        (("--triton-cache", FOREIGN, "--grid", "1,0"), "expected one to three whole numbers, as 8,1,1"),
        (("--triton-cache", FOREIGN, "--arg", "x"), "expected NAME=VALUE"),
        ((FOREIGN / "saxpy/kernel.ptx",), "Missing argument 'LAUNCH.json'"),
        ((), "Missing argument 'KERNEL.ptx'"),
        (("--triton-cache", CACHED.parent, "--emit-launch", "launch.json"), "kernel 'pointwise' needs"),
    ],
)
def test_calls_that_are_refused(convc, words, message):
    result = convc("exec", *words)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
