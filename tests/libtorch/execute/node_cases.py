"""Models of one node, run by crumb_onnx_cases and compared with an oracle's outputs."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402


def node_model(op, inputs, *, opset, outputs=1, domain="", **attributes):
    """A model of one node. `inputs`: arrays, or None where an optional one is left out."""
    names = ["" if value is None else f"in{i}" for i, value in enumerate(inputs)]
    made = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs, strict=True)
        if value is not None
    ]
    opsets = [helper.make_opsetid("", 21 if domain else opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    graph = helper.make_graph([node], "case", infos, [helper.make_empty_tensor_value_info(o) for o in made])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_ort(model, inputs):
    """ONNX Runtime's outputs."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.input]
    return session.run(None, dict(zip(names, (v for v in inputs if v is not None), strict=True)))


def run_reference(model, inputs):
    """The outputs of ONNX's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in model.graph.input]
    values = (v for v in inputs if v is not None)
    return ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))


class Cases:
    """Collects cases; run() executes them all at once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.count = 0

    def add(self, model, inputs, outputs, why=""):
        """A case with the outputs that are expected; with None, one that has to be refused."""
        place = self.folder / f"{self.count:04d}_{model.graph.node[0].op_type}_{why}".replace("/", "_")
        data = place / "test_data_set_0"
        data.mkdir(parents=True)
        onnx.save(model, place / "model.onnx")
        for kind, values in (("input", [v for v in inputs if v is not None]), ("output", outputs or [])):
            for i, value in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
        self.count += 1

    def run(self):
        """[(verdict, folder's name, why)] of every case."""
        build = Path(os.environ.get("CRUMB_BIN", Path(__file__).parents[3] / "build" / "crumb")).parent
        binary = Path(os.environ.get("CRUMB_ONNX_CASES", build / "tests" / "crumb_onnx_cases"))
        if not binary.is_file():
            pytest.skip("crumb_onnx_cases was not built (it needs LibTorch)")
        folders = sorted(map(str, self.folder.iterdir()))
        done = subprocess.run([binary, *folders], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert len(lines) == self.count
        return [(verdict, Path(folder).name, why) for verdict, folder, why in lines]

    def check(self):
        """Every case passes."""
        bad = [line for line in self.run() if line[0] != "passed"]
        assert not bad, "\n".join(map(str, bad))
