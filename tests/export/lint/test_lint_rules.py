"""crumb lint: every rule of every profile rejects a file that only it rejects, and nothing else is said."""

import json

import numpy as np
import onnx
import pytest
from lint_models import CASES, clean

PROFILES = ["qonnx", "finn", "hls4ml", "onnxruntime"]
EACH = [(case, profile) for case in CASES for profile in case.profiles.split()]
FIXABLE = [(case, profile) for case, profile in EACH if case.fixable]


def names(cases):
    return [f"{case.rule}-{profile}-{i}" for i, (case, profile) in enumerate(cases)]


def save(model, folder, name="model.onnx"):
    path = folder / name
    onnx.save(model, path)
    return path


@pytest.fixture
def lint(crumb):
    """Findings for a file, and the exit code that belongs to them. Warnings of other rules than `rule` are left out."""

    def run(path, profile, *options, rule=None):
        done = crumb("lint", path, "--for", profile, "--json", *options, status=None)
        assert done.returncode in (0, 1), done.stderr
        report = json.loads(done.stdout)
        assert set(report) == {"findings"}
        assert done.returncode == any(finding["severity"] == "refused" for finding in report["findings"])
        return [one for one in report["findings"] if one["severity"] != "warning" or one["rule"] == rule]

    return run


@pytest.mark.parametrize("profile", PROFILES)
def test_models_that_keep_the_rules_are_taken(lint, tmp_path, profile):
    for i, net in enumerate(clean(profile)):
        assert lint(save(net.model(), tmp_path, f"{i}.onnx"), profile) == []


@pytest.mark.parametrize(("case", "profile"), EACH, ids=names(EACH))
def test_only_the_rule_that_is_broken_rejects(lint, tmp_path, case, profile):
    findings = lint(save(case.make(profile).model(), tmp_path), profile, rule=case.rule)
    assert {finding["rule"] for finding in findings} == {case.rule, *case.also}
    mine = [finding for finding in findings if finding["node"] == case.node and finding["rule"] == case.rule]
    assert mine, findings
    assert mine[0]["fixable"] == case.fixable
    assert len(mine[0]["message"]) > 10
    assert set(mine[0]) == {"rule", "node", "message", "fixable", "severity"}


def test_every_rule_of_every_profile_has_a_case(crumb):
    listed = set()
    for profile in PROFILES:
        rows = crumb("lint", "--rules", "--for", profile).stdout.splitlines()[2:]
        listed |= {(row.split("|")[1].strip(), profile) for row in rows}
    assert listed == {(case.rule, profile) for case, profile in EACH}


def test_rules_that_can_be_fixed_say_so(crumb):
    fixable = {row.split("|")[1].strip() for row in crumb("lint", "--rules").stdout.splitlines()[2:]
               if row.split("|")[4].strip() != "no"}  # fmt: skip
    assert fixable == {case.rule for case in CASES if case.fixable}


@pytest.mark.parametrize(("case", "profile"), FIXABLE, ids=names(FIXABLE))
def test_what_is_fixed_lints_clean_and_computes_the_same(lint, tmp_path, case, profile):
    model = case.make(profile).model()
    path, fixed = save(model, tmp_path), tmp_path / "fixed.onnx"
    before = path.read_bytes()
    assert lint(path, profile, "--fix", fixed) == []
    assert path.read_bytes() == before
    if profile == "onnxruntime":
        return
    new = execute(onnx.load(fixed))
    if case.runs:
        np.testing.assert_array_equal(execute(model), new)
    assert new.size > 0


def execute(model, **inputs):
    """The first output in qonnx's executor, for inputs between -3 and 3 with some exact ties."""
    pytest.importorskip("qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    wrapper = ModelWrapper(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    if not inputs:
        draw = np.random.default_rng(7)
        for value in model.graph.input:
            if value.name in constants:
                continue
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            array = draw.uniform(-3, 3, shape).astype(np.float32)
            array.flat[::3] = np.round(array.flat[::3] * 4) / 4
            if any(one.tensor_name == value.name for one in model.graph.quantization_annotation):
                array = np.round(array)  # the only annotations of inputs here are of whole numbers
            inputs[value.name] = array
    return execute_onnx(wrapper, inputs)[model.graph.output[0].name]
