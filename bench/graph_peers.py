"""The other executors of crumb-bench graph: qonnx's and onnxruntime, timed where they run.

    python bench/graph_peers.py qonnx|onnxruntime|qcdq MODEL.onnx THREADS INPUT.npy... OUTPUT.npy

Loads the model (qcdq: converted by qonnx first, for onnxruntime), runs it once on the inputs, writes the first output and
prints "ready". Then for every line on standard input, a number of runs, prints the seconds that they took together; of
onnxruntime's, less what as many runs of a network of one Identity take: Python's call and what is around any run.
"absent REASON" instead of "ready": there is no such executor here, or it does not take the model.
"""

import contextlib
import os
import sys
import time
import warnings

import numpy as np


def without_constant_inputs(model):
    """Initializers that old files list as inputs too cannot be folded by onnxruntime."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def by_onnxruntime(model, threads, inputs):
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    content = without_constant_inputs(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    # Inputs are bound once: nothing is copied between Python and onnxruntime.
    binding = session.io_binding()
    for value, array in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(value.name, array)
    for value in session.get_outputs():
        binding.bind_output(value.name)

    def run():
        session.run_with_iobinding(binding)

    run.output = lambda: binding.copy_outputs_to_cpu()[0]
    return run


def seconds_of_a_call(threads, repeats=9, times=200):
    """What onnxruntime takes for a network of one Identity of one number, the best of some."""
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "nothing", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    run = by_onnxruntime(model, threads, [np.zeros(1, np.float32)])
    return min(seconds_of(run, times) for _ in range(repeats)) / times


def seconds_of(run, times):
    start = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - start


def by_qonnx(model, inputs):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    wrapped = ModelWrapper(model).transform(InferShapes())
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in wrapped.graph.input if value.name not in constants]
    feeds = dict(zip(names, inputs, strict=True))

    def run():
        run.made = execute_onnx(wrapped, feeds)

    run.output = lambda: next(iter(run.made.values()))
    return run


def as_qcdq(model):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.qonnx_to_qcdq import QuantToQCDQ
    from qonnx.util.cleanup import cleanup_model

    return cleanup_model(ModelWrapper(model)).transform(QuantToQCDQ()).model


def prepared(peer, path, threads, inputs):
    import onnx

    model = onnx.load(path)
    if peer == "qonnx":
        return by_qonnx(model, inputs)
    return by_onnxruntime(as_qcdq(model) if peer == "qcdq" else model, threads, inputs)


def main():
    peer, path, threads, *inputs, output = sys.argv[1:]
    warnings.simplefilter("ignore")
    # qonnx makes its sessions itself, with a thread for every core it may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    try:
        # What the executors say while they load is not for our reader.
        with contextlib.redirect_stdout(sys.stderr):
            run = prepared(peer, path, int(threads), [np.load(name) for name in inputs])
            run()
            np.save(output, run.output())
            call = 0 if peer == "qonnx" else seconds_of_a_call(int(threads))
    except Exception as error:  # every reason not to run is one to say
        print("absent", f"{type(error).__name__}: {error}".splitlines()[0][:160], flush=True)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        runs = int(line)
        print(repr(max(0.0, seconds_of(run, runs) - runs * call)), flush=True)


if __name__ == "__main__":
    main()
