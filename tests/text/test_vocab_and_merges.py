"""crumb tokenize on folders with vocab.json and merges.txt alone against what transformers 5 builds from them."""

import json
import random

import pytest
from sample_tokenizers import LINES

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
if int(transformers.__version__.split(".")[0]) < 5:
    pytest.skip("transformers 5 builds tokenizers from vocab.json and merges.txt by itself", allow_module_level=True)

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
ADDED = {"__type": "AddedToken", "content": "<b>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
TEXTS = [*LINES[:300], "a<|endoftext|>b <s> c</s>", "<mask> d <mask>e", "x<new>y <more>z NEW", "E\u0301cole \u1e9b\u0323", "", " "]


def train(folder, special):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(LINES[:600], trainer)
    folder.mkdir()
    tokenizer.model.save(str(folder))


def drawn_config(name, rng):
    """A tokenizer_config.json and its neighbours, of those that checkpoints have."""
    config = {"tokenizer_class": name} if rng.random() < 0.9 else {"tokenizer_class": name + "Fast"}
    files = {}
    for key, values in {
        "add_prefix_space": [True, False], "add_bos_token": [True, False], "add_eos_token": [True, False],
        "eos_token": ["<|endoftext|>", "</s>", "<end>"], "bos_token": ["<s>", ADDED],
        "unk_token": ["<unk>"], "pad_token": ["<pad>", None], "additional_special_tokens": [["<more>"]],
    }.items():  # fmt: skip
        if rng.random() < 0.35:
            config[key] = rng.choice(values)
    new = [{"content": "<new>", "special": True, "lstrip": True}, {"content": "NEW", "single_word": True, "special": False}]
    filled = [{"lstrip": False, "rstrip": False, "single_word": False, "normalized": not t["special"], **t} for t in new]
    kind = rng.randrange(4)
    if kind == 1:
        config["added_tokens_decoder"] = {str(600 + i): token for i, token in enumerate(filled)}
    elif kind == 2:
        files["added_tokens.json"] = {"<new>": 510, "NEW": 512}
    elif kind == 3:
        files["special_tokens_map.json"] = {"mask_token": {**filled[0], "content": "<mask>", "lstrip": True}, "eos_token": "</s>"}
    return {"tokenizer_config.json": config, **files}


def ids_of(crumb, folder, texts):
    lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
    said = crumb("tokenize", folder, "--text", "-", "--lines", "--json", stdin=None, input=lines).stdout
    return [made["ids"] for made in json.loads(said)["texts"]]


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "RobertaTokenizer", "Qwen2Tokenizer", "CodeGenTokenizer"])
def test_ids_are_those_of_transformers(crumb, tmp_path, name):
    rng = random.Random(name)
    for case in range(8):
        folder = tmp_path / str(case)
        train(folder, rng.choice([SPECIAL, SPECIAL[:3], []]))
        files = drawn_config(name, rng)
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        texts = [text.replace("\n", " ").replace("\r", " ") for text in TEXTS]
        for text, found in zip(texts, ids_of(crumb, folder, texts), strict=True):
            assert found == theirs(text)["input_ids"], (files, text)


@pytest.mark.parametrize("model_type", ["gpt2", "phi", "qwen2", "roberta"])
def test_the_model_s_type_says_it_too(crumb, tmp_path, model_type):
    folder = tmp_path / model_type
    train(folder, SPECIAL)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [text.replace("\n", " ").replace("\r", " ") for text in TEXTS]
    assert ids_of(crumb, folder, texts) == [theirs(text)["input_ids"] for text in texts]


def test_what_cannot_be_read_is_named(crumb, tmp_path):
    folder = tmp_path / "model"
    train(folder, SPECIAL)
    said = lambda: crumb("tokenize", folder, "--text", "-", status=1, stdin=None, input="x").stderr  # noqa: E731
    assert "nothing says how words are split" in said()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CLIPTokenizer"}')
    assert "tokenizer_class is CLIPTokenizer" in said() and "GPT2Tokenizer" in said()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer", "cls_token": null}')
    assert "cls_token" in said()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    merges = (folder / "merges.txt").read_text()
    for damage, words in {"a b c\n": "expected two tokens", "lonely\n": "expected two tokens", "\n": "expected two tokens",
                          "q\u4e2d x\n": "not in the vocabulary"}.items():  # fmt: skip
        (folder / "merges.txt").write_text(merges + damage)
        assert words in said() and "merges.txt" in said()
    (folder / "merges.txt").write_text(merges)
    for vocab in ["[]", '{"a": -1}', '{"a": "b"}', "{"]:
        (folder / "vocab.json").write_text(vocab)
        assert "vocab.json" in said()
