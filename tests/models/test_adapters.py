"""Adapters of other tools beside our models, and ours beside theirs: what peft and transformers compute with them, `crumb
perplexity` computes; merged, they are in the matrices."""

import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
safetensors_torch = pytest.importorskip("safetensors.torch")
tiny = pytest.importorskip("tiny_decoders")
LENGTH = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder and a text of words in an order of chance."""
    work = tmp_path_factory.mktemp("adapters")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    return work


def random_adapter(model, folder, seed=0, **how):
    """Of peft, with both matrices drawn, large enough to move the logits."""
    torch.manual_seed(seed)
    base = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    config = {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM", **how}
    adapted = peft.get_peft_model(base, peft.LoraConfig(**config))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.15)
    adapted.save_pretrained(folder)
    return folder


def rewrite(folder, change):
    """The adapter's tensors, changed."""
    path = folder / "adapter_model.safetensors"
    tensors = safetensors_torch.load_file(path)
    change(tensors)
    safetensors_torch.save_file(tensors, path, {"format": "pt"})


def oracle(model, text, adapters=()):
    """Perplexity as `crumb perplexity --context LENGTH` has it: windows side by side, every place but a window's first."""
    network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for folder in adapters:
        network = peft.PeftModel.from_pretrained(network, folder).merge_and_unload()
    network.eval()
    ids = json_ids(model, text)
    sum_, count = 0.0, 0
    with torch.no_grad():
        for begin in range(0, len(ids) - LENGTH + 1, LENGTH):
            window = torch.tensor([ids[begin : begin + LENGTH]])
            log_p = network(window).logits[0].log_softmax(-1)
            sum_ -= sum(float(log_p[i - 1, window[0, i]]) for i in range(1, window.shape[1]))
            count += window.shape[1] - 1
    return float(np.exp(sum_ / count))


def json_ids(model, text):
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")).encode(text.read_text(), add_special_tokens=False).ids


@pytest.fixture
def measured(crumb, made):
    def perplexity(model, *flags):
        done = crumb("perplexity", model, "--text", made / "valid.txt", "--context", LENGTH, "--json", *flags)
        return json.loads(done.stdout)["perplexity"]

    return perplexity


def test_the_oracle_is_one(made, measured):
    assert measured(made / "model") == pytest.approx(oracle(made / "model", made / "valid.txt"), rel=1e-4)


@pytest.mark.parametrize("how", [
    {}, {"use_rslora": True}, {"target_modules": "all-linear", "r": 8}, {"rank_pattern": {"layers.1.self_attn.q_proj": 2},
                                                                         "alpha_pattern": {"down_proj": 16}}])  # fmt: skip
def test_adapters_of_peft_run(crumb, made, measured, tmp_path, how):
    model, text = made / "model", made / "valid.txt"
    adapter = random_adapter(model, tmp_path / "lora", **how)
    plain, wanted = measured(model), oracle(model, text, [adapter])
    assert abs(wanted / plain - 1) > 0.01
    assert measured(model, "--adapter", adapter) == pytest.approx(wanted, rel=1e-4)
    other = random_adapter(model, tmp_path / "other", seed=1)
    both = oracle(model, text, [adapter, other])
    assert measured(model, "--adapter", adapter, "--adapter", other) == pytest.approx(both, rel=1e-4)
    # The same folder twice has two names, and acts twice.
    assert measured(model, "--adapter", adapter, "--adapter", adapter) != pytest.approx(wanted, rel=1e-3)
    crumb("merge", model, "--adapter", adapter, "--adapter", other, "-o", tmp_path / "merged")
    assert oracle(tmp_path / "merged", text) == pytest.approx(both, rel=1e-4)
    with_it, without = (
        json.loads(crumb("generate", model, "--prompt", "zebras", "--tokens", 12, "--json", *flags).stdout)["ids"]
        for flags in (("--adapter", adapter), ())
    )
    assert with_it != without


