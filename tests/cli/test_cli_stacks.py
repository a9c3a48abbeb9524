"""Stacks of matrices (experts, MatMul's constants of more than two axes): one scale for each output of each matrix, from
`crumb quantize` through every reader of what it writes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats" / "crumb_file"))
import crumb_reader  # noqa: E402

SPECS = ["int4", "int4:tensor", "int4:group=16", "int3:block=16x8", "uint4:group=16:zero=int", "nvfp4", "mxfp4", "palette3", "int4h:group=16"]


def decibels(x, y):
    return 10 * np.log10(np.square(x, dtype=np.float64).sum() / np.square(x.astype(np.float64) - y).sum())


@pytest.fixture
def experts(tmp_path):
    """experts.onnx: x [8, 4, 64] times a stack [8, 64, 48] whose outputs are of many sizes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weight = rng.standard_normal((8, 64, 48)) * np.exp(rng.standard_normal((8, 1, 48)) * 1.5)
    bias = rng.standard_normal(48)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["xw"], name="experts"), helper.make_node("Add", ["xw", "b"], ["y"], name="add")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 4, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 4, 48])],
        [numpy_helper.from_array(weight.astype(np.float32), "w"), numpy_helper.from_array(bias.astype(np.float32), "b")])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "experts.onnx")
    np.save(tmp_path / "b.npy", bias)
    np.save(tmp_path / "x.npy", rng.standard_normal((8, 4, 64)).astype(np.float32))
    return tmp_path


def weight_of(path):
    """The stack of a packed network in the order that its MatMul takes it."""
    import onnx

    [transpose] = [n for n in onnx.load_from_string(crumb_reader.read_files(path)["graph.onnx"]).graph.node if n.op_type == "Transpose"]
    return crumb_reader.read(path)["w"].transpose(list(transpose.attribute[0].ints))


@pytest.mark.parametrize("spec", SPECS)
def test_a_network_of_experts(crumb, experts, spec):
    import onnx
    from onnx import numpy_helper

    crumb("quantize", experts / "experts.onnx", "-o", experts / "q.crumb", "--weights", spec)
    assert "sound" in crumb("verify", experts / "q.crumb").stdout
    [entry] = [t for t in crumb_reader.read_header(experts / "q.crumb")["tensors"] if t["name"] == "w"]
    assert entry["shape"] == [8, 48, 64] and entry["encoding"]["stack"] == 1
    found = weight_of(experts / "q.crumb")
    weight = numpy_helper.to_array(next(t for t in onnx.load(experts / "experts.onnx").graph.initializer if t.name == "w"))
    for i in range(8):  # each as a network of its own matrix is quantized
        model = onnx.load(experts / "experts.onnx")
        del model.graph.initializer[0]
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(weight[i]), "w"))
        onnx.save(model, experts / "one.onnx")
        crumb("quantize", experts / "one.onnx", "-o", experts / "one.crumb", "--weights", spec)
        np.testing.assert_array_equal(found[i], weight_of(experts / "one.crumb"))
    runs = json.loads(crumb("inspect", experts / "q.crumb", "--json").stdout)["graph"]["runtime"]
    assert runs["packed_weights"] == ["w"] and runs["decoded_weights"] == []
    assert "in memory: 1 weight stays packed" in crumb("inspect", experts / "q.crumb").stdout


def test_what_a_scale_for_each_output_is_worth(crumb, experts):
    """The numbers of the stack as one matrix of all experts' outputs lose as much, and no less."""
    import onnx
    from onnx import numpy_helper

    report = json.loads(crumb("quantize", experts / "experts.onnx", "-o", experts / "q.crumb", "--weights", "int4", "--json").stdout)
    [line] = [t for t in report["tensors"] if t["name"] == "w"]
    assert (line["output_axis"], line["stack_axes"]) == (2, 1)
    weight = numpy_helper.to_array(next(t for t in onnx.load(experts / "experts.onnx").graph.initializer if t.name == "w"))
    found = decibels(weight, weight_of(experts / "q.crumb"))
    assert found == pytest.approx(line["sqnr_db"], abs=0.01) and found > 17


