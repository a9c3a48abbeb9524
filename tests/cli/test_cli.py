"""Every verb as a person meets it: help, exit codes, typos, where output goes, what --json holds."""

import json
import os
import re
import shlex
import statistics
import subprocess
import time

import numpy as np
import pytest
from sample_checkpoints import normal, small_tensors, write_folder, write_safetensors

JOBS = {
    "Quantize and export": "quantize sweep export convert dequantize passes",
    "Train and recover": "train recover merge",
    "Run": "run embed generate tokenize detokenize",
    "Measure and compare": "eval perplexity compare agree bench cost",
    "Inspect and check": "inspect verify lint",
    "Look up": "formats recipe doctor completion man",
}
VERBS = " ".join(JOBS.values()).split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("cli") / "model")


@pytest.fixture(scope="module")
def packed(crumb, folder):
    path = folder.parent / "model.crumb"
    crumb("quantize", folder, "-o", path, "--weights", "int4:group=64")
    return path


# --- Help and version -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(crumb, verb):
    done = crumb(verb, "--help")
    assert re.search(rf"Examples?:\n  crumb {verb} ", done.stdout)
    assert done.stderr == ""
    assert done.stdout == crumb("help", verb).stdout


def test_the_example_of_quantize_works(crumb, minilm, tmp_path):
    example = crumb("quantize", "--help").stdout.split("Example:\n  crumb ")[1].splitlines()[0]
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(minilm)
    crumb(*shlex.split(example), cwd=tmp_path)
    rows = json.loads(crumb("inspect", tmp_path / "minilm.crumb", "--json").stdout)["tensors"]
    assert sum(row["spec"] == "int8:channel" and row["name"].endswith(".value.weight") for row in rows) == 6


def test_help_lists_every_verb_by_job_and_version_is_one_line(crumb):
    _, *groups = re.split(r"^([A-Z][a-z ]+):\n", crumb("--help").stdout, flags=re.MULTILINE)
    found = {title: " ".join(re.findall(r"^  ([a-z]\w*) ", text, re.MULTILINE)) for title, text in zip(groups[::2], groups[1::2], strict=True)}
    found.pop("Options")
    assert found == JOBS
    assert crumb("--version").stdout.startswith("crumb ")
    assert crumb("--version").stdout.count("\n") == 1


def test_no_verb_is_wrong_usage(crumb):
    done = crumb(status=2)
    assert done.stdout == "" and "--help" in done.stderr


# --- Typos: exit code 2, the nearest valid name, nothing on stdout ----------------------------------------------------

TYPOS = [
    (["quantise", "x"], "'quantize'"),
    (["formts"], "'formats'"),
    (["--vesion"], "'--version'"),
    (["formats", "--valeus"], "'--values'"),
    (["quantize", "{in}", "-o", "{out}", "--weigths", "int4"], "'--weights'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--exlude=x"], "'--exclude'"),
    (["inspect", "{in}", "--tensor"], "'--tensors'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "imt4"], "'int4'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "mxfp5"], "'mxfp4'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4:grup=32"], "'group'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4:serach=mse"], "'search'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4:search=msee"], "'mse'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4:scale=f17"], "'f16'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--set", "*=int44"], "'int4'"),
    (["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--embeddings", "kep"], "did you mean"),
    (["quantize", "{in}", "-o", "{out}", "--scheme", "W4A61"], "'W4A16'"),
    (["quantize", "{in}", "-o", "{out}", "--scheme", "NVFP44"], "'NVFP4'"),
    (["formats", "int44"], "'int4'"),
    (["formats", "e4m3fnx", "--values"], "'e4m3fn'"),
]


@pytest.mark.parametrize(("arguments", "nearest"), TYPOS, ids=[" ".join(a) for a, _ in TYPOS])
def test_a_typo_gets_the_nearest_valid_name(crumb, folder, tmp_path, arguments, nearest):
    out = tmp_path / "out.crumb"
    done = crumb(*(a.replace("{in}", str(folder)).replace("{out}", str(out)) for a in arguments), status=2)
    assert nearest in done.stderr
    assert done.stdout == "" and not out.exists()


