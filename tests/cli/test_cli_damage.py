"""Damaged files through the command: exit code 1 and a message, never a signal, and memory within the file's size + 64 MB."""

import json
import random
import resource
import struct
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zstandard
from sample_checkpoints import normal, safetensors_bytes, small_tensors, write_folder

ABSURD = [0, 1, -1, 0.5, 2**31, 2**58, 2**63, 2**64 - 1, 2**64, 1e308, "", "F32", None, True, [], {}, [0, 2**63, 2**63],
          [2**32, 2**32], [0, 2**64 - 1], "x" * 1000]  # fmt: skip


def refused(command, message=""):
    """Runs it; checks exit code 1 and one message. Gives the message."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 1, (command, done.returncode, done.stderr, message)
    assert done.stderr.startswith("crumb: ") and len(done.stderr.strip()) > 12 and done.stdout == "", (command, done)
    return done.stderr


def refuse_all(crumb_bin, verb, contents, tmp_path, suffix):
    """Each content as a file of its own; two processes at a time."""

    def one(numbered):
        number, (what, content) = numbered
        path = tmp_path / f"{number}{suffix}"
        path.write_bytes(content)
        refused([crumb_bin, *(str(path) if word is None else word for word in verb)], what)
        path.unlink()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, enumerate(contents)))


# --- Safetensors ------------------------------------------------------------------------------------------------------


def damaged_safetensors(count):
    good = safetensors_bytes({"a.weight": normal(4, 6), "b": normal(5), "c.ids": np.arange(3)}, {"format": "pt"})
    (length,) = struct.unpack("<Q", good[:8])
    text, data = good[8 : 8 + length], good[8 + length :]
    header = json.loads(text)
    rng = random.Random(5)
    for size in (*range(0, 16), *(rng.randrange(len(good)) for _ in range(count // 4))):
        yield f"cut to {size}", good[:size]
    for extra in (1, 8, 1000):
        yield f"{extra} more", good + bytes(extra)
    for value in (0, 1, length - 1, length + 1, len(good), 2**31, 100_000_001, 2**63, 2**64 - 1):
        yield f"header length {value}", struct.pack("<Q", value) + good[8:]
    for _ in range(count // 4):  # a field that is something else
        changed = json.loads(text)
        name = rng.choice(["a.weight", "b", "c.ids"])
        field, value = rng.choice(["dtype", "shape", "data_offsets"]), rng.choice(ABSURD)
        if header[name][field] == value:
            continue
        changed[name][field] = value
        new = json.dumps(changed).encode()
        yield f"{name} {field} {value!r:.40}", struct.pack("<Q", len(new)) + new + data
    for _ in range(count // 4):  # an offset or a size that is a little off
        changed = json.loads(text)
        values = changed[rng.choice(["a.weight", "b", "c.ids"])][rng.choice(["shape", "data_offsets"])]
        values[rng.randrange(len(values))] += rng.choice([-8, -4, -1, 1, 4, 8])
        new = json.dumps(changed).encode()
        yield f"{changed}", struct.pack("<Q", len(new)) + new + data
    for _ in range(count // 4):  # structure that is broken
        at = rng.choice([i for i, c in enumerate(text) if chr(c) in '{}[]":,'])
        new = text[:at] + rng.choice([b"", b"{", b"]", b"\x00", b"\xff", b'"', b"\\"]) + text[at + 1 :]
        if new != text:
            yield f"{new!r}", struct.pack("<Q", len(new)) + new + data
    for name in ("a.weight", "__metadata__"):
        new = text.rstrip()[:-1] + b"," + json.dumps({name: header[name]}).encode()[1:]
        yield f"{name} twice", struct.pack("<Q", len(new)) + new + data
    for new in (b"[" * 10_000_000, b'{"a":' * 2_000_000, b'{"' + b"x" * 10_000_000 + b'":1}', b"{" + b" " * 10_000_000):
        yield f"{new[:10]!r}...", struct.pack("<Q", len(new)) + new


@pytest.mark.parametrize(("verb", "share"), [
    (["inspect", None], 1), (["quantize", None, "-o", "{out}", "--weights", "int4"], 2), (["compare", None, None], 4),
    (["embed", None, "--text", "{text}", "-o", "{out}"], 8),
    (["eval", None, "--baseline", None, "--data", "{text}"], 8)], ids=lambda v: v[0] if isinstance(v, list) else "")  # fmt: skip
def test_damaged_safetensors_are_refused(crumb_bin, tmp_path, verb, share):
    out, text = tmp_path / "out", tmp_path / "text"
    text.write_text("a line\n")
    verb = [word and word.format(out=out, text=text) for word in verb]
    contents = list(damaged_safetensors(200 // share))
    refuse_all(crumb_bin, verb, contents, tmp_path, ".safetensors")
    assert not out.exists() and not (tmp_path / "out.partial").exists()


@pytest.mark.slow
def test_many_damaged_safetensors_are_refused(crumb_bin, tmp_path):
    refuse_all(crumb_bin, ["inspect", None], list(damaged_safetensors(8000)), tmp_path, ".safetensors")


def test_damaged_folders_are_refused(crumb_bin, tmp_path):
    def folder(name, change):
        path = write_folder(tmp_path / name)
        change(path)
        return path

    cases = {
        "config": lambda p: (p / "config.json").write_text("{"),
        "list": lambda p: (p / "config.json").write_text("[]"),
        "modules": lambda p: (p / "modules.json").write_text('[{"path": "../../etc"}]'),
        "link": lambda p: ((p / "config.json").unlink(), (p / "config.json").symlink_to("nowhere")),
        "index": lambda p: ((p / "model.safetensors").unlink(), (p / "model.safetensors.index.json").write_text("{}")),
        "shard": lambda p: ((p / "model.safetensors").unlink(), (p / "model.safetensors.index.json").write_text(
            '{"weight_map": {"w": "model-2.safetensors"}}')),
        "outside": lambda p: ((p / "model.safetensors").rename(tmp_path / "m.safetensors"), (
            p / "model.safetensors.index.json").write_text('{"weight_map": {"w": "../m.safetensors"}}')),
    }  # fmt: skip
    for name, change in cases.items():
        path = folder(name, change)
        for verb in (["inspect"], ["quantize", "-o", tmp_path / "out", "--weights", "int8"]):
            assert name in refused([crumb_bin, verb[0], path, *verb[1:]]) or name in ("list", "link", "outside")


# --- Packed files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    tensors = {name: tensor for name, tensor in small_tensors().items() if name != "embeddings.word_embeddings.weight"}
    crumb("quantize", write_folder(folder / "m", tensors), "-o", folder / "m.crumb", "--weights", "int3:group=32", "--zstd", 3)
    return (folder / "m.crumb").read_bytes()


def damaged_packed(good, count):
    rng = random.Random(6)
    for size in (*range(0, 70, 7), *(rng.randrange(len(good)) for _ in range(count // 4))):
        yield f"cut to {size}", good[:size]
    for _ in range(count):
        at, bit = rng.randrange(len(good)), rng.randrange(8)
        yield f"bit {bit} of byte {at}", good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :]
    for _ in range(count // 4):
        begin, size = rng.randrange(len(good) - 40), rng.randrange(1, 40)
        yield f"{size} bytes from {begin} lost", good[:begin] + good[begin + size :]
    yield "more", good + b"\0"


def test_damaged_packed_files_are_refused(crumb_bin, packed, tmp_path):
    refuse_all(crumb_bin, ["verify", None], list(damaged_packed(packed, 200)), tmp_path, ".crumb")


def test_no_verb_stumbles_over_damaged_packed_files(crumb_bin, packed, tmp_path):
    (tmp_path / "text").write_text("a line\n")
    verbs = [["compare", None, None], ["dequantize", None, "-o", str(tmp_path / "out")],
             ["embed", None, "--text", str(tmp_path / "text"), "-o", str(tmp_path / "out")],
             ["eval", None, "--baseline", None, "--data", str(tmp_path / "text")]]  # fmt: skip
    (length,) = struct.unpack("<Q", packed[16:24])
    begin = 64 + length + 200  # some way into the first blobs: read by every verb
    for verb in verbs:
        contents = [(f"cut to {size}", packed[:size]) for size in (0, 63, 64, 1000, len(packed) - 1)]
        contents += [(f"byte {at}", packed[:at] + bytes([packed[at] ^ 16]) + packed[at + 1 :]) for at in range(0, 64 + length, 97)]
        if verb[0] not in ("embed", "eval"):
            contents.append(("a code", packed[:begin] + bytes([packed[begin] ^ 1]) + packed[begin + 1 :]))
        refuse_all(crumb_bin, verb, contents, tmp_path, ".crumb")
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("binary", ["crumb_bin", "crumb_sanitized_bin"])
def test_no_verb_believes_sizes_whose_sum_wraps(request, binary, repo, tmp_path):
    binary, path = request.getfixturevalue(binary), repo / "tests/fuzz/corpus/crumb/wrapping.crumb"
    out = tmp_path / "out.onnx"
    verbs = [["verify", path], ["verify", path, "--accumulator", "16"], ["inspect", path], ["inspect", path, "--json"],
             ["cost", path], ["lint", path, "--for", "qonnx"], ["dequantize", path, "-o", tmp_path / "out"], ["compare", path, path],
             ["export", path, "--to", "qonnx", "-o", out], ["export", path, "--to", "float", "-o", out],
             ["passes", path, "infer-shapes", "-o", out],
             ["eval", path, "--baseline", path, "--data", repo / "README.md"]]  # fmt: skip
    for verb in verbs:
        message = refused([binary, *verb])
        assert "'graph.onnx' stores 4611686018427387904 bytes at offset 768" in message, (verb, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_many_damaged_packed_files_are_refused(crumb_bin, packed, tmp_path):
    """Or mean the same: a bit of a zstd frame that says nothing of what it decompresses to."""
    good = tmp_path / "good.crumb"
    good.write_bytes(packed)

    def decoded(path):
        out = path.with_suffix(".safetensors")
        subprocess.run([crumb_bin, "dequantize", path, "-o", out], check=True, capture_output=True)
        return out.read_bytes()

    whole, sound = decoded(good), 0
    for number, (what, content) in enumerate(damaged_packed(packed, 6000)):
        path = tmp_path / f"{number}.crumb"
        path.write_bytes(content)
        if subprocess.run([crumb_bin, "verify", path], capture_output=True).returncode == 0:
            assert len(content) == len(packed) and decoded(path) == whole, what
            sound += 1
        else:
            refused([crumb_bin, "verify", path], what)
        path.unlink()
    assert sound <= 10


def test_the_sanitizers_see_nothing_in_damaged_files(crumb_sanitized_bin, packed, tmp_path):
    refuse_all(crumb_sanitized_bin, ["verify", None], list(damaged_packed(packed, 40)), tmp_path, ".crumb")
    refuse_all(crumb_sanitized_bin, ["inspect", None], list(damaged_safetensors(60)), tmp_path, ".safetensors")


# --- Memory -----------------------------------------------------------------------------------------------------------


def packed_file(header: bytes, rest: bytes = b"") -> bytes:
    start = struct.pack("<8sIIQQI", b"\x89CRUMB\r\n", 1, 0, len(header), 64 + len(header) + len(rest), zlib.crc32(header))
    return start + struct.pack("<I24x", zlib.crc32(start)) + header + rest


def bomb(codes: bytes, rows: int, cols: int) -> bytes:
    """A packed file of one int8 tensor whose codes are `codes`, compressed; everything about it is right."""
    blob = zstandard.ZstdCompressor(19).compress(codes)
    scale = struct.pack("<f", 1)

    def header(first):
        second = (first + len(blob) + 63) // 64 * 64
        parts = [(first, blob, len(codes), "zstd"), (second, scale, 4, "none")]
        blobs = [{"offset": at, "stored": len(stored), "raw": raw, "codec": codec, "crc32": f"{zlib.crc32(stored):08x}"}
                 for at, stored, raw, codec in parts]  # fmt: skip
        encoding = {"number": "int8", "range": "narrow", "block": [rows, cols], "scale": "f32", "scale_exponent": 0, "zero": "none"}
        tensor = {"name": "w", "dtype": "F32", "shape": [rows, cols], "spec": "int8:tensor", "encoding": encoding}
        tensor |= {"codes": blobs[0], "scales": blobs[1]}
        return json.dumps({"format": "crumb", "model": "", "tensors": [tensor], "files": []}).encode().ljust(960)

    rest = blob.ljust((len(blob) + 63) // 64 * 64, b"\0") + scale
    return packed_file(header(1024), rest)


def hostile_packed():
    yield "deep", packed_file(b"[" * 6_000_000), False
    yield "many numbers", packed_file(b'{"tensors":[{"name":"a","dtype":"F32","shape":[1' + b",1" * 2_500_000 + b"]}]}"), False
    yield "many objects", packed_file(b'{"tensors":[{}' + b",{}" * 2_000_000 + b"]}"), False
    yield "a long name", packed_file(b'{"format":"' + b"x" * 6_000_000 + b'"}'), False
    entry = b'{"name":"%d","dtype":"U8","shape":[0],"data":{"offset":   @@@@@@@,"stored":0,"raw":0,"codec":"none","crc32":"00000000"}}'
    many = b'{"format":"crumb","model":"","files":[],"tensors":[' + b",".join(entry % i for i in range(48_000)) + b"]}"
    many = many.ljust((len(many) + 63) // 64 * 64)
    yield "many tensors", packed_file(many.replace(b"@@@@@@@", b"%7d" % (64 + len(many)))), None
    yield "a legal bomb", bomb(bytes(2**29), 2**14, 2**15), True
    yield "a bomb with a stray code", bomb(bytes(2**29 - 1) + b"\x80", 2**14, 2**15), False
    yield "a bomb too large", bomb(bytes(2**29), 2**13, 2**15), False
    yield "a bomb too small", bomb(bytes(2**20), 2**14, 2**15), False


def test_hostile_packed_files_are_verified_in_bounded_memory(crumb_bin, tmp_path):
    started = 16 << 20  # what the process itself maps: program, libraries, stack
    for what, content, sound in hostile_packed():
        path = tmp_path / "hostile.crumb"
        path.write_bytes(content)
        limit = started + 2 * len(content) + (64 << 20)  # the file's map counts as address space, too
        done = subprocess.run([crumb_bin, "verify", path], capture_output=True, text=True, timeout=120,
                              preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))  # fmt: skip
        assert "out of memory" not in done.stderr, what
        assert done.returncode in ((0, 1) if sound is None else (0,) if sound else (1,)), (what, done)
        assert done.returncode == 0 or done.stderr.startswith("crumb: "), (what, done)
