"""What --profile finn makes is converted, streamlined, mapped to hardware layers and executed by FINN (finn-plus): the same
numbers after every step, and FINN's accumulators are those that Crumb derives."""

import json
import re

import client
import numpy as np
import onnx
import pytest
from float_networks import NETWORKS, Net, drawn, network_of_pytorch
from onnx import numpy_helper

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def needs_finn(engine):
    client.client_python("finn")


def build(project, *arguments):
    return client.build("finn", project, *arguments)


def project_of(crumb, folder, name, *flags, step=1 / 8):
    """Samples are multiples of a step, so that ties are common; of none where it is 0."""
    net, output = NETWORKS[name]()
    model, samples = net.save(output, folder / "net.onnx"), net.samples(folder / "x.npy")
    if step:
        np.save(samples, np.round(np.load(samples) / step) * step)
    crumb("quantize", model, "-o", folder / "net.crumb", "--profile", "finn", "--data", samples, *flags)
    crumb("export", folder / "net.crumb", "-o", folder / "project", "--to", "finn-project", "--data", samples)
    return folder / "project"


def check_equal(project, *arguments, exact=True):
    status, said = build(project, *arguments)
    assert status == 0, said
    steps = re.findall(r"^(\w+): all \d+ outputs of \d+ samples are equal(.*)$", said, re.MULTILINE)
    assert [step for step, _ in steps] == ["qonnx_to_finn", "tidy_up", "streamlined", "convert_to_hw",
                                           "minimize_bit_width_initial"]  # fmt: skip
    assert not exact or all(not rounding for _, rounding in steps), said
    return said


def accumulators(said):
    """Crumb's layer, the type of its inputs, Crumb's width and FINN's."""
    rows = re.findall(r"^(\S+) +\w+ +(\w+) +\w+ +U?INT(\d+) +U?INT(\d+)$", said, re.MULTILINE)
    return [(layer, kind, int(ours), int(theirs)) for layer, kind, ours, theirs in rows]


def check_widths(project, said):
    """The same, but that FINN counts all numbers of an input's type, and whole bytes for a last layer."""
    layers = {one["node"]: one for one in json.loads((project / "crumb_layers.json").read_text())["layers"]}
    rows = accumulators(said)
    assert [row[0] for row in rows] == list(layers), said
    for layer, kind, ours, theirs in rows:
        bits = int(kind.lstrip("UINT"))
        least = 0 if kind.startswith("U") else -(2 ** (bits - 1))
        is_narrow = [layers[layer]["input"][key] for key in ("min", "max")] != [least, least + 2**bits - 1]
        allowed = {ours, ours + is_narrow} | ({-(-ours // 8) * 8} if layer == rows[-1][0] else set())
        assert theirs in allowed, said


@pytest.mark.parametrize("name", ["mlp", "residual_cnn", "separable_cnn"])
@pytest.mark.parametrize(
    "flags",
    [(), ("--weights", "int4:channel:scale=e8m0", "--activations", "uint4:tensor:scale=e8m0"),
     ("--weights", "int2:tensor:scale=e8m0", "--activations", "uint3:tensor:scale=e8m0:round=half_up")],
    ids=["profile", "w4a4", "w2a3"],
)  # fmt: skip
def test_networks_quantized_after_training(crumb, tmp_path, name, flags):
    said = check_equal(project_of(crumb, tmp_path, name, *flags))
    check_widths(tmp_path / "project", said)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_networks(crumb, tmp_path, seed):
    rng = np.random.default_rng(seed)
    weights, activations = rng.integers(2, 9, 2)
    flags = [] if seed % 3 == 0 else ["--weights", f"int{weights}:{['tensor', 'channel'][seed % 2]}:scale=e8m0:search=mse",
                                      "--activations", f"uint{activations}:tensor:scale=e8m0:search=mse"]  # fmt: skip
    net, output = drawn(seed)
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    np.save(samples, np.round(np.load(samples) * 8) / 8)
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "finn", "--data", samples, *flags)
    crumb("export", tmp_path / "net.crumb", "-o", tmp_path / "project", "--to", "finn-project", "--data", samples)
    said = check_equal(tmp_path / "project")
    check_widths(tmp_path / "project", said)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_digits_trained_for_finn(crumb, tmp_path, network):
    crumb("train", "task", "digits", "--network", network, "--profile", "finn", "-o", tmp_path / "d",
          "--float-epochs", "2", "--epochs", "2")  # fmt: skip
    crumb("export", tmp_path / "d/model.crumb", "-o", tmp_path / "project", "--to", "finn-project", "--target-fps", "20000")
    said = check_equal(tmp_path / "project", "--samples", "0" if network == "mlp" else "24")
    check_widths(tmp_path / "project", said)
    found = float(re.search(r"estimated: (\d+) frames per second", said)[1])
    assert found >= 20000


@pytest.mark.parametrize("kind", ["AveragePool", "GlobalAveragePool"])
def test_average_pools(crumb, tmp_path, kind):
    net = Net(11, (2, 8, 8))
    x = net.node("Relu", net.conv("image", 2, 4))
    x = net.node(kind, x, **({"kernel_shape": [2, 2], "strides": [2, 2]} if kind == "AveragePool" else {}))
    output = net.dense(net.node("Flatten", x), 64 if kind == "AveragePool" else 4, 3)
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "finn", "--data", samples)
    crumb("export", tmp_path / "net.crumb", "-o", tmp_path / "project", "--to", "finn-project", "--data", samples)
    check_widths(tmp_path / "project", check_equal(tmp_path / "project"))


def odd(kind):
    """A channel without weights, one dense layer after the other on a sequence."""
    if kind == "sequence":
        net = Net(13, (4, 5))
        x = net.node("Relu", net.node("Add", net.node("MatMul", "image", net.tensor(5, 6)), net.tensor(6, spread=0.2)))
        return net, net.node("Add", net.node("MatMul", x, net.tensor(6, 3)), net.tensor(3, spread=0.2))
    net = Net(12, (8,))
    first = net.dense("image", 8, 6)
    weight, bias = net.tensors[0], net.tensors[1]
    values = numpy_helper.to_array(weight).copy()
    values[2] = 0
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    bias.CopyFrom(numpy_helper.from_array(np.array([0.3, -1, 2, 0.1, 0, 0.5], np.float32), bias.name))
    return net, net.dense(net.node("Relu", first), 6, 3)


@pytest.mark.parametrize("kind", ["sequence", "dead channel"])
def test_odd_networks(crumb, tmp_path, kind):
    net, output = odd(kind)
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "finn", "--data", samples)
    crumb("export", tmp_path / "net.crumb", "-o", tmp_path / "project", "--to", "finn-project", "--data", samples)
    check_widths(tmp_path / "project", check_equal(tmp_path / "project"))


