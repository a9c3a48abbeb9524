"""Run by hls4ml's own environment: converts a file with wide types, compiles it, and compares its predictions.

    python run_hls4ml.py MODEL.onnx FOLDER SAMPLES.npy EXPECTED.npy

Prints one JSON object: "outcome" is equal, differs or fails, "what" says where.
"""

import contextlib
import io
import json
import os
import sys


def outcome_of(path, folder, samples, expected):
    import hls4ml
    import numpy as np
    import onnx

    model, samples, expected = onnx.load(path), np.load(samples), np.load(expected)
    config = hls4ml.utils.config_from_onnx_model(model, granularity="name", backend="Vitis", default_precision="fixed<56,28>")
    network = hls4ml.converters.convert_from_onnx_model(model, output_dir=folder, backend="Vitis", hls_config=config)
    network.compile()
    off = np.abs(np.asarray(network.predict(samples)).reshape(len(samples), -1) - expected).max()
    said = "" if off == 0 else f"by {off:.3g} of {np.abs(expected).max():.3g}"
    return {"outcome": "equal" if off == 0 else "differs", "what": said, "off": float(off)}


def main():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                result = outcome_of(*sys.argv[1:])
        except BaseException as error:
            result = {"outcome": "fails", "what": f"{type(error).__name__}: {error}"[:300]}
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    print(text or json.dumps({"outcome": "fails", "what": f"signal {os.WTERMSIG(status)}"}))


if __name__ == "__main__":
    main()
