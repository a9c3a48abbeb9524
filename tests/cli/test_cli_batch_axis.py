"""Samples on another axis than 0 (--batch-axis), as of an LSTM's states: the same network with its states transposed is the oracle."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx")
from recurrent_states import arrays, axes, write_recurrent, write_states  # noqa: E402

STATES = ("h0", "c0", "hn")


def test_training(crumb, engine, tmp_path):
    write_states(tmp_path)
    how = ["--labels", "y=labels.npy", "--loss", "ce", "--epochs", 8, "--rate", 0.01, "--float-longer", "off", "--weights", "keep", "--activations", "keep"]
    scores = []
    for axis, flags in ((0, []), (1, axes(*STATES))):
        write_recurrent(tmp_path / "net.onnx", axis)
        done = crumb("train", "graph", "net.onnx", *arrays("--data", axis), *how, *flags, "-o", f"out{axis}", "--json", cwd=tmp_path)
        assert "output 'hn' has no labels" in done.stderr
        scores.append([(output["float"], output["quantized"]) for output in json.loads(done.stdout)["outputs"]])
    assert np.allclose(scores[0], scores[1], atol=1e-3)
    assert scores[1][0][1] > scores[1][0][0] + 0.1
    wrong = crumb("train", "graph", "net.onnx", *arrays("--data", 1), *how, "-o", "wrong", status=1, cwd=tmp_path).stderr
    assert "h_1.npy" in wrong and "expected as many samples" in wrong


@pytest.mark.parametrize("batch", ["n", 1, 7])
def test_run(crumb, tmp_path, batch):
    """More samples than run at once; a fixed batch of which the last piece is filled up."""
    write_states(tmp_path, samples=300)
    for axis, flags in ((0, []), (1, axes(*STATES))):
        write_recurrent(tmp_path / "net.onnx", axis, batch if axis == 1 else "n")
        crumb("run", "net.onnx", *arrays("--input", axis), *flags, "--output-dir", f"made{axis}", cwd=tmp_path)
    for name, of_second in (("y", lambda a: a), ("hn", lambda a: a.transpose(1, 0, 2))):
        expected, found = np.load(tmp_path / f"made0/{name}.npy"), np.load(tmp_path / f"made1/{name}.npy")
        assert np.array_equal(of_second(found), expected), name
    said = crumb("run", "net.onnx", *arrays("--input", 1), *axes("h0", "c0"), "--output-dir", "made", cwd=tmp_path, status=1).stderr
    assert "output 'hn' is [1, " in said and "--batch-axis hn=AXIS names" in said


@pytest.mark.parametrize("batch", ["n", 1])
def test_quantizing(crumb, tmp_path, batch):
    """Ranges of activations are those of all samples; with a fixed batch they were an error."""
    write_states(tmp_path, samples=80)
    how = ["--weights", "int8:channel", "--activations", "uint8:tensor:search=absmax", "--json"]
    scales = []
    for axis, flags in ((0, []), (1, axes("h0", "c0"))):
        write_recurrent(tmp_path / "net.onnx", axis, batch if axis == 1 else "n")
        done = crumb("quantize", "net.onnx", "-o", "q.onnx", *how, *arrays("--data", axis), *flags, cwd=tmp_path)
        scales.append(sorted(edge["scale"] for edge in json.loads(done.stdout)["activations"]))
    assert len(scales[0]) >= 2 and scales[1] == pytest.approx(scales[0], rel=1e-5)
    if batch == 1:
        assert "expected" in crumb("quantize", "net.onnx", "-o", "no.onnx", *how, *arrays("--data", 1), cwd=tmp_path, status=1).stderr


@pytest.mark.parametrize(("flag", "says"), [("h0", "expected NAME=AXIS, as in h0=1"), ("h1=1", "did you mean 'h0'"), ("h0=3", "and no axis 3"), ("h0=-1", "expected NAME=AXIS")])
def test_axes_that_are_none(crumb, tmp_path, flag, says):
    write_states(tmp_path, samples=4)
    write_recurrent(tmp_path / "net.onnx", 1)
    for verb in (["run", "net.onnx", *arrays("--input", 1), "--output-dir", "made"], ["quantize", "net.onnx", "-o", "q.onnx", "--weights", "int8", *arrays("--data", 1)]):
        said = crumb(*verb, "--batch-axis", flag, cwd=tmp_path, status=2).stderr
        assert "--batch-axis" in said and says in said


def test_sweep(crumb, tmp_path):
    """Scores of cells, and codes by samples; without the flags the samples do not fit."""
    write_states(tmp_path, samples=90)
    how = ["--formats", "int8:channel,int3:channel", "--activations", "keep,uint8:tensor", "--methods", "rounding,gptq", "--labels", "labels.npy"]
    rows = []
    for axis, flags in ((0, []), (1, axes(*STATES))):
        write_recurrent(tmp_path / "net.onnx", axis)
        crumb("sweep", "net.onnx", *how, *arrays("--data", axis), *flags, "-o", f"swept{axis}", cwd=tmp_path)
        rows.append(json.loads((tmp_path / f"swept{axis}/sweep.json").read_text())["rows"])
    assert len(rows[0]) == 9
    for first, second in zip(*rows, strict=True):
        assert not first["failed"] and first["scores"]["accuracy"] == pytest.approx(second["scores"]["accuracy"], abs=0.03)
        assert first["scores"]["kl"] == pytest.approx(second["scores"]["kl"], rel=0.1, abs=1e-6)
    # Rows of other axes are another run: what is finished is not taken for it.
    other = crumb("sweep", "net.onnx", *how, *arrays("--data", 1), *axes("h0", "c0"), "-o", "swept1", cwd=tmp_path, status=None)
    assert other.returncode != 0 and "--restart" in other.stderr
    write_recurrent(tmp_path / "net.onnx", 1, 1)
    said = crumb("sweep", "net.onnx", *how, *arrays("--data", 1), "-o", "wrong", cwd=tmp_path, status=None)
    assert said.returncode != 0 and "expected" in said.stderr


def test_a_program_that_quantizes(crumb, crumb_bin, tmp_path):
    """"batch_axes" of the C library makes the command's file."""
    import ctypes

    path = crumb_bin.parent / "libcrumb_jobs.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    library = ctypes.CDLL(str(path))
    library.crumb_jobs_error.restype = ctypes.c_char_p
    write_states(tmp_path, samples=40)
    write_recurrent(tmp_path / "net.onnx", 1, 1)
    recipe = tmp_path / "r.yaml"
    recipe.write_text("weights: int8:channel\nactivations: uint8:tensor\n")
    data = [str(tmp_path / file) if "=" not in file else file.replace("=", f"={tmp_path}/") for file in arrays("", 1)[1::2]]
    made = {}
    for name, wanted in (("axes", ["h0=1", "c0=1"]), ("none", [])):
        options = json.dumps({"data": data, "batch_axes": wanted}).encode()
        status = library.crumb_quantize(str(tmp_path / "net.onnx").encode(), str(tmp_path / f"{name}.crumb").encode(),
                                        recipe.read_text().encode(), options, None, None)  # fmt: skip
        made[name] = (status, library.crumb_jobs_error().decode())
    assert made["axes"][0] == 0, made
    assert made["none"][0] != 0 and "expected" in made["none"][1]
    crumb("quantize", "net.onnx", "-o", "command.crumb", "--recipe", recipe, *arrays("--data", 1), *axes("h0", "c0"), cwd=tmp_path)
    assert (tmp_path / "axes.crumb").read_bytes() == (tmp_path / "command.crumb").read_bytes()


