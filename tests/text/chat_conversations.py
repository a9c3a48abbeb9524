"""Drawn conversations, and what `transformers` makes of them."""

import warnings

PIECES = ["hello", " ", "\n", "  \n", "é", "中文", "👩‍🚀", "<|im_end|>", "</think>", "<think>", "\t", "{{x}}", "{% if %}", "'", '"', "\\",
          "&<>", "\u00a0", "\u2028", "Straße", ""]  # fmt: skip
TOOLS = [{
    "type": "function",
    "function": {
        "name": "weather", "description": "The weather é",
        "parameters": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string", "description": "a <city>", "enum": ["a", "b"]}, "n": {"type": "integer"}},
        },
    },
}]  # fmt: skip


def text(draw):
    return "".join(draw.choices(PIECES, k=draw.randint(0, 6)))


def messages(draw):
    """Mostly a system message and turns, sometimes what templates refuse or treat apart."""
    made = [{"role": "system", "content": text(draw)}] if draw.random() < 0.5 else []
    for i in range(draw.randint(1, 5)):
        role = ["user", "assistant"][i % 2] if draw.random() < 0.9 else draw.choice(["user", "assistant", "system", "tool", "other"])
        message = {"role": role, "content": text(draw)}
        if draw.random() < 0.1:
            message["content"] = [{"type": "text", "text": text(draw)}]
        if draw.random() < 0.03:
            message["content"] = None
        if draw.random() < 0.02:
            del message["content"]
        if role == "assistant" and draw.random() < 0.15:
            message["reasoning_content"] = text(draw)
        if role == "assistant" and draw.random() < 0.1:
            call = {"name": "weather", "arguments": {"city": text(draw), "n": 3}}
            message["tool_calls"] = [{"type": "function", "id": "abcdefghi", "function": call}]
        made.append(message)
    return made


def conversation(draw, template):
    """A case of crumb_chat_cases."""
    extra = {"tools": TOOLS} if draw.random() < 0.2 else {}
    if draw.random() < 0.3:
        extra["enable_thinking"] = draw.random() < 0.5
    return {"template": template, "messages": messages(draw), "add_generation_prompt": draw.random() < 0.5, "extra": extra,
            "tokens": {"bos_token": "<s>", "eos_token": "</s>"}}  # fmt: skip


def expected(case):
    """The text that `transformers` gives, or nothing where it raises."""
    from transformers.utils.chat_template_utils import render_jinja_template

    # As apply_chat_template does before it.
    chat = [{key: value for key, value in message.items() if value is not None} for message in case["messages"]]
    variables = {"tools": None, **case["tokens"], **case["extra"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of the Python that jinja2 makes
        try:
            options = {"chat_template": case["template"], "add_generation_prompt": case["add_generation_prompt"]}
            return render_jinja_template([chat], **options, **variables)[0][0]
        except Exception:
            return None
