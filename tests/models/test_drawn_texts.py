"""`--data synthetic` and `synthetic-chat`: what a model draws from itself is what transformers says it would, whichever texts
stand before it or beside it."""

import json
import shutil
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
load_file = pytest.importorskip("safetensors.torch").load_file
save_file = pytest.importorskip("safetensors.torch").save_file
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")
LONGEST = {"phi3_long": 16}  # where longer texts would turn otherwise


def draw(crumb, model, out, data, *, length, tokens, threads=2, seed=0, file=None):
    crumb("train", "lm", "--model", model, "--data", data, "--weights", "keep", "--embeddings", "keep", "--teacher", "none", "--steps", 0,
          "--length", length, "--tokens", tokens, "--threads", threads, "--seed", seed, "-o", out)  # fmt: skip
    return out / ("synthetic.npy" if data == "synthetic" else "synthetic.jsonl")


def texts_of(row, ends, longest):
    """A sequence cut where a text ends."""
    text = []
    for token in row.tolist():
        text.append(token)
        if token in ends or len(text) == longest:
            yield text
            text = []
    if text:
        yield text


@pytest.mark.parametrize("name", ["llama3", "mistral", "qwen2_windows", "gemma2", "gemma3", "phi3_long", "smollm3"])
def test_drawn_tokens_have_the_probabilities_of_the_model(crumb, tmp_path, name):
    """Over all tokens but each text's first, surprise less entropy has mean 0, and its variance is known: 5 of its deviations.
    Where a text's tokens are taken to go on from the texts before them it is far more."""
    folder = tmp_path / "model"
    tiny.make(name, folder)
    ends = list(range(0, 250, 5))  # so that a sequence holds several texts
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    length, count = 44, 37
    rows = np.load(draw(crumb, folder, tmp_path / "out", "synthetic", length=length, tokens=length * count)).reshape(count, length)
    model = tiny.load(folder)

    def deviations(texts):
        surprise = variance = 0
        for text in texts:
            with torch.no_grad():
                logs = model(torch.tensor([text])).logits[0].double().log_softmax(-1)
            for place in range(1, len(text)):
                log = logs[place - 1]
                entropy = -(log.exp() * log).sum()
                surprise += float(-log[text[place]] - entropy)
                variance += float((log.exp() * log**2).sum() - entropy**2)
        return surprise / variance**0.5

    texts = [text for row in rows for text in texts_of(row, ends, LONGEST.get(name, 128))]
    assert len(texts) > 1.3 * count and abs(deviations(texts)) < 5
    assert deviations(row.tolist() for row in rows) > 10
    assert len({text[0] for text in texts}) > 40 and not {text[0] for text in texts} & {256, 257, 258, *ends}


CHARACTERS = [chr(0x4E00 + i) for i in range(277)]
CHAT = (
    "{% for m in messages %}{{ '<s>' + ('甲' if m.role == 'user' else '乙') + m.content + '</s>' }}{% endfor %}"
    "{% if add_generation_prompt %}<s>乙{% endif %}"
)


