"""crumb embed on drawn encoders of every family against sentence-transformers: equal within 1e-4, whatever the pooling."""

import json
import random
import shutil

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

import tiny_encoders  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from tiny_encoders import FAMILIES, LINES  # noqa: E402

TOLERANCE = 1e-4
MODES = ["mean", "cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"]
PROMPTS = {"query": "Instruct: find it\nQuery:", "fox": "fox "}


def embed(crumb, model, folder, *options, lines=LINES):
    text = folder / "lines.txt"
    text.write_bytes("".join(line + "\n" for line in lines).encode())
    crumb("embed", model, "--text", text, "-o", folder / "vectors.npy", *options)
    return np.load(folder / "vectors.npy")


def check(found, expected):
    assert found.dtype == np.float32 and found.shape == expected.shape
    far = np.abs(found - expected).max(axis=1)
    worst = int(far.argmax())
    assert far[worst] < TOLERANCE, f"line {worst} ({LINES[worst][:60]!r}) differs by {far[worst]}"


def drawn_dense(rng):
    """Up to two Dense modules."""
    layers = [torch.nn.Tanh(), torch.nn.ReLU(), torch.nn.GELU(), torch.nn.Identity()]
    return [(rng.choice([3, 8, 21]), rng.choice(layers), rng.random() < 0.5) for _ in range(rng.randrange(3))]


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_are_those_of_sentence_transformers(crumb, tmp_path, family):
    for seed in range(3):
        rng = random.Random(f"{family} {seed}")
        pooling = tuple(rng.sample(MODES, rng.choice([1, 1, 2, 3])))
        oracle = tiny_encoders.write(
            family, tmp_path / str(seed), seed, pooling=pooling, dense=drawn_dense(rng), normalize=rng.random() < 0.5,
            include_prompt=rng.random() < 0.5, prompts=PROMPTS, default_prompt=rng.choice([None, "query"]),
            length=rng.choice([None, 5]),
        )  # fmt: skip
        check(embed(crumb, tmp_path / str(seed), tmp_path), oracle.encode(LINES, batch_size=5))
        for options, asked in [(("--prompt-name", "fox"), {"prompt_name": "fox"}), (("--prompt", ""), {"prompt": ""}),
                               (("--prompt", "the lazy "), {"prompt": "the lazy "})]:  # fmt: skip
            check(embed(crumb, tmp_path / str(seed), tmp_path, *options), oracle.encode(LINES, **asked))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_packed_file_is_what_it_stands_for(crumb, tmp_path, family):
    folder, packed, back = tmp_path / "model", tmp_path / "model.crumb", tmp_path / "back"
    tiny_encoders.write(family, folder, 7, pooling=("mean", "cls"), dense=[(9, torch.nn.Tanh(), True)], include_prompt=False,
                        prompts=PROMPTS, default_prompt="fox")  # fmt: skip
    crumb("quantize", folder, "-o", packed, "--weights", "int4:channel", "--embeddings", "int8:channel")
    crumb("dequantize", packed, "-o", back)
    vectors = embed(crumb, packed, tmp_path)
    check(vectors, tiny_encoders.load(back).encode(LINES))
    check(vectors, embed(crumb, back, tmp_path))
    assert np.abs(vectors - embed(crumb, folder, tmp_path)).max() > TOLERANCE, "nothing was rounded"


