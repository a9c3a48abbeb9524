"""Sizes that networks compute from their input's: what resolve_shapes() finds without running is what onnxruntime has.

Each network reshapes, pads, cuts, expands and resizes to sizes that drawn arithmetic on Shape gives, in the forms that
exporters write. The input's sizes are numbers, so no size may stay open.
"""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")
SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
OPSET = 18


class Net:
    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.outputs, self.count = rng, [], [], [], 0

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def node(self, op, inputs, **attributes):
        self.count += 1
        name = f"v{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, value, dtype=np.int64):
        self.count += 1
        array = numpy_helper.from_array(np.asarray(value, dtype), f"c{self.count}")
        if self.rng.random() < 0.5:
            return self.node("Constant", [], value=array)
        self.constants.append(array)
        return array.name

    def size(self, x, axis):
        """[1]: one size of x; some are the network's results, too."""
        made = self.size_in_a_form(x, axis)
        if self.rng.random() < 0.3:
            self.outputs.append(made)
        return made

    def size_in_a_form(self, x, axis):
        """One of the forms that exporters write."""
        form = self.pick("gather", "slice", "computed slice", "ends", "gather 2-D", "cast")
        if form == "ends":
            return self.node("Shape", [x], start=axis, end=axis + 1)
        shape = self.node("Shape", [x])
        if form == "slice":
            return self.node("Slice", [shape, self.constant([axis]), self.constant([axis + 1]), self.constant([0])])
        if form == "computed slice":
            end = self.node("Mul", [self.constant([axis + 1]), self.constant([1])])
            return self.node("Slice", [shape, self.constant([axis]), end])
        if form == "gather 2-D":
            column = self.node("Unsqueeze", [shape, self.constant([1])])
            return self.node("Reshape", [self.node("Gather", [column, self.constant([axis])], axis=0), self.constant([-1])])
        one = self.node("Gather", [shape, self.constant(axis)], axis=0)
        if form == "cast":  # as floats, which sizes are exactly
            one = self.node("Cast", [self.node("Cast", [one], to=TensorProto.FLOAT)], to=TensorProto.INT64)
        return self.node("Unsqueeze", [one, self.constant([0])])

    def whole_shape(self, x, rank):
        if self.rng.random() < 0.3:
            return self.node("Shape", [x])
        return self.node("Concat", [self.size(x, axis) for axis in range(rank)], axis=0)


def groups(net, x, shape):
    """GroupNorm, as exporters write it: to three axes and back."""
    there = net.node("Reshape", [x, net.constant([0, 2, -1])])
    ones, zeros = net.constant(np.ones(2), np.float32), net.constant(np.zeros(2), np.float32)
    back = net.node("Reshape", [net.node("InstanceNormalization", [there, ones, zeros]), net.whole_shape(x, 4)])
    return back, shape


def shuffled(net, x, shape):
    """Channels in two groups, exchanged: sizes divided by numbers."""
    half = net.node("Div", [net.size(x, 1), net.constant([2])])
    five = net.node("Concat", [net.size(x, 0), net.constant([2]), half, net.size(x, 2), net.size(x, 3)], axis=0)
    turned = net.node("Transpose", [net.node("Reshape", [x, five])], perm=[0, 2, 1, 3, 4])
    return net.node("Reshape", [turned, net.whole_shape(x, 4)]), shape


def padded(net, x, shape):
    """PyTorch's F.pad: its list, filled up with zeros, in pairs, reversed and transposed."""
    pads = [int(n) for n in net.rng.integers(0, 3, 4)]
    zeros = net.node("ConstantOfShape", [net.constant([4])], value=numpy_helper.from_array(np.array([0], np.int64)))
    pairs = net.node("Reshape", [net.node("Concat", [net.constant(pads), zeros], axis=0), net.constant([-1, 2])])
    last = net.constant([-1])
    reverse = net.node("Slice", [pairs, last, net.constant([-(2**63) + 1]), net.constant([0]), last])
    flat = net.node("Reshape", [net.node("Transpose", [reverse], perm=[1, 0]), net.constant([-1])])
    made = net.node("Pad", [x, net.node("Cast", [flat], to=TensorProto.INT64)])
    return made, [*shape[:2], shape[2] + pads[2] + pads[3], shape[3] + pads[0] + pads[1]]


def cut(net, x, shape):
    """The first half of an axis, rounded up."""
    axis = net.pick(2, 3)
    end = net.node("Div", [net.node("Add", [net.size(x, axis), net.constant([1])]), net.constant([2])])
    shape = list(shape)
    shape[axis] = (shape[axis] + 1) // 2
    return net.node("Slice", [x, net.constant([0]), end, net.constant([axis])]), shape


def resized(net, x, shape):
    """To twice the size, by sizes that are computed."""
    twice = net.node("Mul", [net.node("Slice", [net.node("Shape", [x]), net.constant([2]), net.constant([4])]), net.constant([2])])
    sizes = net.node("Concat", [net.node("Shape", [x], start=0, end=2), twice], axis=0)
    return net.node("Resize", [x, "", "", sizes], mode="nearest"), [*shape[:2], 2 * shape[2], 2 * shape[3]]


def expanded(net, x, shape):
    """torch.expand: -1 is the size that there is."""
    least = net.node("ReduceMean", [x, net.constant([2, 3])])
    wanted = net.node("Concat", [net.constant([-1, -1]), net.size(x, 2), net.size(x, 3)], axis=0)
    ones = net.node("ConstantOfShape", [net.constant([4])], value=numpy_helper.from_array(np.array([1], np.int64)))
    is_open = net.node("Equal", [wanted, net.node("Mul", [ones, net.constant(-1)])])
    return net.node("Expand", [least, net.node("Where", [is_open, ones, wanted])]), shape


def positions(net, x, shape):
    """A table's rows for the positions that there are, added."""
    count = net.node("Squeeze", [net.size(x, 3), net.constant([0])])
    at = net.node("Range", [net.constant(0), count, net.constant(1)])
    table = net.constant(net.rng.normal(size=(200, 1)), np.float32)
    rows = net.node("Reshape", [net.node("Gather", [table, at]), net.node("Concat", [net.constant([1, 1]), net.constant([1]), net.constant([-1])], axis=0)])
    return net.node("Add", [x, rows]), shape


PARTS = [groups, shuffled, padded, cut, resized, expanded, positions]


def drawn(rng):
    net = Net(rng)
    shape = [int(rng.integers(1, 4)), 2 * int(rng.integers(1, 3)), int(rng.integers(2, 6)), int(rng.integers(2, 6))]
    given, x = list(shape), "x"
    for _ in range(rng.integers(2, 6)):
        if max(shape) < 40:
            x, shape = net.pick(*PARTS)(net, x, shape)
            net.outputs.append(x)
    outputs = [helper.make_empty_tensor_value_info(name) for name in net.outputs]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)]
    graph = helper.make_graph(net.nodes, "sizes", inputs, outputs, net.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9), given


def test_sizes_that_networks_compute(facts, tmp_path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for seed in range(2000 if SLOW else 120):
        model, given = drawn(np.random.default_rng(seed))
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        made = session.run(names, {"x": np.zeros(given, np.float32)})
        found = facts("shapes", model, tmp_path / "m.onnx")
        assert found == {name: list(y.shape) for name, y in zip(names, made, strict=True)}, (seed, found)
