"""crumb embed on the float checkpoint against sentence-transformers: equal within 1e-4, line by line and in batches."""

import os

import numpy as np
import pytest

TOLERANCE = 1e-4

ODD_LINES = [
    "",
    "   ",
    "\t",
    "a",
    "é",
    "E\u0301cole",
    "Ünïcödé çà et là, naïve façade",
    "İI ı ß ẞ ﬁ ǆ Å",
    "東京タワーは高いです",
    "我们去吃饭",
    "한국어 문장입니다",
    "😀",
    "👩\u200d👩\u200d👧\u200d👦 family 👍🏽",
    "\u200f\u202eאבג العربية",
    "a\u00a0b\u3000c\u2003d",
    "soft\u00adhyphen zero\u200bwidth \ufeffmark",
    "\x01\x02\x7f control \x1b[31m",
    "word " * 600,
    "supercalifragilistic " * 400,
    "中" * 700,
    "." * 600,
    "x" * 100,
    "x" * 101,
    "q" + "\u0301" * 200,
    "[CLS]",
    "[SEP][SEP]",
    "[CLS] in the text",
    "a [MASK]b, [cls] and [UNK][PAD]",
    "[MASK]" * 300,
    "C++ x_y 3.14 1,000 e-mail http://a.b/c?d=e&f",
]


@pytest.fixture(scope="module")
def oracle(minilm):
    os.environ["HF_HUB_OFFLINE"] = "1"
    package = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    return package.SentenceTransformer(str(minilm), device="cpu")


def embed(crumb, model, lines, folder, *options):
    text = folder / "lines.txt"
    text.write_bytes("".join(line + "\n" for line in lines).encode())
    out = folder / "vectors.npy"
    crumb("embed", model, "--text", text, "-o", out, *options)
    return np.load(out)


def check(found, lines, oracle):
    assert found.dtype == np.float32
    assert found.shape == (len(lines), oracle.encode("width").shape[0])
    together = oracle.encode(lines, batch_size=32)
    alone = np.stack([oracle.encode([line])[0] for line in lines])
    for expected in (together, alone):
        difference = np.abs(found - expected).max(axis=1)
        worst = int(difference.argmax())
        assert difference[worst] < TOLERANCE, f"line {worst} ({lines[worst][:60]!r}) differs by {difference[worst]}"


def test_the_sentences_that_ship_with_crumb(crumb, minilm, oracle, repo, tmp_path):
    lines = (repo / "examples" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 200 == len(set(lines))
    check(embed(crumb, minilm, lines, tmp_path), lines, oracle)


def test_odd_lines(crumb, minilm, oracle, tmp_path):
    check(embed(crumb, minilm, ODD_LINES, tmp_path), ODD_LINES, oracle)


@pytest.mark.parametrize("raw", [b"caf\xe9 au lait", b"\xff\xfe", b"cut \xe2\x82", b"\xed\xa0\x80 surrogate", b"\xc0\xafslash"])
def test_ill_formed_text_is_refused_with_its_line(crumb, minilm, tmp_path, raw):
    text = tmp_path / "raw.txt"
    text.write_bytes(b"one\ntwo\n" + raw + b"\nfour\n")
    said = crumb("embed", minilm, "--text", text, "-o", tmp_path / "raw.npy", status=1).stderr
    assert "line 3" in said and "UTF-8" in said
