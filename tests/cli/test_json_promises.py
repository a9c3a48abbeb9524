"""What docs/versions.md promises of JSON: keys, and what kind of value stands under them, stay; more may come.

tests/fixtures/json/VERSION.json has, for each command below, the keys as that version printed them. Of a new minor version:
python tests/cli/test_json_promises.py build/crumb tests/fixtures/json/0_3.json
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD = sorted((ROOT / "tests/fixtures/json").glob("*.json"))
FILES = ["examples/digits/digits_cnn.crumb", "tests/fixtures/crumb/v2.crumb"]
COMMANDS = [
    "formats --json",
    "inspect v2.crumb --json",
    "inspect w.safetensors --json",
    "inspect digits_cnn.crumb --json",
    "verify digits_cnn.crumb --accumulator --json",
    "cost digits_cnn.crumb --json",
    "quantize w.safetensors -o w.crumb --weights int4:group=32 --json",
    "quantize w.safetensors --dry-run --weights int4:group=32 --json",
    "compare w.safetensors w.crumb --json",
    "export digits_cnn.crumb -o out.onnx --to qonnx --json",
    "lint out.onnx --for finn --json",
    "bench digits_cnn.crumb --seconds 0.1 --json",
]


def kind(value):
    return "number or null" if value is None or (isinstance(value, int | float) and not isinstance(value, bool)) else type(value).__name__


def paths(value, at=""):
    """"tensors[].name: str" of every value; of lists all elements under one name."""
    if isinstance(value, dict):
        return {path for key, inner in value.items() for path in paths(inner, f"{at}.{key}" if at else key)}
    if isinstance(value, list):
        return {path for inner in value for path in paths(inner, f"{at}[]")} or {f"{at}[]"}
    return {f"{at}: {kind(value)}"}


def printed(binary, folder):
    """The paths that each command prints, run one after the other in a folder with the files."""
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    tensors = {"w.weight": {"dtype": "F32", "shape": [4, 64], "data_offsets": [0, 1024]}, "w.bias": {"dtype": "F32", "shape": [4], "data_offsets": [1024, 1040]}}
    header = json.dumps(tensors).encode()
    numbers = struct.pack("<260f", *((7 * i % 33 - 16) / 16 for i in range(260)))
    (Path(folder) / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + numbers)
    found = {}
    for command in COMMANDS:
        done = subprocess.run([binary, *command.split()], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.stdout, f"{command}: {done.stderr}"
        found[command] = sorted(paths(json.loads(done.stdout)))
    return found


@pytest.fixture(scope="module")
def now(crumb_bin, tmp_path_factory):
    return printed(crumb_bin, tmp_path_factory.mktemp("json"))


def allows(path, others):
    """Whether a path of then is there: the same, or, where then nothing or no number was known, with whatever stands there."""
    if path in others:
        return True
    at, _, was = path.partition(": ")
    return (was == "number or null" or at.endswith("[]")) and any(other.split(":")[0].startswith(at) for other in others)


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_keys_stay(old, now):
    then = json.loads(old.read_text())
    assert sum(map(len, then.values())) > 100
    gone = {command: [path for path in then[command] if not allows(path, now[command])] for command in then}
    assert not {command: keys for command, keys in gone.items() if keys}


def test_a_key_that_is_renamed_would_be_seen():
    then = paths({"a": 1, "list": [{"x": "text"}], "none": []})
    assert all(allows(path, then) for path in then)
    assert not allows("a: number or null", paths({"b": 1})) and not allows("list[].x: str", paths({"list": [{"x": 3}]}))
    assert not allows("list[].x: str", paths({"list": [{"y": "text"}]}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(printed(Path(sys.argv[1]).resolve(), folder), indent=1)
    Path(sys.argv[2]).write_text(text + "\n")
