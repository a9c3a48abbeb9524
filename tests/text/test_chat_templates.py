"""Chat templates against `transformers`: those of published models, and thousands that are drawn."""

import json
import os
import random
import subprocess
import unicodedata
from collections import Counter
from datetime import datetime
from pathlib import Path

import chat_programs
import pytest
from chat_conversations import conversation, expected
from sample_tokenizers import save_tokenizer

pytest.importorskip("transformers")
REPO = Path(__file__).resolve().parents[2]
CACHE = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb"
PUBLISHED = sorted((Path(CACHE) / "llama_models" / "templates").glob("*.jinja"))
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
# Of the families that Crumb runs, those that are not among the published ones or differ between versions.
FAMILIES = {
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    + SYSTEM
    + "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
    "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "olmo2": "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}"
    "{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}"
    "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}",
    "gemma3": "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set first_user_prefix = (messages[0]['content'] if messages[0]['content'] is string else "
    "messages[0]['content'][0]['text']) + '\n\n' -%}{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first_user_prefix = '' -%}"
    "{%- set loop_messages = messages -%}{%- endif -%}{%- for message in loop_messages -%}{%- if (message['role'] == 'assistant') -%}{%- set role = 'model' -%}"
    "{%- else -%}{%- set role = message['role'] -%}{%- endif -%}{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else '') }}"
    "{%- if message['content'] is iterable and message['content'] is not string -%}{%- for item in message['content'] -%}{{ item['text'] | trim }}{%- endfor -%}"
    "{%- else -%}{{ message['content'] | trim }}{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}",
}  # fmt: skip


@pytest.fixture(scope="module")
def rendered(crumb_bin):
    """rendered(cases) is what Crumb makes of each: {"text"} or {"error"}."""
    binary = Path(os.environ.get("CRUMB_CHAT_CASES", crumb_bin.parent / "tests" / "crumb_chat_cases"))

    def run(cases):
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run([binary], input=lines, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.split("\n") if line]
        assert len(answers) == len(cases)
        return answers

    return run


def check(rendered, cases, may_refuse=0.0):
    """Each text equal, and an error where there is one; of the texts, a share may be refused by name."""
    texts, refused = 0, Counter()
    for case, ours in zip(cases, rendered(cases)):
        theirs = expected(case)
        texts += theirs is not None
        if theirs is not None and "not supported" in ours.get("error", "") and may_refuse:
            refused[ours["error"].split(": ", 2)[-1]] += 1
            continue
        assert ours.get("text") == theirs, (case, ours)
    assert sum(refused.values()) <= may_refuse * texts, refused
    return texts


@pytest.mark.parametrize("name", FAMILIES)
def test_templates_of_families(rendered, name):
    draw = random.Random(name)
    assert check(rendered, [conversation(draw, FAMILIES[name]) for _ in range(150)]) > 30


@pytest.mark.skipif(not PUBLISHED, reason="llama.cpp's chat templates are not there: scripts/setup tests")
@pytest.mark.parametrize("part", range(8))
def test_templates_of_published_models(rendered, part):
    cases = []
    for path in PUBLISHED[part::8]:
        draw = random.Random(path.name)
        cases += [conversation(draw, path.read_text()) for _ in range(12)]
    assert check(rendered, cases) > len(cases) / 3


def test_drawn_templates(rendered):
    assert check(rendered, [chat_programs.case(seed) for seed in range(200)], may_refuse=0.1) > 75


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_drawn_templates(rendered, part):
    check(rendered, [chat_programs.case(seed) for seed in range(850 * part + 200, 850 * part + 1050)], may_refuse=0.1)


def one(template, messages=(), **more):
    messages = list(messages) or [{"role": "user", "content": "hi"}]
    return {"template": template, "messages": messages, "add_generation_prompt": False, "tokens": {}, "extra": {}, **more}


def test_what_is_not_supported_is_refused_by_its_name_and_line(rendered):
    cases = {
        "a\n{% include 'x' %}": "line 2: the tag 'include' is not supported",
        "{% block x %}{% endblock %}": "the tag 'block' is not supported",
        "\n\n{{ x|urlize }}": "line 3: the filter 'urlize' is not supported",
        "{{ x is filter }}": "the test 'filter' is not supported",
        "{% for x in y recursive %}{% endfor %}": "a recursive loop is not supported",
        "{{ cycler(1) }}": "the name 'cycler' is not supported",
        "{{ f(*x) }}": "a call with '*' is not supported",
        "{{ 'a'.zfill(3) }}": "the method 'zfill' of strings is not supported",
        "{{ '%a' % 'a' }}": "the conversion '%a' of a format is not supported",
        "{{ 2 ** 64 }}": "an integer of more than 64 bits is not supported",
        "{{ ''.__class__ }}": "the attribute '__class__' is not supported",
        "{% for i in [1] %}{% macro m() %}{% endmacro %}{% endfor %}": "a macro inside of a loop, a macro or a block is not supported",
    }
    for answer, words in zip(rendered([one(template) for template in cases]), cases.values()):
        assert words in answer.get("error", ""), (answer, words)


