#!/usr/bin/env python3
"""Measures the zoo and writes the table of docs/zoo.md: scripts/zoo/table.py [NETWORK...]

Quality is the SQNR in dB of the output that lost most, on samples that calibration did not see, by onnxruntime on the QCDQ file.
tests/zoo/onnxruntime.json gets what onnxruntime's quantize_static gives. $CRUMB_BIN is the command (build/crumb).
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPO / "tests" / "zoo"))
import zoo  # noqa: E402

PEERS = REPO / "tests" / "zoo" / "onnxruntime.json"
PAGE = REPO / "docs" / "zoo.md"
BEGIN, END = "<!-- scripts/zoo/table.py writes what follows -->\n", "<!-- end -->\n"


def packed(crumb, model, output, data, scheme):
    """Size, seconds of processors and memory of crumb quantize to a packed file."""
    start = children_seconds()
    report = zoo.crumb_quantize(crumb, model, output, data, scheme=scheme)
    return Path(output).stat().st_size, children_seconds() - start, report["peak_rss_bytes"]


def children_seconds():
    """Which other work on the machine changes little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(network, crumb, peers, folder):
    model = network.model(folder)
    measured = zoo.feeds_of(network, network.draw(2, network.measure))
    reference = zoo.outputs_of(network, model, measured)
    drawn = network.draw(1, network.calibrate)
    data = zoo.write_data(network, drawn, folder / "data")
    found = {}
    start = time.process_time()
    for way, operators in zoo.PEER_WAYS.items():
        found[way] = zoo.onnxruntime_quantize(network, model, folder / f"{way}.onnx", zoo.feeds_of(network, drawn), reference, measured, operators)
    peer_seconds = (time.process_time() - start) / len(found)
    peers[network.name] = {way: None if db is None else round(db, 1) for way, db in found.items()}
    quality = {}
    for scheme in ("W8A8", "W4A8"):
        zoo.crumb_quantize(crumb, model, folder / "crumb.onnx", data, scheme=scheme)
        quality[scheme] = zoo.worst_sqnr(network, reference, folder / "crumb.onnx", measured)
    size, seconds, memory = packed(crumb, model, folder / "q.crumb", data, "W8A8")
    text = lambda db: "fails" if db is None else f"{db:.1f}"
    return [network.name, f"{Path(model).stat().st_size / 1e6:.2f}", f"{size / 1e6:.2f}", f"{quality['W8A8']:.1f}",
            text(found["all"]), text(found["products"]), f"{quality['W4A8']:.1f}", f"{seconds:.1f}", f"{peer_seconds:.1f}", f"{memory / 1e6:.0f}"]


def main():
    crumb = os.environ.get("CRUMB_BIN", REPO / "build" / "crumb")
    peers = json.loads(PEERS.read_text()) if PEERS.is_file() else {}
    page = PAGE.read_text()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    rows = {line.split("|")[1].strip(): line for line in page[begin:end].splitlines() if line.startswith("| ")}
    head = "| network | MB | MB at W8A8 | W8A8 dB | onnxruntime, all | onnxruntime, products | W4A8 dB | CPU s | onnxruntime CPU s | peak MB |"
    for name in sys.argv[1:] or zoo.NETWORKS:
        network = zoo.NETWORKS[name]
        if not network.source().is_file():
            print(f"{name}: not there", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells = row(network, crumb, peers, Path(folder))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
        rows[name] = "| " + " | ".join(cells) + " |"
        print(rows[name], flush=True)
        order = [name for name in zoo.NETWORKS if name in rows]
        table = "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *(rows[name] for name in order)])
        PAGE.write_text(page[:begin] + table + "\n" + page[end:])
        PEERS.write_text(json.dumps(peers, indent=1) + "\n")


if __name__ == "__main__":
    main()
