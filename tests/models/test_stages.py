"""Stages of `crumb quantize` around rounding, on a convolutional network from ONNX: floats stay what they are, means come out right,
sums stay within a register; other tools run what comes out."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
safetensors = pytest.importorskip("safetensors.numpy")


def network(path, rng):
    """Conv, Relu, depthwise Conv, Relu, Conv, pool, Gemm; ranges of channels far apart."""
    helper = onnx.helper

    def weight(*shape):
        return (rng.normal(size=shape) * np.exp2(rng.integers(-3, 4, (shape[0],) + (1,) * (len(shape) - 1)))).astype(np.float32)

    constants = {"w1": weight(8, 3, 3, 3), "b1": weight(8), "w2": weight(8, 1, 3, 3), "b2": weight(8), "w3": weight(6, 8, 1, 1), "b3": weight(6), "w4": weight(4, 6), "b4": weight(4)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4), helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], group=8, strides=[2, 2]), helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"]), helper.make_node("GlobalAveragePool", ["c3"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], transB=1)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 3, 9, 9])], [helper.make_tensor_value_info("y", 1, ["n", 4])],
                              [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.fixture
def made(tmp_path):
    rng = np.random.default_rng(3)
    network(tmp_path / "m.onnx", rng)
    np.save(tmp_path / "x.npy", rng.normal(size=(80, 3, 9, 9)).astype(np.float32))
    return tmp_path


def outputs(path, x):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].astype(np.float64)


def quantize(crumb, made, name, *flags):
    said = crumb("quantize", made / "m.onnx", "-o", made / f"{name}.crumb", "--data", made / "x.npy", "--json", *flags)
    return json.loads(said.stdout)


def run_float(crumb, made, name):
    crumb("export", made / f"{name}.crumb", "-o", made / f"{name}.onnx", "--to", "float")
    return outputs(made / f"{name}.onnx", np.load(made / "x.npy"))


def share_lost(crumb, made, name, meant):
    """Of what the network gives, squared, as Crumb runs the file."""
    crumb("run", made / f"{name}.crumb", "--input", made / "x.npy", "--output-dir", made / "out")
    return np.sum((np.load(made / "out/y.npy") - meant) ** 2) / np.sum(meant**2)


@pytest.mark.parametrize("stage", ["equalize", "smooth", "smooth:alpha=0.3"])
def test_the_float_network_stays(crumb, made, stage):
    report = quantize(crumb, made, "q", "--weights", "int8:tensor", "--stages", stage)
    plain = quantize(crumb, made, "plain", "--weights", "int8:tensor", "--method", "rounding")
    meant = outputs(made / "m.onnx", np.load(made / "x.npy"))
    lost, rounded = (np.sum((run_float(crumb, made, name) - meant) ** 2) / np.sum(meant**2) for name in ("q", "plain"))
    assert lost < 0.01  # eight bits of the same network
    if stage == "equalize":
        assert lost < rounded
    assert [len(one["stages"]) for one in (report, plain)] == [1, 0] and len(report["stages"][0]["layers"]) >= 3


def test_chains_of_stages_with_activations_in_codes(crumb, made):
    """Whatever stands before, at and behind rounding: at eight bits the network stays (20 dB; a range of 255 steps loses some 40), or
    loses less than by rounding alone, or a stage refuses."""
    before = ["equalize", "smooth", "split:share=0.2", "low_rank:rank=1", "outliers:share=0.1", "rotate:online=2"]
    rounding = ["gptq:sweeps=1", "gptq:accumulator=24", "gpfq", "qronos", "clip", "adaround:steps=4", "best:trials=2:sweeps=0"]
    behind = ["batch_norm", "bias_correction", "batch_norm:values=on", "bias_correction:values=on"]
    rng, given = np.random.default_rng(8), 0
    x = np.load(made / "x.npy")
    for _ in range(30):
        network(made / "m.onnx", rng)
        meant = outputs(made / "m.onnx", x)
        chain = [*rng.permutation(before)[: rng.integers(3)], *rng.permutation(rounding)[: rng.integers(2)], *rng.permutation(behind)[: rng.integers(3)]]
        how = ["--weights", rng.choice(["int8:channel", "int8:tensor:search=mse"]),
               "--activations", rng.choice(["int8:tensor", "uint8:tensor:zero=int", "int8:tensor:search=mse", "int8:token"]),
               "--biases", "keep", "--stages", ",".join(chain or ["gptq"])]  # fmt: skip
        said = crumb("quantize", made / "m.onnx", "-o", made / "q.crumb", "--data", made / "x.npy", *how, status=None)
        assert said.returncode in (0, 1, 2), (how, said.stderr)
        if said.returncode != 0:
            assert "the stage" in said.stderr, (how, said.stderr)
            continue
        given += 1
        lost = share_lost(crumb, made, "q", meant)
        if lost >= 0.01:
            crumb("quantize", made / "m.onnx", "-o", made / "plain.crumb", "--data", made / "x.npy", *how[: how.index("--stages")])
            assert lost < share_lost(crumb, made, "plain", meant), (how, lost)
    assert given > 12


def test_means_of_outputs_are_kept(crumb, made):
    meant = outputs(made / "m.onnx", np.load(made / "x.npy")).mean(0)
    off = {}
    for name, stages in (("plain", ["--method", "rounding"]), ("corrected", ["--stages", "bias_correction"]), ("both", ["--stages", "equalize,gptq,bias_correction"])):
        quantize(crumb, made, name, "--weights", "int3:channel", *stages)
        off[name] = np.linalg.norm(run_float(crumb, made, name).mean(0) - meant)
    assert off["corrected"] < 0.5 * off["plain"] and off["both"] < 0.5 * off["plain"]


def test_gptq_of_convolutions_and_quantized_activations(crumb, made):
    how = ["--weights", "int3:channel", "--activations", "int8"]
    meant = outputs(made / "m.onnx", np.load(made / "x.npy"))
    lost = {}
    for name, stages in (("plain", ["--method", "rounding"]), ("gptq", ["--stages", "gptq"])):
        quantize(crumb, made, name, *how, *stages)
        crumb("export", made / f"{name}.crumb", "-o", made / f"{name}.onnx", "--to", "qcdq")
        lost[name] = np.sum((outputs(made / f"{name}.onnx", np.load(made / "x.npy")) - meant) ** 2)
    assert lost["gptq"] < 0.7 * lost["plain"]


@pytest.mark.parametrize(("bits", "tile"), [(12, 0), (14, 0), (10, 4)])
def test_sums_stay_within_a_register(crumb, made, bits, tile):
    stage = f"gptq:accumulator={bits}" + (f":tile={tile}" if tile else "")
    quantize(crumb, made, "q", "--weights", "int4:channel", "--activations", "int8", "--stages", stage)
    crumb("dequantize", made / "q.crumb", "-o", made / "q.safetensors")
    crumb("quantize", made / "m.onnx", "-o", made / "free.crumb", "--weights", "int4:channel", "--activations", "int8", "--data", made / "x.npy")
    for name, values in safetensors.load_file(made / "q.safetensors").items():
        if not name.startswith("w"):
            continue
        rows = values.reshape(len(values), -1).astype(np.float64)
        steps = np.array([np.min(np.abs(row[row != 0])) if np.any(row) else 1 for row in rows])
        # Codes are whole numbers of the row's scale, which divides the smallest of them.
        for row, step in zip(rows, steps, strict=True):
            codes = next(c for n in range(1, 8) if np.allclose(c := row / (step / n), np.rint(c), atol=1e-3)).round()
            for begin in range(0, len(codes), tile or len(codes)):
                part = codes[begin : begin + (tile or len(codes))]
                # int8 activations: -127 to 127.
                assert np.sum(np.abs(part)) * 127 <= 2 ** (bits - 1) - 1
    if not tile:
        said = json.loads(crumb("cost", made / "q.crumb", "--json").stdout)
        assert said


def scaled_gemm():
    from onnx import helper, numpy_helper

    def constant(name, shape, seed):
        return numpy_helper.from_array(np.random.default_rng(seed).normal(size=shape).astype(np.float32), name)

    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Gemm", ["b", "w2"], ["c"], alpha=0.5), helper.make_node("MatMul", ["c", "w3"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 16])], [helper.make_tensor_value_info("y", 1, ["N", 4])],
                              [constant("w1", (16, 12), 1), constant("w2", (12, 8), 2), constant("w3", (8, 4), 3)])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("stage", ["gptq", "gpfq", "qronos"])
def test_what_a_stage_does_not_round_is_said(crumb, tmp_path, stage):
    """And where a register is asked, it is refused: no layer is left without its bound."""
    onnx.save(scaled_gemm(), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(4).normal(size=(40, 16)).astype(np.float32))
    how = ["quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int4:channel", "--data", tmp_path / "x.npy"]
    (report,) = json.loads(crumb(*how, "--stages", stage, "--json").stdout)["stages"]
    assert [line["layer"] for line in report["layers"]] == ["w1", "w3"]
    assert any("keeps rounding: 1 weight ('w2') taken by" in note and "alpha" in note for note in report["notes"])
    how += ["--activations", "int8", "--stages", f"{stage}:accumulator=12"]
    said = crumb(*how, status=1).stderr
    assert "would keep no register of 1 weight ('w2')" in said
    crumb(*how, "--exclude", "w2")


@pytest.mark.parametrize(("method", "stages"), [
    (["awq"], "awq,clip"), (["auto"], "best"), (["auto", "--trials", 2], "best:trials=2"), (["adaround"], "adaround"), (["gptq"], "gptq")])  # fmt: skip
def test_methods_are_stages(crumb, made, method, stages):
    quantize(crumb, made, "method", "--weights", "int3:channel", "--method", *method)
    report = quantize(crumb, made, "stages", "--weights", "int3:channel", "--stages", stages)
    written = [(made / f"{name}.crumb").read_bytes() for name in ("method", "stages")]
    assert written[0] == written[1] and [stage["stage"].split(":")[0] for stage in report["stages"]] == [name.split(":")[0] for name in stages.split(",")]
    meant = outputs(made / "m.onnx", np.load(made / "x.npy"))
    quantize(crumb, made, "plain", "--weights", "int3:channel", "--method", "rounding")
    lost, rounded = (np.sum((run_float(crumb, made, name) - meant) ** 2) for name in ("method", "plain"))
    assert lost < rounded


def test_what_they_cannot_do_is_said(crumb, made):
    def refused(*flags, status=1, data=True):
        return crumb("quantize", made / "m.onnx", "-o", made / "q.crumb", *(["--data", made / "x.npy"] if data else []), *flags, status=status).stderr

    assert "which no quantizer of integers makes" in refused("--weights", "int4", "--stages", "gptq:accumulator=16")
    assert "signed integers without zero points" in refused("--weights", "e2m1", "--activations", "int8", "--stages", "gptq:accumulator=16")
    assert "4 to 62 bits" in refused("--weights", "int4", "--activations", "int8", "--stages", "gptq:accumulator=3", status=2)
    assert "--trials is for --method auto" in refused("--weights", "int4", "--method", "gptq", "--trials", 2, status=2)
    assert "finds nothing to rotate: no residual stream" in refused("--weights", "int4", "--stages", "rotate")
    for stage in ("smooth", "bias_correction", "gptq", "awq", "clip", "adaround", "best"):
        assert "needs samples" in refused("--weights", "int4", "--stages", stage, status=2, data=False)
    assert "can be scaled" in refused("--weights", "int4", "--stages", "gptq,equalize")