def test_errors_say_what_and_where(rendered):
    cases = {
        "{{ raise_exception('no ' + messages[0].role) }}": "template: line 1: the template refuses the conversation: no user",
        "a\n{{ nothing.more }}": "template: line 2: 'nothing' is undefined",
        "{% if x %}": "expected the tag 'endif'",
        "{{ 1 +": "found the end, expected an expression",
        "{{ 'a' + 1 }}": "there is no '+' of a string and an integer",
        "{{ messages|nofilter }}": "there is no filter 'nofilter'",
        "x\n{{ ']' ]": "line 2: found ']' without its beginning",
    }
    for answer, words in zip(rendered([one(template) for template in cases]), cases.values()):
        assert words in answer.get("error", ""), (answer, words)


def test_hostile_templates_end(rendered):
    steps = "the template takes more steps or makes more text than it may"
    cases = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}": steps,
        "{% set ns = namespace(x='x') %}{% for a in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}": steps,
        "{{ 'x' * 1000000000 }}": steps,
        "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}": steps,
        "{% set ns = namespace(x=[]) %}{% for a in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}": "values are nested too deep",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "calls are nested too deep",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}": "it is nested too deep",
        "{{ " + "1+" * 5000 + "1 }}": "it is nested too deep",
        "{% if 1 %}" * 5000 + "{% endif %}" * 5000: "it is nested too deep",
        "{{ " + "not " * 5000 + "1 }}": "it is nested too deep",
        "{{ range(200000)|length }}": "a range of more than 100000 numbers",
        "{{ 'a' }}" * 100: "",
    }
    for answer, words in zip(rendered([one(template, steps=10**6) for template in cases]), cases.values()):
        assert words in answer.get("error", "" if "text" in answer else "?"), (answer, words)
    assert steps in rendered([one("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")])[0]["error"]
    few = one("{% for a in range(9000) %}{{ a }}{% endfor %}", steps=1000)
    assert steps in rendered([few])[0]["error"] and "text" in rendered([{**few, "steps": 10**6}])[0]


def test_every_letter_has_the_case_that_python_gives_it(rendered):
    """But for letters whose upper case is several, of which only those of Latin are known, and what Unicode got later."""
    several = [chr(c) for c in range(0x1F200) if not 0xD800 <= c < 0xE000 and len(chr(c).upper()) > 1]
    known = "ßﬀﬁﬂﬃﬄﬅﬆ"
    letters = [chr(c) for c in range(0x1F200) if unicodedata.category(chr(c)) not in ("Lo", "Cn", "Cs", "Co")]
    letters = [c for c in letters if c not in several or c in known]
    show = "{% for c in messages[0].content %}{{ [c|upper, c|lower, c.capitalize(), c.islower(), c.isupper(), c.isspace()] }}\n{% endfor %}"
    parts = ["".join(letters[i : i + 2000]) for i in range(0, len(letters), 2000)]
    answers = rendered([one(show, [{"role": "user", "content": part}]) for part in parts])
    for part, answer in zip(parts, answers):
        wanted = [[c.upper(), c.lower(), c.capitalize(), c.islower(), c.isupper(), c.isspace()] for c in part]
        assert answer["text"].split("\n")[:-1] == [str(row) for row in wanted]
    refused = [one("{{ messages[0].content|upper }}", [{"role": "user", "content": c}]) for c in several if c not in known]
    assert all("is not supported" in answer["error"] for answer in rendered(refused))
    words = ["ΣΑΣ ΑΣ' ΑΣΑ Σ", "ǆ Ǆword", "Straße ﬁn", "x'Y İI"]
    show = "{{ messages[0].content|lower }}|{{ messages[0].content.title() }}|{{ messages[0].content.capitalize() }}"
    for word, answer in zip(words, rendered([one(show, [{"role": "user", "content": word}]) for word in words])):
        assert answer["text"] == "|".join([word.lower(), word.title(), word.capitalize()])


def test_time(rendered):
    now = 1_700_000_000
    form = "%d %b %Y, %H:%M:%S %A %B %j %%"
    answer = rendered([one("{{ strftime_now('" + form + "') }}", now=now), one("{{ strftime_now('%z') }}", now=now)])
    assert answer[0]["text"] == datetime.fromtimestamp(now).strftime(form)
    assert "strftime_now with '%z' is not supported" in answer[1]["error"]


