"""Networks captured from C++ are sound ONNX files, and onnxruntime gives what the modules gave."""

import os
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

NETWORKS = ["mlp", "cnn", "bilstm", "gru", "encoder"]


@pytest.fixture(scope="module")
def written(crumb_bin, tmp_path_factory):
    program = next(
        (path for path in [crumb_bin.parent / "tests" / "crumb_torch_tests"] if path.is_file()), None
    )
    if program is None:
        pytest.skip("crumb_torch_tests was not built: Crumb was built without LibTorch or without tests")
    folder = tmp_path_factory.mktemp("captured")
    done = subprocess.run(
        [str(program), "-tc=captured networks*written*"],
        env={**os.environ, "CRUMB_CAPTURE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("network", NETWORKS)
def test_onnxruntime_agrees(written, network):
    folder = written / network
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert all(value.type.tensor_type.shape.dim[0].dim_param == "batch" for value in model.graph.input)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    inputs = {value.name: np.load(folder / f"input{i}.npy") for i, value in enumerate(session.get_inputs())}
    found = session.run(None, inputs)
    assert len(found) == len(list(folder.glob("output*.npy")))
    for i, output in enumerate(found):
        expected = np.load(folder / f"output{i}.npy")
        assert output.shape == expected.shape
        assert np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max()


def test_parameters_keep_their_names(written):
    model = onnx.load(written / "cnn" / "model.onnx")
    names = {one.name for one in model.graph.initializer}
    assert {"layer1.conv1.weight", "layer1.bn1.running_mean", "layer2.shortcut.bias", "fc.weight"} <= names
    model = onnx.load(written / "bilstm" / "model.onnx")
    names = {one.name for one in model.graph.initializer}
    assert {"words.weight", "lstm.weight_ih_l1_reverse", "lstm.bias_hh_l0"} <= names
    assert [node.op_type for node in model.graph.node].count("LSTM") == 2


def by_qonnx(path, inputs):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    model = ModelWrapper(str(path))
    return execute_onnx(model, inputs)[model.graph.output[0].name]


@pytest.mark.parametrize("network", ["mlp", "cnn", "bilstm"])
def test_quantized_and_exported_they_run_to_the_same_outputs(crumb, engine, written, tmp_path, network):
    folder = written / network
    names = [value.name for value in onnx.load(folder / "model.onnx").graph.input]
    data = {name: np.load(folder / f"input{i}.npy") for i, name in enumerate(names)}
    flags = [part for i, name in enumerate(names) for part in ("--data", f"{name}={folder}/input{i}.npy")]
    packed, qonnx, qcdq, back = (tmp_path / name for name in ("q.crumb", "q.onnx", "qcdq.onnx", "back.onnx"))
    crumb("quantize", folder / "model.onnx", "-o", packed, "--scheme", "W8A8", *flags)

    shapes = [part for name, x in data.items() for part in ("--shape", f"{name}={'x'.join(map(str, x.shape))}")]
    crumb("export", packed, "-o", qonnx, "--to", "qonnx", *shapes)
    crumb("export", packed, "-o", qcdq, "--to", "qcdq")
    crumb("convert", qcdq, back, "--to", "qonnx", *shapes)

    inputs = [part for i, name in enumerate(names) for part in ("--input", f"{name}={folder}/input{i}.npy")]
    crumb("run", packed, *inputs, "--output", tmp_path / "y.npy")
    want = np.load(tmp_path / "y.npy")
    options = onnxruntime.SessionOptions()  # without VNNI its sums of two products saturate otherwise
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(qcdq, options, providers=["CPUExecutionProvider"])
    for found in (by_qonnx(qonnx, data), by_qonnx(back, data), session.run(None, data)[0]):
        off = np.abs(found - want) > 1e-5 * np.abs(want).max()
        assert found.shape == want.shape and off.mean() <= 1e-4
