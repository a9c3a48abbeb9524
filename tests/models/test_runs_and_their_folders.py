"""What training does to the files around it: inputs stay, one run at a time writes into a folder, a disk that is full is said, Ctrl-C ends
it at any moment, and what cannot become a network is an error; a file's recipe trains again what the file is."""

import fcntl
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
safetensors = pytest.importorskip("safetensors.numpy")
pytestmark = pytest.mark.usefixtures("engine")
SPECS = ["--weights", "int2h:group=16", "--embeddings", "int8"]
HOW = ["--length", 24, "--threads", 1, "--products", "f32", "--batch", 2]


@pytest.fixture(scope="module")
def made(tmp_path_factory, crumb):
    work = tmp_path_factory.mktemp("folders")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    crumb("quantize", work / "model", "-o", work / "base.crumb", *SPECS)
    return work


def train(made, out, *flags, model=None, data=None, rate=(1e-3,)):
    return ["train", "lm", "--model", model or made / "model", "--data", data or made / "train.txt", "-o", out, *SPECS, *HOW,
            *(("--rate", *rate) if rate else ()), *flags]  # fmt: skip


def recover(made, out, *flags, base=None):
    return ["recover", base or made / "base.crumb", "--baseline", made / "model", "--data", made / "train.txt", "-o", out, "--rank", 4, *HOW, *flags]


def test_no_run_writes_over_what_it_reads(crumb, made, tmp_path):
    out = tmp_path / "out"
    crumb(*recover(made, out, "--steps", 2))
    crumb(*train(made, tmp_path / "lm", "--steps", 2))
    files = {path: path.read_bytes() for folder in (out, tmp_path / "lm") for path in folder.rglob("*") if path.is_file()}
    model, log = out / "model.crumb", out / "log.jsonl"
    for command in (recover(made, out, "--steps", 2, "--init", "kept", base=model), train(made, tmp_path / "lm", "--steps", 2, model=tmp_path / "lm/model.crumb"),
                    train(made, tmp_path / "lm", "--steps", 2, "--start", tmp_path / "lm/model.crumb"), train(made, out, "--steps", 2, data=log),
                    train(made, out, "--steps", 2, "--valid", log), ["merge", model, "-o", model],
                    ["merge", model, "--train", made / "train.txt", "--steps", 2, *HOW, "-o", out]):  # fmt: skip
        assert "inputs are never modified" in crumb(*command, status=2).stderr, command
    assert files == {path: path.read_bytes() for path in files}
    crumb(*train(made, out / "deeper", "--steps", 2, "--start", tmp_path / "lm/model.crumb"))  # beside them all is well


def test_one_run_at_a_time_writes_into_a_folder(crumb, made, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for command in (train(made, out, "--steps", 2), recover(made, out, "--steps", 2)):
            assert "another run is writing into" in crumb(*command, status=1).stderr
    finally:
        os.close(handle)
    crumb(*train(made, out, "--steps", 2))


@pytest.mark.parametrize("way", ["train", "recover"])
def test_a_disk_that_is_full_is_said(crumb_bin, made, tmp_path, way):
    command = (train if way == "train" else recover)(made, tmp_path / "out", "--steps", 6, "--checkpoint-every", 1)
    limit = 50_000  # of a file: less than a state, at any of whose pieces writing ends
    done = subprocess.run([str(part) for part in (crumb_bin, *command)], capture_output=True, text=True, timeout=120,
                          preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))))  # fmt: skip
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "checkpoint.state" in done.stderr and "File too large" in done.stderr and "terminate" not in done.stderr
    assert not list((tmp_path / "out").glob("*.partial"))


