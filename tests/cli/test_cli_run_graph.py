"""crumb run: inputs by name, any batch, every output, and mistakes named."""

import shutil
import subprocess

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

pytestmark = pytest.mark.usefixtures("engine")

W = np.arange(12, dtype=np.float32).reshape(4, 3)


def save(path, nodes, inputs, outputs, **tensors):
    initializers = [nh.from_array(array, name) for name, array in tensors.items()]
    graph = h.make_graph(nodes, "g", inputs, outputs, initializers)
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString())
    return path


def value(name, *shape, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def dense(path, batch):
    nodes = [h.make_node("MatMul", ["x", "w"], ["m"]), h.make_node("Relu", ["m"], ["y"])]
    return save(path, nodes, [value("x", batch, 4)], [value("y", batch, 3)], w=W)


@pytest.fixture
def x(tmp_path):
    def make(*shape, dtype=np.float32):
        array = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
        np.save(tmp_path / "x.npy", array)
        return array

    return make


@pytest.mark.parametrize("batch", ["N", 1, 2, 5, 64])
@pytest.mark.parametrize("samples", [1, 5, 300])
def test_any_batch_runs(crumb, tmp_path, x, batch, samples):
    model, array = dense(tmp_path / "m.onnx", batch), x(samples, 4)
    crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    found = np.load(tmp_path / "y.npy")
    assert found.shape == (samples, 3)
    np.testing.assert_allclose(found, np.maximum(array @ W, 0), rtol=1e-5, atol=1e-5)


def test_all_tensors_of_all_pieces(crumb, tmp_path, x):
    model, array = dense(tmp_path / "m.onnx", 2), x(5, 4)
    crumb("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out", "--all-tensors")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["m.npy", "y.npy"]
    np.testing.assert_allclose(np.load(tmp_path / "out/m.npy"), array @ W, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine_name", ["runtime", "libtorch"])
@pytest.mark.parametrize("sizes", [(-1, "?", "?"), ("?", "?", "?"), ("?", -1, 7), (None, "?", "")])
def test_sizes_that_an_exporter_does_not_know_may_differ(crumb, tmp_path, x, engine_name, sizes):
    """PaddlePaddle's files say -1 and "?" for each of them."""
    model, array = save(tmp_path / "m.onnx", [h.make_node("Relu", ["x"], ["y"])], [value("x", *sizes)], [value("y", *sizes)]), x(3, 5, 7)
    crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--engine", engine_name)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.maximum(array, 0))


def test_another_mismatch_names_input_expected_and_found(crumb, tmp_path, x):
    model = dense(tmp_path / "m.onnx", 1)
    x(2, 5)
    error = crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1).stderr
    assert "input 'x': expected float [1, 4], found float [2, 5]" in error
    x(2, 4, dtype=np.float64)
    error = crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1).stderr
    assert "expected float [1, 4], found double [2, 4]" in error
    x(4)
    crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1)
    assert not (tmp_path / "y.npy").exists()


def test_inputs_and_outputs_by_name(crumb, tmp_path):
    nodes = [h.make_node("Sub", ["a", "b"], ["d"]), h.make_node("Add", ["a", "b"], ["s"])]
    model = save(tmp_path / "m.onnx", nodes, [value("a", 2), value("b", 2)], [value("d", 2), value("s", 2)])
    np.save(tmp_path / "one.npy", np.array([3, 4], np.float32))
    np.save(tmp_path / "two.npy", np.array([1, 1], np.float32))
    one, two = tmp_path / "one.npy", tmp_path / "two.npy"
    crumb("run", model, "--input", f"b={two}", "--input", one, "--output-dir", tmp_path / "out")
    assert np.load(tmp_path / "out/d.npy").tolist() == [2, 3] and np.load(tmp_path / "out/s.npy").tolist() == [4, 5]

    def wrong(*arguments):
        return crumb("run", model, *arguments, status=2).stderr

    assert "input 'b' is missing" in wrong("--input", one, "--output-dir", tmp_path / "o")
    assert "all are given" in wrong("--input", one, "--input", two, "--input", two, "--output-dir", tmp_path / "o")
    assert "twice" in wrong("--input", f"a={one}", "--input", f"a={two}", "--output-dir", tmp_path / "o")
    assert "has 2 outputs" in wrong("--input", one, "--input", two, "--output", tmp_path / "y.npy")
    assert "--output-dir" in wrong("--input", one, "--input", two)


def test_types_that_numpy_lacks_are_widened(crumb, tmp_path):
    nodes = [h.make_node("Cast", ["x"], ["y"], to=T.BFLOAT16)]
    model = save(tmp_path / "m.onnx", nodes, [value("x", 3)], [value("y", 3, kind=T.BFLOAT16)])
    np.save(tmp_path / "x.npy", np.array([1, 1.00390625, -3], np.float32))
    crumb("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    found = np.load(tmp_path / "y.npy")
    assert found.dtype == np.float32 and found.tolist() == [1, 1, -3]


def test_an_engine_that_is_absent_is_said(crumb, tmp_path, x, monkeypatch):
    model = dense(tmp_path / "m.onnx", 1)
    x(1, 4)
    monkeypatch.setenv("CRUMB_ENGINE", str(tmp_path / "none.so"))
    files = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"]
    error = crumb("run", model, *files, "--engine", "libtorch", status=1).stderr
    assert "LibTorch" in error and "none.so" in error
    assert not crumb("run", model, *files).stderr  # the runtime does not need it


def test_an_engine_of_another_build_is_refused(crumb, tmp_path, x, monkeypatch):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    (tmp_path / "other.c").write_text('const char* crumb_engine_interface() { return "older"; } void crumb_engine() {}')
    subprocess.run([compiler, "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so"], check=True)
    model = dense(tmp_path / "m.onnx", 1)
    x(1, 4)
    monkeypatch.setenv("CRUMB_ENGINE", str(tmp_path / "other.so"))
    files = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"]
    error = crumb("run", model, *files, "--engine", "libtorch", status=1).stderr
    assert "another version" in error and "other.so" in error
