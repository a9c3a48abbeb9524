"""What does not fit into memory is said before the work: of networks whose weights are holes in a file."""

import resource

import onnx
import pytest
from onnx import TensorProto, helper

ROWS, COLUMNS, COUNT = 8192, 16384, 3  # 512 MiB each


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    nodes, weights, value = [], [], "x"
    for i in range(COUNT):
        rows, columns = (ROWS, COLUMNS) if i % 2 == 0 else (COLUMNS, ROWS)
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[rows, columns], data_location=TensorProto.EXTERNAL)
        for key, number in [("location", "weights.bin"), ("offset", i * ROWS * COLUMNS * 4), ("length", ROWS * COLUMNS * 4)]:
            weight.external_data.add(key=key, value=str(number))
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"v{i}"]))
        value = f"v{i}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in [("x", ROWS), (value, COLUMNS)]]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    (folder / "large.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(COUNT * ROWS * COLUMNS * 4)
    assert onnx.load(folder / "large.onnx", load_external_data=False).graph.node
    return folder / "large.onnx"


@pytest.mark.parametrize("form", [[], ["--to", "qcdq"]])
@pytest.mark.parametrize("kind", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_what_does_not_fit_is_said_before_the_work(crumb, large, tmp_path, form, kind):
    needed = COUNT * ROWS * COLUMNS + ROWS * COLUMNS * 4  # codes of a byte each, and the largest weight

    def limit():
        resource.setrlimit(getattr(resource, kind), (700_000_000, 700_000_000))

    out = tmp_path / ("out.onnx" if form else "out.crumb")
    done = crumb("quantize", large, "-o", out, "--weights", "int8:channel", *form, status=1, preexec_fn=limit, timeout=60)
    assert f"takes at least {needed} bytes of memory" in done.stderr and "can be had" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []
    crumb("quantize", large, "-o", out, "--weights", "int8:channel", *form, "--dry-run", preexec_fn=limit, timeout=60)
