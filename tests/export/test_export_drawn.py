"""Drawn networks of the forms that go wrong between tools: Resize and Upsample of every operator set, pools that round up,
outputs and inputs that are left out. Both engines compute what onnxruntime does, and every file that is written runs in the
tool that it is for."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

warnings.filterwarnings("ignore")
pytestmark = pytest.mark.usefixtures("engine")

CHANNELS, HEIGHT, WIDTH = 3, 7, 10


class Branches:
    """A network that takes an image through a convolution, and from there through one node after the other, each of which
    makes an output of its own."""

    def __init__(self, opset, seed):
        self.opset, self.draw = opset, np.random.default_rng(seed)
        self.nodes, self.constants, self.outputs, self.said = [], [], [], []

    def const(self, values, dtype=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, op, inputs=(), outputs=("",), alone=True, **attributes):
        """A node behind the convolution; "" among the outputs is left out but for the first. False where onnxruntime refuses it."""
        name = f"y{len(self.outputs)}"
        node = helper.make_node(op, ["a", *inputs], [name, *outputs[1:]], name=f"n{len(self.outputs)}", **attributes)
        if alone and not self.runs(node, name):
            return False
        self.nodes.append(node)
        self.outputs.append(name)
        self.said.append(f"{op} {attributes} {[numpy_helper.to_array(c) for c in self.constants if c.name in inputs]}")
        return True

    def runs(self, node, output):
        model = self.model_of([node], [output], "a", [1, 4, HEIGHT, WIDTH])
        try:
            run(model, {"a": np.zeros((1, 4, HEIGHT, WIDTH), np.float32)})
        except Exception:
            return False
        return True

    def model_of(self, nodes, outputs, name, shape):
        graph = helper.make_graph(nodes, "drawn", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
                                  [helper.make_empty_tensor_value_info(o) for o in outputs], self.constants)
        for value in graph.output:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8 if self.opset < 22 else 10)

    def model(self):
        weight = self.draw.normal(size=(4, CHANNELS, 3, 3)).astype(np.float32)
        first = helper.make_node("Conv", ["x", self.const(weight)], ["a"], name="conv", pads=[1] * 4)
        return self.model_of([first, *self.nodes], self.outputs, "x", [1, CHANNELS, HEIGHT, WIDTH])


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def by_qonnx(path, x):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    model = ModelWrapper(str(path))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Output shapes disagree")
        found = execute_onnx(model, {model.graph.input[0].name: x})
    return [found[value.name] for value in model.graph.output]


def check(found, want, said, tolerance):
    for one, other, what in zip(found, want, said, strict=True):
        assert one.shape == other.shape, what
        scale = max(1e-6, np.abs(other).max(initial=0))
        assert np.abs(one - other).max(initial=0) <= tolerance * scale, (what, np.abs(one - other).max() / scale)


def check_everywhere(crumb, branches, folder):
    model, x = branches.model(), branches.draw.normal(size=(1, CHANNELS, HEIGHT, WIDTH)).astype(np.float32)
    path = folder / "drawn.onnx"
    onnx.save(model, path)
    np.save(folder / "x.npy", x)
    want = run(model, {"x": x})

    for engine in ("runtime", "libtorch"):
        out = folder / engine
        crumb("run", path, "--engine", engine, "--input", folder / "x.npy", "--output-dir", out)
        # Products of the convolution are added up in another order, and places are counted in single precision.
        check([np.load(out / f"{name}.npy") for name in branches.outputs], want, branches.said, 2e-5)
    for opset in (13, 21):
        out = folder / f"{opset}.onnx"
        if opset < branches.opset:
            continue
        crumb("export", path, "-o", out, "--to", "float", "--opset", opset)
        check(run(str(out), {"x": x}), want, branches.said, 2e-5)
    qonnx, qcdq = folder / "q.onnx", folder / "d.onnx"
    crumb("quantize", path, "-o", qonnx, "--weights", "int8:channel")
    crumb("quantize", path, "-o", qcdq, "--weights", "int8:channel", "--to", "qcdq")
    exact = run(str(qcdq), {"x": x})
    check(by_qonnx(qonnx, x), exact, branches.said, 2e-5)
    # A weight is off by half a step of its channel's 127, and there are 27 of them behind a value; values are rarely near 4 sums.
    check(exact, want, branches.said, 0.05)


def draw_resize(branches, mode):
    """One Resize or Upsample of the operator set, onnxruntime's own limits aside."""
    draw, opset = branches.draw, branches.opset
    smaller, larger = [0.6, 0.5, 0.7, 0.83, 1 / 3], [1, 2, 1.5, 2.4, 1.7, 3]
    factors = [float(draw.choice(smaller if draw.random() < 0.5 and opset > 9 else larger)) for _ in range(2)]
    scales = np.array([1, 1, *factors], np.float32)
    if opset < 9:
        return branches.add("Upsample", mode=mode, scales=[float(s) for s in scales])
    if opset < 11:
        return branches.add("Upsample" if opset == 9 else "Resize", [branches.const(scales)], mode=mode)
    attributes = {"mode": mode}
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    coordinates += ["half_pixel_symmetric"] if opset >= 19 else []
    attributes["coordinate_transformation_mode"] = str(draw.choice(coordinates))
    by_size = draw.random() < 0.5
    if attributes["coordinate_transformation_mode"] == "align_corners":
        by_size = True  # by scales that are fractions onnxruntime and ONNX's own cases differ
    if mode == "nearest":
        attributes["nearest_mode"] = str(draw.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    if mode == "cubic" and draw.random() < 0.5:
        attributes["cubic_coeff_a"] = -0.5
    if mode == "cubic" and draw.random() < 0.3:
        attributes["exclude_outside"] = 1
    empty = "" if opset >= 13 and draw.random() < 0.5 else branches.const([])
    if not by_size:
        return branches.add("Resize", [empty, branches.const(scales)], **attributes)
    sizes = [1, 4, int(draw.integers(1, 18)), int(draw.integers(1, 18))]
    if opset >= 18 and draw.random() < 0.4:
        sizes, attributes["axes"] = sizes[2:], [2, 3]
        if draw.random() < 0.5:
            policy = str(draw.choice(["not_larger", "not_smaller"]))
            if attributes["coordinate_transformation_mode"] != "align_corners":  # the common scale is a fraction, too
                attributes["keep_aspect_ratio_policy"] = policy
    return branches.add("Resize", [empty, empty, branches.const(sizes, np.int64)], **attributes)


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 18, 19, 21])
def test_resizes_of_every_operator_set(crumb, tmp_path, opset):
    branches = Branches(opset, opset)
    modes = ["nearest", "linear"] + (["cubic"] if opset >= 11 else [])
    taken = sum(draw_resize(branches, str(branches.draw.choice(modes))) for _ in range(16))
    assert taken >= 8
    check_everywhere(crumb, branches, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_more_resizes(crumb, tmp_path, seed):
    opset = (7, 9, 10, 11, 13, 18, 19, 21)[seed % 8]
    branches = Branches(opset, seed)
    modes = ["nearest", "linear"] + (["cubic"] if opset >= 11 else [])
    for _ in range(16):
        draw_resize(branches, str(branches.draw.choice(modes)))
    check_everywhere(crumb, branches, tmp_path)


@pytest.mark.parametrize(("opset", "seed"), [(10, 1), (11, 2), (13, 3), (19, 4), (21, 5)])
def test_pools_that_round_up_and_outputs_that_are_left_out(crumb, tmp_path, opset, seed):
    branches, draw = Branches(opset, seed), np.random.default_rng(seed)
    taken = 0
    for _ in range(12):
        kernel = [int(k) for k in draw.integers(1, 5, 2)]
        attributes = {"kernel_shape": kernel, "strides": [int(s) for s in draw.integers(1, 5, 2)],
                      "ceil_mode": int(draw.random() < 0.8), "pads": [int(draw.integers(0, k)) for k in kernel * 2]}
        op = str(draw.choice(["MaxPool", "AveragePool"]))
        if op == "MaxPool" and draw.random() < 0.5:
            attributes["dilations"] = [int(d) for d in draw.integers(1, 3, 2)]
        taken += branches.add(op, outputs=["", ""] if op == "MaxPool" and draw.random() < 0.5 else [""], **attributes)
    assert taken >= 6
    branches.add("Dropout", outputs=["", ""])
    if opset >= 11:
        branches.add("Clip", ["", branches.const(0.5)])
        branches.add("Split" if opset < 13 else "Relu", alone=True, **({"axis": 1} if opset < 13 else {}))
    check_everywhere(crumb, branches, tmp_path)


def test_resize_10_takes_the_element_that_onnx_says(crumb, tmp_path):
    """ONNX's case resize_downsample_scales_nearest of operator set 10."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    scales = numpy_helper.from_array(np.array([1, 1, 0.6, 0.6], np.float32), "s")
    graph = helper.make_graph([helper.make_node("Resize", ["x", "s"], ["y"], mode="nearest")], "g",
                              [helper.make_tensor_value_info("x", 1, [1, 1, 2, 4])], [helper.make_tensor_value_info("y", 1, None)], [scales])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=6), path)
    np.save(tmp_path / "x.npy", x)
    for engine in ("runtime", "libtorch"):
        crumb("run", path, "--engine", engine, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
        assert np.load(tmp_path / "y.npy").tolist() == [[[[1, 3]]]]
