"""Networks in float16, bfloat16 and float64 quantize as float32 ones do; inputs and outputs keep their types; what is written runs
in onnxruntime and in qonnx."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

warnings.filterwarnings("ignore")
ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.usefixtures("engine")

TYPES = {"float16": (T.FLOAT16, np.float16), "bfloat16": (T.BFLOAT16, ml_dtypes.bfloat16), "float64": (T.DOUBLE, np.float64)}
FORMS = ["all", "ends", "weights", "mixed"]


def drawn(kind, form, seed):
    """A small network and the same in float32. `form`: all of the type; float32 at the ends, behind Casts; weights of the type
    behind Casts, the rest float32; or the first layer float32 and the others not."""
    draw = np.random.default_rng(seed)
    proto, dtype = TYPES[kind]
    features, hidden = int(draw.integers(3, 9)), int(draw.integers(4, 12))
    weights = {"w1": draw.normal(size=(4, 2, 3, 3)) * 0.3, "b1": draw.normal(size=4), "w2": draw.normal(size=(4 * features**2, hidden)) * 0.1,
               "s": draw.uniform(0.5, 2, size=hidden), "w3": draw.normal(size=(hidden, 3)), "b3": draw.normal(size=3)}
    weights = {name: value.astype(dtype) for name, value in weights.items()}

    def body(x, y, cast=lambda name: name):
        return [h.make_node("Conv", [x, cast("w1"), cast("b1")], ["c"], "conv", pads=[1] * 4), h.make_node("Relu", ["c"], ["r"], "relu"),
                h.make_node("Flatten", ["r"], ["f"], "flatten"), h.make_node("MatMul", ["f", cast("w2")], ["m"], "dense"),
                h.make_node("Mul", ["m", cast("s")], ["scaled"], "scale"), h.make_node("Tanh", ["scaled"], ["t"], "tanh"),
                h.make_node("Gemm", ["t", cast("w3"), cast("b3")], [y], "last")]  # fmt: skip

    def model(nodes, kind_of_ends, constants):
        ends = [h.make_tensor_value_info(n, kind_of_ends, s) for n, s in (("x", ["N", 2, features, features]), ("y", ["N", 3]))]
        graph = h.make_graph(nodes, "half", ends[:1], ends[1:], [nh.from_array(value, name) for name, value in constants.items()])
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)

    wide = model(body("x", "y"), T.FLOAT, {name: value.astype(np.float32) for name, value in weights.items()})
    cast = lambda a, b, to: h.make_node("Cast", [a], [b], f"cast_{b}", to=to)  # noqa: E731
    if form == "all":
        made = model(body("x", "y"), proto, weights)
    elif form == "ends":
        made = model([cast("x", "hx", proto), *body("hx", "hy"), cast("hy", "y", T.FLOAT)], T.FLOAT, weights)
    elif form == "weights":
        made = model([*(cast(n, f"{n}_wide", T.FLOAT) for n in weights), *body("x", "y", lambda n: f"{n}_wide")], T.FLOAT, weights)
    else:
        nodes = body("x", "hy")
        nodes[1].output[0] = "r32"
        nodes.insert(2, cast("r32", "r", proto))
        first = {n: weights[n].astype(np.float32) for n in ("w1", "b1")}
        made = model([*nodes, cast("hy", "y", T.FLOAT)], T.FLOAT, {**weights, **first})
    x = draw.normal(size=(8, 2, features, features)).astype(dtype if form == "all" else np.float32)
    return wide, made, x


def by_onnxruntime(model, x):
    session = onnxruntime.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def by_qonnx(path, x):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    model = ModelWrapper(str(path))
    return execute_onnx(model, {model.graph.input[0].name: x})[model.graph.output[0].name]


def quantizers(path, *ops):
    return sum(node.op_type in ops for node in onnx.load(path).graph.node)


def decibels(found, want):
    error = np.square(found.astype(np.float64) - want).sum()
    return 10 * np.log10(np.square(want).sum() / max(error, 1e-30))


CASES = [(kind, form) for kind in TYPES for form in FORMS if (kind, form) != ("bfloat16", "all")]  # .npy has no bfloat16


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_they_quantize_as_float32_ones_do(crumb, tmp_path, kind, form):
    wide, made, x = drawn(kind, form, len(kind) + FORMS.index(form))
    onnx.save(wide, tmp_path / "wide.onnx")
    onnx.save(made, tmp_path / "made.onnx")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "x32.npy", x.astype(np.float32))
    want = by_onnxruntime(wide, x.astype(np.float32))
    ends = T.FLOAT if form != "all" else TYPES[kind][0]
    ways = ((["--weights", "int8:channel"], "qonnx", ["Quant"]), (["--weights", "int8:channel"], "qcdq", ["DequantizeLinear"]),
            (["--scheme", "W8A8"], "qcdq", ["DequantizeLinear"]), (["--scheme", "W8A8"], "qonnx", ["Quant"]))  # fmt: skip
    half = (list(TYPES).index(kind) + FORMS.index(form)) % 2  # every type and every form takes each way
    for flags, to, ops in ways[half::2]:
        samples = ["--data", tmp_path / "x.npy"] if flags[1] == "W8A8" else []
        samples32 = ["--data", tmp_path / "x32.npy"] if samples else []
        done = crumb("quantize", tmp_path / "made.onnx", "-o", tmp_path / "q.onnx", *flags, *samples, "--to", to)
        assert f"in {TYPES[kind][0] and kind.replace('float64', 'double')}" in done.stderr
        crumb("quantize", tmp_path / "wide.onnx", "-o", tmp_path / "q32.onnx", *flags, *samples32, "--to", to)
        assert quantizers(tmp_path / "q.onnx", *ops) == quantizers(tmp_path / "q32.onnx", *ops) >= 3
        graph = onnx.load(tmp_path / "q.onnx").graph
        assert [v.type.tensor_type.elem_type for v in (graph.input[0], graph.output[0])] == [ends, ends]
        found = by_onnxruntime(str(tmp_path / "q.onnx"), x) if to == "qcdq" else by_qonnx(tmp_path / "q.onnx", x[:1])
        assert decibels(found, want[: len(found)]) > 25
    crumb("quantize", tmp_path / "made.onnx", "-o", tmp_path / "q.crumb", "--weights", "int8:channel")
    crumb("run", tmp_path / "q.crumb", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").dtype == x.dtype
    assert decibels(np.load(tmp_path / "y.npy"), want) > 25


@pytest.mark.parametrize("kind", TYPES)
def test_inputs_and_outputs_in_float32_on_request(crumb, tmp_path, kind):
    wide, made, x = drawn(kind, "all", 40)
    onnx.save(made, tmp_path / "made.onnx")
    crumb("quantize", tmp_path / "made.onnx", "-o", tmp_path / "q.onnx", "--weights", "int8:channel", "--to", "qcdq", "--float32-io")
    found = by_onnxruntime(str(tmp_path / "q.onnx"), x.astype(np.float32))
    assert found.dtype == np.float32 and decibels(found, by_onnxruntime(wide, x.astype(np.float32))) > 25
    assert "Cast" not in {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    crumb("quantize", tmp_path / "made.onnx", "-o", tmp_path / "k.onnx", "--weights", "int8:channel", "--to", "qcdq", "--float16-io")
    assert onnx.load(tmp_path / "k.onnx").graph.input[0].type.tensor_type.elem_type == TYPES[kind][0]
    crumb("quantize", tmp_path / "made.onnx", "-o", tmp_path / "b.onnx", "--weights", "int8:channel", "--float16-io", "--float32-io", status=2)


@pytest.mark.parametrize("kind", TYPES)
def test_the_pass_makes_float32_of_them(crumb, tmp_path, kind):
    wide, made, x = drawn(kind, "all", 50)
    onnx.save(made, tmp_path / "made.onnx")
    crumb("passes", tmp_path / "made.onnx", "to-float32", "-o", tmp_path / "p.onnx")
    np.testing.assert_allclose(by_onnxruntime(str(tmp_path / "p.onnx"), x.astype(np.float32)), by_onnxruntime(wide, x.astype(np.float32)), rtol=1e-5, atol=1e-5)
    crumb("passes", tmp_path / "made.onnx", "to-float32-keep-io", "-o", tmp_path / "k.onnx")
    assert onnx.load(tmp_path / "k.onnx").graph.input[0].type.tensor_type.elem_type == TYPES[kind][0]


def test_the_lowest_double_becomes_the_lowest_float(crumb, tmp_path):
    mask = nh.from_array(np.array([np.finfo(np.float64).min, 0.0]), "mask")
    ends = [h.make_tensor_value_info(name, T.DOUBLE, [2]) for name in ("x", "y")]
    graph = h.make_graph([h.make_node("Add", ["x", "mask"], ["y"], "add")], "g", ends[:1], ends[1:], [mask])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    crumb("passes", tmp_path / "m.onnx", "to-float32", "-o", tmp_path / "p.onnx")
    assert nh.to_array(onnx.load(tmp_path / "p.onnx").graph.initializer[0]).tolist() == [np.finfo(np.float32).min, 0]
