"""ONNX's conformance suite, as the installed onnx package has it: what Crumb claims passes, and it claims most.

Claimed is a case whose file is read and whose operators all have kernels; the others are listed by reason.
"""

import collections
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
SUITES = ["node", "simple", "pytorch-operator", "pytorch-converted"]

# Left out of the 85 %: control flow, sequences, optionals, maps, strings and training, by what a file uses.
CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
TRAINING_DOMAIN = "ai.onnx.preview.training"


# Random numbers: their values are nobody's but the generator's, so only shape and type could be compared.
RANDOM = "test_bernoulli"


def out_of_scope(path: Path) -> bool:
    model = onnx.load(path / "model.onnx", load_external_data=False)
    nodes = list(model.graph.node) + [node for function in model.functions for node in function.node]
    for node in nodes:
        if node.op_type in CONTROL_FLOW or node.domain == TRAINING_DOMAIN:
            return True
        if any(attribute.HasField("g") for attribute in node.attribute):
            return True
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type" or value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            return True
    return False


def folders_of(suite):
    folders = sorted(path for path in (DATA / suite).glob("*") if (path / "model.onnx").is_file())
    folders = [path for path in folders if not path.name.startswith(RANDOM)]
    if not folders:
        pytest.skip(f"the onnx package has no test data for {suite}")
    return folders


def report(suite, verdicts, capsys):
    """Prints the counts and what is not claimed; gives the claimed ones."""
    claimed = {f: v for f, v in verdicts.items() if v.state in ("passed", "failed")}
    passed = sum(v.state == "passed" for v in claimed.values())
    reasons = collections.Counter(
        re.sub(r"'[^']*'[:,]? ?", "", v.why) for v in verdicts.values() if v.state not in ("passed", "failed")
    )
    with capsys.disabled():
        print(f"\n{suite}: {passed} passed / {len(claimed)} claimed / {len(verdicts)} total")
        for reason, count in sorted(reasons.items()):
            print(f"  not claimed, {count}: {reason[:160]}")
    return claimed


def assert_none_failed(claimed):
    wrong = [f"{Path(f).name}: {v.why}" for f, v in claimed.items() if v.state == "failed"]
    assert not wrong, f"{len(wrong)} of {len(claimed)} claimed cases fail:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite, onnx_cases, capsys):
    verdicts = onnx_cases(folders_of(suite))
    claimed = report(suite, verdicts, capsys)
    assert_none_failed(claimed)
    assert len(claimed) > 0


@pytest.mark.parametrize("suite", SUITES)
def test_suite_on_another_device(suite, onnx_cases, capsys):
    """Memory that is not the CPU's: no kernel reaches into it, and none mixes devices."""
    verdicts = onnx_cases(folders_of(suite), "--device=hpu")
    assert_none_failed(report(suite, verdicts, capsys))


def test_most_of_the_node_cases_are_claimed(onnx_cases):
    folders = [folder for folder in folders_of("node") if not out_of_scope(folder)]
    verdicts = onnx_cases(folders)
    lacking = [Path(f).name for f, v in verdicts.items() if v.state not in ("passed", "failed")]
    share = 1 - len(lacking) / len(folders)
    assert share >= 0.85, f"{share:.1%} of {len(folders)} node cases are claimed; not among them: {lacking}"


def test_light_networks(onnx_cases, tmp_path, capsys):
    """Whole networks whose inputs are arange(n) / n and whose weights are small constants."""
    models = sorted((DATA / "light").glob("*.onnx"))
    if not models:
        pytest.skip("the onnx package has no light networks")
    folders = []
    for path in models:
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        data = tmp_path / path.stem / "test_data_set_0"
        data.mkdir(parents=True)
        (data.parent / "model.onnx").symlink_to(path)
        inputs = [value for value in model.graph.input if value.name not in constants]
        for i, value in enumerate(inputs):
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            n = int(np.prod(shape))
            x = (np.arange(n) / n).astype(np.float32).reshape(shape)
            (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
        for i, _ in enumerate(model.graph.output):
            expected = path.with_name(f"{path.stem}_output_{i}.pb")
            (data / f"output_{i}.pb").write_bytes(expected.read_bytes())
        folders.append(data.parent)
    verdicts = onnx_cases(folders)
    claimed = report("light", verdicts, capsys)
    assert_none_failed(claimed)
    assert len(claimed) == len(folders)
