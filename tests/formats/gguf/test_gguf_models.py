"""Models of every architecture that Crumb knows, converted as llama.cpp does: read, they are the model that went in, in
their tensors, their configuration and what transformers computes from both."""

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
from llama_cpp_conversion import convert, interleave  # noqa: E402

SIZES = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
FAMILIES = {
    "llama": ("llama", {"rope_theta": 500.0}),
    "llama-tied": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama-wide-heads": ("llama", {"head_dim": 12, "attention_bias": True}),
    "llama3": ("llama", {"head_dim": 64, "rope_scaling": LLAMA3, "rope_theta": 500000.0}),
    "llama-linear": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "gemma2": ("gemma2", {"head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 2.0,
                          "final_logit_softcapping": 9.0}),
    "gemma3": ("gemma3_text", {"head_dim": 12, "sliding_window": 5, "num_hidden_layers": 6, "query_pre_attn_scalar": 12}),
    "phi3": ("phi3", {"original_max_position_embeddings": 64, "partial_rotary_factor": 0.5, "sliding_window": 9}),
    "qwen2-yarn": ("qwen2", {"hidden_size": 64, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                   "original_max_position_embeddings": 16}}),
    "phi3-long": ("phi3", {"original_max_position_embeddings": 16, "rope_scaling": {"rope_type": "longrope",
                  "short_factor": [1.0, 1.25, 1.7, 2.0], "long_factor": [1.1, 2.5, 6.0, 11.0]}}),
    "olmo2": ("olmo2", {"num_key_value_heads": 4}),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 1, 1, 0]}),
}  # fmt: skip


def model_of(name):
    """A model of random weights in which nothing is without effect."""
    model_type, changes = FAMILIES[name]
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **changes})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    with torch.no_grad():
        for values in model.parameters():
            values.copy_(torch.randn_like(values) * (0.3 if values.dim() == 1 else values.shape[1] ** -0.5))
        model.tie_weights()
    return model


def logits(model):
    ids = torch.from_numpy(np.random.default_rng(5).integers(3, SIZES["vocab_size"], (2, 24)))
    with torch.no_grad():
        return model(ids, use_cache=False).logits.numpy()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_converted_model_is_the_model_again(crumb, tmp_path, name):
    model = model_of(name)
    convert(model, tmp_path / "m.gguf")
    folder = tmp_path / "again"
    crumb("dequantize", tmp_path / "m.gguf", "-o", folder)

    expected = {key: value.numpy() for key, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del expected["lm_head.weight"]
    got = safetensors_numpy.load_file(folder / "model.safetensors")
    assert set(got) == set(expected)
    for tensor, values in expected.items():
        if name.startswith("gemma") and tensor.endswith("norm.weight"):
            values = (values + np.float32(1)) - np.float32(1)  # the converter rounds
        assert np.array_equal(got[tensor], values), tensor

    again = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    assert type(again) is type(model)
    expected = logits(model)
    assert expected.std() > 0.1
    assert np.abs(logits(again) - expected).max() <= 1e-5 * np.abs(expected).max()


def writer_of(path, architecture="llama", layers=1):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(8)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "int16", "int32", "int64"])
def test_plain_types_stay_what_they_are(crumb, tmp_path, dtype):
    values = np.arange(-12, 12).reshape(2, 3, 4).astype(dtype)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "odd")
    writer.add_tensor("some.bias", values)
    finish(writer)
    crumb("quantize", tmp_path / "m.gguf", "-o", tmp_path / "m.crumb", "--weights", "int8:channel")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "m.safetensors")
    got = safetensors_numpy.load_file(tmp_path / "m.safetensors")["some.bias"]
    assert got.dtype == (np.float32 if "float" in dtype else values.dtype)
    assert np.array_equal(got, values)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K", "BF16", "F16"])