def test_a_recovered_model_is_what_peft_makes_of_its_base(crumb, made, measured, tmp_path, engine):
    base, out, text = tmp_path / "base.crumb", tmp_path / "out", made / "valid.txt"
    crumb("quantize", made / "model", "-o", base, "--weights", "int2h:group=16", "--embeddings", "int8")
    crumb("recover", base, "--baseline", made / "model", "--data", made / "train.txt", "-o", out, "--length", LENGTH, "--threads", 1,
          "--steps", 12, "--rank", 6, "--rate", 1e-2, "--products", "f32")  # fmt: skip
    crumb("export", base, "--to", "hf", "-o", tmp_path / "floats")
    wanted = oracle(tmp_path / "floats", text, [out / "adapter"])
    assert abs(wanted / oracle(tmp_path / "floats", text) - 1) > 0.05
    assert measured(out / "model.crumb") == pytest.approx(wanted, rel=1e-3)
    assert measured(base, "--adapter", out / "adapter") == pytest.approx(wanted, rel=1e-3)
    crumb("merge", out / "model.crumb", "-o", tmp_path / "merged")
    assert oracle(tmp_path / "merged", text) == pytest.approx(wanted, rel=1e-3)
    # The adapter's numbers are those in the file, to the last bit.
    from safetensors.torch import load_file

    tensors = load_file(out / "adapter/adapter_model.safetensors")
    crumb("dequantize", out / "model.crumb", "-o", tmp_path / "all.safetensors")
    kept = load_file(tmp_path / "all.safetensors")
    found = 0
    for name, tensor in tensors.items():
        part = "lora_A" if "lora_A" in name else "lora_B"
        module = name.removeprefix("base_model.model.").removesuffix(f".{part}.weight")
        assert torch.equal(kept[f"{module}.recovery.{part}"].t().float(), tensor.float()), name
        found += 1
    assert found == 2 * 22


def test_an_adapter_in_a_file_leaves_by_itself(crumb, made, measured, tmp_path, engine):
    """As PEFT's folder and as llama.cpp's file: the same numbers in both, and the same model with either beside the base."""
    gguf = pytest.importorskip("gguf")
    from safetensors.torch import load_file

    base, text = tmp_path / "base.crumb", made / "valid.txt"
    crumb("quantize", made / "model", "-o", base, "--weights", "int3:group=16", "--embeddings", "int8")
    how = ["--baseline", made / "model", "--data", made / "train.txt", "--length", LENGTH, "--threads", 1, "--steps", 8, "--rate", 1e-2,
           "--products", "f32", "--targets", "*_proj"]  # fmt: skip
    crumb("recover", base, *how, "--rank", 5, "--alpha", 7, "-o", tmp_path / "one")
    crumb("recover", tmp_path / "one/model.crumb", *how, "--rank", 3, "--type", "f32", "--name", "more", "-o", tmp_path / "two")
    both = tmp_path / "two/model.crumb"
    assert "has several adapters (more, recovery)" in crumb("export", both, "--to", "adapter", "-o", tmp_path / "no", status=2).stderr
    said = crumb("export", both, "--to", "adapter", "--name", "style", "-o", tmp_path / "no", status=2).stderr
    assert "has more, recovery" in said and not (tmp_path / "no").exists()
    assert "has no adapter" in crumb("export", base, "--to", "adapter", "-o", tmp_path / "no", status=2).stderr
    for name in ("recovery", "more"):
        for out in (name, f"{name}.gguf"):
            crumb("export", both, "--to", "adapter", "--name", name, "-o", tmp_path / out)
    kept, written = (load_file(folder / "adapter_model.safetensors") for folder in (tmp_path / "one/adapter", tmp_path / "recovery"))
    assert set(kept) == set(written) and all(torch.equal(kept[key], written[key]) for key in kept)
    reader = gguf.GGUFReader(tmp_path / "recovery.gguf")
    assert len(reader.tensors) == 2 * 21 and {tensor.tensor_type.name for tensor in reader.tensors} == {"BF16"}
    wanted = measured(both)
    for ending in ("", ".gguf"):
        flags = [part for name in ("recovery", "more") for part in ("--adapter", tmp_path / f"{name}{ending}")]
        assert measured(base, *flags) == pytest.approx(wanted, rel=1e-4)
    crumb("export", base, "--to", "hf", "-o", tmp_path / "floats")
    assert oracle(tmp_path / "floats", text, [tmp_path / "recovery", tmp_path / "more"]) == pytest.approx(wanted, rel=1e-3)


