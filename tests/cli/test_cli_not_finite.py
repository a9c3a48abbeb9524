"""NaN and infinities that come to quantizers: counted alike by both engines, said by the verbs, an error with --strict; and NaN that
stays where nothing integer follows."""

import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

QONNX = "qonnx.custom_op.general"


def network(path, quantizer, product, moves=()):
    """x -> quantizer "q" -> moves -> (a product of codes) -> y."""
    constants = {"s": np.float32(0.25), "z": np.float32(0), "b": np.float32(4), "zero": np.int8(0), "ws": np.float32(0.5), "wz": np.float32(0)}
    weights = ((np.arange(24) % 5 - 2).reshape(6, 4) * 0.5).astype(np.float32)
    nodes = []
    if quantizer == "Quant":
        nodes.append(helper.make_node("Quant", ["x", "s", "z", "b"], ["q_out"], name="q", domain=QONNX, signed=1, narrow=0, rounding_mode="ROUND"))
    elif quantizer == "BipolarQuant":
        nodes.append(helper.make_node("BipolarQuant", ["x", "s"], ["q_out"], name="q", domain=QONNX))
    else:
        nodes += [helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["codes"], name="q"), helper.make_node("DequantizeLinear", ["codes", "s", "zero"], ["q_out"])]
    value = "q_out"
    for i, op in enumerate(moves):
        nodes.append(helper.make_node(op, [value], [f"moved{i}"]))
        value = f"moved{i}"
    if product:
        constants["w"] = weights
        nodes += [helper.make_node("Quant", ["w", "ws", "wz", "b"], ["wq"], domain=QONNX, signed=1, narrow=1, rounding_mode="ROUND"),
                  helper.make_node("MatMul", [value, "wq"], ["y"])]  # fmt: skip
    else:
        nodes.append(helper.make_node("Relu", [value], ["y"]))
    shape = ["n", 4 if product else 6] if not (moves and not product) else None
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(QONNX, 1)]), path)


@pytest.mark.parametrize("quantizer", ["Quant", "BipolarQuant", "QuantizeLinear"])
def test_both_engines_count_the_same_and_say_it(crumb, tmp_path, quantizer):
    rng = np.random.default_rng(3)
    for case, (product, moves) in enumerate([(True, ()), (False, ("Transpose",)), (True, ("Identity",))]):
        model = tmp_path / f"{case}.onnx"
        network(model, quantizer, product, moves)
        for bad in (0, 7):
            x = rng.normal(size=(5, 6)).astype(np.float32)
            places = rng.choice(x.size, bad, replace=False)
            x.flat[places] = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32), bad)
            np.save(tmp_path / "x.npy", x)
            made = {}
            for engine in ("runtime", "libtorch"):
                how = ["run", model, "--engine", engine, "--input", tmp_path / "x.npy", "--output", tmp_path / f"{engine}.npy"]
                said = crumb(*how).stderr
                found = re.search(r"(\d+) values? that (?:is|are) NaN or infinite came to the quantizer 'q'", said)
                assert (int(found[1]) if found else 0) == bad, (engine, said)
                if bad and case < 2:
                    assert "came to the quantizer 'q'" in crumb(*how, "--strict", status=1).stderr
                made[engine] = np.load(tmp_path / f"{engine}.npy")
            if bad == 0:
                np.testing.assert_array_equal(made["runtime"], made["libtorch"])
            if not product and quantizer == "Quant":  # nothing integer follows: as qonnx has it, NaN stays
                kept = np.isnan(x.T if moves else x)
                np.testing.assert_array_equal(np.isnan(made["runtime"]), kept)
                np.testing.assert_array_equal(made["runtime"], made["libtorch"])
            if product and not moves:  # codes go on
                assert np.isfinite(made["runtime"]).all()
