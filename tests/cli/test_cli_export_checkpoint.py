"""Checkpoints as graphs: crumb export against onnxruntime, transformers, sentence-transformers and crumb embed."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from sample_checkpoints import write_safetensors

TEXTS = [
    "A short one.",
    "The second sentence of the batch is quite a bit longer than the first one, and has commas.",
    "quantized networks",
    "",
]
HIDDEN, VOCAB, POSITIONS = 16, 40, 12
LAYERS = 2  # of short_minilm


def run(path, inputs):
    options = onnxruntime.SessionOptions()
    # Else it rounds what goes into a MatMul with a quantized weight to 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def close(made, expected):
    """Within 1e-5 of the tensor's maximum."""
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.fixture(scope="module")
def tokens(minilm):
    transformers = pytest.importorskip("transformers")
    made = transformers.AutoTokenizer.from_pretrained(minilm)(TEXTS, padding=True, return_tensors="np")
    return {name: made[name].astype(np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}


@pytest.fixture(scope="module")
def packed(crumb, short_minilm, tmp_path_factory):
    """(scheme) -> a packed file of it; (spec) -> one whose matrices and embeddings have it."""
    folder, made = tmp_path_factory.mktemp("packed"), {}

    def pack(spec):
        if spec not in made:
            made[spec] = folder / f"{len(made)}.crumb"
            flags = ("--weights", spec) if ":" in spec else ("--scheme", spec)
            crumb("quantize", short_minilm, "-o", made[spec], *flags)
        return made[spec]

    return pack


def embed(crumb, model, folder):
    (folder / "text").write_text("\n".join(TEXTS) + "\n")
    crumb("embed", model, "--text", folder / "text", "-o", folder / "y.npy")
    return np.load(folder / "y.npy")


def codes_of(path):
    """{name: codes, as the tensor lies in the packed file} of its tensors of int4 and int8."""
    content = path.read_bytes()
    header = json.loads(content[64 : 64 + int.from_bytes(content[16:24], "little")])
    codes = {}
    for tensor in header["tensors"]:
        if "encoding" not in tensor:
            continue
        blob = tensor["codes"]
        assert blob["codec"] == "none"
        raw = np.frombuffer(content, np.uint8, blob["stored"], blob["offset"]).reshape(tensor["shape"][0], -1)
        if tensor["encoding"]["number"] == "int4":
            raw = np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)
            codes[tensor["name"]] = (raw ^ 8).astype(np.int8) - np.int8(8)
        else:
            assert tensor["encoding"]["number"] == "int8"
            codes[tensor["name"]] = raw.view(np.int8)
    return codes


def weight_integers(path):
    """What every Quant of a weight in a QONNX file makes, divided by its scale."""
    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    found = []
    for node in graph.node:
        if node.op_type != "Quant" or node.input[0] not in constants:
            continue
        data, scale, zero = (constants[name] for name in node.input[:3])
        integers = data / scale + zero  # of float32: off by two units in the last place of 128 at the most
        codes = np.rint(integers)
        assert np.abs(integers - codes).max() < 1e-4
        assert np.abs(codes).max() < 128
        found.append(codes.astype(np.int8))
    return found