def test_onto_the_grid(crumb, made, measured, tmp_path, engine):
    adapter = random_adapter(made / "model", tmp_path / "lora")
    wanted = oracle(made / "model", made / "valid.txt", [adapter])
    report = {}
    for spec in ("int8:channel", "int2h:group=16"):
        crumb("quantize", made / "model", "-o", tmp_path / "base.crumb", "--weights", spec, "--embeddings", "keep")
        done = crumb("merge", tmp_path / "base.crumb", "--adapter", adapter, "-o", tmp_path / "on.crumb", "--json")
        report[spec] = json.loads(done.stdout)["layers"]
        assert len(report[spec]) == 6 and all(layer["error"] > 0 for layer in report[spec])
        if spec == "int8:channel":
            assert measured(tmp_path / "on.crumb") == pytest.approx(wanted, rel=0.05)
            assert all(layer["error"] < 1e-3 * layer["update"] for layer in report[spec])
    said = crumb("merge", tmp_path / "base.crumb", "--adapter", adapter, "-o", tmp_path / "other.crumb").stdout
    assert "model.layers.0.self_attn.q_proj" in said and "rounding takes" in said
    assert (tmp_path / "on.crumb").read_bytes() == (tmp_path / "other.crumb").read_bytes()
    crumb("verify", tmp_path / "on.crumb")


def test_adapters_of_llama_cpp(crumb, made, measured, tmp_path):
    """The file that llama.cpp's own converter made of a folder of peft's (tests/fixtures/adapters), beside a model of its shape."""
    gguf = pytest.importorskip("gguf")
    model = made / "model"
    config = json.loads((model / "config.json").read_text())
    adapter = random_adapter(model, tmp_path / "lora", target_modules=["v_proj", "up_proj"])
    from safetensors.torch import load_file

    writer = gguf.GGUFWriter(tmp_path / "lora.gguf", "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 6.0)
    names = {"self_attn.v_proj": "attn_v", "mlp.up_proj": "ffn_up"}
    for name, tensor in load_file(adapter / "adapter_model.safetensors").items():
        _, _, _, _, layer, *module, part, _ = name.split(".")
        writer.add_tensor(f"blk.{layer}.{names['.'.join(module)]}.weight.{part.lower()}", tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert config["model_type"] == "llama"
    wanted = oracle(model, made / "valid.txt", [adapter])
    assert measured(model, "--adapter", tmp_path / "lora.gguf") == pytest.approx(wanted, rel=1e-4)


def test_on_and_off_in_one_conversation(crumb, made, tmp_path):
    """Each answer is that of the network that the line before asked for, whatever was said by the other."""
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role[0] }}{{ m.content }}\n{% endfor %}a")
    adapter = random_adapter(model, tmp_path / "lora")
    how = ["--tokens", 6, "--chat"]

    def talk(*lines, flags=("--adapter", adapter)):
        return crumb("generate", model, *how, *flags, input="\n".join(lines) + "\n", stdin=None).stdout

    def once(said, *flags):
        return json.loads(crumb("generate", model, "--tokens", 6, *flags, "--prompt", said, "--json").stdout)["text"]

    script = ["Hi", "/adapters off", "And?", "Why?", "/adapters on", "So?", "/adapters off", "/adapters on", "/adapters off", "Hm"]
    said, wanted, on = "", "", True
    for line in script:
        if line.startswith("/"):
            on = line.endswith("on")
            continue
        said += f"u{line}\na" if not said else f"\nu{line}\na"
        answer = once(said, *(("--adapter", adapter) if on else ()))
        said += answer
        wanted += answer + "\n"
    assert talk(*script) == wanted
    assert talk("Hi", "And?") != talk("/adapters off", "Hi", "And?") == talk("Hi", "And?", flags=())
    # What the bare network kept is the bare network's.
    cache = tmp_path / "cache"
    talk("/adapters off", "Hi", flags=("--adapter", adapter, "--save-cache", cache))
    load = ("--prompt", "uHi\na", "--tokens", 1, "--load-cache", cache)
    assert "adapters of --adapter: 'none' there" in crumb("generate", model, "--adapter", adapter, *load, status=1).stderr
    crumb("generate", model, *load)
    other = random_adapter(model, tmp_path / "other", seed=9)
    talk("Hi", flags=("--adapter", adapter, "--save-cache", cache))
    assert "adapters of --adapter" in crumb("generate", model, "--adapter", other, *load, status=1).stderr
    crumb("generate", model, "--adapter", adapter, *load)


