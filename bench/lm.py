"""Language models: tokens per second of `crumb generate` against transformers and llama.cpp, measured in turns.

    crumb-bench lm --input MODEL [--llama FOLDER] [--threads 1,2] [--repeats 3] [--specs int8:channel,...]
                   [--layout rows|tiles] [--json]

runs this with the crumb command and MODEL as its first arguments.

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
from functools import partial

os.environ["HF_HUB_OFFLINE"] = "1"
PROMPT, ANSWER = 512, 128
TRANSFORMERS, LLAMA, FAST = "transformers float32", "llama.cpp ", " --fast"
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
    """Of a prompt, and of an answer behind as long a one."""
    rates = []
    for flags in (["-p", PROMPT, "-n", 0], ["-p", 0, "-n", ANSWER, "-d", PROMPT]):
        made = subprocess.run([tool, "-m", str(model), *map(str, flags), "-t", str(threads), "-r", "1", "-o", "json"],
                              capture_output=True, text=True, check=True)  # fmt: skip
        rates.append(json.loads(made.stdout)[0]["avg_ts"])
    return tuple(rates)


def in_turns(contenders, repeats):
    """The best rates of each, by its name."""
    found = {name: (0.0, 0.0) for name in contenders}
    for _ in range(repeats):
        for name, measure in contenders.items():
            found[name] = tuple(map(max, found[name], measure()))
    return found


def packed_models(binary, model, specs, folder, llama, layout):
    """Files of `crumb quantize` and what llama.cpp runs of them, by specs."""
    packed, exported = {}, {}
    for number, spec in enumerate(specs):
        packed[spec] = folder / f"{number}.crumb"
        crumb(binary, "quantize", model, "-o", packed[spec], "--weights", spec, "--layout", layout)
        if not llama:
            continue
        try:
            crumb(binary, "export", packed[spec], "-o", folder / f"{number}.gguf", "--to", "gguf")
            exported[spec] = folder / f"{number}.gguf"
        except subprocess.CalledProcessError as error:
            print(f"llama.cpp has no {spec}: {error.stderr.strip()}", file=sys.stderr)
    return packed, exported


def rows_of(found, threads):
    """What each of ours is against transformers and, of the same spec, llama.cpp."""
    for name, (prompt, answer) in found.items():
        row = {"model": name, "threads": threads, "prompt/s": round(prompt, 1), "answer/s": round(answer, 1)}
        base, peer = found[TRANSFORMERS], found.get(LLAMA + name.removesuffix(FAST))
        ours = not name.startswith((TRANSFORMERS, LLAMA))
        for what, other in (("transformers", base), ("llama.cpp", peer)):
            for kind, mine, theirs in zip(("prompt", "answer"), (prompt, answer), other or (None, None), strict=True):
                row[f"{kind} / {what}"] = round(mine / theirs, 2) if ours and theirs else None
        yield row


def show(rows, as_json):
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    cells = [list(rows[0]), *([("-" if cell is None else str(cell)) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths, strict=True))))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("binary")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--llama", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--specs", default="int8:group=32,int4:group=32,mxfp4,nvfp4,int3:group=64")
    parser.add_argument("--layout", default="rows")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    binary, rows = options.binary, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prompt = prompt_of(binary, options.model, folder)
        floats = options.model
        if options.model.is_file():
            floats = folder / "float"
            crumb(binary, "dequantize", options.model, "-o", floats)
        packed, exported = packed_models(binary, floats, options.specs.split(","), folder, options.llama, options.layout)
        import transformers

        model = transformers.AutoModelForCausalLM.from_pretrained(floats, dtype="float32").eval()
        ids = [int(token) for token in crumb(binary, "tokenize", options.model, "--text", prompt).split()]
        for threads in map(int, options.threads.split(",")):
            contenders = {TRANSFORMERS: partial(transformers_rates, model, ids, threads),
                          "float32": partial(rates, binary, floats, prompt, threads, False)}  # fmt: skip
            for spec, path in packed.items():
                if spec in exported:
                    contenders[LLAMA + spec] = partial(llama_rates, options.llama / "llama-bench", exported[spec], threads)
                contenders[spec] = partial(rates, binary, path, prompt, threads, False)
                contenders[spec + FAST] = partial(rates, binary, path, prompt, threads, True)
            rows += rows_of(in_turns(contenders, options.repeats), threads)
    show(rows, options.json)


if __name__ == "__main__":
    main()
