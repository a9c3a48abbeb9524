"""What --profile hls4ml makes is converted, compiled and executed by hls4ml: all outputs are Crumb's, bit for bit."""

import json

import client
import numpy as np
import onnx
import pytest
from client import client_python
from float_networks import NETWORKS, drawn, network_of_pytorch
from mutations import executed, good_file, judged, measured, put, run_hls4ml
from onnx import numpy_helper


def build(project, *arguments):
    return client.build("hls4ml", project, *arguments)


def config_of(project):
    return json.loads((project / "hls4ml_config.json").read_text())["HLSConfig"]["LayerName"]


@pytest.fixture(scope="module", autouse=True)
def needs_hls4ml(engine):
    client_python("hls4ml")


def quantized(crumb, folder, name, *flags):
    net, output = NETWORKS[name]()
    model, samples = net.save(output, folder / "net.onnx"), net.samples(folder / "x.npy")
    crumb("quantize", model, "-o", folder / "net.crumb", "--profile", "hls4ml", "--data", samples, *flags)
    return folder / "net.crumb", samples


def exported(crumb, model, folder, *flags):
    return crumb("export", model, "-o", folder, "--to", "hls4ml-project", *flags)


def check_equal(project):
    status, said = build(project)
    assert status == 0 and "are bit-equal" in said, said
    return said


@pytest.mark.parametrize("name", ["mlp", "residual_cnn", "separable_cnn", "pooled_line"])
def test_networks_quantized_after_training(crumb, tmp_path, name):
    model, samples = quantized(crumb, tmp_path, name)
    exported(crumb, model, tmp_path / "project", "--data", samples)
    check_equal(tmp_path / "project")


@pytest.mark.parametrize("weights", ["uint4:tensor:zero=int:scale=e8m0", "uint3:channel:zero=int:scale=e8m0"])
def test_weights_with_zero_points(crumb, tmp_path, weights):
    """They are written without."""
    model, samples = quantized(crumb, tmp_path, "residual_cnn", "--weights", weights)
    exported(crumb, model, tmp_path / "project", "--data", samples)
    written = onnx.load(tmp_path / "project/model.onnx")
    constants = {one.name: numpy_helper.to_array(one) for one in written.graph.initializer}
    assert all((constants[node.input[2]] == 0).all() for node in written.graph.node if node.op_type == "Quant")
    check_equal(tmp_path / "project")


def specs(seed):
    """None for every third: those of the profile."""
    rng = np.random.default_rng(seed)
    weights, activations = rng.integers(2, 9, 2)
    return [] if seed % 3 == 0 else ["--weights", f"int{weights}:tensor:scale=e8m0:search=mse",
                                     "--activations", f"uint{activations}:tensor:scale=e8m0:search=mse"]  # fmt: skip


@pytest.mark.parametrize("seed", [8, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16) if seed != 8)])
def test_drawn_networks(crumb, tmp_path, seed):
    net, output = drawn(seed)
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    np.save(samples, np.round(np.load(samples) * 8) / 8)  # ties are common
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "hls4ml", "--data", samples, *specs(seed))
    exported(crumb, tmp_path / "net.crumb", tmp_path / "project", "--data", samples)
    check_equal(tmp_path / "project")


@pytest.mark.slow
def test_files_changed_in_one_place(crumb_bin, tmp_path):
    """None that lint takes is refused by hls4ml, or computed otherwise."""
    misses = []
    for seed in range(7000, 7048):
        name, word, rules, outcome, what = measured(crumb_bin, tmp_path / str(seed), seed)
        if judged(word, outcome) == "miss":
            misses.append((seed, name, rules, outcome, what))
    assert misses == []


def test_zero_points(crumb, crumb_bin, tmp_path):
    """hls4ml computes otherwise behind any that is not 0: none is taken, and weights get codes without one."""
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        good = good_file(crumb_bin, tmp_path / str(seed), seed)
        constants = {one.name for one in good.graph.initializer}
        changed, fixable = tmp_path / "changed.onnx", 0
        for node in (node for node in good.graph.node if node.op_type == "Quant"):
            for zeropt in (1, -1, 0.5, 3):
                model = onnx.ModelProto()
                model.CopyFrom(good)
                put(model, node.input[2], np.float32(zeropt))
                changed.write_bytes(model.SerializeToString())
                findings = json.loads(crumb("lint", changed, "--for", "hls4ml", "--json", status=1).stdout)["findings"]
                found = [one for one in findings if one["rule"] == "zeropt-zero" and one["severity"] == "refused"]
                assert len(found) == 1 and found[0]["node"] == node.name, (seed, node.name, zeropt, findings)
                assert found[0]["fixable"] <= (node.input[0] in constants)
                fixable += found[0]["fixable"]
        assert fixable > 4, seed


