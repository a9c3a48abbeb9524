"""Folders of floats that load as the numbers that lie in them: what transformers makes of config.json without being told a type,
what --dtype rounds and says, and a tokenizer whose output generate() takes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from safetensors.torch import load_file, save_file  # noqa: E402

sys.path.append(str(Path(__file__).parents[1] / "text"))
from sample_tokenizers import save_tokenizer  # noqa: E402

TINY = dict(vocab_size=1200, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)  # fmt: skip
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def make_model(folder, name, keys=("dtype",)):
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model("llama", **TINY)
    transformers.AutoModelForCausalLM.from_config(config).to(TYPES[name]).save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text())
    for key in ("dtype", "torch_dtype"):
        said.pop(key, None)
    said |= dict.fromkeys(keys, name)
    (folder / "config.json").write_text(json.dumps(said))
    return folder


def make_adapter(folder, rank=2):
    rng = torch.Generator().manual_seed(4)
    prefix = "base_model.model.model.layers.0.self_attn.q_proj"
    folder.mkdir()
    save_file({f"{prefix}.lora_A.weight": torch.randn(rank, 32, generator=rng), f"{prefix}.lora_B.weight": torch.randn(32, rank, generator=rng)},
              folder / "adapter_model.safetensors")  # fmt: skip
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none", "task_type": "CAUSAL_LM",
              "base_model_name_or_path": "tiny/base"}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def stored(folder):
    return {name: tensor for path in folder.glob("*.safetensors") for name, tensor in load_file(path).items()}


def check_loads_as_stored(folder):
    """Without arguments transformers has every number that the folder has."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    state, numbers = model.state_dict(), stored(folder)
    compared = [name for name in numbers if name in state]
    assert len(compared) > 8
    for name in compared:
        assert torch.equal(state[name].double(), numbers[name].double()), name
    return model


@pytest.mark.parametrize("keys", [("dtype",), ("torch_dtype",), ("dtype", "torch_dtype"), ()])
@pytest.mark.parametrize("name", TYPES)
def test_folders_say_what_they_hold(crumb, tmp_path, name, keys):
    source = make_model(tmp_path / "source", name, keys)
    packed = tmp_path / "m.crumb"
    crumb("quantize", source, "-o", packed, "--weights", "int8")
    adapter = make_adapter(tmp_path / "adapter")
    commands = {"hf": ["export", packed, "--to", "hf"], "dequantized": ["dequantize", packed],
                "merged": ["merge", source, "--adapter", adapter]}  # fmt: skip
    for made, command in commands.items():
        if keys and made != "merged" and name == "float16":
            continue  # as bfloat16
        crumb(*command, "-o", tmp_path / made)
        said = json.loads((tmp_path / made / "config.json").read_text())
        for key in keys:
            assert said[key] == "float32", (made, said)
        check_loads_as_stored(tmp_path / made)


def test_parts_of_a_configuration_say_the_type_too(crumb, tmp_path):
    source = make_model(tmp_path / "source", "bfloat16")
    config = json.loads((source / "config.json").read_text()) | {"text_config": {"torch_dtype": "bfloat16", "other": [1]}}
    (source / "config.json").write_text(json.dumps(config))
    crumb("quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int8")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "out")
    assert json.loads((tmp_path / "out/config.json").read_text()) == config | {
        "dtype": "float32", "text_config": {"torch_dtype": "float32", "other": [1]}}  # fmt: skip


