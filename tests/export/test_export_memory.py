"""Memory of large networks: what is quantized and written without samples takes the largest matrix and 500 MB, whatever all of
them take together."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

ROOM = 500_000_000


def network(folder, width, layers, external=True):
    """A file of `layers` matrices of width x width."""
    draw = np.random.default_rng(1)
    row = draw.normal(size=(256, width)).astype(np.float32) * 0.01
    tensors, nodes, value = [], [], "x"
    with open(folder / "weights.bin", "wb") as data:
        for layer in range(layers):
            matrix = np.concatenate([row * (1 + (layer + block) / 16) for block in range(width // 256)])
            tensor = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width])
            if external:
                tensor.data_location = TensorProto.EXTERNAL
                for key, entry in (("location", "weights.bin"), ("offset", data.tell()), ("length", matrix.nbytes)):
                    tensor.external_data.add(key=key, value=str(entry))
                matrix.tofile(data)
            else:
                tensor.raw_data = matrix.tobytes()
            tensors.append(tensor)
            out = "y" if layer == layers - 1 else f"v{layer}"
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [out], f"n{layer}"))
            value = out
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], tensors)
    path = folder / "large.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString())
    return path


# The peak of a child alone: that of RUSAGE_CHILDREN is the largest of all children that there were.
MEASURED = "import json,resource,subprocess,sys; p=subprocess.run(sys.argv[1:]); print(json.dumps([p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))"


def peak(command):
    done = subprocess.run([sys.executable, "-c", MEASURED, *map(str, command)], capture_output=True, text=True, timeout=900)
    code, kilobytes = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return kilobytes * 1024


@pytest.mark.parametrize("external", [pytest.param(True, id="beside", marks=pytest.mark.slow), pytest.param(False, id="inside")])
def test_weights_alone_take_little_more_than_the_largest(crumb_bin, tmp_path, external):
    width, layers = 2048, 14  # 235 MB; a few copies of all are beyond the bound
    model = network(tmp_path, width, layers, external)
    bound = 4 * width * width + ROOM
    runs = {
        "q.onnx": ["int8:channel", "--to", "qonnx"],
        "d.onnx": ["int8:channel", "--to", "qcdq"],
        "d4.onnx": ["int4:group=128", "--to", "qcdq"],
        "p.crumb": ["int8:channel"],
    }
    for name, flags in runs.items():
        took = peak([crumb_bin, "quantize", model, "-o", tmp_path / name, "--weights", *flags])
        assert took < bound, (name, took)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    onnxruntime.InferenceSession(str(tmp_path / "d.onnx"), options, providers=["CPUExecutionProvider"])
    (tmp_path / "q.onnx").unlink()


@pytest.mark.slow
def test_more_than_two_gigabytes_have_their_data_beside_them(crumb, crumb_bin, tmp_path):
    width, layers = 8192, 9  # 2.4 GB
    model = network(tmp_path, width, layers)
    took = peak([crumb_bin, "quantize", model, "-o", tmp_path / "q.onnx", "--weights", "int8:channel"])
    assert took < 4 * width * width + ROOM + layers * width * width  # the codes stay
    assert (tmp_path / "q.onnx.data").stat().st_size >= 4 * width * width * layers
    onnx.load(tmp_path / "q.onnx", load_external_data=False)
    crumb("lint", tmp_path / "q.onnx", "--for", "qonnx")
