"""Files for FINN hold thresholds where FINN's own would give other codes; they compute what the network computes."""

import numpy as np
import onnx
import pytest
from float_networks import drawn
from mutations import executed
from onnx import numpy_helper


@pytest.mark.parametrize("seed", range(6))
def test_drawn_networks_in_qonnx(crumb, engine, tmp_path, seed):
    pytest.importorskip("qonnx")
    rng = np.random.default_rng(seed)
    weights, activations = rng.integers(2, 9, 2)
    zero = ["", ":zero=int"][seed % 2]
    net, output = drawn(seed)
    model, samples = net.save(output, tmp_path / "net.onnx"), net.samples(tmp_path / "x.npy", 8)
    np.save(samples, np.round(np.load(samples) * 8) / 8)  # ties are common
    crumb("quantize", model, "-o", tmp_path / "net.crumb", "--data", samples, "--weights", f"int{weights}:channel:scale=e8m0",
          "--activations", f"uint{activations}:tensor:scale=e8m0{zero}", "--biases", "int32" if not zero else "keep")  # fmt: skip
    files = {}
    for profile in ("qonnx", "finn"):
        files[profile] = tmp_path / f"{profile}.onnx"
        said = crumb("export", tmp_path / "net.crumb", "-o", files[profile], "--to", "qonnx", "--profile", profile).stderr
    plain, ours = (onnx.load(files[profile]) for profile in ("qonnx", "finn"))
    made = [node for node in ours.graph.node if node.op_type == "MultiThreshold"]
    assert made and f"{len(made)} quantizer" in said and not any(n.op_type == "MultiThreshold" for n in plain.graph.node)
    expected, found = (executed(one, np.load(samples)) for one in (plain, ours))
    np.testing.assert_array_equal(found, expected)
    constants = {one.name: numpy_helper.to_array(one) for one in ours.graph.initializer}
    for node in made:
        assert (np.diff(constants[node.input[1]], axis=1) > 0).all()
