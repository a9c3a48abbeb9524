"""What docs/crumb_file.md says of graphs: a case for each rule, and `crumb verify` and the page's reader agree."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crumb_graph_reader  # noqa: E402
import crumb_reader  # noqa: E402
from crumb_builder import Part, layout, tensor  # noqa: E402


def network(edit=lambda model: None):
    """y = x * transpose(w) + b, w of codes and b kept as float32; the edit damages it."""
    graph = h.make_graph(
        [h.make_node("Transpose", ["w"], ["w_axes"], name="crumb.axes:w", perm=[1, 0]),
         h.make_node("MatMul", ["x", "w_axes"], ["product"], name="m"),
         h.make_node("Add", ["product", "b"], ["y"], name="a")],
        "g", [h.make_tensor_value_info("x", T.FLOAT, [2, 16]), h.make_tensor_value_info("w", T.FLOAT, [3, 16]),
              h.make_tensor_value_info("b", T.FLOAT, [3])],
        [h.make_tensor_value_info("y", T.FLOAT, [2, 3])])  # fmt: skip
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    h.set_model_props(model, {"crumb.inputs": "1", "author": "me"})
    edit(model)
    return model


def kept(name, shape, dtype="F32", content=None):
    bits = crumb_reader.BITS[crumb_reader.FLOATS[dtype]] if dtype in crumb_reader.FLOATS else 8 * np.dtype(crumb_reader.OTHERS[dtype]).itemsize
    return {"name": name, "dtype": dtype, "shape": shape, "data": Part(bytes(np.prod(shape) * bits // 8) if content is None else content)}


def packed(model, tensors=None, files=(), name="graph", version=2):
    tensors = [tensor("w", (3, 16), "int4", block=(1, 16)), kept("b", [3])] if tensors is None else tensors
    content = model if isinstance(model, bytes) else model.SerializeToString()
    files = [{"path": path, "data": Part(data)} for path, data in {"graph.onnx": content, **dict(files)}.items()]
    return layout({"format": "crumb", "model": name, "tensors": tensors, "files": files}, version=version)


def of(edit):
    return lambda **options: packed(network(edit), **options)


def beside(*more, edit=lambda model: None):
    """The network with more tensors than it takes."""
    return lambda **options: packed(network(edit), [tensor("w", (3, 16), "int4", block=(1, 16)), kept("b", [3]), *more], **options)


def inputs(*entries):
    def edit(model):
        del model.metadata_props[:]
        for key, value in entries:
            model.metadata_props.add(key=key, value=value)

    return of(edit)


def external(model):
    constant = model.graph.initializer.add(name="c", data_type=T.FLOAT, dims=[1], data_location=T.EXTERNAL)
    constant.external_data.add(key="location", value="c.bin")


def training(model):
    model.training_info.add()


def sparse(model):
    model.graph.sparse_initializer.add()


def renamed(**names):
    """Values of nodes by other names."""

    def edit(model):
        for node in model.graph.node:
            for values in (node.input, node.output):
                values[:] = [names.get(value, value) for value in values]

    return of(edit)


def typed(name, kind, shape):
    def edit(model):
        i = [value.name for value in model.graph.input].index(name)
        model.graph.input[i].CopyFrom(h.make_tensor_value_info(name, kind, shape))

    return of(edit)


def node(*values, name="n", **attributes):
    """One more node: its operator, inputs, outputs."""
    return of(lambda model: model.graph.node.append(h.make_node(*values, name=name, **attributes)))


def perm(value):
    def edit(model):
        del model.graph.node[0].attribute[:]
        if value is not None:
            model.graph.node[0].attribute.append(h.make_attribute("perm", value))

    return of(edit)


def initializer(*names):
    return of(lambda model: model.graph.initializer.extend(nh.from_array(np.float32([1]), name) for name in names))


SOUND = {
    "as it is": of(lambda model: None),
    "nodes in another order": of(lambda model: model.graph.node.sort(key=lambda node: node.op_type)),
    "other metadata": inputs(("crumb.inputs", "1"), ("a", ""), ("b", "")),
    "digits with zeros before them": inputs(("crumb.inputs", "001")),
    "an initializer": initializer("c"),
    "an axes node that names nothing": node("Transpose", ["x"], ["t"], name="crumb.axes:z", perm=[1, 0]),
    "an axes node of another tensor": node("Transpose", ["w"], ["t"], name="crumb.axes:b", perm=[1, 0]),
    "an axes node of a kept tensor": node("Transpose", ["b"], ["t"], name="crumb.axes:b", perm=[0]),
    "an axes node of a kept tensor without perm": node("Transpose", ["b"], ["t"], name="crumb.axes:b"),
    "an axes node that is no Transpose": node("Relu", ["w"], ["t"], name="crumb.axes:w"),
    "an axes node of the network's input": node("Transpose", ["x"], ["t"], name="crumb.axes:x"),
    "two axes nodes of a tensor": node("Transpose", ["w"], ["t"], name="crumb.axes:w", perm=[0, 1]),
    "an empty input": node("Clip", ["x", "", ""], ["t"]),
}  # fmt: skip
REFUSED = {
    "no ModelProto": lambda **options: packed(b"\xff\xff\xff", **options),
    "an empty one": lambda **options: packed(b"", **options),
    "graphs for training": of(training),
    "external data": of(external),
    "a sparse initializer": of(sparse),
    "no crumb.inputs": inputs(("author", "me")),
    "two crumb.inputs": inputs(("crumb.inputs", "1"), ("crumb.inputs", "1")),
    "two crumb.inputs that differ": inputs(("crumb.inputs", "1"), ("crumb.inputs", "2")),
    "another entry twice": inputs(("crumb.inputs", "1"), ("a", "1"), ("a", "2")),
    **{f"crumb.inputs {text!r}": inputs(("crumb.inputs", text)) for text in ("", "4", "0", "2", "-1", "+1", " 1", "1 ", "1.0", "0x1", "one", "18446744073709551617")},
    "a cycle": renamed(product="y", x="y"),
    "a node that feeds itself": node("Relu", ["t"], ["t"]),
    "a value that nothing makes": renamed(x="nothing"),
    "an output that nothing makes": of(lambda model: model.graph.output.add(name="nothing")),
    "a value made twice": node("Relu", ["x"], ["product"]),
    "an input made again": node("Relu", ["product"], ["x"]),
    "a tensor made again": node("Relu", ["product"], ["w"]),
    "two initializers of a name": initializer("c", "c"),
    "two inputs of a name": of(lambda model: model.graph.input.append(model.graph.input[1])),
    "an attribute twice": of(lambda model: model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])),
    "an input that is no tensor": lambda **options: packed(network(), [tensor("w", (3, 16), "int4", block=(1, 16))], **options),
    "a tensor of the network's own input": lambda **options: beside(kept("x", [2, 16]))(**options),
    "another type": typed("b", T.FLOAT16, [3]),
    "another shape": typed("b", T.FLOAT, [1, 3]),
    "another shape of codes": typed("w", T.FLOAT, [16, 3]),
    "a shape without a number": typed("b", T.FLOAT, ["n"]),
    "no shape": typed("b", T.FLOAT, None),
    "codes of another type": typed("w", T.INT8, [3, 16]),
    "perm missing": perm(None), "perm too short": perm([0]), "perm twice the same": perm([0, 0]), "perm beyond": perm([0, 2]),
    "perm a number": perm(1),
}  # fmt: skip


# What depends on whether the file is a checkpoint as well: sound in a file whose model is another than "graph", and in one
# whose model is that.
CHECKPOINT = {
    "a tensor that no input takes": (True, lambda **options: beside(kept("c", [1]))(**options)),
    "an encoded tensor that no input takes": (True, lambda **options: beside(tensor("c", (17, 40), "int4", layout="tiles"))(**options)),
    "a tensor that has the name of a value": (False, lambda **options: beside(kept("product", [1]))(**options)),
    "an initializer of a tensor's name": (False, initializer("b")),
    "a tensor of a type that ONNX lacks": (True, lambda **options: beside(kept("c", [8], "F6_E2M3"))(**options)),
    "a tensor that no input takes, and an input that is no tensor": (False, lambda **options: packed(network(), [
        tensor("w", (3, 16), "int4", block=(1, 16)), kept("c", [3])], **options)),
    "a tensor in place of crumb.inputs": (False, lambda **options: beside(kept("c", [1]), edit=lambda model: model.metadata_props.pop(0))(**options)),
}  # fmt: skip


def assert_agreed(crumb, path, cases, wanted):
    """`crumb verify` and the page's reader say of the files what is wanted."""
    wrong = []
    for name, content in cases:
        path.write_bytes(content)
        done = crumb("verify", path, status=None)
        ours = {0: "sound", 1: "refused"}.get(done.returncode, f"exit code {done.returncode}")
        try:
            crumb_graph_reader.read(path)
            page = "sound"
        except ValueError as error:
            page, done.stderr = "refused", f"{done.stderr}; the page: {error}"
        if (ours, page) != (wanted, wanted):
            wrong.append((name, ours, page, done.stderr[:300]))
    assert not wrong, wrong


