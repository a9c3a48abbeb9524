"""crumb dequantize: a model folder in shards, bounded memory, and what is never overwritten or mixed."""

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sample_checkpoints import digest, normal, read_safetensors, write_folder, write_safetensors

INDEX = "model.safetensors.index.json"


@pytest.fixture
def packed(crumb, tmp_path):
    folder = write_folder(tmp_path / "model")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "1_Pooling", "type": "Pooling"}]))
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8")
    return tmp_path / "m.crumb"


def whole(crumb, packed):
    out = packed.with_name("whole.safetensors")
    crumb("dequantize", packed, "-o", out)
    return read_safetensors(out)


@pytest.mark.parametrize("size", ["40KB", "33KiB", "1B", "0.05MB"])
def test_shards_hold_the_same_tensors_under_one_index(crumb, packed, tmp_path, size):
    out = tmp_path / "shards"
    done = crumb("dequantize", packed, "-o", out, "--shard", size)
    expected = whole(crumb, packed)
    index = json.loads((out / INDEX).read_text())
    assert index["metadata"] == {"total_size": sum(len(raw) for _, _, raw in expected.values())}
    assert (out / INDEX).read_text() == json.dumps(index, indent=2, sort_keys=True) + "\n"
    assert list(index["weight_map"]) == sorted(expected)
    files = sorted(p.name for p in out.glob("*.safetensors"))
    assert files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    assert files == sorted(set(index["weight_map"].values())) and f"{len(files)} files" in done.stdout
    limit = {"40KB": 40000, "33KiB": 33 * 1024, "1B": 1, "0.05MB": 50000}[size]
    found = {}
    for file in files:
        tensors = read_safetensors(out / file)
        assert len(tensors) == 1 or sum(len(raw) for _, _, raw in tensors.values()) <= limit
        assert all(index["weight_map"][name] == file for name in tensors)
        found |= tensors
    assert found == expected
    for name in ("config.json", "vocab.txt", "1_Pooling/config.json"):
        assert (out / name).read_bytes() == (tmp_path / "model" / name).read_bytes()
    crumb("compare", packed, out)


def test_what_fits_one_shard_has_no_index(crumb, packed, tmp_path):
    crumb("dequantize", packed, "-o", tmp_path / "out")
    beside = ["1_Pooling", "config.json", "crumb_recipe.yaml", "modules.json", "vocab.txt"]
    assert sorted(os.listdir(tmp_path / "out")) == sorted([*beside, "model.safetensors"])
    assert read_safetensors(tmp_path / "out" / "model.safetensors") == whole(crumb, packed)


def test_transformers_and_safetensors_load_the_folder(crumb, minilm, tmp_path):
    transformers = pytest.importorskip("transformers")
    from safetensors import safe_open

    crumb("quantize", minilm, "-o", tmp_path / "m.crumb", "--weights", "int8")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "out", "--shard", "20MB")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "whole.safetensors")
    index = json.loads((tmp_path / "out" / INDEX).read_text())
    with safe_open(tmp_path / "whole.safetensors", "np") as one:
        assert set(one.keys()) == set(index["weight_map"])
        for name, file in index["weight_map"].items():
            with safe_open(tmp_path / "out" / file, "np") as shard:
                assert np.array_equal(shard.get_tensor(name), one.get_tensor(name))
        model = transformers.AutoModel.from_pretrained(tmp_path / "out")
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
        state = model.state_dict()
        checked = 0
        for name in one.keys():
            if name in state and state[name].is_floating_point():
                assert np.array_equal(state[name].numpy(), one.get_tensor(name))
                checked += 1
        assert checked > 90


def test_a_bad_size_is_a_wrong_usage(crumb, packed, tmp_path):
    for size, word in (("2", "unit"), ("GB", "number"), ("-1GB", "number"), ("0MB", "less than"), ("1XB", "'XB'")):
        done = crumb("dequantize", packed, "-o", tmp_path / "out", f"--shard={size}", status=2)
        assert word in done.stderr and "--shard" in done.stderr
        assert not (tmp_path / "out").exists()


def test_other_tensor_files_are_not_mixed_with_new_ones(crumb, packed, tmp_path):
    out = tmp_path / "out"
    crumb("dequantize", packed, "-o", out, "--shard", "40KB")
    before = digest(out)
    for size in ("1GB", "60KB"):
        done = crumb("dequantize", packed, "-o", out, "--shard", size, status=1)
        assert "mixed" in done.stderr and "model" in done.stderr
        assert digest(out) == before
    crumb("dequantize", packed, "-o", out, "--shard", "40KB")
    assert digest(out) == before