@pytest.mark.parametrize("way", ["scales", "merge", "start"])
def test_a_run_that_a_person_stops_says_so_at_any_moment(crumb, crumb_bin, made, tmp_path, way):
    crumb(*recover(made, tmp_path / "rec", "--steps", 1))
    command = {"scales": train(made, tmp_path / "out", "--steps", 4000, "--scales-alone"),
               "start": train(made, tmp_path / "out", "--steps", 4000, "--start", made / "base.crumb"),
               "merge": ["merge", tmp_path / "rec/model.crumb", "--train", made / "train.txt", "--steps", 4000, *HOW, "-o", tmp_path / "out"]}[way]  # fmt: skip
    random = np.random.default_rng(5)
    for i in range(12):
        process = subprocess.Popen([str(part) for part in (crumb_bin, *command, "--restart")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.02 + 0.6 * random.random())
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        # Before the handler is there, the signal ends the process.
        assert process.returncode in (130, -signal.SIGINT), (i, process.returncode, said)
        assert process.returncode < 0 or said.splitlines()[-1] == "crumb: interrupted", said


def test_what_is_no_network_any_more_is_an_error(crumb, made, tmp_path):
    out = tmp_path / "out"
    keep = ["--weights", "keep", "--embeddings", "keep", "--warm-up", 0]
    for flags in (["--steps", 3, "--rate", 1e6, "--valid", made / "valid.txt"], ["--steps", 1, "--rate", 1e6, "--optimizer-states", "bf16"]):
        done = crumb(*[part for part in train(made, out, *flags, rate=()) if part not in SPECS], *keep, status=None)
        if "--valid" not in flags and done.returncode == 0:  # a rate of a million may leave numbers
            assert json.loads((out / "report.json").read_text())["quantized"] is None
            continue
        assert done.returncode == 1 and "training diverged" in done.stderr, done.stderr
    assert "a number above 0, at most 1000000, found '1e+38'" in crumb(*train(made, out, "--steps", 1, "--rate", 1e38, rate=()), status=2).stderr
    (tmp_path / "empty.txt").write_text("")
    assert "is an empty text" in crumb(*train(made, out, "--steps", 1, "--valid", tmp_path / "empty.txt"), status=2).stderr
    for command in (recover(made, out, "--steps", 1, "--seed", -1), recover(made, out, "--steps", 1, "--batch", 2**62)):
        assert "expected a whole number from" in crumb(*command, status=2).stderr
    scratch = ["train", "lm", "--from-scratch", made / "model", "--data", made / "train.txt", *SPECS, "--block-wise", 1, "-o", out]
    assert "--from-scratch has none" in crumb(*scratch, status=2).stderr


def test_a_recipe_trains_again_what_the_file_is(crumb, made, tmp_path):
    flags = ["--block-wise", 2, "--block-sequences", 8, "--steps", 6, "--warm-up", 2, "--scale-rate", 2e-3]
    for more in ([], ["--scales-alone"]):
        first, again = tmp_path / f"first{len(more)}", tmp_path / f"again{len(more)}"
        crumb(*train(made, first, *flags, *more, rate=(3e-3,)))
        crumb("dequantize", first / "model.crumb", "-o", first / "floats")
        recipe = first / "floats/crumb_recipe.yaml"
        assert "block_wise:passes=2:sequences=8" in recipe.read_text()
        command = [part for part in train(made, again, "--recipe", recipe, rate=()) if part not in SPECS]
        crumb(*command)
        for file in ("log.jsonl", "model.crumb"):
            assert (first / file).read_bytes() == (again / file).read_bytes(), file


@pytest.mark.parametrize("init", ["svd", "whitened"])
def test_an_adapter_beside_a_network_without_error_learns(crumb, made, tmp_path, init):
    """Where nothing is lost, it begins like a fresh one, and not with two zeros."""
    crumb("quantize", made / "model", "-o", tmp_path / "floats.crumb", "--weights", "keep", "--embeddings", "keep")
    how = ["--loss", "ce", "--steps", 40, "--rate", 1e-2]
    for name, more in (("zero", []), ("begun", ["--init", init])):
        crumb(*recover(made, tmp_path / name, *how, *more, base=tmp_path / "floats.crumb"))
    losses = [[json.loads(line)["loss"] for line in (tmp_path / name / "log.jsonl").read_text().splitlines()] for name in ("zero", "begun")]
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-5)
    assert sum(losses[1][-5:]) < 1.2 * sum(losses[0][-5:]), losses


def test_what_does_not_go_along_is_said(crumb, made, tmp_path):
    """Tensors that no output depends on; the adapter of a folder that has matrices alone."""
    crumb(*recover(made, tmp_path / "rec", "--steps", 1))
    said = crumb("dequantize", tmp_path / "rec/model.crumb", "-o", tmp_path / "floats").stderr
    assert "the adapter beside its matrices ('" in said and "crumb merge" in said
    shutil.copytree(made / "model", tmp_path / "more")
    (file,) = (tmp_path / "more").glob("*.safetensors")
    tensors = safetensors.load_file(file)
    safetensors.save_file(tensors | {"score.weight": np.ones((2, 8), np.float32)}, file)
    for command in (["quantize", tmp_path / "more", "-o", tmp_path / "q.crumb", *SPECS, "--method", "gptq", "--data", made / "train.txt", "--tokens", 200],
                    train(made, tmp_path / "out", "--steps", 1, model=tmp_path / "more")):  # fmt: skip
        assert "no output depends on 'score.weight', which the packed file does not take along" in crumb(*command).stderr


def test_a_gguf_adapter_holds_every_number(crumb, made, tmp_path):
    """One alpha for ranks of several sizes multiplies what bfloat16 held: the type is what holds the products."""
    gguf = pytest.importorskip("gguf")
    crumb(*recover(made, tmp_path / "rec", "--steps", 0, "--init", "svd", "--ranks", "error"))
    crumb("export", tmp_path / "rec/model.crumb", "-o", tmp_path / "a.gguf", "--to", "adapter")
    crumb("export", tmp_path / "rec/model.crumb", "-o", tmp_path / "peft", "--to", "adapter")
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    alpha = float(reader.fields["adapter.lora.alpha"].parts[-1][0])
    pairs = {tensor.name: np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type)).reshape(tensor.shape[::-1]) for tensor in reader.tensors}
    peft = pytest.importorskip("safetensors.torch").load_file(tmp_path / "peft/adapter_model.safetensors")
    peft = {name.split("layers.")[1]: values.float().numpy() for name, values in peft.items() if "layers." in name}
    ranks = set()
    for name, up in pairs.items():
        if not name.endswith("ffn_up.weight.lora_b"):
            continue
        layer, down = name.split(".")[1], pairs[name[:-1] + "a"]
        meant_up, meant_down = (peft[f"{layer}.mlp.up_proj.lora_{side}.weight"] for side in "BA")
        ranks.add(up.shape[1])
        update, meant = up.astype(np.float64) @ down * (alpha / up.shape[1]), meant_up.astype(np.float64) @ meant_down
        assert np.abs(update - meant).max() <= 1e-6 * np.abs(meant).max()
    assert ranks
