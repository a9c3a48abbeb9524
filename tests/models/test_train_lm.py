"""`crumb train lm`: a decoder that rounding destroyed learns what the float one predicts; what was measured in training is
what the file's own runtime measures; a run that is killed ends in the bytes of one that was not."""

import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")
LENGTH = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder, and two texts of words in an order of chance."""
    work = tmp_path_factory.mktemp("lm")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    return work


def command(made, out, *flags, data="train.txt", length=LENGTH):
    return ["train", "lm", "--model", made / "model", "--data", made / data, "--valid", made / "valid.txt", "-o", out,
            "--length", length, "--batch", 4, "--threads", 1, "--products", "f32", "--json",
            *flags]  # fmt: skip


@pytest.mark.parametrize(("rate", "how"), [
    (3e-3, ["--weights", "int2h:group=16"]),
    (3e-3, ["--weights", "int2h:group=16", "--teacher", "none"]),
    (3e-3, ["--weights", "ternary:group=16", "--embeddings", "int4:group=16", "--kv-cache", "int4:rotate"]),
    (3e-4, ["--weights", "e2m1:group=16", "--activations", "int8:token", "--kv-cache", "int8"])])  # fmt: skip
def test_training_wins_back_what_rounding_lost(crumb, made, tmp_path, rate, how):
    report = json.loads(crumb(*command(made, tmp_path / "out", "--steps", 40, "--rate", rate, *how)).stdout)
    assert report["trained_tokens"] == 40 * 4 * LENGTH
    log = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == list(range(1, 41))
    assert log[-1]["loss"] < 0.7 * log[0]["loss"]
    assert max(line["rate"] for line in log) == pytest.approx(rate) and log[-1]["rate"] < 0.01 * rate
    if "none" not in how:  # the teacher's own perplexity on this text is no aim
        lost, left = (abs(report[name] - report["float"]) for name in ("rounded", "quantized"))
        assert left < 0.7 * lost, report
    else:
        assert report["quantized"] < 0.5 * report["rounded"]
    # The file, on the runtime
    packed = tmp_path / "out/model.crumb"
    assert report["bytes"] == packed.stat().st_size and not (tmp_path / "out/checkpoint.state").exists()
    measured = ["--text", made / "valid.txt", "--context", LENGTH, "--json"]
    found = json.loads(crumb("perplexity", packed, *measured).stdout)["perplexity"]
    assert found == pytest.approx(report["quantized"], rel=1e-3 if "--activations" not in how else 1e-2)
    assert json.loads(crumb("perplexity", made / "model", *measured).stdout)["perplexity"] == pytest.approx(report["float"], rel=1e-4)
    assert json.loads(crumb("generate", packed, "--prompt", "zebras", "--tokens", 4, "--json").stdout)["ids"]
    crumb("verify", packed)


def test_stages_before_training_know_how_activations_will_be_quantized(crumb, made, tmp_path):
    """Codes that gptq chose for a register stay within it where scales alone learn."""
    how = ["--weights", "int4:channel", "--embeddings", "keep", "--activations", "int8:tensor"]
    bits = {}
    for stage in ("gptq", "gptq:accumulator=14"):
        out = tmp_path / stage.replace(":", "_")
        crumb(*command(made, out, *how, "--stages", f"{stage},end_to_end:steps=2:scales_alone=on"))
        layers = json.loads(crumb("verify", out / "model.crumb", "--accumulator", "--json").stdout)["layers"]
        bits[stage] = {layer["name"]: layer["bits_needed"] for layer in layers if not layer["name"].endswith("attention") and "attention," not in layer["name"]}
    assert len(bits["gptq"]) == 3 * 7 + 1 and bits["gptq"].keys() == bits["gptq:accumulator=14"].keys()
    assert max(bits["gptq"].values()) > 14 >= max(bits["gptq:accumulator=14"].values())


@pytest.mark.parametrize("name", ["llama3", "gemma2", "phi3", "olmo2", "qwen3"])
def test_layers_by_themselves_first(crumb, made, tmp_path, name):
    """Errors fall layer by layer, and what the network predicts then is nearer to what the float one does."""
    tiny.make(name, tmp_path / "model")
    how = ["train", "lm", "--model", tmp_path / "model", "--data", made / "train.txt", "--valid", made / "valid.txt", "--weights",
           "int2h:group=16", "--embeddings", "int8", "--steps", 1, "--length", LENGTH, "--threads", 1, "--products", "f32", "--json"]  # fmt: skip
    whole = json.loads(crumb(*how, "-o", tmp_path / "whole").stdout)
    parts = json.loads(crumb(*how, "-o", tmp_path / "parts", "--block-wise", 12, "--block-sequences", 24).stdout)
    assert "layers" not in whole and "block_wise" in parts and parts["rounded"] == whole["rounded"]
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert [line["layer"] for line in parts["layers"]] == list(range(config["num_hidden_layers"]))
    assert all(line["error"] < 0.95 * line["error_before"] for line in parts["layers"])
    assert parts["layers"][0]["error"] < 0.7 * parts["layers"][0]["error_before"]
    first = [json.loads((tmp_path / run / "log.jsonl").read_text().splitlines()[0])["loss"] for run in ("whole", "parts")]
    assert first[1] < 0.9 * first[0], first


TEMPLATE = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
# As some models have it: earlier answers lose what they thought.
FORGETS = TEMPLATE.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('=')[-1] }}")
TURNS = [("user", "7+5?"), ("assistant", "think=12"), ("user", "And 1 more?"), ("assistant", "so=13")]


@pytest.mark.parametrize(("template", "pieces"), [
    (TEMPLATE, [("<u>7+5?\n<a>", False), ("think=12\n", True), ("<u>And 1 more?\n<a>", False), ("so=13\n", True)]),
    (FORGETS, [("<u>7+5?\n<a>", False), ("think=12\n", True),
               ("<u>7+5?\n<a>12\n<u>And 1 more?\n<a>", False), ("so=13\n", True)])])  # fmt: skip
def test_of_conversations_the_answers_count(crumb, made, tmp_path, template, pieces):
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "chat_template.jinja").write_text(template)
    line = json.dumps({"messages": [{"role": role, "content": content} for role, content in TURNS]})
    (tmp_path / "chat.jsonl").write_text(f"{line}\n\n{line}\n")
    ids, counts = [], []
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    for text, is_answer in pieces:
        found = tokenizer.encode(text, add_special_tokens=False).ids
        ids, counts = ids + found, counts + [is_answer] * len(found)
    with torch.no_grad():
        log_p = tiny.load(model)(torch.tensor([ids])).logits[0].log_softmax(-1)
    wanted = [-float(log_p[i - 1, ids[i]]) for i in range(1, len(ids)) if counts[i]]
    done = crumb("train", "lm", "--model", model, "--data", tmp_path / "chat.jsonl", "--weights", "keep", "--embeddings", "keep",
                 "--teacher", "none", "--steps", 1, "--batch", 1, "--length", len(ids), "--products", "f32", "-o", tmp_path / "out")  # fmt: skip
    assert done.returncode == 0
    first = json.loads((tmp_path / "out/log.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-4)


@pytest.mark.parametrize("trims", [False, True])
def test_texts_and_conversations_of_one_file(crumb, made, tmp_path, trims):
    """A text counts whole, with the end token behind it; an answer that is to go on has no end."""
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "chat_template.jinja").write_text(TEMPLATE.replace("m.content", "m.content | trim") if trims else TEMPLATE)
    text, cut = "so here is 12\n", " the rest is n "
    lines = [{"text": text, "source": "x"}, {"messages": [{"role": "user", "content": "7+5?"}, {"role": "assistant", "content": cut}],
             "continue_final_message": True}, {"text": text}]  # fmt: skip
    (tmp_path / "mix.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    ids, counts = [], []
    said = cut.strip() if trims else cut
    for piece, counted in ((text, True), ("</s>", True), ("<u>7+5?\n<a>", False), (said, True), (text, True), ("</s>", True)):
        found = tokenizer.encode(piece, add_special_tokens=False).ids
        ids, counts = ids + found, counts + [counted] * len(found)
    with torch.no_grad():
        log_p = tiny.load(model)(torch.tensor([ids])).logits[0].log_softmax(-1)
    wanted = [-float(log_p[i - 1, ids[i]]) for i in range(1, len(ids)) if counts[i]]
    crumb("train", "lm", "--model", model, "--data", tmp_path / "mix.jsonl", "--weights", "keep", "--embeddings", "keep", "--teacher", "none",
          "--steps", 1, "--batch", 1, "--length", len(ids), "--products", "f32", "-o", tmp_path / "out")  # fmt: skip
    first = json.loads((tmp_path / "out/log.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-4)


@pytest.mark.parametrize("greets", [False, True])
def test_a_conversation_is_tokenized_as_one_text(crumb, made, tmp_path, greets):
    """As transformers does: a tokenizer that begins every text with a mark of its own puts one there, and none before each answer."""
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    file = json.loads((model / "tokenizer.json").read_text())
    file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "%"}, {"type": "Replace", "pattern": {"String": " "}, "content": "%"}]}
    (model / "tokenizer.json").write_text(json.dumps(file))
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ '[' + m.content + ']' if m.role == 'user' else ' ' + m.content + ' |' }}{% endfor %}")
    turns = [("user", "7 + 5?"), ("assistant", "12 it is"), ("user", "And 1 more?"), ("assistant", "so 13")]
    turns = [("assistant", "ask me")] + turns if greets else turns
    (tmp_path / "chat.jsonl").write_text(json.dumps({"messages": [{"role": role, "content": content} for role, content in turns]}))
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    whole, answers = "", []
    for role, content in turns:
        begin, whole = len(whole), whole + (f"[{content}]" if role == "user" else f" {content} |")
        if role == "assistant":
            answers.append((begin or 1, len(whole)))  # the blank before a greeting is the template's
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids if text else []  # noqa: E731
    ids = encode(whole)
    places = [(len(encode(whole[:begin])), len(encode(whole[:end]))) for begin, end in answers]
    for begin, end in answers:
        assert ids[: len(encode(whole[:begin]))] == encode(whole[:begin]) and ids[: len(encode(whole[:end]))] == encode(whole[:end])
    with torch.no_grad():
        log_p = tiny.load(model)(torch.tensor([ids])).logits[0].log_softmax(-1)
    wanted = [-float(log_p[i - 1, ids[i]]) for begin, end in places for i in range(max(begin, 1), end)]
    crumb("train", "lm", "--model", model, "--data", tmp_path / "chat.jsonl", "--weights", "keep", "--embeddings", "keep", "--teacher", "none",
          "--steps", 1, "--batch", 1, "--length", len(ids), "--products", "f32", "-o", tmp_path / "out")  # fmt: skip
    first = json.loads((tmp_path / "out/log.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-4)


def test_lines_that_are_no_conversation_are_named(crumb, made, tmp_path):
    def refused(text, model=made / "model"):
        (tmp_path / "chat.jsonl").write_text(text)
        how = ["--data", tmp_path / "chat.jsonl", "--weights", "int8", "--steps", 1, "--length", 8, "-o", tmp_path / "out"]
        return crumb("train", "lm", "--model", model, *how, status=1).stderr

    one = '{"messages": [{"role": "user", "content": "a"}]}\n'
    assert "no chat template" in refused(one)
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "chat_template.jinja").write_text(TEMPLATE)
    assert "holds no answer" in refused(one, model)
    assert "chat.jsonl line 2: " in refused(one + "[1, 2\n", model)
    assert "line 3: message 0: expected an object" in refused(one + "\n[1]\n", model)
    assert """line 2: expected "messages", or "text" that is one; found the key 'prompt'""" in refused(one + '{"prompt": "a", "completion": "b"}\n', model)
    assert """line 1: expected "messages", or "text" that is one; found the key 'text'""" in refused('{"text": 5}', model)
    assert "found an empty object" in refused("{}", model)
    (model / "chat_template.jinja").write_text("{{ messages | length }}{{ add_generation_prompt }}")
    assert "line 1: the template writes answer 1 otherwise" in refused(
        '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]', model)


def test_tools_reach_the_template_and_conversations_without_an_answer_are_counted(crumb, made, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(made / "model", model)
    (model / "chat_template.jinja").write_text("{% if tools %}{{ tools[0].name }}{% endif %}" + TEMPLATE)
    turns = [{"role": "user", "content": "pack my box"}, {"role": "assistant", "content": "with five dozen liquor jugs"}]
    losses = []
    for beside in ({}, {"tools": [{"name": "quickly daft jumping zebras"}]}, {"tools": "none", "source": 3}):
        lines = [{"messages": turns, **beside}, {"messages": turns[:1]}, {"messages": turns[:1]}]
        (tmp_path / "chat.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        said = crumb("train", "lm", "--model", model, "--data", tmp_path / "chat.jsonl", "--weights", "keep", "--embeddings", "keep", "--teacher", "none",
                     "--steps", 1, "--batch", 1, "--length", 8, "--products", "f32", "-o", tmp_path / "out").stderr  # fmt: skip
        assert "2 conversations of " in said and "without an answer" in said
        losses.append(sum(json.loads(line)["loss"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()))
    assert losses[0] == losses[2] != losses[1]


@pytest.mark.parametrize("name", ["llama3", "gemma2", "qwen3"])
def test_from_scratch_and_on(crumb, made, tmp_path, name):
    """A configuration becomes a float model, which a packed file holds; that one trains at two bits, and that one at four."""
    tiny.make(name, tmp_path / "full")
    (tmp_path / "config").mkdir()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if (tmp_path / "full" / file).exists():
            shutil.copy(tmp_path / "full" / file, tmp_path / "config" / file)
    rest = ["--data", made / "train.txt", "--valid", made / "valid.txt", "--length", LENGTH, "--threads", 1, "--products", "f32", "--json",
            "--rate", 3e-3]  # fmt: skip
    first = json.loads(crumb("train", "lm", "--from-scratch", tmp_path / "config", *rest, "--weights", "keep", "--embeddings", "keep",
                             "--steps", 60, "-o", tmp_path / "first").stdout)  # fmt: skip
    assert first["float"] is None and first["rounded"] > 100 and first["quantized"] < 20 and first["loss"] == "ce"
    again = json.loads(crumb("train", "lm", "--from-scratch", tmp_path / "config/config.json", *rest, "--weights", "keep", "--embeddings",
                             "keep", "--steps", 60, "-o", tmp_path / "again").stdout)  # fmt: skip
    assert again["quantized"] == first["quantized"]
    before = first["quantized"]
    for i, spec in enumerate(["int2h:group=16", "int4:group=16"]):
        model = tmp_path / (f"out{i - 1}" if i else "first") / "model.crumb"
        report = json.loads(crumb("train", "lm", "--model", model, *rest, "--weights", spec, "--steps", 20, "-o", tmp_path / f"out{i}").stdout)
        assert report["float"] == pytest.approx(before, rel=1e-5)
        assert report["quantized"] < 20
        before = report["quantized"]
    assert json.loads(crumb("generate", tmp_path / "out1/model.crumb", "--prompt", "zebras", "--tokens", 4, "--json").stdout)["ids"]


def test_stages_of_a_recipe_say_what_flags_say(crumb, made, tmp_path):
    flags = command(made, tmp_path / "flags", "--weights", "int2h:group=16", "--block-wise", 2, "--block-sequences", 8, "--steps", 6,
                    "--rate", 3e-3, "--warm-up", 2)  # fmt: skip
    crumb(*flags)
    written = "block_wise:passes=2:sequences=8,end_to_end:steps=6:rate=0.003:warm_up=2"
    crumb(*command(made, tmp_path / "flag", "--weights", "int2h:group=16", "--stages", written))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("weights: int2h:group=16\nstages:\n  - block_wise: {passes: 2, sequences: 8}\n"
                      "  - end_to_end: {steps: 6, rate: 0.003, warm_up: 2}\n")  # fmt: skip
    crumb(*command(made, tmp_path / "recipe", "--recipe", recipe))
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("flags", "flag", "recipe")]
    assert logs[0] == logs[1] == logs[2] and len(logs[0].splitlines()) == 6
    # Each by itself
    alone = json.loads(crumb(*command(made, tmp_path / "alone", "--weights", "int2h:group=16", "--stages", "block_wise:sequences=8")).stdout)
    assert alone["steps"] == 0 and len(alone["layers"]) == 3
    for more, said in ((["--steps", 3], "--steps: the recipe has stages, which say it"), (["--rate", 1], "--rate: the recipe has stages")):
        assert said in crumb(*command(made, tmp_path / "no", "--recipe", recipe, *more), status=2).stderr
    for stages in ("end_to_end,block_wise", "end_to_end,end_to_end"):
        refused = command(made, tmp_path / "no", "--weights", "int4", "--stages", stages)
        assert "then block_wise, then end_to_end, each of these once at most" in crumb(*refused, status=2).stderr
    assert "the stage end_to_end, which is for training" in crumb("quantize", made / "model", "-o", tmp_path / "q.crumb", "--recipe", recipe, status=2).stderr
    assert "crumb train lm" in crumb("train", "task", "digits", "-o", tmp_path / "d", "--recipe", recipe, status=2).stderr


@pytest.mark.parametrize("weights", ["int2h:group=16", "int3:group=16", "e2m1:group=16", "uint4:group=16:zero=int", "mxfp4:pad"])
def test_training_begins_with_codes_of_a_file(crumb, made, tmp_path, weights):
    """What gptq found is what training begins with, to the code, and the float network is what it learns from."""
    values = pytest.importorskip("safetensors.numpy").load_file
    how = ["--weights", weights, "--embeddings", "int4:group=16"]
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *how, "--method", "gptq", "--data", made / "train.txt")
    begun = ["--start", tmp_path / "start.crumb"]
    report = json.loads(crumb(*command(made, tmp_path / "none", *how, *begun, "--steps", 0)).stdout)
    assert report["quantized"] == report["rounded"]
    for name, file in (("start", tmp_path / "start.crumb"), ("none", tmp_path / "none/model.crumb")):
        crumb("dequantize", file, "-o", tmp_path / f"{name}.safetensors")
    first, then = values(tmp_path / "start.safetensors"), values(tmp_path / "none.safetensors")
    assert first.keys() == then.keys() and all((first[name] == then[name]).all() for name in first)
    plain = json.loads(crumb(*command(made, tmp_path / "plain", *how, "--steps", 12, "--rate", 1e-3)).stdout)
    trained = json.loads(crumb(*command(made, tmp_path / "out", *how, *begun, "--steps", 12, "--rate", 1e-3)).stdout)
    assert trained["float"] == plain["float"] and trained["rounded"] == report["rounded"] != plain["rounded"]
    losses = [json.loads((tmp_path / name / "log.jsonl").read_text().splitlines()[0])["loss"] for name in ("plain", "out")]
    assert losses[1] < losses[0]  # gptq's codes are nearer to the float network than rounding's
    other = ["--weights", "int8", "--embeddings", "int4:group=16", *begun, "--steps", 1]
    assert f"begins with codes of {weights}" in crumb(*command(made, tmp_path / "no", *other), status=1).stderr
    for start, said in ((made / "model", "has no codes, which crumb quantize writes"),):
        assert said in crumb(*command(made, tmp_path / "no", *how, "--start", start, "--steps", 1), status=2).stderr


@pytest.mark.parametrize("stage", ["gptq", "rotate,gptq:sweeps=0"])
def test_stages_of_quantizing_come_first(crumb, made, tmp_path, stage):
    """In one command what crumb quantize and --start do in two."""
    from safetensors.numpy import load_file as values

    how = ["--weights", "int3:group=16", "--embeddings", "int4:group=16"]
    text = (made / "train.txt").read_text()[:20000]
    (tmp_path / "some.txt").write_text(text)
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *how, "--stages", stage, "--data", tmp_path / "some.txt", "--tokens", 32768)
    length, end = {"data": tmp_path / "some.txt", "length": 128}, "end_to_end:steps=5:rate=0.003"
    crumb(*command(made, tmp_path / "two", *how, "--start", tmp_path / "start.crumb", "--stages", end, **length))
    said = crumb(*command(made, tmp_path / "one", *how, "--kv-cache", "int8", "--stages", f"{stage},{end}", **length))
    assert "squared error of outputs" in said.stderr
    crumb(*command(made, tmp_path / "two", *how, "--kv-cache", "int8", "--start", tmp_path / "start.crumb", "--stages", end, "--restart", **length))
    assert (tmp_path / "one/log.jsonl").read_text() == (tmp_path / "two/log.jsonl").read_text()
    for name, file in (("one", tmp_path / "one/model.crumb"), ("two", tmp_path / "two/model.crumb")):
        crumb("dequantize", file, "-o", tmp_path / f"{name}.safetensors")
    one, two = (values(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys() and all((one[name] == two[name]).all() for name in one)


ADAPTED = ["--weights", "int2h:group=16", "--embeddings", "keep"]


@pytest.fixture(scope="module", params=["bf16", "f32", "int8"])
def adapted(request, crumb, made, tmp_path_factory):
    """Codes with an adapter of that type beside them."""
    work = tmp_path_factory.mktemp("adapted")
    if request.param == "bf16":
        crumb("quantize", made / "model", "-o", work / "model.crumb", *ADAPTED, "--stages", "low_rank:rank=4")
        return work / "model.crumb"
    crumb("quantize", made / "model", "-o", work / "base.crumb", *ADAPTED)
    crumb("recover", work / "base.crumb", "--baseline", made / "model", "--data", made / "train.txt", "--length", LENGTH, "--steps", 20,
          "--batch", 2, "--type", request.param, "--rank", 4, "--threads", 1, "-o", work / "recovered")  # fmt: skip
    return work / "recovered/model.crumb"


def adapter_in(crumb, file, work):
    """What the file has of adapters by name: type and numbers."""
    crumb("dequantize", file, "-o", work / f"{file.stem}.safetensors")
    values = pytest.importorskip("safetensors.numpy").load_file(work / f"{file.stem}.safetensors")
    types = {t["name"]: t["dtype"] for t in json.loads(crumb("inspect", file, "--json", "--tensors-only").stdout)["tensors"]}
    return {name: (type, values[name]) for name, type in types.items() if ".lora_" in name}


def test_adapters_that_are_there_stay_adapters(crumb, made, adapted, tmp_path):
    """They are no matrices to quantize, and no step moves them; one that moves nothing leaves the network as it was."""
    crumb(*command(made, tmp_path / "still", *ADAPTED, "--start", adapted, "--steps", 1, "--rate", 1e-9))
    said = [json.loads(crumb("perplexity", file, "--text", made / "valid.txt", "--context", LENGTH, "--baseline", made / "model", "--json").stdout)
            for file in (adapted, tmp_path / "still/model.crumb")]  # fmt: skip
    assert said[1]["kl_mean"] == pytest.approx(said[0]["kl_mean"], rel=1e-4)
    crumb(*command(made, tmp_path / "out", *ADAPTED, "--start", adapted, "--steps", 6, "--rate", 3e-3))
    before, after = adapter_in(crumb, adapted, tmp_path), adapter_in(crumb, tmp_path / "out/model.crumb", tmp_path)
    assert before.keys() == after.keys() and len(before) >= 2 * 21
    for name, (type, numbers) in before.items():
        assert after[name][0] == type and (after[name][1] == numbers).all(), name


def test_adapters_learn_along_where_they_are_asked_to(crumb, made, adapted, tmp_path):
    """Each matrix of them moves, keeps its type, and the network ends nearer to the float one than codes alone take it; what was
    measured is what the file gives."""
    run = [*ADAPTED, "--start", adapted, "--rate", 3e-3]
    alone = json.loads(crumb(*command(made, tmp_path / "alone", *run, "--steps", 60)).stdout)
    both = json.loads(crumb(*command(made, tmp_path / "both", *run, "--steps", 60, "--learn-adapters")).stdout)
    assert both["learn_adapters"] and "learn_adapters" not in alone and both["rounded"] == alone["rounded"]
    last = [sum(json.loads(line)["loss"] for line in (tmp_path / name / "log.jsonl").read_text().splitlines()[-10:]) for name in ("alone", "both")]
    assert last[1] < 0.97 * last[0]
    before, after = adapter_in(crumb, adapted, tmp_path), adapter_in(crumb, tmp_path / "both/model.crumb", tmp_path)
    assert before.keys() == after.keys()
    for name, (type, numbers) in before.items():
        assert after[name][0] == type and (after[name][1] == numbers).all() == name.endswith("lora_scale"), name
    measured = ["--text", made / "valid.txt", "--context", LENGTH, "--json"]
    found = json.loads(crumb("perplexity", tmp_path / "both/model.crumb", *measured).stdout)["perplexity"]
    assert found == pytest.approx(both["quantized"], rel=1e-3)
    stage = ["--stages", "end_to_end:steps=60:rate=0.003:learn_adapters=on"]
    crumb(*command(made, tmp_path / "stage", *ADAPTED, "--start", adapted, *stage))
    assert (tmp_path / "stage/log.jsonl").read_text() == (tmp_path / "both/log.jsonl").read_text()


def test_adapters_that_shall_learn_and_are_not_there(crumb, made, tmp_path):
    assert "the network has none" in crumb(*command(made, tmp_path / "no", *ADAPTED, "--learn-adapters", "--steps", 1), status=2).stderr


def test_stages_before_training_are_not_done_twice(crumb, crumb_bin, made, tmp_path):
    how = ["--weights", "int3:group=16", "--stages", "gptq,end_to_end:steps=60", "--checkpoint-every", 3]
    crumb(*command(made, tmp_path / "whole", *how))
    process = subprocess.Popen([str(part) for part in (crumb_bin, *command(made, tmp_path / "cut", *how))],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while not (tmp_path / "cut/checkpoint.state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=120)
    assert (tmp_path / "cut/start.crumb").exists() and not (tmp_path / "cut/model.crumb").exists()
    assert "squared error of outputs" not in crumb(*command(made, tmp_path / "cut", *how)).stderr
    for file in ("model.crumb", "log.jsonl", "start.crumb"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    other = [*how[:2], "--stages", "gptq:sweeps=0,end_to_end:steps=60", "--restart"]
    crumb(*command(made, tmp_path / "cut", *other))
    assert (tmp_path / "cut/start.crumb").read_bytes() != (tmp_path / "whole/start.crumb").read_bytes()


def test_stages_before_training_that_cannot_be(crumb, made, tmp_path):
    def refused(stages, *flags):
        return crumb(*command(made, tmp_path / "no", "--weights", "int4:group=16", "--stages", stages, *flags), status=2).stderr

    assert "the stage gptq comes behind end_to_end" in refused("end_to_end,gptq")
    assert "are all of crumb quantize (gptq)" in refused("gptq")
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", "--weights", "int4:group=16")
    assert "which makes the codes that training begins with" in refused("gptq,end_to_end", "--start", tmp_path / "start.crumb")


def test_the_average_of_steps(crumb, made, tmp_path):
    """It ends elsewhere than the last step, and with a share of nothing where that ends."""
    how = ["--weights", "int4:group=16", "--steps", 12, "--rate", 3e-3]
    found = {}
    for average in (0, 1e-9, 0.9):
        crumb(*command(made, tmp_path / str(average), *how, "--average", average))
        crumb("dequantize", tmp_path / str(average) / "model.crumb", "-o", tmp_path / f"{average}.safetensors")
        from safetensors.numpy import load_file

        found[average] = load_file(tmp_path / f"{average}.safetensors")
    name = next(name for name in found[0] if name.endswith("q_proj.weight"))
    near, far = (abs(found[average][name] - found[0][name]).max() for average in (1e-9, 0.9))
    assert near < 1e-6 < 1e-4 < far


def test_schedules_of_the_rate(crumb, made, tmp_path):
    """What a step's rate is follows from the schedule, and so does what is learned."""
    found = {}
    for schedule in ("cosine", "linear", "constant"):
        out = tmp_path / schedule
        crumb(*command(made, out, "--weights", "int4:group=16", "--steps", 10, "--warm-up", 2, "--rate", 1e-3, "--schedule", schedule))
        found[schedule] = [json.loads(line)["rate"] for line in (out / "log.jsonl").read_text().splitlines()]
    growing = [0.5e-3, 1e-3]
    assert found["constant"] == pytest.approx(growing + [1e-3] * 8)
    assert found["linear"] == pytest.approx(growing + [1e-3 * (1 - i / 8) for i in range(8)])
    assert found["cosine"] == pytest.approx(growing + [1e-3 * (1 + np.cos(np.pi * i / 8)) / 2 for i in range(8)])
    files = [(tmp_path / schedule / "model.crumb").read_bytes() for schedule in found]
    assert len(set(files)) == 3
    crumb(*command(made, tmp_path / "usual", "--weights", "int4:group=16", "--steps", 10, "--warm-up", 2, "--rate", 1e-3))
    assert (tmp_path / "usual/model.crumb").read_bytes() == files[0]
    wrong = crumb(*command(made, tmp_path / "no", "--weights", "int4:group=16", "--schedule", "step"), status=2).stderr
    assert "--schedule 'step': expected" in wrong and "cosine" in wrong and "linear" in wrong and "constant" in wrong