def test_the_float_folder_equals_transformers(crumb, minilm, tokens, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    done = crumb("export", minilm, "-o", tmp_path / "m.onnx", "--to", "float")
    assert "'pooler.dense.weight'" in done.stderr
    made = run(tmp_path / "m.onnx", tokens)
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    with torch.no_grad():
        expected = model(**{name: torch.tensor(value) for name, value in tokens.items()}).last_hidden_state.numpy()
    is_token = tokens["attention_mask"].astype(bool)  # states of padding are ill-conditioned: torch is off by 1.5e-4
    close(made["last_hidden_state"][is_token], expected[is_token])
    close(made["sentence_embedding"], embed(crumb, minilm, tmp_path))


@pytest.mark.parametrize("spec", ["W8A16", "W4A16", "palette3:tensor", "mxfp4"])
def test_packed_weights_folded_into_floats_equal_embed(crumb, packed, tokens, tmp_path, spec):
    crumb("export", packed(spec), "-o", tmp_path / "m.onnx", "--to", "float")
    close(run(tmp_path / "m.onnx", tokens)["sentence_embedding"], embed(crumb, packed(spec), tmp_path))


@pytest.mark.parametrize("spec, opset", [("W8A16", 13), ("W4A16", 21)])
def test_qcdq_in_onnxruntime_equals_embed(crumb, packed, tokens, tmp_path, spec, opset):
    done = crumb("export", packed(spec), "-o", tmp_path / "m.onnx", "--to", "qcdq", "--json")
    report = json.loads(done.stdout)
    assert (report["opset"], report["weight_quantizers"], report["activation_quantizers"]) == (opset, 6 * LAYERS + 3, 0)
    close(run(tmp_path / "m.onnx", tokens)["sentence_embedding"], embed(crumb, packed(spec), tmp_path))


def test_qcdq_holds_the_codes_of_the_packed_file(crumb, packed, tmp_path):
    crumb("export", packed("W8A16"), "-o", tmp_path / "m.onnx", "--to", "qcdq", "--opset", "17")
    model = onnx.load(tmp_path / "m.onnx")
    assert [opset.version for opset in model.opset_import if opset.domain == ""] == [17]
    codes = codes_of(packed("W8A16"))
    expected = [value if "embeddings" in name else value.T for name, value in codes.items() if "pooler" not in name]
    stored = [numpy_helper.to_array(one) for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT8]
    stored = [one for one in stored if one.ndim == 2]
    assert sorted(one.tobytes() for one in stored) == sorted(one.tobytes() for one in expected)


@pytest.mark.parametrize("spec", ["W8A16", "W4A16"])
def test_qonnx_holds_the_codes_of_the_packed_file(crumb, packed, tmp_path, spec):
    path = tmp_path / "m.onnx"
    done = crumb("export", packed(spec), "-o", path, "--to", "qonnx", "--shape", "input_ids=1x16", "--json")
    assert json.loads(done.stdout)["weight_quantizers"] == 6 * LAYERS + 3
    crumb("lint", path, "--for", "qonnx")
    found = weight_integers(path)
    expected = []
    for name, value in codes_of(packed(spec)).items():
        if "pooler" in name:
            continue
        if spec == "W4A16" and "embeddings" not in name:  # [out, in] as [in / 128, 128, out]
            value = value.reshape(len(value), -1, 128).transpose(1, 2, 0)
        elif "embeddings" not in name:
            value = value.T
        expected.append(np.ascontiguousarray(value))
    key = [(one.shape, one.tobytes()) for one in found]
    assert sorted(key) == sorted((one.shape, one.tobytes()) for one in expected)


def test_what_a_form_cannot_say_is_named(crumb, packed, tmp_path):
    out = tmp_path / "m.onnx"
    for spec, form, options, words in [
        ("palette3:tensor", "qonnx", (), ("encoder.layer.0.attention.self.query.weight", "codebook")),
        ("mxfp4", "qcdq", (), ("encoder.layer.0.attention.self.query.weight", "MX")),
        ("W4A16", "qcdq", ("--opset", "13"), ("encoder.layer.0.attention.self.query.weight", "21")),
    ]:
        message = crumb("export", packed(spec), "-o", out, "--to", form, *options, status=1).stderr
        assert all(word in message for word in words), message
        assert not out.exists()


def test_the_packed_file_runs(crumb, engine, packed, tokens, tmp_path):
    inputs = []
    for name, value in tokens.items():
        np.save(tmp_path / f"{name}.npy", value)
        inputs += ["--input", f"{name}={tmp_path / name}.npy"]
    crumb("run", packed("W8A16"), *inputs, "--output-dir", tmp_path / "out")
    close(np.load(tmp_path / "out" / "sentence_embedding.npy"), embed(crumb, packed("W8A16"), tmp_path))


def test_the_work_of_a_packed_file(crumb, packed):
    done = crumb("cost", packed("W8A16"), "--shape", "input_ids=1x16", "--json")
    linear = LAYERS * (4 * 384 * 384 + 2 * 384 * 1536)
    assert json.loads(done.stdout)["total"]["macs"] == 16 * linear + LAYERS * 2 * 16 * 16 * 384


# Small models of all kinds, by transformers and sentence-transformers.


def small_model(folder, activation="gelu", kind="BertModel"):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=20,
        max_position_embeddings=POSITIONS,
        hidden_act=activation,
        initializer_range=0.5,
        layer_norm_eps=1e-5,
    )
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model.base_model


