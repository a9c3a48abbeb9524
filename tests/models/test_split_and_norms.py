"""The stages split and batch_norm of `crumb quantize` on the digits' convolutional network: what they bring at two and three bits, in
onnxruntime, with norms that are kept and folded; and what leaves a decoder whose channels were doubled."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run(path, x, *values):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(list(values) or None, {session.get_inputs()[0].name: x})


def divergence(meant, found):
    """Of what the softmax of the logits says."""
    logs = [z - z.max(1, keepdims=True) - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) for z in (meant, found)]
    return float((np.exp(logs[0]) * (logs[0] - logs[1])).sum(1).mean())


@pytest.fixture(scope="module")
def digits(crumb, engine, tmp_path_factory):
    """The trained network, and the same with norms behind its convolutions, which do nothing as long as it is in floats."""
    folder = tmp_path_factory.mktemp("digits")
    crumb("train", "task", "digits", "--network", "cnn", "--float-only", "-o", folder / "made")
    model = onnx.load(folder / "made" / "float.onnx")
    convolutions = [node.output[0] for node in model.graph.node if node.op_type == "Conv"]
    watched = onnx.load(folder / "made" / "float.onnx")
    watched.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in convolutions)
    onnx.save(watched, folder / "watched.onnx")
    x = np.load(folder / "made" / "calibration.npy")
    seen = dict(zip(convolutions, run(folder / "watched.onnx", x, *convolutions), strict=True))
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type != "Conv":
            continue
        name = node.output[0]
        mean, variance = seen[name].mean((0, 2, 3)), seen[name].var((0, 2, 3))
        node.output[0] = f"{name}_before"
        norm = {"gain": np.sqrt(variance + 1e-5), "bias": mean, "mean": mean, "variance": variance}
        model.graph.initializer.extend(onnx.numpy_helper.from_array(value.astype(np.float32), f"{name}_{part}") for part, value in norm.items())
        nodes.append(onnx.helper.make_node("BatchNormalization", [node.output[0], *(f"{name}_{part}" for part in norm)], [name], name=f"{name}_norm", epsilon=1e-5))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, folder / "normed.onnx")
    (folder / "made" / "float.onnx").rename(folder / "plain.onnx")
    return folder


class Runs:
    def __init__(self, crumb, digits, work):
        self.crumb, self.digits, self.work = crumb, digits, work
        self.calibration, self.valid = (np.load(digits / "made" / f"{name}.npy") for name in ("calibration", "valid"))
        self.meant = run(digits / "plain.onnx", self.valid)[0].astype(np.float64)

    def __call__(self, stages, *flags, weights="int2:channel", network="plain", form="qcdq"):
        """The report, the divergence of what onnxruntime makes of it, and these outputs."""
        said = self.crumb("quantize", self.digits / f"{network}.onnx", "-o", self.work / "q.crumb", "--weights", weights, "--data",
                          self.digits / "made" / "calibration.npy", "--stages", stages or "rounding", *flags, "--json")  # fmt: skip
        self.crumb("export", self.work / "q.crumb", "-o", self.work / "q.onnx", "--to", form)
        made = run(self.work / "q.onnx", self.valid)[0].astype(np.float64)
        return json.loads(said.stdout)["stages"], divergence(self.meant, made), made


@pytest.fixture
def runs(crumb, digits, tmp_path):
    return Runs(crumb, digits, tmp_path)


@pytest.mark.parametrize("weights", ["int3:channel", "int3:tensor", "int4:tensor"])
def test_doubled_channels_lose_less(runs, weights):
    _, plain, _ = runs("", weights=weights)
    stages, lost, made = runs("split", weights=weights)
    assert lost < 0.9 * plain
    assert len(stages[0]["layers"]) == 3 and all(layer["after"] < layer["before"] for layer in stages[0]["layers"])
    assert "3 channels of 80 in 3 values doubled" in stages[0]["notes"][0]
    # Weights as numbers: the same, up to the order of sums.
    runs.crumb("export", runs.work / "q.crumb", "-o", runs.work / "f.onnx", "--to", "float")
    assert np.abs(run(runs.work / "f.onnx", runs.valid)[0] - made).max() <= 1e-4 * np.abs(made).max()
    shapes = {tensor.name: list(tensor.dims) for tensor in onnx.load(runs.work / "f.onnx").graph.initializer}
    assert [33, 17, 3, 3] in shapes.values() and [10, 33 * 4] in shapes.values()


def test_doubled_channels_do_not_change_the_float_network(runs):
    # Sixteen of 256 steps: the rounding of eight bits, and that of floats, is all that is left.
    _, plain, _ = runs("", weights="int8:channel")
    _, lost, _ = runs("split:share=0.5", weights="int8:channel")
    assert lost < 1.5 * plain + 1e-9


@pytest.mark.parametrize(("weights", "share"), [("int2:channel", 0.3), ("int3:channel", 0.3)])
def test_means_and_variances_come_back(runs, weights, share):
    lost = {stages: runs(stages, weights=weights)[1] for stages in ("", "bias_correction", "batch_norm")}
    assert lost["batch_norm"] < share * lost[""] and lost["batch_norm"] < 0.8 * lost["bias_correction"]


def test_norms_that_are_kept_and_folded_are_one_network(runs):
    kept = runs("batch_norm", "--batch-norm", "keep", network="normed")
    folded = runs("batch_norm", network="normed")
    rounded = runs("", network="normed")
    assert kept[1] < 0.3 * rounded[1]
    assert [layer["layer"].rsplit("_", 1)[-1] for layer in kept[0][0]["layers"][:3]] == ["gain"] * 3
    # The same codes; scales, and factors of norms, rounded elsewhere.
    assert np.abs(kept[2] - folded[2]).max() <= 1e-3 * np.abs(folded[2]).max()


def test_statistics_of_the_samples(runs):
    """numpy's, of what comes to each norm in the network that was written: each behind those before it."""
    stages, lost, _ = runs("batch_norm:own=on", "--batch-norm", "keep", network="normed", form="float")
    assert lost < 0.5 * runs("", "--batch-norm", "keep", network="normed")[1]
    runs("batch_norm:own=on", "--batch-norm", "keep", network="normed", form="float")
    assert not any("keeps its own" in note for note in stages[0]["notes"])
    model = onnx.load(runs.work / "q.onnx")
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    model.graph.output.extend(onnx.helper.make_tensor_value_info(node.input[0], 1, None) for node in norms)
    onnx.save(model, runs.work / "watched.onnx")
    assert len(norms) == 3
    for node, value in zip(norms, run(runs.work / "watched.onnx", runs.calibration, *(node.input[0] for node in norms)), strict=True):
        np.testing.assert_allclose(constants[node.input[3]], value.mean((0, 2, 3), dtype=np.float64), rtol=1e-4, atol=1e-4 * value.std())
        np.testing.assert_allclose(constants[node.input[4]], value.var((0, 2, 3), dtype=np.float64), rtol=1e-3)


