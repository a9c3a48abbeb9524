"""Language models that answer and are measured: `crumb generate` and `crumb perplexity` against transformers, caches of codes
against caches of floats, on tiny decoders of every family."""

import json
import shutil

import numpy as np
import pytest
from decoder_runs import DecoderRun

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
NEAR = 2e-4  # twice what logits may be off by
PROMPT = "Say: 7 + 5!"
FAMILIES = ["llama", "mistral", "qwen3", "gemma2", "gemma3", "phi3_long", "smollm3", "olmo2"]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """(name) -> the folder of a tiny decoder."""
    known = {}

    def make(name):
        if name not in known:
            known[name] = tmp_path_factory.mktemp(name)
            tiny.make(name, known[name])
        return known[name]

    return make


def logits_of(model, ids):
    return tiny.run(model, np.asarray(ids)[None]).logits[0].numpy()


def text_ids(folder, text):
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids


def generate(crumb, model, *flags):
    return json.loads(crumb("generate", model, "--json", *flags).stdout)


def check_greedy(model, prompt, answer, ends):
    """Every token is one of the largest logits, given those before it."""
    ids = list(prompt) + answer["ids"]
    for place in range(len(prompt), len(ids) + 1):
        row = logits_of(model, ids[:place])[-1]
        if place == len(ids):
            if answer["stopped_by"] == "end":
                assert max(row[end] for end in ends) >= row.max() - NEAR
            continue
        assert row[ids[place]] >= row.max() - NEAR, f"token {place - len(prompt)}"


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_answers_are_those_of_transformers(crumb, folder_of, name):
    folder = folder_of(name)
    answer = generate(crumb, folder, "--prompt", PROMPT, "--tokens", 24)
    assert answer["stopped_by"] in ("end", "tokens")
    prompt = text_ids(folder, PROMPT)
    assert answer["prompt_tokens"] == len(prompt)
    check_greedy(tiny.load(folder), prompt, answer, [257])


def test_drawn_answers_follow_the_seed_and_stops_end_them(crumb, folder_of):
    folder = folder_of("llama")
    how = ["--prompt", PROMPT, "--tokens", 30, "--temperature", 1.5, "--top-p", 0.95]
    first = generate(crumb, folder, *how, "--seed", 5)
    assert first == generate(crumb, folder, *how, "--seed", 5) | {
        key: first[key] for key in ("prompt_tokens_per_second", "tokens_per_second", "peak_rss_bytes")
    }
    assert first["ids"] != generate(crumb, folder, *how, "--seed", 6)["ids"]
    stop = first["text"][3:5]
    stopped = generate(crumb, folder, *how, "--seed", 5, "--stop", stop)
    assert stopped["stopped_by"] == "stop"
    assert stopped["text"] == first["text"][: first["text"].index(stop)]
    shown = crumb("generate", folder, *how, "--seed", 5, "--stop", stop).stdout
    assert shown == stopped["text"] + "\n"


def test_a_full_context_is_an_error_or_loses_its_oldest_half(crumb, folder_of):
    folder = folder_of("llama")
    how = ["--prompt", PROMPT, "--tokens", 40, "--context", 20]
    refused = crumb("generate", folder, *how, status=1)
    assert "the context is full" in refused.stderr
    answer = generate(crumb, folder, *how, "--shift")
    assert len(answer["ids"]) == 40 or answer["stopped_by"] == "end"
    assert "128 positions" in crumb("generate", folder, "--prompt", "a", "--context", 129, status=2).stderr


def test_what_was_saved_goes_on_as_if_nothing_had_been(crumb, folder_of, tmp_path):
    folder, cache = folder_of("qwen3"), tmp_path / "cache"
    long = PROMPT + " And then?"
    whole = generate(crumb, folder, "--prompt", long, "--tokens", 20)
    generate(crumb, folder, "--prompt", PROMPT, "--tokens", 1, "--save-cache", cache)
    again = generate(crumb, folder, "--prompt", long, "--tokens", 20, "--load-cache", cache)
    assert again["ids"] == whole["ids"]
    assert again["prompt_tokens"] == len(text_ids(folder, long)) - len(text_ids(folder, PROMPT))
    cache.write_bytes(cache.read_bytes()[:-3])
    assert "--load-cache" in crumb("generate", folder, "--prompt", long, "--load-cache", cache, status=1).stderr


