"""crumb export --to compressed-tensors and --to hf: transformers loads the folder, with the compressed-tensors package, to the
values of the packed file, bit for bit, and computes the logits of its float twin."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("compressed_tensors")
sys.path.append(str(Path(__file__).parents[2] / "models"))
tiny = pytest.importorskip("tiny_decoders")
from safetensors.torch import load_file, save_file  # noqa: E402

IDS = torch.arange(16)[None] * 7 % 280


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A tiny decoder whose rows are multiples of 32."""
    tiny.CONFIGS["aligned"] = {**tiny.LLAMA, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16,
                               "num_key_value_heads": 4, "num_hidden_layers": 2}  # fmt: skip
    tiny.VARIANTS["aligned"] = []
    folder = tmp_path_factory.mktemp("decoder")
    tiny.make("aligned", folder)
    return folder


def load(folder, **options):
    """A model with its weights decompressed."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
    with torch.no_grad():
        model(IDS)  # decompresses
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(IDS).logits.float()


def same_bits(ours, theirs):
    return np.array_equal(ours.float().numpy().view(np.uint32), theirs.float().numpy().view(np.uint32))


def exported(crumb, decoder, folder, spec, *flags):
    """The packed file, the folder that compressed-tensors reads, and the one in floats."""
    packed = folder / "m.crumb"
    crumb("quantize", decoder, "-o", packed, "--weights", spec, *flags)
    done = crumb("export", packed, "-o", folder / "ct", "--to", "compressed-tensors")
    assert "read back, all numbers are the same" in done.stdout
    crumb("export", packed, "-o", folder / "hf", "--to", "hf")
    crumb("compare", packed, folder / "ct")
    return packed, folder / "ct", folder / "hf"


FORMS = {
    "int4:group=32": ("pack-quantized", 4), "int2:channel": ("pack-quantized", 2), "int3:group=16": ("pack-quantized", 3),
    "int5:tensor": ("pack-quantized", 5), "int8:group=32:scale=e8m0": ("pack-quantized", 8), "mxint8": ("pack-quantized", 8),
    "uint4:group=32:zero=int": ("pack-quantized", 5), "uint3:channel:zero=int": ("pack-quantized", 4),
    "uint7:tensor:zero=int": ("pack-quantized", 8), "int4:channel:zero=int:range=full": ("pack-quantized", 5),
    "uint8:group=32:zero=int": ("int-quantized", 8), "uint8:channel:zero=int": ("int-quantized", 8),
    "int8:tensor:zero=int": ("int-quantized", 8), "uint4:channel": ("pack-quantized", 5),
    "int2h:group=32": ("pack-quantized", 4), "int3h:channel": ("pack-quantized", 4), "int4h:group=16": ("pack-quantized", 5),
    "ternary:channel": ("pack-quantized", 2), "binary:group=32": ("pack-quantized", 2),
    "int4:block=8x16": ("pack-quantized", 4), "e4m3fn:channel": ("float-quantized", 8), "e4m3fn:tensor": ("float-quantized", 8),
    "e4m3fn:block=8x32": ("float-quantized", 8),
}  # fmt: skip


@pytest.mark.parametrize("spec", FORMS)
def test_transformers_computes_with_the_same_numbers(crumb, decoder, tmp_path, spec):
    packed, ct, hf = exported(crumb, decoder, tmp_path, spec)
    expected = load_file(hf / "model.safetensors")
    quantization = json.loads((ct / "config.json").read_text())["quantization_config"]
    groups = quantization["config_groups"].values()
    assert FORMS[spec] in {(group["format"], group["weights"]["num_bits"]) for group in groups}
    model = load(ct)
    found = model.state_dict()
    assert {name for name in found if name.endswith("weight")} == set(expected)
    for name, weight in expected.items():
        assert same_bits(weight, found[name]), name
    twin = transformers.AutoModelForCausalLM.from_pretrained(hf).eval()
    assert (logits(model) - logits(twin)).abs().max() <= 1e-4


@pytest.mark.parametrize("spec, form", [("mxfp4", "mxfp4-pack-quantized"), ("mxfp6_e2m3", "mxfp6-pack-quantized"),
                                        ("mxfp8_e4m3", "mxfp8-quantized")])  # fmt: skip
def test_mx_formats(crumb, decoder, tmp_path, spec, form):
    """The library computes them in bfloat16, which holds their values: so does the model, unless it is dequantized."""
    packed, ct, hf = exported(crumb, decoder, tmp_path, spec, "--embeddings", "keep")
    config = json.loads((ct / "config.json").read_text())
    assert config["torch_dtype"] == "bfloat16" and config["quantization_config"]["format"] == form
    expected = load_file(hf / "model.safetensors")
    matrices = {f"{name}.weight" for name in config["quantization_config"]["config_groups"]["group_0"]["targets"]}
    assert len(matrices) == 15
    found = load(ct).state_dict()
    assert all(same_bits(expected[name], found[name]) for name in matrices)
    dequantized = transformers.CompressedTensorsConfig(**config["quantization_config"], dequantize=True)
    model = load(ct, quantization_config=dequantized, dtype=torch.float32)
    found = model.state_dict()
    assert all(same_bits(weight, found[name]) for name, weight in expected.items())
    twin = transformers.AutoModelForCausalLM.from_pretrained(hf).eval()
    assert (logits(model) - logits(twin)).abs().max() <= 1e-4


def test_nvfp4_is_exact_where_the_scale_is_a_power_of_two_and_else_refused(crumb, decoder, tmp_path):
    crumb("quantize", decoder, "-o", tmp_path / "m.crumb", "--weights", "nvfp4", "--embeddings", "keep")
    done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors", status=1)
    assert all(word in done.stderr for word in ("q_proj.weight' (nvfp4)", "bfloat16", "nearest that has a form is mxfp4"))
    assert not (tmp_path / "ct").exists()
    done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors", "--allow-approximate")
    assert "differ, by at most 0." in done.stderr and "all numbers are the same" not in done.stdout
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "m.safetensors")
    floats, found = load_file(tmp_path / "m.safetensors"), load(tmp_path / "ct").state_dict()
    for name, weight in floats.items():
        if "proj" in name:
            assert ((found[name].float() - weight).abs() <= weight.abs() * 2**-8).all()
    # Weights whose largest is 2688 * 2^k have the scale 2^k.
    edited = tiny.edited(decoder, tiny.Variant("aligned", tensors=lambda tensors: [
        tensors.__setitem__(name, t / t.abs().max() * (2688 * 2.0**-14)) for name, t in tensors.items() if "proj" in name or "head" in name]),
        tmp_path / "edited")  # fmt: skip
    (tmp_path / "exact").mkdir()
    packed, ct, hf = exported(crumb, edited, tmp_path / "exact", "nvfp4", "--embeddings", "keep")
    expected, found = load_file(hf / "model.safetensors"), load(ct).state_dict()
    assert all(same_bits(expected[name], found[name]) for name in expected if "proj" in name)


def test_several_schemes_quantized_tables_and_shards(crumb, decoder, tmp_path):
    crumb("quantize", decoder, "-o", tmp_path / "m.crumb", "--weights", "int4:group=32", "--set", "*down_proj*=e4m3fn:channel",
          "--set", "lm_head.weight=int8:channel", "--embeddings", "int5:channel")  # fmt: skip
    for to, values in (("ct", "compressed-tensors"), ("hf", "hf")):
        done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / to, "--to", values, "--shard", "40KB", "--json")
        said = json.loads(done.stdout)
        files = sorted(path.name for path in (tmp_path / to).glob("*.safetensors"))
        assert said["files"] == len(files) > 2 and files[0].startswith("model-00001-of-")
    config = json.loads((tmp_path / "ct" / "config.json").read_text())["quantization_config"]
    assert config["format"] == "mixed-precision"
    forms = {group["format"]: group for group in config["config_groups"].values()}
    assert forms.keys() == {"pack-quantized", "float-quantized", "int-quantized"}
    assert forms["int-quantized"]["targets"] == ["model.embed_tokens"]
    expected = {}
    for path in (tmp_path / "hf").glob("*.safetensors"):
        expected |= load_file(path)
    found = load(tmp_path / "ct").state_dict()
    assert all(same_bits(weight, found[name]) for name, weight in expected.items())


def test_tables_that_the_head_shares_are_floats(crumb, tmp_path):
    tiny.make("llama_tied", tmp_path / "in")
    packed, ct, hf = exported(crumb, tmp_path / "in", tmp_path, "int4:channel")
    assert load_file(ct / "model.safetensors")["model.embed_tokens.weight"].dtype == torch.float32
    assert "lm_head" not in json.dumps(json.loads((ct / "config.json").read_text())["quantization_config"]["config_groups"])
    model, twin = load(ct), transformers.AutoModelForCausalLM.from_pretrained(hf).eval()
    assert (logits(model) - logits(twin)).abs().max() <= 1e-4
    ours, theirs = model.state_dict(), twin.state_dict()
    assert all(same_bits(theirs[name], ours[name]) for name in theirs)


# Whether they need samples.
STAGES = {"gptq": True, "rotate": False, "smooth": True, "equalize": False, "awq,clip": True, "smooth,rotate,gptq": True,
          "clip": True}  # fmt: skip


@pytest.mark.parametrize("is_other", [False, True])
def test_a_head_that_is_stored_beside_the_table_that_is_the_head_stays_behind(crumb, tmp_path, is_other):
    """transformers would take codes of a head that it has not for a module that it has not. One of other numbers is no head that can be
    told from the table: it is refused."""
    tiny.CONFIGS["tied"] = {**tiny.LLAMA, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "num_key_value_heads": 4,
                            "num_hidden_layers": 1, "tie_word_embeddings": True}  # fmt: skip
    tiny.VARIANTS["tied"] = []
    tiny.make("tied", tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "stored")
    tensors = load_file(tmp_path / "plain/model.safetensors")
    head = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors | {"lm_head.weight": head.flip(0) if is_other else head}, tmp_path / "stored/model.safetensors", metadata={"format": "pt"})
    packed = tmp_path / "m.crumb"
    how = ["quantize", tmp_path / "stored", "-o", packed, "--weights", "int4:group=32", "--embeddings", "int8:channel"]
    if is_other:
        assert "'lm_head.weight' has other values" in crumb(*how, status=1).stderr
        return
    crumb(*how)
    crumb("quantize", tmp_path / "plain", "-o", tmp_path / "p.crumb", "--weights", "int4:group=32", "--embeddings", "int8:channel")
    for form in ("compressed-tensors", "hf"):
        done = crumb("export", packed, "-o", tmp_path / form, "--to", form)
        assert "'lm_head.weight' is left out: the embedding is what makes the logits" in done.stderr
        crumb("export", tmp_path / "p.crumb", "-o", tmp_path / f"p_{form}", "--to", form)
        assert torch.equal(logits(load(tmp_path / form)), logits(load(tmp_path / f"p_{form}")))
    for verb in (["dequantize", packed], ["passes", tmp_path / "stored"]):
        out = tmp_path / verb[0]
        assert "'lm_head.weight' is left out" in crumb(*verb, "-o", out, *(["fold-norms"] if verb[0] == "passes" else [])).stderr
        assert "lm_head.weight" not in load_file(next(out.glob("*.safetensors")))


def text_for(folder):
    words = "How quickly daft jumping zebras vex pack my box with five dozen liquor jugs".split()
    (folder / "t.txt").write_text(" ".join(np.random.default_rng(0).choice(words, 150)) + "\n")
    return ["--data", folder / "t.txt"]


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("name", ["aligned", "llama3"])
def test_what_stages_made_leaves_as_well(crumb, decoder, tmp_path, stages, name):
    """As long as it is a network of its config.json: the weights are other ones, the function is not."""
    if name != "aligned":
        tiny.make(name, tmp_path / "in")
    model = decoder if name == "aligned" else tmp_path / "in"
    data = text_for(tmp_path) if STAGES[stages] else []
    packed, ct, hf = exported(crumb, model, tmp_path, "int8:channel", "--embeddings", "keep", "--stages", stages, *data)
    expected = load_file(hf / "model.safetensors")
    found, twin = load(ct), transformers.AutoModelForCausalLM.from_pretrained(hf).eval()
    state = found.state_dict()
    assert all(same_bits(weight, state[name]) for name, weight in expected.items())
    assert json.loads((ct / "config.json").read_text())["quantization_config"]["config_groups"]["group_0"]["targets"]
    assert (logits(found) - logits(twin)).abs().max() <= 1e-4
    # And it is the network that was meant: at eight bits nearly the one in floats.
    meant = logits(transformers.AutoModelForCausalLM.from_pretrained(model).eval())
    assert (logits(found) - meant).abs().max() < 0.25 * meant.std()


@pytest.mark.parametrize("stages", ["outliers,gptq", "split", "rotate:online=16,gptq", "low_rank:rank=2,gptq"])
def test_networks_that_no_configuration_means_do_not_leave(crumb, decoder, tmp_path, stages):
    how = text_for(tmp_path) if "gptq" in stages else []
    crumb("quantize", decoder, "-o", tmp_path / "m.crumb", "--weights", "int4:channel", "--embeddings", "keep", "--stages", stages, *how)
    said = {to: crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "x", "--to", to, status=2 if "low_rank" in stages else 1).stderr
            for to in ("compressed-tensors", "hf")}  # fmt: skip
    assert said["compressed-tensors"] == said["hf"]
    named = {"outliers,gptq": ".outliers.", "split": "mlp.gate_proj.weight' has shape", "low_rank:rank=2,gptq": "lora_A"}
    assert named.get(stages, "multiplies by") in said["hf"]
    assert not (tmp_path / "x").exists()


NEAREST = {
    "nf4:group=32": "int4:group=32", "palette4:channel": "int4:channel",
    "e3m2:channel": "mxfp6_e2m3", "e5m2:channel": "e4m3fn:channel", "mxfp8_e5m2": "mxfp8_e4m3",
    "int4:group=48:pad": "int4:group=32", "uint4:group=32:zero=float": "uint4:group=32:zero=int", "e2m1:channel": "mxfp4",
}  # fmt: skip


@pytest.mark.parametrize("spec", NEAREST)
def test_what_has_no_form_is_refused_with_the_nearest_that_has(crumb, decoder, tmp_path, spec):
    crumb("quantize", decoder, "-o", tmp_path / "m.crumb", "--weights", spec)
    done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors", status=1)
    assert "'model.layers.0.self_attn.q_proj.weight'" in done.stderr
    assert f"nearest that has a form is {NEAREST[spec]}" in done.stderr, done.stderr
    assert not (tmp_path / "ct").exists()
    crumb("quantize", decoder, "-o", tmp_path / "n.crumb", "--weights", NEAREST[spec])
    crumb("export", tmp_path / "n.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors")


def test_what_is_no_model_is_refused(crumb, decoder, tmp_path):
    save_file({"a.weight": torch.randn(4, 32)}, tmp_path / "a.safetensors")
    crumb("quantize", tmp_path / "a.safetensors", "-o", tmp_path / "a.crumb", "--weights", "int4")
    done = crumb("export", tmp_path / "a.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors", status=1)
    assert "no config.json" in done.stderr
    done = crumb("export", decoder, "-o", tmp_path / "ct", "--to", "compressed-tensors", status=1)
    assert "expected a packed file" in done.stderr
    for flags in (["--opset", "17"], ["--integer-view"], ["--part", "x"], ["--shard", "0"], ["--shape", "x=1"]):
        crumb("export", tmp_path / "a.crumb", "-o", tmp_path / "ct", "--to", "compressed-tensors", *flags, status=2)
    crumb("export", tmp_path / "a.crumb", "-o", tmp_path / "x.onnx", "--to", "float", "--shard", "1GB", status=2)
    (tmp_path / "ct").mkdir()
    (tmp_path / "ct" / "model.safetensors").write_bytes(b"mine")
    crumb("quantize", decoder, "-o", tmp_path / "m.crumb", "--weights", "int4")
    for form in ("compressed-tensors", "hf"):
        done = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "ct", "--to", form, status=1)
        assert "not what an earlier run" in done.stderr
    assert (tmp_path / "ct" / "model.safetensors").read_bytes() == b"mine"
