"""Checkpoints quantized as graphs: decoders calibrated on text, ranges against what transformers' layers give on the same
windows; the packed file answers; what cannot be is refused."""

import json
import shutil

import numpy as np
import pytest
from decoder_runs import DecoderRun

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
TEXT = "How quickly daft jumping zebras vex; pack my box with five dozen liquor jugs. 0123456789 again!\n" * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("llama3")
    tiny.make("llama3", made)
    return made


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def ranges_of(folder, ids, length):
    """(least, greatest) of what layers give in windows of that many tokens."""
    model, seen = tiny.load(folder), {}

    def note(name, which):
        def hook(_, given, made):
            values = (given[0] if which == "input" else made[0] if isinstance(made, tuple) else made).numpy()
            least, greatest = seen.get(name, (np.inf, -np.inf))
            seen[name] = min(least, values.min()), max(greatest, values.max())

        return hook

    for number, layer in enumerate(model.model.layers):
        layer.input_layernorm.register_forward_hook(note(f"model.layers.{number}.input_layernorm", "output"))
        layer.mlp.down_proj.register_forward_hook(note(f"model.layers.{number}.mlp.product", "input"))
        layer.self_attn.o_proj.register_forward_hook(note(f"model.layers.{number}.self_attn.o_proj", "output"))
    model.model.norm.register_forward_hook(note("model.norm", "output"))
    for begin in range(0, len(ids), length):
        tiny.run(model, np.asarray(ids[begin : begin + length])[None])
    return seen


@pytest.mark.usefixtures("engine")
def test_ranges_are_those_of_the_layers(crumb, folder, text, tmp_path):
    ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids
    recipe = tmp_path / "sums.yaml"  # a rule for sums, which stay in floats where no product takes them
    spec = "'int8:tensor:search=absmax'"
    recipe.write_text(f"version: 1\nweights: int8\nactivations: {spec}\nrules:\n  - {{match: {{op: Add}}, activations: {spec}}}\n")
    how = ["--recipe", recipe, "--data", text, "--json"]
    for tokens, flags in ((len(ids), []), (150, ["--tokens", 150])):
        said = json.loads(crumb("quantize", folder, "-o", tmp_path / "q.crumb", *how, *flags).stdout)
        found = {row["value"]: (row["min"], row["max"]) for row in said["activations"]}
        expected = ranges_of(folder, ids[:tokens], 128)  # the model has 128 positions
        assert len(expected) == 10
        for name, (least, greatest) in expected.items():
            assert found[name] == pytest.approx((least, greatest), abs=1e-4), name
        assert [row["name"] for row in said["outputs"]] == ["logits"]
    assert not np.allclose([found[name] for name in expected], list(ranges_of(folder, ids[:tokens], 64).values()), atol=1e-3)


@pytest.mark.usefixtures("engine")
def test_the_packed_file_answers_and_both_engines_agree(crumb, folder, text, tmp_path):
    packed = tmp_path / "q.crumb"
    crumb("quantize", folder, "-o", packed, "--scheme", "W8A8", "--embeddings", "int4", "--kv-cache", "int8", "--data", text)
    crumb("verify", packed)
    answer = json.loads(crumb("generate", packed, "--prompt", "Say: 7 + 5!", "--tokens", 20, "--json").stdout)
    assert answer["stopped_by"] in ("tokens", "end")
    nll = {}
    for model in (packed, folder):
        nll[model] = json.loads(crumb("perplexity", model, "--text", text, "--context", 64, "--json").stdout)["nll"]
    assert nll[packed] != nll[folder] and nll[packed] == pytest.approx(nll[folder], abs=2)
    ids = (np.arange(10)[None] * 31 + 7) % 256
    logits = {engine: DecoderRun(crumb, packed, folder, tmp_path / engine, engine)(ids)[0] for engine in ("runtime", "libtorch")}
    # Codes near a boundary may differ, and what follows with them.
    assert np.median(np.abs(logits["runtime"] - logits["libtorch"])) < 0.05 * logits["runtime"].std()


@pytest.mark.parametrize("name", ["llama", "llama_tied", "gemma2", "qwen3", "phi3"])
def test_graphs_and_checkpoints_have_the_same_specs(crumb, tmp_path, name):
    """A table that is the head, too, is an embedding for both."""
    tiny.make(name, tmp_path / "in")
    specs = ["--weights", "int4:group=8", "--embeddings", "int6:group=8"]
    found = []
    for number, how in enumerate(([], ["--activations", "int8:token"])):
        packed = tmp_path / f"{number}.crumb"
        crumb("quantize", tmp_path / "in", "-o", packed, *specs, *how)
        listed = json.loads(crumb("inspect", packed, "--json").stdout)["tensors"]
        found.append({tensor["name"]: tensor["spec"] for tensor in listed if tensor.get("spec")})
    assert found[0] == found[1] and found[0]["model.embed_tokens.weight"] == "int6:group=8"


