"""ONNX files that are read: old and odd ones are taken, broken ones are refused by name, none leaves its folder."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

pytestmark = pytest.mark.usefixtures("engine")


def value(name, shape=(2,), kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs=None, outputs=None, initializers=(), opset=13, **options):
    graph = h.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")], initializers)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8, **options)


@pytest.fixture
def refused(crumb, tmp_path):
    """What `crumb lint` or any reader says of a model; lint reads without executing."""

    def run(proto, name="m.onnx"):
        path = tmp_path / name
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
        x = tmp_path / "x.npy"
        np.save(x, np.zeros(2, np.float32))
        done = crumb("run", path, "--input", x, "--output", tmp_path / "y.npy", status=1)
        assert not (tmp_path / "y.npy").exists()
        assert "m.onnx" in done.stderr
        return done.stderr

    return run


def test_broken_graphs_are_named(refused):
    add = h.make_node("Add", ["x", "b"], ["y"], name="add")
    assert "takes the value 'b'" in refused(model([add]))
    loop = [h.make_node("Add", ["x", "y"], ["z"], name="one"), h.make_node("Neg", ["z"], ["y"], name="two")]
    assert "cycle through node 'one'" in refused(model(loop))
    twice = [h.make_node("Neg", ["x"], ["y"], name="one"), h.make_node("Abs", ["x"], ["y"], name="two")]
    assert "two producers" in refused(model(twice))
    b = nh.from_array(np.zeros(2, np.float32), "b")
    assert "two initializers are called 'b'" in refused(model([add], initializers=[b, b]))
    assert "two inputs are called 'x'" in refused(model([add], inputs=[value("x"), value("x")], initializers=[b]))
    far = h.make_node("LayerNormalization", ["x", "b"], ["y"], name="far", axis=2**62)
    assert "tensors have at most 64 axes" in refused(model([far], initializers=[b], opset=17))
    assert "operator set 1000" in refused(model([add], initializers=[b], opset=1000))
    assert "not an ONNX model" in refused(b"\x08\x07nonsense")
    whole = model([add], initializers=[b]).SerializeToString()
    for cut in range(1, len(whole), 7):
        refused(whole[:cut])


def test_broken_tensors_are_named(refused):
    add = h.make_node("Add", ["x", "b"], ["y"], name="add")

    def with_tensor(**fields):
        b = T(name="b", data_type=fields.pop("data_type", T.FLOAT), dims=fields.pop("dims", [2]))
        for name, content in fields.items():
            getattr(b, name).extend(content) if isinstance(content, list) else setattr(b, name, content)
        return model([add], initializers=[b])

    assert "raw_data holds 4 bytes, expected 8" in refused(with_tensor(raw_data=b"1234"))
    assert "float_data holds 1 number, expected 2" in refused(with_tensor(float_data=[1.0]))
    assert "more than 2^63 elements" in refused(with_tensor(dims=[1 << 40, 1 << 40]))
    assert "take more than 2^64 bits" in refused(with_tensor(dims=[1 << 62]))
    assert "holds the size -3" in refused(with_tensor(dims=[-3]))
    assert "number 99" in refused(with_tensor(data_type=99))
    assert "expected numbers" in refused(with_tensor(data_type=T.STRING))


@pytest.mark.parametrize("where", ["../outside.bin", "/etc/passwd", "a/../../outside.bin", "", "link.bin", "missing.bin"])
def test_external_data_stay_in_the_folder(refused, tmp_path, where):
    (tmp_path.parent / "outside.bin").write_bytes(b"\0" * 8)
    if not (tmp_path / "link.bin").exists():
        (tmp_path / "link.bin").symlink_to(tmp_path.parent / "outside.bin")
    b = T(name="b", data_type=T.FLOAT, dims=[2], data_location=T.EXTERNAL)
    b.external_data.add(key="location", value=where)
    text = refused(model([h.make_node("Add", ["x", "b"], ["y"])], initializers=[b]))
    assert "missing.bin" in text if where == "missing.bin" else "inside the model's folder" in text


def test_external_data_are_read_at_their_place(crumb, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"\7" * 16 + np.array([1.5, -2], np.float32).tobytes())
    b = T(name="b", data_type=T.FLOAT, dims=[2], data_location=T.EXTERNAL)
    for key, text in (("location", "./data.bin"), ("offset", "16"), ("length", "8")):
        b.external_data.add(key=key, value=text)
    (tmp_path / "m.onnx").write_bytes(
        model([h.make_node("Add", ["x", "b"], ["y"])], initializers=[b]).SerializeToString()
    )
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    crumb("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").tolist() == [2.5, 0]


def test_every_unsupported_operator_is_in_one_error(refused):
    nodes = [
        h.make_node("Frobnicate", ["x"], ["a"], name="one", domain="my.domain"),
        h.make_node("Neg", ["a"], ["b"], name="two"),
        h.make_node("StringNormalizer", ["b"], ["y"], name="three"),
    ]
    text = refused(model(nodes))
    assert "node 'one' (my.domain::Frobnicate)" in text and "node 'three' (StringNormalizer)" in text
    assert "'two'" not in text


def test_odd_files_are_taken(crumb, tmp_path):
    """Initializers among the inputs, nodes without names and out of order, no opset import of a custom domain."""
    b = nh.from_array(np.array([1, 2], np.float32), "b")
    nodes = [h.make_node("Neg", ["a"], ["y"]), h.make_node("Add", ["x", "b"], ["a"])]
    proto = model(nodes, inputs=[value("x"), value("b")], initializers=[b])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    crumb("run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").tolist() == [-2, -4]
