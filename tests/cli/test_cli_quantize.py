"""crumb quantize and dequantize: which tensors, in which order of rules, what is refused, and what is never touched."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from sample_checkpoints import (
    BITS,
    digest,
    normal,
    read_safetensors,
    small_tensors,
    write_folder,
    write_safetensors,
    write_shards,
)

WEIGHTS = {"encoder.layer.0.query.weight", "encoder.layer.0.key.weight", "encoder.layer.1.query.weight",
           "encoder.layer.1.key.weight", "stem.conv.weight"}  # fmt: skip
TABLE = "embeddings.word_embeddings.weight"
KEPT = set(small_tensors()) - WEIGHTS - {TABLE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("quantize") / "model")


@pytest.fixture
def quantize(crumb, folder, tmp_path):
    """Quantizes the folder with these options; gives {name: spec or None} and the whole report."""

    def run(*options):
        done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", *options, "--json")
        report = json.loads(done.stdout)
        return {row["name"]: row["spec"] for row in report["tensors"]}, report

    return run


# --- The report -------------------------------------------------------------------------------------------------------


def test_the_report_has_the_fields_that_are_promised(quantize, folder, tmp_path):
    specs, report = quantize("--scheme", "W4A16")
    assert list(report) == ["schema", "input", "output", "input_bytes", "output_bytes", "bits_per_weight", "seconds",
                            "peak_rss_bytes", "dry_run", "upper_bound", "tensors", "stages", "activations", "biases",
                            "outputs", "skipped", "notes"]  # fmt: skip
    assert report["input"] == str(folder) and report["output"] == str(tmp_path / "out.crumb")
    assert report["input_bytes"] == (folder / "model.safetensors").stat().st_size
    assert report["output_bytes"] == (tmp_path / "out.crumb").stat().st_size
    assert 0 <= report["seconds"] < 60 and report["peak_rss_bytes"] > 1e6
    assert {name for name, spec in specs.items() if spec == "int4:group=128"} == WEIGHTS
    assert specs[TABLE] == "int8:channel"
    assert {name for name, spec in specs.items() if spec is None} == KEPT
    bits = weights = 0
    for row in report["tensors"]:
        assert list(row)[:8] == ["name", "shape", "dtype", "spec", "bytes", "sqnr_db", "max_abs_error", "kept_because"]
        array = np.asarray(small_tensors()[row["name"]])
        assert row["shape"] == list(array.shape)
        assert (row["spec"] is None) == bool(row["kept_because"]) == (row["sqnr_db"] is None)
        assert (row["max_abs_error"] == 0) == (row["spec"] is None)
        if row["spec"]:
            bits, weights = bits + 8 * row["bytes"], weights + array.size
        else:
            assert row["bytes"] == array.nbytes
    assert report["bits_per_weight"] == pytest.approx(bits / weights)


def test_what_people_read_goes_to_stdout_and_notes_to_stderr(crumb, folder, tmp_path):
    done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--weights", "int4")
    assert "bits per weight" in done.stdout and "kept 1: normalisation" in done.stdout and "worst" in done.stdout
    assert "F64" in done.stderr and "rounded" in done.stderr  # one tensor is


def test_scheme_names_in_any_case(quantize):
    for scheme, spec in (("w8a16", "int8:channel"), ("FP8", "e4m3fn:channel"), ("mxfp4", "mxfp4"), ("NVFP4", "nvfp4")):
        assert {quantize("--scheme", scheme)[0][name] for name in WEIGHTS} == {spec}


# --- Rules ------------------------------------------------------------------------------------------------------------


def test_include_exclude_embeddings_and_set_in_this_order_later_wins(quantize):
    base = ("--weights", "int4")
    norm = "embeddings.LayerNorm.weight"
    assert quantize(*base, "--include", "*LayerNorm*")[0][norm] == "int4:channel"
    assert quantize(*base, "--include", TABLE)[0][TABLE] == "int4:channel"
    specs, report = quantize(*base, "--exclude", "*.query.*")
    assert {n for n in WEIGHTS if specs[n] is None} == {n for n in WEIGHTS if ".query." in n}
    because = {row["name"]: row["kept_because"] for row in report["tensors"]}
    assert "--exclude" in because["encoder.layer.0.query.weight"] and "*.query.*" in because["encoder.layer.0.query.weight"]

    # Whatever the order on the line: include, then exclude, then embeddings, then set.
    both = ["--include", "*LayerNorm*", "--exclude", "embeddings.*"]
    assert quantize(*base, *both)[0][norm] is None
    assert quantize(*base, *both[2:], *both[:2])[0][norm] is None
    specs = quantize(*base, "--exclude", "embeddings.*", "--embeddings", "int6")[0]
    assert specs[TABLE] == "int6:channel" and specs[norm] is None
    specs = quantize("--set", "*word*=int5", *base, "--exclude", "*", "--embeddings", "int6")[0]
    assert specs[TABLE] == "int5:channel" and all(specs[n] is None for n in WEIGHTS)
    assert quantize(*base, "--include", TABLE, "--embeddings", "keep")[0][TABLE] is None
    assert quantize(*base, "--embeddings", "keep")[0][TABLE] is None
    assert quantize(*base, "--set", "*word*=keep")[0][TABLE] is None

    # Several of one kind: the later ones win; a glob may match all.
    specs = quantize(*base, "--set", "*=int8", "--set", "*.key.*=int3", "--set", "*.1.key.*=keep")[0]
    assert specs["encoder.layer.0.key.weight"] == "int3:channel" and specs["encoder.layer.1.key.weight"] is None
    assert specs["temperature"] == "int8:channel" and specs["embeddings.position_ids"] is None


def test_set_splits_at_its_first_equals_sign(quantize):
    specs, _ = quantize("--weights", "int4", "--set", "stem.*=int3:group=64:search=mse:range=full")
    assert specs["stem.conv.weight"] == "int3:group=64:search=mse:range=full"


def test_globs_cross_dots_and_know_brackets(quantize):
    name = "encoder.layer.1.query.weight"
    for glob in ("enc*ght", "encoder.layer.?.query.weight", "encoder.layer.[12].q*", "[e]*[1].query.weigh[t]"):
        assert quantize("--weights", "int4", "--exclude", glob)[0][name] is None


@pytest.mark.parametrize("option", ["--include", "--exclude", "--set"])
@pytest.mark.parametrize("glob", ["nothing*", "encoders", "ENCODER*", "", "[x]"])
def test_a_glob_that_matches_nothing_is_an_error(crumb, folder, tmp_path, option, glob):
    value = f"{glob}=int4" if option == "--set" else glob
    done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--weights", "int4", option, value, status=2)
    assert option in done.stderr and (glob or "expects" in done.stderr or "''" in done.stderr)
    assert glob in done.stderr and not (tmp_path / "out.crumb").exists()


def test_integers_cannot_be_forced_in(crumb, folder, tmp_path):
    done = crumb("quantize", folder, "-o", tmp_path / "o", "--weights", "int4", "--include", "*position_ids", status=2)
    assert "floating" in done.stderr


# --- Groups that do not divide ----------------------------------------------------------------------------------------


def test_groups_that_do_not_divide_are_one_error_before_any_work(crumb, tmp_path):
    tensors = {f"layer.{i:02}.weight": normal(4, 100) for i in range(33)} | {"good.weight": normal(4, 96)}
    tensors["layer.00.weight"] = np.full((4, 100), np.nan, np.float32)  # not looked at yet
    source = write_safetensors(tmp_path / "in.safetensors", tensors)
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int4:group=32", status=1)
    assert done.stderr.count("does not divide") == 20 and "and 13 more" in done.stderr and "33 tensors" in done.stderr
    assert "'layer.00.weight'" in done.stderr and "[4, 100]" in done.stderr and "pad" in done.stderr
    assert "good.weight" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors"]
    tensors["layer.00.weight"] = normal(4, 100)
    write_safetensors(source, tensors)
    crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int4:group=32:pad")
    crumb("verify", tmp_path / "out.crumb")
    crumb("quantize", source, "-o", tmp_path / "two.crumb", "--weights", "int4:group=32", "--set", "layer.*=int8")


# --- Outputs and inputs -----------------------------------------------------------------------------------------------


def aliases(target, tmp_path):
    """Other paths to one file."""
    yield target
    yield target.parent / ".." / target.parent.name / target.name
    (tmp_path / "symlink").symlink_to(target)
    yield tmp_path / "symlink"
    (tmp_path / "twice").symlink_to(tmp_path / "symlink")
    yield tmp_path / "twice"
    os.link(target, tmp_path / "hardlink")
    yield tmp_path / "hardlink"


def test_writing_onto_an_input_is_an_error_and_leaves_it(crumb, tmp_path):
    folder = write_folder(tmp_path / "model")
    shards = write_shards(tmp_path / "shards", small_tensors(), 3)
    before = digest(tmp_path)
    for target in (folder / "model.safetensors", folder / "config.json", folder / "vocab.txt",
                   *shards.glob("*.safetensors"), shards / "model.safetensors.index.json"):  # fmt: skip
        links = tmp_path / f"links-{target.name}"
        links.mkdir()
        for output in aliases(target, links):
            done = crumb("quantize", target.parent, "-o", output, "--weights", "int8", status=2)
            assert "input" in done.stderr and done.stdout == ""
        shutil.rmtree(links)
        assert digest(tmp_path) == before
    for source in (folder / "model.safetensors", tmp_path / "model" / ".." / "model" / "model.safetensors"):
        crumb("quantize", source, "-o", folder / "model.safetensors", "--weights", "int8", status=2)
    assert digest(tmp_path) == before
    out = tmp_path / "out.crumb"
    crumb("quantize", folder, "-o", out, "--weights", "int8")
    for _ in range(2):  # no reader of folders takes it as a part of the model
        crumb("quantize", folder, "-o", folder / "new.crumb", "--weights", "int8")
        assert (folder / "new.crumb").read_bytes() == out.read_bytes()
    done = crumb("dequantize", folder, "-o", folder / "new", status=2)  # but a folder in it is in the way
    assert "lies in the input" in done.stderr
    (folder / "new.crumb").unlink()
    out.unlink()
    assert digest(tmp_path) == before
    crumb("quantize", folder / "model.safetensors", "-o", folder / "new.crumb", "--weights", "int8")  # beside a file is fine


def test_an_input_called_like_the_partial_file_is_not_overwritten(crumb, tmp_path):
    source = write_safetensors(tmp_path / "out.crumb.partial", small_tensors())
    before = digest(tmp_path)
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int8", status=2)
    assert "partial" in done.stderr
    assert digest(tmp_path) == before


def test_embed_does_not_write_onto_the_model_or_the_text(crumb, tmp_path):
    folder = write_folder(tmp_path / "model")
    (tmp_path / "text.txt").write_text("a line\n")
    before = digest(tmp_path)
    for output in (folder / "model.safetensors", folder / "config.json", folder / "vocab.txt", tmp_path / "text.txt"):
        done = crumb("embed", folder, "--text", tmp_path / "text.txt", "-o", output, status=2)
        assert "input" in done.stderr
        assert digest(tmp_path) == before


def test_dequantize_does_not_write_onto_its_input(crumb, folder, tmp_path):
    path = tmp_path / "m.crumb"
    crumb("quantize", folder, "-o", path, "--weights", "int8")
    before = digest(path)
    for output in aliases(path, tmp_path):
        crumb("dequantize", path, "-o", output, status=2)
    assert digest(path) == before


def test_outputs_that_cannot_be_are_named(crumb, folder, tmp_path):
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for output, word in ((tmp_path / "missing" / "out.crumb", "missing"), (tmp_path, "folder"),
                         (tmp_path / "file" / "out.crumb", "out.crumb"), (tmp_path / "pipe", "regular"),
                         ("/proc/out.crumb", "/proc"), (tmp_path / ("n" * 300), "nnn")):  # fmt: skip
        done = crumb("quantize", folder, "-o", output, "--weights", "int8", status=1)
        assert word in done.stderr and done.stdout == ""
    assert "needs -o FILE" in crumb("quantize", folder, "-o", "", "--weights", "int8", status=2).stderr
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe"]


def test_a_full_disk_leaves_the_old_output(crumb_bin, folder, tmp_path):
    out = tmp_path / "out.crumb"
    out.write_bytes(b"old")
    command = f"trap '' XFSZ; ulimit -f 8; exec '{crumb_bin}' quantize '{folder}' -o '{out}' --weights int8"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 1 and "out.crumb" in done.stderr
    assert out.read_bytes() == b"old" and os.listdir(tmp_path) == ["out.crumb"]


def test_an_older_output_is_replaced_at_once(crumb, folder, tmp_path):
    out = tmp_path / "out.crumb"
    out.write_bytes(b"old" * 100000)
    with open(out, "rb") as held:
        crumb("quantize", folder, "-o", out, "--weights", "int8")
        assert held.read() == b"old" * 100000  # another file took the name
    crumb("verify", out)
    assert os.listdir(tmp_path) == ["out.crumb"]
    (tmp_path / "link.crumb").symlink_to(out)
    crumb("quantize", folder, "-o", tmp_path / "link.crumb", "--weights", "int4")
    assert (tmp_path / "link.crumb").is_symlink()
    assert "int4:channel" in crumb("inspect", out).stdout


def test_a_stale_partial_file_is_no_obstacle(crumb, folder, tmp_path):
    left = tmp_path / "out.crumb.partial"
    left.write_bytes(b"x" * 1000000)
    done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--weights", "int8", status=1)
    assert repr(str(left)) in done.stderr and "no run of crumb left there" in done.stderr
    assert left.read_bytes() == b"x" * 1000000 and os.listdir(tmp_path) == [left.name]
    left.chmod(0o1644)  # the mark that a killed run leaves
    crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--weights", "int8")
    crumb("verify", tmp_path / "out.crumb")
    assert os.listdir(tmp_path) == ["out.crumb"]


# --- What is refused --------------------------------------------------------------------------------------------------


def test_checkpoints_that_are_already_quantized_are_refused_by_name(crumb, tmp_path):
    packed = {"a.qweight": np.zeros((4, 4), np.int32), "a.scales": normal(4, 4)}
    cases = [
        (write_folder(tmp_path / "gptq", config={"quantization_config": {"quant_method": "gptq"}}), "gptq"),
        (write_folder(tmp_path / "other", config={"quantization_config": {}}), "quantization_config"),
        (write_safetensors(tmp_path / "q.safetensors", packed), "a.qweight"),
    ]
    for source, word in cases:
        done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int8", status=1)
        assert "already quantized" in done.stderr and word in done.stderr
        assert not (tmp_path / "out.crumb").exists()
        crumb("inspect", source)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("spec", ["int4", "int2h:group=32:search=mse", "mxfp4", "nvfp4", "palette4", "e4m3fn:tensor"])
def test_weights_that_are_not_finite_are_an_error_with_place_and_count(crumb, tmp_path, bad, spec):
    weight = normal(64, 96)
    weight[17, 5] = weight[17, 6] = weight[63, 95] = bad
    source = write_safetensors(tmp_path / "in.safetensors", {"fine.weight": normal(8, 32), "sick.weight": weight})
    (tmp_path / "out.crumb").write_bytes(b"old")
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", spec, status=1)
    assert "'sick.weight'" in done.stderr and " 3 " in done.stderr and str(17 * 96 + 5) in done.stderr
    assert "crumb: " in done.stderr and done.stdout == ""
    assert (tmp_path / "out.crumb").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors", "out.crumb"]
    crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", spec, "--exclude", "sick*")


# --- The same bytes ---------------------------------------------------------------------------------------------------

SPECS = ["int4:group=32", "int2h:group=64:search=mse", "int4:search=hqo:zero=float:group=64", "nvfp4", "palette3",
         "int8:tensor:search=percentile=99", "int3:round=stochastic=5", "int4:search=lsq"]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_runs_and_threads_do_not_change_a_byte(crumb, folder, tmp_path, spec):
    outputs = []
    for threads in (1, 2, 3, 16, 0):
        out = tmp_path / f"{threads}.crumb"
        crumb("quantize", folder, "-o", out, "--weights", spec, "--threads", threads)
        outputs.append(out.read_bytes())
    assert len(set(outputs)) == 1
    assert str(folder).encode() not in outputs[0]


def test_the_folder_s_place_and_time_do_not_change_a_byte(crumb, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere" / "copy")
    crumb("quantize", folder, "-o", tmp_path / "a.crumb", "--weights", "int4")
    crumb("quantize", ".", "-o", tmp_path / "b.crumb", "--weights", "int4", cwd=tmp_path / "elsewhere" / "copy")
    assert (tmp_path / "a.crumb").read_bytes() == (tmp_path / "b.crumb").read_bytes()
    # Shards are another way to say the same (config and vocabulary aside).
    crumb("quantize", folder / "model.safetensors", "-o", tmp_path / "c.crumb", "--weights", "int4")
    crumb("quantize", write_shards(tmp_path / "s", small_tensors(), 4), "-o", tmp_path / "d.crumb", "--weights", "int4")
    assert (tmp_path / "c.crumb").read_bytes() == (tmp_path / "d.crumb").read_bytes()


def test_compression_changes_the_size_and_nothing_else(crumb, tmp_path):
    tensors = small_tensors() | {"smooth.weight": np.repeat(normal(64, 4), 64, axis=1)}
    folder = write_folder(tmp_path / "model", tensors)
    sizes, values = {}, set()
    for level in ("off", "1", "9", "19"):
        crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int4", "--zstd", level)
        sizes[level] = (tmp_path / "m.crumb").stat().st_size
        crumb("verify", tmp_path / "m.crumb")
        crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "m.safetensors")
        values.add((tmp_path / "m.safetensors").read_bytes())
    assert len(values) == 1
    assert max(sizes["1"], sizes["9"], sizes["19"]) < sizes["off"]


# --- Odd checkpoints --------------------------------------------------------------------------------------------------


def test_a_checkpoint_without_tensors_is_refused(crumb, tmp_path):
    source = write_safetensors(tmp_path / "none.safetensors", {})
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int4", status=1)
    assert "no tensors" in done.stderr and not (tmp_path / "out.crumb").exists()


def test_a_checkpoint_with_nothing_to_quantize_and_with_empty_tensors(crumb, tmp_path):
    tensors = {"bias": normal(4), "empty.weight": np.zeros((0, 7), np.float32), "hollow.weight": np.zeros((3, 0, 2), np.float32)}
    source = write_safetensors(tmp_path / "in.safetensors", tensors)
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int4", "--json")
    assert json.loads(done.stdout)["bits_per_weight"] == 0
    crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int4")
    crumb("verify", tmp_path / "out.crumb")
    crumb("dequantize", tmp_path / "out.crumb", "-o", tmp_path / "back.safetensors")
    back = read_safetensors(tmp_path / "back.safetensors")
    assert {name: shape for name, (_, shape, _) in back.items()} == {n: list(t.shape) for n, t in tensors.items()}


def test_every_dtype_goes_through(crumb, tmp_path):
    rng = np.random.default_rng(3)
    tensors = {}
    for dtype, bits in BITS.items():
        raw = bytearray(rng.integers(0, 64, 8 * 16 * bits // 8, dtype=np.uint8).tobytes())
        tensors[f"{dtype}.weight"] = (dtype, [8, 16], bytes(raw))
        tensors[f"{dtype}.bias"] = (dtype, [16], bytes(raw[: 2 * bits]))
    source = write_safetensors(tmp_path / "in.safetensors", tensors)
    done = crumb("quantize", source, "-o", tmp_path / "out.crumb", "--weights", "int8", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["tensors"]}
    floating = {name for name in BITS if name.startswith(("F", "BF")) and name != "F8_E8M0"}
    for dtype in BITS:
        assert (rows[f"{dtype}.weight"]["spec"] is not None) == (dtype in floating)
        assert rows[f"{dtype}.bias"]["spec"] is None and rows[f"{dtype}.bias"]["dtype"] == dtype
    crumb("verify", tmp_path / "out.crumb")
    crumb("dequantize", tmp_path / "out.crumb", "-o", tmp_path / "back.safetensors")
    for name, (dtype, shape, raw) in read_safetensors(tmp_path / "back.safetensors").items():
        was = tensors[name]
        assert shape == was[1]
        if was[0] in floating | {"F8_E8M0"}:
            assert dtype == "F32"
        else:
            assert (dtype, raw) == (was[0], was[2])


def test_dequantize_gives_the_original_names_and_float32(crumb, folder, tmp_path):
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8")
    done = crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "back.safetensors")
    assert "10 tensors" in done.stdout
    back = read_safetensors(tmp_path / "back.safetensors")
    for name, tensor in small_tensors().items():
        dtype, shape, raw = back[name]
        tensor = np.asarray(tensor)
        assert shape == list(tensor.shape)
        if tensor.dtype == np.int64:
            assert dtype == "I64" and raw == tensor.tobytes()
        else:
            assert dtype == "F32"
            assert np.abs(np.frombuffer(raw, np.float32) - tensor.astype(np.float32).ravel()).max() < 0.03


def test_names_of_any_kind_survive(crumb, tmp_path):
    names = ["größe.重み", 'quo"te\\.weight', "new\nline.weight", "[t]", "x" * 5000, "-o", "--json", "a=b.weight"]
    source = write_safetensors(tmp_path / "in.safetensors", {name: normal(2, 4) for name in names})
    crumb("quantize", source, "-o", tmp_path / "m.crumb", "--weights", "int8", "--exclude", "[[]t[]]")
    rows = json.loads(crumb("inspect", tmp_path / "m.crumb", "--json").stdout)["tensors"]
    assert sorted(row["name"] for row in rows) == sorted(names)
    assert {row["name"] for row in rows if row["spec"] is None} == {"[t]"}
    crumb("inspect", tmp_path / "m.crumb", "--tensors")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "b.safetensors")
    assert set(read_safetensors(tmp_path / "b.safetensors")) == set(names)
