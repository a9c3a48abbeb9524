"""What crumb says beside its results: notes, hints for mistakes, names of strangers on a terminal."""

import json

import numpy as np
import pytest
from sample_checkpoints import normal, safetensors_bytes, write_folder, write_safetensors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("messages") / "model")


# --- Notes ------------------------------------------------------------------------------------------------------------


def test_json_repeats_every_note(crumb, tmp_path):
    folder = write_folder(tmp_path / "model")
    (folder / "README.md").write_text("about")
    (folder / "onnx").mkdir()
    for more in ([], ["--dry-run"]):
        done = crumb("quantize", folder, "-o", tmp_path / "o.crumb", "--weights", "int4", "--json", *more)
        report = json.loads(done.stdout)
        assert done.stderr == "".join(f"note: {note}\n" for note in report["notes"]) and len(report["notes"]) == 2
        assert "'README.md', 'onnx/'" in report["notes"][0] and "1 F64" in report["notes"][1]
        assert report["skipped"] == []
    done = crumb("quantize", folder, "-o", tmp_path / "o.crumb", "--target", "100MB", "--json", "--resume")
    notes = json.loads(done.stdout)["notes"]
    assert "target is left" in notes[-1] and "starting afresh" in done.stderr
    assert not any("afresh" in note for note in notes)  # a continued run reports as an undisturbed one does


def test_json_lists_what_was_left_out(crumb, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"model": {"a.weight": torch.randn(4, 8)}, "epoch": 3}, tmp_path / "m.pt")
    done = crumb("quantize", tmp_path / "m.pt", "-o", tmp_path / "o.crumb", "--weights", "int4", "--json")
    assert json.loads(done.stdout)["skipped"] == [{"name": "epoch", "what": "an integer"}]
    assert "left out 'epoch'" in done.stderr


# --- Names on a terminal ----------------------------------------------------------------------------------------------


def test_control_characters_in_names_do_not_reach_the_terminal(crumb, tmp_path):
    name = "a\x1b[31m\x07.weight\u009b2J"
    source = write_safetensors(tmp_path / "m.safetensors", {name: normal(4, 8), "b.weight": normal(4, 8)})
    other = write_safetensors(tmp_path / "n.safetensors", {"b.weight": normal(4, 8)})
    packed = tmp_path / "o.crumb"
    for arguments in (["quantize", source, "-o", packed, "--weights", "int4"],
                      ["quantize", source, "--dry-run", "--weights", "int4"], ["inspect", source, "--tensors"],
                      ["inspect", packed, "--tensors"], ["compare", source, packed]):  # fmt: skip
        text = crumb(*arguments).stdout
        assert "a\\x1b[31m\\x07.weight\\xc2\\x9b2J" in text
        assert all(c.isprintable() or c == "\n" for c in text), text
    said = crumb("compare", source, other, status=1).stderr
    assert "\\x1b" in said and "\x1b" not in said
    rows = json.loads(crumb("inspect", source, "--json").stdout)["tensors"]
    assert rows[0]["name"] == name


def test_what_cannot_be_compared_is_named(crumb, tmp_path):
    source = write_safetensors(tmp_path / "m.safetensors", {"a": normal(4, 8), "turns": normal(4).astype(np.complex64)})
    said = crumb("compare", source, source, status=1).stderr
    assert "'turns'" in said and "complex" in said, said


# --- Mistakes ---------------------------------------------------------------------------------------------------------


def test_hints_are_near_or_not_given(crumb, folder, tmp_path):
    packed = tmp_path / "p.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", "int4")
    said = crumb("verify", packed, "--colour", status=2).stderr
    assert "'--colour'" in said and "did you mean" not in said
    said = crumb("quantize", folder, "-o", packed, "--weights", "int4", "--exclude", "encodr.*", status=2).stderr
    assert "the part 'encodr'" in said and "'encoder'" in said and "optional" not in said
    for arguments in (["quantize", folder, "-o", packed, "--weights", "int4"], ["dequantize", packed, "-o", "x"],
                      ["embed", packed, "--text", "x", "-o", "y"]):  # fmt: skip
        for value in ("abc", "1025", "-1", "1.5", "2x"):
            said = crumb(*arguments, f"--threads={value}", status=2).stderr
            assert f"found '{value}'" in said and "expected a number from 0 to 1024" in said and "--threads" in said


def test_kept_reads_well(crumb, folder):
    text = crumb("quantize", folder, "--dry-run", "--weights", "keep", "--embeddings", "keep").stdout
    assert "kept: the recipe says weights: keep" in text and "kept: the recipe says embeddings: keep" in text


def test_text_that_is_not_utf8_is_refused_with_its_line(crumb, minilm, tmp_path):
    (tmp_path / "t.txt").write_bytes(b"one\r\ncaf\xc3\xa9\nbad \xff byte\nfour\n")
    said = crumb("embed", minilm, "--text", tmp_path / "t.txt", "-o", tmp_path / "o.npy", status=1).stderr
    assert "line 3" in said and "\\xff" in said and "UTF-8" in said and not (tmp_path / "o.npy").exists()