def test_scales_of_tokens_need_no_text(crumb, folder, text, tmp_path):
    packed, plain = tmp_path / "q.crumb", tmp_path / "w.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", "int8", "--activations", "int8:token")
    crumb("quantize", folder, "-o", plain, "--weights", "int8")
    nll = {}
    for model in (packed, plain):
        nll[model] = json.loads(crumb("perplexity", model, "--text", text, "--context", 64, "--json").stdout)["nll"]
    assert nll[packed] != nll[plain] and nll[packed] == pytest.approx(nll[plain], abs=0.1)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("how", [["--scheme", "W8A8"], ["--weights", "int4:group=16", "--activations", "int8:token", "--kv-cache", "int8"]])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [
    ["input_ids=1x9", "attention_mask=1x12", "position_ids=1x9",
     *(f"past_key_values.{layer}.{part}=1x4x3x16" for layer in range(3) for part in ("key", "value"))],
    ["input_ids=1x9", "attention_mask=1x12"], ["position_ids=1x9", "past_key_values.2.key=1x4x3x16"], []],
    ids=["all", "mask", "past", "none"])  # fmt: skip
def test_qonnx_and_onnxruntime_execute_what_is_exported(crumb, folder, text, tmp_path, how, sizes):
    """What sizes are not given follows from those that are: the mask's length is that of the past and of the sequence."""
    onnxruntime, qonnx = pytest.importorskip("onnxruntime"), pytest.importorskip("qonnx.core.onnx_exec")
    from qonnx.core.modelwrapper import ModelWrapper

    packed = tmp_path / "q.crumb"
    before, now = (1, 1) if sizes == [] else (3, 9)  # where nothing is said
    crumb("quantize", folder, "-o", packed, "--embeddings", "keep", *how, *(["--data", text] if "--scheme" in how else []))
    run = DecoderRun(crumb, packed, folder, tmp_path / "run")
    ids = np.random.default_rng(1).integers(0, 256, (1, before + now))
    past = run(ids[:, :before])[1]
    logits = run(ids[:, before:], past=past)[0]
    given = run.inputs(ids[:, before:], past=past)
    shapes = [word for size in sizes for word in ("--shape", size)]
    crumb("export", packed, "-o", tmp_path / "qonnx.onnx", "--to", "qonnx", *shapes)
    model = ModelWrapper(str(tmp_path / "qonnx.onnx"))
    named = dict(zip((value.name for value in model.graph.input), given.values(), strict=True))
    found = {"qonnx": qonnx.execute_onnx(model, named)[model.graph.output[0].name]}
    if "--scheme" in how:  # QCDQ has no word for scales of tokens
        crumb("export", packed, "-o", tmp_path / "qcdq.onnx", "--to", "qcdq")
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI its u8 x s8 products saturate at 16 bits
        session = onnxruntime.InferenceSession(str(tmp_path / "qcdq.onnx"), options)
        found["onnxruntime"] = session.run(["logits"], given)[0]
    for tool, theirs in found.items():
        off = np.abs(theirs - logits) / logits.std()
        # Sums in another order; where a code is near a boundary it may be the next one, and what follows with it.
        assert np.median(off) < 1e-5 and off.max() < 0.3, (tool, off.max())


def test_a_target_beside_what_only_networks_have(crumb, folder, text, tmp_path):
    """What is said of the network counts with --target too: it is not taken for tensors alone."""
    said = crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--target", "9bpw", "--method", "gptq", status=2).stderr
    assert "the stage gptq needs samples" in said and not (tmp_path / "q.crumb").exists()
    made = crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--target", "9bpw", "--activations", "int8:token").stdout
    assert made.count("int8:token") > 10
    (tmp_path / "q.recipe.yaml").unlink()
    made = crumb("quantize", folder, "-o", tmp_path / "g.crumb", "--target", "9bpw", "--method", "gptq", "--data", text).stdout
    assert "gptq" in made


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", ["runtime", "libtorch"])
def test_a_mask_of_another_length_is_refused(crumb, folder, tmp_path, name):
    """It is as long as the past and the sequence together."""
    crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--weights", "int8", "--activations", "int8:token")
    run = DecoderRun(crumb, tmp_path / "q.crumb", folder, tmp_path / "run", engine=name)
    ids = np.random.default_rng(1).integers(0, 256, (1, 7))
    past = run(ids[:, :3])[1]
    logits = run(ids[:, 3:], past=past)[0]
    assert np.isfinite(logits).all()
    for length in (1, 4, 6, 8):
        with pytest.raises(AssertionError, match="attention_mask"):
            run(ids[:, 3:], mask=np.ones((1, length), np.int64), past=past)


