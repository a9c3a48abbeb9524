"""The training scripts in examples/: built, run, and what they leave is what other tools compute."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

TEST_EVERY = 5


@pytest.fixture(scope="module")
def digits() -> Path:
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"
    path = Path(os.environ.get("CRUMB_DATA") or Path(cache) / "data") / "digits.csv.gz"
    if not path.is_file():
        pytest.skip("the digits are not there: scripts/setup")
    return path


def test_images(digits):
    """The 359 test images and their labels, read apart from Crumb."""
    rows = np.loadtxt(gzip.open(digits, "rt"), delimiter=",").astype(np.float32)
    held_out = rows[TEST_EVERY - 1 :: TEST_EVERY]
    return held_out[:, :64], held_out[:, 64].astype(int)


test_images.__test__ = False


def weight_codes(path):
    """What every quantizer of a constant makes, by its shape and order."""
    model = onnx.load(path)
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    return [
        np.rint(constants[n.input[0]] / constants[n.input[1]]).astype(int)
        for n in model.graph.node
        if n.op_type == "Quant" and n.input[0] in constants
    ]


@pytest.mark.parametrize(
    "name, shape, least",
    [
        ("digits_mlp_a2q_plus", (-1, 64), 0.95),
        ("digits_cnn_minifloat", (-1, 1, 8, 8), 0.95),
        ("digits_recovered", (-1, 64), 0.95),
        pytest.param("digits_bilstm", (-1, 8, 8), 0.93, marks=pytest.mark.slow),
    ],
)
def test_an_example(crumb, crumb_bin, engine, digits, tmp_path, name, shape, least):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    program = crumb_bin.parent / f"example_{name}"
    if not program.is_file():
        pytest.skip(f"{program.name} was not built: Crumb was built without LibTorch")
    model, packed = tmp_path / "model.onnx", tmp_path / "model.crumb"
    done = subprocess.run([program, digits, model, packed], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[:2000]
    accuracy = float(done.stdout.split("\naccuracy ")[-1].removeprefix("accuracy ").split()[0])
    assert accuracy >= least

    pixels, labels = test_images(digits)
    np.save(tmp_path / "x.npy", pixels.reshape(shape))
    predicted = {}
    for file in (model, packed):
        out = tmp_path / f"{file.suffix[1:]}.npy"
        crumb("run", file, "--input", tmp_path / "x.npy", "--output", out)
        predicted[file] = np.load(out).argmax(1)
    # QONNX files have a batch of their own: the whole test set in one call.
    crumb("export", packed, "-o", tmp_path / "whole.onnx", "--to", "qonnx", "--shape",
          "input=" + "x".join(map(str, pixels.reshape(shape).shape)))  # fmt: skip
    wrapper = ModelWrapper(str(tmp_path / "whole.onnx"))
    scores = execute_onnx(wrapper, {wrapper.graph.input[0].name: pixels.reshape(shape)})
    in_qonnx = next(iter(scores.values())).argmax(1)
    assert (predicted[model] == predicted[packed]).all()
    assert (in_qonnx == predicted[packed]).all()
    assert (predicted[packed] == labels).mean() == pytest.approx(accuracy, abs=1e-6)
    for ours, theirs in zip(weight_codes(model), weight_codes(tmp_path / "whole.onnx"), strict=True):
        assert (ours == theirs).all()
    if "a2q" not in name:
        return
    for file in (model, packed):
        report = json.loads(crumb("verify", file, "--accumulator", "12", "--json").stdout)
        constrained = [layer for layer in report["layers"] if layer["bits_certified"] == 12]
        assert len(constrained) == 2
        assert all(layer["bits_needed"] <= 12 for layer in constrained)