def test_no_input_of_embed_is_its_output(crumb, minilm, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("one line\n")
    said = crumb("embed", minilm, "--text", text, "-o", text, status=2).stderr
    assert "one of the inputs" in said and text.read_text() == "one line\n"


def test_float64_beyond_float32_is_called_so(crumb, tmp_path):
    for value, words in ((1e39, "beyond float32's range"), (np.inf, "inf"), (np.nan, "NaN")):
        weights = normal(4, 8, dtype=np.float64)
        weights[1, 3] = value
        source = write_safetensors(tmp_path / "m.safetensors", {"a.weight": weights})
        for options in (["--weights", "int4"], ["--target", "5bpw"]):
            said = crumb("quantize", source, "-o", tmp_path / "o.crumb", *options, status=1).stderr
            assert words in said and "'a.weight'" in said and "index 11" in said
    weights = normal(4, 8)
    weights[0, 0] = np.inf
    source = write_safetensors(tmp_path / "m.safetensors", {"a.weight": weights})
    said = crumb("quantize", source, "-o", tmp_path / "o.crumb", "--weights", "int4", status=1).stderr
    assert "(inf)" in said


@pytest.mark.parametrize("options", [["--weights", "int8"], ["--weights", "int8", "--zstd", "3"], ["--exclude", "*"]])
def test_damage_names_the_file(crumb, tmp_path, options):
    source = tmp_path / "m.safetensors"
    source.write_bytes(safetensors_bytes({"a.weight": normal(64, 512)}))
    options = ["--weights", "int8", *options] if options[0] == "--exclude" else options
    good, bad = tmp_path / "good.crumb", tmp_path / "bad.crumb"
    crumb("quantize", source, "-o", good, *options)
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 1
    bad.write_bytes(content)
    for arguments in (["compare", good, bad], ["compare", bad, good], ["dequantize", bad, "-o", tmp_path / "x"],
                      ["dequantize", bad, "-o", tmp_path / "y", "--shard", "1GB"]):  # fmt: skip
        said = crumb(*arguments, status=1).stderr
        assert "bad.crumb" in said and "good.crumb" not in said and "'a.weight'" in said


@pytest.mark.parametrize(("verb", "flag", "expected"), [
    (["quantize", "M", "-o", "x.crumb", "--weights", "int4"], "--tokens", "a whole number from 1 on"),
    (["quantize", "M", "-o", "x.crumb", "--weights", "int4", "--method", "auto"], "--trials", "a whole number from 1 to 7"),
    (["eval", "M", "--baseline", "M", "--data", "t"], "--context", "a whole number from 1 on"),
    (["eval", "M", "--baseline", "M", "--data", "t"], "--peak", "a number above 0"),
    (["perplexity", "M", "--text", "t"], "--context", "a whole number from 1 on"),
    (["perplexity", "M", "--text", "t"], "--tokens", "a whole number from 1 on"),
    (["recover", "M", "--data", "t", "-o", "x"], "--rank", "a whole number from 1 on"),
    (["recover", "M", "--data", "t", "-o", "x"], "--alpha", "a number above 0"),
    (["recover", "M", "--data", "t", "-o", "x"], "--rate", "a number above 0, at most 1000000"),
    (["recover", "M", "--data", "t", "-o", "x"], "--temperature", "a number above 0"),
    (["train", "lm"], "--rate", "a number above 0, at most 1000000"), (["train", "lm"], "--steps", "a whole number from 0 on"),
    (["train", "lm"], "--scale-rate", "a number above 0, at most 1000000"), (["train", "task", "digits"], "--epochs", "a whole number from 0 on"),
    (["merge", "M", "-o", "x"], "--batch", "a whole number from 1 to 1048576"), (["export", "M", "-o", "x", "--to", "hls4ml-project"], "--clock", "a number above 0"),
    (["sweep", "M", "--formats", "int4", "-o", "x"], "--peak", "a number above 0")])  # fmt: skip
def test_numbers_that_flags_cannot_take(crumb, folder, verb, flag, expected):
    """In few words, with what was found: no range of 309 digits."""
    for value in ["-1", "abc", "inf", "nan", "1e400", *(["1e38"] if "at most" in expected else []), *(["0"] if " 0 on" not in expected else []), *(["0.5", "8e0"] if "whole" in expected else [])]:
        said = crumb(*(folder if word == "M" else word for word in verb), f"{flag}={value}", status=2).stderr
        assert f"{flag}: expected {expected}, found '{value}'" in said and len(said) < 200


@pytest.mark.parametrize("flags,says", [
    (["--inputs", "int8"], "--inputs is for graphs (.onnx)"), (["--batch-norm", "keep"], "--batch-norm is for graphs (.onnx)"),
    (["--average-pools", "truncate"], "--average-pools is for graphs (.onnx)"), (["--tokens", 64], "give --data"), (["--device", "cuda"], "give --data"),
    (["--tensors-only", "--kv-cache", "int8"], "--tensors-only takes tensors alone")])  # fmt: skip
def test_flags_that_say_nothing_of_a_checkpoint_are_refused(crumb, folder, tmp_path, flags, says):
    said = crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--weights", "int8:channel", *flags, status=2).stderr
    assert says in said and not (tmp_path / "q.crumb").exists()


@pytest.mark.parametrize("ending", [".gguf", ".safetensors", ".onnx"])
def test_a_packed_file_has_no_other_files_name(crumb, folder, tmp_path, ending):
    said = crumb("quantize", folder, "-o", tmp_path / f"q{ending}", "--weights", "int8:channel", status=2).stderr
    assert f"a packed file is written, and a file that ends in {ending} comes from" in said
