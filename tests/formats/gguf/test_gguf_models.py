"""Models of every architecture that Crumb knows, converted as llama.cpp does: read, they are the model that went in, in
their tensors, their configuration and what transformers computes from both."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))
from llama_cpp_conversion import convert  # noqa: E402
from tiny_decoders import Family, model_of, reference, tokens  # noqa: E402

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
FAMILIES = {
    "llama": Family("llama", {"rope_theta": 500.0}),
    "llama-tied": Family("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama-wide-heads": Family("llama", {"head_dim": 12, "attention_bias": True}),
    "llama3": Family("llama", {"head_dim": 64, "rope_scaling": LLAMA3, "rope_theta": 500000.0}),
    "llama-linear": Family("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "qwen2": Family("qwen2", {}),
    "qwen3": Family("qwen3", {"head_dim": 16}),
    "gemma2": Family("gemma2", {"head_dim": 10, "sliding_window": 7, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 2.0,
                                "final_logit_softcapping": 9.0}),
    "gemma3": Family("gemma3_text", {"head_dim": 12, "sliding_window": 5, "num_hidden_layers": 6, "query_pre_attn_scalar": 12}),
    "phi3": Family("phi3", {"original_max_position_embeddings": 64, "partial_rotary_factor": 0.5, "sliding_window": 9}),
    "olmo2": Family("olmo2", {"num_key_value_heads": 4}),
    "smollm3": Family("smollm3", {"no_rope_layers": [1, 1, 1, 0]}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_converted_model_is_the_model_again(crumb, tmp_path, name):
    import transformers

    model = model_of(FAMILIES[name])
    convert(model, tmp_path / "m.gguf")
    folder = tmp_path / "again"
    crumb("quantize", tmp_path / "m.gguf", "-o", tmp_path / "m.crumb", "--exclude", "*", "--weights", "int8:channel")
    crumb("dequantize", tmp_path / "m.crumb", "-o", folder, "--shard", "1GB")

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
    ids = tokens()
    assert np.abs(reference(again, ids) - reference(model, ids)).max() <= 1e-4


def writer_of(path, architecture="llama"):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(64)
    writer.add_embedding_length(8)
    writer.add_block_count(1)
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
    """Rows go their way as blocks, and meet their neighbours again."""
    from llama_cpp_conversion import interleave

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


def test_factors_that_are_no_scaling_are_refused(crumb, tmp_path):
    writer = writer_of(tmp_path / "m.gguf")
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.float32))
    writer.add_tensor("rope_freqs.weight", np.array([3, 1], np.float32))
    finish(writer)
    done = crumb("inspect", tmp_path / "m.gguf", status=1)
    assert "'rope_freqs.weight': its factors are not those of Llama 3's scaling" in done.stderr


def test_an_unknown_architecture_keeps_its_names(crumb, tmp_path):
    writer = writer_of(tmp_path / "m.gguf", "mamba")
    writer.add_tensor("blk.0.ssm_in.weight", np.ones((4, 8), np.float32))
    finish(writer)
    done = crumb("inspect", tmp_path / "m.gguf", "--tensors")
    assert "blk.0.ssm_in.weight" in done.stdout
    assert "'mamba', which Crumb does not know" in done.stderr
