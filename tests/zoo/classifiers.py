"""Networks that name what is in an image, each as small as it can be with all that is typical of it."""

from __future__ import annotations

import onnx

from zoo.builder import Net


def mobilenet_v4() -> onnx.ModelProto:
    """MobileNetV4: a fused inverted bottleneck, and universal inverted bottlenecks with a depthwise filter in front."""
    net = Net(18, seed=1)
    x = net.input("image", [1, 3, 32, 32])
    x = net.op("Relu", net.norm(net.conv(x, 3, 8, bias=False, strides=[2, 2], pads=[1, 1, 1, 1]), 8))
    x = net.op(
        "Relu", net.norm(net.conv(x, 8, 16, strides=[2, 2], bias=False), 16)
    )  # fused: expand and spatial at once
    x = net.norm(net.conv(x, 16, 8, (1, 1), bias=False), 8)
    for filters in (3, 5):
        y = net.norm(net.conv(x, 8, 8, (filters, filters), group=8, bias=False), 8)  # depthwise in front
        y = net.op("Relu", net.norm(net.conv(y, 8, 32, (1, 1), bias=False), 32))
        y = net.op("Relu", net.norm(net.conv(y, 32, 32, (5, 5), group=32, bias=False), 32))
        x = net.op("Add", x, net.norm(net.conv(y, 32, 8, (1, 1), bias=False), 8))
    pooled = net.mean(x, 2, 3)
    hidden = net.op("Relu", net.conv(pooled, 8, 24, (1, 1)))
    flat = net.op("Flatten", hidden, axis=1)
    net.output(net.op("Gemm", flat, net.random(10, 24, scale=0.2), net.random(10), transB=1), 2)
    return net.model()


def convnext() -> onnx.ModelProto:
    """ConvNeXt: a patchify stem, depthwise 7x7, LayerNormalization behind a Transpose, GELU, layer scale."""
    net = Net(17, seed=2)
    x = net.input("image", [1, 3, 32, 32])
    x = net.conv(x, 3, 16, (4, 4), strides=[4, 4], pads=[0, 0, 0, 0])
    for _ in range(2):
        y = net.conv(x, 16, 16, (7, 7), group=16)
        y = net.op("Transpose", y, perm=[0, 2, 3, 1])
        y = net.op("LayerNormalization", y, net.random(16), net.random(16, scale=0.1), axis=-1, epsilon=1e-6)
        y = net.op("Add", net.op("MatMul", y, net.random(16, 64, scale=0.25)), net.random(64, scale=0.1))
        y = net.gelu(y)
        y = net.op("Add", net.op("MatMul", y, net.random(64, 16, scale=0.125)), net.random(16, scale=0.1))
        y = net.op("Mul", y, net.random(16, scale=0.3))  # layer scale
        x = net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))
    down = net.conv(x, 16, 32, (2, 2), strides=[2, 2], pads=[0, 0, 0, 0])
    net.output(net.op("GlobalAveragePool", down), 4)
    return net.model()


def efficientnet() -> onnx.ModelProto:
    """EfficientNet: mobile inverted bottlenecks with squeeze and excitation, and TensorFlow's SAME padding."""
    net = Net(13, seed=3)
    x = net.input("image", [2, 3, 33, 33])
    x = net.silu(net.norm(net.conv(x, 3, 8, bias=False, strides=[2, 2], auto_pad="SAME_UPPER"), 8))
    for stride in (1, 2):
        y = net.silu(net.norm(net.conv(x, 8, 32, (1, 1), bias=False), 32))
        y = net.conv(y, 32, 32, (3, 3), group=32, bias=False, strides=[stride] * 2, auto_pad="SAME_UPPER")
        y = net.silu(net.norm(y, 32))
        squeezed = net.silu(net.conv(net.op("GlobalAveragePool", y), 32, 4, (1, 1)))
        gate = net.op("Sigmoid", net.conv(squeezed, 4, 32, (1, 1)))
        y = net.norm(net.conv(net.op("Mul", y, gate), 32, 8, (1, 1), bias=False), 8)
        x = net.op("Add", x, y) if stride == 1 else y
    flat = net.op("Squeeze", net.op("GlobalAveragePool", x), net.ints(2, 3))
    logits = net.op("Gemm", flat, net.random(10, 8, scale=0.35), net.random(10), transB=1)
    net.output(net.op("Softmax", logits, axis=-1), 2)
    return net.model()


