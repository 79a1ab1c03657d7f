"""Networks that say where something is: boxes, masks of classes, a template found again, lines of text."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from zoo.builder import Net, results

INT64 = TensorProto.INT64


def yolo() -> onnx.ModelProto:
    """YOLOv8: C2f, SPPF, an upsampled skip, and a head whose boxes are expectations over a softmax of bins."""
    net = Net(17, seed=11)
    x = net.input("images", [1, 3, 32, 32])
    x = net.block(x, 3, 8, strides=[2, 2])
    wide = _c2f(net, net.block(x, 8, 16, strides=[2, 2]), 16)
    deep = _sppf(net, net.block(wide, 16, 16, strides=[2, 2]), 16)
    up = net.op("Resize", deep, "", net.const([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")  # fmt: skip
    joined = net.block(net.op("Concat", up, wide, axis=1), 32, 16, (1, 1))
    boxes, classes = [], []
    for level, extent in ((joined, 8), (deep, 4)):
        box = net.conv(net.block(level, 16, 16), 16, 64, (1, 1))
        kinds = net.conv(net.block(level, 16, 16), 16, 5, (1, 1))
        boxes.append(net.op("Reshape", box, net.ints(1, 64, extent * extent)))
        classes.append(net.op("Reshape", kinds, net.ints(1, 5, extent * extent)))
    bins = net.op("Reshape", net.op("Concat", *boxes, axis=2), net.ints(1, 4, 16, 80))
    shares = net.op("Softmax", net.op("Transpose", bins, perm=[0, 2, 1, 3]), axis=1)
    ends = net.conv(shares, 16, 1, (1, 1), bias=False)  # the expectation, written as a convolution
    sides = net.op("Reshape", ends, net.ints(1, 4, 80))
    near, far = net.split(sides, 2, 2)
    anchors = net.random(1, 2, 80)
    first, last = net.op("Sub", anchors, near), net.op("Add", anchors, far)
    middle = net.op("Div", net.op("Add", first, last), net.const(2.0))
    box = net.op("Concat", middle, net.op("Sub", last, first), axis=1)
    scores = net.op("Sigmoid", net.op("Concat", *classes, axis=2))
    net.output(net.op("Concat", box, scores, axis=1), 3)
    return net.model()


def _c2f(net: Net, x: str, channels: int) -> str:
    """YOLOv8's C2f: a split, a bottleneck on one half, and all of it joined."""
    half = channels // 2
    first, second = net.split(net.block(x, channels, channels, (1, 1)), half, half)
    inner = net.op("Add", second, net.block(net.block(second, half, half), half, half))
    return net.block(net.op("Concat", first, second, inner, axis=1), 3 * half, channels, (1, 1))