def test_messages_as_apply_chat_template_shows_them(rendered):
    show = "{{ messages|tojson }}"
    given = [{"role": "assistant", "content": None, "thinking": "t"}, {"content": "x", "role": "user", "reasoning": "r"}]
    assert check(rendered, [one(show, given), one("{{ tools is none }} {{ documents is defined }}")]) == 2
    assert "there is no message" in rendered([{**one(show), "messages": []}])[0]["error"]


@pytest.fixture
def model(tmp_path):
    """(a folder with a tokenizer and SmolLM2's template, the template)"""
    save_tokenizer("gpt2", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(
        {"chat_template": FAMILIES["smollm2"], "eos_token": "<s>",
         "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False, "normalized": False,
                       "single_word": False, "special": True}, "add_bos_token": True,
         "tokenizer_class": "PreTrainedTokenizerFast"}))  # fmt: skip
    return tmp_path


CHAT = [{"role": "user", "content": "the <s> fox's\n 12"}, {"role": "assistant", "content": "é"}]


def write(folder, messages):
    path = folder / "messages.json"
    path.write_text(json.dumps(messages))
    return path


def test_the_command_gives_ids_and_text_as_transformers_does(crumb, model):
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast.from_pretrained(model)
    messages = write(model, CHAT)
    for flags, prompt in (([], True), (["--no-generation-prompt"], False)):
        text = theirs.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=prompt)
        assert crumb("tokenize", model, "--chat", messages, "--rendered", *flags).stdout == text
        ids = theirs.apply_chat_template(CHAT, add_generation_prompt=prompt)["input_ids"]
        assert [int(word) for word in crumb("tokenize", model, "--chat", messages, *flags).stdout.split()] == ids
    made = json.loads(crumb("tokenize", model / "tokenizer.json", "--chat", messages, "--json", *flags).stdout)["texts"]
    assert [entry["ids"] for entry in made] == [ids]
    write(model, {"messages": CHAT})
    assert crumb("tokenize", model, "--chat", messages, "--rendered", *flags).stdout == text


def test_where_templates_are_found(crumb, model):
    messages = write(model, CHAT)
    said = lambda **more: crumb("tokenize", model, "--chat", messages, "--rendered", **more)  # noqa: E731
    config = model / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d{{ eos_token }}"}]}))
    (model / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "</e>"}}))
    assert said().stdout == "d</e>"
    config.write_text(json.dumps({"chat_template": [{"name": "rag", "template": "r"}], "eos_token": "E"}))
    assert "chat_template: found templates 'rag', expected one named 'default'" in said(status=1).stderr
    (model / "chat_template.jinja").write_text("j{{ eos_token }}\n")
    assert said().stdout == "jE"
    (model / "chat_template.jinja").write_text("\n{% do x %}")
    assert f"'{model}': chat_template.jinja: line 2: the tag 'do' is not supported" in said(status=1).stderr
    (model / "chat_template.jinja").unlink()
    config.write_text("{}")
    assert "it has no chat template" in said(status=1).stderr


def test_conversations_that_are_none(crumb, model):
    for bad, words in [("x", "not JSON at byte 3"), ([], "there is no message"), ([{"content": "a"}], "message 0: expected an object with a"),
                       ({"a": 1}, "expected a list of messages"), ([1], "message 0")]:  # fmt: skip
        path = write(model, bad)
        if bad == "x":
            path.write_text("[{")
        said = crumb("tokenize", model, "--chat", path, status=1).stderr
        assert words in said and "messages.json" in said, said
    crumb("tokenize", model, "--rendered", "--text", path, status=2)
    crumb("tokenize", model, status=2)
    crumb("tokenize", model, "--chat", path, "--text", path, status=2)


def test_smollm2(crumb, smollm2, tmp_path):
    messages = write(tmp_path, [{"role": "user", "content": "The capital of France is"}])
    text = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\nThe capital of France is<|im_end|>\n<|im_start|>assistant\n"
    assert crumb("tokenize", smollm2, "--chat", messages, "--rendered").stdout == text
    ids = [int(word) for word in crumb("tokenize", smollm2, "--chat", messages).stdout.split()]
    assert ids[0] == 1 and ids.count(1) == 3 and ids.count(2) == 2  # <|im_start|>, <|im_end|>
    assert crumb("detokenize", smollm2, "--special", "--ids", " ".join(map(str, ids))).stdout == text + "\n"
    assert [504, 3575, 282, 4649, 314] == ids[ids.index(504) :][:5]
    write(tmp_path, [{"role": "system", "content": "S"}, {"role": "user", "content": ""}])
    said = crumb("tokenize", smollm2, "--chat", messages, "--rendered", "--no-generation-prompt").stdout
    assert said == "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
