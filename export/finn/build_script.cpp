#include "export/finn/build_script.h"

namespace crumb::exporting::finn {

std::string_view build_script() {
  return R"py(#!/usr/bin/env python3
"""Converts model.onnx with FINN, executes it after every step, and compares all outputs with Crumb's, number by number.

    pip install finn-plus==1.6.1 psutil
    python build.py               convert, streamline, map to hardware layers, compare; then fold and estimate
    python build.py --synth       the same, and FINN's steps to a bitfile behind it (Vivado has to be sourced)

Crumb's layers, with what their inputs and sums can be, are in crumb_layers.json; a layer of FINN's is found by its weights,
whatever its name is. The exit code is 0 where every output of every sample is the same number and no accumulator of FINN's is
narrower than derived, 1 where that is not so, 2 where FINN is missing or cannot convert the network.
"""

import argparse
import contextlib
import json
import logging
import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDING = 16 * 2.0**-24  # of a few products and sums
SETTINGS = json.loads((HERE / "crumb_layers.json").read_text())
BEFORE_PARTITION = ["step_qonnx_to_finn", "step_tidy_up", "streamlined", "step_convert_to_hw", "step_minimize_bit_width_initial"]
ESTIMATE = [
    "step_create_dataflow_partition", "step_specialize_layers", "step_target_fps_parallelization", "step_apply_folding_config",
    "step_minimize_bit_width", "step_transpose_decomposition", "step_generate_estimate_reports",
]  # fmt: skip
SYNTHESIS = [
    "step_assign_ddr_weight_offsets", "step_generate_hardware", "step_create_stitched_ip", "step_measure_rtlsim_performance",
    "step_out_of_context_synthesis", "step_prepare_synthesis", "step_synthesize_bitfile", "step_make_driver",
    "step_deployment_package",
]  # fmt: skip


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--output", type=Path, default=HERE / "finn_build")
    parser.add_argument("--samples", type=int, default=16, help="how many of input.npy are executed; 0 for all (16)")
    parser.add_argument("--target-fps", type=int, default=SETTINGS["target_fps"])
    parser.add_argument("--clock", type=float, default=SETTINGS["clock_ns"], help="nanoseconds")
    parser.add_argument("--part", default=SETTINGS["part"])
    parser.add_argument("--board", default=SETTINGS["board"], help="for --synth")
    parser.add_argument("--synth", action="store_true")
    return parser.parse_args()


def fail(message, code=2):
    print(f"build.py: {message}", file=sys.stderr)
    sys.exit(code)


def finn_steps(options):
    """FINN's build steps. They load Vivado's simulator when they are imported, which only --synth needs."""
    os.environ.setdefault("FINN_BUILD_DIR", str(options.output / "work"))
    (options.output / "work").mkdir(parents=True, exist_ok=True)
    try:
        import finn.xsi
        import psutil  # noqa: F401  (FINN uses it and does not ask for it)

        if not options.synth:
            finn.xsi.SimEngine = None
        import finn.builder.build_dataflow_config as config
        import finn.builder.build_dataflow_steps as steps
    except ImportError as error:
        fail(f"{error}; pip install finn-plus==1.6.1 psutil")
    except OSError as error:
        fail(str(error))
    return steps, config


def streamlined(model, _):
    """As FINN's step_streamline, with the transformations that also move scales past forks and joins."""
    from finn.transformation.streamline import absorb
    from finn.transformation.streamline.reorder import MakeMaxPoolNHWC
    from finn.transformation.streamline.streamline_plus import StreamlinePlus
    from qonnx.transformation.bipolar_to_xnor import ConvertBipolarMatMulToXnorPopcount
    from qonnx.transformation.general import GiveReadableTensorNames, GiveUniqueNodeNames, RemoveUnusedTensors
    from qonnx.transformation.infer_data_layouts import InferDataLayouts
    from qonnx.transformation.infer_datatypes import InferDataTypes
    from qonnx.transformation.lower_convs_to_matmul import LowerConvsToMatMul

    rounds = [StreamlinePlus(), LowerConvsToMatMul(), MakeMaxPoolNHWC(), InferDataLayouts(), InferDataTypes()]
    rounds += [StreamlinePlus(), MakeMaxPoolNHWC(), absorb.AbsorbConsecutiveTransposes(), InferDataLayouts()]
    rounds += [ConvertBipolarMatMulToXnorPopcount(), StreamlinePlus(), absorb.AbsorbConsecutiveTransposes()]
    rounds += [RemoveUnusedTensors(), GiveUniqueNodeNames(), GiveReadableTensorNames(), InferDataLayouts(), InferDataTypes()]
    for one in rounds:
        model = model.transform(one)
    return model


def executed(model, inputs):
    import numpy as np
    from finn.core.onnx_exec import execute_onnx

    name = model.get_first_global_in()
    shape = model.get_tensor_shape(name)
    found = [execute_onnx(model, {name: one.reshape(shape)})[model.get_first_global_out()] for one in inputs]
    return np.stack([one.reshape(-1) for one in found])


def is_equal(step, found, expected):
    """Prints what differs; whether nothing does, but for the rounding of floats that FINN multiplies and adds in another
    order where scales are no powers of two. A code that differs is a step of the last scale, at least."""
    import numpy as np

    same = found == expected
    if same.all():
        print(f"{step}: all {same.size} outputs of {len(expected)} samples are equal")
        return True
    off, size = np.abs(found - expected).max(), np.abs(expected).max()
    if off <= ROUNDING * size:
        print(f"{step}: all {same.size} outputs of {len(expected)} samples are equal up to float32's rounding (by {off:.1e}, "
              f"of {size:.3g})")
        return True
    sample, at = np.argwhere(~same)[0]
    print(f"{step}: {int((~same).sum())} of {same.size} outputs differ; the first is number {at} of sample {sample}: FINN "
          f"gives {found[sample][at]}, Crumb {expected[sample][at]}")
    return False


def fingerprint(weights):
    """Of a matrix, whatever the order of its rows and columns and the sign of a row: FINN moves signs into thresholds."""
    import numpy as np

    rows = np.sort(weights.reshape(weights.shape[0], -1).astype(np.int64), axis=1)
    rows = sorted(min(row.tobytes(), np.sort(-row).tobytes()) for row in rows)
    return str(weights.shape[0]).encode() + b" " + b"".join(rows)


def codes_of(model, layer):
    """The weight of a layer of model.onnx in whole numbers, a row for each output."""
    import numpy as np

    node = next(one for one in model.graph.node if one.name == layer["node"])
    quantizer = model.find_producer(node.input[1])
    weights, scale = (model.get_initializer(quantizer.input[i]) for i in (0, 1))
    codes = np.where(weights >= 0, 1, -1) if quantizer.op_type == "BipolarQuant" else np.rint(weights / scale)
    return np.moveaxis(codes, -1, 0) if node.op_type == "MatMul" else codes


def matched_layers(original, model):
    """Crumb's layer and FINN's node, by their weights; with equal weights, in order."""
    import numpy as np
    from qonnx.custom_op.registry import getCustomOp

    ours = [(fingerprint(codes_of(original, layer)), layer) for layer in SETTINGS["layers"]]
    for node in model.graph.node:
        if not node.op_type.startswith(("MVAU", "VVAU")):
            continue
        custom, weights = getCustomOp(node), np.asarray(model.get_initializer(node.input[1]))
        if node.op_type.startswith("MVAU"):
            weights = weights.T
            if custom.get_nodeattr("binaryXnorMode"):
                weights = 2 * weights - 1
        mark = fingerprint(weights)
        place = next((i for i, (other, _) in enumerate(ours) if other == mark), None)
        yield (ours.pop(place)[1] if place is not None else None), node, custom, weights.reshape(len(weights), -1)


def accumulator_of(layer, weights):
    """Of the products of a layer with the signs that FINN gave its rows; as FINN names it."""
    import numpy as np

    least, most = layer["input"]["min"], layer["input"]["max"]
    weights = weights.astype(np.int64)
    ends = np.stack([weights * least, weights * most])
    low, high = int(ends.min(axis=0).sum(axis=1).min()), int(ends.max(axis=0).sum(axis=1).max())
    if low >= 0:
        return "UINT", high.bit_length()
    return "INT", max((-low - 1).bit_length(), high.bit_length()) + 1


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def check_accumulators(original, model):
    """The widths that FINN found beside Crumb's; whether none is narrower."""
    rows, good = [["layer", "FINN's node", "inputs", "weights", "accumulator", "FINN's"]], True
    for layer, node, custom, weights in matched_layers(original, model):
        theirs = custom.get_nodeattr("accDataType")
        types = [custom.get_nodeattr(name) for name in ("inputDataType", "weightDataType")]
        if layer is None:
            rows.append(["?", node.name, *types, "?", theirs])
            continue
        kind, bits = accumulator_of(layer, weights)
        is_counted_otherwise = node.op_type.startswith("MVAU") and custom.get_nodeattr("binaryXnorMode")  # matches, not sums
        if not is_counted_otherwise and int(theirs.lstrip("UINT")) < bits:
            good = False
        rows.append([layer["node"], node.name, *types, f"{kind}{bits}", theirs])
    print_table(rows)
    return good


def print_folding(original, model, options):
    reports = options.output / "report"
    resources = json.loads((reports / "estimate_layer_resources.json").read_text())
    rows = [["layer", "FINN's node", "PE", "SIMD", "cycles", "FINN's", "LUT", "BRAM_18K", "DSP"]]
    for layer, node, custom, _ in matched_layers(original, model):
        pe, simd = custom.get_nodeattr("PE"), custom.get_nodeattr("SIMD")
        cycles = str(-(-layer["macs"] // (pe * simd))) if layer else "?"
        used = resources.get(node.name, {})
        rows.append([layer["node"] if layer else "?", node.name, str(pe), str(simd), cycles, str(custom.get_exp_cycles()),
                     *(str(used.get(key, "?")) for key in ("LUT", "BRAM_18K", "DSP"))])
    print_table(rows)
    network = json.loads((reports / "estimate_network_performance.json").read_text())
    print(f"estimated: {network['estimated_throughput_fps']:.0f} frames per second at {options.clock} ns (wanted: "
          f"{options.target_fps}), latency {network['estimated_latency_ns'] / 1000:.1f} us, the slowest layer is "
          f"{network['max_cycles_node_name']}; {os.path.relpath(reports)}")


def main():
    options = parse_arguments()
    warnings.filterwarnings("ignore")
    try:
        import numpy as np
        from qonnx.core.modelwrapper import ModelWrapper
    except ImportError as error:
        fail(f"{error}; pip install finn-plus==1.6.1 psutil")
    steps, config = finn_steps(options)
    logging.getLogger("finn").setLevel(logging.ERROR)
    products = [config.DataflowOutputType.ESTIMATE_REPORTS]
    if options.synth:
        kinds = config.DataflowOutputType
        products += [kinds.STITCHED_IP, kinds.OOC_SYNTH, kinds.BITFILE, kinds.PYNQ_DRIVER, kinds.DEPLOYMENT_PACKAGE]
    build = config.DataflowBuildConfig(
        output_dir=str(options.output), synth_clk_period_ns=options.clock, generate_outputs=products, fpga_part=options.part,
        board=options.board if options.synth else None, target_fps=options.target_fps, standalone_thresholds=True,
        shell_flow_type=config.ShellFlowType.VIVADO_ZYNQ if options.synth else None,
    )  # fmt: skip
    original = model = ModelWrapper(str(HERE / "model.onnx"))
    inputs, expected = (np.load(HERE / name).astype(np.float32) for name in ("input.npy", "expected_output.npy"))
    if 0 < options.samples < len(inputs):
        chosen = np.linspace(0, len(inputs) - 1, options.samples).astype(int)
        inputs, expected = inputs[chosen], expected[chosen]
    expected = expected.reshape(len(expected), -1)
    good = True
    log = options.output / "finn.log"

    def run(name, model):
        step = streamlined if name == "streamlined" else getattr(steps, name)
        try:
            with log.open("a") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                return step(model, build)
        except Exception as error:
            fail(f"FINN: {name}: {type(error).__name__}: {error} (what it said before is in {log})")

    for name in BEFORE_PARTITION:
        model = run(name, model)
        model.save(str(options.output / f"{name}.onnx"))
        try:
            found = executed(model, inputs)
        except Exception as error:
            fail(f"FINN cannot execute what {name} made: {type(error).__name__}: {error}")
        good = is_equal(name.removeprefix("step_"), found, expected) and good
    good = check_accumulators(original, model) and good
    if not good:
        fail("FINN would compute something else than Crumb does. Where scales are no powers of two, a sum may lie within a "
             "float's rounding of a threshold; networks of crumb's --profile finn are exact", 1)
    for name in ESTIMATE:
        model = run(name, model)
    print_folding(original, model, options)
    if not options.synth:
        print(f"next, where Vivado is sourced: python {Path(__file__).name} --synth --board {options.board}")
        return
    for name in SYNTHESIS:
        print(name, flush=True)
        model = run(name, model)


if __name__ == "__main__":
    main()
)py";
}

}  // namespace crumb::exporting::finn
