"""What `crumb export --to gguf` writes, read by others: the `gguf` package and transformers find the numbers of the packed
file."""

import json
import shutil

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
from gguf_checkpoints import FAMILIES, LONGROPE, make_folder, with_metadata  # noqa: E402
from newer_types import dequantize  # noqa: E402

# transformers has no reader of these in GGUF.
UNREAD = ("olmo2", "smollm3", "llama-biases")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made = {}

    def find(name, **sizes):
        key = (name, *sizes.items())
        if key not in made:
            made[key] = make_folder(tmp_path_factory.mktemp(name), name, **sizes)
        return made[key]

    return find


def floats_of(crumb, packed):
    out = packed.with_suffix(".safetensors")
    crumb("dequantize", packed, "-o", out)
    return safetensors_numpy.load_file(out)


def export(crumb, folder, tmp_path, *options):
    """The packed file as GGUF, its float tensors, and what the command says."""
    packed, out = tmp_path / "m.crumb", tmp_path / "m.gguf"
    crumb("quantize", folder, "-o", packed, "--embeddings", "keep", *options)
    report = json.loads(crumb("export", packed, "-o", out, "--to", "gguf", "--json").stdout)
    return out, floats_of(crumb, packed), report


def interleave(rows, size):
    """The order in which llama.cpp wants the rows of q and k, of heads of that size."""
    return rows.reshape(-1, 2, size // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def read(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize("name", FAMILIES)
def test_transformers_loads_the_same_model(crumb, folder_of, tmp_path, name):
    out, floats, _ = export(crumb, folder_of(name), tmp_path, "--weights", "int4:group=32")
    again = tmp_path / "again"
    crumb("dequantize", out, "-o", again)
    found = safetensors_numpy.load_file(again / "model.safetensors")
    gemma = name.startswith("gemma")
    assert set(found) == set(floats)
    for tensor, values in floats.items():
        if gemma and tensor.endswith("norm.weight"):
            values = (values + np.float32(1)) - np.float32(1)
        assert np.array_equal(found[tensor], values), tensor
    if name in UNREAD:
        return
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="m.gguf", attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    assert not info["missing_keys"]
    state = model.state_dict()
    for tensor, values in floats.items():
        if gemma and tensor.endswith("norm.weight"):
            values = (values + np.float32(1)) - np.float32(1)
        assert np.array_equal(state[tensor].numpy(), values), tensor
    if name not in ("llama", "llama-tied", "mistral", "qwen2", "qwen3"):
        return  # of others it does not read all metadata (scalings of positions, caps, scale of attention)
    own = transformers.AutoModelForCausalLM.from_pretrained(again, attn_implementation="eager", dtype=torch.float32)
    ids = torch.arange(20).reshape(1, 20) * 7 % 256
    with torch.no_grad():
        difference = (model(ids).logits - own(ids).logits).abs().max()
    assert difference < 1e-4


SPECS = [
    ("int4:group=32", "Q4_0"),
    ("int4:group=32:range=full", "Q4_0"),
    ("int4:group=128:search=mse", "Q4_0"),
    ("int3:group=64", "Q4_0"),
    ("int2h:group=32", "Q4_0"),
    ("int2h:group=64:search=mse", "Q4_0"),
    ("int3h:group=32", "Q4_0"),
    ("e1m2:group=32", "Q4_0"),
    ("int4:channel:scale=f16", "Q4_0"),
    ("uint4:group=32:zero=min", "Q4_1"),
    ("uint3:group=64:zero=min:search=mse", "Q4_1"),
    ("uint5:group=32:zero=min", "Q5_1"),
    ("int5:group=32", "Q5_0"),
    ("int5:group=32:range=full", "Q5_0"),
    ("int4h:group=32", "Q5_0"),
    ("e2m1:group=32:scale=f16", "Q5_0"),
    ("uint4:group=32:zero=int", "Q5_0"),
    ("int8:group=32", "Q8_0"),
    ("int8:group=256:range=full", "Q8_0"),
    ("int8:tensor:scale=f16", "Q8_0"),
    ("int6:group=64", "Q8_0"),
    ("mxint8", "Q8_0"),
    ("uint2:group=64", "Q4_0"),
    ("int2:group=64", "Q2_0"),
    ("int2:group=64:range=full", "Q2_0"),
    ("int2:group=128:range=full:search=mse", "Q2_0"),
    ("int2:group=32:range=full", "Q4_0"),
    ("ternary:group=64", "Q2_0"),
    ("ternary:group=256", "TQ2_0"),
    ("ternary:tensor:scale=f16:search=mse", "TQ2_0"),
    ("binary:group=128", "Q1_0"),
    ("mxfp4", "MXFP4"),
    ("e2m1:group=64:scale=e8m0", "MXFP4"),
    ("nvfp4", "NVFP4"),
]  # fmt: skip


@pytest.mark.parametrize("weights,kind", SPECS, ids=[spec for spec, _ in SPECS])
def test_the_package_reads_the_same_numbers(crumb, folder_of, tmp_path, weights, kind):
    folder = folder_of("llama", hidden_size=256, intermediate_size=512, num_hidden_layers=1, head_dim=64)
    out, floats, report = export(crumb, folder, tmp_path, "--weights", weights)
    assert report["types"][kind] == 8
    crumb("dequantize", out, "-o", tmp_path / "again.safetensors")
    again = safetensors_numpy.load_file(tmp_path / "again.safetensors")
    assert all(np.array_equal(again[name], values) for name, values in floats.items())
    
    tensors = read(out)
    assert tensors["blk.0.ffn_down.weight"].tensor_type.name == kind
    for name, own, size in [
        ("blk.0.ffn_down.weight", "mlp.down_proj", 0),
        ("blk.0.attn_q.weight", "self_attn.q_proj", 64),
        ("blk.0.attn_k.weight", "self_attn.k_proj", 64),
        ("blk.0.attn_v.weight", "self_attn.v_proj", 0),
    ]:
        values = floats[f"model.layers.0.{own}.weight"]
        if size:
            values = interleave(values, size)
        found = dequantize(tensors[name].data, tensors[name].tensor_type)
        assert found.dtype == np.float32
        if kind == "NVFP4":  # the package leaves the tensor's scale to others
            scale = tensors[name.replace(".weight", ".scale")].data
            assert scale.shape == (1,) and scale[0] > 0
            assert np.allclose(found * scale, values, rtol=3e-7, atol=0)
            assert np.array_equal(found * scale == 0, values == 0)
        else:
            assert np.array_equal(found, values), name


@pytest.mark.parametrize("weights", ["int2h:group=32", "int3h:group=32", "int4h:group=32", "int2h:group=32:search=mse",
                                     "int2h:channel:scale=f16", "int4:group=32", "e2m1:group=32:scale=f16", "e2m3:group=32"])  # fmt: skip
def test_scales_below_float16s_normal_numbers(crumb, folder_of, tmp_path, weights):
    """Groups of every size down to nothing: half of a half-integer's scale must be a float16 number, too."""
    folder = folder_of("llama", hidden_size=256, intermediate_size=512, num_hidden_layers=1, head_dim=64)
    small = tmp_path / "small"
    shutil.copytree(folder, small)
    tensors = safetensors_numpy.load_file(small / "model.safetensors")
    random = np.random.default_rng(8)
    for name, values in tensors.items():
        if values.ndim == 2:
            factors = np.exp2(random.uniform(-26, 0, (values.shape[0], values.shape[1] // 32))).astype(np.float32)
            tensors[name] = values * np.repeat(factors, 32, axis=1)
    safetensors_numpy.save_file(tensors, small / "model.safetensors", {"format": "pt"})
    out, floats, _ = export(crumb, small, tmp_path, "--weights", weights)
    crumb("dequantize", out, "-o", tmp_path / "again.safetensors")
    again = safetensors_numpy.load_file(tmp_path / "again.safetensors")
    assert all(np.array_equal(again[name], values) for name, values in floats.items())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_floats_stay_what_they_are(crumb, folder_of, tmp_path, dtype):
    folder = tmp_path / "model"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder_of("llama"), dtype=torch.float32)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    out = tmp_path / "m.gguf"
    crumb("export", folder, "-o", out, "--to", "gguf")
    tensors = read(out)
    kinds = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
    state = {name: values.double().numpy() for name, values in model.state_dict().items()}
    assert tensors["token_embd.weight"].tensor_type.name == kinds[dtype]
    assert tensors["blk.1.attn_norm.weight"].tensor_type.name == ("F64" if dtype == "float64" else "F32")
    for name, own in [
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("output_norm.weight", "model.norm.weight"),
        ("blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"),
    ]:
        data = tensors[name].data
        if tensors[name].tensor_type.name == "BF16":
            data = gguf.quants.dequantize(data, tensors[name].tensor_type)
        assert np.array_equal(data.astype(np.float64), state[own]), name


def field(reader, key):
    found = reader.get_field(key)
    return None if found is None else found.contents()


def test_the_metadata_are_those_of_llama_cpp(crumb, folder_of, tmp_path):
    folder = tmp_path / "model"
    make_folder(folder, "llama3")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ messages[0].content }}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 256, "eos_token_id": [257, 258]}))
    out, _, _ = export(crumb, folder, tmp_path, "--weights", "int8:group=32")
    reader = gguf.GGUFReader(out)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    expected = {
        "general.architecture": "llama", "general.file_type": 7, "general.quantization_version": 2, "llama.context_length": 128,
        "llama.embedding_length": 64, "llama.block_count": 2, "llama.feed_forward_length": 96, "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2, "llama.attention.key_length": 32, "llama.attention.value_length": 32,
        "llama.rope.dimension_count": 32, "llama.rope.freq_base": 10000, "llama.vocab_size": 288,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257, "tokenizer.ggml.eot_token_id": 258, "tokenizer.ggml.padding_token_id": 258,
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": "{{ messages[0].content }}",
    }  # fmt: skip
    assert {key: field(reader, key) for key in expected} == expected
    tokens = field(reader, "tokenizer.ggml.tokens")
    assert len(tokens) == 288
    assert {token: i for i, token in enumerate(tokens) if not token.startswith("[PAD")} == tokenizer["model"]["vocab"]
    types = field(reader, "tokenizer.ggml.token_type")
    assert [types[0], types[256], types[258], types[287]] == [1, 3, 3, 5]
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    assert merges == [tuple(merge) for merge in tokenizer["model"]["merges"]]
    factors = {tensor.name: tensor.data for tensor in reader.tensors}["rope_freqs.weight"]
    own = transformers.AutoModelForCausalLM.from_pretrained(folder).model.rotary_emb.inv_freq.numpy()
    plain = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    assert factors.max() == 8 and np.allclose(plain / factors, own, rtol=1e-5)