def test_a_loss_that_rises_is_said_once(crumb, crumb_bin, made, tmp_path):
    """While the run goes on, and again by one that goes on behind there."""
    how = ["--weights", "int4:group=16", "--steps", 120, "--warm-up", 120, "--rate", 0.1, "--checkpoint-every", 1]
    said = "note: the loss rose to "
    whole = crumb(*command(made, tmp_path / "whole", *how)).stderr
    assert whole.count(said) == 1 and "the mean of 20 steps" in whole and "a --rate below 0.1 may be wanted" in whole
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole/log.jsonl").read_text().splitlines()]
    means = [np.mean(losses[max(0, end - 20) : end]) for end in range(5, len(losses) + 1)]
    rise = next(i for i in range(15, len(means)) if means[i] >= 2 * min(means[: i + 1]))
    assert f"{said}{means[rise]:.4f}, " in whole and f" from {min(means[: rise + 1]):.4f}: " in whole

    arguments = [str(part) for part in (crumb_bin, *command(made, tmp_path / "cut", *how))]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    next(line for line in process.stderr if said in line)
    process.send_signal(signal.SIGINT)  # its state is of this step or of one behind it
    process.communicate(timeout=120)
    assert process.returncode != 0 and (tmp_path / "cut/checkpoint.state").exists()
    on = crumb(*command(made, tmp_path / "cut", *how)).stderr
    assert [line for line in on.splitlines() if said in line] == [line for line in whole.splitlines() if said in line]
    assert said not in crumb(*command(made, tmp_path / "calm", *how[:-4], "--rate", 1e-3)).stderr


