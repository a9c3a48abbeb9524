"""`crumb train embed` and `crumb recover` of a sentence encoder: rounding is won back; what was measured in training is what
`crumb embed` gives from the file; a run that is killed ends in the bytes of one that was not."""

import json
import random
import shutil
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("engine")
WORDS = "how quickly daft jumping zebras vex pack my box with five dozen liquor jugs".split()


def make(folder, modules=True):
    """A BERT of two layers; `modules`: with sentence-transformers' pooling and normalization."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz.,"]
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=64, max_position_embeddings=40, initializer_range=0.15)  # fmt: skip
    transformers.BertModel(config).eval().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "tokenizer_class": "BertTokenizer"}))
    if modules:
        kinds = ["Transformer", "Pooling", "Normalize"]
        paths = ["", "1_Pooling", "2_Normalize"]
        (folder / "modules.json").write_text(json.dumps([
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(zip(kinds, paths))]))  # fmt: skip
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    work = tmp_path_factory.mktemp("embed")
    make(work / "model")
    make(work / "bare", modules=False)
    for seed, name, count in ((0, "train.txt", 200), (1, "valid.txt", 30)):
        draw = random.Random(seed)
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(count)]
        (work / name).write_text("\n".join(lines[:10] + ["", "  "] + lines[10:]) + "\n")
    return work


def command(made, out, *flags, model="model"):
    return ["train", "embed", "--model", made / model, "--data", made / "train.txt", "--valid", made / "valid.txt", "-o", out,
            "--threads", 1, "--products", "f32", "--batch", 8, "--json", *flags]  # fmt: skip


def vectors(crumb, model, made, tmp_path):
    lines = [line for line in (made / "valid.txt").read_text().splitlines() if line.strip()]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    crumb("embed", model, "--text", tmp_path / "lines.txt", "-o", tmp_path / "vectors.npy")
    return np.load(tmp_path / "vectors.npy")


def cosine(a, b):
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean())


@pytest.mark.parametrize(("model", "how"), [
    ("model", ["--weights", "int2h:group=16:search=lsq"]),
    ("model", ["--weights", "ternary:group=16", "--embeddings", "int4:group=16", "--loss", "cosine"]),
    ("model", ["--weights", "int3:channel", "--loss", "hidden", "--at-once", 3]),
    ("bare", ["--weights", "e2m1:group=16", "--rate", 2e-4]),
    ("model", ["--weights", "int4:group=16", "--activations", "int8:token", "--rate", 2e-4]),
    ("model", ["--weights", "int4:channel", "--activations", "uint8:tensor:zero=int", "--rate", 2e-4])])  # fmt: skip
def test_training_wins_back_what_rounding_lost(crumb, made, tmp_path, model, how):
    rate = [] if "--rate" in how else ["--rate", 3e-3]
    report = json.loads(crumb(*command(made, tmp_path / "out", "--steps", 60, *rate, *how, model=model)).stdout)
    assert report["metric"] == "cosine" and report["task"] == "embed" and report["float"] == 1
    lost, left = (1 - report[name] for name in ("rounded", "quantized"))
    assert left < 0.75 * lost, report
    log = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert len(log) == 60 and log[-1]["loss"] < 0.8 * log[0]["loss"]
    # The file, on the runtime, against the float model there
    found = cosine(vectors(crumb, tmp_path / "out/model.crumb", made, tmp_path), vectors(crumb, made / model, made, tmp_path))
    assert found == pytest.approx(report["quantized"], abs=1e-3 if "--activations" in how else 1e-5)
    crumb("verify", tmp_path / "out/model.crumb")


@pytest.mark.parametrize("how", [[], ["--init", "svd", "--type", "f32"], ["--loss", "cosine", "--type", "int8"]])
def test_an_adapter_wins_back_what_rounding_took(crumb, made, tmp_path, how):
    base = tmp_path / "base.crumb"
    crumb("quantize", made / "model", "-o", base, "--weights", "int2h:group=16", "--embeddings", "int8")
    report = json.loads(crumb("recover", base, "--baseline", made / "model", "--data", made / "train.txt", "--valid", made / "valid.txt",
                              "-o", tmp_path / "out", "--rank", 8, "--steps", 60, "--batch", 8, "--rate", 1e-2, "--threads", 1,
                              "--products", "f32", "--json", *how).stdout)  # fmt: skip
    floats = vectors(crumb, made / "model", made, tmp_path)
    before, after = (cosine(vectors(crumb, model, made, tmp_path), floats) for model in (base, tmp_path / "out/model.crumb"))
    assert before == pytest.approx(report["rounded"], abs=1e-5) and after == pytest.approx(report["quantized"], abs=1e-5)
    assert 1 - after < 0.7 * (1 - before), report
    assert report["adapter"]["layers"] == 12


def test_a_run_that_is_killed_ends_in_the_same_bytes(crumb, crumb_bin, made, tmp_path):
    how = ["--weights", "int3:group=16", "--steps", 60, "--checkpoint-every", 3]
    crumb(*command(made, tmp_path / "whole", *how))
    state = tmp_path / "cut/checkpoint.state"
    process = subprocess.Popen([str(part) for part in (crumb_bin, *command(made, tmp_path / "cut", *how))],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=120)
    assert state.exists() and not (tmp_path / "cut/model.crumb").exists()
    (tmp_path / "other").mkdir()
    shutil.copy(made / "valid.txt", tmp_path / "other/train.txt")
    other = [tmp_path / "other/train.txt" if part == made / "train.txt" else part for part in command(made, tmp_path / "cut", *how)]
    assert "its lines is" in crumb(*other, status=2).stderr
    crumb(*command(made, tmp_path / "cut", *how))
    for file in ("model.crumb", "log.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.parametrize(("flags", "said"), [
    (["--block-wise", 1], "--block-wise is a flag of crumb train lm, and not of crumb train embed"),
    (["--teacher", "none"], "--teacher is a flag of crumb train lm"),
    (["--loss", "kl"], "the loss kl is for decoders, found a sentence encoder"),
    (["--loss", "cosines"], "--loss 'cosines': expected kl, hidden, ce, mix or cosine"),
    (["--epochs", 3], "--epochs is a flag of crumb train task, crumb train graph, and not of crumb train embed"),
    (["--valid", "EMPTY"], "holds no line with words"),
    (["--valid", "BYTES"], "line 2: found the byte")])  # fmt: skip
def test_wrong_wishes(crumb, made, tmp_path, flags, said):
    (tmp_path / "EMPTY").write_text("\n \n")
    (tmp_path / "BYTES").write_bytes(b"a\n\xff\n")
    flags = [tmp_path / flag if flag in ("EMPTY", "BYTES") else flag for flag in flags]
    base = [part for part in command(made, tmp_path / "out", "--steps", 1, "--weights", "int4:channel")]
    if "--valid" in flags:
        at = base.index("--valid")
        del base[at : at + 2]
    done = crumb(*base, *flags, status=None)
    assert done.returncode in (1, 2) and said in done.stderr, done.stderr
    assert not (tmp_path / "out/model.crumb").exists()


def test_the_other_kind_of_model(crumb, made, tmp_path):
    tiny = pytest.importorskip("tiny_decoders")
    tiny.make("llama3", tmp_path / "decoder")
    flags = ["--data", made / "train.txt", "--weights", "int4:channel", "-o", tmp_path / "out"]
    said = crumb("train", "embed", "--model", tmp_path / "decoder", *flags, status=2).stderr
    assert "is a decoder: crumb train lm" in said
    said = crumb("train", "lm", "--model", made / "model", *flags, status=2).stderr
    assert "is a sentence encoder: crumb train embed" in said


def test_a_baseline_of_another_form(crumb, made, tmp_path):
    crumb("quantize", made / "bare", "-o", tmp_path / "bare.crumb", "--weights", "int4:channel")
    for base, other in ((tmp_path / "bare.crumb", made / "model"),):
        said = crumb("recover", base, "--baseline", other, "--data", made / "train.txt", "-o", tmp_path / "out", status=2).stderr
        assert "it has other outputs" in said


def test_onnxruntime_computes_what_was_trained(crumb, made, tmp_path):
    """The trained file as an ONNX network, codes and all, in another engine: the vectors of crumb embed."""
    onnxruntime = pytest.importorskip("onnxruntime")
    crumb(*command(made, tmp_path / "out", "--weights", "int3:group=16", "--steps", 5))
    crumb("export", tmp_path / "out/model.crumb", "--to", "qcdq", "-o", tmp_path / "net.onnx")
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # else products round activations to bytes
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", plain, providers=["CPUExecutionProvider"])
    tokenizer = transformers.BertTokenizer(str(made / "model/vocab.txt"), do_lower_case=True)
    lines = [line for line in (made / "valid.txt").read_text().splitlines() if line.strip()]
    given = tokenizer(lines, padding=True, return_tensors="np")
    inputs = {value.name: given[value.name].astype(np.int64) for value in session.get_inputs()}
    found = session.run(["sentence_embedding"], inputs)[0]
    assert np.allclose(found, vectors(crumb, tmp_path / "out/model.crumb", made, tmp_path), atol=1e-5)


def test_peft_takes_the_adapter_onto_the_dequantized_encoder(crumb, made, tmp_path):
    """Its folder, and the one that crumb export writes of the file: vectors are those that Crumb computes."""
    peft = pytest.importorskip("peft")
    base = tmp_path / "base.crumb"
    crumb("quantize", made / "model", "-o", base, "--weights", "int2h:group=16", "--embeddings", "int8")
    crumb("recover", base, "--baseline", made / "model", "--data", made / "train.txt", "-o", tmp_path / "out", "--rank", 4, "--steps", 20, "--batch", 8,
          "--rate", 1e-2, "--type", "f32", "--threads", 1, "--products", "f32")  # fmt: skip
    crumb("export", base, "--to", "hf", "-o", tmp_path / "floats")
    crumb("export", tmp_path / "out/model.crumb", "--to", "adapter", "-o", tmp_path / "again")
    expected = vectors(crumb, tmp_path / "out/model.crumb", made, tmp_path)
    tokenizer = transformers.BertTokenizer(str(made / "model/vocab.txt"))
    for folder in (tmp_path / "out/adapter", tmp_path / "again"):
        model = peft.PeftModel.from_pretrained(transformers.AutoModel.from_pretrained(tmp_path / "floats"), folder).eval()
        for line, vector in zip((tmp_path / "lines.txt").read_text().splitlines(), expected):
            with torch.no_grad():
                states = model(**tokenizer(line, return_tensors="pt")).last_hidden_state[0]
            found = torch.nn.functional.normalize(states.mean(0), dim=0).numpy()
            assert np.allclose(found, vector, atol=1e-5)