def test_rows_of_blocks_are_put_in_order(crumb, tmp_path, kind):
    kind = gguf.GGMLQuantizationType[kind]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(2).integers(0, 50, (16, 512 // elements * size), dtype=np.uint8)
    if kind.name == "F16":
        data = data.view(np.float16)
    writer = writer_of(tmp_path / "m.gguf")
    writer.add_head_count_kv(1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.float32))
    for name, heads in (("q", 2), ("k", 1)):
        writer.add_tensor(f"blk.0.attn_{name}.weight", np.ascontiguousarray(interleave(data, heads)), raw_dtype=kind)
    finish(writer)
    crumb("quantize", tmp_path / "m.gguf", "-o", tmp_path / "m.crumb", "--exclude", "*", "--weights", "int8:channel")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "m.safetensors")
    got = safetensors_numpy.load_file(tmp_path / "m.safetensors")
    want = gguf.quants.dequantize(data, kind).astype(np.float32)
    for name in "qk":
        assert np.array_equal(got[f"model.layers.0.self_attn.{name}_proj.weight"], want)


@pytest.mark.parametrize("factors", [[0, 1], [-2, 1], [np.inf, 1], [1, np.nan]])
def test_factors_that_divide_by_no_number_are_refused(crumb, tmp_path, factors):
    writer = writer_of(tmp_path / "m.gguf")
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.float32))
    writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
    finish(writer)
    done = crumb("inspect", tmp_path / "m.gguf", status=1)
    assert "'rope_freqs.weight': it divides by what is no number above 0" in done.stderr


def test_layers_without_end_are_refused(crumb, tmp_path):
    """Found by fuzzing: what a configuration says is laid out before a tensor is missed."""
    writer = writer_of(tmp_path / "m.gguf", layers=2**31 - 1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.float32))
    finish(writer)
    done = crumb("export", tmp_path / "m.gguf", "-o", tmp_path / "m.onnx", "--to", "float", status=1)
    assert "num_hidden_layers is 2147483647, expected at most 16384" in done.stderr


def test_an_unknown_architecture_keeps_its_names(crumb, tmp_path):
    writer = writer_of(tmp_path / "m.gguf", "mamba")
    writer.add_tensor("blk.0.ssm_in.weight", np.ones((4, 8), np.float32))
    finish(writer)
    done = crumb("inspect", tmp_path / "m.gguf", "--tensors")
    assert "blk.0.ssm_in.weight" in done.stdout
    assert "'mamba', which Crumb does not know" in done.stderr


def test_a_folder_or_a_file_is_written(crumb, tmp_path):
    writer = writer_of(tmp_path / "m.gguf")
    writer.add_tensor("token_embd.weight", np.ones((4, 8), np.float16))
    writer.add_tensor("output_norm.weight", np.ones(8, np.float32))
    finish(writer)
    crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "m.safetensors")
    got = safetensors_numpy.load_file(tmp_path / "m.safetensors")
    assert {name: array.dtype.name for name, array in got.items()} == {
        "model.embed_tokens.weight": "float32",
        "model.norm.weight": "float32",
    }
    for _ in range(2):  # a second run finds what it left
        crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "folder")
        names = {path.name for path in (tmp_path / "folder").iterdir()}
        assert names == {"config.json", "generation_config.json", "model.safetensors"}
    crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "shards", "--shard", "100B")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) == 2
    (tmp_path / "folder" / "config.json").write_text("{}")
    done = crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "folder", status=1)
    assert "'config.json'" in done.stderr
    done = crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "m.gguf", "--shard", "1GB", status=2)
    assert "a folder is written" in done.stderr and (tmp_path / "m.gguf").is_file()


def test_files_of_a_folder_are_stronger_than_made_ones(crumb, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    writer = writer_of(folder / "m.gguf")
    writer.add_tensor("token_embd.weight", np.ones((4, 8), np.float32))
    finish(writer)
    (folder / "generation_config.json").write_text('{"of": "the folder"}')
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8:channel")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "out", "--shard", "1GB")
    assert '"llama"' in (tmp_path / "out" / "config.json").read_text()
    assert (tmp_path / "out" / "generation_config.json").read_text() == '{"of": "the folder"}'