@pytest.fixture(scope="module", params=["llama3", "mistral", "qwen2_windows"])
def chatting(request, tmp_path_factory):
    """A model whose most probable token is certain, and what it says by transformers: its folder, question and answer."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    tiny.make(request.param, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"] *= 1e6
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    alphabet = ["甲", "乙", *[one for one in CHARACTERS if one not in "甲乙"]][:277]
    special = ["<s>", "</s>", "<pad>"]
    vocabulary = [*alphabet[:256], *special, *alphabet[256:]]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(vocabulary)}, []))
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT)
    model = tiny.load(folder)

    def goes_on(ids, count=40):
        found = list(ids)
        with torch.no_grad():
            for _ in range(count):
                found.append(int(model(torch.tensor([found])).logits[0, -1].argmax()))
        return found[len(ids) :]

    first = goes_on([256, 0])
    size = next(i for i in range(4, 40) if first[i] not in first[:i] and first[i] > 2 and not 256 <= first[i] <= 258)
    question, ends = first[:size], [first[size]]
    second = goes_on([256, 0, *question, 257, 256, 1])
    size = next(i for i in range(3, 40) if second[i] == ends[0] or second[i] not in question + second[:i])
    answer = second[:size]
    ends.append(second[size])
    assert not {256, 257, 258} & {*question, *answer} and ends[1] not in question and ends[0] not in answer
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    text = lambda ids: "".join(vocabulary[i] for i in ids)  # noqa: E731
    return folder, text(question), text(answer)


@pytest.mark.parametrize("length", [33, 64, 100])
def test_drawn_conversations_are_what_the_model_says(crumb, tmp_path, chatting, length):
    """One after the other until the sequence ends; the last answer is what of it there was room for."""
    folder, question, answer = chatting
    sequences = 19
    tokens = sequences * length
    file = draw(crumb, folder, tmp_path / "out", "synthetic-chat", length=length, tokens=tokens)
    frame = 2 + len(question) + 3
    expected = []
    for _ in range(sequences):
        left = length
        while left > frame:
            said = answer[: left - frame]
            expected.append((question, said, len(said) + frame == left))
            left -= frame + len(said)
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(found) == len(expected) > 0
    for line, (asked, said, is_last) in zip(found, expected, strict=True):
        assert [message["content"] for message in line["messages"]] == [asked, said]
        assert [message["role"] for message in line["messages"]] == ["user", "assistant"]
        # One that ends with its sequence may be whole: nothing was drawn behind it.
        assert line.get("continue_final_message", False) == is_last
    again = draw(crumb, folder, tmp_path / "one", "synthetic-chat", length=length, tokens=tokens, threads=1)
    assert again.read_text() == file.read_text()


@pytest.mark.parametrize("data", ["synthetic", "synthetic-chat"])
def test_an_unfinished_run_keeps_what_it_has_drawn(crumb, crumb_bin, tmp_path, chatting, data):
    """A command that asks for another text is refused, and leaves it; one that is wrong draws nothing."""
    out, name = tmp_path / "out", "synthetic.npy" if data == "synthetic" else "synthetic.jsonl"

    def command(*more, tokens=640):
        return ["train", "lm", "--model", chatting[0], "--data", data, "--weights", "int4:group=16", "--length", 32, "--tokens", tokens, "--batch", 1,
                "--steps", 40, "--checkpoint-every", 3, "--threads", 1, "--rate", 1e-5, "-o", out, *more]  # fmt: skip

    for wrong in (["--schedule", "foo"], ["--products", "tf32"], ["--loss", "ce", "--temperature", 2], ["--valid", tmp_path / "none.txt"],
                  ["--set", "*layers.1.*=int4:group=7"], ["--kv-cache", "int4:group=7"], ["--learn-adapters"]):  # fmt: skip
        crumb(*command(*wrong), status=1 if {"--valid", "--set"} & set(wrong) else 2)
        assert not out.exists(), wrong
    process = subprocess.Popen([str(part) for part in (crumb_bin, *command())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (out / "checkpoint.state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = (out / name).read_bytes()
    for more, tokens, what in ((["--seed", 1], 640, "seed"), ([], 1280, "drawn"), ([], 64, "")):
        said = crumb(*command(*more, tokens=tokens), status=2).stderr
        assert "an unfinished run of another kind lies there" in said and what in said, said
        assert (out / name).read_bytes() == kept
    crumb(*command())
    assert (out / name).read_bytes() == kept and (out / "model.crumb").exists()


def test_models_that_cannot_draw_conversations(crumb, tmp_path, chatting):
    def refused(template):
        folder = tmp_path / "model"
        shutil.copytree(chatting[0], folder, dirs_exist_ok=True)
        (folder / "chat_template.jinja").unlink()
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        return crumb("train", "lm", "--model", folder, "--data", "synthetic-chat", "--weights", "keep", "--embeddings", "keep", "--teacher",
                     "none", "--steps", 0, "--length", 16, "--tokens", 32, "-o", tmp_path / "out", status=1).stderr  # fmt: skip

    assert "chat template" in refused(None)
    assert "does not write a question once and as it is" in refused("{{ messages[0].content | upper }}")
    assert "writes nothing before a question" in refused("{{ messages[0].content }}x")
    thinks = CHAT.replace("<s>乙{% endif %}", "<s>乙人{% endif %}")
    assert "writes an answer otherwise than behind its own prompt" in refused(thinks)
    assert "has drawn no conversation in 2 sequences of 16 tokens" in refused("<s>" * 20 + "{{ messages[0].content }}</s>")
    assert not (tmp_path / "out").exists()
