"""crumb inspect of graphs: text, JSON and SVG."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import onnx
import pytest

SVG = "{http://www.w3.org/2000/svg}"
MODELS = [
    "TFC_2W2A",
    "TFC_1W1A",
    "espcn_subpixel_quant",
    "floatquant_fp8_e4m3",
    "residual_block_clean",
    "sdp_float",
    "tfc_1w1a_multithreshold",
]


def rectangles(root):
    """x, y, width, height of every box."""
    boxes = []
    for group in root.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        boxes.append(tuple(float(box.get(key)) for key in ("x", "y", "width", "height")))
    return boxes


def check_svg(text):
    root = ElementTree.fromstring(text)
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = rectangles(root)
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for u, v, s, t in boxes[:i]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y, "boxes overlap"
    for path in root.iter(f"{SVG}path"):
        assert re.fullmatch(r"[MVCLhz0-9. \-]+", path.get("d"))
    assert not re.search(r"(href|url\((?!#)|<script|<image|@import)", text)
    return root, boxes


@pytest.mark.parametrize("name", MODELS)
def test_svg_is_sound_and_the_same_every_time(crumb, networks, tmp_path, name):
    for out in ("a.svg", "b.svg"):
        crumb("inspect", networks / f"{name}.onnx", "--svg", tmp_path / out)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    root, boxes = check_svg(text)
    assert len(boxes) >= 3
    shown = " ".join(element.text or "" for element in root.iter(f"{SVG}text"))
    assert f"{name}.onnx" in shown


def test_quantizers_are_coloured_by_their_bits(crumb, networks, tmp_path):
    crumb("inspect", networks / "espcn_subpixel_quant.onnx", "--svg", tmp_path / "a.svg")
    root, _ = check_svg((tmp_path / "a.svg").read_text())
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert shown.count("Quant uint4") == 3 and shown.count("Quant uint8") == 1
    assert "4 bits" in shown and "8 bits" in shown and "2 bits" not in shown
    strokes = [path.get("stroke") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "3"]
    legend = {"4 bits": "#6b8e23", "8 bits": "#2471a3"}
    assert strokes.count(legend["4 bits"]) == 1 + 3  # the legend's own line
    assert strokes.count(legend["8 bits"]) == 1 + 1


def test_text_of_a_quantized_network(crumb, networks):
    text = crumb("inspect", networks / "TFC_2W2A.onnx").stdout
    assert "ONNX graph" in text and "31 nodes" in text
    assert text.count("-> Quant int2 ->") == 4
    assert "MatMul_20  [784, 64] Quant int2" in text
    assert "● input  0" in text and "● output  90" in text


def test_branches_have_lanes(crumb, networks):
    text = crumb("inspect", networks / "residual_block_clean.onnx").stdout
    assert "├─╮\n│ ● Conv" in text and "├─╯\n" in text


def test_json(crumb, networks):
    found = json.loads(crumb("inspect", networks / "TFC_2W2A.onnx", "--json").stdout)
    assert found["kind"] == "onnx graph"
    assert found["inputs"] == [{"name": "0", "type": "float", "shape": [1, 1, 28, 28], "data_type": "FLOAT32"}]
    assert found["operators"]["MatMul"] == 4 and found["operators"]["qonnx.custom_op.general::Quant"] == 8
    assert len(found["nodes"]) == 31 and len(found["tensors"]) == 49
    quantized = [n["outputs"][0]["data_type"] for n in found["nodes"] if n["op"] == "Quant"]
    assert quantized == ["INT2"] * 8


DIGITS = Path(__file__).parents[2] / "examples/digits/digits_cnn.crumb"


def memory(crumb, model, *arguments):
    found = json.loads(crumb("inspect", model, "--memory", "--json", *arguments).stdout)
    return found.get("memory") or found["graph"]["memory"]


def most_at_a_time(values, steps):
    """What lies in the arena, by its definition; 64 bytes are the least that a value takes up."""
    return max(
        sum(-(-v["bytes"] // 64) * 64 for v in values if v["offset"] is not None and v["first_step"] <= s <= v["last_step"])
        for s in range(steps)
    )


@pytest.mark.parametrize("name", [DIGITS, "TFC_1W1A", "TFC_2W2A", "espcn_subpixel_quant", "residual_block_clean", "sdp_float"])
def test_memory_of_a_run(crumb, networks, name):
    found = memory(crumb, name if isinstance(name, Path) else networks / f"{name}.onnx")
    values, steps = found["values"], found["steps"]
    assert found["most_at_a_time"] == most_at_a_time(values, steps) <= found["arena"]
    assert found["one_after_the_other"] == sum(v["bytes"] for v in values)
    assert found["outliving"] == sum(v["bytes"] for v in values if v["offset"] is None) > 0
    inside = [v for v in values if v["offset"] is not None]
    for i, a in enumerate(inside):
        assert a["offset"] % 64 == 0 and a["offset"] + a["bytes"] <= found["arena"] and a["last_step"] < steps
        for b in inside[:i]:
            meet = a["first_step"] <= b["last_step"] and b["first_step"] <= a["last_step"]
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            assert apart or not meet, (a, b)


def test_memory_grows_with_the_shape_and_is_what_bench_counts(crumb):
    one, four = memory(crumb, DIGITS), memory(crumb, DIGITS, "--shape", "input=4x1x8x8")
    assert 3 * one["arena"] < four["arena"] <= 4 * one["arena"]
    counted = json.loads(crumb("bench", DIGITS, "--batch", 4, "--seconds", 0.05, "--json").stdout)
    assert counted["arena"] == four["arena"]
    text = crumb("inspect", DIGITS, "--memory").stdout
    assert re.search(r"memory of a run, beside the file: \d+ steps; .* in an arena of [\d.]+ kB and outputs of 40 bytes", text)
    assert re.search(r"^\S+ +40 +\d+ +\d+ +output$", text, re.MULTILINE)  # ten floats


def test_memory_is_for_graphs_that_the_runtime_takes(crumb, tmp_path):
    ends = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3]),
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None])]  # fmt: skip
    graph = onnx.helper.make_graph([onnx.helper.make_node("Unique", ["x"], ["y"], name="where")], "g", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    said = crumb("inspect", tmp_path / "m.onnx", "--memory", status=1).stderr
    assert "m.onnx" in said and "--memory" in said and "'where' (Unique)" in said
    np.save(tmp_path / "x.npy", np.zeros((4, 4), np.float32))
    assert "--memory" in crumb("inspect", tmp_path / "x.npy", "--memory", status=2).stderr


def test_tensors_only_shows_a_checkpoint(crumb, networks):
    path = networks / "TFC_2W2A.onnx"
    found = json.loads(crumb("inspect", path, "--tensors-only", "--json").stdout)
    assert found["kind"] != "onnx graph" and found["tensors"]
    assert crumb("inspect", path, "--tensors-only", "--svg", "x.svg", status=2).stderr.startswith("crumb: --graph, --svg")
    assert "tensor" in crumb("inspect", path, "--tensors").stdout


def test_the_picture_never_replaces_the_model(crumb, networks, tmp_path):
    copy = tmp_path / "m.onnx"
    copy.write_bytes((networks / "TFC_2W2A.onnx").read_bytes())
    crumb("inspect", copy, "--svg", copy, status=2)
    assert copy.read_bytes() == (networks / "TFC_2W2A.onnx").read_bytes()


def test_names_are_text_in_pictures(crumb, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    evil = "</text><script>alert('1')</script>\x1b[31m\"&"
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"], name=evil),
            helper.make_node("Neg", ["x"], ["b"], name="ü" * 200),
            helper.make_node("Add", ["a", "b"], [evil], name="add"),
        ],
        evil,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["<b>", 3])],
        [helper.make_tensor_value_info(evil, TensorProto.FLOAT, None)],
    )
    path = tmp_path / "evil.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    text = crumb("inspect", path, "--svg", tmp_path / "evil.svg").stdout
    assert "\x1b" not in text
    root, _ = check_svg((tmp_path / "evil.svg").read_text())
    assert not list(root.iter(f"{SVG}script"))
    crumb("inspect", path, "--json")


def test_a_qcdq_chain_is_one_label(crumb, tmp_path):
    onnx = pytest.importorskip("onnx")
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    constants = [
        numpy_helper.from_array(np.float32(0.5), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
        numpy_helper.from_array(np.int8(-7), "low"),
        numpy_helper.from_array(np.int8(7), "high"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Clip", ["q", "low", "high"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        constants,
    )
    path = tmp_path / "qcdq.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    assert "│ -> QDQ int4 -> [1, 3]\n" in crumb("inspect", path).stdout


def test_thousands_of_nodes_are_a_page_and_all_of_them_on_request(crumb, tmp_path):
    """Boxes hold chains: every node has a second consumer, so that there are as many boxes."""
    from onnx import TensorProto, helper

    count = 3000
    nodes = [helper.make_node("Add", [f"v{i}", f"v{max(0, i - 1)}"], [f"v{i + 1}"], name=f"n{i}") for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", f"v{count}")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    page = crumb("inspect", tmp_path / "m.onnx").stdout.splitlines()
    assert len(page) < 100 and "--all" in page[-1]
    everything = crumb("inspect", tmp_path / "m.onnx", "--all").stdout.splitlines()
    assert len(everything) > 240 and everything[: len(page) - 1] == page[:-1]
    hidden = int(page[-1].split("and ")[1].split(" ")[0])
    assert len(everything) == len(page) - 1 + hidden
