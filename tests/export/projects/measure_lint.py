"""Networks and consumers: what lint says of each file, and what the tool does with it.

    python tests/export/projects/measure_lint.py CRUMB FOLDER [NETWORKS]

NETWORKS is a folder of ONNX files in place of those of tests/zoo/qonnx_networks.py. Prints the table of docs/lint.md.
"""

import json
import subprocess
import sys
from pathlib import Path

import client
import numpy as np
import onnx
from float_networks import NETWORKS
from mutations import executed

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "zoo"))
import qonnx_networks  # noqa: E402

SPECS = {
    "as it is": ["--weights", "int4:channel", "--activations", "uint4:tensor"],
    "hls4ml": ["--profile", "hls4ml"],
    "finn": ["--profile", "finn"],
}


def files(crumb, folder, networks):
    """Names and paths: those of others, and ours by each profile."""
    if networks is None:
        networks = folder / "networks"
        qonnx_networks.write(networks)
    for path in sorted(networks.glob("*.onnx")):
        yield path.stem, path
    for name in ("mlp", "residual_cnn", "separable_cnn"):
        for profile, flags in SPECS.items():
            net, output = NETWORKS[name]()
            model, samples = net.save(output, folder / "net.onnx"), net.samples(folder / "x.npy")
            path = folder / f"{name}_{profile.replace(' ', '_')}.onnx"
            subprocess.run([crumb, "quantize", model, "-o", path, "--data", samples, *flags], check=True, capture_output=True)
            yield f"{name}, quantized {'plainly' if profile == 'as it is' else 'by --profile ' + profile}", path


def said(crumb, path, consumer):
    done = subprocess.run([crumb, "lint", path, "--for", consumer, "--json"], capture_output=True, text=True)
    findings = json.loads(done.stdout)["findings"] if done.stdout else []
    for severity in ("refused", "approximate", "warning"):
        rules = sorted({one["rule"] for one in findings if one["severity"] == severity})
        if rules:
            return severity, f"{severity}: {', '.join(rules[:3])}{', ...' if len(rules) > 3 else ''}"
    return "taken", "taken"


def did(path, folder, consumer, samples, expected):
    """The outcome, and what the tool said."""
    if expected is None:
        return "not run", "qonnx cannot execute it"
    work = folder / consumer / path.stem
    work.mkdir(parents=True, exist_ok=True)
    np.save(work / "samples.npy", samples)
    np.save(work / "expected.npy", expected)
    runner = Path(__file__).with_name(f"run_{consumer}.py")
    done = subprocess.run([client.client_python(consumer), runner, path, work / "hls", work / "samples.npy",
                           work / "expected.npy"], capture_output=True, text=True, timeout=900)  # fmt: skip
    result = json.loads(done.stdout)
    return result["outcome"], result["what"]


def measured(crumb, folder, networks=None):
    """Rows: network, consumer, lint's word and text, the tool's outcome and words."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in files(crumb, folder, networks):
        model = onnx.load(path)
        constants = {one.name for one in model.graph.initializer}
        value = next(one for one in model.graph.input if one.name not in constants)
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        count = 16 if np.prod(shape) < 5000 else 1
        samples = np.round(np.random.default_rng(3).normal(0, 1, (count, *shape[1:])) * 8).astype(np.float32) / 8
        expected = executed(model, samples)
        if expected is None:  # what it means, in words that qonnx reads
            subprocess.run([crumb, "lint", path, "--for", "qonnx", "--fix", folder / "fixed.onnx"], capture_output=True)
            expected = executed(onnx.load(folder / "fixed.onnx"), samples) if (folder / "fixed.onnx").is_file() else None
            (folder / "fixed.onnx").unlink(missing_ok=True)
        for consumer in ("finn", "hls4ml"):
            word, text = said(crumb, path, consumer)
            yield name, consumer, word, text, *did(path, folder, consumer, samples, expected)


def main():
    print("| network | tool | lint | what it did |\n| --- | --- | --- | --- |")
    for name, consumer, _, text, outcome, what in measured(*map(Path, sys.argv[1:])):
        what = what.splitlines()[0].replace("|", "/")[:90] if what else ""
        print(f"| {name} | {consumer} | {text} | {outcome}{': ' + what if what else ''} |", flush=True)


if __name__ == "__main__":
    main()