def test_a_cache_is_of_the_network_that_made_it(crumb, folder_of, tmp_path):
    """Of every pair of networks that compute otherwise, one refuses the other's; a copy of a network takes its own."""
    folder = folder_of("llama")
    shutil.copytree(folder, tmp_path / "other")
    weights = bytearray((tmp_path / "other/model.safetensors").read_bytes())
    weights[-1] ^= 1
    (tmp_path / "other/model.safetensors").write_bytes(weights)
    shutil.copytree(folder, tmp_path / "copy")
    for name, spec in (("a", "int8:channel"), ("b", "int4:channel")):
        crumb("quantize", folder, "-o", tmp_path / f"{name}.crumb", "--weights", spec)
    shutil.copy(tmp_path / "a.crumb", tmp_path / "copy.crumb")
    networks = {"weights": [folder], "other weights": [tmp_path / "other"], "kv": [folder, "--kv-cache", "int8"], "fast": [folder, "--fast"],
                "packed": [tmp_path / "a.crumb"], "of other codes": [tmp_path / "b.crumb"]}  # fmt: skip
    for name, how in networks.items():
        crumb("generate", *how, "--prompt", "Hi", "--tokens", 2, "--save-cache", tmp_path / name)
    for name, how in networks.items():
        for of in networks:
            said = crumb("generate", *how, "--prompt", "Hi", "--tokens", 1, "--load-cache", tmp_path / of, status=0 if of == name else 1).stderr
            assert of == name or ("made by another network: " in said and " there, " in said), said
    crumb("generate", tmp_path / "copy", "--prompt", "Hi", "--tokens", 1, "--load-cache", tmp_path / "weights")
    crumb("generate", tmp_path / "copy.crumb", "--prompt", "Hi", "--tokens", 1, "--load-cache", tmp_path / "packed")


def test_an_empty_prompt_and_any_context(crumb, folder_of, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(folder_of("llama"), folder)
    (tmp_path / "empty").write_text("")
    how = ["--prompt-file", tmp_path / "empty", "--shift", "--tokens", 7]
    assert "the prompt is empty" in crumb("generate", folder, *how, status=2).stderr
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    first, number = next(iter(tokenizer["model"]["vocab"].items()))
    begin, text = {"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [begin, text], "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 0}}],
                                   "special_tokens": {first: {"id": first, "ids": [number], "tokens": [first]}}}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    for context in (1, 2, 3, 4):
        made = generate(crumb, folder, *how, "--context", context)
        assert made["prompt_tokens"] == 1 and (len(made["ids"]) == 7 or made["stopped_by"] == "end")


def test_where_a_cache_cannot_be_saved_is_said_before_the_answer(crumb, folder_of, tmp_path):
    for target, says in ((tmp_path / "none" / "c", "does not exist"), (tmp_path, "it is a folder")):
        refused = crumb("generate", folder_of("llama"), "--prompt", PROMPT, "--tokens", 4, "--save-cache", target, status=1)
        assert says in refused.stderr and refused.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_cache_is_saved_where_the_context_becomes_full_and_kept_where_nothing_was_said(crumb, folder_of, tmp_path):
    folder, cache = folder_of("llama"), tmp_path / "cache"
    how = ["--context", 20, "--save-cache", cache]
    refused = crumb("generate", folder, "--prompt", PROMPT, "--tokens", 20, *how, status=1)
    assert "the context is full" in refused.stderr
    again = generate(crumb, folder, "--prompt", PROMPT, "--tokens", 20, "--load-cache", cache)
    assert again["prompt_tokens"] == 1 and again["ids"] == generate(crumb, folder, "--prompt", PROMPT, "--tokens", 20)["ids"]
    before = cache.read_bytes()
    crumb("generate", folder, "--prompt", PROMPT * 4, "--load-cache", cache, *how, status=1)
    assert cache.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["cache"]


