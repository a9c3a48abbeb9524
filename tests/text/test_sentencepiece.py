"""crumb tokenize on SentencePiece models against SentencePiece: models of every setting, trained here."""

import io
import json
import random

import pytest
from sample_tokenizers import LINES

spm = pytest.importorskip("sentencepiece")
# Lines without the texts of special tokens: SentencePiece itself has no special tokens in texts.
PLAIN = [line.replace("<s>", "<$>") for line in LINES]
SETTINGS = {
    "unigram": {"model_type": "unigram", "vocab_size": 160},
    "unigram_bytes": {"model_type": "unigram", "vocab_size": 400, "byte_fallback": True, "normalization_rule_name": "identity",
                      "remove_extra_whitespaces": False},  # fmt: skip
    "unigram_folded": {"model_type": "unigram", "vocab_size": 150, "normalization_rule_name": "nmt_nfkc_cf",
                       "add_dummy_prefix": False, "character_coverage": 0.98},  # fmt: skip
    "bpe": {"model_type": "bpe", "vocab_size": 200},
    "bpe_like_llama": {"model_type": "bpe", "vocab_size": 450, "byte_fallback": True, "normalization_rule_name": "identity",
                       "remove_extra_whitespaces": False, "character_coverage": 0.98},  # fmt: skip
    "bpe_like_gemma": {"model_type": "bpe", "vocab_size": 450, "byte_fallback": True, "normalization_rule_name": "identity",
                       "remove_extra_whitespaces": False, "add_dummy_prefix": False, "split_digits": True},  # fmt: skip
}  # fmt: skip


def train(folder, **settings):
    made = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(PLAIN[:1000]), model_writer=made, minloglevel=2, **settings)
    (folder / "tokenizer.model").write_bytes(made.getvalue())
    return spm.SentencePieceProcessor(model_proto=made.getvalue())


@pytest.fixture(scope="module", params=SETTINGS)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return train(folder, **SETTINGS[request.param]), folder


def printed(crumb, *arguments, text):
    return json.loads(crumb(*arguments, "--json", stdin=None, input=text).stdout)["texts"]


def test_ids_and_pieces(crumb, trained):
    theirs, folder = trained
    ours = printed(crumb, "tokenize", folder, "--text", "-", "--lines", text="\n".join(PLAIN) + "\n")
    for line, made in zip(PLAIN, ours, strict=True):
        ids = theirs.encode(line)
        assert (made["ids"], made["pieces"]) == (ids, [theirs.id_to_piece(id) for id in ids]), line


def test_texts_come_back(crumb, trained):
    theirs, folder = trained
    lists = [theirs.encode(line) for line in PLAIN]
    lists = [ids for ids in lists if ids and theirs.unk_id() not in ids]
    assert len(lists) > 300
    lines = "".join(" ".join(map(str, ids)) + "\n" for ids in lists)
    assert printed(crumb, "detokenize", folder, "--file", "-", "--lines", text=lines) == [theirs.decode(ids) for ids in lists]


def test_a_whole_file(crumb, trained, tmp_path):
    theirs, folder = trained
    text = "\n".join(PLAIN[:40]) + "\n\n  end "
    (tmp_path / "t.txt").write_text(text)
    said = crumb("tokenize", folder / "tokenizer.model", "--text", tmp_path / "t.txt").stdout
    assert [int(word) for word in said.split()] == theirs.encode(text)


def test_special_and_added_tokens(crumb, tmp_path):
    theirs = train(tmp_path, model_type="bpe", vocab_size=200, user_defined_symbols=["<mask>", "fox's"], control_symbols=["<|im|>"])
    said = lambda text: crumb("tokenize", tmp_path, "--text", "-", "--pieces", stdin=None, input=text).stdout.split()  # noqa: E731
    pieces = said("the<|im|>quick")  # no space before what follows a special token
    assert pieces[:2] == ["'\u2581the'", "'<|im|>'"] and "".join(piece.strip("'") for piece in pieces[2:]) == "quick"
    assert said("<mask>") == ["'<mask>'"]
    assert theirs.encode("the fox's", out_type=str)[-1] == "fox's" == said("the fox's")[-1].strip('"').replace("\\x27", "'").strip("'")
    config = {"bos_token": "<s>", "add_bos_token": True, "added_tokens_decoder": {"200": {"content": "<new>", "special": True}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<more>": 201}))
    ids = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="<new><more>").stdout
    assert ids == "1 200 201\n"
    assert crumb("detokenize", tmp_path, "--ids", ids).stdout == "<more>\n"


def test_what_is_not_supported_is_refused(crumb, tmp_path):
    refusals = [
        ({"model_type": "word", "vocab_size": 60}, "SentencePiece's kind 3 are not supported"),
        ({"model_type": "char", "vocab_size": 60}, "SentencePiece's kind 4 are not supported"),
        ({"model_type": "bpe", "vocab_size": 150, "treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix"),
    ]
    for settings, words in refusals:
        train(tmp_path, **settings)
        said = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1).stderr
        assert words in said and "tokenizer.model" in said
    for bytes in (b"", b"\x0a\xff\xff\xff\xff\x0f", b"# tiktoken\nIQ== 0\n", b"\x0a\x02\x0a\x00"):
        (tmp_path / "tokenizer.model").write_bytes(bytes)
        assert "no SentencePiece model" in crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1).stderr


