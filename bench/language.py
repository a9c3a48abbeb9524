"""Language models: tokens per second of `crumb generate` against transformers and llama.cpp, measured in one run.

    python bench/language.py build/crumb MODEL [--llama FOLDER] [--threads 1,2] [--repeats 3] [--specs int8:channel,...]

MODEL is a Hugging Face folder or a GGUF file. A prompt of 512 tokens and an answer of 128, greedy, for the float model and for
each spec, exact and --fast. transformers runs the float model in float32; FOLDER has llama.cpp's llama-bench (scripts/setup
slow-tests builds it), which runs what `crumb export --to gguf` makes of the packed file where that is possible. Best of the
repeats; the machine's other work is noise, so look at the ratios.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
PROMPT, ANSWER = 512, 128
ROOT = pathlib.Path(__file__).resolve().parents[1]


def crumb(binary, *arguments):
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def prompt_of(binary, model, folder):
    """A file whose text has PROMPT tokens, of this project's documentation."""
    source, text = folder / "all.txt", folder / "prompt.txt"
    source.write_text("\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))))
    ids = crumb(binary, "tokenize", model, "--text", source).split()
    count = PROMPT
    while True:  # a cut may change what is before it
        text.write_text(crumb(binary, "detokenize", model, "--special", "--ids", " ".join(ids[:count]))[:-1])
        found = len(crumb(binary, "tokenize", model, "--text", text).split())
        if found == PROMPT:
            return text
        count += 1 if found < PROMPT else -1


def rates(binary, model, prompt, threads, fast):
    said = json.loads(crumb(binary, "generate", model, "--prompt-file", prompt, "--tokens", ANSWER, "--threads", threads,
                            "--json", *(["--fast"] if fast else [])))  # fmt: skip
    return said["prompt_tokens_per_second"], said["tokens_per_second"]


def transformers_rates(model, ids, threads):
    import torch

    torch.set_num_threads(threads)
    with torch.no_grad():
        start = time.perf_counter()
        out = model(torch.tensor([ids]), use_cache=True)
        prompt = len(ids) / (time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(ANSWER - 1):
            token = out.logits[:, -1:].argmax(-1)
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
        return prompt, (ANSWER - 1) / (time.perf_counter() - start)


def llama_rates(tool, model, threads):
    made = subprocess.run([tool, "-m", str(model), "-p", str(PROMPT), "-n", str(ANSWER), "-t", str(threads), "-r", "1", "-o", "json"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    runs = json.loads(made.stdout)
    return tuple(next(run["avg_ts"] for run in runs if run[kind]) for kind in ("n_prompt", "n_gen"))


def best(measure, repeats):
    return tuple(max(column) for column in zip(*(measure() for _ in range(repeats)), strict=True))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("binary")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--specs", default="int8:group=32,int4:group=32,mxfp4,nvfp4,int3:group=64")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prompt = prompt_of(options.binary, options.model, folder)
        floats = options.model
        if options.model.is_file():
            floats = folder / "float"
            crumb(options.binary, "dequantize", options.model, "-o", floats)
        packed = {"float32": floats}
        exported = {}
        for spec in options.specs.split(","):
            packed[spec] = folder / f"{len(packed)}.crumb"
            crumb(options.binary, "quantize", floats, "-o", packed[spec], "--weights", spec)
            if options.llama:
                exported[spec] = folder / f"{len(packed)}.gguf"
                try:
                    crumb(options.binary, "export", packed[spec], "-o", exported[spec], "--to", "gguf")
                except subprocess.CalledProcessError as error:
                    print(f"llama.cpp has no {spec}: {error.stderr.strip()}", file=sys.stderr)
                    del exported[spec]
        import transformers

        model = transformers.AutoModelForCausalLM.from_pretrained(floats, dtype="float32").eval()
        ids = [int(token) for token in crumb(options.binary, "tokenize", options.model, "--text", prompt).split()]
        print(f"{'':22}{'threads':>8}{'prompt/s':>10}{'answer/s':>10}   times transformers, times llama.cpp (prompt, answer)")
        for threads in map(int, options.threads.split(",")):
            base = best(lambda threads=threads: transformers_rates(model, ids, threads), options.repeats)
            print(f"{'transformers float32':22}{threads:8}{base[0]:10.1f}{base[1]:10.1f}")
            for spec, path in packed.items():
                peer = None
                if spec in exported:
                    peer = best(lambda path=exported[spec], threads=threads: llama_rates(options.llama / "llama-bench", path, threads), options.repeats)
                    print(f"{'llama.cpp ' + spec:22}{threads:8}{peer[0]:10.1f}{peer[1]:10.1f}")
                for fast in (False, True):
                    if fast and spec == "float32":
                        continue
                    made = best(lambda path=path, threads=threads, fast=fast: rates(options.binary, path, prompt, threads, fast), options.repeats)
                    ratios = f"{made[0] / base[0]:8.2f}{made[1] / base[1]:8.2f}"
                    ratios += f"{made[0] / peer[0]:12.2f}{made[1] / peer[1]:8.2f}" if peer else ""
                    print(f"{spec + (' --fast' if fast else ''):22}{threads:8}{made[0]:10.1f}{made[1]:10.1f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
