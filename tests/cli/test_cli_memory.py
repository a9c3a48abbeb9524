"""What a run will take is known before it begins, to the byte, and memory stays below what was said."""

import json
import os
import resource
import re
import shutil
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from sample_checkpoints import NAMES, normal, small_tensors, write_folder, write_safetensors

MB = 1_000_000
DATA = ("seconds", "peak_rss_bytes", "dry_run", "upper_bound", "output", "tensors")


# Starts a command and gives its exit code and its peak. The system counts as a process's peak also what the process
# that forked it held; this one holds little.
LAUNCHER = """
import os, resource, sys
limit = int(sys.argv[1])
child = os.fork()
if child == 0:
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
sys.stderr.write("\\n%d %d" % (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024))
"""


def measured(crumb_bin, *arguments, limit_data=0):
    """Runs crumb: its exit code, what it printed, and its peak of resident memory as the system counted it."""
    command = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(limit_data), crumb_bin, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    err, figures = done.stderr.rsplit("\n", 1)
    code, peak = map(int, figures.split())
    return code, done.stdout, err, peak


def both(crumb_bin, source, out, *options):
    """The reports of a dry and of a real run, and the system's figure."""
    code, text, err, _ = measured(crumb_bin, "quantize", source, "-o", out, *options, "--dry-run", "--json")
    assert code == 0, err
    assert not out.exists()
    foreseen = json.loads(text)
    code, text, err, peak = measured(crumb_bin, "quantize", source, "-o", out, *options, "--json")
    assert code == 0, err
    done = json.loads(text)
    assert abs(done["peak_rss_bytes"] - peak) < 8 * MB  # what it says of itself is so
    assert peak <= foreseen["peak_rss_bytes"], (peak / MB, foreseen["peak_rss_bytes"] / MB)
    assert done["output_bytes"] == out.stat().st_size
    out.unlink()
    return foreseen, done, peak


def compare_reports(foreseen, done, exact):
    assert list(foreseen) == list(done)
    assert foreseen["dry_run"] is True and done["dry_run"] is False
    assert foreseen["upper_bound"] is not exact
    assert foreseen["seconds"] is None and done["seconds"] > 0
    for key in set(foreseen) - set(DATA) - {"output_bytes"}:
        assert foreseen[key] == done[key], key
    assert foreseen["output_bytes"] == done["output_bytes"] if exact else foreseen["output_bytes"] >= done["output_bytes"]
    assert len(foreseen["tensors"]) == len(done["tensors"])
    for a, b in zip(foreseen["tensors"], done["tensors"], strict=True):
        assert list(a) == [key for key in b if key != "saturated_scales"]
        assert {k: a[k] for k in ("name", "shape", "dtype", "spec", "kept_because")} == {
            k: b[k] for k in ("name", "shape", "dtype", "spec", "kept_because")}  # fmt: skip
        assert a["sqnr_db"] is None and a["max_abs_error"] is None
        assert a["bytes"] == b["bytes"] if exact else a["bytes"] >= b["bytes"]


# --- Dry run ----------------------------------------------------------------------------------------------------------


