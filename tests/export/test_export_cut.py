"""Large constants are written to QCDQ part by part: onnxruntime has the numbers of the packed file, also where rows do not end at
whole bytes."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS = 1501, 1403  # more than two parts, odd both ways


@pytest.mark.parametrize("spec", ["int8:channel", "int4:channel", "uint4:channel:zero=int", "int4:tensor"])
def test_onnxruntime_has_the_numbers_of_the_packed_file(crumb, tmp_path, spec):
    draw = np.random.default_rng(9)
    weights = numpy_helper.from_array(draw.normal(size=(ROWS, COLUMNS)).astype(np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", ROWS), ("y", COLUMNS))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "n")], "g", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    crumb("quantize", tmp_path / "net.onnx", "-o", tmp_path / "w.crumb", "--weights", spec)
    crumb("export", tmp_path / "w.crumb", "-o", tmp_path / "q.onnx", "--to", "qcdq", "--opset", "21", "--native-types")
    crumb("export", tmp_path / "w.crumb", "-o", tmp_path / "float.onnx", "--to", "float")
    [wanted] = [numpy_helper.to_array(value) for value in onnx.load(tmp_path / "float.onnx").graph.initializer if list(value.dims) == [ROWS, COLUMNS]]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), options, providers=["CPUExecutionProvider"])
    # A row of one 1 gives a row of the matrix: sums of one number and zeros are exact.
    assert np.array_equal(session.run(None, {"x": np.eye(ROWS, dtype=np.float32)})[0], wanted)