@pytest.mark.parametrize("version, model", [(2, "graph"), (2, "BertModel"), (2, ""), (1, "graph")])
@pytest.mark.parametrize("wanted, cases", [("sound", SOUND), ("refused", REFUSED)])
def test_both_readers_agree_with_the_page(crumb, tmp_path, wanted, cases, version, model):
    made = [(name, make(version=version, name=model)) for name, make in cases.items()]
    assert_agreed(crumb, tmp_path / "net.crumb", made, wanted)


@pytest.mark.parametrize("version, model", [(2, "graph"), (2, "BertModel"), (2, ""), (1, "graph")])
def test_a_checkpoint_may_have_tensors_that_its_graph_does_not_take(crumb, tmp_path, version, model):
    for name, (beside_a_checkpoint, make) in CHECKPOINT.items():
        if version == 2 or "encoded" not in name:
            sound = beside_a_checkpoint and model != "graph"
            assert_agreed(crumb, tmp_path / "net.crumb", [(name, make(version=version, name=model))], "sound" if sound else "refused")


def test_a_checkpoint_has_other_files(crumb, tmp_path):
    content = packed(network(), files=[("config.json", b"{}"), ("vocab.txt", b"a")], name="BertModel")
    assert_agreed(crumb, tmp_path / "net.crumb", [("config.json", content)], "sound")