def recipes(crumb_bin):
    """The names that `crumb recipe` lists, but for those that are for graphs."""
    lines = subprocess.run([crumb_bin, "recipe"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in lines[1:] if "for graphs" not in line]


def test_dry_run_bytes_are_those_of_every_recipe_on_minilm(crumb_bin, short_minilm, tmp_path):
    names = recipes(crumb_bin)
    assert len(names) >= 8
    for name in names:
        how = ["--scheme", name]
        text = subprocess.run([crumb_bin, "recipe", name], capture_output=True, text=True, check=True).stdout
        if re.search("^weights: .*group=256", text, re.MULTILINE):  # MiniLM has rows of 384 numbers
            how = ["--recipe", tmp_path / "padded.yaml"]
            how[1].write_text(text.replace("group=256", "group=256:pad"))
        foreseen, done, _ = both(crumb_bin, short_minilm, tmp_path / "o.crumb", *how)
        compare_reports(foreseen, done, exact=True)


@pytest.mark.parametrize("zstd", [1, 19])
def test_with_zstd_a_dry_run_gives_an_upper_bound_and_says_so(crumb, crumb_bin, tmp_path, zstd):
    source = write_folder(tmp_path / "m")
    foreseen, done, _ = both(crumb_bin, source, tmp_path / "o.crumb", "--scheme", "W4A16", "--zstd", zstd)
    compare_reports(foreseen, done, exact=False)
    text = crumb("quantize", source, "--dry-run", "--scheme", "W4A16", "--zstd", zstd).stdout
    assert "at most" in text and "zstd" in text


@pytest.mark.parametrize("spec", ["int4:group=16:pad", "uint3:channel:zero=int", "palette4", "nvfp4:pad", "binary:tensor",
                                  "uint5:block=3x7:pad:zero=float", "mxfp6_e2m3:pad"])  # fmt: skip
def test_dry_run_bytes_of_odd_tensors(crumb_bin, tmp_path, spec):
    tensors = {f"t{i}.weight": normal(*shape) for i, shape in enumerate([(1, 1), (7, 33), (3, 5, 7), (0, 4), (129, 64)])}
    source = write_folder(tmp_path / "m", tensors | small_tensors())
    compare_reports(*both(crumb_bin, source, tmp_path / "o.crumb", "--weights", spec)[:2], exact=True)


def test_a_dry_run_reads_headers_only_and_writes_nothing(crumb, tmp_path):
    """Of a file whose tensors are a hole of 40 GB, and beside an output that stays."""
    size = 100_000 * 100_000 * 4
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if most != resource.RLIM_INFINITY and most < 2 * size:
        pytest.skip(f"files may have {most} bytes here (ulimit -f)")
    header = json.dumps({"w.weight": {"dtype": "F32", "shape": [100_000, 100_000], "data_offsets": [0, size]}}).encode()
    with open(tmp_path / "huge.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    (tmp_path / "o.crumb").write_bytes(b"old")
    names = sorted(os.listdir(tmp_path))
    start = time.monotonic()
    done = crumb("quantize", tmp_path / "huge.safetensors", "-o", tmp_path / "o.crumb", "--weights", "int4:group=100",
                 "--dry-run", "--memory", "500MB")  # fmt: skip
    assert time.monotonic() - start < 5
    assert "dry run" in done.stdout and "w.weight" in done.stdout and "int4:group=100" in done.stdout
    assert sorted(os.listdir(tmp_path)) == names and (tmp_path / "o.crumb").read_bytes() == b"old"
    # It needs no output's name; what would be refused is refused.
    crumb("quantize", tmp_path / "huge.safetensors", "--weights", "int4", "--dry-run")
    crumb("quantize", tmp_path / "huge.safetensors", "--weights", "int4:group=77", "--dry-run", status=1)
    crumb("quantize", tmp_path / "huge.safetensors", "-o", tmp_path / "huge.safetensors", "--weights", "int4",
          "--dry-run", status=2)  # fmt: skip


def test_too_many_small_tensors_are_refused_before_any_work(crumb, tmp_path):
    source = write_safetensors(tmp_path / "m.safetensors", {f"layer.{i}.weight": normal(1, 4) for i in range(25000)})
    for options in (["--dry-run"], ["-o", tmp_path / "o.crumb"]):
        done = crumb("quantize", source, "--weights", "int8", *options, status=1)
        assert "too many small tensors" in done.stderr and "25000" not in done.stdout
        assert os.listdir(tmp_path) == ["m.safetensors"]


# --- Memory -----------------------------------------------------------------------------------------------------------


def write_huge(path, tensors, block=1 << 20):
    """A safetensors file of {name: (dtype, shape)}, its values one random block over and over."""
    bits = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1}
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = int(np.prod(shape)) * bits[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    values = normal(block)
    blocks = {"F64": values.astype(np.float64).tobytes(), "F32": values.tobytes(),
              "F16": values.astype(np.float16).tobytes(), "BF16": (values.view(np.uint32) >> 16).astype(np.uint16).tobytes(),
              "F8_E4M3": np.random.default_rng(1).integers(0, 0x60, block, np.uint8).tobytes()}  # fmt: skip
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for dtype, shape in tensors.values():
            left = int(np.prod(shape)) * bits[dtype]
            while left > 0:
                left -= file.write(blocks[dtype][:left])
    return path


def one_huge(dtype):
    return lambda path: write_huge(path / "m.safetensors", {"w.weight": (dtype, (2048, 12288))})


def thousands(path):
    return write_huge(path / "m.safetensors", {f"layer.{i}.weight": ("F32", (8, 64)) for i in range(9000)})


def one_row(path):
    return write_huge(path / "m.safetensors", {"w.weight": ("F32", (1, 20_000_000)), "v.weight": ("BF16", (10, 2_000_000))})


def deflated_npz(path):
    array = (np.arange(4096 * 4096, dtype=np.float32) % 1000).reshape(4096, 4096)
    with zipfile.ZipFile(path / "m.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name in ("a.weight.npy", "b.weight.npy"):
            with file.open(name, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array)
    return path / "m.npz"


def transposed_pt(path):
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4096 * 4096, dtype=torch.float32).reshape(4096, 4096) % 1000
    torch.save({"a.weight": tensor.T, "b.weight": tensor[:, :100], "c.weight": tensor.half().T}, path / "m.pt")
    return path / "m.pt"


def mixed(path):
    tensors = {f"layer.{i}.weight": (["F32", "BF16", "F16", "F8_E4M3"][i % 4], (1024, 2048 + 64 * i)) for i in range(20)}
    return write_huge(path / "m.safetensors", tensors | {"embed.weight": ("BF16", (50_000, 768)), "norm.weight": ("F32", (9,))})


SOURCES = {"huge f32": one_huge("F32"), "huge bf16": one_huge("BF16"), "huge f16": one_huge("F16"), "huge f8":
           one_huge("F8_E4M3"), "huge f64": one_huge("F64"), "thousands": thousands, "one row": one_row,
           "npz": deflated_npz, "pt": transposed_pt, "mixed": mixed}  # fmt: skip
SPECS = {
    "int4": ["--weights", "int4:group=128:pad"],
    "tensor": ["--weights", "uint8:tensor:zero=int", "--embeddings", "int8:channel"],
    "palette": ["--weights", "palette4:group=64:pad"],
    "zstd": ["--weights", "int8", "--zstd", "3"],
    "kept": ["--weights", "int8", "--exclude", "*", "--zstd", "1"],
    "small groups": ["--weights", "uint4:group=16:pad:zero=float:scale=f32"],
    "nvfp4": ["--weights", "nvfp4:pad"],
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Makes each source once; the last one is removed for the next."""
    made = {}

    def source(name):
        if name not in made:
            for folder, _ in made.values():
                shutil.rmtree(folder)
            made.clear()
            folder = tmp_path_factory.mktemp("memory")
            made[name] = folder, SOURCES[name](folder)
        return made[name][1]

    yield source
    for folder, _ in made.values():
        shutil.rmtree(folder)


def largest_tensor(report):
    sizes = {name: 1 for name in NAMES.values()} | {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1}
    return max(int(np.prod(row["shape"])) * sizes[row["dtype"]] for row in report["tensors"])


OFTEN = {"huge bf16", "thousands", "npz"}  # a large tensor, many, and one that must be unpacked


@pytest.mark.parametrize("name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in SOURCES])
def test_memory_stays_below_what_was_said_and_below_the_limit(crumb_bin, sources, tmp_path, name):
    source = sources(name)
    out = tmp_path / "o.crumb"
    for spec, options in SPECS.items():
        foreseen, done, peak = both(crumb_bin, source, out, *options)
        compare_reports(foreseen, done, exact="--zstd" not in options)
        most = 2 * largest_tensor(done) + 200 * MB
        assert peak < most, (spec, peak / MB, most / MB)
        assert foreseen["peak_rss_bytes"] <= most, (spec, foreseen["peak_rss_bytes"] / MB)
        check_least(crumb_bin, source, out, spec, options)


def check_least(crumb_bin, source, out, spec, options):
    """A figure below the floor names the least; with exactly that it works."""
    code, text, err, _ = measured(crumb_bin, "quantize", source, "-o", out, *options, "--memory", "1MB")
    assert code == 2 and text == "" and not out.exists(), spec
    least = re.search(r"the least is (\d+) MB", err)
    assert least, err
    code, text, err, peak = measured(crumb_bin, "quantize", source, "-o", out, *options, "--memory", f"{least[1]}MB", "--json")
    assert code == 0, (spec, err)
    assert peak <= int(least[1]) * MB, (spec, peak / MB, least[1])
    out.unlink()
    code, _, err, _ = measured(crumb_bin, "quantize", source, "-o", out, *options, "--memory", f"{int(least[1]) - 10}MB")
    assert code == 2 and "least" in err


@pytest.mark.slow
def test_slices_never_change_the_file(crumb_bin, tmp_path, sources):
    source = sources("mixed")
    for spec in ("int4", "tensor", "palette", "zstd"):
        contents = set()
        for memory in ([], ["--memory", "150MB"], ["--memory", "2GB", "--threads", "1"]):
            code, _, err, _ = measured(crumb_bin, "quantize", source, "-o", tmp_path / "o.crumb", *SPECS[spec], *memory)
            if code == 2 and "the least is" in err:
                continue
            assert code == 0, err
            contents.add((tmp_path / "o.crumb").read_bytes())
        assert len(contents) == 1


@pytest.mark.parametrize("figure", ["0", "-5", "many", "1XB", ""])
def test_memory_that_is_no_size_is_refused(crumb, tmp_path, figure):
    source = write_safetensors(tmp_path / "m.safetensors", {"w.weight": normal(8, 8)})
    done = crumb("quantize", source, "-o", tmp_path / "o.crumb", "--weights", "int8", f"--memory={figure}", status=2)
    assert "--memory" in done.stderr or "the least is" in done.stderr


def test_eval_holds_one_file_of_samples(crumb_bin, tmp_path):
    """Eight files, and 160 MB of samples, take little more than one of them."""
    import onnx
    from onnx import helper as h

    wide, narrow = (h.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 5000), ("y", 10)))
    weights = onnx.numpy_helper.from_array(normal(5000, 10), "w")
    graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"])], "graph", [wide], [narrow], [weights])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    peaks = []
    for count in (1, 8):
        folder = tmp_path / f"{count}"
        folder.mkdir()
        for i in range(count):
            np.save(folder / f"x{i}.npy", normal(1000, 5000, seed=i))
        np.save(tmp_path / "y.npy", np.arange(1000 * count) % 10)
        code, text, err, peak = measured(crumb_bin, "eval", tmp_path / "m.onnx", "--baseline", tmp_path / "m.onnx", "--data", folder,
                                         "--labels", tmp_path / "y.npy", "--json", "--engine", "runtime")  # fmt: skip
        assert code == 0 and json.loads(text)["samples"] == 1000 * count, err
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 10 * MB, peaks


# --- A checkpoint that is larger than memory may be -------------------------------------------------------------------


def read_once(paths):
    """Seconds that reading these files takes, through one buffer."""
    buffer = bytearray(8 << 20)
    start = time.monotonic()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.monotonic() - start


@pytest.mark.slow
def test_eight_gigabytes_in_five_hundred_megabytes(crumb_bin, tmp_path):
    if shutil.disk_usage(tmp_path).free < 20e9:
        pytest.skip("less than 20 GB of free disk")
    folder = tmp_path / "model"
    folder.mkdir()
    shards, placed = [], {}
    for i in range(4):
        tensors = {f"layer.{i}.{k}.weight": ("F32", (4096, 4096 + 512 * (k % 3))) for k in range(27 if i else 13)}
        if i == 0:
            tensors["embed.weight"] = ("F32", (65536, 4096))  # 1 GiB
        tensors |= {f"layer.{i}.{k}.norm.weight": ("F32", (4096,)) for k in range(20)}
        file = f"model-{i + 1:05}-of-00004.safetensors"
        shards.append(write_huge(folder / file, tensors, block=(1 << 22) + 12345))
        placed |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    size = sum(path.stat().st_size for path in shards)
    assert size >= 8e9
    os.sync()  # else the system is still writing the input when the output's turn comes
    out = tmp_path / "o.crumb"
    ratios = []
    for _ in range(3):
        read_once(shards)  # warm
        buffered = read_once(shards)
        start = time.monotonic()
        subprocess.run(["cat", *shards], stdout=subprocess.DEVNULL, check=True)
        reading = time.monotonic() - start
        start = time.monotonic()
        code, text, err, peak = measured(crumb_bin, "quantize", folder, "-o", out, "--weights", "int4:group=128",
                                         "--memory", "500MB", "--json", limit_data=1 << 30)  # fmt: skip
        seconds = time.monotonic() - start
        assert code == 0, err
        assert peak < 500 * MB
        print(f"{size / 1e9:.2f} GB: read by cat in {reading:.2f} s, into one buffer in {buffered:.2f} s, "
              f"quantized in {seconds:.2f} s, {seconds / reading:.2f} times cat; peak {peak / MB:.0f} MB")  # fmt: skip
        ratios.append(seconds / reading)
        out.unlink()
    assert min(ratios) <= 4


def write_llama(folder, layers, width=4096, inner=11008, heads=32, kv_heads=8, vocabulary=32000):
    """A folder of a Llama's shapes in BF16, a shard for each six layers, with a tokenizer of bytes."""
    shapes, kv = {}, width // heads * kv_heads
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, shape in (("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (kv, width)), ("self_attn.v_proj", (kv, width)),
                            ("self_attn.o_proj", (width, width)), ("mlp.gate_proj", (inner, width)), ("mlp.up_proj", (inner, width)),
                            ("mlp.down_proj", (width, inner)), ("input_layernorm", (width,)), ("post_attention_layernorm", (width,))):  # fmt: skip
            shapes[f"{at}{name}.weight"] = ("BF16", shape)
    ends = {"model.embed_tokens.weight": ("BF16", (vocabulary, width)), "lm_head.weight": ("BF16", (vocabulary, width)),
            "model.norm.weight": ("BF16", (width,))}  # fmt: skip
    names, shards, placed = list(shapes), [], {}
    for begin in range(0, len(names), 54):
        part = {name: shapes[name] for name in names[begin : begin + 54]} | (ends if begin == 0 else {})
        shards.append(write_huge(folder / f"model-{begin // 54:05}.safetensors", part, block=(1 << 22) + 12345))
        placed |= dict.fromkeys(part, shards[-1].name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
        "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 31999}))  # fmt: skip
    shown = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256))]
    shown += [chr(256 + n) for n in range(256 - len(shown))]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": {c: i for i, c in enumerate(shown)}, "merges": []}}))  # fmt: skip
    return shards


@pytest.mark.slow
def test_a_language_model_of_eight_gigabytes(crumb_bin, tmp_path):
    """It is quantized within the memory that holds for any checkpoint, and answers within its file, its cache and 100 MB."""
    if shutil.disk_usage(tmp_path).free < 20e9:
        pytest.skip("less than 20 GB of free disk")
    folder, packed = tmp_path / "model", tmp_path / "q.crumb"
    folder.mkdir()
    shards = write_llama(folder, 23)
    size = sum(path.stat().st_size for path in shards)
    assert size >= 8e9
    code, text, err, peak = measured(crumb_bin, "quantize", folder, "-o", packed, "--weights", "int4:group=32", "--json")
    assert code == 0, err
    report = json.loads(text)
    assert peak < 2 * largest_tensor(report) + 200 * MB
    least = packed.stat().st_size
    assert least >= 2e9
    code, text, err, spent = measured(crumb_bin, "generate", packed, "--prompt", "abcd", "--tokens", 3, "--json")
    assert code == 0, err
    answer = json.loads(text)
    print(f"{size / 1e9:.2f} GB: quantized in {report['seconds']:.0f} s with {peak / MB:.0f} MB; {least / MB:.0f} MB packed, "
          f"{spent / MB:.0f} MB of memory with {answer['cache_bytes'] / MB:.1f} MB of cache, {answer['tokens_per_second']:.2f} tokens a second")  # fmt: skip
    assert spent < least + answer["cache_bytes"] + 100 * MB