@pytest.mark.parametrize(
    "weights,why",
    [
        ("nf4:group=32", "no GGUF type holds nf4 in groups of 32; the nearest that one does is int4:group=32"),
        ("palette4:channel", "no GGUF type holds palette4 in groups of 64; the nearest that one does is int4:group=32"),
        ("e4m3fn:channel", "no GGUF type holds e4m3fn in groups of 64; the nearest that one does is int8:group=32"),
        ("int4:group=16", "no GGUF type holds groups of 16 weights; the nearest that one does is int4:group=32"),
        ("uint4:group=32:zero=float", "the nearest that one does is uint4:group=32:zero=min"),
        ("int8:channel", "is none that Q8_0 can hold, whose scales are float16 numbers; quantize with scale=f16, or this tensor with "
                         "--set 'lm_head.weight=int8:group=32'"),
        ("mxfp8_e4m3", "no GGUF type holds e4m3fn in groups of 32; the nearest that one does is int8:group=32"),
    ],
)
def test_what_gguf_cannot_hold_is_refused(crumb, folder_of, tmp_path, weights, why):
    crumb("quantize", folder_of("llama"), "-o", tmp_path / "m.crumb", "--weights", weights, "--embeddings", "keep")
    done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf", status=1)
    assert why in done.stderr and "tensor 'lm_head.weight'" in done.stderr
    assert not list(tmp_path.glob("m.gguf*"))