def test_names_before_tensors_are_read_and_left_out_alike(crumb, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    for family, prefix in {"roberta": "roberta.", "mpnet": "mpnet.", "modernbert": "model.", "qwen3": "model."}.items():
        folder = tmp_path / family
        oracle = tiny_encoders.write(family, folder, 1)
        path = folder / "model.safetensors"
        tensors = safetensors.load_file(path)
        assert not any(name.startswith(prefix) for name in tensors)
        safetensors.save_file({prefix + name: tensor for name, tensor in tensors.items()}, path, metadata={"format": "pt"})
        check(embed(crumb, folder, tmp_path), oracle.encode(LINES))


def test_what_is_wrong_is_named(crumb, tmp_path):
    folder, broken = tmp_path / "model", tmp_path / "broken"
    tiny_encoders.write("mpnet", folder, 2, dense=[(4, torch.nn.Tanh(), True)], prompts=PROMPTS)
    text = tmp_path / "lines.txt"
    text.write_text("a\n")

    def said(model, *options):
        return crumb("embed", model, "--text", text, "-o", tmp_path / "v.npy", *options, status=None).stderr

    def changed(path, **values):
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(folder, broken)
        content = json.loads((broken / path).read_text())
        content.update(values)
        (broken / path).write_text(json.dumps(content))
        return said(broken)

    assert "'fox', 'query'" in said(folder, "--prompt-name", "cat") and "'cat'" in said(folder, "--prompt-name", "cat")
    assert "--prompt-name" in said(folder, "--prompt-name", "fox", "--prompt", "x")
    assert "not among its prompts" in changed("config_sentence_transformers.json", default_prompt_name="cat")
    assert "prompts" in changed("config_sentence_transformers.json", default_prompt_name="cat", prompts=["cat"])
    assert "is no string" in changed("config_sentence_transformers.json", default_prompt_name="cat", prompts={"cat": 1})
    assert "relative_attention_num_buckets is 31" in changed("config.json", relative_attention_num_buckets=31)
    assert "max_position_embeddings is 3" in changed("config.json", max_position_embeddings=3)
    assert "use_residual" in changed("2_Dense/config.json", use_residual=True)
    assert "in_features" in changed("2_Dense/config.json", in_features=5)
    changed("config.json")
    (broken / "2_Dense" / "model.safetensors").unlink()
    assert "Dense module 2_Dense/ has no weights" in said(broken)


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_a_folder_with_the_sentencepiece_model_alone(crumb, tmp_path, kind):
    """Its pieces are numbered anew: vectors are those of the folder with the tokenizer.json that transformers makes of it."""
    spm = pytest.importorskip("sentencepiece")
    folder = tmp_path / "model"
    tiny_encoders.write(kind, folder, 1)
    (folder / "tokenizer.json").unlink()
    with (folder / "sentencepiece.bpe.model").open("wb") as file:
        spm.SentencePieceTrainer.train(sentence_iterator=iter(tiny_encoders.CORPUS), model_writer=file, vocab_size=100, minloglevel=2)
    (tmp_path / "lines.txt").write_text("\n".join(tiny_encoders.CORPUS[:20]) + "\n")
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    crumb("embed", folder, "--text", tmp_path / "lines.txt", "-o", tmp_path / "alone.npy")
    name = {"xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer"}[kind]
    getattr(transformers, name).from_pretrained(folder).save_pretrained(folder)
    assert (folder / "tokenizer.json").is_file()
    crumb("embed", folder, "--text", tmp_path / "lines.txt", "-o", tmp_path / "whole.npy")
    assert np.array_equal(np.load(tmp_path / "alone.npy"), np.load(tmp_path / "whole.npy"))


@pytest.mark.parametrize("key, value, words", [
    ("local_attention", 0, "local_attention"), ("layer_types", ["full_attention"], "layer_types"),
    ("layer_types", ["full", "full", "full"], "supported are full_attention"), ("num_attention_heads", 7, "no multiple"),
    ("hidden_activation", "mish", "hidden_activation"), ("rope_parameters", [], "rope_parameters"),
    ("rope_parameters", {"full_attention": {"rope_type": "spiral"}}, "spiral"), ("norm_eps", 2, "norm_eps"),
])  # fmt: skip
def test_a_wrong_configuration_of_modernbert_is_named(crumb, tmp_path, key, value, words):
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"model_type": "modernbert", "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9,
              "num_hidden_layers": 3, "max_position_embeddings": 9}  # fmt: skip
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    from safetensors.numpy import save_file

    save_file({"embeddings.tok_embeddings.weight": np.zeros((9, 8), np.float32)}, folder / "model.safetensors")
    said = crumb("export", folder, "-o", tmp_path / "net.onnx", "--to", "float", status=1).stderr
    assert words in said and "config.json" in said


def test_attention_to_both_sides_is_an_encoders_alone(crumb, tmp_path):
    folder = tmp_path / "model"
    tiny_encoders.write("gemma3", folder, 3)
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8:channel")
    said = crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf", status=1).stderr
    assert "use_bidirectional_attention" in said and "encoder" in said
    (folder / "modules.json").unlink()
    said = crumb("export", folder, "-o", tmp_path / "x.onnx", "--to", "float", status=1).stderr
    assert "use_bidirectional_attention" in said and "modules.json" in said
