"""A build holds its options: what is shown of it is the build, whatever it was compiled with."""

from __future__ import annotations

import json

import pytest

import convc
from convc import ScheduleOptions
from convc.api.drawing import time_schedules
from convc.api.listing import list_layers
from convc.api.paging import page_report
from convc.errors import BuildError, InputError
from convc.support.resources import model_folder

MODEL = model_folder() / "tiny_conv.onnx"

SETS = [
    {},
    {"store": "direct"},
    {"schedule": "reload", "persistent": "on", "ctas": 2},
    {"schedule": "slide", "border": "mask", "rows": "merged", "store": "direct"},
    {"target": "sm_90a", "schedule": "reload", "registers": "on"},
    {"timed": True, "tuned": "off"},
    {"schedule": "slide", "filters": "together", "cta_group": "2"},
    {"schedule": "reload", "multicast": "2x1", "cache_hints": "on"},
    {"schedule": "reload", "persistent": "on", "tile_scheduler": "dynamic", "rasterization_order": "hilbert"},
    {"split_k": "2", "columns": "off", "pdl": True},
    {"target": "sm_90a", "store": "direct", "registers": "off"},
    {"schedule": "shift", "shift": "windows", "residual_load": "direct", "rasterization_order": "grouped"},
    {"schedule": "stationary", "persistent": "off"},
]
"""Every option is in one of them; the first six are compiled in each run."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("given", [*SETS[:6], *(pytest.param(each, marks=pytest.mark.slow) for each in SETS[6:])])
def test_an_untouched_build_is_shown_as_it_is(given, tmp_path):
    options = ScheduleOptions(**given)
    build = convc.compile(MODEL, tmp_path / "b", schedule=options)
    found = convc.inspect(build)
    (text,) = (tmp_path / "b").glob("kernels/*/kernel.ptx")
    assert build.network.schedule == found.options == options
    assert found.compiled.artifact.ptx == found.text == text.read_text()
    assert found.compiled.artifact.launch == build.launch(build.record())
    assert "differs from what this compiler generates" not in str(found)
    (listed,) = list_layers(build).layers
    assert listed.planned == build.record().planned
    assert listed.planned.cycles == pytest.approx(list_layers(MODEL, schedule=options).layers[0].planned.cycles)


def test_every_option_is_in_a_set():
    assert {name for given in SETS for name in given} == set(ScheduleOptions.__dataclass_fields__)


def test_pictures_and_pages_of_a_build_take_its_options(tmp_path):
    build = convc.compile(MODEL, tmp_path / "b", schedule=ScheduleOptions(store="direct", split_k="off"))
    timed = time_schedules(convc.inspect(build))
    asked = time_schedules(convc.inspect(MODEL, schedule=ScheduleOptions(store="direct", split_k="off")))
    assert {title: one.kernel.cycles for title, one in timed.items()} == {
        title: one.kernel.cycles for title, one in asked.items()
    }
    (kernel,) = page_report(build).kernels
    assert not kernel.edited
    assert convc.time(build).layers[0].schedule == build.record().planned.schedule


def test_a_text_that_was_changed_is_told_from_one_of_another_version(tmp_path):
    build = convc.compile(MODEL, tmp_path / "b")
    (text,) = (tmp_path / "b").glob("kernels/*/kernel.ptx")
    text.write_text(f"// mine\n{text.read_text()}")
    assert "differs from what this compiler generates for these options: it was edited" in str(convc.inspect(build))
    network = tmp_path / "b" / "network.json"
    held = json.loads(network.read_text())
    held["schedule"]["store"] = "direct"
    network.write_text(json.dumps(held))
    fresh = convc.compile(MODEL, tmp_path / "c")
    (tmp_path / "c" / "network.json").write_text(json.dumps(held))
    assert "another version of convc wrote the build" in str(convc.inspect(fresh.path))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schedule": "no such"}, "damaged: its options lead to no kernel: schedule must be one of"),
        (
            {"schedule": "stationary", "store": "tma"},
            "damaged: its options lead to no kernel: store tma and schedule stationary exclude",
        ),
        ({"ctas": "many"}, "damaged: Invalid enum value 'many'"),
    ],
)
def test_options_that_cannot_be_are_a_damaged_build(change, said, tmp_path):
    convc.compile(MODEL, tmp_path / "b")
    network = tmp_path / "b" / "network.json"
    held = json.loads(network.read_text())
    held["schedule"] |= change
    network.write_text(json.dumps(held))
    with pytest.raises(BuildError, match=said.replace("|", r"\|")):
        convc.inspect(tmp_path / "b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"work": "fetched"}, "tile_scheduler='dynamic'"),
        ({"pairs": "on"}, "cta_group='2'"),
        ({"tile_order": "columns"}, "rasterization_order='columns'"),
        ({"dependent_launch": True}, "pdl=True"),
    ],
)
def test_old_names_are_answered_with_the_new_ones(old, new):
    (name,) = old
    with pytest.raises(
        InputError, match=f"ScheduleOptions has no {name}: it is called {new.partition('=')[0]}"
    ) as told:
        ScheduleOptions(**old)
    assert told.value.hint == new


def test_a_build_of_before_names_the_command_that_makes_it_anew(tmp_path):
    convc.compile(MODEL, tmp_path / "b")
    network = tmp_path / "b" / "network.json"
    held = json.loads(network.read_text()) | {"format": "convc-build/3", "schedule": {"work": "static", "store": None}}
    network.write_text(json.dumps(held))
    with pytest.raises(BuildError, match="expected format 'convc-build/4', got 'convc-build/3'") as told:
        convc.inspect(tmp_path / "b")
    assert told.value.hint == f"compile the model again: convc compile MODEL.onnx -o {tmp_path / 'b'}"