@pytest.mark.parametrize("engine", ["runtime", "libtorch"])
@pytest.mark.parametrize("spec", ["int4", "int4:group=16", "palette3"])
def test_both_engines_run_them(crumb, experts, spec, engine, request):
    if engine == "libtorch":
        request.getfixturevalue("engine")
    crumb("quantize", experts / "experts.onnx", "-o", experts / "q.crumb", "--weights", spec)
    crumb("run", experts / "q.crumb", "--input", experts / "x.npy", "--output", experts / "y.npy", "--engine", engine)
    x = np.load(experts / "x.npy").astype(np.float64)
    y = x @ weight_of(experts / "q.crumb").astype(np.float64) + np.load(experts / "b.npy")
    np.testing.assert_allclose(np.load(experts / "y.npy"), y, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("to", ["qcdq", "qonnx"])
@pytest.mark.parametrize("spec", ["int4", "int4:tensor", "int4:group=16", "uint4:group=16:zero=int"])
def test_others_run_what_is_exported(crumb, experts, spec, to):
    import onnxruntime

    crumb("quantize", experts / "experts.onnx", "-o", experts / "q.crumb", "--weights", spec)
    crumb("export", experts / "q.crumb", "-o", experts / "float.onnx", "--to", "float")
    crumb("export", experts / "q.crumb", "-o", experts / "out.onnx", "--to", to)
    x = np.load(experts / "x.npy")
    wanted = onnxruntime.InferenceSession(experts / "float.onnx").run(None, {"x": x})[0]
    if to == "qcdq":
        made = onnxruntime.InferenceSession(experts / "out.onnx").run(None, {"x": x})[0]
    else:
        modelwrapper = pytest.importorskip("qonnx.core.modelwrapper")
        execution = pytest.importorskip("qonnx.core.onnx_exec")
        model = modelwrapper.ModelWrapper(str(experts / "out.onnx"))
        made = execution.execute_onnx(model, {model.graph.input[0].name: x})[model.graph.output[0].name]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)
    if to == "qonnx":  # codes are found again
        assert "in memory: 1 weight stays packed" in crumb("inspect", experts / "out.onnx").stdout


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "block=" not in spec] + ["int3:block=8x16"])
def test_experts_that_lie_inputs_first(crumb, tmp_path, spec):
    """gpt-oss and Llama 4 have them [experts, in, out]: the scales are those of outputs all the same."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(2)
    up, down = (rng.standard_normal(shape).astype(np.float32) for shape in [(3, 64, 96), (3, 96, 64)])
    names = [f"model.layers.0.mlp.experts.{name}_proj" for name in ("gate_up", "down")]
    (tmp_path / "moe").mkdir()
    save_file(dict(zip(names, [up, down], strict=True)), tmp_path / "moe" / "model.safetensors")
    (tmp_path / "moe" / "config.json").write_text(json.dumps({"model_type": "gpt_oss", "hidden_size": 64, "architectures": ["GptOssForCausalLM"]}))
    save_file({f"{name}.{i}.weight": np.ascontiguousarray(stack[i].T) for name, stack in zip(names, [up, down], strict=True) for i in range(3)},
              tmp_path / "alone.safetensors")  # fmt: skip
    crumb("quantize", tmp_path / "moe", "-o", tmp_path / "m.crumb", "--weights", spec)
    crumb("quantize", tmp_path / "alone.safetensors", "-o", tmp_path / "alone.crumb", "--weights", spec)
    assert "sound" in crumb("verify", tmp_path / "m.crumb").stdout
    found, alone = crumb_reader.read(tmp_path / "m.crumb"), crumb_reader.read(tmp_path / "alone.crumb")
    for name in names:
        for i in range(3):
            np.testing.assert_array_equal(found[name][i].T, alone[f"{name}.{i}.weight"])


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("layout", ["rows", "tiles"])
def test_a_checkpoint_of_experts(crumb, tmp_path, spec, layout):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(1)
    stack = (rng.standard_normal((6, 48, 64)) * np.exp(rng.standard_normal((6, 48, 1)))).astype(np.float32)
    name = "model.layers.0.mlp.experts.down_proj"
    save_file({name: stack, "kernel.weight": rng.standard_normal((16, 8, 64)).astype(np.float32)}, tmp_path / "m.safetensors")
    save_file({f"{i}.weight": stack[i].copy() for i in range(6)}, tmp_path / "alone.safetensors")
    for file in ("m", "alone"):
        crumb("quantize", tmp_path / f"{file}.safetensors", "-o", tmp_path / f"{file}.crumb", "--weights", spec, "--layout", layout)
        assert "sound" in crumb("verify", tmp_path / f"{file}.crumb").stdout
    found, alone = crumb_reader.read(tmp_path / "m.crumb"), crumb_reader.read(tmp_path / "alone.crumb")
    for i in range(6):
        np.testing.assert_array_equal(found[name][i], alone[f"{i}.weight"])
    header = crumb_reader.read_header(tmp_path / "m.crumb")
    assert [t["name"] for t in header["tensors"] if "stack" in t["encoding"]] == [name]  # kernels keep their meaning
    crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "hf", "--to", "hf")
    from safetensors.numpy import load_file

    np.testing.assert_array_equal(load_file(next((tmp_path / "hf").glob("*.safetensors")))[name], found[name])
