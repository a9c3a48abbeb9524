"""Files of texts and conversations, `--data FILE.jsonl`: which tokens are trained by, against what transformers makes of them."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nbe kind<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<start>model\n{% endif %}"
)
FIRST = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model; and one whose tokenizer puts a first token in front of texts."""
    work = tmp_path_factory.mktemp("lines")
    tiny.make("llama3", work / "plain")
    shutil.copytree(work / "plain", work / "first")
    tokenizer = json.loads((work / "first/tokenizer.json").read_text())
    (work / "first/tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": FIRST}))
    return work


def with_template(made, tmp_path, template, model="plain"):
    folder = tmp_path / "model"
    shutil.copytree(made / model, folder)
    (folder / "chat_template.jinja").write_text(template)
    return folder, transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>")


def train(crumb, folder, lines, out, *flags, status=0):
    file = out.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return crumb("train", "lm", "--model", folder, "--data", file, "--weights", "keep", "--embeddings", "keep", "--teacher", "none", "--batch", 1,
                 "--steps", 1, "--products", "f32", "-o", out, *flags, status=status)  # fmt: skip


def check(crumb, folder, lines, out, ids, counts):
    """That the whole is these tokens, of which those that count are learned."""
    longer = train(crumb, folder, lines, out, "--length", len(ids) + 1, status=1).stderr
    assert f"has {len(ids)} tokens" in longer, (longer, len(ids))
    train(crumb, folder, lines, out, "--length", len(ids))
    with torch.no_grad():
        logs = tiny.load(folder)(torch.tensor([ids])).logits[0].log_softmax(-1)
    wanted = [-float(logs[i - 1, ids[i]]) for i in range(1, len(ids)) if counts[i]]
    first = json.loads((out / "log.jsonl").read_text().splitlines()[0])
    assert first["loss"] == pytest.approx(sum(wanted) / len(wanted), rel=1e-4)


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("template", [CHATML, GEMMA], ids=["chatml", "gemma"])
@pytest.mark.parametrize("said", ["e", "end", "m", ">", "<", "\n e", " the rest of it ", "a\u00a0", "\u3000b", "t t t"])
def test_answers_without_an_end(crumb, made, tmp_path, template, said):
    folder, tokenizer = with_template(made, tmp_path, template)
    turns = [{"role": "user", "content": "the end?"}, {"role": "assistant", "content": said}]
    prompt = tokenizer.apply_chat_template(turns[:1], chat_template=template, add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template(turns, chat_template=template, continue_final_message=True, tokenize=False)
    assert whole.startswith(prompt)
    ids, begin = ids_of(tokenizer, whole), len(ids_of(tokenizer, prompt))
    check(crumb, folder, [{"messages": turns, "continue_final_message": True}], tmp_path / "out", ids, [i >= begin for i in range(len(ids))])


def test_of_a_conversation_that_greets_the_greeting_counts(crumb, made, tmp_path):
    folder, tokenizer = with_template(made, tmp_path, CHATML.replace("im_start", "b").replace("im_end", "e"))
    turns = [("assistant", "ask me"), ("user", "hi there"), ("assistant", "so it is")]
    ids, counts = [], []
    for text, counted in (("<|b|>system\nbe kind<|e|>\n<|b|>assistant\n", False), ("ask me<|e|>\n", True),
                          ("<|b|>user\nhi there<|e|>\n<|b|>assistant\n", False), ("so it is<|e|>\n", True)):  # fmt: skip
        found = ids_of(tokenizer, text)
        ids, counts = ids + found, counts + [counted] * len(found)
    line = {"messages": [{"role": role, "content": content} for role, content in turns]}
    check(crumb, folder, [line], tmp_path / "out", ids, counts)


def test_a_first_token_is_there_once(crumb, made, tmp_path):
    """Whether the template writes it, the tokenizer puts it there, or neither: and nobody learns it."""
    folder, tokenizer = with_template(made, tmp_path, GEMMA, "first")
    turns = [{"role": "user", "content": "hi there"}, {"role": "assistant", "content": "so it is"}]
    prompt, answer = ids_of(tokenizer, "<s><start>user\nhi there<end>\n<start>model\n"), ids_of(tokenizer, "so it is<end>\n")
    assert prompt[0] == 256
    talk = ([*prompt, *answer], [False] * len(prompt) + [True] * len(answer))
    words = ids_of(tokenizer, "then it was")
    text = ([256, *words, 257], [False] + [True] * (len(words) + 1))
    lines = {"talk": {"messages": turns}, "text": {"text": "then it was"}}
    for name, order in (("a", ["talk", "text"]), ("b", ["text", "talk"]), ("c", ["text"])):
        parts = [talk if part == "talk" else text for part in order]
        ids, counts = sum((part[0] for part in parts), []), sum((part[1] for part in parts), [])
        check(crumb, folder, [lines[part] for part in order], tmp_path / name, ids, counts)


def test_tools_take_the_template_for_them(crumb, made, tmp_path):
    folder, tokenizer = with_template(made, tmp_path, "")
    (folder / "chat_template.jinja").unlink()
    plain = "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = [{"name": "default", "template": plain}, {"name": "tool_use", "template": "{{ tools[0].name }}" + plain}]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}]
    for name, more, before in (("with", {"tools": [{"name": "liquor"}]}, "liquor"), ("without", {}, "")):
        prompt, answer = ids_of(tokenizer, f"{before}<u>hi\n<a>"), ids_of(tokenizer, "so\n")
        check(crumb, folder, [{"messages": turns, **more}], tmp_path / name, prompt + answer, [False] * len(prompt) + [True] * len(answer))


def test_where_nothing_is_to_be_predicted(crumb, made, tmp_path):
    """It is said before the first step: of a text to measure by, training would else be lost at its end."""
    folder, _ = with_template(made, tmp_path, CHATML)
    long = {"messages": [{"role": "user", "content": "hi there " * 30}, {"role": "assistant", "content": "so"}]}
    assert "the text to train by has no answer" in train(crumb, folder, [long], tmp_path / "a", "--length", 64, status=1).stderr
    (tmp_path / "valid.jsonl").write_text(json.dumps(long) + "\n")
    text = [{"text": "so here it is, " * 30}]
    said = train(crumb, folder, text, tmp_path / "b", "--length", 64, "--valid", tmp_path / "valid.jsonl", status=1).stderr
    assert "the text to measure by has no answer" in said
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_lines_and_losses_that_are_refused(crumb, made, tmp_path):
    folder, _ = with_template(made, tmp_path, CHATML)
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    said = train(crumb, folder, [{"messages": turns, "continue_final_message": "true"}], tmp_path / "a", "--length", 8, status=1).stderr
    assert "line 1: continue_final_message: expected true or false, found string" in said
    train(crumb, folder, [{"text": "so here it is", "messages": None}], tmp_path / "b", "--length", 8)
    said = crumb("train", "lm", "--model", folder, "--data", tmp_path / "b.jsonl", "--weights", "int8", "--length", 8, "--steps", 1, "--loss", "cosine",
                 "-o", tmp_path / "c", status=2).stderr  # fmt: skip
    assert "the loss cosine is for sentence encoders" in said
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    assert "expected a text" in crumb("perplexity", folder, "--text", tmp_path / "x.jsonl", status=1).stderr
