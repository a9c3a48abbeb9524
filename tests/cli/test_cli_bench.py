"""crumb bench: times of runs and of steps, of drawn inputs and of given ones."""

import json
import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

DIGITS = Path(__file__).parents[2] / "examples/digits/digits_cnn.crumb"


def bench(crumb, *arguments):
    return json.loads(crumb("bench", *arguments, "--seconds", 0.05, "--json").stdout)


def test_times_are_in_order_and_every_step_is_told(crumb):
    found = bench(crumb, DIGITS, "--threads", 1, "--batch", 3)
    assert (found["threads"], found["batch"]) == (1, 3)
    own = found["runtime"]
    assert 0 < own["least_seconds"] <= own["median_seconds"] <= own["p90_seconds"] <= own["p99_seconds"] < 0.05
    assert own["samples_per_second"] == pytest.approx(3 / own["median_seconds"])
    assert own["runs"] > 10 and found["ready_seconds"] > 0
    assert [step["op"] for step in found["steps"]] == [
        "integer Codes", "integer Conv", "integer Conv", "MaxPool", "integer Conv", "MaxPool", "Flatten",
        "integer MatMul"]  # fmt: skip; Sub and Mul are computed together with Codes
    assert 0 < sum(step["mean_seconds"] for step in found["steps"]) < 50 * own["median_seconds"]
    # What is counted grows with the batch, and is the same in every run.
    again, more = bench(crumb, DIGITS, "--batch", 3), bench(crumb, DIGITS, "--batch", 6)
    for name in ("peak_memory", "work"):
        assert again[name] == found[name]
        assert 1.5 * found[name] < more[name] <= 2 * found[name]


def test_given_inputs_say_their_batch(crumb, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 1, 8, 8), np.float32))
    assert bench(crumb, DIGITS, "--input", tmp_path / "x.npy")["batch"] == 5
    np.save(tmp_path / "x.npy", np.zeros((5, 1, 8, 9), np.float32))
    assert "[5, 1, 8, 9]" in crumb("bench", DIGITS, "--input", tmp_path / "x.npy", status=1).stderr


def test_shapes_of_drawn_inputs(crumb, tmp_path):
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, ["batch", "tokens"]) for name in "xwy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:2], ends[2:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert "--shape x=" in crumb("bench", path, status=2).stderr
    assert bench(crumb, path, "--shape", "x=3x7")["batch"] == 3
    assert "'z'" in crumb("bench", path, "--shape", "z=3x7", status=2).stderr.replace('"', "'")
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.int64))
    crumb("bench", path, "--shape", "x=2x2", "--input", tmp_path / "x.npy", status=2)
    assert "[2, 7]" in crumb("bench", path, "--shape", "x=3x7", "--shape", "w=2x7", status=1).stderr


def test_the_text_has_the_table_of_steps(crumb):
    printed = crumb("bench", DIGITS, "--seconds", 0.05, "--threads", 2).stdout
    assert re.search(r"digits_cnn\.crumb: 2 threads, batch 1, \d+ runs, ready in [\d.]+ \wS?", printed, re.IGNORECASE)
    assert re.search(r"^values take [\d.]+ kB at most at a time, their arena [\d.]+ kB$", printed, re.MULTILINE)
    shares = [float(share) for share in re.findall(r" ([\d.]+) %(?: *$|  int)", printed, re.MULTILINE)]
    assert len(shares) == 8 and sum(shares) == pytest.approx(100, abs=1)


def test_registers_of_integer_layers_are_told(crumb):
    """The certificate's sums, and what the processor makes of them: 4-bit layers fit 16 bits, 8-bit ones do not."""
    told = {}
    for isa in ("portable", "avx2", "avx512"):
        done = crumb("bench", DIGITS, "--seconds", 0.05, "--json", env={**os.environ, "CRUMB_ISA": isa})
        steps = json.loads(done.stdout)["steps"]
        told[isa] = [step["registers"] for step in steps if step["op"] in ("integer Conv", "integer MatMul")]
        assert all("registers" not in step for step in steps if not step["op"].startswith("integer"))
    sums = {isa: [re.search(r"\[-?\d+, -?\d+\]", text).group() for text in texts] for isa, texts in told.items()}
    assert len(told["avx2"]) == 4 and sums["portable"] == sums["avx2"] == sums["avx512"]
    assert all(text.startswith("int32, no vectors") for text in told["portable"])
    if told["avx2"] == told["portable"]:
        pytest.skip("this processor has no AVX2")
    assert [text.split(",")[0].split(" ")[0] for text in told["avx2"]] == ["int32", "int16", "int16", "int32"]
    assert all("proven" in text for text in told["avx2"][1:3])


def test_against_libtorch(crumb):
    found = bench(crumb, DIGITS, "--against", "libtorch")
    assert found["libtorch"]["runs"] > 0


@pytest.mark.parametrize(
    "arguments, says, status",
    [
        (["--batch", "0"], "--batch 0", 2),
        (["--seconds", "0"], "--seconds", 2),
        (["--seconds", "-1"], "--seconds", 2),
        (["--against", "onnxruntime"], "onnxruntime", 2),
        (["--threads", "-1"], "--threads", 2),
    ],
)
def test_wrong_usage_is_said(crumb, arguments, says, status):
    done = crumb("bench", DIGITS, *arguments, status=status)
    assert says in done.stderr and not done.stdout


def test_a_graph_with_another_operator_is_refused_by_name(crumb, tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Unique", ["x"], ["y"], name="where_it_is")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None])],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    error = crumb("bench", path, status=1).stderr
    assert "m.onnx" in error and "where_it_is" in error and "Unique" in error