def _sppf(net: Net, x: str, channels: int) -> str:
    """Three poolings behind each other, joined."""
    parts = [net.block(x, channels, channels // 2, (1, 1))]
    for _ in range(3):
        parts.append(net.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return net.block(net.op("Concat", *parts, axis=1), 2 * channels, channels, (1, 1))


def empty_detector() -> onnx.ModelProto:
    """A detector in two stages that finds nothing: the head behind NonMaxSuppression gets a batch of 0 crops."""
    net = Net(17, seed=12)
    x = net.input("image", [1, 3, 16, 16])
    features = net.op("Relu", net.conv(x, 3, 8, strides=[2, 2]))
    scores = net.op("Sigmoid", net.conv(features, 8, 1, (1, 1)))
    flat = net.op("Reshape", scores, net.ints(1, 1, 64))
    corners = net.const([[[i, j, i + 3, j + 3] for i in range(8) for j in range(8)]])
    kept = net.op(
        "NonMaxSuppression", corners, flat, net.ints(5), net.const([0.5]), net.const([2.0])
    )  # none is so sure
    index = net.op("Squeeze", net.op("Slice", kept, net.ints(2), net.ints(3), net.ints(1)), net.ints(1))
    boxes = net.op("Gather", net.op("Squeeze", corners, net.ints(0)), index, axis=0)
    images = net.op("ConstantOfShape", net.op("Shape", index), value=onnx.helper.make_tensor("v", INT64, [1], [0]))
    crops = net.op("RoiAlign", features, boxes, images, output_height=4, output_width=4, sampling_ratio=2,
                   coordinate_transformation_mode="half_pixel")  # fmt: skip
    net.output(net.conv(crops, 8, 6, pads=[0, 0, 0, 0]), 4)
    net.output(scores, 4)
    return net.model()


def aspp() -> onnx.ModelProto:
    """DeepLab's pyramid: one filter at dilations 1, 6, 12, a pooled branch resized to the extents of the others."""
    net = Net(13, seed=13)
    x = net.input("image", [1, 8, 20, 20])
    parts = [net.op("Relu", net.norm(net.conv(x, 8, 8, (1, 1), bias=False), 8))]
    for step in (1, 6, 12):
        parts.append(net.op("Relu", net.norm(net.conv(x, 8, 8, bias=False, dilations=[step] * 2), 8)))
    pooled = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), 8, 8, (1, 1)))
    size = net.op("Slice", net.op("Shape", x), net.ints(2), net.ints(4), net.ints(0))
    front = net.op("Slice", net.op("Shape", pooled), net.ints(0), net.ints(2), net.ints(0))
    parts.append(net.op("Resize", pooled, "", "", net.op("Concat", front, size, axis=0), mode="linear",
                        coordinate_transformation_mode="half_pixel"))  # fmt: skip
    net.output(net.conv(net.op("Concat", *parts, axis=1), 40, 4, (1, 1)), 4)
    return net.model()


def siamfc() -> onnx.ModelProto:
    """SiamFC: the features of a template are the filter that searches those of an image."""
    net = Net(16, seed=14)
    template = net.input("template", [1, 3, 12, 12])
    search = net.input("search", [1, 3, 24, 24])
    w1, b1 = net.random(8, 3, 3, 3, scale=0.2), net.random(8, scale=0.1)
    w2, b2 = net.random(8, 8, 3, 3, scale=0.12), net.random(8, scale=0.1)

    def features(x: str) -> str:
        x = net.op("Relu", net.op("Conv", x, w1, b1, strides=[2, 2]))
        return net.op("Conv", x, w2, b2)

    score = net.op("Conv", features(search), features(template))  # weights that are known when it runs
    net.output(net.op("Mul", score, net.const(0.05)), 4)
    return net.model()


def crnn() -> onnx.ModelProto:
    """CRNN: columns of a feature map go through a bidirectional LSTM to letters."""
    net = Net(14, seed=15)
    x = net.input("line", [1, 1, 16, 40])
    x = net.op("MaxPool", net.op("Relu", net.conv(x, 1, 8)), kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Relu", net.norm(net.conv(x, 8, 16, bias=False), 16))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 1], pads=[0, 1, 0, 1])
    x = net.op("Relu", net.conv(x, 16, 16, (4, 2), pads=[0, 0, 0, 0]))
    steps = net.op("Transpose", net.op("Squeeze", x, net.ints(2)), perm=[2, 0, 1])
    lstm = net.op("LSTM", steps, net.random(2, 32, 16, scale=0.3), net.random(2, 32, 8, scale=0.3),
                  net.random(2, 64, scale=0.1), outputs=3, hidden_size=8, direction="bidirectional")  # fmt: skip
    both = net.op("Transpose", results(lstm, 3)[0], perm=[0, 2, 1, 3])
    flat = net.op("Reshape", both, net.ints(0, 0, -1))
    letters = net.op("Add", net.op("MatMul", flat, net.random(16, 11, scale=0.25)), net.random(11))
    net.output(net.op("LogSoftmax", letters, axis=2), 3)
    return net.model()