def window_scores(model, ids, context, stride, half, other=None):
    """nll, and KL of `other` (the baseline) to the model, of each target in the first window that scores it."""
    nll, kl, done = [], [], set()
    for start in range(0, len(ids) - context + 1, stride):
        window = ids[start : start + context]
        rows = torch.log_softmax(torch.tensor(logits_of(model, window[:-1]), dtype=torch.float64), -1)
        base = None if other is None else torch.log_softmax(torch.tensor(logits_of(other, window[:-1]), dtype=torch.float64), -1)
        for place in range(context // 2 if half else 0, context - 1):
            target = start + place + 1
            if target in done or (start and target < start - stride + context):
                continue
            done.add(target)
            nll.append(-rows[place, ids[target]].item())
            if base is not None:
                kl.append((base[place].exp() * (base[place] - rows[place])).sum().item())
    return nll, kl


@pytest.mark.parametrize(("name", "context", "stride", "half"), [
    ("llama", 24, 24, False), ("llama", 25, 9, True), ("gemma2", 16, 8, False), ("phi3_long", 30, 30, True),
    ("mistral", 20, 20, False)])  # fmt: skip
def test_perplexity_is_that_of_transformers(crumb, folder_of, tmp_path, name, context, stride, half):
    folder, text = folder_of(name), tmp_path / "text.txt"
    text.write_text("How quickly daft jumping zebras vex; pack my box with five dozen liquor jugs. 0123456789 again!")
    packed, values = tmp_path / "q.crumb", tmp_path / "q"
    crumb("quantize", folder, "-o", packed, "--weights", "int4:group=8:scale=f32")
    values.mkdir()
    crumb("dequantize", packed, "-o", values / "model.safetensors")
    (values / "config.json").write_text((folder / "config.json").read_text())
    flags = ["--text", text, "--context", context, "--stride", stride, "--score", "half" if half else "all"]
    found = json.loads(crumb("perplexity", packed, *flags, "--baseline", folder, "--json").stdout)
    ids = text_ids(folder, text.read_text())
    nll, kl = window_scores(tiny.load(values), ids, context, stride, half, tiny.load(folder))
    assert found["tokens"] == len(nll)
    assert found["nll"] == pytest.approx(np.mean(nll), abs=1e-4)
    assert found["perplexity"] == pytest.approx(np.exp(np.mean(nll)), rel=1e-4)
    assert found["standard_error"] == pytest.approx(np.exp(np.mean(nll)) * np.std(nll, ddof=1) / len(nll) ** 0.5, rel=1e-3)
    assert found["kl_mean"] == pytest.approx(np.mean(kl), abs=1e-4)
    assert found["kl_p99"] == pytest.approx(np.quantile(kl, 0.99), abs=2e-4)
    assert found["kl_median"] == pytest.approx(np.median(kl), abs=2e-4)


# --- Caches of codes ----------------------------------------------------------------------------------------------


def on_grid(rows, greatest):
    """Codes of rows that share a scale along the last axis."""
    scale = np.abs(rows).max(-1, keepdims=True) / np.float32(greatest)
    return rows / np.maximum(scale, np.float32(1e-30))


@pytest.mark.parametrize(("spec", "group", "greatest"), [
    ("int8", None, 127), ("int4", None, 7), ("int4:group=4", 4, 7), ("int3:range=full", None, 3), ("e4m3fn", None, 448),
    ("int4:rotate", None, 7), ("int8:group=3:rotate", 3, 127)])  # fmt: skip
def test_caches_of_codes_hold_what_attention_reads(crumb, folder_of, tmp_path, spec, group, greatest):
    folder, packed, text = folder_of("llama"), tmp_path / "q.crumb", tmp_path / "text.txt"
    text.write_text("How quickly daft jumping zebras vex!!")
    crumb("quantize", folder, "-o", packed, "--weights", "keep", "--embeddings", "keep", "--kv-cache", spec)
    ids = np.array([text_ids(folder, text.read_text())], np.int64)
    depth = json.loads((folder / "config.json").read_text())["hidden_size"] // 4
    logits, present = DecoderRun(crumb, packed, folder, tmp_path / "run")(ids)
    logits = logits[0].astype(np.float64)
    for part in ("key", "value"):
        codes = on_grid(present[f"1.{part}"].reshape(-1, group or depth), greatest)
        if spec == "e4m3fn":
            mantissa, _ = np.frexp(codes)
            steps = mantissa * 16 * np.where(np.abs(codes) < 2**-6, 2.0 ** (np.frexp(codes)[1] + 5), 1)
            assert np.abs(steps - np.rint(steps)).max() < 1e-3
        else:
            assert np.abs(codes - np.rint(codes)).max() < 1e-3 and np.abs(np.rint(codes)).max() <= greatest
    # A session's cache is codes in memory; what it computes has the bits of the graph's numbers.
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    nll = -log_p[np.arange(ids.shape[1] - 1), ids[0, 1:]]
    measured = ["perplexity", packed, "--text", text, "--context", ids.shape[1], "--json"]
    found = json.loads(crumb(*measured).stdout)
    assert found["nll"] == pytest.approx(nll.mean(), abs=1e-12)
    plain = json.loads(crumb("perplexity", folder, *measured[2:], "--kv-cache", spec).stdout)
    assert plain["nll"] == pytest.approx(nll.mean(), abs=1e-12)
    assert abs(json.loads(crumb("perplexity", folder, *measured[2:]).stdout)["nll"] - nll.mean()) > 1e-6


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("spec", ["int8", "int8:rotate"])
def test_both_engines_keep_the_same_codes(crumb, folder_of, tmp_path, spec):
    folder, packed = folder_of("qwen3"), tmp_path / "q.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", "keep", "--embeddings", "keep", "--kv-cache", spec)
    ids = np.array([text_ids(folder, "zebras vex")], np.int64)
    found = {}
    for engine in ("runtime", "libtorch"):
        found[engine] = DecoderRun(crumb, packed, folder, tmp_path / engine, engine)(ids)[1]["0.key"]
    # The first layer's keys follow from the same floats but for rounding: a code may differ where it is near a boundary.
    steps = np.abs(found["runtime"] - found["libtorch"]) / (np.abs(found["runtime"]).max(-1, keepdims=True) / 127)
    assert steps.max() < 1.01
    assert (steps > 0.01).mean() < 0.01


