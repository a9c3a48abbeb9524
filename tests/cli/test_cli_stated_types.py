"""What a file states of its inner values moves nothing that crumb cost and accumulator configurations count.

The same networks, once as they are and once with types, shapes and annotations inside that lie.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph/facts"))
from onnx import TensorProto, helper  # noqa: E402
from range_makers import MAKERS  # noqa: E402
from range_networks import GENERAL, Batch  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
REFUSED = ["Compress", "Cast", "MultiThreshold", "QuantAvgPool2d"]  # as drawn, export does not write them
LIES = ["UINT1", "INT2", "BIPOLAR", "UINT4", "INT32", "TERNARY"]


def networks(seed, count, without=()):
    b = Batch(np.random.default_rng(seed), 13, "qonnx")
    fitting = [row for row, (_, forms, since) in MAKERS.items() if "qonnx" in forms and since <= 13 and row[1] not in without]
    for i in range(count):
        row = fitting[(seed + i) % len(fitting)]
        b.finish(row, MAKERS[row][0](b))
    return b.model()


def with_lies(model, rng, share=0.5, annotations=True):
    """Element types, shapes and annotations of what nodes make, at random."""
    lying = onnx.ModelProto()
    lying.CopyFrom(model)
    outputs = {output.name for output in model.graph.output}
    for name in [name for node in model.graph.node for name in node.output]:
        if name in outputs or rng.random() > share:
            continue
        shape = None if rng.random() < 0.3 else [int(n) for n in rng.integers(1, 9, rng.integers(1, 5))]
        elem = int(rng.choice([TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL]))
        lying.graph.value_info.append(helper.make_tensor_value_info(name, elem, shape))
        if annotations and rng.random() < 0.5:
            said = onnx.TensorAnnotation(tensor_name=name)
            said.quant_parameter_tensor_names.append(
                onnx.StringStringEntryProto(key="finn_datatype", value=str(rng.choice(LIES)))
            )
            lying.graph.quantization_annotation.append(said)
    return lying


def counted(crumb, model, path):
    onnx.save(model, path)
    made = json.loads(crumb("cost", path, "--json").stdout)
    for amounts in [made["total"], made["dense"], made["sparse"], *made["nodes"]]:
        for one in [amounts, amounts.get("dense", {}), amounts.get("sparse", {})]:
            one.pop("bops_qonnx", None)  # by qonnx's rules, which believe annotations
    made.pop("notes")
    return made


def test_cost_derives_what_it_counts(crumb, tmp_path):
    known = 0
    for seed in range(40 if SLOW else 3):
        model = networks(seed, 40, ["Compress"])  # how many results that has, only its input says
        plain = counted(crumb, model, tmp_path / "plain.onnx")
        assert counted(crumb, with_lies(model, np.random.default_rng(seed)), tmp_path / "lying.onnx") == plain
        known += sum(node["accumulator"] is not None for node in plain["nodes"])
    assert known > 60


def test_accumulator_configurations_derive_what_they_say(crumb, tmp_path):
    known = 0
    for seed in range(60 if SLOW else 4):
        model, rng = networks(100 + seed, 12, REFUSED), np.random.default_rng(seed)
        found = []
        for name, one in (("plain", model), ("lying", with_lies(model, rng, annotations=False))):
            path, config = tmp_path / f"{name}.onnx", tmp_path / f"{name}.json"
            onnx.save(one, path)
            done = crumb("export", path, "-o", tmp_path / "made.onnx", "--to", "qonnx", "--accumulator-config", config,
                         status=None)  # fmt: skip
            found.append(config.read_text() if done.returncode == 0 else done.stderr.replace(name, ""))
            config.unlink(missing_ok=True)
        assert found[0] == found[1]
        known += '"accum"' in found[0]
    assert known > 2


def test_what_an_operator_of_another_domain_makes_is_not_known_by_what_is_stated(crumb, tmp_path):
    b = Batch(np.random.default_rng(0), 13, "qonnx")
    foreign = b.node("Mystery", [b.quantized([2, 3], 0.5)], "com.example")
    made = b.node("MatMulInteger", [foreign, b.constant(np.ones((3, 4)), np.int8)])
    b.finish(None, b.node("Cast", [b.quantized([2], 0.5)], to=TensorProto.FLOAT))
    model = b.model()
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.value_info.append(helper.make_tensor_value_info(foreign, TensorProto.INT8, [2, 3]))
    model.graph.value_info.append(helper.make_tensor_value_info(made, TensorProto.INT32, [2, 4]))
    model.graph.output.append(helper.make_tensor_value_info(made, TensorProto.INT32, None))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    made = json.loads(crumb("cost", path, "--json").stdout)["nodes"]
    (node,) = [one for one in made if one["op"] == "MatMulInteger"]
    assert node["macs"] == 2 * 3 * 4  # shapes that nothing tells are the file's word
    assert node["accumulator"] is None and node["input_type"] == "FLOAT32"


def test_shapes_that_nothing_tells_make_no_accumulator(crumb, tmp_path):
    """Behind a node that nobody knows a sum over axes is as long as the file says, and so nothing is known of it."""
    b = Batch(np.random.default_rng(0), 13, "qonnx")
    foreign = b.node("Mystery", [b.quantized([2, 3], 0.5)], "com.example")
    quantized = b.node("Quant", [foreign, *(b.constant(v) for v in (0.5, 0, 4))], GENERAL, signed=1, narrow=0,
                       rounding_mode="ROUND")  # fmt: skip
    summed = b.node("ReduceSum", [quantized, b.ints(1)], keepdims=1)
    b.finish(None, b.node("Relu", [b.quantized([2], 0.5)]))
    model = b.model()
    w = next(node.input[1] for node in model.graph.node if node.name == "layer0")
    model.graph.node.append(helper.make_node("MatMul", [summed, w], ["y"], name="sums"))
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    for name, shape in ((foreign, [5, 2]), (quantized, [5, 2]), (summed, [5, 1])):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 2]))
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    nodes = {node["name"]: node for node in json.loads(crumb("cost", path, "--json").stdout)["nodes"]}
    assert nodes["layer0"]["accumulator"] and nodes["sums"]["macs"] == 5 * 2
    assert nodes["sums"]["accumulator"] is None


def test_what_is_said_of_inputs_is_used_and_printed_as_an_assumption(crumb, tmp_path):
    b = Batch(np.random.default_rng(0), 13, "qonnx")
    b.finish(("", "Relu"), b.node("Relu", [b.quantized([2, 3], 0.5)]))
    model = b.model()
    w = next(node.input[1] for node in model.graph.node if node.name == "layer0")
    model.graph.input.append(helper.make_tensor_value_info("said", TensorProto.FLOAT, [2, 1]))
    model.graph.node.append(helper.make_node("MatMul", ["said", w], ["assumed"], name="layer1"))
    model.graph.output.append(helper.make_tensor_value_info("assumed", TensorProto.FLOAT, None))
    said = onnx.TensorAnnotation(tensor_name="said")
    said.quant_parameter_tensor_names.append(onnx.StringStringEntryProto(key="finn_datatype", value="UINT4"))
    model.graph.quantization_annotation.append(said)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    nodes = {node["name"]: node for node in json.loads(crumb("cost", path, "--json").stdout)["nodes"]}
    assert [nodes[name]["accumulator"]["assumed"] for name in ("layer0", "layer1")] == [False, True]
    assert nodes["layer1"]["accumulator"]["exact"] == "INT5"
