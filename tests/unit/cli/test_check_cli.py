"""``convc check`` and ``convc exec --check``."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.kernel_edits import NEVER_FREE, edited

NO_WAIT = (r"\n *tcgen05\.wait::ld\.sync\.aligned;", "")
"""Use the loaded registers at once."""


def test_a_kernel_of_ours_is_clean(convc, build):
    said = convc.good("check", build).splitlines()
    assert said[:2] == ["conv: clean, nothing found", "1 layer, 1 kernel: clean, nothing found"]
    assert said[2].startswith("checked: races, ")
    assert "random input of seed 0" in said[2]
    assert said[3:] == ["not checked: wrong results (convc verify), open questions (--all-switches)"]


def test_layers_that_share_a_kernel_are_all_counted(convc, tmp_path):
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["x", "w"], ["h"], name="a"),
                helper.make_node("Conv", ["h", "v"], ["y"], name="b"),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT16, (1, 8, 6, 6))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
            [numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float16), name) for name in "wv"],
        ),
        opset_imports=[helper.make_opsetid("", 22)],
        ir_version=10,
    )
    onnx.save(model, tmp_path / "m.onnx")
    convc.good("compile", tmp_path / "m.onnx", "-o", tmp_path / "b")
    said = convc.good("check", tmp_path / "b", "--json", tmp_path / "r.json").splitlines()
    assert said[:2] == [
        "a and 1 more with its kernel: clean, nothing found",
        "2 layers, 1 kernel: clean, nothing found",
    ]
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["format"], report["ok"], report["verdict"]) == ("convc-check/1", True, "clean")
    assert [kernel["layers"] for kernel in report["kernels"]] == [["a", "b"]]


def test_a_kernel_of_ours_depends_on_no_open_question(convc, build):
    said = convc.good("check", build, "--all-switches").splitlines()
    assert said[0] == "conv: clean, nothing found"
    assert said[-1] == "not checked: wrong results (convc verify)"


@pytest.mark.parametrize("store", ["direct", "tma"])
def test_a_kernel_that_does_not_wait_for_the_one_in_front_is_an_error(convc, tiny, tmp_path, store):
    build = tmp_path / "b"
    convc.good("compile", tiny, "-o", build, "--pdl", "--schedule", "reload", "--store", store)
    assert convc.good("check", build).splitlines()[0] == "conv: clean, nothing found"
    (kernel,) = build.glob("kernels/*/kernel.ptx")
    kernel.write_text(edited(kernel.read_text(), r"griddepcontrol\.wait;", ""))
    result = convc("check", build, "--json", tmp_path / "r.json", "--sarif", tmp_path / "r.sarif")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert "error[dependent-access]" in said
    assert "accesses buffer 'activation', which the preceding kernel may still use" in said
    assert "accesses buffer 'output', which the preceding kernel may still use" in said


ELECTED = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .b64 %a; .reg .b32 %v; .reg .pred %p;
ld.param.u64 %a, [out]; elect.sync %v|%p, 0xffffffff; @%p st.global.u32 [%a], %v; div.u32 %v, %v, 4;
setp.lt.u32 %p, %v, 7; @%p bra END; @!%p trap;
END: ret;
}
"""


