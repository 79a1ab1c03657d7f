"""Cases of recurrent operators, and of those that work on signals."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from conformance.host_cases import HostCase, case, floats, normal


def recurrent_cases() -> Iterator[HostCase]:
    """All of them."""
    for part in (_recurrent, _recurrent_corners, _signals):
        yield from part()


def _recurrent() -> Iterator[HostCase]:
    for op, gates in {"RNN": 1, "GRU": 3, "LSTM": 4}.items():
        for direction, ways in {"forward": 1, "reverse": 1, "bidirectional": 2}.items():
            x = normal(5, 3, 4)
            w, r, b = normal(ways, gates * 6, 4), normal(ways, gates * 6, 6), normal(ways, 2 * gates * 6)
            state = normal(ways, 3, 6)
            own = {"direction": direction, "hidden_size": 6}
            ends = 3 if op == "LSTM" else 2
            yield case(op, f"{direction}", x, w, r, b, outputs=ends, **own)
            yield case(op, f"{direction} no bias", x, w, r, outputs=ends, **own)
            yield case(op, f"{direction} lengths", x, w, r, b, np.array([5, 2, 3], "i4"), outputs=ends, **own)
            initial = [state, normal(ways, 3, 6)] if op == "LSTM" else [state]
            yield case(op, f"{direction} initial", x, w, r, b, None, *initial, outputs=ends, **own)
            yield case(op, f"{direction} clip", x, w, r, b, clip=0.4, outputs=ends, **own)
            acts = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Relu"], "LSTM": ["HardSigmoid", "Relu", "Softsign"]}[op]
            yield case(op, f"{direction} activations", x, w, r, b, activations=acts * ways, outputs=ends, **own)
            yield case(op, f"{direction} layout", x.transpose(1, 0, 2), w, r, b, layout=1, outputs=ends, **own)


def _recurrent_corners() -> Iterator[HostCase]:
    x, w, r, b = normal(5, 3, 4), normal(1, 18, 4), normal(1, 18, 6), normal(1, 36)
    yield case("GRU", "linear before reset", x, w, r, b, hidden_size=6, linear_before_reset=1, outputs=2)
    yield case(
        "GRU",
        "linear before reset both ways",
        x,
        np.concatenate([w, w]),
        np.concatenate([r, -r]),
        np.concatenate([b, b]),
        hidden_size=6,
        direction="bidirectional",
        linear_before_reset=1,
        outputs=2,
    )
    w, r, b = normal(1, 24, 4), normal(1, 24, 6), normal(1, 48)
    yield case("LSTM", "peepholes", x, w, r, b, None, None, None, normal(1, 18), hidden_size=6, outputs=3)
    yield case("LSTM", "input forget", x, w, r, b, hidden_size=6, input_forget=1, outputs=3)
    yield case("LSTM", "y alone", x, w, r, b, hidden_size=6)
    yield case(
        "RNN",
        "alpha",
        x,
        normal(1, 6, 4),
        normal(1, 6, 6),
        hidden_size=6,
        activations=["LeakyRelu"],
        activation_alpha=[0.3],
        outputs=2,
    )
    yield case("RNN", "sigmoid", x, normal(1, 6, 4), normal(1, 6, 6), hidden_size=6, activations=["Sigmoid"], outputs=2)
    yield case("LSTM", "one step", normal(1, 3, 4), w, r, b, hidden_size=6, outputs=3)


def _signals() -> Iterator[HostCase]:
    x = normal(1, 16, 1)
    for what, corner in {"forward": {}, "onesided": {"onesided": 1}, "inverse": {"inverse": 1}}.items():
        data = normal(1, 16, 2) if what == "inverse" else x
        yield case("DFT", what, data, axis=1, opsets=(17, 19), **corner)
        yield case("DFT", what, data, None, np.array(1, "i8"), opsets=(20, 99), **corner)
        yield case("DFT", f"{what} length", data, np.array(12, "i8"), np.array(1, "i8"), opsets=(20, 99), **corner)
    yield case("DFT", "longer", x, np.array(20, "i8"), axis=1, opsets=(17, 19))
    yield case("STFT", "default", normal(2, 32, 1), np.array(4, "i8"), normal(8))
    for one in (0, 1):
        yield case("STFT", f"window {one}", normal(2, 32, 1), np.array(4, "i8"), normal(8), None, onesided=one)
        yield case("STFT", f"length {one}", normal(2, 32, 1), np.array(4, "i8"), None, np.array(8, "i8"), onesided=one)
        yield case(
            "STFT", f"both {one}", normal(2, 32, 1), np.array(3, "i8"), normal(8), np.array(8, "i8"), onesided=one
        )
    for op, periodic in itertools.product(("HannWindow", "HammingWindow", "BlackmanWindow"), (0, 1)):
        yield case(op, f"periodic {periodic}", np.array(9, "i8"), periodic=periodic)
    yield case("HannWindow", "double", np.array(9, "i8"), output_datatype=11)
    yield case(
        "MelWeightMatrix",
        "plain",
        np.array(8, "i8"),
        np.array(64, "i8"),
        np.array(8000, "i8"),
        floats(0).reshape(()),
        floats(4000).reshape(()),
    )
