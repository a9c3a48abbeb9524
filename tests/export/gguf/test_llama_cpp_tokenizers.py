"""Tokenizers as llama.cpp itself reads them, of files that Crumb writes and of files that it reads: the same ids of texts."""

import json
import random
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "formats" / "gguf"))
import test_ggml_vocabularies as vocabularies  # noqa: E402
import test_pre_tokenizers as words  # noqa: E402

pytestmark = pytest.mark.slow
READ = [path for path in vocabularies.FILES if vocabularies.name_of(path) not in vocabularies.REFUSED]


def llama_ids(llama_tool, model, text, folder):
    (folder / "text").write_bytes(text.encode())
    said = llama_tool("llama-tokenize", "-m", model, "-f", folder / "text", "--ids", "--log-disable", "--no-bos", "--no-escape")
    return json.loads(re.search(r"\[[\d, ]*\]", said)[0])


def ascii_text(seed, count):
    """Texts on which llama.cpp's expressions agree with those of published files: they know no capital letters beyond A to
    Z, nor NFC."""
    draw = random.Random(seed)
    return "".join("".join(c for c in words.piece(draw, words.LINES) if c.isascii()) for _ in range(count))


def digits_apart(text):
    return re.sub(r"(\d)(?=\d)", r"\1-", text)


def no_space_before_digits(text):
    return re.sub(r"\s+(?=\d)", "_", text)


# Where llama.cpp's words are others than those of published files, which Crumb has: what keeps a text clear of that.
CLEAR = {
    "deepseek-llm": digits_apart,  # numbers are whole words there, and single digits in the file
    "afmoe": no_space_before_digits,  # of several spaces the last one is a word of its own there
    **dict.fromkeys(("kimi-k2", "youtu"), str.lower),  # no word begins at a capital letter there
    # All of this, and threes of digits are counted where no word ends, too.
    **dict.fromkeys(("tiny_aya", "cohere2moe"), lambda text: no_space_before_digits(digits_apart(text.lower()))),
}


def clear_text(name, seed):
    return CLEAR.get(name, str)(ascii_text(seed, 1500))


@pytest.mark.parametrize("source", READ, ids=vocabularies.name_of)
def test_a_published_vocabulary_goes_on_to_llama_cpp(crumb, llama_tool, source, tmp_path):
    text = "|".join(vocabularies.texts_of(source)) + ascii_text(4, 300)
    crumb("dequantize", vocabularies.as_a_llama(source, tmp_path / "a.gguf"), "-o", tmp_path / "model")
    crumb("export", tmp_path / "model", "-o", tmp_path / "b.gguf", "--to", "gguf")
    theirs = llama_ids(llama_tool, source, text, tmp_path)
    assert words.ids_of(crumb, tmp_path / "model", text) == [theirs]
    assert llama_ids(llama_tool, tmp_path / "b.gguf", text, tmp_path) == theirs


@pytest.mark.parametrize("path", sorted(vocabularies.OWN_IDS.glob("*.out")), ids=lambda path: path.stem)
def test_stored_ids_are_llama_cpp_s(llama_tool, path, tmp_path):
    source = vocabularies.FOLDER / f"ggml-vocab-{path.stem}.gguf"
    if not source.is_file():
        pytest.skip("llama.cpp's vocabularies are not there: scripts/setup tests")
    found = [llama_ids(llama_tool, source, text, tmp_path) for text in vocabularies.texts_of(source)]
    assert found == vocabularies.ids_of(source)


@pytest.mark.parametrize("name", words.FAMILIES)
def test_a_familys_words_go_to_llama_cpp(crumb, llama_tool, name, tmp_path):
    whole = words.trained(*words.FAMILIES[name])
    text = clear_text(name, 5)
    crumb("export", words.write_model(tmp_path / "model", whole), "-o", tmp_path / "m.gguf", "--to", "gguf")
    expected = tokenizers.Tokenizer.from_str(json.dumps(whole)).encode(text).ids
    assert llama_ids(llama_tool, tmp_path / "m.gguf", text, tmp_path) == expected
    assert words.ids_of(crumb, tmp_path / "m.gguf", text) == [expected]


@pytest.fixture(scope="module")
def pairs():
    """Tokens and merges that were found without regard to words, so that ids say where words end."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel
    made.pre_tokenizer = level(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=900, initial_alphabet=level.alphabet(), show_progress=False)
    made.train_from_iterator([ascii_text(seed, 30) for seed in range(100, 160)], trainer)
    model = json.loads(made.to_str())["model"]
    return ["<s>", *sorted(model["vocab"], key=model["vocab"].get)], [" ".join(pair) for pair in model["merges"]]


@pytest.mark.parametrize("name", sorted({*words.FAMILIES, *words.ALONE, *sum(words.KIN.values(), [])}))
def test_a_file_of_any_name_is_read_as_llama_cpp_reads_it(crumb, llama_tool, pairs, name, tmp_path):
    text = clear_text(name, 6)
    path = words.write_named(tmp_path / "m.gguf", name, *pairs)
    theirs = llama_ids(llama_tool, path, text, tmp_path)
    assert words.ids_of(crumb, path, text) == [theirs]
