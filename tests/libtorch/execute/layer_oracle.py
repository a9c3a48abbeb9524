"""What the tests of layers share: data whose sums are exact, and a comparison that allows for cancellation."""

import re

import numpy as np
from node_cases import node_model
from node_cases import run_ort as run_typed_ort


def eighths(rng, *shape, dtype=np.float32):
    """Small multiples of 1/8: products and sums of a few thousand are exact in float32 in any order."""
    return (rng.integers(-16, 17, size=shape) / 8).astype(dtype)


def run_ort(model, inputs):
    """onnxruntime's outputs; it finds their types itself."""
    copy = type(model)()
    copy.CopyFrom(model)
    for value in copy.graph.output:
        value.ClearField("type")
    return run_typed_ort(copy, inputs)


def add_by_ort(cases, op, inputs, why="", **keywords):
    """A case whose outputs are onnxruntime's."""
    model = node_model(op, inputs, **keywords)
    cases.add(model, inputs, run_ort(model, inputs), why)


def check_near(cases, absolute):
    """Every case passes, or is off by no more than `absolute`, where values near zero are sums that cancel."""
    wrong = []
    for verdict, folder, why in cases.run():
        apart = re.search(r"values differ by up to ([0-9.]+)$", why)
        if verdict != "passed" and not (apart and float(apart.group(1)) <= absolute):
            wrong.append(f"{folder}: {verdict}: {why}")
    assert cases.count > 0 and not wrong, "\n".join(wrong)
