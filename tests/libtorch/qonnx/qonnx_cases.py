"""Case folders for QONNX's operators, with outputs from the qonnx package's own implementation."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

registry = pytest.importorskip("qonnx.custom_op.registry", reason="qonnx is not installed")

GENERAL = "qonnx.custom_op.general"
CHANNELS_LAST = "qonnx.custom_op.channels_last"
MODES = ["ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "half_down"]

# Ties and their neighbours, where float32 loses halves and ones, both zeros, what is not finite, subnormals.
SPECIAL = np.array(
    [
        *(k / 4 for k in range(-40, 41)),
        *(0.49999997, -0.49999997, 8388607.5, -8388607.5, 8388609.0, -8388609.0, 4194303.5, 16777217.0, 2147483648.0),
        *(1e30, -1e30, 3.4028235e38, -3.4028235e38, 1.1754944e-38, -1.1754944e-38, 1e-45, -1e-45, 3e-40),
        *(np.inf, -np.inf, np.nan, 0.0, -0.0),
    ],
    np.float32,
)


def values(rng, shape, spread=3.0):
    """Normal numbers of several sizes, with special ones among them."""
    x = rng.standard_normal(shape) * spread * 2.0 ** rng.integers(-3, 4, shape)
    x = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x)
    return x.astype(np.float32)


def f32(number):
    return np.array(number, np.float32)


def oracle(node, version, inputs, output_shape=None, annotation=None):
    """What the qonnx package computes for the node."""
    node = onnx.NodeProto.FromString(node.SerializeToString())
    graph = onnx.GraphProto()
    if annotation:
        note = graph.quantization_annotation.add(tensor_name=node.input[0])
        note.quant_parameter_tensor_names.add(key="finn_datatype", value=annotation)
    context = {name: np.array(value) for name, value in zip(node.input, inputs)}
    context[node.output[0]] = np.zeros(inputs[0].shape if output_shape is None else output_shape, np.float32)
    with np.errstate(all="ignore"):
        registry.getCustomOp(node, onnx_opset_version=version).execute_node(context, graph)
    return np.asarray(context[node.output[0]]).astype(np.float32)


def make_node(op, count, domain=GENERAL, **attributes):
    return helper.make_node(op, [f"in{i}" for i in range(count)], ["out"], domain=domain, **attributes)


def write_case(folder: Path, node, sets, version=1, opset=13):
    """A folder for one node; sets: (inputs, expected output) pairs of one element type each."""
    folder.mkdir(parents=True)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in zip(node.input, sets[0][0])
    ]
    output = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    imports = [helper.make_opsetid("", opset)]
    if node.domain and version is not None:
        imports.append(helper.make_opsetid(node.domain, version))
    graph = helper.make_graph([node], "case", inputs, [output])
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    write_sets(folder, [(ins, [out]) for ins, out in sets])


def write_sets(folder: Path, sets):
    for number, (inputs, outputs) in enumerate(sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for kind, arrays in (("input", inputs), ("output", outputs)):
            for i, array in enumerate(arrays):
                tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)))
                (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