def test_rows_that_no_block_divides_are_refused(crumb, tmp_path, folder_of):
    folder = folder_of("llama", hidden_size=48)
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8:group=16", "--embeddings", "keep")
    done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf", status=1)
    assert "its rows have 48 weights, which no GGUF type of codes divides" in done.stderr


@pytest.mark.parametrize(
    "family,config,why",
    [
        ("mistral", {"sliding_window": 5}, "its layer 0: it sees a window of 5"),
        ("gemma2", {"query_pre_attn_scalar": 20}, "scale of attention"),
        ("gemma3", {"sliding_window_pattern": 3, "layer_types": None}, "its layer 2"),
        ("smollm3", {"no_rope_layers": [1, 0, 1, 0]}, "its layer 1: it sees all and has no positions"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16}}, "beta_fast is 16, and llama.cpp takes 32"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": False}}, "llama.cpp truncates"),
        ("llama", {"rope_scaling": LONGROPE, "original_max_position_embeddings": 16}, "its rotary scaling is 'longrope'"),
        ("llama", {"hidden_act": "gelu"}, "activation"),
        ("phi3", {"sliding_window": 7}, "sliding_window is 7, and llama.cpp sees all of a text"),
        ("llama", {"is_causal": False}, "is_causal is false"),
        ("llama", {"model_type": "bert"}, "the architecture is 'bert'; to GGUF go mistral, llama"),
    ],
)
def test_networks_that_gguf_cannot_say_are_refused(crumb, folder_of, tmp_path, family, config, why):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in folder_of(family).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    whole = json.loads((folder / "config.json").read_text())
    whole.pop("rope_parameters", None) if "rope_scaling" in config else None
    whole.update(config)
    (folder / "config.json").write_text(json.dumps({key: value for key, value in whole.items() if value is not None}))
    done = crumb("export", folder, "-o", tmp_path / "m.gguf", "--to", "gguf", status=1)
    assert why in done.stderr
    assert not list(tmp_path.glob("m.gguf*"))