@pytest.mark.parametrize("how", [["--weights", "int4:group=16", "--prune", 0.5], ["--weights", "int4:channel", "--learned-bits", "3bpw"]])
def test_a_loss_that_rises_by_design_is_not_said(crumb, made, tmp_path, how):
    """No rate is wrong where weights go, or widths shrink, from step to step."""
    done = crumb(*command(made, tmp_path / "out", "--steps", 30, "--rate", 1e-4, *how)).stderr
    losses = [json.loads(line)["loss"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert np.mean(losses[-20:]) > 2 * np.mean(losses[:5]) and "the loss rose" not in done


def test_the_rate_follows_the_error_of_rounding(crumb, made, tmp_path):
    """Where neither a flag nor a stage says it: 0.001 of the error relative to the weights, 0.0004 behind a start, 0.0005 at most; of
    networks in floats, from scratch, and of scales alone 0.0005."""
    read = pytest.importorskip("safetensors.numpy").load_file
    short, tables = ("--steps", 1), ("--embeddings", "keep")

    def rate_of(name, *flags):
        done = crumb(*command(made, tmp_path / name, *short, *flags))
        return json.loads(done.stdout)["rate"], done.stderr

    floats = read(made / "model/model.safetensors")
    for weights in ("int2h:group=16", "int3:group=16", "int4:group=16", "e2m1:group=16", "int8:group=16"):
        crumb("quantize", made / "model", "-o", tmp_path / "q.crumb", "--weights", weights, *tables)
        crumb("dequantize", tmp_path / "q.crumb", "-o", tmp_path / "q.safetensors")
        rounded = read(tmp_path / "q.safetensors")
        shares = [((rounded[name] - value) ** 2).sum() / (value**2).sum() for name, value in floats.items()
                  if value.ndim == 2 and (rounded[name] != value).any()]  # fmt: skip
        error = np.sqrt(np.mean(shares))
        expected = min(max(1e-3 * error, 1e-5), 5e-4)
        rate, said = rate_of(weights[:5], "--weights", weights, *tables)
        assert rate == pytest.approx(expected, rel=0.06) and rate == float(f"{rate:.1e}"), (weights, rate, expected)  # two digits
        assert f"rate {rate:.6f}, by rounding's error, {100 * error:.1f} % of the weights" in said
        if weights.startswith("int3"):
            begun = ["--weights", weights, *tables, "--start", tmp_path / "q.crumb"]
            assert rate_of("start", *begun)[0] == pytest.approx(0.4 * expected, rel=0.06)
            assert rate_of("alone", *begun, "--scales-alone")[0] == 5e-4
            assert rate_of("given", *begun, "--rate", 3e-4)[0] == 3e-4
    staged = ["--weights", "int4:group=16", *tables, "--stages"]
    assert json.loads(crumb(*command(made, tmp_path / "staged", *staged, "end_to_end:steps=1")).stdout)["rate"] < 2e-4
    assert json.loads(crumb(*command(made, tmp_path / "said", *staged, "end_to_end:steps=1:rate=0.0007")).stdout)["rate"] == 7e-4
    assert rate_of("float", "--weights", "keep", *tables)[0] == 5e-4
    scratch = [part for part in command(made, tmp_path / "scratch", *short, "--weights", "int4:group=16") if part != "--model"]
    scratch[scratch.index(made / "model")] = f"--from-scratch={made / 'model'}"
    assert json.loads(crumb(*scratch).stdout)["rate"] == 5e-4


def test_texts_that_the_model_draws(crumb, crumb_bin, made, tmp_path):
    """The same for any number of threads, of its own tokens alone, and drawn once."""
    how = ["--weights", "int2h:group=16", "--steps", 6, "--tokens", 480, "--rate", 3e-3]
    tokens = []
    for threads in (1, 2):
        out = tmp_path / str(threads)
        base = command(made, out, *how)
        base[base.index("--threads") + 1] = threads
        base[base.index("--data") + 1] = "synthetic"
        crumb(*base)
        tokens.append(np.load(out / "synthetic.npy"))
    assert np.array_equal(*tokens) and tokens[0].shape == (20 * LENGTH,) and tokens[0].dtype == np.int64
    assert len(set(tokens[0].tolist())) > 50 and tokens[0].min() >= 0
    # Another run draws anew, one that goes on takes what is there.
    np.save(tmp_path / "2/synthetic.npy", tokens[0][::-1])
    crumb(*base)
    assert np.array_equal(np.load(tmp_path / "2/synthetic.npy"), tokens[0])
    base = [tmp_path / "cut" if part == out else 60 if part == 6 else part for part in base]
    process = subprocess.Popen(list(map(str, (crumb_bin, *base, "--checkpoint-every", 2))), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    while not (tmp_path / "cut/checkpoint.state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    when = (tmp_path / "cut/synthetic.npy").stat().st_mtime_ns
    crumb(*base)
    assert (tmp_path / "cut/synthetic.npy").stat().st_mtime_ns == when and (tmp_path / "cut/model.crumb").exists()


def assert_scales_alone_moved(crumb, start, trained, work):
    """Each group of 16 weights is what it was times one number, not below 0."""
    values = pytest.importorskip("safetensors.numpy").load_file
    for name, file in (("start", start), ("trained", trained)):
        crumb("dequantize", file, "-o", work / f"{name}.safetensors")
    first, then = values(work / "start.safetensors"), values(work / "trained.safetensors")
    moved = 0
    for name, one in first.items():
        if one.ndim != 2:
            continue
        a, b = (x.reshape(-1, 16).astype(np.float64) for x in (one, then[name]))
        size = abs(a).max(1, keepdims=True)
        factor = (b * a).sum(1, keepdims=True) / np.maximum((a * a).sum(1, keepdims=True), 1e-300)
        assert (abs(b - factor * a) <= 1e-5 * size).all() and (factor >= 0).all(), name
        moved += (abs(factor - 1) > 1e-4).sum()
    assert moved > 100


def test_scales_alone_leave_codes_as_they_are(crumb, made, tmp_path):
    how = ["--weights", "int2h:group=16", "--embeddings", "int4:group=16", "--scales-alone", "--rate", 3e-3]
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *how[:4], "--method", "gptq", "--data", made / "train.txt")
    begun = ["--start", tmp_path / "start.crumb", "--steps", 30]
    crumb(*command(made, tmp_path / "out", *how, *begun))
    losses = [json.loads(line)["loss"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses
    assert_scales_alone_moved(crumb, tmp_path / "start.crumb", tmp_path / "out/model.crumb", tmp_path)
    staged = ["--weights", "int2h:group=16", "--embeddings", "int4:group=16", "--start", tmp_path / "start.crumb",
              "--stages", "end_to_end:steps=30:rate=0.003:scales_alone=on"]  # fmt: skip
    crumb(*command(made, tmp_path / "staged", *staged))
    assert (tmp_path / "staged/log.jsonl").read_text() == (tmp_path / "out/log.jsonl").read_text()
    refused = crumb(*command(made, tmp_path / "no", "--weights", "mxfp4:pad", "--scales-alone", "--steps", 1), status=1).stderr
    assert "has no scales that learn" in refused


def test_scales_of_layers_by_themselves(crumb, made, tmp_path):
    """A few steps of scales alone behind gptq, a layer at a time."""
    how = ["--weights", "int2h:group=16", "--embeddings", "int4:group=16"]
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *how, "--method", "gptq", "--data", made / "train.txt")
    stage = "block_wise:passes=4:sequences=8:scales_alone=on:scale_rate=0.003"
    begun = ["--start", tmp_path / "start.crumb", "--stages", stage]
    report = json.loads(crumb(*command(made, tmp_path / "out", *how, *begun)).stdout)
    assert all(layer["error"] < layer["error_before"] for layer in report["layers"]) and report["steps"] == 0
    assert_scales_alone_moved(crumb, tmp_path / "start.crumb", tmp_path / "out/model.crumb", tmp_path)
    refused = crumb(*command(made, tmp_path / "no", *how, "--stages", stage), status=2).stderr
    assert "learns scales alone of codes that were found before it" in refused


@pytest.mark.parametrize("weights", ["int2h:group=16", "int4:channel", "e2m1:group=16"])
def test_signs_of_gradients_round_layers(crumb, made, tmp_path, weights):
    """SignRound: what layers give comes nearer to what the float ones do, and no code is further than one from the nearest."""
    from safetensors.numpy import load_file as values

    how = ["--weights", weights, "--embeddings", "keep"]
    stage = "block_wise:passes=4:sequences=16:signs=on:scale_rate=1e-9:rate=1e-9"  # nothing else learns
    report = json.loads(crumb(*command(made, tmp_path / "out", *how, "--stages", stage)).stdout)
    assert all(layer["error"] < 0.9 * layer["error_before"] for layer in report["layers"])
    crumb("quantize", made / "model", "-o", tmp_path / "nearest.crumb", *how)
    for name, file in (("nearest", tmp_path / "nearest.crumb"), ("out", tmp_path / "out/model.crumb")):
        crumb("dequantize", file, "-o", tmp_path / f"{name}.safetensors")
    nearest, found = values(tmp_path / "nearest.safetensors"), values(tmp_path / "out.safetensors")
    moved, all_of_them = 0, 0
    for name, one in nearest.items():
        if one.ndim != 2 or "layers" not in name:
            continue
        for a, b in zip(*(x.reshape(-1, x.shape[1] if "channel" in weights else 16) for x in (one, found[name])), strict=True):
            grid = np.unique(np.concatenate([a, b]))  # of one scale
            grid = grid[np.append(True, np.diff(grid) > 1e-5 * np.abs(grid).max())]
            unit = np.diff(grid).min()
            assert np.abs(a - b).max() <= 1.001 * unit * (4 if "e2m1" in weights else 1), name  # e2m1: 4 and 6 beside 0 and 0.5
            moved, all_of_them = moved + (np.abs(a - b) > 0.5 * unit).sum(), all_of_them + a.size
    assert 0.01 < moved / all_of_them < 0.5
    both = command(made, tmp_path / "no", *how, "--start", tmp_path / "nearest.crumb", "--stages", "block_wise:signs=on:scales_alone=on")
    assert "found both on" in crumb(*both, status=2).stderr


@pytest.mark.parametrize(("end", "flags", "status", "says"), [
    ("end_to_end:steps=1", ["--products", "tf32"], 2, "expected f32 or bf16"),
    ("end_to_end:steps=1", ["--loss", "ce", "--temperature", 2], 2, "a temperature is for the loss kl"),
    ("end_to_end:steps=1", ["--valid", "short.txt"], 1, "the text to measure by has"),
    ("end_to_end:steps=1:learn_adapters=on", [], 2, "no stage before it makes an adapter"),
    ("end_to_end:steps=1", ["--accumulator", 16], 1, "what it multiplies has no quantizer"),
    ("end_to_end:steps=1", ["--learned-bits", "3.5bpw"], 1, "no weight has a width that can be learned"),
    ("end_to_end:steps=1", ["--prune", 0.5, "--weights", "int2h:group=16"], 1, "have no zero"),
    ("end_to_end:steps=1", ["--kv-cache", "int4:group=7"], 2, "groups of 7 do not divide its heads"),
    ("block_wise", ["--activations", "int8"], 2, "layers are trained one by one with"),
    ("block_wise:scales_alone=on:signs=on", [], 2, "found both on")])  # fmt: skip
def test_what_does_not_fit_is_said_before_stages_work(crumb, made, tmp_path, end, flags, status, says):
    """They may take an hour."""
    (tmp_path / "short.txt").write_text("few words")
    wanted = command(made, tmp_path / "out", "--weights", "int4:group=16", "--stages", f"gptq,{end}")
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        value = tmp_path / value if flag == "--valid" else value
        wanted = [*wanted[: wanted.index(flag)], *wanted[wanted.index(flag) + 2 :]] if flag in wanted else wanted
        wanted += [flag, value]
    said = crumb(*wanted, status=status).stderr
    assert says in said and "gptq: " not in said, said
    assert not (tmp_path / "out").exists()


def test_layers_by_themselves_go_on_from_codes_of_a_file(crumb, made, tmp_path):
    how = ["--weights", "int2h:group=16", "--block-wise", 2, "--block-sequences", 8, "--steps", 0]
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *how[:2], "--method", "gptq", "--data", made / "train.txt")
    plain, begun = (json.loads(crumb(*command(made, tmp_path / name, *how, *more)).stdout)["layers"]
                    for name, more in (("plain", []), ("begun", ["--start", tmp_path / "start.crumb"])))  # fmt: skip
    assert all(a["error_before"] < b["error_before"] for a, b in zip(begun[:2], plain[:2], strict=True)), (begun, plain)


@pytest.mark.parametrize("states", ["bf16", "int8"])
def test_short_optimizer_states_learn_the_same(crumb, made, tmp_path, states):
    how = ["--weights", "int3:group=16", "--steps", 40, "--rate", 3e-3]
    whole, short = (json.loads(crumb(*command(made, tmp_path / name, *how, *more)).stdout)
                    for name, more in (("whole", []), ("short", ["--optimizer-states", states])))  # fmt: skip
    assert short["optimizer_states"] == states and "optimizer_states" not in whole and short["rounded"] == whole["rounded"]
    gained = [abs(report["rounded"] - report["quantized"]) for report in (whole, short)]
    assert gained[1] == pytest.approx(gained[0], rel=0.1)
    logs = [[json.loads(line)["loss"] for line in (tmp_path / name / "log.jsonl").read_text().splitlines()] for name in ("whole", "short")]
    assert logs[0][:2] == pytest.approx(logs[1][:2], rel=1e-5) and logs[0] != logs[1]
    assert "expected f32, bf16 or int8" in crumb(*command(made, tmp_path / "no", *how, "--optimizer-states", "fp4"), status=2).stderr


@pytest.mark.parametrize("more", [[], ["--average", 0.9], ["--optimizer-states", "int8"], ["--scales-alone"]])
def test_a_run_that_is_killed_ends_in_the_same_bytes(crumb, crumb_bin, made, tmp_path, more):
    how = [*more, "--weights", "int3:group=16", "--steps", 60, "--checkpoint-every", 3, "--block-wise", 2, "--block-sequences", 8]
    crumb(*command(made, tmp_path / "whole", *how))
    for end in (signal.SIGKILL, signal.SIGINT):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        state = tmp_path / "cut/checkpoint.state"
        process = subprocess.Popen([str(part) for part in (crumb_bin, *command(made, tmp_path / "cut", *how))],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        while not state.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(end)
        process.wait(timeout=120)
        assert state.exists() and not (tmp_path / "cut/model.crumb").exists()
        other = crumb(*command(made, tmp_path / "cut", *how, "--seed", 1), status=2)
        assert "its seed is '0', this one's '1'" in other.stderr
        crumb(*command(made, tmp_path / "cut", *how))
        for file in ("model.crumb", "log.jsonl"):
            assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_threads_and_seeds(crumb, made, tmp_path):
    how = ["--weights", "int4:group=16", "--steps", 3]
    for name, flags in (("a", []), ("b", ["--restart"]), ("c", ["--seed", 1])):
        crumb(*command(made, tmp_path / name, *how, *flags))
    a, b, c = ((tmp_path / name / "model.crumb").read_bytes() for name in "abc")
    assert a == b and a != c


def test_wrong_wishes(crumb, made, tmp_path):
    def refused(*flags, status=2, base=("--weights", "int4:group=16", "--steps", 1), **named):
        said = crumb(*command(made, tmp_path / "out", *base, *flags, **named), status=status).stderr
        assert not (tmp_path / "out/model.crumb").exists()
        return said

    assert "needs --weights" in refused(base=())
    assert "--teacher 'bert': expected float or none" in refused("--teacher", "bert")
    static = ("--weights", "int4:group=16", "--activations", "int8:tensor", "--steps", 1, "--block-wise", 1)
    assert "layers are trained one by one with activations in floats" in refused(base=static)
    assert "--epochs is a flag of crumb train task, crumb train graph, and not of crumb train lm" in refused("--epochs", 3)
    assert "--top-k requires --teacher-logits" in refused("--top-k", 3)
    assert "--block-sequences requires --block-wise" in refused("--block-sequences", 3)
    for loss in ("ce", "hidden", "mix"):
        assert f"a temperature is for the loss kl, found {loss}" in refused("--loss", loss, "--temperature", 2)
    assert "the model has 128 positions" in refused(length=129)
    (tmp_path / "short.txt").write_text("Hi")
    assert "the text to train by has" in refused(data=tmp_path / "short.txt", status=1)
    digits = crumb("train", "task", "digits", "-o", tmp_path / "d", "--steps", 3, status=2).stderr
    assert "--steps is a flag of crumb train lm, crumb train embed, and not of crumb train task" in digits
    crumb("quantize", made / "model", "-o", tmp_path / "q.crumb", "--weights", "int8", "--kv-cache", "int8")
    packed = crumb("train", "lm", "--model", tmp_path / "q.crumb", "--data", made / "train.txt", "--weights", "int4", "-o", tmp_path / "p", status=2)
    assert "has quantizers of activations or of its cache" in packed.stderr
    scratch = ["train", "lm", "--from-scratch", made / "model", "--data", made / "train.txt", "--weights", "keep", "-o", tmp_path / "p"]
    for flags, said in ((["--teacher", "float"], "has no float one to learn from"), (["--loss", "kl"], "--loss kl with --teacher none"),
                        (["--model", made / "model"], "give one"), (["--data", "synthetic"], "--from-scratch has none")):  # fmt: skip
        base = [part for part in scratch if part not in ("--data", made / "train.txt")] if "--data" in flags else scratch
        assert said in crumb(*base, *flags, status=2).stderr
    nowhere = ["train", "lm", "--from-scratch", made / "train.txt", "--data", made / "train.txt", "--weights", "keep", "-o", tmp_path / "p"]
    assert "expected a folder with a config.json" in crumb(*nowhere, status=1).stderr
