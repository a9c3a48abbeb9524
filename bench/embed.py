"""Embedding speed against the sentence-transformers package, measured in one run, alternating.

    python bench/embed.py build/crumb MODEL [PACKED.crumb ...]

Prints seconds for the lines of examples/sentences.txt (best and median of the repeats) and the ratio of medians. Times
of `crumb embed` are those it reports for embedding alone, as the package's are: loading is left out on both sides.
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
REPEATS = 5
SENTENCES = pathlib.Path(__file__).resolve().parents[1] / "examples" / "sentences.txt"


def crumb_seconds(binary, model, folder):
    done = subprocess.run(
        [binary, "embed", model, "--text", SENTENCES, "-o", pathlib.Path(folder) / "y.npy"],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(re.search(r"([\d.]+) s$", done.stdout.strip())[1])


def main():
    import torch
    from sentence_transformers import SentenceTransformer

    binary, models = sys.argv[1], sys.argv[2:]
    oracle = SentenceTransformer(models[0], device="cpu")
    torch.set_num_threads(os.cpu_count())
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    oracle.encode(lines)
    times = {"sentence-transformers": [], **{model: [] for model in models}}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(REPEATS):
            start = time.perf_counter()
            oracle.encode(lines)
            times["sentence-transformers"].append(time.perf_counter() - start)
            for model in models:
                times[model].append(crumb_seconds(binary, model, folder))
    base = statistics.median(times["sentence-transformers"])
    print(f"{'':40} {'best s':>8} {'median s':>9} {'speed':>7}")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{pathlib.Path(name).name:40} {min(seconds):8.2f} {median:9.2f} {base / median:6.2f}x")


if __name__ == "__main__":
    main()