def test_a_bad_spec_names_its_flag(crumb, folder, tmp_path):
    for flag, value in (("--set", "stem.*=int44"), ("--weights", "int44"), ("--embeddings", "int44")):
        base = [] if flag == "--weights" else ["--weights", "int4"]
        done = crumb("quantize", folder, "-o", tmp_path / "o", *base, flag, value, status=2)
        assert done.stderr.startswith(f"crumb: {flag}") and "'int4'" in done.stderr and value in done.stderr


WRONG = [
    ["quantize"],
    ["quantize", "{in}"],
    ["quantize", "{in}", "-o"],
    ["quantize", "{in}", "-o", "{out}"],
    ["quantize", "{in}", "{in}", "-o", "{out}", "--weights", "int4"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--scheme", "W4A16"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--weights", "int8"],
    ["quantize", "{in}", "-o", "{out}", "--weights", ""],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4:group=0"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4:group=32:group=64"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "x" * 100000],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--set", "no-equals-sign"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--set", "=int4"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--set", "*="],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--threads", "-1"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--threads", "many"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--zstd", "0"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--zstd", "20"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--zstd", "-3"],
    ["quantize", "{in}", "-o", "{out}", "--weights", "int4", "--zstd", "on"],
    ["verify"],
    ["verify", "{in}", "{in}"],
    ["compare", "{in}"],
    ["formats", "--values"],
    ["formats", "W4A16"],
    ["embed", "{in}", "-o", "{out}"],
    ["tokenize", "{in}"],
    ["tokenize", "{in}", "--text", "x", "--ids", "--pieces"],
    ["detokenize", "{in}"],
    ["detokenize", "{in}", "--ids", "1", "--file", "x"],
    ["agree", "{in}"],
    ["eval", "{in}"],
    ["eval", "{in}", "--baseline", "{in}"],
    ["eval", "{in}", "--baseline", "{in}", "--data", "x.npy", "--task", "classfy"],
    ["inspect", "{in}", "-j"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=[" ".join(a)[:80] for a in WRONG])
def test_wrong_usage_is_exit_code_2_and_one_message(crumb, folder, tmp_path, arguments):
    out = tmp_path / "out.crumb"
    done = crumb(*(a.replace("{in}", str(folder)).replace("{out}", str(out)) for a in arguments), status=2)
    assert done.stderr.startswith("crumb: ") and len(done.stderr) < 3000
    assert done.stdout == "" and not out.exists()


@pytest.mark.parametrize("scheme", ["W8A8", "W4A8", "w8a8"])
def test_schemes_with_activations_are_refused_for_checkpoints(crumb, folder, tmp_path, scheme):
    done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--scheme", scheme, status=2)
    assert "of a network" in done.stderr and "activations: " in done.stderr and "model_type" in done.stderr


# --- Verbs on things that they are not for ----------------------------------------------------------------------------


def wrong_kinds(folder, packed, tmp_path):
    single, array, text, nothing = (folder / "model.safetensors", tmp_path / "a.npy", tmp_path / "t.txt", tmp_path / "no")
    np.save(array, normal(3, 4))
    text.write_text("one line\n")
    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    (tmp_path / "zero.crumb").write_bytes(b"")
    pickle = tmp_path / "model.pt"
    pickle.write_bytes(b"\x80\x02}q\x00.")
    yield ["dequantize", tmp_path / "empty", "-o", out], ["empty"]
    yield ["dequantize", single, "-o", out], ["safetensors", ".crumb"]
    yield ["dequantize", nothing, "-o", out], ["no"]
    yield ["verify", folder], ["folder"]
    yield ["verify", single], ["packed file"]
    yield ["verify", array], ["packed file"]
    yield ["verify", nothing], ["No such file"]
    yield ["verify", tmp_path / "zero.crumb"], ["packed file"]
    yield ["inspect", text], ["expected"]
    yield ["inspect", tmp_path / "empty"], ["nothing"]
    yield ["inspect", pickle], ["pickle"]
    yield ["inspect", "/dev/null"], ["regular file"]
    yield ["quantize", packed, "-o", out, "--weights", "int4"], ["already quantized", "packed file"]
    yield ["quantize", nothing, "-o", out, "--weights", "int4"], ["No such file"]
    yield ["quantize", pickle, "-o", out, "--weights", "int4"], ["a Python pickle"]
    yield ["compare", folder, array], ["do not hold the same tensors"]
    yield ["embed", single, "--text", text, "-o", out], ["model.safetensors"]
    yield ["embed", packed, "--text", text, "-o", out], ["model_type"]
    yield ["embed", folder, "--text", nothing, "-o", out], ["No such file"]
    yield ["embed", folder, "--text", folder, "-o", out], ["folder"]
    yield ["eval", folder, "--baseline", folder, "--data", nothing], ["no"]
    yield ["eval", packed, "--baseline", packed, "--data", text], ["model_type"]
    yield ["eval", pickle, "--baseline", pickle, "--data", text], ["model.pt"]
    yield ["eval", "/dev/null", "--baseline", folder, "--data", array], ["model_type"]
    yield ["tokenize", folder, "--text", text], ["tokenizer.json"]
    yield ["tokenize", packed, "--text", text], ["tokenizer.json"]
    yield ["detokenize", nothing, "--ids", "1"], ["No such file"]
    yield ["agree", array, folder], ["folder"]
    yield ["agree", array, text], ["t.txt"]