def test_a_file_without_its_adapters_is_its_base(crumb, made, measured, tmp_path, engine):
    from safetensors.torch import load_file

    base = tmp_path / "base.crumb"
    crumb("quantize", made / "model", "-o", base, "--weights", "int3:group=16", "--embeddings", "int8")
    crumb("recover", base, "--baseline", made / "model", "--data", made / "train.txt", "--length", LENGTH, "--threads", 1, "--steps", 4,
          "--rate", 1e-2, "--rank", 5, "-o", tmp_path / "one")  # fmt: skip
    recovered = tmp_path / "one/model.crumb"
    assert measured(recovered, "--without-adapters") == measured(base) != measured(recovered)
    crumb("export", recovered, "--to", "packed", "--without-adapters", "-o", tmp_path / "again.crumb")
    assert measured(tmp_path / "again.crumb") == measured(base)
    crumb("dequantize", base, "-o", tmp_path / "base.safetensors")
    crumb("dequantize", tmp_path / "again.crumb", "-o", tmp_path / "again.safetensors")
    kept, again = (load_file(tmp_path / f"{name}.safetensors") for name in ("base", "again"))
    assert kept.keys() == again.keys() and all((kept[name] == again[name]).all() for name in kept)
    adapter = random_adapter(made / "model", tmp_path / "lora")
    assert measured(recovered, "--without-adapters", "--adapter", adapter) == measured(base, "--adapter", adapter)


def test_what_does_not_fit_is_named(crumb, made, tmp_path):
    model = made / "model"
    adapter = random_adapter(model, tmp_path / "lora")

    def refused(*command, status=1):
        return crumb(*command, status=status).stderr

    tiny.make("phi3", tmp_path / "phi3")
    said = refused("perplexity", tmp_path / "phi3", "--text", made / "valid.txt", "--context", LENGTH, "--adapter", adapter)
    assert "lora" in said and ("multiplies by no matrix" in said or "takes" in said)
    assert "expected a low-rank adapter" in refused("generate", model, "--prompt", "a", "--adapter", made / "valid.txt")
    assert "has no adapter" in refused("merge", model, "-o", tmp_path / "none", status=2)
    assert "--shard is for a folder in floats" in refused("merge", model, "--adapter", adapter, "--shard", "1MB", "-o", tmp_path / "none.crumb", status=2)
    assert "a file that ends in .gguf comes from crumb export --to gguf" in refused("merge", model, "--adapter", adapter, "-o", tmp_path / "none.gguf", status=2)
    assert not (tmp_path / "none").exists()
    shutil.copytree(adapter, tmp_path / "broken")
    (tmp_path / "broken/adapter_model.safetensors").write_bytes(b"\0" * 20)
    assert "broken" in refused("merge", model, "--adapter", tmp_path / "broken", "-o", tmp_path / "none")
    assert "--weights is for -o FILE.crumb" in refused("merge", model, "--adapter", adapter, "--weights", "int8", "-o", tmp_path / "none", status=2)


