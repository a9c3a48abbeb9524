"""LSTM, GRU and RNN against onnxruntime, and layout, version and kinds of float against themselves."""

import numpy as np
import pytest
from layer_oracle import add_by_ort, check_near, run_ort
from node_cases import Cases, node_model

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OUTPUTS = {"LSTM": 3, "GRU": 2, "RNN": 2}


def weights(rng, op, direction, time=5, batch=3, size=4, hidden=5, left_out=()):
    """Inputs in the operator's order; `left_out` names optional ones."""
    d, gates = 2 if direction == "bidirectional" else 1, GATES[op]

    def normal(*shape):
        return (rng.normal(size=shape) * 0.5).astype(np.float32)

    inputs = {
        "X": normal(time, batch, size),
        "W": normal(d, gates * hidden, size),
        "R": normal(d, gates * hidden, hidden),
        "B": normal(d, 2 * gates * hidden),
        "sequence_lens": rng.integers(1, time + 1, size=batch).astype(np.int32),
        "initial_h": normal(d, batch, hidden),
    }
    if op == "LSTM":
        inputs |= {"initial_c": normal(d, batch, hidden), "P": normal(d, 3 * hidden)}
    return [None if name in left_out else value for name, value in inputs.items()]


def trimmed(inputs):
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    return inputs


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_inputs_and_attributes(tmp_path, op, direction):
    rng = np.random.default_rng(3)
    cases = Cases(tmp_path)
    optional = ["B", "sequence_lens", "initial_h"] + (["initial_c", "P"] if op == "LSTM" else [])
    for trial in range(2 ** len(optional)):
        left_out = [name for i, name in enumerate(optional) if trial >> i & 1]
        inputs = trimmed(weights(rng, op, direction, left_out=left_out))
        more = {"hidden_size": 5, "direction": direction}
        if op == "GRU":
            more["linear_before_reset"] = int(rng.integers(0, 2))
        if op == "LSTM" and "P" in left_out:
            more["input_forget"] = int(trial % 3 == 0)
        if trial % 4 == 1:
            more["clip"] = 0.3
        add_by_ort(cases, op, inputs, why="_".join(left_out), opset=[7, 14, 22][trial % 2], outputs=OUTPUTS[op], **more)
    check_near(cases, 2e-6)


@pytest.mark.parametrize("op", list(GATES))
def test_activations(tmp_path, op):
    """Each function in each place, with the numbers that the standard gives where the node gives none."""
    rng = np.random.default_rng(4)
    cases = Cases(tmp_path)
    functions = {
        "Relu": (), "Tanh": (), "Sigmoid": (), "Softsign": (), "Softplus": (), "LeakyRelu": (0.3,), "Elu": (0.7,),
        "ThresholdedRelu": (0.2,), "ScaledTanh": (0.8, 1.2), "HardSigmoid": (0.3, 0.4), "Affine": (0.9, 0.1),
    }  # fmt: skip
    for name, numbers in functions.items():
        for place in range(len(USUAL[op])):
            activations = list(USUAL[op])
            activations[place] = name
            inputs = trimmed(weights(rng, op, "forward", left_out=["P", "sequence_lens"]))
            more = {"activations": activations, "hidden_size": 5}
            if numbers:
                more["activation_alpha"] = [numbers[0]]
            if len(numbers) > 1:
                more["activation_beta"] = [numbers[1]]
            add_by_ort(cases, op, inputs, why=f"{name}{place}", opset=14, outputs=OUTPUTS[op], **more)
    both = [*USUAL[op], *[{"Tanh": "Relu", "Sigmoid": "HardSigmoid"}[name] for name in USUAL[op]]]
    inputs = weights(rng, op, "bidirectional")
    add_by_ort(cases, op, inputs, why="both", opset=14, outputs=OUTPUTS[op], activations=both, hidden_size=5,
               direction="bidirectional")  # fmt: skip
    check_near(cases, 5e-6)


@pytest.mark.parametrize("op", list(GATES))
def test_layout_and_types(tmp_path, op):
    """Batch first is the same numbers in another order; half precision is float32 rounded at the end."""
    rng = np.random.default_rng(5)
    cases = Cases(tmp_path)
    for direction in ("forward", "reverse", "bidirectional"):
        for lengths in (True, False):
            inputs = weights(rng, op, direction, left_out=[] if lengths else ["sequence_lens", "P"])
            more = {"hidden_size": 5, "direction": direction}
            if op == "GRU":
                more["linear_before_reset"] = 1
            plain = trimmed(inputs)
            y, *states = run_ort(node_model(op, plain, opset=14, outputs=OUTPUTS[op], **more), plain)
            turned = [
                v if v is None or i in (1, 2, 3, 4, 7) else v.swapaxes(0, 1).copy() for i, v in enumerate(plain)
            ]
            model = node_model(op, turned, opset=14, outputs=OUTPUTS[op], layout=1, **more)
            cases.add(model, turned, [y.transpose(2, 0, 1, 3), *[s.swapaxes(0, 1) for s in states]], "layout")
            for dtype in ("float16", "float64"):
                other = [v.astype(dtype) if v is not None and v.dtype == np.float32 else v for v in plain]
                back = [v.astype(np.float32) if v is not None and v.dtype == dtype else v for v in other]
                expected = run_ort(node_model(op, back, opset=14, outputs=OUTPUTS[op], **more), back)
                model = node_model(op, other, opset=22, outputs=OUTPUTS[op], **more)
                cases.add(model, other, [v.astype(dtype) for v in expected], dtype)
    check_near(cases, 2e-6)


def test_refusals(tmp_path):
    rng = np.random.default_rng(6)
    x, w, r = weights(rng, "GRU", "forward")[:3]
    wrong = [
        ([x, w[:, :-1], r], {}, "W is float [1, 14, 4], expected [1, 15, 4]"),
        ([x, w, r], {"direction": "bidirectional"}, "expected [2, 15, 4]"),
        ([x, w, r], {"direction": "up"}, "direction is"),
        ([x, w, r], {"activations": ["Sigmoid", "Sine"]}, '"sine" is not known'),
        ([x, w, r], {"activations": ["Sigmoid"]}, "activations has 1 entries, expected 2"),
        ([x, w, r, None, np.array([9, 1, 1], np.int32)], {}, "sequence_lens holds 9, X has 5 steps"),
    ]
    cases = Cases(tmp_path)
    for inputs, more, _ in wrong:
        cases.add(node_model("GRU", inputs, opset=14, outputs=2, **more), inputs, None)
    for (verdict, _, why), (*_, expected) in zip(cases.run(), wrong, strict=True):
        assert verdict != "passed" and expected in why, why


@pytest.mark.parametrize("op", list(GATES))
def test_nothing_to_read(tmp_path, op):
    """No steps leave the states as they were; no sequences give nothing."""
    rng = np.random.default_rng(7)
    cases = Cases(tmp_path)
    for time, batch in [(0, 3), (4, 0)]:
        inputs = weights(rng, op, "bidirectional", left_out=["sequence_lens", "P"])
        inputs[0] = np.zeros((time, batch, 4), np.float32)
        for i in (5, 6)[: OUTPUTS[op] - 1]:
            inputs[i] = inputs[i][:, :batch].copy()
        inputs = trimmed(inputs)
        model = node_model(op, inputs, opset=14, outputs=OUTPUTS[op], hidden_size=5, direction="bidirectional")
        cases.add(model, inputs, [np.zeros((time, 2, batch, 5), np.float32), *inputs[5:]])
    cases.check()
