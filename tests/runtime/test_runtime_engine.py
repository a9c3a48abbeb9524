"""crumb run --engine runtime: what the graph computes, in the same bits whatever the machine, the threads and the batch."""

import os

import numpy as np
import onnx
import pytest

# Of ../shared/onnx: those whose operators the runtime has.
MODELS = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "tfc_1w1a_multithreshold", "mnist_conv_float", "residual_block_clean",
          "espcn_subpixel_float", "espcn_subpixel_quant", "espcn_nn_resize_float", "espcn_nn_resize_quant"]  # fmt: skip

# Float networks that cancel: what is known of half of their outputs, as a share of the greatest.
KNOWN_TO = {"mnist_conv_float": 0.05, "espcn_subpixel_float": 0.05, "espcn_subpixel_quant": 0.02,
            "espcn_nn_resize_float": 0.02, "espcn_nn_resize_quant": 0.02}  # fmt: skip


@pytest.fixture
def run(crumb, tmp_path):
    def by(model, x, *flags, **environment):
        np.save(tmp_path / "x.npy", x)
        out = tmp_path / "y.npy"
        out.unlink(missing_ok=True)
        crumb("run", model, "--input", tmp_path / "x.npy", "--output", out, *flags, env={**os.environ, **environment})
        return np.load(out)

    return by


def sample(path, batch=None):
    value = onnx.load(path).graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    if batch:
        shape[0] = batch
    rng = np.random.default_rng(4)
    is_image = "espcn" in path.stem
    return (rng.random(shape) if is_image else rng.normal(size=shape)).astype(np.float32)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "tfc_1w1a_multithreshold"])  # no bounds for its TopK
def test_it_computes_what_the_graph_says(run, shared, check_computes, tmp_path, name):
    path = shared / "onnx" / f"{name}.onnx"
    x = sample(path)
    check_computes(path, x, run(path, x, "--engine", "runtime"), tmp_path, KNOWN_TO.get(name, 1e-3))


def test_thresholds_give_the_digits_that_qonnx_gave(run, shared):
    folder = shared / "onnx"
    x = np.load(folder / "tfc_1w1a_multithreshold.input.npy")
    want = np.load(folder / "tfc_1w1a_multithreshold.expected_output.npy")
    assert (run(folder / "tfc_1w1a_multithreshold.onnx", x, "--engine", "runtime").ravel() == want).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_everywhere(run, shared, name):
    path = shared / "onnx" / f"{name}.onnx"
    x = sample(path)
    expected = run(path, x, "--engine", "runtime", "--threads", 1)
    for threads in (2, 3, 7):
        assert run(path, x, "--engine", "runtime", "--threads", threads).tobytes() == expected.tobytes()
    assert run(path, x, "--engine", "runtime", CRUMB_ISA="portable").tobytes() == expected.tobytes()
    both = run(path, np.concatenate([x, x * 0.5, x]), "--engine", "runtime")
    assert both[: len(expected)].tobytes() == expected.tobytes() and both[-len(expected):].tobytes() == expected.tobytes()


def test_libtorch_is_not_needed(run, shared):
    path = shared / "onnx" / "mnist_conv_float.onnx"
    assert run(path, sample(path), "--engine", "runtime", CRUMB_ENGINE="/no/such/library.so").size == 10


def test_what_it_has_no_kernel_for_is_refused_by_name(crumb, tmp_path):
    from onnx import TensorProto as T
    from onnx import helper as h

    nodes = [h.make_node("Sinh", ["x"], ["a"], "first"), h.make_node("Relu", ["a"], ["b"], "second"),
             h.make_node("Det", ["b"], ["y"], "third")]  # fmt: skip
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [2, 2])],
                         [h.make_tensor_value_info("y", T.FLOAT, [])])  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))
    files = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    said = crumb("run", tmp_path / "m.onnx", *files, "--engine", "runtime", status=1).stderr
    assert "node 'first' (Sinh)" in said and "node 'third' (Det)" in said and "second" not in said
    assert not (tmp_path / "y.npy").exists()


def test_what_it_has_is_printed(crumb):
    listed = crumb("run", "--operators").stdout.split()
    assert listed == sorted(listed) and len(set(listed)) == len(listed) > 100
    assert {"Attention", "Conv", "MatMul", "RotaryEmbedding", "Softmax", "qonnx.custom_op.general::Quant"} <= set(listed)


@pytest.mark.parametrize("flags, word", [(("--accumulator", 16), "--accumulator"), (("--device", "cuda"), "--device")])
def test_flags_that_need_libtorch_are_refused(crumb, shared, tmp_path, flags, word):
    path = shared / "onnx" / "mnist_conv_float.onnx"
    np.save(tmp_path / "x.npy", sample(path))
    files = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert word in crumb("run", path, *files, "--engine", "runtime", *flags, status=2).stderr