def test_conversations_calibrate_as_the_text_that_the_template_makes(crumb, folder, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    (model / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}")
    turns = [("user", "how many liquor jugs?"), ("assistant", "five dozen, " * 20), ("user", "more?"), ("assistant", "none of the others")]
    line = json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]})
    (tmp_path / "one.jsonl").write_text(line + "\n")
    (tmp_path / "one.txt").write_text("".join(f"<{role[0]}>{content}\n" for role, content in turns))
    for name in ("one.jsonl", "one.txt"):
        crumb("quantize", model, "-o", tmp_path / f"{name}.crumb", "--weights", "int3:group=16", "--method", "gptq", "--data", tmp_path / name)
    assert (tmp_path / "one.jsonl.crumb").read_bytes() == (tmp_path / "one.txt.crumb").read_bytes()


def test_flags_that_would_say_nothing_are_refused(crumb, folder, text, tmp_path):
    for flag in ("--top-k", "--top-p", "--min-p", "--seed"):
        assert f"{flag} requires --temperature" in crumb("generate", folder, "--prompt", "a", flag, "1", status=2).stderr
    crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--weights", "int8")
    said = crumb("merge", tmp_path / "q.crumb", "--shard", "1GB", "--train", text, "-o", tmp_path / "out", status=2).stderr
    assert "--shard is for a folder in floats" in said
    said = crumb("export", tmp_path / "q.crumb", "--to", "float", "--opset", 9, "-o", tmp_path / "f.onnx", status=2).stderr
    assert "operator set 9: expected one from 13 to" in said


@pytest.mark.usefixtures("engine")
def test_encoders_take_arrays(crumb, minilm, tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "ids.npy", rng.integers(1000, 20000, (4, 16)))
    np.save(tmp_path / "ones.npy", np.ones((4, 16), np.int64))
    np.save(tmp_path / "zeros.npy", np.zeros((4, 16), np.int64))
    data = [f"--data={name}={tmp_path}/{file}.npy"
            for name, file in (("input_ids", "ids"), ("attention_mask", "ones"), ("token_type_ids", "zeros"))]  # fmt: skip
    crumb("export", minilm, "-o", tmp_path / "m.onnx", "--to", "float")
    recipe, spec = tmp_path / "W8A8.yaml", "'uint8:tensor:search=percentile=99.999'"  # and a rule: sums that no product takes, too
    rule = f"{{match: {{name: '*.residual'}}, activations: {spec}}}"
    recipe.write_text(f"version: 1\nweights: int8\nactivations: {spec}\nrules:\n  - {rule}\n")
    said = [json.loads(crumb("quantize", model, "-o", tmp_path / "q.crumb", "--recipe", recipe, "--json", *data).stdout)
            for model in (minilm, tmp_path / "m.onnx")]  # fmt: skip
    folder, graph = ({row["value"]: row["scale"] for row in one["activations"]} for one in said)
    assert len(folder) > 50 and folder == pytest.approx(graph, rel=1e-3)  # the order of sums is another


def test_what_cannot_be_is_refused(crumb, folder, minilm, text, tmp_path):
    out = tmp_path / "q.crumb"

    def refused(*flags, status=2):
        said = crumb("quantize", *flags, "-o", out, status=status).stderr
        assert not out.exists()
        return said

    w8a8 = ["--scheme", "W8A8"]
    assert "a language model a text" in refused(folder, *w8a8)
    assert "is taken for a graph" in refused(folder, *w8a8, "--data", text, "--memory", "1GB", "--method", "rounding")
    assert "known architecture" in refused(folder / "model.safetensors", *w8a8, "--data", text)
    assert "no operators" in refused(folder / "model.safetensors", *w8a8)
    crumb("export", folder, "-o", tmp_path / "f.onnx", "--to", "float")
    assert "a graph takes .npy" in refused(tmp_path / "f.onnx", *w8a8, "--data", text)
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.int64))
    assert "texts or arrays" in refused(folder, *w8a8, "--data", text, "--data", tmp_path / "x.npy")
    assert "--tokens is for a text" in refused(folder, *w8a8, "--data", tmp_path / "x.npy", "--tokens", 5)
    (tmp_path / "none.txt").write_text("")
    assert "holds no text" in refused(folder, *w8a8, "--data", tmp_path / "none.txt", status=1)
    assert "no such file" in refused(folder, *w8a8, "--data", tmp_path / "absent.txt")