def test_zero_points_of_weights_are_written_without(crumb, crumb_bin, tmp_path):
    good = good_file(crumb_bin, tmp_path, 1)
    constants = {one.name for one in good.graph.initializer}
    for zeropt, node in enumerate(node for node in good.graph.node if node.op_type == "Quant" and node.input[0] in constants):
        put(good, node.input[2], np.float32([1, -1, 0.5][zeropt % 3]))
    (tmp_path / "changed.onnx").write_bytes(good.SerializeToString())
    crumb("lint", tmp_path / "changed.onnx", "--for", "hls4ml", "--fix", tmp_path / "fixed.onnx")
    shape = [dim.dim_value for dim in good.graph.input[0].type.tensor_type.shape.dim]
    samples = (np.random.default_rng(2).integers(-16, 17, (16, *shape[1:])) / 8).astype(np.float32)
    np.save(tmp_path / "samples.npy", samples)
    np.save(tmp_path / "expected.npy", executed(good, samples))
    did = run_hls4ml(tmp_path / "fixed.onnx", tmp_path / "hls", tmp_path / "samples.npy", tmp_path / "expected.npy")
    assert did["outcome"] == "equal", did


def test_scales_of_channels_in_convolutions(crumb, tmp_path):
    net, output = NETWORKS["residual_cnn"]()
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    dense = [tensor.name for tensor in onnx.load(model).graph.initializer if list(tensor.dims) == [3, 36]]
    rules = ["--weights", "int5:channel:scale=e8m0", "--set", f"{dense[0]}=int5:tensor:scale=e8m0"]
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "hls4ml", "--data", samples, *rules)
    exported(crumb, tmp_path / "net.crumb", tmp_path / "project", "--data", samples)
    written = onnx.load(tmp_path / "project/model.onnx")
    scales = {one.name: numpy_helper.to_array(one) for one in written.graph.initializer}
    assert any(scales[node.input[1]].size > 1 for node in written.graph.node if node.op_type == "Quant")
    check_equal(tmp_path / "project")


def test_a_network_of_pytorch(crumb, tmp_path):
    """Names with dots and slashes, a batch norm, a residual block."""
    network_of_pytorch(tmp_path)
    crumb("quantize", tmp_path / "net.onnx", "-o", tmp_path / "net.crumb", "--profile", "hls4ml", "--data", tmp_path / "x.npy")
    exported(crumb, tmp_path / "net.crumb", tmp_path / "project", "--data", tmp_path / "x.npy", "--io-type", "io_parallel")
    check_equal(tmp_path / "project")


def test_scales_that_hls4ml_approximates(crumb, tmp_path):
    """Refused, unless asked for: then hls4ml computes nearly the same."""
    net, output = NETWORKS["mlp"]()
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy", 16)
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--weights", "int6:tensor", "--activations", "uint6:tensor",
          "--data", samples)  # fmt: skip
    to = ["-o", tmp_path / "out.onnx", "--to", "qonnx", "--profile", "hls4ml"]
    assert "--profile hls4ml" in crumb("export", tmp_path / "net.crumb", *to, status=1).stderr
    said = crumb("export", tmp_path / "net.crumb", *to, "--allow-approximate").stderr
    assert "power-of-two" in said
    expected = executed(onnx.load(tmp_path / "out.onnx"), np.load(samples))
    np.save(tmp_path / "expected.npy", expected)
    did = run_hls4ml(tmp_path / "out.onnx", tmp_path / "hls", samples, tmp_path / "expected.npy")
    assert did["outcome"] in ("equal", "differs") and did["off"] < 0.05 * np.abs(expected).max(), did


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("mlp", ("--io-type", "io_stream")),
        ("separable_cnn", ("--io-type", "io_stream")),
        ("residual_cnn", ("--io-type", "io_parallel", "--strategy", "Resource")),
        ("mlp", ("--strategy", "Resource", "--reuse-factor", "4")),
    ],
)
def test_other_ways_to_build(crumb, tmp_path, name, flags):
    model, samples = quantized(crumb, tmp_path, name)
    exported(crumb, model, tmp_path / "project", "--data", samples, *flags)
    check_equal(tmp_path / "project")


@pytest.mark.slow
def test_a_program_that_aborts_is_said(crumb, tmp_path):
    """hls4ml 1.3's depthwise convolutions take no reuse factor; its C++ asserts."""
    model, _ = quantized(crumb, tmp_path, "separable_cnn")
    exported(crumb, model, tmp_path / "project", "--strategy", "Resource", "--reuse-factor", "4")
    status, said = build(tmp_path / "project")
    assert status == 2 and "was stopped by signal 6" in said, said


