"""Networks of sound and of sequences: filters along one axis."""

from __future__ import annotations

import numpy as np
import onnx

from zoo.builder import Net


def hifi_gan() -> onnx.ModelProto:
    """HiFi-GAN: transposed filters make a wave of a spectrogram, residual blocks with growing dilation."""
    net = Net(17, seed=31)
    x = net.input("mel", [1, 16, 10])
    x = net.conv(x, 16, 16, (7,))
    for channels, stride in ((16, 4), (8, 2)):
        x = net.op("LeakyRelu", x, alpha=0.1)
        out = channels // 2
        x = net.transposed(x, channels, out, (2 * stride,), strides=[stride], pads=[stride // 2] * 2)
        parts = []
        for filters in (3, 7):
            y = x
            for step in (1, 3):
                inner = net.conv(net.op("LeakyRelu", y, alpha=0.1), out, out, (filters,), dilations=[step])
                y = net.op("Add", y, net.conv(net.op("LeakyRelu", inner, alpha=0.1), out, out, (filters,)))
            parts.append(y)
        x = net.op("Div", net.op("Add", *parts), net.const(2.0))
    net.output(net.op("Tanh", net.conv(net.op("LeakyRelu", x, alpha=0.01), 4, 1, (7,))), 3)
    return net.model()


def whisper_stem() -> onnx.ModelProto:
    """Whisper's encoder up to its first attention: two filters with GELU, one strided, and positions added."""
    net = Net(18, seed=32)
    x = net.input("mel", [1, 16, 40])
    x = net.gelu(net.conv(x, 16, 24, (3,)))
    x = net.gelu(net.conv(x, 24, 24, (3,), strides=[2]))
    x = net.op("Transpose", x, perm=[0, 2, 1])
    x = net.op("Add", x, net.random(20, 24, scale=0.1))
    net.output(net.op("LayerNormalization", x, net.random(24), net.random(24, scale=0.1), axis=-1, epsilon=1e-5), 3)
    return net.model()


def mamba() -> onnx.ModelProto:
    """Mamba's causal convolution: depthwise along time, padded on both ends and cut at the length of the input."""
    net = Net(17, seed=33)
    x = net.input("tokens", [1, "length", 16])
    inner = net.op("MatMul", x, net.random(16, 48, scale=0.25))
    run, gate = net.split(inner, 24, 24, axis=2)
    run = net.op("Transpose", run, perm=[0, 2, 1])
    mixed = net.conv(run, 24, 24, (4,), group=24, pads=[3, 3])
    length = net.op("Unsqueeze", net.extent(run, 2), net.ints(0))
    cut = net.op("Slice", mixed, net.ints(0), length, net.ints(2))
    y = net.op("Transpose", net.silu(cut), perm=[0, 2, 1])
    net.output(net.op("MatMul", net.op("Mul", y, net.silu(gate)), net.random(24, 16, scale=0.2)), 3)
    return net.model()


def silero() -> onnx.ModelProto:
    """A detector of voices like Silero's: the STFT as a convolution with its basis, magnitudes, an encoder, an LSTM."""
    net = Net(16, seed=34)
    x = net.input("wave", [1, 128])
    padded = net.op("Pad", net.op("Unsqueeze", x, net.ints(1)), net.ints(0, 0, 16, 0, 0, 16), mode="reflect")
    size, bins = 32, 17
    phase = 2 * np.pi * np.outer(np.arange(bins), np.arange(size)) / size
    window = np.hanning(size + 1)[:-1]
    basis = np.concatenate([np.cos(phase) * window, -np.sin(phase) * window])[:, None]
    spectrum = net.op("Conv", padded, net.const(basis), strides=[16])
    real, imaginary = net.split(spectrum, bins, bins)
    power = net.op("Add", net.op("Mul", real, real), net.op("Mul", imaginary, imaginary))
    y = net.op("Sqrt", net.op("Add", power, net.const(1e-4)))
    y = net.op("Relu", net.conv(y, bins, 16, (3,)))
    y = net.op("Relu", net.conv(y, 16, 16, (3,), strides=[2]))
    steps = net.op("Transpose", y, perm=[2, 0, 1])
    lstm = net.op("LSTM", steps, net.random(1, 32, 16, scale=0.3), net.random(1, 32, 8, scale=0.3),
                  net.random(1, 64, scale=0.1), outputs=3, hidden_size=8)  # fmt: skip
    last = net.op("Transpose", net.op("Squeeze", lstm, net.ints(1)), perm=[1, 2, 0])
    net.output(net.mean(net.op("Sigmoid", net.conv(net.op("Relu", last), 8, 1, (1,))), 2), 3)
    return net.model()
