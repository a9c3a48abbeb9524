"""crumb lint on graphs that say nonsense: findings or one error, never a crash, whatever the profile."""

import random

import onnx
import pytest
from lint_models import CHANNELS_LAST, QONNX, average, bipolar, conv, dense, quantized_bias, residual, thresholds
from onnx import TensorProto, helper

OPERATORS = [("", op) for op in ["Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul", "Relu", "Reshape", "Transpose",
             "Concat", "Pad", "Resize", "Clip", "AveragePool", "MaxPool", "BatchNormalization", "QuantizeLinear",
             "DequantizeLinear", "Cast", "Constant", "Identity", "If"]]  # fmt: skip
OPERATORS += [(QONNX, op) for op in ["Quant", "IntQuant", "BipolarQuant", "FloatQuant", "Trunc", "MultiThreshold"]]
OPERATORS += [(CHANNELS_LAST, op) for op in ["Conv", "MaxPool", "BatchNormalization"]]


def check(crumb, path, tmp_path):
    for profile in ("qonnx", "finn", "hls4ml", "onnxruntime"):
        for fix in ([], ["--fix", tmp_path / "fixed.onnx"]):
            done = crumb("lint", path, "--for", profile, *fix, status=None)
            assert done.returncode in (0, 1), done.stderr
            assert "Sanitizer" not in done.stderr
            if done.stderr:
                assert done.stderr.startswith("crumb: ") and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 1), (1, 1), (2, 1), (3, 2), (1, 0)])
def test_nodes_with_too_few_inputs_and_outputs(crumb, tmp_path, inputs, outputs):
    nodes = []
    for i, (domain, op) in enumerate(OPERATORS):
        names = [["x", "w", "w"][k] for k in range(inputs)]
        nodes.append(helper.make_node(op, names, [f"v{i}_{k}" for k in range(outputs)], name=f"n{i}", domain=domain))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    for i, node in enumerate(nodes):
        y = helper.make_tensor_value_info(node.output[0] if node.output else "x", TensorProto.FLOAT, None)
        w = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(helper.make_graph([node], "g", [x], [y], [w]), opset_imports=imports, ir_version=8)
        path = tmp_path / f"{i}.onnx"
        path.write_bytes(model.SerializeToString())
        check_one(crumb, path, tmp_path, "finn" if i % 2 else "hls4ml")


def check_one(crumb, path, tmp_path, profile):
    done = crumb("lint", path, "--for", profile, "--fix", tmp_path / "fixed.onnx", status=None)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == "" or (done.stderr.startswith("crumb: ") and done.stderr.count("\n") == 1), done.stderr


@pytest.mark.parametrize("seed", range(12))
def test_damaged_models(crumb, tmp_path, seed):
    draw = random.Random(seed)
    nets = [dense(), conv(), conv("hls4ml", bias=quantized_bias), average(2), residual(0.25), bipolar(0.5), thresholds()]
    model = draw.choice(nets).model()
    for _ in range(3):
        node = draw.choice(model.graph.node)
        kind = draw.randrange(6)
        if kind == 0 and node.input:
            node.input.pop(draw.randrange(len(node.input)))
        elif kind == 1 and node.attribute:
            attribute = draw.choice(node.attribute)
            attribute.CopyFrom(helper.make_attribute(attribute.name, draw.choice([1.5, "x", [1, 2], -1])))
        elif kind == 2 and node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice([t.name for t in model.graph.initializer])
        elif kind == 3:
            node.op_type = draw.choice(OPERATORS)[1]
        elif kind == 4:
            tensor = draw.choice(model.graph.initializer)
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).reshape(-1), tensor.name))
        else:
            value = draw.choice([*model.graph.input, *model.graph.value_info])
            value.type.tensor_type.shape.dim.add().dim_value = draw.choice([0, 3, 2**40])
    path = tmp_path / "odd.onnx"
    path.write_bytes(model.SerializeToString())
    check(crumb, path, tmp_path)