@pytest.mark.parametrize("flag, name", [("bf16", "bfloat16"), ("f16", "float16"), ("f32", "float32")])
def test_rounding_is_that_of_torch_and_its_cost_is_said(crumb, tmp_path, flag, name):
    source = make_model(tmp_path / "source", "float32")
    adapter = make_adapter(tmp_path / "adapter")
    crumb("quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int4:group=16")
    for made, command in {"hf": ["export", tmp_path / "m.crumb", "--to", "hf"], "deq": ["dequantize", tmp_path / "m.crumb"],
                          "merged": ["merge", source, "--adapter", adapter]}.items():  # fmt: skip
        crumb(*command, "-o", tmp_path / f"exact {made}")
        said = crumb(*command, "-o", tmp_path / made, "--dtype", flag).stderr
        exact, rounded = stored(tmp_path / f"exact {made}"), stored(tmp_path / made)
        changed, largest = 0, 0.0
        for tensor_name, tensor in exact.items():
            expected = tensor.to(TYPES[name])
            assert rounded[tensor_name].dtype == TYPES[name] and torch.equal(rounded[tensor_name], expected), tensor_name
            there = (tensor != expected.float()) & (expected != 0)
            changed += int((tensor != expected.float()).sum())
            if there.any():
                apart = (expected.double() - tensor.double()).abs() / tensor.double().abs()
                largest = max(largest, float(apart[there].max()))
        assert json.loads((tmp_path / made / "config.json").read_text())["dtype"] == name
        if name == "float32":
            assert "rounding" not in said
            continue
        count, percent = re.search(r"rounding to \w+ changes (\d+) numbers? of \d+, by at most (\S+) %", said).groups()
        assert int(count) == changed and percent == f"{100 * largest:.2g}", said
        check_loads_as_stored(tmp_path / made)


def test_numbers_beyond_float16_are_an_error_by_name_and_small_ones_are_counted(crumb, tmp_path):
    tensors = {"a.weight": torch.tensor([[1e-9, 2e-9, 1.0]]), "b.weight": torch.tensor([[70000.0, 1.0]])}
    save_file(tensors, tmp_path / "m.safetensors")
    crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "keep", "--embeddings", "keep")
    said = crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "x.safetensors", "--dtype", "f16", status=1).stderr
    assert "'b.weight'" in said and "65504" in said and "bf16" in said
    assert not (tmp_path / "x.safetensors").exists()
    save_file({"a.weight": tensors["a.weight"]}, tmp_path / "m.safetensors")
    crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "keep", "--embeddings", "keep")
    said = crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "x.safetensors", "--dtype", "f16").stderr
    assert "2 of them become 0" in said
    assert load_file(tmp_path / "x.safetensors")["a.weight"].tolist() == [[0.0, 0.0, 1.0]]


def test_flags_of_types_are_refused_where_there_are_no_floats(crumb, tmp_path):
    source = make_model(tmp_path / "source", "float32")
    crumb("quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int8")
    assert "--to hf" in crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "x.gguf", "--to", "gguf", "--dtype", "f16", status=2).stderr
    adapter = make_adapter(tmp_path / "adapter")
    said = crumb("merge", source, "--adapter", adapter, "-o", tmp_path / "x.crumb", "--dtype", "f16", status=2).stderr
    assert "--dtype" in said and "x.crumb" in said


@pytest.mark.parametrize("token_types", [False, True])
def test_what_a_tokenizer_makes_can_be_given_to_generate(crumb, tmp_path, token_types):
    source = make_model(tmp_path / "source", "float32")
    save_tokenizer("gpt2", source)
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "note": "é"}
    (source / "tokenizer_config.json").write_text(json.dumps(said))
    if token_types:
        config = json.loads((source / "config.json").read_text()) | {"type_vocab_size": 2}
        (source / "config.json").write_text(json.dumps(config))
    crumb("quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int8", "--embeddings", "int8")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "out")
    made = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    if token_types:
        assert made == said
        return
    assert made == said | {"model_input_names": ["input_ids", "attention_mask"]}
    model = check_loads_as_stored(tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    out = model.generate(**tokenizer("The quick", return_tensors="pt"), max_new_tokens=2, do_sample=False)
    assert out.shape[1] > 2 and np.all(out.numpy() >= 0)


FORKED = """
import json, os, sys
held = bytearray(b"x") * 600_000_000
read, write = os.pipe()
if os.fork() == 0:
    os.dup2(write, 1)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(write)
print(json.loads(os.fdopen(read).read())["peak_rss_bytes"])
"""


def test_memory_is_the_processs_own(crumb_bin, tmp_path):
    """Started by a process that holds 600 MB, as a fork of it."""
    source = make_model(tmp_path / "source", "float32")
    save_tokenizer("gpt2", source)
    for command in (["generate", source, "--prompt", "The", "--tokens", "2"], ["quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int8"]):
        line = [sys.executable, "-c", FORKED, crumb_bin, *command, "--json"]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        assert 1_000_000 < int(done.stdout) < 300_000_000, done.stdout
