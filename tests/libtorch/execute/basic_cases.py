"""Generated cases of one node, in folders as ONNX's conformance suite has them, for crumb_onnx_cases."""

import subprocess

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper


def model_of(op, opset, inputs, outputs, attributes):
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    out_names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, names, out_names)
    for key, value in attributes.items():
        node.attribute.append(helper.make_attribute(key, value))
    graph = helper.make_graph(
        [node],
        "g",
        [info(name, array) for name, array in zip(names, inputs) if array is not None],
        [info(name, array) for name, array in zip(out_names, outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class Cases:
    """Folders as ONNX's suite has them; check() runs them all."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.folders = binary, folder, []

    def add(self, op, opset, inputs, outputs, **attributes):
        inputs = [None if x is None else np.asarray(x) for x in inputs]
        outputs = [np.asarray(y) for y in outputs]
        model = model_of(op, opset, inputs, outputs, attributes)
        folder = self.folder / f"{len(self.folders):03}_{op}_{opset}"
        data = folder / "test_data_set_0"
        data.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        for kind, arrays in (("input", [x for x in inputs if x is not None]), ("output", outputs)):
            for i, array in enumerate(arrays):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
        self.folders.append((folder, f"{op}-{opset} {[str(x.dtype) for x in inputs if x is not None]} {attributes}"))

    def by_runtime(self, op, opset, inputs, types=None, **attributes):
        """Expected values from onnxruntime; False where it does not have the operator of that version or type.

        `types`: those of the outputs, where they are not one of the first input's.
        """
        inputs = [None if x is None else np.asarray(x) for x in inputs]
        types = types or [next(x for x in inputs if x is not None).dtype]
        model = model_of(op, opset, inputs, [np.zeros(0, t) for t in types], attributes)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001: onnxruntime has a type for each reason
            return False
        feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
        self.add(op, opset, inputs, session.run(None, feeds), **attributes)
        return True

    def run(self):
        """One line a case, in order."""
        command = [str(self.binary), *[str(folder) for folder, _ in self.folders]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        lines = done.stdout.splitlines()
        assert len(lines) == len(self.folders), done.stderr
        return lines

    def check(self):
        assert self.folders
        lines = self.run()
        wrong = [f"{what}: {line}" for (_, what), line in zip(self.folders, lines) if not line.startswith("passed\t")]
        assert not wrong, "\n".join(wrong)


def cases_of(crumb_bin, folder):
    """Cases in a folder, or a visible skip where their executable was not built."""
    binary = crumb_bin.parent / "tests" / "crumb_onnx_cases"
    if not binary.is_file():
        pytest.skip("crumb_onnx_cases was not built")
    return Cases(binary, folder)
