"""Networks that make images, or sequences of them."""

from __future__ import annotations

import onnx

from zoo.builder import Net


def unet() -> onnx.ModelProto:
    """U-Net on an odd extent: what comes up is padded by the difference to the skip, as F.pad is exported."""
    net = Net(17, seed=21)
    x = net.input("image", [1, 3, 18, 14])
    skip = net.op("Relu", net.norm(net.conv(x, 3, 8, strides=[2, 2], bias=False), 8))
    deep = net.op("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2])
    deep = net.op("Relu", net.norm(net.conv(deep, 8, 16, bias=False), 16))
    up = net.transposed(deep, 16, 8, (2, 2), strides=[2, 2])
    pads = {}
    for axis in (2, 3):
        missing = net.op("Sub", net.extent(skip, axis), net.extent(up, axis))
        pads[axis] = net.op("Div", missing, net.const(2, "i8")), missing
    zero = net.const(0, "i8")
    fronts = [pads[axis][0] for axis in (2, 3)]
    backs = [net.op("Sub", pads[axis][1], pads[axis][0]) for axis in (2, 3)]
    padded = net.op("Pad", up, net.listed(zero, zero, *fronts, zero, zero, *backs), net.const(0.0), mode="constant")
    joined = net.op("Concat", skip, padded, axis=1)
    y = net.op("Relu", net.norm(net.conv(joined, 16, 8, bias=False), 8))
    net.output(net.op("Sigmoid", net.conv(y, 8, 2, (1, 1))), 4)
    return net.model()


def espcn() -> onnx.ModelProto:
    """ESPCN: super-resolution whose last step is DepthToSpace."""
    net = Net(13, seed=22)
    x = net.input("luma", [1, 1, 16, 16])
    x = net.op("Tanh", net.conv(x, 1, 16, (5, 5)))
    x = net.op("Tanh", net.conv(x, 16, 8))
    net.output(net.op("DepthToSpace", net.conv(x, 8, 9), blocksize=3, mode="CRD"), 4)
    return net.model()


def _group_norm(net: Net, x: str, channels: int, groups: int, extents: list[int]) -> str:
    """GroupNorm as torch.onnx writes it: InstanceNormalization of groups, reshaped, and back, then the affine."""
    parted = net.op("Reshape", x, net.ints(0, groups, -1))
    normal = net.op("InstanceNormalization", parted, net.const([1.0] * groups), net.const([0.0] * groups), epsilon=1e-5)
    whole = net.op("Reshape", normal, net.ints(1, channels, *extents))
    gain = net.const(net.rng.uniform(0.5, 1.5, (channels, 1, 1)))
    return net.op("Add", net.op("Mul", whole, gain), net.random(channels, 1, 1, scale=0.1))


def sd_unet() -> onnx.ModelProto:
    """A block of Stable Diffusion's U-Net: ResNet with an embedding of the time, self-attention, an upsampled skip."""
    net = Net(17, seed=23)
    x = net.input("latent", [1, 4, 8, 8])
    time = net.input("time", [1, 16])
    x = net.conv(x, 4, 16)
    y = net.conv(net.silu(_group_norm(net, x, 16, 4, [8, 8])), 16, 16)
    moved = net.op("Gemm", net.silu(time), net.random(16, 16, scale=0.25), net.random(16, scale=0.1), transB=1)
    y = net.op("Add", y, net.op("Unsqueeze", moved, net.ints(2, 3)))
    y = net.conv(net.silu(_group_norm(net, y, 16, 4, [8, 8])), 16, 16)
    x = net.op("Add", x, y)
    rows = net.op(
        "Transpose", net.op("Reshape", _group_norm(net, x, 16, 4, [8, 8]), net.ints(1, 16, 64)), perm=[0, 2, 1]
    )
    query, key, value = (net.op("MatMul", rows, net.random(16, 16, scale=0.25)) for _ in range(3))
    scores = net.op("Mul", net.op("MatMul", query, net.op("Transpose", key, perm=[0, 2, 1])), net.const(0.25))
    seen = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    x = net.op("Add", x, net.op("Reshape", net.op("Transpose", seen, perm=[0, 2, 1]), net.ints(1, 16, 8, 8)))
    up = net.op("Resize", net.conv(x, 16, 16, strides=[2, 2]), "", net.const([1, 1, 2, 2]), mode="nearest",
                nearest_mode="floor", coordinate_transformation_mode="asymmetric")  # fmt: skip
    net.output(net.conv(net.op("Concat", up, x, axis=1), 32, 4), 4)
    return net.model()


def sd_vae() -> onnx.ModelProto:
    """Stable Diffusion's decoder: GroupNorm, SiLU, a ResNet block with a projection, upsampling, three channels."""
    net = Net(18, seed=24)
    x = net.input("latent", [1, 4, 8, 8])
    x = net.conv(net.conv(x, 4, 4, (1, 1)), 4, 16)
    y = net.conv(net.silu(_group_norm(net, x, 16, 4, [8, 8])), 16, 8)
    y = net.conv(net.silu(_group_norm(net, y, 8, 4, [8, 8])), 8, 8)
    x = net.op("Add", net.conv(x, 16, 8, (1, 1)), y)
    x = net.op("Resize", x, "", net.const([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")  # fmt: skip
    net.output(net.conv(net.silu(_group_norm(net, net.conv(x, 8, 8), 8, 4, [16, 16])), 8, 3), 4)
    return net.model()


def video() -> onnx.ModelProto:
    """A 3-D network of video: a stem over space, filters over time and space apart, strided, pooled."""
    net = Net(17, seed=25)
    x = net.input("clip", [1, 3, 6, 12, 12])
    x = net.op("Relu", net.norm(net.conv(x, 3, 8, (1, 5, 5), strides=[1, 2, 2], bias=False), 8))
    x = net.op("MaxPool", x, kernel_shape=[1, 3, 3], strides=[1, 2, 2], pads=[0, 1, 1, 0, 1, 1])
    y = net.op("Relu", net.norm(net.conv(x, 8, 8, (3, 1, 1), bias=False), 8))
    y = net.norm(net.conv(y, 8, 8, (1, 3, 3), bias=False), 8)
    x = net.op("Relu", net.op("Add", x, y))
    x = net.op("Relu", net.conv(x, 8, 16, (3, 3, 3), strides=[2, 2, 2]))
    net.output(net.op("GlobalAveragePool", x), 5)
    return net.model()


def stylegan2() -> onnx.ModelProto:
    """StyleGAN2: filters modulated and demodulated by a style when the network runs, samples as groups, a blur."""
    net = Net(17, seed=26)
    x = net.input("features", [2, 8, 8, 8])
    style = net.input("style", [2, 8])
    scales = net.op("Gemm", style, net.random(8, 8, scale=0.35), net.const([1.0] * 8), transB=1)
    filters = net.op("Mul", net.random(1, 16, 8, 3, 3, scale=0.12), net.op("Reshape", scales, net.ints(2, 1, 8, 1, 1)))
    squares = net.op("ReduceSum", net.op("Mul", filters, filters), net.ints(2, 3, 4), keepdims=1)
    size = net.op("Sqrt", net.op("Add", squares, net.const(1e-8)))
    filters = net.op("Reshape", net.op("Div", filters, size), net.ints(32, 8, 3, 3))
    grouped = net.op("Reshape", x, net.ints(1, 16, 8, 8))
    y = net.op("Conv", grouped, filters, group=2, pads=[1, 1, 1, 1])
    y = net.op("Reshape", y, net.ints(2, 16, 8, 8))
    blur = [[i * j / 64 for j in (1, 3, 3, 1)] for i in (1, 3, 3, 1)]
    y = net.op("Conv", y, net.const([[blur]] * 16), group=16, pads=[2, 2, 1, 1])  # upfirdn2d as a depthwise filter
    y = net.op("LeakyRelu", net.op("Add", y, net.random(1, 16, 1, 1, scale=0.1)), alpha=0.2)
    net.output(net.conv(net.op("Mul", y, net.const(2**0.5)), 16, 3, (1, 1)), 4)
    return net.model()
