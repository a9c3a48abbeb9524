"""Makers for the rows of operators that give back elements of their inputs: attributes, constants and shapes are drawn, also
such as no rule covers."""

import numpy as np
from range_networks import maker



@maker("Reshape", "Flatten", "Identity", "Transpose")
def plain(b, op):
    shape = b.shape()
    x = b.quantized(shape)
    if op == "Reshape":
        return b.node(op, [x, b.ints(-1, shape[0])])
    return b.node(op, [x], **({"perm": [int(p) for p in b.rng.permutation(len(shape))]} if op == "Transpose" else {}))


@maker("Squeeze", "Unsqueeze")
def squeezed(b, op):
    shape = [1, *b.shape(2)]
    x = b.quantized(shape)
    if b.opset >= 13:
        return b.node(op, [x, b.ints(0)])
    return b.node(op, [x], axes=[0])


@maker("Expand", "Tile")
def repeated(b, op):
    x = b.quantized(b.shape(2))
    return b.node(op, [x, b.ints(2, 1, 1) if op == "Expand" else b.ints(2, 3)])


@maker("Slice")
def slice_of(b, op):
    x = b.quantized([3, *b.shape(2)])
    return b.node(op, [x, b.ints(-1 if b.chance(0.5) else 0), b.ints(3), b.ints(0), b.ints(1)])


@maker("Split")
def parts(b, op):
    x = b.quantized([4, *b.shape(1)])
    extra = {"num_outputs": 2} if b.opset >= 18 else {}
    return b.pick(*b.node(op, [x], outputs=2, axis=0, **extra))


@maker("Gather", "GatherElements", "GatherND", since=12)
def gathered(b, op):
    x = b.quantized([4, 3])
    index = {"Gather": [0, 3, -1], "GatherElements": [[0, 1, 2], [3, 0, 1]], "GatherND": [[1], [2], [0]]}[op]
    return b.node(op, [x, b.constant(index, np.int64)])


@maker("Compress")
def compressed(b, op):
    return b.node(op, [b.quantized([4, 3]), b.constant([1, 0, 1, 1], bool)], axis=0)


@maker("ReverseSequence")
def reversed_part(b, op):
    return b.node(op, [b.quantized([4, 3, 2]), b.ints(1, 4, 2)])


@maker("TopK", since=11)
def top(b, op):
    return b.node(op, [b.quantized([3, 4]), b.ints(4)], outputs=2, largest=int(b.rng.integers(2)))[0]


@maker("DepthToSpace", "SpaceToDepth")
def blocks(b, op):
    return b.node(op, [b.quantized([1, 4, 4, 2])], blocksize=2)


@maker("Resize")
def resized(b, op):
    x = b.quantized(b.spatial())
    mode = b.pick(*["nearest"] * 4, "linear", "cubic")
    if b.opset == 10:
        return b.node(op, [x, b.constant([1, 1, 2, 2])], mode=b.pick("nearest", "nearest", "linear"))
    crop = b.opset >= 11 and mode != "cubic" and b.chance(0.4)
    roi = b.constant([0, 0, -0.5, -0.5, 1, 1, 1.5, 1.5])
    frame = "tf_crop_and_resize" if crop else b.pick("half_pixel", "asymmetric", "align_corners")
    outside = {"extrapolation_value": float(b.pick(0.0, 0.0, 8.0, 0.37))} if crop else {}
    return b.node(op, [x, roi, b.constant([1, 1, 2, 1.5])], mode=mode, coordinate_transformation_mode=frame, **outside)


@maker("Dropout", since=12)
def dropped(b, op):
    x = b.quantized(b.shape())
    if b.chance(0.5):
        return b.node(op, [x])
    return b.node(op, [x, b.constant(0.5), b.constant(b.chance(0.5), bool)])


@maker("Pad", since=11)
def padded(b, op):
    shape, scale = b.shape(2), b.scale()
    x = b.quantized(shape, scale)
    mode = b.pick("constant", "constant", "constant", "edge")
    inputs = [x, b.ints(1, 0, 0, 2)]
    if mode == "constant" and b.chance(0.7):
        number = b.pick(0.0, 0.0, scale * 2, scale * -3, scale * 200, 0.123 * scale)
        inputs.append(b.constant(number) if b.chance(0.8) else b.node("ReduceMax", [b.value([1])], keepdims=0, axes=None))
    return b.node(op, inputs, mode=mode)


@maker("Trilu", since=14)
def triangle(b, op):
    return b.node(op, [b.quantized([3, 4])], upper=int(b.rng.integers(2)))


@maker("Concat")
def joined(b, op):
    (x, y), scale = b.twins([2, 3])
    if b.chance(0.2):
        y = b.constant(np.full([2, 3], scale * b.pick(1, 40, 0.5)))
    return b.node(op, [x, y], axis=int(b.rng.integers(2)))


@maker("Where")
def either(b, op):
    (x, y), _ = b.twins([2, 3])
    return b.node(op, [b.constant(b.rng.random((2, 3)) < 0.5, bool), x, y])


@maker("Scatter", "ScatterElements", "ScatterND", since=10)
def scattered(b, op):
    if op == "Scatter":
        op = "Scatter" if b.opset < 11 else "ScatterElements"
    if op != "Scatter" and b.opset < 11:
        op = "Scatter"
    (x,), scale = b.twins([4, 3], 1)
    if b.chance(0.5):
        y = b.quantized([2, 3], scale if b.chance(0.9) else b.scale(), zero=0)
    else:
        y = b.constant(np.full([2, 3], scale * b.pick(1, -40, 500, 7, 0.5)))
    reduction = b.pick(None, None, "none", "add", "mul") if b.opset >= 16 else None
    index = b.constant([[1], [3]], np.int64) if op == "ScatterND" else b.constant([[0, 1, 2], [3, 0, 1]], np.int64)
    return b.node(op, [x, index, y], reduction=reduction)


@maker("Max", "Min", since=12)
def extreme(b, op):
    (x, y), scale = b.twins([2, 3])
    return b.node(op, [x, y if b.chance(0.7) else b.constant(scale * b.pick(1, -40, 500, 0.5))])


@maker("ReduceMax", "ReduceMin")
def one_of(b, op):
    return b.node(op, [b.quantized([2, 3, 2])], keepdims=int(b.rng.integers(2)))


@maker("MaxPool")
def max_pool(b, op):
    if b.chance(0.2):  # windows that may miss it
        side = int(b.rng.integers(1, 4))
        return b.node(op, [b.quantized([1, 2, side, side])], kernel_shape=[2, 2], pads=[1, 1, 1, 1],
                      dilations=b.pick([1, 1], [2, 2]))  # fmt: skip
    return b.node(op, [b.quantized(b.spatial())], **pool(b))


@maker("GlobalMaxPool")
def global_max(b, op):
    return b.node(op, [b.quantized(b.spatial())])


def pool(b):
    kernel = [int(k) for k in b.rng.integers(1, 4, 2)]
    attributes = {"kernel_shape": kernel, "strides": [int(s) for s in b.rng.integers(1, 4, 2)]}
    if b.chance(0.4):
        attributes["pads"] = [min(k - 1, 1) for k in kernel] * 2
    elif b.chance(0.2):
        attributes |= {"auto_pad": "SAME_UPPER", "strides": [1, 1]}
    elif b.chance(0.3):
        attributes["ceil_mode"] = 1
    return attributes