def small_inputs():
    rng = np.random.default_rng(5)
    lengths = [7, 1, 12, 4]
    mask = np.array([[i < length for i in range(POSITIONS)] for length in lengths], np.int64)
    ids = rng.integers(0, VOCAB, mask.shape) * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": rng.integers(0, 2, mask.shape) * mask}


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_small_models_equal_transformers(crumb, tmp_path, kind, activation, opset):
    model = small_model(tmp_path / "model", activation, kind)
    import torch

    inputs = small_inputs()
    with torch.no_grad():
        expected = model(**{name: torch.tensor(value) for name, value in inputs.items()}).last_hidden_state.numpy()
    crumb("export", tmp_path / "model", "-o", tmp_path / "m.onnx", "--to", "float", "--opset", str(opset))
    made = run(tmp_path / "m.onnx", inputs)
    assert list(made) == ["last_hidden_state"]
    close(made["last_hidden_state"], expected)


def add_modules(folder, pooling, tensors):
    """Pooling, a dense layer in the transformer's file, and normalization behind the transformer."""
    names = ["Transformer", "Pooling", "Dense", "Normalize"]
    paths = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
        for i, (name, path) in enumerate(zip(names, paths, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    for path, config in {
        "1_Pooling": {"word_embedding_dimension": HIDDEN, "pooling_mode": pooling},
        "2_Dense": {
            "in_features": HIDDEN * len(pooling),
            "out_features": 6,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
    }.items():
        (folder / path).mkdir()
        (folder / path / "config.json").write_text(json.dumps(config))
    safetensors = pytest.importorskip("safetensors.numpy")
    stored = safetensors.load_file(folder / "model.safetensors")
    safetensors.save_file({**stored, **tensors}, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("sides", ["right", "left"])
@pytest.mark.parametrize(
    "pooling",
    [
        ["cls"],
        ["max"],
        ["mean"],
        ["mean_sqrt_len_tokens"],
        ["weightedmean"],
        ["lasttoken"],
        ["mean", "max", "lasttoken"],
    ],
)
def test_modules_behind_the_transformer(crumb, tmp_path, pooling, sides):
    model = small_model(tmp_path / "model")
    import torch

    rng = np.random.default_rng(6)
    dense = {
        "2_Dense/linear.weight": rng.normal(size=(6, HIDDEN * len(pooling))).astype(np.float32) * 0.1,
        "2_Dense/linear.bias": rng.normal(size=6).astype(np.float32),
    }
    add_modules(tmp_path / "model", pooling, dense)
    crumb("export", tmp_path / "model", "-o", tmp_path / "m.onnx", "--to", "float")
    inputs = small_inputs()
    if sides == "left":
        if pooling == ["cls"]:
            pytest.skip("the first place is padding then")
        inputs = {name: np.ascontiguousarray(value[:, ::-1]) for name, value in inputs.items()}
    made = run(tmp_path / "m.onnx", inputs)
    with torch.no_grad():
        states = model(**{name: torch.tensor(value) for name, value in inputs.items()}).last_hidden_state.numpy()
    expected = []
    for rows, mask in zip(states, inputs["attention_mask"].astype(bool), strict=True):
        rows = rows[mask]
        rising = np.arange(1, len(rows) + 1, dtype=np.float32)[:, None]
        parts = {
            "cls": lambda rows=rows: rows[0],
            "max": lambda rows=rows: rows.max(0),
            "mean": lambda rows=rows: rows.mean(0),
            "mean_sqrt_len_tokens": lambda rows=rows: rows.sum(0) / np.sqrt(len(rows)),
            "weightedmean": lambda rows=rows, rising=rising: (rows * rising).sum(0) / rising.sum(),
            "lasttoken": lambda rows=rows: rows[-1],
        }
        vector = np.concatenate([parts[mode]() for mode in pooling])
        vector = np.tanh(dense["2_Dense/linear.weight"] @ vector + dense["2_Dense/linear.bias"])
        expected.append(vector / np.linalg.norm(vector))
    close(made["sentence_embedding"], np.array(expected))


def bare(folder, config, tensors=None):
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", tensors or {"w": np.zeros((2, 2), np.float32)})
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_unknown_networks_are_named(crumb, tmp_path):
    def message(name, config):
        folder = bare(tmp_path / name, config)
        return crumb("export", folder, "-o", tmp_path / "m.onnx", "--to", "float", status=1).stderr

    assert "'gpt2'" in (text := message("gpt2", {"model_type": "gpt2"})) and "known are: bert" in text
    assert "no config.json" in (text := message("none", None)) and "known are: bert" in text
    assert "no \"model_type\"" in message("untold", {"hidden_size": 3})
    assert not (tmp_path / "m.onnx").exists()
    crumb("quantize", tmp_path / "gpt2", "-o", tmp_path / "gpt2.crumb", "--weights", "int8:channel")
    for verb in (["cost"], ["lint", "--for", "qonnx"], ["export", "--to", "qonnx", "-o", tmp_path / "m.onnx"]):
        text = crumb(verb[0], tmp_path / "gpt2.crumb", *verb[1:], status=1).stderr
        assert "'gpt2'" in text and "known are: bert" in text and "gpt2.crumb" in text


def test_missing_tensors_and_wrong_shapes_are_named(crumb, tmp_path):
    small_model(tmp_path / "model")
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "model" / "model.safetensors"
    whole = safetensors.load_file(path)

    def message():
        return crumb("export", tmp_path / "model", "-o", tmp_path / "m.onnx", "--to", "float", status=1).stderr

    name = "encoder.layer.1.output.dense.weight"
    safetensors.save_file({key: value for key, value in whole.items() if key != name}, path)
    assert name in (text := message()) and "[16, 20]" in text
    safetensors.save_file({**whole, name: np.zeros((20, 16), np.float32)}, path)
    assert name in (text := message()) and "[16, 20]" in text and "[20, 16]" in text
    safetensors.save_file(whole, path)
    out = crumb("export", tmp_path / "model", "-o", path, "--to", "float", status=None)
    assert out.returncode != 0 and safetensors.load_file(path).keys() == whole.keys()


QUANTIZERS = [
    "int8:channel",
    "int4:group=4",
    "int3:group=6:pad",
    "uint4:group=4:zero=int",
    "int2h:tensor",
    "ternary:channel",
    "e3m2:channel",
]


@pytest.mark.parametrize("spec", [*QUANTIZERS, "nf4:group=4", "palette2:tensor", "mxfp4:pad", "nvfp4:pad"])
def test_every_format_folds_into_what_dequantize_gives(crumb, tmp_path, spec):
    small_model(tmp_path / "model")
    packed, floats = tmp_path / "m.crumb", tmp_path / "floats"
    crumb("quantize", tmp_path / "model", "-o", packed, "--weights", spec, "--embeddings", "int4:group=8")
    floats.mkdir()
    (floats / "config.json").write_bytes((tmp_path / "model" / "config.json").read_bytes())
    crumb("dequantize", packed, "-o", floats / "model.safetensors")
    made = []
    for number, model in enumerate([packed, floats]):
        path = tmp_path / f"{number}.onnx"
        crumb("export", model, "-o", path, "--to", "float")
        made.append({one.name: numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer})
    assert made[0].keys() == made[1].keys() and len(made[0]) > 30
    assert all(np.array_equal(value, made[1][name]) for name, value in made[0].items())


@pytest.mark.parametrize("spec", QUANTIZERS)
def test_qonnx_in_qonnxs_executor_equals_the_floats(crumb, tmp_path, spec):
    wrapper = pytest.importorskip("qonnx.core.modelwrapper")
    executor = pytest.importorskip("qonnx.core.onnx_exec")
    small_model(tmp_path / "model")
    packed = tmp_path / "m.crumb"
    crumb("quantize", tmp_path / "model", "-o", packed, "--weights", spec)
    crumb("export", packed, "-o", tmp_path / "f.onnx", "--to", "float")
    crumb("export", packed, "-o", tmp_path / "q.onnx", "--to", "qonnx", "--shape", f"input_ids=4x{POSITIONS}")
    crumb("lint", tmp_path / "q.onnx", "--for", "qonnx")
    inputs = small_inputs()
    made = executor.execute_onnx(wrapper.ModelWrapper(str(tmp_path / "q.onnx")), inputs)
    close(made["last_hidden_state"], run(tmp_path / "f.onnx", inputs)["last_hidden_state"])


def test_a_damaged_packed_file_is_refused(crumb, tmp_path):
    small_model(tmp_path / "model")
    packed = tmp_path / "m.crumb"
    crumb("quantize", tmp_path / "model", "-o", packed, "--weights", "int8:channel")
    content = bytearray(packed.read_bytes())
    header = json.loads(content[64 : 64 + int.from_bytes(content[16:24], "little")])
    name = "encoder.layer.1.output.dense.weight"
    (codes,) = [tensor["codes"] for tensor in header["tensors"] if tensor["name"] == name]
    content[codes["offset"] + 3] ^= 1
    packed.write_bytes(content)
    message = crumb("export", packed, "-o", tmp_path / "m.onnx", "--to", "float", status=1).stderr
    assert "m.crumb" in message and name in message and not (tmp_path / "m.onnx").exists()


def test_inspect_draws_a_checkpoint_where_it_is_asked_for(crumb, tmp_path):
    small_model(tmp_path / "model")
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "m.crumb", "--weights", "int4:channel")
    for model in ("model", "m.crumb"):  # the latter holds its graph
        assert "LayerNormalization" not in crumb("inspect", tmp_path / model).stdout
        assert "graph" not in json.loads(crumb("inspect", tmp_path / model, "--json").stdout)
        assert "LayerNormalization" in crumb("inspect", tmp_path / model, "--graph").stdout
        assert "LayerNormalization" in json.loads(crumb("inspect", tmp_path / model, "--graph", "--json").stdout)["graph"]["operators"]
    for model, quantizers in [("model", False), ("m.crumb", True)]:
        done = crumb("inspect", tmp_path / model, "--svg", tmp_path / "m.svg", "--shape", "input_ids=1x8")
        assert "LayerNormalization" in done.stdout and ("Quant" in done.stdout) == quantizers
        assert (tmp_path / "m.svg").read_text().startswith("<svg")
    done = crumb("inspect", tmp_path / "m.crumb", "--svg", tmp_path / "m.svg", "--json")
    inputs = json.loads(done.stdout)["graph"]["inputs"]
    assert [value["name"] for value in inputs] == ["input_ids", "attention_mask", "token_type_ids"]
    bare(tmp_path / "gpt2", {"model_type": "gpt2"})
    assert "'gpt2'" in crumb("inspect", tmp_path / "gpt2", "--svg", tmp_path / "x.svg", status=1).stderr
