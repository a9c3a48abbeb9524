"""The types that qonnx's tools see in a file (`crumb cost`) are those of qonnx's InferDataTypes."""

import collections
import os

import numpy as np
import pytest

pytest.importorskip("qonnx")
from typed_networks import MAKERS, Typed  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
OPSETS = [13, 14, 17, 21]


def inferred(model):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.infer_datatypes import InferDataTypes

    wrapper = ModelWrapper(model, make_deepcopy=True).transform(InferDataTypes(allow_scaledint_dtypes=True))
    return lambda name: wrapper.get_tensor_datatype(name).get_canonical_name()


@pytest.mark.filterwarnings("ignore")
def test_types_are_qonnx_s(facts, tmp_path):
    made, whole = collections.Counter(), collections.Counter()
    for seed in range(300 if SLOW else 10):
        b = Typed(np.random.default_rng(seed), OPSETS[seed % len(OPSETS)])
        for i in range(120):
            MAKERS[i % len(MAKERS)](b)
        model = b.model()
        found, expected = facts("usual", model, tmp_path / "m.onnx"), inferred(model)
        for name, row in b.rows.items():
            made[row[0]] += 1
            whole[row[0]] += found[name]["type"] != "FLOAT32"
            what = (row, name, found[name]["type"], expected(name), [n for n in b.nodes if name in n.output])
            assert found[name]["type"] == expected(name), what
        for name in {value for node in b.nodes for value in node.input if value}:
            assert found[name]["type"] == expected(name), name
    plain = {"Softmax", "ReduceSum", "Trunc", "unknown"}
    dull = {row: (whole[row], made[row]) for row in made if row not in plain and 6 * whole[row] < made[row]}
    assert not dull, f"mostly FLOAT32: {dull}"