def test_an_open_question_that_a_kernel_depends_on(convc, tmp_path):
    kernel, launch = tmp_path / "k.ptx", tmp_path / "launch.json"
    kernel.write_text(ELECTED.replace("setp.lt.u32 %p, %v, 7; @%p bra END; @!%p trap;", ""))
    spec = {"format": "convc-launch/1", "entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1]}
    spec |= {"buffers": {"out": {"dtype": "u32", "shape": [1], "save": "out.npy"}}}
    launch.write_text(json.dumps(spec | {"params": [{"kind": "pointer", "buffer": "out"}]}))
    result = convc("exec", kernel, launch, "--all-switches")
    assert result.exit_code == 0, "a matter for review"
    assert "k: review, 1 finding" in result.stdout
    said = " ".join(result.stderr.split())
    assert "open-question" in said
    assert "with switch elect=highest, 1 bytes of buffer 'out' change" in said
    assert np.load(tmp_path / "out.npy") == 0
    convc.good("exec", kernel, launch, "--switch", "elect=highest")
    assert np.load(tmp_path / "out.npy") == 31
    kernel.write_text(ELECTED)
    said = " ".join(convc("exec", kernel, launch, "--all-switches").stderr.split())
    assert "with switch elect=highest, the kernel executed a trap" in said


def test_switches_that_do_not_exist(convc, build):
    said = convc.refused("check", build, "--switch", "elected=first")
    assert "there is no switch 'elected'" in said
    assert "did you mean 'elect'? switches: " in said
    assert "elect" in said
    assert "must be one of lowest, highest" in convc.refused("check", build, "--switch", "elect=first")


def test_a_missing_wait_is_found_and_written_down(convc, build, kernel, tmp_path):
    kernel.write_text(edited(kernel.read_text(), *NO_WAIT))
    as_json, as_sarif = tmp_path / "found.json", tmp_path / "found.sarif"
    result = convc("check", build, "--strict", "--json", as_json, "--sarif", as_sarif)
    assert result.exit_code == 1
    assert "conv: rule, 2 findings" in result.stdout
    report = json.loads(as_json.read_text())
    found = report["findings"]
    assert report["ok"] is True
    assert {f["rule"] for f in found} == {"register-before-wait", "race-tensor-memory"}
    assert {f["verdict"] for f in found} == {"rule", "review"}
    assert all(f["line"] > 0 and f["step"] for f in found)
    race, early = sorted(found, key=lambda f: f["rule"])
    places = [f["coordinates"] for f in (race, race["other"], early)]
    assert places[0] == places[1]
    assert all(place["pixels"][0] == [0, 0, 0] and place["pixels"][1] < [0, 4, 0] for place in places[:2])
    assert all(place["k"] == [0, 15] for place in places)
    last = tuple(places[0]["pixels"][1])
    assert race["place"] == race["other"]["place"] == f"outputs (n, p, q) = (0, 0, 0)..{last}, k = 0..15"
    assert (race["other"]["warp"], race["other"]["lanes"], race["other"]["execution"]) == (0, list(range(32)), 0)
    said = " ".join(result.stdout.split())
    assert f"; {race['place']}; the other: CTA 0, warp 0, lanes 0..31" in said
    run = json.loads(as_sarif.read_text())["runs"][0]
    assert [r["ruleId"] for r in run["results"]] == [f["rule"] for f in found]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == found[0]["line"]
    assert place["artifactLocation"]["uri"].endswith("kernel.ptx")
    results = {r["ruleId"]: r for r in run["results"]}
    load = results["race-tensor-memory"]["relatedLocations"][0]
    assert load["physicalLocation"]["region"]["startLine"] == race["other"]["line"]
    assert load["message"]["text"] == "the other access, CTA 0, warp 0, lanes 0..31"
    assert results["race-tensor-memory"]["properties"]["coordinates"] == places[0]


def test_a_leak_is_found_too(convc, build, kernel):
    kernel.write_text(edited(kernel.read_text(), *NEVER_FREE))
    result = convc("check", build)
    assert result.exit_code == 1
    assert "tensor-memory-leak" in result.stdout


def test_exec_checks_when_asked(convc, tmp_path):
    (tmp_path / "k.ptx").write_text(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        ".reg .b64 %a; .reg .b32 %v;\nld.param.u64 %a, [out];\nmov.u32 %v, %ctaid.x;\n"
        "st.global.u32 [%a], %v;\nret;\n}\n"
    )
    launch = {"format": "convc-launch/1", "entry": "k", "grid": [2, 1, 1], "block": [1, 1, 1]}
    launch |= {"buffers": {"out": {"dtype": "u32", "shape": [1]}}, "params": [{"kind": "pointer", "buffer": "out"}]}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    assert convc("exec", tmp_path / "k.ptx", tmp_path / "launch.json").exit_code == 0
    result = convc("exec", tmp_path / "k.ptx", tmp_path / "launch.json", "--check")
    assert result.exit_code == 1
    assert "k: error, 1 finding" in result.stdout
    assert "race-global-memory" in result.stderr


@pytest.mark.parametrize("check", [("--check",), ()], ids=["watched", "alone"])
def test_the_json_of_a_kernel_that_hangs_has_the_hang_and_no_counts(convc, tmp_path, check):
    (tmp_path / "k.ptx").write_text(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.shared .align 8 .b64 bar;\n.visible .entry k()\n{\n"
        ".reg .b32 %b; .reg .pred %p;\nmov.u32 %b, bar;\nmbarrier.init.shared::cta.b64 [%b], 1;\n"
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0;\n@!%p bra W;\nret;\n}\n"
    )
    launch = {"format": "convc-launch/1", "entry": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "buffers": {}}
    (tmp_path / "launch.json").write_text(json.dumps(launch | {"params": []}))
    result = convc(
        "exec", tmp_path / "k.ptx", tmp_path / "launch.json", *check, "--counts",
        "--json", tmp_path / "r.json", "--sarif", tmp_path / "r.sarif",
    )  # fmt: skip
    assert result.exit_code == 1
    assert ("error[M200]" in result.stderr) == (not check)
    report = json.loads((tmp_path / "r.json").read_text())
    results = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert [each["ruleId"] for each in results] == ["hang"]
    assert report["counters"] is None
    assert {finding["rule"] for finding in report["findings"]} == {"hang"}


MANGLED = "_ZN7cutlass13device_kernel" + "INS_4gemm6kernel13GemmUniversalI" * 12 + "EEvNT_6ParamsE"


@pytest.fixture
def mangled(tmp_path):
    """A kernel with a long name and findings of two causes: registers that nobody wrote, stored by two CTAs."""
    kernel = tmp_path / "k.ptx"
    kernel.write_text(
        f".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry {MANGLED}(.param .u64 {MANGLED}_param_0)\n"
        f"{{\n.reg .b64 %a; .reg .b32 %v<4>;\nld.param.u64 %a, [{MANGLED}_param_0];\n"
        "st.global.u32 [%a], %v0;\nst.global.u32 [%a+4], %v1;\nst.global.u32 [%a+8], %v2;\n"
        "mov.u32 %v3, %ctaid.x;\nst.global.u32 [%a+12], %v3;\nret;\n}\n"
    )
    launch = {"format": "convc-launch/1", "entry": MANGLED, "grid": [2, 1, 1], "block": [1, 1, 1]}
    launch |= {"buffers": {"out": {"dtype": "u32", "shape": [4]}}, "params": [{"kind": "pointer", "buffer": "out"}]}
    file = tmp_path / "launch.json"
    file.write_text(json.dumps(launch))
    return kernel, file


def test_text_json_and_sarif_have_the_same_groups(convc, mangled, tmp_path):
    as_json, as_sarif = tmp_path / "found.json", tmp_path / "found.sarif"
    result = convc("exec", *mangled, "--check", "--json", as_json, "--sarif", as_sarif)
    assert result.exit_code == 1
    report = json.loads(as_json.read_text())
    groups = report["groups"]
    assert sum(group["count"] for group in groups) == len(report["findings"])
    assert [(g["rule"], g["verdict"], g["count"], g["lines"]) for g in groups] == [
        ("race-global-memory", "error", 4, [8, 9, 10, 12]),
        ("register-unwritten", "error", 3, [8, 9, 10]),
    ]  # fmt: skip
    assert all(group["example"] in report["findings"] for group in groups)
    results = json.loads(as_sarif.read_text())["runs"][0]["results"]
    assert [(r["ruleId"], r["occurrenceCount"]) for r in results] == [(g["rule"], g["count"]) for g in groups]
    assert [r["properties"]["lines"] for r in results] == [g["lines"] for g in groups]
    said = [line for line in result.stderr.splitlines() if "error[" in line or "review[" in line]
    assert len(said) == len(groups)
    assert said[0].endswith("; and 3 more of the same kind (lines 9, 10, 12)")


@pytest.mark.parametrize("words", [("exec", "--check", "--counts"), ("audit",)], ids=" ".join)
def test_long_names_are_shortened_where_people_read_them(convc, mangled, words):
    result = convc(words[0], *mangled, *words[1:])
    assert MANGLED not in result.output
    assert f"{MANGLED[:31]}*{MANGLED[-32:]}: " in result.output


def test_a_long_line_is_shown_around_the_mistake(convc, mangled):
    kernel, launch = mangled
    kernel.write_text(kernel.read_text().replace("(.param .u64", "(.param .u65"))
    said = convc.refused("exec", kernel, launch).splitlines()
    shown, marked = said[3:5]
    assert shown.startswith("4 | ...")
    assert len(shown) < 180
    assert shown[marked.index("^") :].startswith(".u65")


def test_of_many_entries_the_first_are_named(convc, mangled):
    kernel, launch = mangled
    kernel.write_text(kernel.read_text() + "".join(f".visible .entry k{n}()\n{{\nret;\n}}\n" for n in range(40)))
    assert "k6 and 33 more" in convc.refused("audit", kernel)
    launch.write_text(launch.read_text().replace(MANGLED, "other"))
    for command in ("exec", "audit"):
        said = convc.refused(command, kernel, launch)
        assert f"{MANGLED}, k0, " in said
        assert "k6 and 33 more" in said