def test_a_folder_that_is_something_else_is_left_alone(crumb, packed, tmp_path):
    def refused(out, name, size="1GB"):
        before = digest(out)
        done = crumb("dequantize", packed, "-o", out, "--shard", size, status=1)
        assert repr(name) in done.stderr and digest(out) == before

    # The model that was quantized has files of all the names that would be written, its own tensors in them.
    refused(tmp_path / "model", "model.safetensors")
    out = tmp_path / "out"
    crumb("dequantize", packed, "-o", out, "--shard", "1GB")
    for name in ("config.json", "1_Pooling/config.json"):
        (out / name).write_text("{} ")
        refused(out, name)
        (out / name).write_bytes((tmp_path / "model" / name).read_bytes())
    for name in ("notes.txt", "sub/notes.txt", "model-00001-of-00002.safetensors", INDEX):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("mine")
        refused(out, name)
        (out / name).unlink()
    # What a killed run left is taken over.
    (out / "model.safetensors").rename(out / "model.safetensors.partial")
    (out / "vocab.txt").unlink()
    crumb("dequantize", packed, "-o", out, "--shard", "1GB")
    assert read_safetensors(out / "model.safetensors") == whole(crumb, packed)
    assert (out / "vocab.txt").exists() and not (out / "model.safetensors.partial").exists()
    (tmp_path / "empty").mkdir()
    crumb("dequantize", packed, "-o", tmp_path / "empty", "--shard", "40KB")


def test_tensors_above_the_limit_are_said(crumb, packed, tmp_path):
    done = crumb("dequantize", packed, "-o", tmp_path / "a", "--shard", "30KB")
    assert "note: 4 tensors are larger than '30KB'" in done.stderr and "0.03 MB" in done.stderr
    assert "note" not in crumb("dequantize", packed, "-o", tmp_path / "b", "--shard", "40KB").stderr


def test_shards_do_not_replace_the_input_or_a_file(crumb, packed, tmp_path):
    before = digest(packed)
    (tmp_path / "out").mkdir()
    for name in ("config.json", INDEX, "1_Pooling"):
        path = tmp_path / "out" / name
        target = path / "config.json" if name == "1_Pooling" else path
        target.parent.mkdir(exist_ok=True)
        os.link(packed, target)
        assert "input" in crumb("dequantize", target, "-o", tmp_path / "out", "--shard", "40KB", status=2).stderr
        target.unlink()
    done = crumb("dequantize", packed, "-o", packed, "--shard", "40KB", status=2)
    assert "a folder is written, and a file that ends in .crumb comes from" in done.stderr
    assert digest(packed) == before


def test_damage_leaves_nothing_behind(crumb, packed, tmp_path):
    content = bytearray(packed.read_bytes())
    content[-300] ^= 1
    (tmp_path / "bad.crumb").write_bytes(content)
    crumb("dequantize", tmp_path / "bad.crumb", "-o", tmp_path / "out", "--shard", "40KB", status=1)
    crumb("dequantize", tmp_path / "bad.crumb", "-o", tmp_path / "out.safetensors", status=1)
    assert not (tmp_path / "out.safetensors").exists()
    assert not list(tmp_path.glob("out/*.safetensors*"))


MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, done.returncode)
"""


def peak_memory(*command):
    done = subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, text=True)
    memory, status = map(int, done.stdout.split("\n")[-2].split())
    assert status == 0, done.stderr
    return memory


@functools.cache
def large(shape):
    return normal(*shape)


@pytest.mark.parametrize("shape", [(6000, 4096), (1, 24_576_000)])
@pytest.mark.parametrize("options", [["--weights", "int8:group=64"], ["--weights", "int4:group=32", "--zstd", "1"],
                                     ["--exclude", "*"]])  # fmt: skip
def test_memory_does_not_grow_with_a_tensor(crumb, crumb_bin, tmp_path, shape, options):
    """98 MB of float32 come out of less than 64 MB of memory, the process itself and mapped pages included."""
    weight = large(shape)
    source = write_safetensors(tmp_path / "in.safetensors", {"a.weight": weight})
    if options[0] == "--exclude":
        options = ["--weights", "int8", *options]
    crumb("quantize", source, "-o", tmp_path / "m.crumb", *options)
    memory = peak_memory(crumb_bin, "dequantize", tmp_path / "m.crumb", "-o", tmp_path / "out.safetensors", "--threads", "2")
    assert memory < 64e6
    report = json.loads(crumb("compare", source, tmp_path / "out.safetensors", "--json").stdout)
    assert report
    back = np.frombuffer(read_safetensors(tmp_path / "out.safetensors")["a.weight"][2], np.float32)
    assert np.abs(back - weight.ravel()).max() < 0.6
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors", "m.crumb", "out.safetensors"]
