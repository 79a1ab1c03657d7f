"""The parameters of chips: each with a unit, a source, a class and a range that holds it; and settings by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from convc.errors import InputError
from convc.timing import parameters
from convc.timing.parameters import check_target, chip_for, chips, read_chip

TARGETS = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120")


@pytest.mark.parametrize("name", chips())
def test_every_parameter_says_where_it_comes_from(name):
    chip = read_chip(name)
    assert chip.parameters
    for key, parameter in chip.parameters.items():
        assert parameter.range[0] <= parameter.value <= parameter.range[1], key
        assert parameter.unit, key
        assert len(parameter.source) > 10, key


def test_a_setting_replaces_a_value_and_says_so():
    chip = read_chip("b200", ["tensor_core.depth=90", "shared_memory.read_port = 100 B/clk"])
    assert chip["tensor_core.depth"] == 90
    assert chip["shared_memory.read_port"] == 100
    assert chip.parameters["tensor_core.depth"].evidence == "assumed"
    assert read_chip("b200")["tensor_core.depth"] == 104


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("tensor_core.depht=3", "no parameter 'tensor_core.depht'; did you mean tensor_core.depth"),
        ("tensor_core.depth", "expected NAME=VALUE"),
        ("tensor_core.depth=4 GHz", "tensor_core.depth is in clk, got '4 GHz'"),
        ("tensor_core.depth=fast", "must be a number in clk, got 'fast'"),
        ("tensor_core.depth=-3", "must be above 0"),
        ("tensor_core.depth=nan", "must be above 0"),
        ("tensor_core.depth=inf", "must be above 0"),
        ("tmem.bank=8x64", "no parameter 'tmem.bank'; did you mean tmem.banks"),
        ("tmem.banks=8x46", "tmem.banks must be one of published, 8x64, 4x128, got '8x46'; did you mean 8x64"),
        ("tmem.banks", "expected NAME=VALUE"),
    ],
)
def test_a_bad_setting_is_refused(setting, said):
    with pytest.raises(InputError, match=said):
        read_chip("b200", [setting])


def test_an_unknown_chip_is_refused_with_a_guess():
    with pytest.raises(
        InputError, match=r"there is no chip 'b20': expected one of b200, b300, h100, h200; did you mean b200"
    ):
        read_chip("b20")


def test_all_chips_have_the_same_parameters():
    names = {name: set(read_chip(name).parameters) for name in chips()}
    assert names["b300"] == names["h200"] == names["b200"]


def test_every_parameter_is_read_by_the_model():
    code = "\n".join(path.read_text() for path in Path(parameters.__file__).parent.glob("*.py"))
    assert [name for name in read_chip("b200").parameters if f'"{name}"' not in code] == []


def test_a_users_own_file_changes_a_chip(tmp_path):
    file = tmp_path / "mine.toml"
    entry = '{ value = 99.5, unit = "B/clk", class = "measured", source = "my GPU", range = [98, 101] }'
    file.write_text(f'base = "h200"\n\n[tma]\nfill = {entry}\n')
    chip = read_chip(str(file), ["tma.row=2"])
    known = read_chip("h200")
    assert (chip.name, chip["tma.fill"], chip["tma.row"]) == (str(file), 99.5, 2)
    assert (chip.parameters["tma.fill"].evidence, chip.parameters["tma.fill"].range) == ("measured", (98, 101))
    assert {name for name in chip.parameters if chip[name] != known[name]} == {"tma.fill", "tma.row"}
    file.write_text("#" * (1 << 19))
    with pytest.raises(InputError, match="a file of parameters has at most 262144 bytes"):
        read_chip(str(file))


def test_a_chip_times_kernels_of_its_own_architecture():
    times = {name: {target for target in TARGETS if read_chip(name).times(target)} for name in chips()}
    assert times == {
        "b200": {"sm_80", "sm_90", "sm_100", "sm_100a", "sm_100f"},
        "b300": {"sm_80", "sm_90", "sm_100", "sm_100a", "sm_100f", "sm_103a"},
        "h100": {"sm_80", "sm_90", "sm_90a"},
        "h200": {"sm_80", "sm_90", "sm_90a"},
    }
    assert [chip_for(target) for target in TARGETS] == ["b200", "h200", "h200", "b200", "b200", "b200", "b300", "b200"]
    with pytest.raises(InputError, match="for sm_120, and chip b200 is sm_100: there is no chip for it"):
        check_target(read_chip("b200"), "sm_120", "some_kernel")