@pytest.mark.parametrize("family,biases,what", [
    ("qwen3", "attention_bias", "biases of q, k and v"), ("olmo2", "attention_bias", "biases of q, k and v"), ("smollm3", "attention_bias", "biases of q, k and v"),
    ("smollm3", "mlp_bias", "biases of the feed-forward network"), ("gemma2", "attention_bias", "biases of q, k and v"),
    ("gemma3", "attention_bias", "biases of q, k and v")])  # fmt: skip
def test_biases_that_llama_cpp_does_not_load_are_refused(crumb, tmp_path, family, biases, what):
    make_folder(tmp_path / "model", family, **{biases: True})
    done = crumb("export", tmp_path / "model", "-o", tmp_path / "m.gguf", "--to", "gguf", status=1)
    assert f"llama.cpp loads no {what}" in done.stderr and not (tmp_path / "m.gguf").exists()


@pytest.mark.parametrize("changes,says", [
    ({"attention.causal": False}, "'llama.attention.causal': it is false"), ({"rope.dimension_count": 8}, "'llama.rope.dimension_count': it is 8, expected a head's 16"),
    ({"attention.value_length": 32}, "'llama.attention.value_length': it is 32"), ({"rope.scaling.attn_factor": 0.5}, "'llama.rope.scaling.attn_factor': it is 0.5"),
    ({"rope.scaling.type": "linear", "rope.scaling.factor": 2.0, "rope.scaling.attn_factor": 2.0}, "attn_factor': it is 2, expected 1")])  # fmt: skip
def test_metadata_of_other_networks_are_refused(crumb, folder_of, tmp_path, changes, says):
    """llama.cpp computes by them what config.json has no word for."""
    crumb("export", folder_of("llama"), "-o", tmp_path / "plain.gguf", "--to", "gguf")
    with_metadata(tmp_path / "plain.gguf", tmp_path / "m.gguf", changes)
    assert says in crumb("inspect", tmp_path / "m.gguf", status=1).stderr


def test_positions_that_are_divided_twice_are_refused(crumb, folder_of, tmp_path):
    crumb("export", folder_of("llama3"), "-o", tmp_path / "plain.gguf", "--to", "gguf")
    with_metadata(tmp_path / "plain.gguf", tmp_path / "m.gguf", {"rope.scaling.factor": 2.0})
    assert "positions are divided by 2, and by a tensor's factors" in crumb("inspect", tmp_path / "m.gguf", status=1).stderr
    with_metadata(tmp_path / "plain.gguf", tmp_path / "m.gguf", {"rope.scaling.type": "none", "rope.scaling.factor": 2.0})
    crumb("inspect", tmp_path / "m.gguf")


def test_flags_and_names(crumb, folder_of, tmp_path):
    done = crumb("export", folder_of("llama"), "-o", tmp_path / "m.onnx", "--to", "gguf", status=2)
    assert "ends in .gguf" in done.stderr
    done = crumb("export", folder_of("llama"), "-o", tmp_path / "m.gguf", "--to", "gguf", "--opset", "21", status=2)
    assert "--opset is for --to qonnx, qcdq, float, hls4ml-project and finn-project, found --to gguf" in done.stderr


@pytest.mark.parametrize("name", ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4", "nvfp4", "q2_0", "tq2_0", "q1_0"])
def test_presets_name_layouts_that_fit(crumb, folder_of, tmp_path, name):
    folder = folder_of("llama", hidden_size=256, intermediate_size=512, num_hidden_layers=1, head_dim=64)
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--scheme", f"gguf:{name}")
    report = json.loads(crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf", "--json").stdout)
    embedding = {"Q8_0": 1} if name != "q8_0" else {}
    assert {kind: count for kind, count in report["types"].items() if kind != "F32"} == {**embedding, name.upper(): 8 + (name == "q8_0")}
    crumb("quantize", folder, "-o", tmp_path / "n.crumb", "--weights", f"gguf:{name}", "--embeddings", "gguf:q8_0")
    rows = json.loads(crumb("compare", tmp_path / "m.crumb", tmp_path / "n.crumb", "--json").stdout)["tensors"]
    assert rows and all(row["exact_fraction"] == 1 for row in rows)