def shufflenet() -> onnx.ModelProto:
    """ShuffleNetV2: half of the channels pass by; they are shuffled by view, transpose, view with computed extents."""
    net = Net(12, seed=4)
    x = net.input("image", ["batch", 3, 24, 24])
    x = net.op("Relu", net.norm(net.conv(x, 3, 16, strides=[2, 2], bias=False), 16))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        left, right = net.split(x, 8, 8)
        right = net.op("Relu", net.norm(net.conv(right, 8, 8, (1, 1), bias=False), 8))
        right = net.norm(net.conv(right, 8, 8, (3, 3), group=8, bias=False), 8)
        right = net.op("Relu", net.norm(net.conv(right, 8, 8, (1, 1), bias=False), 8))
        x = _shuffled(net, net.op("Concat", left, right, axis=1), 2)
    net.output(net.conv(x, 16, 10, (1, 1)), 4)
    return net.model()


def _shuffled(net: Net, x: str, groups: int) -> str:
    """torchvision's channel_shuffle, as it is exported with an open batch."""
    batch, channels, height, width = (net.extent(x, axis) for axis in range(4))
    share = net.op("Div", channels, net.const(groups, "i8"))
    parted = net.op("Reshape", x, net.listed(batch, net.const(groups, "i8"), share, height, width))
    swapped = net.op("Transpose", parted, perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", swapped, net.listed(batch, net.const(-1, "i8"), height, width))


def replknet() -> onnx.ModelProto:
    """RepLKNet: a depthwise 31x31 beside a 5x5, added up, between two of 1x1."""
    net = Net(17, seed=5)
    x = net.input("image", [1, 8, 24, 24])
    y = net.op("Relu", net.norm(net.conv(x, 8, 16, (1, 1), bias=False), 16))
    wide = net.norm(net.conv(y, 16, 16, (31, 31), group=16, bias=False), 16)
    small = net.norm(net.conv(y, 16, 16, (5, 5), group=16, bias=False), 16)
    y = net.op("Relu", net.op("Add", wide, small))
    net.output(net.op("Add", x, net.norm(net.conv(y, 16, 8, (1, 1), bias=False), 8)), 4)
    return net.model()


def googlenet() -> onnx.ModelProto:
    """GoogLeNet: LRN, pooling with ceil_mode, inception branches of four filters joined."""
    net = Net(11, seed=6)
    x = net.input("image", [1, 3, 30, 30])
    x = net.op("Relu", net.conv(x, 3, 16, (7, 7), strides=[2, 2]))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    x = net.op("LRN", x, size=5, alpha=1e-1, beta=0.75, bias=1.0)
    one = net.op("Relu", net.conv(x, 16, 8, (1, 1)))
    three = net.op("Relu", net.conv(net.op("Relu", net.conv(x, 16, 8, (1, 1))), 8, 16))
    five = net.op("Relu", net.conv(net.op("Relu", net.conv(x, 16, 4, (1, 1))), 4, 8, (5, 5)))
    pooled = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], ceil_mode=1)
    pooled = net.op("Relu", net.conv(pooled, 16, 8, (1, 1)))
    x = net.op("Concat", one, three, five, pooled, axis=1)
    x = net.op("AveragePool", x, kernel_shape=[7, 7], strides=[1, 1])
    net.output(net.op("Softmax", net.op("Flatten", net.conv(x, 40, 10, (1, 1))), axis=1), 2)
    return net.model()
