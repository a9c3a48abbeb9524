"""What llama.cpp's converter makes of a transformers model, written with the `gguf` package: names are the package's own,
the order of rows and the norms are changed here as the converter changes them."""

import math

import gguf
import numpy as np

ARCHITECTURES = {"gemma3_text": "gemma3"}
INTERLEAVED = ("llama", "smollm3")


def interleave(rows, heads):
    """The converter's `permute`."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def llama3_factors(config, rope):
    """The tensor rope_freqs.weight."""
    size = config.head_dim or config.hidden_size // config.num_attention_heads
    theta, context = rope["rope_theta"], rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    factors = []
    for frequency in 1.0 / (theta ** (np.arange(0, size, 2, dtype=np.float32) / size)):
        wave = 2 * np.pi / frequency
        smooth = (context / wave - low) / (high - low)
        middle = 1 / ((1 - smooth) / rope["factor"] + smooth)
        factors.append(1 if wave < context / high else rope["factor"] if wave > context / low else middle)
    return np.array(factors, np.float32)


def write_parameters(writer, config):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    if config.model_type == "gemma3_text":
        rope = rope["full_attention"]
    if config.model_type == "phi3":
        writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1)))
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    else:
        writer.add_key_length(head)
        writer.add_value_length(head)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "longrope":
        longer, original = config.max_position_embeddings, config.original_max_position_embeddings
        writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(longer / original) / math.log(original)))
    if getattr(config, "sliding_window", None) and config.model_type in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    return rope


def convert(model, path):
    """Writes a transformers model as GGUF, in float32."""
    config = model.config
    name = ARCHITECTURES.get(config.model_type, config.model_type)
    kind = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == name)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, name)
    rope = write_parameters(writer, config)
    tied = config.tie_word_embeddings
    for tensor, values in model.state_dict().items():
        if tensor == "lm_head.weight" and tied:
            continue
        rows = values.numpy()
        if name in INTERLEAVED and ".q_proj." in tensor:
            rows = interleave(rows, config.num_attention_heads)
        if name in INTERLEAVED and ".k_proj." in tensor:
            rows = interleave(rows, config.num_key_value_heads)
        if name.startswith("gemma") and tensor.endswith("norm.weight"):
            rows = rows + np.float32(1)
        writer.add_tensor(names.get_name(tensor, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(rows))
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config, rope))
    if rope["rope_type"] == "longrope":
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