def test_verbs_on_wrong_kinds_of_files_say_what_they_found(crumb, folder, packed, tmp_path):
    for arguments, words in wrong_kinds(folder, packed, tmp_path):
        done = crumb(*arguments, status=1)
        assert done.stderr.startswith("crumb: ") and all(word in done.stderr for word in words), (arguments, done.stderr)
        assert done.stdout == ""
        assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


def test_a_file_may_be_called_like_a_verb(crumb, folder, tmp_path):
    (tmp_path / "formats").symlink_to(folder)
    assert "folder" in crumb("inspect", "formats", cwd=tmp_path).stdout
    crumb("verify", "verify", cwd=tmp_path, status=1)


# --- What the verbs print ---------------------------------------------------------------------------------------------


def sums(tensors):
    """What inspect says of tensors that are stored alike."""
    found = {}
    for row in tensors:
        of = found.setdefault(row["stored_as"], {"tensors": 0, "weights": 0, "bytes": 0})
        of["tensors"] += 1
        of["weights"] += int(np.prod(row["shape"]))
        of["bytes"] += row["bytes"]
    return [{"stored_as": kind, **of, "bits_per_weight": 8 * of["bytes"] / of["weights"] if of["weights"] else 0}
            for kind, of in sorted(found.items())]  # fmt: skip


def test_inspect_tells_kind_size_and_tensors(crumb, folder, packed):
    found = json.loads(crumb("inspect", folder, "--json").stdout)
    assert list(found) == ["kind", "bytes", "stored", "bits_per_weight", "tensors"]
    assert found["kind"] == "folder" and found["bytes"] == (folder / "model.safetensors").stat().st_size
    assert [row["name"] for row in found["tensors"]] == sorted(small_tensors())
    for row in found["tensors"]:
        assert list(row) == ["name", "shape", "dtype", "spec", "stored_as", "bytes"]
        assert row["spec"] is None and row["stored_as"] == row["dtype"]
        array = np.asarray(small_tensors()[row["name"]])
        assert row["shape"] == list(array.shape) and row["bytes"] == array.nbytes

    single = json.loads(crumb("inspect", folder / "model.safetensors", "--json").stdout)
    assert single["kind"] == "safetensors" and single["tensors"] == found["tensors"]
    assert single["stored"] == found["stored"] == sums(found["tensors"])

    found = json.loads(crumb("inspect", packed, "--json").stdout)
    assert found["kind"] == "crumb" and found["bytes"] == packed.stat().st_size
    rows = {row["name"]: row for row in found["tensors"]}
    assert rows["encoder.layer.0.key.weight"]["spec"] == "int4:group=64"
    assert rows["encoder.layer.0.key.weight"]["bytes"] == 64 * (64 + 2 * 2)
    assert rows["encoder.layer.1.query.weight"]["dtype"] == "F16"
    assert rows["embeddings.position_ids"]["spec"] is None
    assert found["stored"] == sums(found["tensors"])
    assert next(row for row in found["stored"] if row["stored_as"] == "int4:group=64")["bits_per_weight"] == 4.25

    text = crumb("inspect", packed, "--tensors").stdout
    assert "TestModel" in text and "vocab.txt" in text and "encoder.layer.0.key.weight" in text
    text = crumb("inspect", packed).stdout
    assert "encoder.layer.0.key.weight" not in text
    total = [row for row in text.split("\n") if row.startswith("all ")]
    weights = sum(row["weights"] for row in found["stored"])
    assert total[0].split()[1:] == [str(len(rows)), str(weights), str(sum(row["bytes"] for row in found["stored"])),
                                    f"{found['bits_per_weight']:.3f}"]  # fmt: skip


