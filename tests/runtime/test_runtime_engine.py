"""crumb run --engine runtime: what the graph computes, in the same bits whatever the machine, the threads and the batch."""

import os

import numpy as np
import onnx
import pytest

# Of the networks of others: those whose operators the runtime has.
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
def test_it_computes_what_the_graph_says(run, networks, check_computes, tmp_path, name):
    path = networks / f"{name}.onnx"
    x = sample(path)
    check_computes(path, x, run(path, x, "--engine", "runtime"), tmp_path, KNOWN_TO.get(name, 1e-3))


def quantizer_model(op, parameters, attributes, shape):
    constants = [onnx.numpy_helper.from_array(np.array(value, np.float32), f"p{i}") for i, value in enumerate(parameters)]
    names = ["x", *(constant.name for constant in constants)]
    node = onnx.helper.make_node(op, names, ["y"], domain="qonnx.custom_op.general", **attributes)
    value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("qonnx.custom_op.general", attributes and 1 or 2)]
    graph = onnx.helper.make_graph([node], "g", [value("x")], [value("y")], constants)
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("seed", range(24))
def test_quantizers_of_minifloats_and_truncations_have_libtorchs_bits(run, tmp_path, seed):
    rng = np.random.default_rng(seed)
    modes = ["ROUND", "FLOOR", "CEIL", "UP", "DOWN", "HALF_UP", "HALF_DOWN"]
    shape = [2, 5, 7]
    scale = np.exp2(rng.integers(-6, 3, (1, 5, 1))) * (1 if seed % 2 else rng.uniform(0.5, 1.5, (1, 5, 1)))
    mode = {"rounding_mode": modes[seed % len(modes)]}
    if seed % 3 == 0:
        exponent, mantissa = rng.integers(2, 6), rng.integers(0, 5)
        bias = 2.0 ** (exponent - 1) - 1
        parameters = [scale, exponent, mantissa, bias, rng.choice([np.inf, 1.5 * 2.0**bias])]
        model = quantizer_model("FloatQuant", parameters, {**mode, "saturation": 1}, shape)
    else:
        parameters = [scale if seed % 3 == 1 else scale[0, 0, 0], rng.integers(-3, 4), 8, 8 - rng.integers(0, 5)]
        model = quantizer_model("Trunc", parameters, mode, shape)
        if seed % 3 == 2:  # version 2: the output's scale
            steps = 2.0 ** rng.integers(0, 5)
            parameters = [*parameters[:3], parameters[0] * steps, 8 - np.log2(steps)]
            model = quantizer_model("Trunc", parameters, {**mode, "signed": int(rng.integers(0, 2)), "narrow": 0}, shape)
            model.opset_import[1].version = 2
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    x = (rng.normal(size=shape) * scale * rng.choice([4, 60])).astype(np.float32)
    x[0, 0, :3] = [0, np.float32(scale[0, 0, 0]) / 2, -np.float32(scale[0, 0, 0]) * 3 / 2]
    expected = run(path, x, "--engine", "libtorch")
    assert (run(path, x, "--engine", "runtime") + 0.0 == expected + 0.0).all() and len(np.unique(expected)) > 2


def test_thresholds_give_the_digits_that_qonnx_gives(run, networks):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    path = networks / "tfc_1w1a_multithreshold.onnx"
    x = np.kron(np.random.default_rng(6).integers(0, 256, (24, 1, 4, 4)), np.ones((7, 7))).astype(np.float32)
    model = ModelWrapper(str(path))
    want = [execute_onnx(model, {"global_in": image[None]})["global_out"].item() for image in x]
    assert len(set(want)) > 3
    assert run(path, x, "--engine", "runtime").ravel().tolist() == want


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_everywhere(run, networks, name):
    path = networks / f"{name}.onnx"
    x = sample(path)
    expected = run(path, x, "--engine", "runtime", "--threads", 1)
    for threads in (2, 3, 7):
        assert run(path, x, "--engine", "runtime", "--threads", threads).tobytes() == expected.tobytes()
    assert run(path, x, "--engine", "runtime", CRUMB_ISA="portable").tobytes() == expected.tobytes()
    both = run(path, np.concatenate([x, x * 0.5, x]), "--engine", "runtime")
    assert both[: len(expected)].tobytes() == expected.tobytes() and both[-len(expected):].tobytes() == expected.tobytes()


def test_libtorch_is_not_needed(run, networks):
    path = networks / "mnist_conv_float.onnx"
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
    assert {"Attention", "Conv", "MatMul", "RotaryEmbedding", "Softmax", "qonnx.custom_op.general::FloatQuant"} <= set(listed)


@pytest.mark.parametrize("flags, word", [(("--device", "cuda"), "--device")])
def test_flags_that_need_libtorch_are_refused(crumb, networks, tmp_path, flags, word):
    path = networks / "mnist_conv_float.onnx"
    np.save(tmp_path / "x.npy", sample(path))
    files = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert word in crumb("run", path, *files, "--engine", "runtime", *flags, status=2).stderr
