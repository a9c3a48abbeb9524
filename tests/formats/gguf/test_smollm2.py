"""A published language model: SmolLM2-135M-Instruct as GGUF, Q4_1, Q8_0 and F32."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
HEADS = {"q": 9, "k": 3}
PARTS = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm", "token_embd": "model.embed_tokens", "output_norm": "model.norm",
}  # fmt: skip


def hugging_face_name(name):
    if not name.startswith("blk."):
        stem, end = name.split(".")
        return f"{PARTS[stem]}.{end}"
    _, layer, stem, end = name.split(".")
    return f"model.layers.{layer}.{PARTS[stem]}.{end}"


def in_order(rows, heads):
    size = len(rows) // heads
    return rows.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def tensors_of(path):
    """What the `gguf` package reads, as the checkpoint has it."""
    found = {}
    for tensor in gguf.GGUFReader(path).tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        part = tensor.name.split(".")[-2]
        if part in ("attn_q", "attn_k"):
            values = in_order(values, HEADS[part[-1]])
        found[hugging_face_name(tensor.name)] = np.ascontiguousarray(values)
    return found


@pytest.fixture(scope="module")
def made(crumb, smollm2, tmp_path_factory):
    """The model as a packed file, its report, and the folder that comes of the packed file."""
    folder = tmp_path_factory.mktemp("smollm2")
    packed = folder / "m.crumb"
    report = json.loads(crumb("quantize", smollm2, "-o", packed, "--weights", "int4:group=32", "--json").stdout)
    crumb("dequantize", packed, "-o", folder / "hf", "--shard", "1GB")
    yield packed, report, folder / "hf"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def folder(crumb, smollm2, tmp_path_factory):
    """The Hugging Face folder that the file was made from."""
    folder = tmp_path_factory.mktemp("smollm2") / "float"
    crumb("dequantize", smollm2, "-o", folder)
    yield folder
    shutil.rmtree(folder)


def test_values_are_those_of_the_package(crumb, smollm2, folder):
    load_file = pytest.importorskip("safetensors.numpy").load_file
    expected = tensors_of(smollm2)
    got = load_file(folder / "model.safetensors")
    assert len(expected) == 272
    assert set(got) == set(expected)
    for name, values in expected.items():
        assert np.array_equal(got[name], values), name
    rows = json.loads(crumb("compare", folder, smollm2, "--json").stdout)["tensors"]
    assert len(rows) == 272 and all(row["exact_fraction"] == 1 for row in rows)


def test_it_is_listed(crumb, smollm2):
    report = json.loads(crumb("inspect", smollm2, "--json").stdout)
    assert (report["kind"], len(report["tensors"])) == ("gguf", 272)
    assert "skipped" not in report
    embedding = next(row for row in report["tensors"] if row["name"] == "model.embed_tokens.weight")
    assert (embedding["shape"], embedding["dtype"], embedding["stored_as"]) == ([49152, 576], "F32", "Q8_0")
    assert embedding["spec"] is None and embedding["bytes"] == 49152 * 576 // 32 * 34
    found = {row["stored_as"]: (row["tensors"], row["weights"], row["bits_per_weight"]) for row in report["stored"]}
    assert found == {"F32": (61, 61 * 576, 32), "Q4_1": (210, 106_168_320, 5), "Q8_0": (1, 49152 * 576, 8.5)}
    bits = 61 * 576 * 32 + 106_168_320 * 5 + 49152 * 576 * 8.5
    assert report["bits_per_weight"] == pytest.approx(bits / 134_515_008, rel=1e-12)


def test_a_packed_one_is_looked_at_quickly(crumb, made):
    start = time.monotonic()
    text = crumb("inspect", made[0]).stdout
    assert time.monotonic() - start < 5  # 0.5 s on a machine of its own; it took 17 s to draw what nobody asked for
    assert len(text.split("\n")) < 20 and "int4:group=32" in text and "operators:" not in text


def test_it_is_quantized_in_little_memory(made):
    _, report, _ = made
    specs = [row["spec"] for row in report["tensors"]]
    assert specs.count("int4:group=32") == 210
    assert report["peak_rss_bytes"] < 2 * 49152 * 576 * 4 + (200 << 20)


def test_the_memory_can_be_said(crumb, smollm2, tmp_path):
    command = ["quantize", smollm2, "-o", tmp_path / "m.crumb", "--weights", "int4:group=32", "--json"]
    report = json.loads(crumb(*command, "--memory", "150MB").stdout)
    assert report["peak_rss_bytes"] <= 150_000_000


def test_the_configuration_is_the_models(made):
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(made[2])
    expected = {
        "model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True, "vocab_size": 49152, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 2,
    }  # fmt: skip
    assert {key: getattr(config, key) for key in expected} == expected
    assert config.rope_parameters["rope_theta"] == 100000
    assert config.rope_parameters["rope_type"] == "default"


def test_the_tokenizer_gives_the_models_ids(made):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(made[2] / "tokenizer.json"))
    assert tokenizer.encode("The capital of France is").ids == [504, 3575, 282, 4649, 314]
    assert tokenizer.encode("a  5").ids == [81, 256, 37]
    assert tokenizer.encode("<|im_start|>user\nHi<|im_end|>").ids[0] == 1
    golden = np.load(Path(__file__).resolve().parents[2] / "fixtures/smollm2_valid_ids.npy").tolist()
    text = tokenizer.decode(golden, skip_special_tokens=False)
    assert tokenizer.encode(text).ids == golden


def test_transformers_reads_the_tokenizer(made):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(made[2])
    assert tokenizer("a  5").input_ids == [81, 256, 37]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    assert chat == (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_transformers_runs_the_model(folder):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    model, loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loaded["missing_keys"] and not loaded["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits = model(**tokenizer("The capital of France is", return_tensors="pt")).logits[0, -1]
    assert tokenizer.decode(int(logits.argmax())) == " Paris"


def test_the_packed_file_holds_the_same_files(made, folder):
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (made[2] / name).read_bytes() == (folder / name).read_bytes()