def test_verify_says_that_a_file_is_sound(crumb, packed):
    done = crumb("verify", packed)
    assert "sound" in done.stdout and done.stderr == ""


def test_compare_lists_the_worst_first(crumb, folder, packed, tmp_path):
    rows = json.loads(crumb("compare", folder, packed, "--json").stdout)["tensors"]
    assert len(rows) == len(small_tensors())
    for row in rows:
        assert list(row) == ["name", "sqnr_db", "max_abs_error", "mean_abs_error", "exact_fraction"]
    finite = [row["sqnr_db"] for row in rows if row["sqnr_db"] is not None]
    assert len(finite) == 6 and finite == sorted(finite)
    assert all(row["sqnr_db"] is None for row in rows[6:])
    crumb("dequantize", packed, "-o", tmp_path / "back.safetensors")
    assert rows == json.loads(crumb("compare", folder, tmp_path / "back.safetensors", "--json").stdout)["tensors"]
    same = json.loads(crumb("compare", packed, packed, "--json").stdout)["tensors"]
    assert all(row["sqnr_db"] is None and row["exact_fraction"] == 1 for row in same)
    assert rows[0]["name"] in crumb("compare", folder, packed).stdout.splitlines()[1]


def test_compare_refuses_what_cannot_be_compared(crumb, tmp_path):
    a = write_safetensors(tmp_path / "a.safetensors", {"w": normal(2, 3), "x": normal(4)})
    b = write_safetensors(tmp_path / "b.safetensors", {"w": normal(3, 2), "x": normal(4)})
    c = write_safetensors(tmp_path / "c.safetensors", {"w": normal(2, 3), "y": normal(4)})
    done = crumb("compare", a, b, status=1)
    assert "'w'" in done.stderr and "[2, 3]" in done.stderr and "[3, 2]" in done.stderr
    done = crumb("compare", a, c, status=1)
    assert "lacks x" in done.stderr and "lacks y" in done.stderr
    many = write_safetensors(tmp_path / "many.safetensors", {f"t{i:03}": normal(1) for i in range(100)})
    done = crumb("compare", many, c, status=1)
    assert done.stderr.count("lacks") == 20 and "and 82 more" in done.stderr


def test_compare_tells_no_signal_and_nan_from_no_loss(crumb, tmp_path):
    a = {"silent": np.zeros((2, 2), np.float32), "good": normal(4), "broken": normal(4)}
    b = {"silent": normal(2, 2), "good": normal(4), "broken": np.float32([1, np.nan, 2, 3])}
    paths = [write_safetensors(tmp_path / name, t) for name, t in (("a.safetensors", a), ("b.safetensors", b))]
    rows = json.loads(crumb("compare", *paths, "--json").stdout)["tensors"]
    found = {row["name"]: row["sqnr_db"] for row in rows}
    assert found["good"] is None and found["silent"] == "-inf" and found["broken"] in ("nan", "-inf")
    assert rows[-1]["name"] == "good"