def test_damaged_models_are_refused_or_read(crumb, tmp_path):
    train(tmp_path, model_type="unigram", vocab_size=160, byte_fallback=False)
    path = tmp_path / "tokenizer.model"
    sound, draw = path.read_bytes(), random.Random(5)
    for _ in range(60):
        damaged = bytearray(sound)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged)) if draw.random() < 0.7 else draw.randrange(4000)] = draw.randrange(256)
        path.write_bytes(damaged[: draw.randrange(len(damaged))] if draw.random() < 0.3 else damaged)
        done = crumb("tokenize", path, "--text", "-", stdin=None, input="the quick ﬁ 中\n", status=None)
        assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("name", ["tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model"])
def test_a_folder_with_the_model_alone_under_each_of_its_names(crumb, tmp_path, name):
    theirs = train(tmp_path, model_type="unigram", vocab_size=160)
    (tmp_path / "tokenizer.model").rename(tmp_path / name)
    ours = printed(crumb, "tokenize", tmp_path, "--text", "-", "--lines", text="\n".join(PLAIN[:50]) + "\n")
    assert [made["ids"] for made in ours] == [theirs.encode(line) for line in PLAIN[:50]]


def fairseq_ids(model, kind, text):
    """As transformers' slow tokenizers number pieces: fairseq_offset, and unknown pieces their own <unk>."""
    shift = {"xlm-roberta": 1, "camembert": 4}[kind]
    first, last = (0, 2) if kind == "xlm-roberta" else (model.bos_id() + 4, model.eos_id() + 4)
    return [first, *(id + shift if id else 3 for id in model.encode(text)), last]


@pytest.mark.parametrize("kind, name", [("xlm-roberta", "XLMRobertaTokenizer"), ("camembert", "CamembertTokenizer")])
def test_models_of_fairseq_number_pieces_anew(crumb, tmp_path, kind, name):
    theirs = train(tmp_path, model_type="unigram", vocab_size=160)
    (tmp_path / "tokenizer.model").rename(tmp_path / "sentencepiece.bpe.model")
    plain = [made["ids"] for made in printed(crumb, "tokenize", tmp_path, "--text", "-", "--lines", text="\n".join(PLAIN[:9]) + "\n")]
    assert plain == [theirs.encode(line) for line in PLAIN[:9]]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    for config in ({}, {"tokenizer_class": name + "Fast"}):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        ours = printed(crumb, "tokenize", tmp_path, "--text", "-", "--lines", text="\n".join(PLAIN) + "\n")
        for line, made in zip(PLAIN, ours, strict=True):
            assert made["ids"] == fairseq_ids(theirs, kind, line), line
    last = theirs.vocab_size() + (1 if kind == "xlm-roberta" else 4)
    ids = printed(crumb, "tokenize", tmp_path, "--text", "-", text="the <mask> quick<pad>")[0]["ids"]
    words = [fairseq_ids(theirs, kind, word) for word in ("the", "quick")]
    assert ids == [*words[0][:-1], last, *words[1][1:-1], 1, words[0][-1]]
    said = crumb("detokenize", tmp_path, "--ids", " ".join(map(str, ids))).stdout
    assert said == "the quick\n"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer"}))
    assert printed(crumb, "tokenize", tmp_path, "--text", "-", text=PLAIN[1])[0]["ids"] == theirs.encode(PLAIN[1])


def test_a_model_that_fairseq_has_not_made_is_refused(crumb, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    train(tmp_path, model_type="unigram", vocab_size=160, bos_id=-1)
    said = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1).stderr
    assert "piece 1 is " in said and "begin with <unk>, <s> and </s>" in said and "tokenizer.model" in said
    train(tmp_path, model_type="unigram", vocab_size=160, user_defined_symbols=["<mask>"])
    assert "'<mask>'" in crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1).stderr