def test_the_constants_of_a_checkpoint_are_what_its_graph_takes(tmp_path):
    path = tmp_path / "net.crumb"
    path.write_bytes(beside(kept("c", [1]))(name="BertModel"))
    _, own, tensors = crumb_graph_reader.read(path)
    assert own == ["x"] and sorted(tensors) == ["b", "w"]


@pytest.mark.parametrize("model", ["BertModel", ""])
def test_only_a_graph_of_version_1_is_one(crumb, tmp_path, model):
    """There, `graph.onnx` beside another model is a file like any other, whatever it holds."""
    path = tmp_path / "net.crumb"
    for make in (SOUND["as it is"], REFUSED["an empty one"], REFUSED["a cycle"], REFUSED["another type"], beside(kept("c", [1]))):
        path.write_bytes(make(version=1, name=model))
        crumb("verify", path)
        assert "graph.onnx" in crumb_reader.read_files(path) and "b" in crumb_reader.read(path)
        with pytest.raises(ValueError, match="no graph"):
            crumb_graph_reader.read(path)
        path.write_bytes(make(version=1, name="graph"))
        crumb("verify", path, status=0 if make is SOUND["as it is"] else 1)


@pytest.mark.parametrize("dtype", [*crumb_graph_reader.TYPES, "F6_E2M3", "F6_E3M2"])
def test_a_kept_tensor_has_its_own_type(crumb, tmp_path, dtype):
    """Types that ONNX has are inputs as they are; those it lacks do not occur."""
    model = network()
    kind = crumb_graph_reader.TYPES.get(dtype, T.FLOAT)
    model.graph.input.append(h.make_tensor_value_info("k", kind, [8]))
    path = tmp_path / "net.crumb"
    content = packed(model, [tensor("w", (3, 16), "int4", block=(1, 16)), kept("b", [3]), kept("k", [8], dtype)])
    path.write_bytes(content)
    if dtype.startswith("F6_"):
        crumb("verify", path, status=1)
        with pytest.raises(ValueError, match="type"):
            crumb_graph_reader.read(path)
    else:
        crumb("verify", path)
        crumb_graph_reader.read(path)


def test_float16_is_fed_as_float16(crumb, tmp_path):
    """The structure, the tensors in their own types and the network's inputs give its outputs, in onnxruntime and in ONNX's
    own evaluator; as initializers, too. Widened, they are not what the graph takes."""
    ort = pytest.importorskip("onnxruntime")
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(1)
    table = rng.standard_normal((32, 32)).astype(np.float16)
    graph = h.make_graph(
        [h.make_node("MatMul", ["x", "table"], ["h"]), h.make_node("Cast", ["h"], ["y"], to=T.FLOAT)], "g",
        [h.make_tensor_value_info("x", T.FLOAT16, [2, 32])], [h.make_tensor_value_info("y", T.FLOAT, [2, 32])],
        [nh.from_array(table, "table")])  # fmt: skip
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    path = tmp_path / "net.crumb"
    crumb("passes", tmp_path / "net.onnx", "-o", path, "tidy")
    model, own, tensors = crumb_graph_reader.read(path)
    assert own == ["x"] and tensors["table"].dtype == np.float16 and tensors["table"].tobytes() == table.tobytes()
    x = rng.standard_normal((2, 32)).astype(np.float16)
    want = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"x": x})[0]
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x, **tensors})[0], want, atol=0.05)
    np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, {"x": x, **tensors})[0], want)
    with pytest.raises(Exception, match="float"):
        session.run(None, {"x": x, **crumb_reader.read(path)})
    del model.graph.input[1:]
    model.graph.initializer.add(name="table", data_type=T.FLOAT16, dims=[32, 32], raw_data=tensors["table"].tobytes())
    np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, {"x": x})[0], want)