def test_agree_prints_cosines_and_rank_correlation(crumb, tmp_path):
    a, b = normal(6, 5), normal(6, 5) + 0.1 * normal(6, 5, seed=1)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b.astype(np.float32))
    found = json.loads(crumb("agree", tmp_path / "a.npy", tmp_path / "b.npy", "--json").stdout)
    assert list(found) == ["mean_cosine", "least_cosine", "spearman"]
    unit = [m / np.linalg.norm(m, axis=1, keepdims=True) for m in (a.astype(float), b.astype(float))]
    cosines = (unit[0] * unit[1]).sum(axis=1)
    assert found["mean_cosine"] == pytest.approx(cosines.mean(), abs=1e-6)
    assert found["least_cosine"] == pytest.approx(cosines.min(), abs=1e-6)
    ranks = [np.argsort(np.argsort((m @ m.T)[np.triu_indices(6, 1)])) for m in unit]
    assert found["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-6)
    text = crumb("agree", tmp_path / "a.npy", tmp_path / "b.npy").stdout
    assert all(word in text for word in ("mean cosine", "least cosine", "spearman"))

    np.save(tmp_path / "c.npy", normal(6, 4))
    done = crumb("agree", tmp_path / "a.npy", tmp_path / "c.npy", status=1)
    assert "[6, 5]" in done.stderr and "[6, 4]" in done.stderr
    np.save(tmp_path / "flat.npy", normal(6))
    assert "[6]" in crumb("agree", tmp_path / "flat.npy", tmp_path / "flat.npy", status=1).stderr


def test_formats_lists_and_spells_out(crumb):
    everything = crumb("formats").stdout
    listed = json.loads(crumb("formats", "--json").stdout)
    for entry in listed["formats"] + listed["block_formats"]:
        assert entry["name"] in everything
    assert {"mxfp4", "nvfp4"} <= {entry["name"] for entry in listed["block_formats"]}
    assert "W4A16" in everything and "W8A8" in everything
    for entry in listed["formats"]:
        one = json.loads(crumb("formats", entry["name"], "--values", "--json").stdout)
        assert list(one) == ["name", "bits", "codes"]
        assert one["name"] == entry["name"] and one["bits"] == entry["bits"]
    e5m2 = json.loads(crumb("formats", "e5m2", "--values", "--json").stdout)["codes"]
    assert len(e5m2) == 256 and all(list(row) == ["code", "value"] for row in e5m2)
    assert e5m2[0x7C]["value"] == "inf" and e5m2[0xFC]["value"] == "-inf" and e5m2[0x7D]["value"] == "nan"
    int4 = json.loads(crumb("formats", "int4", "--values", "--json").stdout)["codes"]
    assert [row["value"] for row in int4] == list(range(-7, 8))
    half = json.loads(crumb("formats", "int2h", "--values", "--json").stdout)["codes"]
    assert [row["value"] for row in half] == [-1.5, -0.5, 0.5, 1.5]


# --- Streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["formats"], ["formats", "--json"], ["--help"], ["--version"]])
def test_output_that_cannot_be_written_is_a_failure(crumb_bin, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([crumb_bin, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output" in done.stderr


def test_a_reader_that_goes_away_ends_it_quietly(crumb_bin):
    for _ in range(5):
        done = subprocess.run(["bash", "-c", f"'{crumb_bin}' formats --json | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"],
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode in (0, 1, 128 + 13)
        assert done.stderr in ("", "crumb: cannot write to standard output\n")


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_do_not_get_into_the_output(crumb, crumb_bin, folder, tmp_path, closed):
    crumb("quantize", folder, "-o", tmp_path / "good.crumb", "--weights", "int8")
    command = f"'{crumb_bin}' quantize '{folder}' -o '{tmp_path}/out.crumb' --weights int8 {closed}"
    done = subprocess.run(["bash", "-c", command])
    assert done.returncode == (1 if "1>&-" in closed else 0)
    assert (tmp_path / "out.crumb").read_bytes() == (tmp_path / "good.crumb").read_bytes()


# --- Start-up ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["formats"], ["--version"], ["quantize", "--help"]])
def test_starting_takes_less_than_30_ms(crumb_bin, arguments):
    def seconds():
        start = time.perf_counter()
        pid = os.posix_spawn(crumb_bin, [str(crumb_bin), *arguments], os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])  # fmt: skip
        assert os.waitpid(pid, 0)[1] == 0
        return time.perf_counter() - start

    medians = []
    for _ in range(8):  # a busy machine gets further chances
        medians.append(statistics.median(seconds() for _ in range(9)))
        if medians[-1] < 0.03:
            return
        time.sleep(0.5)
    pytest.fail(f"medians of {medians}")
