"""A graph whose types and shapes contradict each other: what goes on with it says so, in ONNX's own words."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

NOTE = "note: the graph's types and shapes contradict each other"


def saved(path, rows):
    """x [1, 3] through a matrix of `rows` rows."""
    x, y = (h.make_tensor_value_info(name, T.FLOAT, shape) for name, shape in [("x", [1, 3]), ("y", None)])
    weights = nh.from_array(np.ones((rows, 5), np.float32), "w")
    graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"], name="dense")], "g", [x], [y], [weights])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), path)
    return path


def verbs(path, out):
    """The verbs that go on with a graph whose shapes they do not need at every node."""
    return {
        "cost": ["cost", path],
        "verify": ["verify", path, "--accumulator"],
        "passes": ["passes", path, "-o", out / "p.onnx", "tidy"],
        "quantize": ["quantize", path, "--weights", "int4:tensor", "-o", out / "q.onnx"],
        "export": ["export", path, "--to", "float", "-o", out / "e.onnx"],
    }


@pytest.mark.parametrize("verb", ["cost", "verify", "passes", "quantize", "export"])
@pytest.mark.parametrize("rows", [3, 4])
def test_each_verb_says_it(crumb, tmp_path, verb, rows):
    command = verbs(saved(tmp_path / "m.onnx", rows), tmp_path)[verb]
    done = crumb(*command, status=None)
    assert (NOTE in done.stderr) == (rows == 4), done.stderr
    assert done.stderr.count("node name: dense") == (rows == 4)
    if done.returncode == 0:
        said = json.loads(crumb(*command, "--json").stdout)["notes"]
        said = [text for text in said if "samples (--data)" not in text]  # quantize's word on weights alone
        assert [NOTE.removeprefix("note: ") in text for text in said] == [True] * (rows == 4), said


def test_run_says_it_before_it_fails(crumb, engine, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    path = saved(tmp_path / "m.onnx", 4)
    done = crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1)
    assert done.stderr.index(NOTE) < done.stderr.index("crumb: ")


def test_networks_that_agree_with_themselves_get_no_note(crumb, networks):
    for path in sorted(networks.glob("*.onnx")):
        assert NOTE not in crumb("cost", path, status=None).stderr, path


def test_a_subgraph_that_is_not_kept_is_no_contradiction(crumb, tmp_path):
    """An If, whose branches a graph here does not hold."""
    x, y = (h.make_tensor_value_info(name, T.FLOAT, [1, 3]) for name in ("x", "y"))
    inner = h.make_graph([h.make_node("Relu", ["x"], ["b"])], "branch", [], [h.make_tensor_value_info("b", T.FLOAT, [1, 3])])
    nodes = [h.make_node("If", ["c"], ["i"], name="choice", then_branch=inner, else_branch=inner), h.make_node("Relu", ["i"], ["y"], name="last")]
    graph = h.make_graph(nodes, "g", [x], [y], [nh.from_array(np.array(True), "c")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    said = crumb("cost", tmp_path / "m.onnx", status=None).stderr
    assert NOTE not in said and "does not contain a graph" not in said


@pytest.mark.parametrize("domain", ["com.microsoft", "my.own"])
@pytest.mark.parametrize("verb", ["quantize", "export"])
def test_operators_of_other_domains_are_named_before_anything_is_written(crumb, tmp_path, domain, verb):
    x, y = (h.make_tensor_value_info(name, T.FLOAT, [1, 3]) for name in ("x", "y"))
    weights = nh.from_array(np.ones((3, 3), np.float32), "w")
    nodes = [h.make_node("MatMul", ["x", "w"], ["m"], name="dense"), h.make_node("Inverse", ["m"], ["y"], name="inverse", domain=domain)]
    graph = h.make_graph(nodes, "g", [x], [y], [weights])
    path = tmp_path / "m.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(domain, 1)], ir_version=8), path)
    flags = ["--weights", "int8:channel", "-o"] if verb == "quantize" else ["--to", "qonnx", "-o"]
    done = crumb(verb, path, *flags, tmp_path / "q.onnx", status=1)
    assert f"'{domain}'" in done.stderr and "Inverse" in done.stderr
    if verb == "quantize":
        assert f"node 'inverse' ({domain}::Inverse)" in done.stderr.splitlines()[0]
    assert not (tmp_path / "q.onnx").exists()
    if verb == "quantize":
        done = crumb(verb, path, *flags, tmp_path / "d.onnx", "--to", "qcdq", status=None)
        assert f"'{domain}'" in done.stderr and done.returncode in (0, 1)
