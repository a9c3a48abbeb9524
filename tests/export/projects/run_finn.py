"""Run by FINN's own environment: converts and streamlines a file, executes it after each step, and compares.

    python run_finn.py MODEL.onnx FOLDER SAMPLES.npy EXPECTED.npy

Prints one JSON object: "outcome" is equal (up to float32's rounding), differs or fails, "what" says where.
"""

import contextlib
import io
import json
import os
import sys
import warnings


def outcome_of(path, folder, samples, expected):
    os.environ["FINN_BUILD_DIR"] = folder
    import finn.xsi

    finn.xsi.SimEngine = None
    import finn.builder.build_dataflow_config as config
    import finn.builder.build_dataflow_steps as steps
    import numpy as np
    from finn.core.onnx_exec import execute_onnx
    from qonnx.core.modelwrapper import ModelWrapper

    samples, expected = np.load(samples)[:4], np.load(expected)[:4]
    build = config.DataflowBuildConfig(output_dir=folder, synth_clk_period_ns=5.0, generate_outputs=[],
                                       fpga_part="xc7z020clg400-1", standalone_thresholds=True)  # fmt: skip
    model = ModelWrapper(path)
    for name in ("step_qonnx_to_finn", "step_tidy_up", "step_streamline"):
        model = getattr(steps, name)(model, build)
        value = model.get_first_global_in()
        shape = model.get_tensor_shape(value)
        found = [execute_onnx(model, {value: one.reshape(shape)})[model.get_first_global_out()] for one in samples]
        off = np.abs(np.stack(found).reshape(len(samples), -1) - expected).max()
        if not off <= 2.0**-18 * np.abs(expected).max():
            return "differs", f"after {name}, by {off:.3g} of {np.abs(expected).max():.3g}"
    kinds = {"Quant", "BipolarQuant", "FloatQuant", "Trunc"}
    left = sorted({node.op_type for node in model.graph.node} & kinds)
    return ("fails", f"left unconverted: {', '.join(left)}") if left else ("equal", "")


def main():
    warnings.filterwarnings("ignore")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            result = outcome_of(*sys.argv[1:])
        except Exception as error:
            result = ("fails", f"{type(error).__name__}: {error}"[:300])
    print(json.dumps({"outcome": result[0], "what": result[1]}))


if __name__ == "__main__":
    main()