def test_stages_behind_each_other(runs):
    alone = runs("gptq")[1]
    stages, lost, _ = runs("split,gptq,batch_norm")
    assert [stage["stage"] for stage in stages] == ["split", "gptq", "batch_norm"] and lost < alone


def test_what_they_cannot_do_is_said(runs, crumb, digits):
    def refused(*flags, status=1, data=True):
        given = ["--data", digits / "made" / "calibration.npy"] if data else []
        return crumb("quantize", digits / "plain.onnx", "-o", runs.work / "r.crumb", *given, *flags, status=status).stderr

    assert "needs samples" in refused("--weights", "int4", "--stages", "batch_norm", status=2, data=False)
    assert "own=on is for batch norms that are kept" in refused("--weights", "int4", "--stages", "batch_norm:own=on")
    assert "no layer that becomes codes" in refused("--weights", "keep", "--stages", "batch_norm")
    assert "expected share to be a number above 0" in refused("--weights", "int4", "--stages", "split:share=0", status=2)
    assert "have their codes already" in refused("--weights", "int4", "--stages", "gptq,split")
    assert "whose channels can be doubled" in refused("--weights", "keep", "--stages", "split")


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_decoder_whose_channels_are_doubled(crumb, tmp_path, name):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tiny = pytest.importorskip("tiny_decoders")
    from decoder_runs import DecoderRun

    folder = tmp_path / "model"
    folder.mkdir()
    expected = tiny.make(name, folder)
    said = crumb("quantize", folder, "-o", tmp_path / "s.crumb", "--weights", "int8:channel", "--embeddings", "keep", "--stages", "split:share=0.1", "--json")
    report = json.loads(said.stdout)["stages"][0]
    assert report["layers"] and all("down_proj" in layer["layer"] for layer in report["layers"])
    assert any("Attention stands between" in note for note in report["notes"])
    logits = DecoderRun(crumb, tmp_path / "s.crumb", folder, tmp_path / "work")(expected.ids[None])[0][0]
    assert np.sqrt(np.mean((logits - expected.prefill) ** 2)) < 0.2  # eight bits of logits whose deviation is about 4
    for form, target in (("hf", "hf"), ("gguf", "x.gguf")):
        result = crumb("export", tmp_path / "s.crumb", "--to", form, "-o", tmp_path / target, status=1)
        assert "its network is none of its config.json" in result.stderr and "its configuration asks for" in result.stderr
        assert not (tmp_path / target).exists()
