"""No pass of `crumb passes` makes a range known that is not so: the sums of a file keep within what is claimed after each.

The passes are those that the program lists. Each one rewrites some of the networks (networks_for_passes.py, beside those
of every row), in QCDQ, raw and QONNX form.
"""

import json

import networks_for_passes
import numpy as np
import pytest
from range_makers import MAKERS
from range_networks import GENERAL, Batch
from test_ranges import NETWORKS, OPSETS, RUNS, SLOW, OfEngine, Runtime, Tally, claims_of, draw, extremes, of_qonnx, onnx

# The engine knows all operators that the standard defines by others, so that none of the file's has to be expanded. The networks
# compute in float32 (tests/cli/test_cli_half_networks.py has others).
CHANGES_NO_NODE = {"infer-shapes", "expand-functions", "to-float32", "to-float32-keep-io"}


def passes_of(crumb, with_engine):
    """The names of those that need the engine, or of all others."""
    listed = json.loads(crumb("passes", "--json").stdout)["passes"]
    assert len(listed) >= 18
    return [one["name"] for one in listed if one["needs_engine"] == with_engine]


def networks(seed, form, rows=None):
    """Half of the file for the passes' sake."""
    rng = np.random.default_rng(seed)
    opsets = [opset for opset in OPSETS if form != "raw" or opset >= 11]
    b = Batch(rng, opsets[seed % len(opsets)], form)
    if form == "raw":  # a node that has no words in QONNX
        codes = b.node("DynamicQuantizeLinear", [b.value([2])], outputs=3)[0]
        b.finish(None, b.node("Cast", [codes], to=onnx.TensorProto.FLOAT))
    for i in range(NETWORKS // 2):
        make = networks_for_passes.NETWORKS[i % len(networks_for_passes.NETWORKS)]
        b.finish(("passes", make.__name__), make(b))
    fitting = [row for row in rows or MAKERS if form in MAKERS[row][1] and MAKERS[row][2] <= b.opset]
    for i in range(NETWORKS // 2):
        row = fitting[(seed * NETWORKS // 2 + i) % len(fitting)]
        b.finish(row, MAKERS[row][0](b))
    # What no output needs.
    b.node("Relu", [b.quantized([2, 3])])
    return b


def at_outputs(b, claims, path):
    """The claims by the names that the layers had: a pass may name nodes anew, but no outputs."""
    makers = {output: node.name for node in onnx.load(path).graph.node for output in node.output}
    return {name: claims[makers[output]] for name, output in b.heads.items() if makers[output] in claims}


def differs(made, written):
    """In nodes, inputs, or constants that have their names."""
    if [*made.node] != [*written.node] or [*made.input] != [*written.input]:
        return True
    constants = {one.name: one for one in written.initializer}
    return any(one != constants.get(one.name, one) for one in made.initializer)


def known_of(claims):
    return {name for name, claim in claims.items() if claim["input"] is not None}


class Passes:
    """Applies passes to files, and counts which changed anything."""

    def __init__(self, crumb, names):
        self.crumb, self.names, self.changed = crumb, names, set()

    def check(self, b, path, runs):
        before = known_of(claims_of(self.crumb, path))
        plain, after = path.parent / "plain.onnx", path.parent / "after.onnx"
        self.crumb("passes", path, "-o", plain, "infer-shapes")
        written = onnx.load(plain).graph
        for name in self.names:
            if self.crumb("passes", path, "-o", after, name, status=None).returncode != 0:
                assert name.startswith("opset"), name  # a set that cannot say an attribute
                continue
            made = onnx.load(after).graph
            if differs(made, written):
                self.changed.add(name)
            claims = at_outputs(b, claims_of(self.crumb, after), after)
            Tally().check(b, claims, runs)
            assert len(known_of(claims)) > 0.8 * len(before), name

    def judge(self):
        assert set(self.names) - self.changed <= CHANGES_NO_NODE


def test_no_pass_makes_a_false_claim(crumb, tmp_path):
    passes = Passes(crumb, passes_of(crumb, with_engine=False))
    path = tmp_path / "m.onnx"
    for seed in range(60) if SLOW else (1, 4):  # the latter has layer normalization
        b = networks(seed, "raw" if seed % 2 else "qcdq")
        onnx.save(b.model(), path)
        runtime = Runtime(b.model(), list(b.heads.values()))
        passes.check(b, path, [runtime.run(b.sample(kind)) for kind in RUNS[:5]])
    passes.judge()


@pytest.mark.slow  # qonnx takes its time; the engine runs these networks, too
def test_no_pass_makes_a_false_claim_of_qonnx_operators(crumb, tmp_path):
    passes = Passes(crumb, passes_of(crumb, with_engine=False))
    path = tmp_path / "m.onnx"
    rows = [row for row in MAKERS if row[0] == GENERAL and row[1] not in ("Im2Col", "MaxPoolNHWC")]
    for seed in range(8 if SLOW else 1):
        b = draw(3000 + seed, "qonnx", rows)
        onnx.save(b.model(), path)
        run = of_qonnx(b.model(), list(b.heads.values()))
        passes.check(b, path, [run(b.sample(kind)) for kind in ("flat", "mixed")])


@pytest.mark.parametrize("form", ["qonnx", "qcdq", "raw"])
def test_no_pass_makes_a_false_claim_by_the_engine_s_word(crumb, engine, tmp_path, form):
    """All passes on QONNX, and elsewhere those that need the engine."""
    passes = Passes(crumb, passes_of(crumb, with_engine=True))
    if form == "qonnx":
        passes.names += passes_of(crumb, with_engine=False)
    path = tmp_path / "m.onnx"
    for seed in range(20 if SLOW else 1):
        b = networks(501 + seed, form)
        onnx.save(b.model(), path)
        executor = OfEngine(crumb, path, list(b.heads.values()))
        passes.check(b, path, [executor.run(x) for x in extremes(b)])
    passes.judge()