@pytest.mark.parametrize("network", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
def test_digits_trained_for_hls4ml(crumb, tmp_path, network):
    crumb("train", "task", "digits", "--network", network, "--profile", "hls4ml", "-o", tmp_path / "d",
          "--float-epochs", "2", "--epochs", "2")  # fmt: skip
    exported(crumb, tmp_path / "d/model.crumb", tmp_path / "project")
    said = check_equal(tmp_path / "project")
    assert said.count("accumulator") == 4


def test_what_differs_is_found(crumb, tmp_path):
    model, _ = quantized(crumb, tmp_path, "mlp")
    exported(crumb, model, tmp_path / "project")
    config = config_of(tmp_path / "project")
    assert {"MatMul_0", "MatMul_1", "MatMul_2"} <= config.keys()
    status, said = build(tmp_path / "project", "--bits", 8)
    assert status == 0, said
    # One weight one step off.
    model = onnx.load(tmp_path / "project/model.onnx")
    tensors = {one.name: one for one in model.graph.initializer}
    product = next(node for node in model.graph.node if node.name == "MatMul_0")
    quant = next(node for node in model.graph.node if node.output[0] == product.input[1])
    values = numpy_helper.to_array(tensors[quant.input[0]]).copy()
    step = float(numpy_helper.to_array(tensors[quant.input[1]]))
    values[0, 0] += step if values[0, 0] < 0 else -step
    tensors[quant.input[0]].CopyFrom(numpy_helper.from_array(values, quant.input[0]))
    onnx.save(model, tmp_path / "project/model.onnx")
    status, said = build(tmp_path / "project")
    assert status == 1 and "numbers differ" in said, said


@pytest.mark.parametrize("name", ["one_dense", "one_convolution"])
def test_accumulators_are_as_narrow_as_they_can_be(crumb, tmp_path, name):
    """One integer bit less overflows on the samples that drive the layer."""
    model, _ = quantized(crumb, tmp_path, name)
    exported(crumb, model, tmp_path / "project")
    check_equal(tmp_path / "project")
    status, said = build(tmp_path / "project", "--bits", -1)
    assert status == 1 and "numbers differ" in said, said


def test_types_that_hls4ml_did_not_take_are_found(crumb, tmp_path):
    model, _ = quantized(crumb, tmp_path, "mlp")
    exported(crumb, model, tmp_path / "project")
    path = tmp_path / "project/hls4ml_config.json"
    path.write_text(path.read_text().replace('"MatMul_1"', '"MatMul_9"'))
    status, said = build(tmp_path / "project")
    assert status == 1 and "MatMul_9: found no layer" in said, said


def test_a_softmax_at_the_end_is_left_out_and_said(crumb, tmp_path):
    model, _ = quantized(crumb, tmp_path, "separable_cnn")
    said = exported(crumb, model, tmp_path / "project").stderr
    assert "the Softmax behind" in said and "is left out" in said


def test_an_existing_folder_is_refused_and_kept(crumb, tmp_path):
    model, _ = quantized(crumb, tmp_path, "mlp")
    (tmp_path / "there").mkdir()
    (tmp_path / "there/mine.txt").write_text("mine")
    done = crumb("export", model, "-o", tmp_path / "there", "--to", "hls4ml-project", status=2)
    assert "exists and is no empty folder" in done.stderr
    assert [path.name for path in tmp_path.joinpath("there").iterdir()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    exported(crumb, model, tmp_path / "empty")
    assert (tmp_path / "empty/build.py").is_file()


@pytest.mark.parametrize(
    ("form", "flag", "of"),
    [
        ("qonnx", ("--io-type", "io_stream"), "hls4ml-project"),
        ("qonnx", ("--clock", "3"), "hls4ml-project and finn-project"),
        ("qcdq", ("--data", "x.npy"), "hls4ml-project and finn-project"),
        ("qonnx", ("--target-fps", "3"), "finn-project"),
        ("hls4ml-project", ("--board", "Pynq-Z1"), "finn-project"),
        ("finn-project", ("--reuse-factor", "2"), "hls4ml-project"),
    ],
)
def test_flags_of_a_project_are_refused_elsewhere(crumb, tmp_path, form, flag, of):
    net, output = NETWORKS["one_dense"]()
    model = net.save(output, tmp_path / "net.onnx")
    done = crumb("export", model, "-o", tmp_path / "out.onnx", "--to", form, *flag, status=2)
    assert f"{flag[0]} is for --to {of}, found --to {form}" in done.stderr


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--weights", "int4:channel"], "scale"),
        (["--biases", "keep"], "float32's 24 bits"),
        (["--activations", "uint8:tensor:scale=e8m0:zero=int", "--biases", "keep"], "zeropt is"),
        (["--weights", "e4m3fn:tensor", "--biases", "keep"], "FloatQuant"),
    ],
)
def test_what_hls4ml_cannot_say_is_refused_before_the_work(crumb, tmp_path, flags, why):
    net, output = NETWORKS["mlp"]()
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy")
    done = crumb("quantize", model, "-o", tmp_path / "net.crumb", "--profile", "hls4ml", "--data", samples,
                 *flags, status=1)  # fmt: skip
    assert why in done.stderr and "hls4ml" in done.stderr, done.stderr
    assert not (tmp_path / "net.crumb").exists()


@pytest.mark.parametrize("task", ["ocr", "sr"])
def test_tasks_that_hls4ml_has_no_operators_for(crumb, tmp_path, task):
    done = crumb("train", "task", task, "--profile", "hls4ml", "-o", tmp_path / "d", "--float-epochs", "1", status=1)
    assert "hls4ml" in done.stderr
    assert not (tmp_path / "d/model.crumb").exists()