HEAD = "base_model.model.lm_head"


def as_bfloat16(tensors):
    for name in tensors:
        if "lora_" not in name:
            tensors[name] = tensors[name].bfloat16()


def as_older_peft(tensors):
    for name in [name for name in tensors if "lora_" not in name]:
        module, member = name.rsplit(".", 1)
        tensors[f"{module}.modules_to_save.default.{member}"] = tensors.pop(name)


COPIES = {
    "the head is adapted": ({"target_modules": ["q_proj", "lm_head"]}, None),
    "the same in bfloat16": ({"target_modules": ["q_proj", "lm_head"]}, as_bfloat16),
    "modules that were not trained": ({"modules_to_save": ["lm_head", "embed_tokens", "input_layernorm"]}, None),
    "under the names of older versions": ({"modules_to_save": ["lm_head"]}, as_older_peft),
}


@pytest.mark.parametrize("case", COPIES)
def test_what_repeats_the_base_changes_nothing(crumb, made, measured, tmp_path, case):
    how, change = COPIES[case]
    model, text = made / "model", made / "valid.txt"
    adapter = random_adapter(model, tmp_path / "lora", **how)
    wanted = oracle(model, text, [adapter])
    copies = [name for name in safetensors_torch.load_file(adapter / "adapter_model.safetensors") if "lora_" not in name]
    assert copies
    if change:
        rewrite(adapter, change)
    assert measured(model, "--adapter", adapter) == pytest.approx(wanted, rel=1e-4)
    crumb("merge", model, "--adapter", adapter, "-o", tmp_path / "merged")
    assert oracle(tmp_path / "merged", text) == pytest.approx(wanted, rel=1e-4)
    # Codes are not the copy's numbers: they stay, and the note says how far the two are apart.
    crumb("quantize", model, "-o", tmp_path / "m.crumb", "--weights", "int4:group=16")
    done = crumb("perplexity", tmp_path / "m.crumb", "--adapter", adapter, "--text", text, "--context", LENGTH)
    assert "the adapter holds 'lm_head.weight' whole; the base's own, in int4:group=16, stays in use" in done.stderr


def test_what_differs_from_the_base_is_refused(crumb, made, tmp_path):
    model = made / "model"
    adapter = random_adapter(model, tmp_path / "lora", target_modules=["q_proj", "lm_head"])
    stored = f"{HEAD}.base_layer.weight"

    def refused(change, base=model):
        shutil.rmtree(tmp_path / "changed", ignore_errors=True)
        shutil.copytree(adapter, tmp_path / "changed")
        rewrite(tmp_path / "changed", change)
        done = crumb("merge", base, "--adapter", tmp_path / "changed", "-o", tmp_path / "out", status=1)
        assert not (tmp_path / "out").exists()
        return done.stderr

    def one_number(tensors):
        tensors[stored][1, 2] = torch.nextafter(tensors[stored][1, 2], torch.tensor(9.0))

    def not_a_number(tensors):
        tensors[stored][0, 0] = float("nan")

    for change in (one_number, not_a_number):
        assert f"'{stored}' is saved whole and differs from the base's 'lm_head.weight' in 1 number, by " in refused(change)
    assert "is saved whole with the shape [3, 4], and the base's" in refused(lambda tensors: tensors.update({stored: torch.zeros(3, 4)}))
    other = "base_model.model.x.weight"
    assert "has no tensor 'x.weight' with which to compare it" in refused(lambda tensors: tensors.update({other: torch.zeros(3, 4)}))
    crumb("quantize", model, "-o", tmp_path / "m.crumb", "--weights", "int4:group=16")
    assert "with the shape [3, 4]" in refused(lambda tensors: tensors.update({stored: torch.zeros(3, 4)}), tmp_path / "m.crumb")
