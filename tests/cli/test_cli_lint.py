"""crumb lint as a command: what it prints, its exit codes, files that are never overwritten, and networks of others."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

PROFILES = ["qonnx", "finn", "hls4ml", "onnxruntime"]


@pytest.fixture
def small(tmp_path):
    """A Relu with a name that no tool likes."""
    node = helper.make_node("Relu", ["x"], ["y"], name="1.relu")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    model = helper.make_model(helper.make_graph([node], "net", [x], [y]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 13)])  # fmt: skip
    path = tmp_path / "small.onnx"
    onnx.save(model, path)
    return path


def test_the_page_holds_the_table_of_rules(crumb, repo):
    page = (repo / "docs" / "lint.md").read_text()
    assert crumb("lint", "--rules").stdout.strip() in page


def test_rules_of_one_profile_are_some_of_them(crumb):
    every = crumb("lint", "--rules").stdout.splitlines()
    for profile in PROFILES:
        some = crumb("lint", "--rules", "--for", profile).stdout.splitlines()
        assert some[:2] == every[:2]
        assert some[2:] == [row for row in every[2:] if profile in row.split("|")[2]]
        assert len(some) > 5


def test_text_is_a_line_a_finding_and_a_count(crumb, small):
    done = crumb("lint", small, "--for", "hls4ml", status=1)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "node-name  '1.relu': its name does not begin with a letter  (fixable)",
        "1 finding, of which --fix OUT rewrites 1",
    ]


def test_findings_are_sorted(crumb, networks, tmp_path):
    path = networks / "TFC_2W2A.onnx"
    findings = json.loads(crumb("lint", path, "--for", "finn", "--json", status=1).stdout)["findings"]
    keys = [(f["rule"], f["node"], f["message"], f["fixable"]) for f in findings]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys) > 10
    text = crumb("lint", path, "--for", "finn", status=1).stdout.splitlines()
    assert len(text) == len(keys) + 1
    assert text[-1].startswith(f"{len(keys)} findings")


def test_nothing_found_is_exit_code_0(crumb, small, tmp_path):
    fixed = tmp_path / "fixed.onnx"
    assert crumb("lint", small, "--for", "finn", "--fix", fixed).stdout == "0 findings left\n"
    assert crumb("lint", fixed, "--for", "finn").stdout == "0 findings\n"
    assert json.loads(crumb("lint", fixed, "--for", "finn", "--json").stdout) == {"findings": []}
    onnx.checker.check_model(str(fixed))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the FILE"),
        (["FILE"], "give --for finn, hls4ml, qonnx or onnxruntime"),
        (["FILE", "--for", "fin"], "did you mean 'finn'"),
        (["--rules", "--for", "hls4lm"], "did you mean 'hls4ml'"),
        (["FILE", "--for", "finn", "--fix", "FILE"], "inputs are never modified"),
        (["FILE", "--rules"], "--rules lists the rules"),
        (["FILE", "--for", "finn", "--fixx", "o"], "did you mean '--fix'"),
    ],
)
def test_wrong_usage_is_exit_code_2(crumb, small, arguments, message):
    before = small.read_bytes()
    done = crumb("lint", *[small if a == "FILE" else a for a in arguments], status=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert small.read_bytes() == before


def test_a_damaged_or_missing_file_is_an_error(crumb, tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(b"\x08\x07:\x05onnx")
    for name in (path, tmp_path / "none.onnx"):
        done = crumb("lint", name, "--for", "finn", status=1)
        assert name.name in done.stderr
        assert done.stdout == ""


def test_names_do_not_steer_a_terminal(crumb, tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"], name="\x1b[2Jrelu")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    model = helper.make_model(helper.make_graph([node], "net", [x], [y]), opset_imports=[helper.make_opsetid("", 13)])
    path = tmp_path / "odd.onnx"
    onnx.save(model, path)
    for options in ([], ["--json"]):
        assert "\x1b" not in crumb("lint", path, "--for", "qonnx", *options, status=1).stdout


BROKEN = {  # rules that must be among those found, by file and profile
    ("TFC_2W2A", "finn"): {"legacy-domain", "domain-import", "initializer-input", "weight-transpose"},
    ("TFC_2W2A", "hls4ml"): {"legacy-domain", "operator", "reshape-target"},
    ("espcn_nn_resize_quant", "finn"): {"conv-bias", "legacy-domain"},
    ("espcn_nn_resize_quant", "hls4ml"): {"channels-last"},
    ("floatquant_fp8_e4m3", "finn"): {"operator", "gemm"},
    ("floatquant_fp8_e4m3", "hls4ml"): {"operator", "gemm"},
    ("mnist_conv_float", "hls4ml"): {"conv-attributes", "channels-last"},
    ("TFC_2W2A", "onnxruntime"): {"operator", "domain-import"},
}


@pytest.mark.parametrize(("file", "profile"), BROKEN)
def test_networks_of_others_break_the_rules_they_are_known_to_break(crumb, networks, file, profile):
    path = networks / f"{file}.onnx"
    findings = json.loads(crumb("lint", path, "--for", profile, "--json", status=1).stdout)["findings"]
    assert {f["rule"] for f in findings} >= BROKEN[file, profile]


def first_input(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    value = next(value for value in model.graph.input if value.name not in constants)
    return value.name, [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]


def execute(model, samples):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    wrapper = ModelWrapper(model).transform(InferShapes())
    name, _ = first_input(wrapper.model)
    return np.stack([execute_onnx(wrapper, {name: x})[wrapper.graph.output[0].name] for x in samples])


@pytest.mark.parametrize("profile", ["finn", "qonnx", "hls4ml"])
@pytest.mark.parametrize("file", ["TFC_2W2A", "TFC_1W2A", "TFC_1W1A", "espcn_nn_resize_quant",
                                  pytest.param("espcn_subpixel_quant", marks=pytest.mark.slow), "floatquant_fp8_e4m3", "mnist_conv_float", "eltwise_chanlast_testcase",
                                  "residual_block_clean", "tfc_1w1a_multithreshold"])  # fmt: skip
def test_fixing_networks_of_others_keeps_their_numbers(crumb, networks, tmp_path, file, profile):
    pytest.importorskip("qonnx")
    path = networks / f"{file}.onnx"
    fixed = tmp_path / "fixed.onnx"
    before = json.loads(crumb("lint", path, "--for", profile, "--json", status=None).stdout)["findings"]
    left = json.loads(crumb("lint", path, "--for", profile, "--fix", fixed, "--json", status=None).stdout)["findings"]
    assert not [f for f in left if f["fixable"]]
    assert {f["rule"] for f in left} <= {f["rule"] for f in before} | {"weight-scale", "weight-consumer"}
    model = onnx.load(path)
    _, shape = first_input(model)
    draw = np.random.default_rng(3)
    count = 1 if np.prod(shape) > 10000 else 4
    is_pixels = any(entry.value == "UINT8" for note in model.graph.quantization_annotation
                    for entry in note.quant_parameter_tensor_names if note.tensor_name == first_input(model)[0])  # fmt: skip
    most = 255 if is_pixels else 1
    samples = [draw.uniform(0, most, shape).astype(np.float32) for _ in range(count)]
    if is_pixels:
        samples = [np.round(sample) for sample in samples]
    old, new = execute(model, samples), execute(onnx.load(fixed), samples)
    if file.startswith("TFC"):
        np.testing.assert_array_equal(old, new)
    else:  # a bias that is added behind a convolution, not in it
        most = np.abs(old).max()
        assert (np.abs(old - new) > 1e-5 * most).mean() <= 1e-4


def test_a_file_with_external_data_is_read_and_fixed(crumb, small, tmp_path):
    model = onnx.load(small)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 4), np.float32), "one"))
    model.graph.node.append(helper.make_node("Mul", ["y", "one"], ["z"], name="Mul_0"))
    model.graph.output[0].name = "z"
    path = tmp_path / "outside.onnx"
    onnx.save(model, path, save_as_external_data=True, location="outside.data", size_threshold=0)
    fixed = tmp_path / "fixed.onnx"
    crumb("lint", path, "--for", "finn", "--fix", fixed)
    assert onnx.load(fixed).graph.initializer[0].raw_data == np.ones((1, 4), np.float32).tobytes()
