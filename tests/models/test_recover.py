"""`crumb recover`: an adapter beside frozen codes wins back what rounding took; the file's own runtime, peft and transformers
compute what was trained; a run that is killed ends in the bytes of one that was not."""

import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")
LENGTH = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory, crumb):
    """A folder, two texts of words in an order of chance, and the folder at two bits."""
    work = tmp_path_factory.mktemp("recover")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    crumb("quantize", work / "model", "-o", work / "base.crumb", "--weights", "int2h:group=16", "--embeddings", "int8")
    return work


def command(made, out, *flags, base="base.crumb"):
    return ["recover", made / base, "--baseline", made / "model", "--data", made / "train.txt", "--valid", made / "valid.txt",
            "-o", out, "--length", LENGTH, "--threads", 1, "--products", "f32", "--rate", 1e-2, "--json",
            *(() if "--rank" in flags else ("--rank", 8)), *flags]  # fmt: skip


def perplexity(crumb, model, made, *flags):
    return json.loads(crumb("perplexity", model, "--text", made / "valid.txt", "--context", LENGTH, "--json", *flags).stdout)


@pytest.mark.parametrize("how", [[], ["--init", "svd"], ["--init", "whitened", "--type", "f32"], ["--loss", "hidden", "--type", "f16"],
                                 ["--loss", "mix", "--type", "int8"], ["--targets", "*_proj", "--rslora", "--alpha", 16]])  # fmt: skip
def test_recovery_wins_back_what_rounding_took(crumb, made, tmp_path, how):
    report = json.loads(crumb(*command(made, tmp_path / "out", "--steps", 40, *how)).stdout)
    log = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log] == list(range(1, 41))
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    packed = tmp_path / "out/model.crumb"
    against = ["--baseline", made / "model"]
    before, after = (perplexity(crumb, model, made, *against) for model in (made / "base.crumb", packed))
    if "mix" not in how:  # which goes after the text, of which a network of chance knows nothing
        assert after["kl_mean"] < 0.7 * before["kl_mean"]
    assert before["perplexity"] == pytest.approx(report["rounded"], rel=1e-3)
    assert after["perplexity"] == pytest.approx(report["quantized"], rel=1e-3)
    assert report["adapter"]["layers"] == 3 * 7 + ("--targets" not in how)  # lm_head, too
    assert json.loads(crumb("generate", packed, "--prompt", "zebras", "--tokens", 4, "--json").stdout)["ids"]
    crumb("verify", packed)
    # Everything else has the bits that it had.
    crumb("dequantize", made / "base.crumb", "-o", tmp_path / "base.safetensors")
    crumb("dequantize", packed, "-o", tmp_path / "packed.safetensors")
    from safetensors.numpy import load_file

    base, other = load_file(tmp_path / "base.safetensors"), load_file(tmp_path / "packed.safetensors")
    for name in base:
        if base[name].ndim == 2:
            assert np.array_equal(base[name], other[name]), name


@pytest.mark.parametrize("init", ["svd", "whitened"])
def test_an_adapter_of_full_rank_takes_all_of_the_error(crumb, made, tmp_path, init):
    """Where a start is right, the rank of the smaller side gives the float matrix back."""
    report = json.loads(crumb(*command(made, tmp_path / "out", "--steps", 0, "--rank", 48, "--type", "f32", "--init", init,
                                       "--targets", "*q_proj", "--targets", "*o_proj", "--targets", "*up_proj"),
                              ).stdout)  # fmt: skip
    assert report["adapter"]["rank"] == 48
    some = ["--set", "*k_proj*=int2h:group=16", "--set", "*v_proj*=int2h:group=16", "--set", "*gate_proj*=int2h:group=16",
            "--set", "*down_proj*=int2h:group=16", "--set", "lm_head*=int2h:group=16"]  # fmt: skip
    crumb("quantize", made / "model", "-o", tmp_path / "twin.crumb", "--weights", "keep", "--embeddings", "int8", *some)
    kl = perplexity(crumb, tmp_path / "out/model.crumb", made, "--baseline", tmp_path / "twin.crumb")["kl_mean"]
    assert kl < 1e-5


