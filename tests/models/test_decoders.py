"""Decoders as graphs: logits of both engines and of onnxruntime against transformers, at once, in steps, with padding and
past the window; and what is wrong in a configuration shows."""

import json

import numpy as np
import pytest
from tiny_decoders import FAMILIES, LENGTH, SHORT, edit, model_of, reference, save, tokens

pytest.importorskip("transformers")
BOUND = 1e-4  # of logits, whose standard deviation is 3.5


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(family) -> the model and its folder."""
    known = {}

    def make(name):
        if name not in known:
            model = model_of(FAMILIES[name])
            known[name] = model, save(model, tmp_path_factory.mktemp(name))
        return known[name]

    return make


class Decoder:
    """A checkpoint's graph, executed by `crumb run`."""

    def __init__(self, crumb, folder, work, engine="runtime"):
        self.crumb, self.work, self.engine = crumb, work, engine
        self.model = work / "graph.onnx"
        crumb("export", folder, "-o", self.model, "--to", "float")
        config = json.loads((folder / "config.json").read_text())
        heads, width = config["num_attention_heads"], config["hidden_size"]
        depth = config.get("head_dim") or width // heads
        self.cache = [(f"{n}.{part}", config.get("num_key_value_heads") or heads, depth)
                      for n in range(config["num_hidden_layers"]) for part in ("key", "value")]  # fmt: skip

    def inputs(self, ids, mask, positions, past):
        given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        for name, heads, depth in self.cache:
            empty = np.zeros((ids.shape[0], heads, 0, depth), np.float32)
            given[f"past_key_values.{name}"] = empty if past is None else past[name]
        return given

    def __call__(self, ids, mask=None, positions=None, past=None):
        """Logits and present."""
        before = 0 if past is None else next(iter(past.values())).shape[2]
        mask = np.ones((ids.shape[0], before + ids.shape[1]), np.int64) if mask is None else mask
        positions = before + np.tile(np.arange(ids.shape[1]), (ids.shape[0], 1)) if positions is None else positions
        flags = []
        for name, values in self.inputs(ids, mask, positions, past).items():
            np.save(self.work / f"{name}.npy", values)
            flags += ["--input", f"{name}={self.work / name}.npy"]
        out = self.work / "out"
        self.crumb("run", self.model, *flags, "--output-dir", out, "--engine", self.engine)
        return np.load(out / "logits.npy"), {name: np.load(out / f"present.{name}.npy") for name, _, _ in self.cache}


def largest(a, b):
    return float(np.abs(a - b).max())


@pytest.fixture
def decoder(crumb, made, tmp_path):
    def open_(name, engine="runtime"):
        return Decoder(crumb, made(name)[1], tmp_path, engine)

    return open_


@pytest.mark.parametrize("engine", ["runtime", "libtorch"])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(made, decoder, name, engine):
    model, ids = made(name)[0], tokens()
    expected = reference(model, ids)
    assert expected.std() >= 3
    run = decoder(name, engine)
    assert largest(run(ids)[0], expected) <= BOUND
    left = np.ones_like(ids)
    left[1, : LENGTH - SHORT] = 0  # as generate() pads
    positions = np.maximum(np.cumsum(left, axis=1) - 1, 0) * left
    logits = run(ids, left, positions)[0]
    assert np.isfinite(logits).all()
    assert largest(logits[left == 1], reference(model, ids, left, positions)[left == 1]) <= BOUND
    right = left[:, ::-1].copy()
    assert largest(run(ids, right)[0][right == 1], reference(model, ids, right)[right == 1]) <= BOUND


@pytest.mark.parametrize("name", FAMILIES)
def test_steps_have_the_bits_of_the_whole(decoder, name):
    ids, run = tokens(), decoder(name)
    if name == "phi3-long":
        pytest.skip("a sequence that becomes long turns its keys anew")
    whole, _ = run(ids)
    rows, past = [], None
    for begin, end in ((0, 9), (9, 10), (10, 17), (17, LENGTH)):
        logits, past = run(ids[:, begin:end], past=past)
        rows.append(logits)
    assert np.array_equal(np.concatenate(rows, axis=1), whole)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_exported_runs_in_onnxruntime(made, decoder, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    run, ids = decoder(name), tokens()
    session = onnxruntime.InferenceSession(str(run.model), providers=["CPUExecutionProvider"])
    given = run.inputs(ids, np.ones_like(ids), np.tile(np.arange(LENGTH), (2, 1)), None)
    logits = session.run(["logits"], given)[0]
    assert largest(logits, reference(made(name)[0], ids)) <= BOUND


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name, family in FAMILIES.items() for wrong in family.wrong])
def test_a_wrong_configuration_shows(crumb, made, tmp_path, name, wrong):
    model, folder = made(name)
    ids = tokens()
    other = edit(folder, tmp_path / "edited", wrong)
    assert largest(Decoder(crumb, other, tmp_path)(ids)[0], reference(model, ids)) > 10 * BOUND


def test_a_norm_without_its_offset_shows(crumb, made, tmp_path):
    from safetensors import numpy as safetensors

    model, folder = made("gemma2")
    ids = tokens()
    other = edit(folder, tmp_path / "edited", {})
    tensors = safetensors.load_file(other / "model.safetensors")
    safetensors.save_file({name: t - 1 if name == "model.norm.weight" else t for name, t in tensors.items()},
                          other / "model.safetensors")  # fmt: skip
    assert largest(Decoder(crumb, other, tmp_path)(ids)[0], reference(model, ids)) > 10 * BOUND


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "falcon"}, "falcon"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"vocab_size": 121}, "[121, 32]"),
        ({"hidden_act": "mish"}, '"hidden_act" is "mish"'),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "low_freq_factor"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"head_dim": 7}, "7 elements"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"num_hidden_layers": 5}, "model.layers.4."),
    ],
)
def test_what_differs_is_refused_by_name(crumb, made, tmp_path, changes, said):
    other = edit(made("llama")[1], tmp_path / "edited", changes)
    result = crumb("export", other, "-o", tmp_path / "x.onnx", "--to", "float", status=1)
    assert said in result.stderr
    assert not (tmp_path / "x.onnx").exists()