@pytest.mark.parametrize(("spec", "bits"), [("int8", 8), ("int8:range=full", 8), ("int6:range=full", 8), ("int4", 4),
    ("int4:range=full", 4), ("int3:range=full", 4), ("int2", 2), ("e4m3fn", 8), ("e5m2", 8), ("e2m1", 4), ("e3m2", 8),
    ("int8:group=4", 8), ("int4:group=4:range=full", 4), ("int8:rotate", 8), ("int4:group=4:rotate", 4)])  # fmt: skip
def test_what_quantizers_make_stays_codes_in_memory(crumb, folder_of, spec, bits):
    """The cache finds the scales again by itself; it would keep floats where it could not."""
    folder, how = folder_of("llama3"), ["--prompt", PROMPT * 4, "--tokens", 8]  # heads of 16
    floats = generate(crumb, folder, *how)["cache_bytes"]
    groups = 4 if "group" in spec else 1
    assert generate(crumb, folder, *how, "--kv-cache", spec)["cache_bytes"] == floats * (bits * 16 / 8 + 4 * groups) / (4 * 16)


def test_a_saved_cache_never_takes_the_place_of_what_is_read(crumb, folder_of, tmp_path):
    folder, packed, prompt = folder_of("llama"), tmp_path / "q.crumb", tmp_path / "prompt.txt"
    crumb("quantize", folder, "-o", packed, "--weights", "int8")
    prompt.write_text(PROMPT)
    for model, target in ((packed, packed), (packed, prompt), (folder, folder / "model.safetensors"), (folder, folder / "config.json")):
        before = target.read_bytes()
        crumb("generate", model, "--prompt-file", prompt, "--tokens", 2, "--save-cache", target, status=2)
        assert target.read_bytes() == before
    for _ in range(2):  # its own place it may take
        crumb("generate", packed, "--prompt-file", prompt, "--tokens", 2, "--save-cache", tmp_path / "c",
              *(["--load-cache", tmp_path / "c"] if (tmp_path / "c").exists() else []))  # fmt: skip


def test_caches_that_cannot_be_are_refused(crumb, folder_of, minilm, tmp_path):
    folder = folder_of("llama")
    for spec, says in (("uint8", "have signs"), ("int8:group=5", "do not divide"), ("int8:channel", "token and head"),
                       ("nf4", "nf4"), ("int8:search=mse", "absmax")):  # fmt: skip
        assert says in crumb("generate", folder, "--prompt", "a", "--kv-cache", spec, status=2).stderr
    refused = crumb("quantize", minilm, "-o", tmp_path / "q.crumb", "--weights", "int8", "--kv-cache", "int8", status=2)
    assert "no attention that keeps keys and values" in refused.stderr
    packed = tmp_path / "kv.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", "keep", "--kv-cache", "int8")
    assert "quantized already" in crumb("generate", packed, "--prompt", "a", "--kv-cache", "int4", status=2).stderr


def test_what_is_no_language_model_is_named(crumb, minilm):
    assert "config.json" in crumb("generate", minilm, "--prompt", "a", status=1).stderr