@pytest.mark.parametrize("name", ["gemma2", "phi3", "olmo2", "qwen3", "llama_tied"])
def test_families(crumb, made, tmp_path, name):
    tiny.make(name, tmp_path / "model")
    for file in ("train.txt", "valid.txt"):
        shutil.copy(made / file, tmp_path / file)
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "base.crumb", "--weights", "int2h:group=16", "--embeddings", "int8")
    report = json.loads(crumb(*command(tmp_path, tmp_path / "out", "--steps", 30)).stdout)
    log = [json.loads(line)["loss"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert log[-1] < 0.8 * log[0]
    found = perplexity(crumb, tmp_path / "out/model.crumb", made)["perplexity"]
    assert found == pytest.approx(report["quantized"], rel=1e-3)


def test_less_memory_learns_the_same(crumb, made, tmp_path):
    """Layers that are computed again give the same bits; sequences one after the other the same to rounding."""
    for name, flags in (("plain", []), ("again", ["--recompute"]), ("slices", ["--at-once", 1, "--recompute"])):
        crumb(*command(made, tmp_path / name, "--steps", 6, "--type", "f32", *flags))
    plain, again, slices = (
        [json.loads(line)["loss"] for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        for name in ("plain", "again", "slices")
    )
    assert plain == again
    assert (tmp_path / "plain/model.crumb").read_bytes() == (tmp_path / "again/model.crumb").read_bytes()
    assert slices == pytest.approx(plain, rel=2e-3) and slices != plain


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_teacher_that_was_kept(crumb, made, tmp_path):
    """All tokens of each place: what the teacher in memory gives. Without the float model from then on."""
    how = ["--steps", 6, "--type", "f32"]
    crumb(*command(made, tmp_path / "live", *how))
    kept = [*how, "--teacher-logits", tmp_path / "all.safetensors", "--top-k", 280]
    crumb(*command(made, tmp_path / "made", *kept))
    assert losses(tmp_path / "made") == pytest.approx(losses(tmp_path / "live"), rel=1e-3)
    bare = [flag for flag in command(made, tmp_path / "read", *kept) if flag not in ("--baseline", made / "model")]
    report = json.loads(crumb(*bare).stdout)
    assert losses(tmp_path / "read") == losses(tmp_path / "made") and report["float"] is None
    for file in ("model.crumb",):
        assert (tmp_path / "read" / file).read_bytes() == (tmp_path / "made" / file).read_bytes()

    # What transformers computes with it
    from safetensors.numpy import load_file

    tensors = load_file(tmp_path / "all.safetensors")
    assert set(values.shape for values in tensors.values()) == {(LENGTH, 2, 280)}
    ids = tiny_ids(made / "model", made / "train.txt")
    name, values = sorted(tensors.items())[0]
    cut = LENGTH - 1 if first_token(made / "model") is not None else LENGTH
    window = ids[int(name) * cut : int(name) * cut + cut]
    if cut < LENGTH:
        window = [first_token(made / "model"), *window]
    with torch.no_grad():
        meant = tiny.load(made / "model")(torch.tensor([window])).logits[0].log_softmax(-1)
    for place in range(LENGTH):
        tokens = values[place, 1].astype(int)
        assert sorted(tokens) == list(range(280))
        assert np.allclose(values[place, 0], meant[place, tokens], atol=2e-4)

    # Few tokens: what is left counts as one more, so it is still a divergence, and a smaller one.
    few = [*how, "--teacher-logits", tmp_path / "few.safetensors", "--top-k", 8]
    crumb(*command(made, tmp_path / "few", *few))
    assert 0 < losses(tmp_path / "few")[0] <= losses(tmp_path / "live")[0] * 1.0001

    def refused(*flags, base=few):
        return crumb(*command(made, tmp_path / "no", *base, *flags), status=2).stderr

    assert "its length is 24, this run's 12" in crumb(*[12 if part == LENGTH else part for part in command(made, tmp_path / "no", *few)], status=2).stderr
    assert "its temperature is" in refused("--temperature", 2)
    assert "lacks sequence" in refused("--seed", 3)
    assert "is for the loss kl" in refused("--loss", "hidden")
    (tmp_path / "few.safetensors").write_bytes((tmp_path / "few.safetensors").read_bytes()[:-4])
    assert "few.safetensors" in crumb(*command(made, tmp_path / "no", *few), status=1).stderr
    gone = ["--teacher-logits", tmp_path / "gone.safetensors", *how]
    bare = [flag for flag in command(made, tmp_path / "no", *gone) if flag not in ("--baseline", made / "model")]
    assert "give --baseline FLOAT" in crumb(*bare, status=2).stderr


def tiny_ids(model, text):
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer.from_file(str(model / "tokenizer.json")).encode(text.read_text(), add_special_tokens=False).ids


def first_token(model):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    plain, full = (tokenizer.encode("a", add_special_tokens=special).ids for special in (False, True))
    return full[0] if len(full) > len(plain) else None


def test_a_second_adapter_stacks_on_a_trained_network(crumb, made, tmp_path):
    train = ["train", "lm", "--model", made / "model", "--data", made / "train.txt", "--weights", "int2h:group=16", "--length", LENGTH,
             "--threads", 1, "--products", "f32", "--steps", 4, "-o", tmp_path / "trained"]  # fmt: skip
    crumb(*train)
    for file in ("train.txt", "valid.txt"):
        shutil.copy(made / file, tmp_path / file)
    shutil.copytree(made / "model", tmp_path / "model")
    shutil.copy(tmp_path / "trained/model.crumb", tmp_path / "base.crumb")
    first = json.loads(crumb(*command(tmp_path, tmp_path / "first", "--steps", 20)).stdout)
    assert "'recovery' already" in crumb(*command(tmp_path, tmp_path / "no", "--steps", 1, base="first/model.crumb"), status=1).stderr
    assert not (tmp_path / "no").exists()
    second = json.loads(crumb(*command(tmp_path, tmp_path / "second", "--steps", 20, "--name", "more", base="first/model.crumb")).stdout)
    assert second["rounded"] == pytest.approx(first["quantized"], rel=1e-4)
    logs = [[json.loads(line)["loss"] for line in (tmp_path / run / "log.jsonl").read_text().splitlines()] for run in ("first", "second")]
    assert logs[1][-1] < logs[0][-1] * 1.02


def test_a_run_that_is_killed_ends_in_the_same_bytes(crumb, crumb_bin, made, tmp_path):
    how = ["--steps", 80, "--checkpoint-every", 3, "--init", "svd"]
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
        assert "its adapter.init is" in crumb(*command(made, tmp_path / "cut", *how[:-1], "zero"), status=2).stderr
        crumb(*command(made, tmp_path / "cut", *how))
        for file in ("model.crumb", "log.jsonl"):
            assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.parametrize("init", ["svd", "whitened"])
def test_ranks_by_errors_are_those_of_numpy(crumb, crumb_bin, made, tmp_path, init):
    """As many weights at most, and no exchange of two directions would win more."""
    values = pytest.importorskip("safetensors.numpy").load_file
    how = ["--init", init, "--steps", 0, "--type", "f32", "--rank", 4]
    for ranks in ("even", "error"):
        crumb(*command(made, tmp_path / ranks, *how, "--ranks", ranks))
    even, found = (values(tmp_path / ranks / "adapter/adapter_model.safetensors") for ranks in ("even", "error"))
    sizes = [sum(x.size for x in adapter.values()) for adapter in (even, found)]
    assert 0.97 * sizes[0] < sizes[1] <= sizes[0]
    report = json.loads((tmp_path / "error/report.json").read_text())["adapter"]
    chosen = {name.removeprefix("base_model.model.").removesuffix(".lora_A.weight"): x.shape[0] for name, x in found.items() if "lora_A" in name}
    assert report["ranks"] == [min(chosen.values()), max(chosen.values())] and min(chosen.values()) >= 1 and max(chosen.values()) > 4
    if init == "svd":
        crumb("dequantize", made / "base.crumb", "-o", tmp_path / "base.safetensors")
        base, floats = values(tmp_path / "base.safetensors"), values(made / "model/model.safetensors")
        taken, left = [], []
        for name, rank in chosen.items():
            w, q = (x[f"{name}.weight"].astype(np.float64) for x in (floats, base))
            gains = np.linalg.svd(w - q, compute_uv=False)[:32] ** 2 / (w**2).sum() / sum(w.shape)
            taken.append(gains[1:rank].min(initial=np.inf))
            left.append(gains[rank:].max(initial=0))
        assert min(taken) >= max(left) * (1 - 1e-6)
    # It trains, and goes on where it was cut.
    more = ["--init", init, "--ranks", "error", "--rank", 4, "--steps", 40, "--checkpoint-every", 3]
    crumb(*command(made, tmp_path / "whole", *more))
    process = subprocess.Popen([str(part) for part in (crumb_bin, *command(made, tmp_path / "cut", *more))],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while not (tmp_path / "cut/checkpoint.state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=60)
    crumb(*command(made, tmp_path / "cut", *more))
    assert (tmp_path / "cut/model.crumb").read_bytes() == (tmp_path / "whole/model.crumb").read_bytes()
    assert "give --init svd or whitened" in crumb(*command(made, tmp_path / "no", "--ranks", "error"), status=2).stderr


@pytest.mark.parametrize("how", [[], ["--scales-alone"], ["--weights", "int3:group=16"]])
def test_merged_codes_learn_what_the_adapter_gave(crumb, made, tmp_path, how):
    """They begin where `merge` onto the grid ends, and come nearer to the network with its adapter."""
    crumb(*command(made, tmp_path / "rec", "--steps", 30))
    adapted = tmp_path / "rec/model.crumb"
    weights = how[:2] if "--weights" in how else []
    crumb("merge", adapted, *weights, "-o", tmp_path / "merged.crumb")
    trained = ["merge", adapted, "--train", made / "train.txt", "--valid", made / "valid.txt", "--length", LENGTH, "--threads", 1,
               "--products", "f32", "--json", *how]  # fmt: skip
    none = json.loads(crumb(*trained, "--steps", 0, "-o", tmp_path / "none").stdout)
    values = pytest.importorskip("safetensors.numpy").load_file
    for name, file in (("merged", tmp_path / "merged.crumb"), ("none", tmp_path / "none/model.crumb")):
        crumb("dequantize", file, "-o", tmp_path / f"{name}.safetensors")
    first, then = values(tmp_path / "merged.safetensors"), values(tmp_path / "none.safetensors")
    assert first.keys() == then.keys() and all((first[name] == then[name]).all() for name in first)
    assert none["float"] == pytest.approx(perplexity(crumb, adapted, made)["perplexity"], rel=1e-3)
    report = json.loads(crumb(*trained, "--steps", 40, "--rate", 2e-3, "--scale-rate", 4e-3, "-o", tmp_path / "out").stdout)
    assert report["rounded"] == none["quantized"]
    losses = [json.loads(line)["loss"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5]), losses
    inspected = json.loads(crumb("inspect", tmp_path / "out/model.crumb", "--json").stdout)
    assert "lora" not in json.dumps(inspected)
    refused = crumb("merge", adapted, "--steps", 3, "-o", tmp_path / "no", status=2).stderr
    assert "--steps says how merged codes are trained: give --train TEXT" in refused
    assert "has its matrices in floats" in crumb("merge", made / "model", "--adapter", tmp_path / "rec/adapter", "--train",
                                                 made / "train.txt", "-o", tmp_path / "no", status=2).stderr  # fmt: skip


@pytest.mark.parametrize("more", [[], ["--kv-cache", "int8"], ["--activations", "int8:token"]])
def test_the_recipe_of_merged_codes_says_what_they_are(crumb, made, tmp_path, more):
    """What quantized more than weights stays in it, and so does the stage that made them; other codes and more training are said."""
    crumb("quantize", made / "model", "-o", tmp_path / "base.crumb", "--weights", "int4:group=16", "--embeddings", "int8", *more,
          "--stages", "low_rank:rank=2", "--data", made / "train.txt", "--tokens", 500)  # fmt: skip
    merge = ["merge", tmp_path / "base.crumb"]
    train = ["--train", made / "train.txt", "--length", LENGTH, "--steps", 2, "--threads", 1]
    said = {}
    for name, file, how in (("own", "own.crumb", []), ("other", "other.crumb", ["--weights", "int3:group=16"]), ("trained", "t/model.crumb", train),
                            ("both", "b/model.crumb", [*train, "--weights", "int3:group=16"])):  # fmt: skip
        crumb(*merge, *how, "-o", tmp_path / (file.split("/")[0]))
        text = (tmp_path / file).read_bytes().decode("latin1")
        said[name] = text[text.index("version: 1\n") :].split("\0")[0]
        assert "low_rank" in said[name]
        for flag, value in zip(more[::2], more[1::2]):
            assert f"{flag[2:].replace('-', '_')}: {value}" in said[name], said[name]
        assert ("int4:group=16" in said[name]) == ("--weights" not in how)
        assert ("int3:group=16" in said[name]) == ("--weights" in how)
        assert ("end_to_end:steps=2:rate=0.0001:scale_rate=0.0005" in said[name]) == ("--train" in how)
        crumb("perplexity", tmp_path / file, "--text", made / "valid.txt", "--context", LENGTH)


@pytest.mark.parametrize("stage", ["equalize", "smooth", "awq", "rotate", "split", "low_rank:rank=2", "outliers"])
def test_an_error_is_of_the_baselines_own_matrices(crumb, made, tmp_path, stage):
    """What a stage changed before codes were made of it is no error of codes."""
    base = tmp_path / "base.crumb"
    crumb("quantize", made / "model", "-o", base, "--weights", "int4:channel", "--stages", stage, "--data", made / "train.txt", "--tokens", 500)
    for init in ("svd", "whitened"):
        said = crumb(*command(made, tmp_path / "out", "--steps", 1, "--init", init, "--name", "more", base=base), status=2).stderr
        assert f"--init {init} begins with each matrix' error" in said
        assert ("the stage " + stage.split(":")[0] in said) != ("has an adapter" in said)
    assert not (tmp_path / "out").exists()
    crumb(*command(made, tmp_path / "out", "--steps", 1, "--name", "more", base=base))


def test_wrong_wishes(crumb, made, tmp_path):
    def refused(*flags, status=2, base="base.crumb"):
        said = crumb(*command(made, tmp_path / "out", "--steps", 1, *flags, base=base), status=status).stderr
        assert not (tmp_path / "out/model.crumb").exists()
        return said

    assert "--loss 'huber': expected kl, hidden, ce, mix or cosine" in refused("--loss", "huber")
    drawn = crumb("recover", made / "base.crumb", "--data", "synthetic", "--loss", "ce", "-o", tmp_path / "out", status=2).stderr
    assert "--data synthetic is what the float network draws: give --baseline FLOAT" in drawn
    assert "--init 'nearest': expected zero, svd, whitened or kept" in refused("--init", "nearest")
    assert "f32, f16, bf16 or int8, found 'int4'" in refused("--type", "int4", status=1)
    assert "target 'nothing*'" in refused("--targets", "nothing*")
    assert "is no smaller than" in refused("--rank", 4096)
    bare = [flag for flag in command(made, tmp_path / "out", "--steps", 1) if flag not in ("--baseline", made / "model")]
    assert "give --baseline FLOAT" in crumb(*bare, status=2).stderr
    assert json.loads(crumb(*bare, "--loss", "ce").stdout)["loss"] == "ce"
