"""What stands beside the messages of a conversation is told to its chat template, as apply_chat_template of transformers tells it."""

import json
import random

import pytest
from sample_tokenizers import save_tokenizer

transformers = pytest.importorskip("transformers")

TEMPLATE = """{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}{% if tools %}{{ tools | tojson }}{% else %}{{ tools is none }}{% endif %}
{{ documents }} {% for name in ['enable_thinking', 'date_string', 'level', 'custom'] %}{% endfor -%}
{{ enable_thinking is defined }}{{ enable_thinking }} {{ date_string is defined and date_string }} {{ level }} {{ custom | tojson if custom is defined }}
{{ bos_token }}{{ add_generation_prompt }}"""
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "é", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_tokenizer("gpt2", path)
    named = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "TOOLS " + TEMPLATE}]
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "chat_template": named})
    )
    (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return path


def draw_variables(draw):
    choices = {"tools": [TOOLS, TOOLS * 2], "documents": [[{"title": "t", "text": "x"}], []], "enable_thinking": [True, False, None],
               "date_string": ["1 Jan", ""], "level": [3, 2.5, "high"], "custom": [{"a": [1, None, "é"]}, [1, 2]], "bos_token": ["<mine>"],
               "add_generation_prompt": [False, True]}  # fmt: skip
    return {name: draw.choice(values) for name, values in choices.items() if draw.random() < 0.4}


def test_variables_of_drawn_conversations(crumb, folder, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    draw = random.Random(41)
    messages = [{"role": "user", "content": "Who?"}]
    for i in range(60):
        variables = draw_variables(draw)
        keywords = {"add_generation_prompt": True, **variables}
        expected = tokenizer.apply_chat_template(messages, tokenize=False, **keywords)
        given = {"messages": messages, **variables}
        if i % 3 == 1 and variables:  # as requests of servers have them
            lists = {key: given.pop(key) for key in list(variables) if key not in ("tools", "documents")}
            given["chat_template_kwargs"] = lists
        if i % 3 == 2:
            given = dict(reversed(given.items()))
        (tmp_path / "c.json").write_text(json.dumps(given))
        found = crumb("tokenize", folder, "--chat", tmp_path / "c.json", "--rendered").stdout
        assert found == expected, (given, found, expected)


@pytest.mark.parametrize("beside, words", [
    ({"tools": {"type": "function"}}, "tools: expected a list"),
    ({"tools": "not json"}, "tools"),
    ({"documents": 3}, "documents: expected a list"),
    ({"chat_template_kwargs": [1]}, "chat_template_kwargs: expected an object"),
    ({"chat_template": "{{ 1 }}"}, "chat_template.jinja"),
    ({"continue_final_message": True}, "continue_final_message"),
])  # fmt: skip
def test_what_cannot_be_told_is_refused(crumb, folder, tmp_path, beside, words):
    (tmp_path / "c.json").write_text(json.dumps({"messages": [{"role": "user", "content": "Who?"}], **beside}))
    assert words in crumb("tokenize", folder, "--chat", tmp_path / "c.json", "--rendered", status=1).stderr


VALUES = ["3", "-42", "0", "2.5", "-0.001", "1e15", "'a'", "'\u00e9\u4e2d'", "true", "none", "[1, 'b']", "255", "65"]


def draw_format(draw):
    """An expression with a format, and what it is given in one of the ways."""
    kinds, parts, count = "sssrddiuxXoeEfFgGc", [], draw.randint(0, 3)
    for i in range(count):
        flags = "".join(draw.sample("-+ #0", draw.choice([0, 0, 1, 2])))
        width, precision = draw.choice(["", "", "6", "12"]), draw.choice(["", "", ".2", ".0", "."])
        parts.append(draw.choice(["", "x", "%%", "\u00e9 "]) + f"%{flags}{width}{precision}{draw.choice(kinds)}")
    text, values = "".join(parts) + draw.choice(["", "."]), [draw.choice(VALUES) for _ in range(count + draw.choice([0] * 9 + [1, -1]) if count else 0)]
    way = draw.choice(["filter", "tuple", "one", "names"])
    if way == "filter":
        return f"'{text}' | format({', '.join(values)})"
    if way == "names":
        named = "".join(f"%(v{i}){part}" for i, part in enumerate(text.split("%")[1:])) if "%%" not in text else "%(v0)s"
        pairs = [f"v{i}={value}" for i, value in enumerate(values)]
        return f"'{named}' | format({', '.join(pairs)})" if draw.random() < 0.5 else f"'{named}' % dict({', '.join(pairs)})"
    if way == "one" and len(values) == 1:
        return f"'{text}' % {values[0]}"
    return f"'{text}' % ({', '.join(values)}{',' if len(values) == 1 else ''})"


def test_drawn_percent_formats(crumb, folder, tmp_path):
    """As jinja2 has them; what raises an error there is one here."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()
    draw = random.Random(43)
    good, bad = [], []
    for _ in range(1500):
        expression = draw_format(draw)
        try:
            good.append((expression, environment.from_string("{{ " + expression + " }}").render()))
        except Exception:
            bad.append(expression)
    assert len(good) > 700 and len(bad) > 50
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    (tmp_path / "c.json").write_text(json.dumps([{"role": "user", "content": "x"}]))
    (tmp_path / "chat_template.jinja").write_text("".join("{{ " + expression + " }}\x1e" for expression, _ in good))
    done = crumb("tokenize", tmp_path, "--chat", tmp_path / "c.json", "--rendered", status=None)
    found = done.stdout.split("\x1e")
    for (expression, expected), made in zip(good, found):
        assert made == expected, expression
    assert done.returncode == 0 and len(found) == len(good) + 1, done.stderr
    for expression in bad[:40]:
        (tmp_path / "chat_template.jinja").write_text("{{ " + expression + " }}")
        crumb("tokenize", tmp_path, "--chat", tmp_path / "c.json", "--rendered", status=1)
