"""``convc audit``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
SAXPY = TESTS / "foreign" / "saxpy"


def test_a_build_of_ours_is_clean(convc, build):
    said = convc.good("audit", build).splitlines()
    assert said[0] == "conv: clean, nothing found"
    assert said[1].startswith("  places checked: launch-limits ")
    assert said[2].startswith("  rules without a place: ")
    assert len(said) == 3


def test_an_accusation_names_its_rule_and_place(convc, build, kernel, tmp_path):
    kernel.write_text(kernel.read_text().replace("tcgen05.wait::ld.sync.aligned;", ""))
    result = convc("audit", build, "--json", tmp_path / "r.json", "--sarif", tmp_path / "r.sarif")
    assert result.exit_code == 1
    assert "error[tcgen05-wait]" in result.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["format"], report["ok"], report["verdict"]) == ("convc-audit/1", False, "error")
    (audited,) = report["kernels"]
    assert audited["layers"] == ["conv"]
    (finding,) = [each for each in audited["findings"] if each["rule"] == "tcgen05-wait"]
    assert finding["line"] > 0
    assert finding["step"] == "dealloc.tmem"
    assert finding["other"]["step"] == "epilogue.read"
    assert "PTX 9.7.16.8.5" in finding["message"]
    assert audited["not_understood"] == []
    assert any(each["rule"] == "transaction-bytes" and each["places"] >= 3 for each in audited["looked"])
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]


def test_a_kernel_alone(convc):
    said = convc.good("audit", SAXPY / "kernel.ptx", SAXPY / "launch.json")
    assert said.startswith("saxpy: clean, nothing found\n")
    assert convc.good("audit", SAXPY) == said


def test_without_a_launch_less_is_known(convc, kernel):
    said = convc.good("audit", kernel)
    assert "not understood: unknown tensor map of this copy" in said
    assert "clean" in said.splitlines()[0]
    refused = convc.refused("audit", SAXPY / "kernel.ptx")
    assert "does not give the number of threads" in refused
    assert "give a launch file" in refused


def test_the_launch_file_says_what_a_kernel_in_front_may_use(convc, tmp_path):
    text = (SAXPY / "kernel.ptx").read_text().replace("ld.global.f32", "ld.global.nc.f32", 1)
    shutil.copytree(SAXPY, tmp_path / "k")
    (tmp_path / "k" / "kernel.ptx").write_text(text.replace("mov.u32", "griddepcontrol.wait;\nmov.u32", 1))
    assert "not understood: the launch file does not say (dependent)" in convc.good("audit", tmp_path / "k")
    launch = json.loads((SAXPY / "launch.json").read_text())
    for buffers, code in ((["y"], 0), (["x", "y"], 1)):
        (tmp_path / "k" / "launch.json").write_text(json.dumps(launch | {"dependent": buffers}))
        result = convc("audit", tmp_path / "k")
        assert result.exit_code == code
        assert "not understood" not in result.stdout
        assert ("error[read-only-load]: buffer 'x'" in result.stdout) == bool(code)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nowhere", "nowhere"),
        ("{saxpy}/launch.json", "a PTX file begins with .version"),
        ("{saxpy}/launch.json {saxpy}/kernel.ptx", "KERNEL.ptx comes first"),
        ("{saxpy} --layer conv", "has no layers"),
        ("{build} {saxpy}/launch.json", "leave launch out"),
        ("{build} --layer cnv", "there is no layer 'cnv'"),
    ],
)
def test_what_cannot_be_is_refused(convc, build, words, said):
    assert said in convc.refused("audit", *words.format(saxpy=SAXPY, build=build).split())


def test_rules_are_explained(convc):
    said = convc.good("explain", "pair-rendezvous")
    assert "knows that the peer CTA has been launched" in said
    assert "PTX 9.7.16.7.1" in said


def test_what_the_hardware_is_known_to_take_is_a_rule(convc, tmp_path):
    """Descriptors whose bits 46-48 are 0: good, and 1 with --strict, as `check` has it."""
    shutil.copytree(TESTS / "golden" / "same_3x3_f16", tmp_path / "k")
    assert "clean" in convc.good("audit", tmp_path / "k", "--strict").splitlines()[0]
    kernel = tmp_path / "k" / "kernel.ptx"
    kernel.write_text(kernel.read_text().replace("0x40004040", "0x40000040"))
    said = convc.good("audit", tmp_path / "k")
    assert ": rule, " in said.splitlines()[0]
    assert "rule[matrix-descriptor]: descriptor 0x40000040" in said
    strict = convc("audit", tmp_path / "k", "--strict")
    assert (strict.exit_code, strict.stdout) == (1, said)
