#include "export/hls4ml/build_script.h"

namespace crumb::exporting::hls4ml {

std::string_view build_script() {
  return R"py(#!/usr/bin/env python3
"""Converts model.onnx with hls4ml, compiles the C++ with g++ and compares all outputs with Crumb's, bit for bit.

    pip install "hls4ml[onnx]==1.3.0"
    python build.py               convert into hls4ml_project/, compile, predict test_vectors/, compare
    python build.py --synth       then run the vendor's synthesis (Vitis HLS has to be installed)
    python build.py --bits N      with accumulators of N integer bits more (less where negative) than hls4ml_config.json says

The exit code is 0 where every output of every sample is the same number, 1 where one differs or hls4ml computes with other
types than hls4ml_config.json says, 2 where hls4ml is missing or cannot convert or compile the network.
"""

import argparse
import contextlib
import io
import json
import os
import re
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTED = "1.3.0"


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "hls4ml_project")
    parser.add_argument("--synth", action="store_true")
    parser.add_argument("--bits", type=int, default=0)
    return parser.parse_args()


def fail(message, code=2):
    print(f"build.py: {message}", file=sys.stderr)
    sys.exit(code)


def laid_over(base, layers, more_bits):
    """hls4ml's own configuration with the types of ours."""
    for name, layer in layers.items():
        precision = base["LayerName"].setdefault(name, {}).setdefault("Precision", {})
        if not isinstance(precision, dict):
            precision = base["LayerName"][name]["Precision"] = {}
        precision.update(layer["Precision"])
        if more_bits and "accum" in precision:
            precision["accum"] = wider(precision["accum"], more_bits)
    return base


def wider(text, bits):
    kind, width, integer = re.fullmatch(r"(ap_u?fixed)<(\d+),(-?\d+)>", text).groups()
    return f"{kind}<{int(width) + bits},{int(integer) + bits}>"


def faults_of_types(model, layers):
    """Layers that do not have the accumulator they were given."""
    from hls4ml.backends.fpga.fpga_backend import FPGABackend

    for name, layer in layers.items():
        wanted = layer["Precision"].get("accum")
        if wanted is None:
            continue
        found = [one for one in model.get_layers() if one.name == name or one.name.endswith("_" + name)]
        types = [str(one.types["accum_t"].precision) for one in found if "accum_t" in one.types]
        if types != [str(FPGABackend.convert_precision_string(wanted))]:
            yield f"{name}: found {', '.join(types) or 'no layer'}, expected {wanted}"


def vectors(kind):
    import numpy as np

    paths = sorted(HERE.glob(f"test_vectors/{kind}_*.npy"), key=lambda path: int(path.stem.rpartition("_")[2]))
    return [np.ascontiguousarray(np.load(path).astype(np.float32)) for path in paths]


def compare(found, expected):
    """Prints what differs; whether nothing does."""
    import numpy as np

    equal = 0
    for number, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        theirs = np.asarray(theirs, dtype=np.float32).reshape(ours.shape)
        same = (ours == theirs).reshape(len(ours), -1)
        equal += int(same.sum())
        if same.all():
            continue
        sample = int(np.argmin(same.all(axis=1)))
        at = int(np.argmin(same[sample]))
        print(f"output {number}: {int((~same).sum())} of {same.size} numbers differ; the first is number {at} of sample "
              f"{sample}: hls4ml gives {theirs.reshape(len(ours), -1)[sample][at]}, Crumb "
              f"{ours.reshape(len(ours), -1)[sample][at]}")
    total = sum(one.size for one in expected)
    if equal == total:
        print(f"all {total} outputs of {len(expected[0])} samples are bit-equal")
    return equal == total


def in_a_process_of_its_own(work):
    """hls4ml's C++ may abort, which takes its process with it: then this one says so."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            work()
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
            code = 2
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        fail(f"the program that hls4ml compiled was stopped by signal {os.WTERMSIG(status)}; what it said stands above")
    sys.exit(os.WEXITSTATUS(status))


def main():
    options = parse_arguments()
    in_a_process_of_its_own(lambda: build(options))


def build(options):
    try:
        import hls4ml
        import onnx
    except ImportError as error:
        fail(f'{error}; pip install "hls4ml[onnx]=={TESTED}"')
    if hls4ml.__version__ != TESTED:
        print(f"note: hls4ml {hls4ml.__version__} is installed; this project was made for {TESTED}")
    ours = json.loads((HERE / "hls4ml_config.json").read_text())
    model = onnx.load(HERE / "model.onnx")
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            config = hls4ml.utils.config_from_onnx_model(model, granularity="name", backend=ours["Backend"])
            config["Model"].update(ours["HLSConfig"]["Model"])
            for layer in config["LayerName"].values():
                if "ReuseFactor" in layer:
                    layer["ReuseFactor"] = config["Model"]["ReuseFactor"]
            config = laid_over(config, ours["HLSConfig"]["LayerName"], options.bits)
            converted = hls4ml.converters.convert_from_onnx_model(
                model, output_dir=str(options.output), backend=ours["Backend"], hls_config=config,
                io_type=ours["IOType"], clock_period=ours["ClockPeriod"],
                **({"part": ours["Part"]} if ours.get("Part") else {}),
            )  # fmt: skip
        faults = list(faults_of_types(converted, {} if options.bits else ours["HLSConfig"]["LayerName"]))
        with contextlib.redirect_stdout(said):
            converted.compile()
    except Exception as error:
        print(said.getvalue()[-4000:], file=sys.stderr)
        fail(f"hls4ml: {type(error).__name__}: {error}")
    for layer in converted.get_layers():
        if "accum_t" in layer.types and "weight_t" in layer.types:
            print(f"{layer.name}: weights {layer.types['weight_t'].precision}, accumulator {layer.types['accum_t'].precision}")
    if faults:
        fail("hls4ml computes with other types than hls4ml_config.json says: " + "; ".join(faults), 1)
    inputs = vectors("input")
    found = converted.predict(inputs[0] if len(inputs) == 1 else inputs)
    if not compare(found if isinstance(found, list) else [found], vectors("expected")):
        sys.exit(1)
    if options.synth:
        converted.build(csim=False, synth=True)
    else:
        print(f"next, with the vendor's tools: python {Path(__file__).name} --synth")


if __name__ == "__main__":
    main()
)py";
}

}  // namespace crumb::exporting::hls4ml