def test_a_network_of_pytorch(crumb, tmp_path):
    network_of_pytorch(tmp_path)
    crumb("quantize", tmp_path / "net.onnx", "-o", tmp_path / "net.crumb", "--profile", "finn", "--data", tmp_path / "x.npy")
    crumb("export", tmp_path / "net.crumb", "-o", tmp_path / "project", "--to", "finn-project", "--data", tmp_path / "x.npy")
    check_widths(tmp_path / "project", check_equal(tmp_path / "project"))


def test_registers_that_were_trained_are_finns(crumb, tmp_path):
    """A2Q+ keeps the sums of the inner layers in 11 bits: FINN finds the same."""
    crumb("train", "task", "digits", "--network", "cnn", "--profile", "finn", "--accumulator", "11:a2q_plus", "-o", tmp_path / "d",
          "--float-epochs", "2", "--epochs", "2")  # fmt: skip
    crumb("export", tmp_path / "d/model.crumb", "-o", tmp_path / "project", "--to", "finn-project")
    said = check_equal(tmp_path / "project")
    check_widths(tmp_path / "project", said)
    assert all(theirs <= 11 for _, _, _, theirs in accumulators(said)[1:3]), said


def test_scales_that_are_no_powers_of_two(crumb, tmp_path):
    flags = ("--weights", "int4:channel", "--activations", "uint4:tensor", "--biases", "keep")
    said = check_equal(project_of(crumb, tmp_path, "mlp", *flags, step=0), exact=False)
    check_widths(tmp_path / "project", said)


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A"])
def test_networks_of_the_zoo(crumb, tmp_path, networks, name):
    path = networks / f"{name}.onnx"
    np.save(tmp_path / "x.npy", np.random.default_rng(1).integers(0, 257, (8, 1, 28, 28)).astype(np.float32) / 256)
    crumb("export", path, "-o", tmp_path / "project", "--to", "finn-project", "--data", tmp_path / "x.npy")
    check_equal(tmp_path / "project", "--samples", "12", exact=False)


def test_what_differs_is_found(crumb, tmp_path):
    project = project_of(crumb, tmp_path, "mlp")
    model = onnx.load(project / "model.onnx")
    tensors = {one.name: one for one in model.graph.initializer}
    product = next(node for node in model.graph.node if node.name == "MatMul_2")
    quant = next(node for node in model.graph.node if node.output[0] == product.input[1])
    values = numpy_helper.to_array(tensors[quant.input[0]]).copy()
    step = numpy_helper.to_array(tensors[quant.input[1]]).reshape(-1)[0]
    values[0, 0] += step if values[0, 0] < 0 else -step
    tensors[quant.input[0]].CopyFrom(numpy_helper.from_array(values, quant.input[0]))
    onnx.save(model, project / "model.onnx")
    status, said = build(project, "--samples", "0")
    assert status == 1 and "outputs differ; the first is" in said, said


def test_registers_that_are_narrower_than_derived_are_found(crumb, tmp_path):
    project = project_of(crumb, tmp_path, "mlp")
    path = project / "crumb_layers.json"
    settings = json.loads(path.read_text())
    settings["layers"][0]["input"]["max"] *= 4
    path.write_text(json.dumps(settings))
    status, said = build(project, "--samples", "2")
    assert status == 1 and "FINN would compute something else" in said, said