def test_what_is_measured_sample_by_sample(crumb, engine, tmp_path):
    """Palettes by squared gradients, and what each quantizer of an activation costs: those of the network with its batch on axis 0."""
    write_states(tmp_path, samples=24)
    made = []
    for axis, flags in ((0, []), (1, axes("h0", "c0"))):
        write_recurrent(tmp_path / "net.onnx", axis)
        crumb("quantize", "net.onnx", "-o", f"p{axis}.crumb", "--weights", "palette3:tensor", "--method", "fisher",
              *arrays("--data", axis), *flags, cwd=tmp_path)  # fmt: skip
        crumb("run", f"p{axis}.crumb", *arrays("--input", axis), *axes(*(STATES if axis else ())), "--output-dir", "made", cwd=tmp_path)
        done = crumb("quantize", "net.onnx", "-o", f"a{axis}.crumb", "--weights", "keep", "--activations", "uint4:tensor",
                     *arrays("--data", axis), *flags, "--json", cwd=tmp_path)  # fmt: skip
        costs = sorted(edge["alone_sqnr_db"] for edge in json.loads(done.stdout)["activations"] if edge["alone_sqnr_db"] is not None)
        made.append((np.load(tmp_path / "made/y.npy"), costs))
    (first, costs), (second, other_costs) = made
    assert np.abs(first - second).max() < 1e-5
    assert len(costs) >= 2 and other_costs == pytest.approx(costs, abs=0.01)
