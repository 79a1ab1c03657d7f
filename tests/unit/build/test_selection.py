"""Layers by name, by pattern, and by a name that is nearly right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from convc.build.selection import pick_layer, pick_layers
from convc.errors import InputError


@dataclass(frozen=True)
class Layer:
    name: str


LAYERS = [Layer(name) for name in ("conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "odd[0]", "odd0")]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (None, [layer.name for layer in LAYERS]),
        ("conv1", ["conv1"]),
        (["layer2.0.conv1", "conv1"], ["conv1", "layer2.0.conv1"]),
        ("layer1.*", ["layer1.0.conv1", "layer1.0.conv2"]),
        (["*conv1", "layer1.*"], ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1"]),
        ("layer?.0.conv1", ["layer1.0.conv1", "layer2.0.conv1"]),
        ("odd[0]", ["odd[0]"]),  # a name comes before what it means as a pattern
        ("odd[01]", ["odd0"]),
    ],
)
def test_names_and_patterns(wanted, names):
    assert [layer.name for layer in pick_layers(LAYERS, wanted, "model")] == names


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("layer1.0.conv3", "did you mean 'layer1.0.conv2'? layers: conv1, layer1.0.conv1"),
        ("zzz", "layers: conv1, layer1.0.conv1"),
        (["conv1", "zzz*"], "layers: conv1, layer1.0.conv1"),
    ],
)
def test_what_means_no_layer_is_refused(wanted, hint):
    with pytest.raises(InputError, match="there is no layer") as refused:
        pick_layers(LAYERS, wanted, "model")
    assert refused.value.hint.startswith(hint)


def test_one_is_wanted():
    assert pick_layer(LAYERS, "layer2*", "model") == LAYERS[3]
    assert pick_layer(LAYERS[:1], None, "model") == LAYERS[0]
    with pytest.raises(InputError, match=r"'\*conv1' matches 3 layers, expected one"):
        pick_layer(LAYERS, "*conv1", "model")
    with pytest.raises(InputError, match="there are 6 layers: choose one with --layer"):
        pick_layer(LAYERS, None, "model")


def test_many_names_are_cut_short():
    with pytest.raises(InputError) as refused:
        pick_layers([Layer(f"conv{i}") for i in range(40)], "x", "model")
    assert refused.value.hint.endswith("conv18, conv19 and 20 more")
