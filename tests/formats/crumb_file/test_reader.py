"""The packed file against its page: crumb_reader.py, made from docs/crumb_file.md only, must read what crumb writes."""

import functools
import json
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crumb_reader  # noqa: E402
from crumb_builder import SIGNED, Part, bf16, compressed, framed, layout, parts_of, seal, tensor  # noqa: E402

KINDS = {"F32": "float32", "BOOL": "bool", "C64": "complex64"}
for _bits in (8, 16, 32, 64):
    KINDS |= {f"I{_bits}": f"int{_bits}", f"U{_bits}": f"uint{_bits}"}
INT_FORMATS = [f"int{bits}" for bits in range(2, 9)] + [f"uint{bits}" for bits in range(1, 9)]
NUMBERS = [  # written out, so that tests can be chosen by name; test_formats_are_complete compares with the command
    *INT_FORMATS, *(f"e{x}m{bits - 1 - x}" for bits in range(3, 9) for x in range(1, bits)), "e4m3fn", "e4m3fnuz",
    "e5m2fnuz", "int2h", "int3h", "int4h", "binary", "ternary", "nf4", *(f"palette{bits}" for bits in range(1, 9)),
]  # fmt: skip
BLOCK_FORMATS = ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4"]
SCALES = ["f32", "f16", "bf16", "e8m0", "e4m3"]
GRANULARITIES = ["tensor", "channel", "group=16:pad", "block=4x8:pad"]


# --- Safetensors, by hand: so that every dtype can be written ---------------------------------------------------------


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype as safetensors spells it, shape, bytes)."""
    header, blobs = {}, []
    at = 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(content)]}
        blobs.append(content)
        at += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["dtype"], tuple(entry["shape"]), data[begin:end])
    return tensors


def float_tensors(seed=0):
    """Tensors with odd shapes, dtypes and magnitudes."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype("<f4")

    sparse = normal(6, 19)
    sparse[[0, 3]] = 0
    sparse[4, 5:] = 0
    tensors = {
        "one": normal(1),
        "row": normal(7),
        "small": normal(3, 5),
        "odd": normal(17, 33),
        "conv": normal(2, 3, 4, 5) + 2,
        "empty": normal(0, 4),
        "hollow": normal(4, 0),
        "zeros": np.zeros((3, 17), "<f4"),
        "negative_zeros": -np.zeros((2, 3), "<f4"),
        "zero_rows": sparse,
        "huge": normal(3, 17) * np.float32(1e30),
        "tiny": normal(3, 17) * np.float32(1e-39),
        "wide": normal(3, 17) * np.float32(10) ** rng.integers(-30, 30, (3, 17)).astype("<f4"),
        "half": normal(3, 17).astype("<f2"),
        "double": normal(3, 17).astype("<f8") * np.pi,
    }
    result = {name: (f"F{8 * t.itemsize}", t.shape, t.tobytes()) for name, t in tensors.items()}
    result["brain"] = ("BF16", (5, 18), bf16(normal(5, 18)).tobytes())
    return result


# --- What crumb writes, the reader reads ------------------------------------------------------------------------------


def assert_same(tensors, expected):
    """`tensors` of the reader are, bit for bit, those of a safetensors file."""
    assert list(sorted(tensors)) == sorted(expected)
    for name, (dtype, shape, content) in expected.items():
        ours = tensors[name]
        assert (ours.dtype, ours.shape) == (KINDS[dtype], shape), name
        if ours.tobytes() != content:
            theirs = np.frombuffer(content, ours.dtype).reshape(shape)
            where = tuple(np.argwhere(bits_of(ours) != bits_of(theirs))[0])
            raise AssertionError(f"{name}{list(where)}: the page gives {ours[where]!r}, crumb {theirs[where]!r}")


def bits_of(array):
    return array.view(f"u{array.itemsize}") if array.itemsize <= 8 else array


def split(path):
    """The header of a packed file and the offset where it ends; checks nothing."""
    data = Path(path).read_bytes()
    end = 64 + int.from_bytes(data[16:24], "little")
    return json.loads(data[64:end]), end


@pytest.fixture(scope="module")
def formats(crumb):
    return json.loads(crumb("formats", "--json").stdout)


def specs_of(name):
    """All that can be asked of a number format or block format."""
    if name.startswith(("mx", "nv")):
        return [f"{name}:pad"]
    zeros = ["none", "int", "float"] if name in INT_FORMATS else ["none"]
    ranges = [":range=full", ":range=narrow"] if name in INT_FORMATS and name != "uint1" else [""]
    specs = [f"{name}:{g}:scale={s}:zero={z}" for g in GRANULARITIES for s in SCALES for z in zeros if z != "none"]
    specs += [f"{name}:{g}:scale={s}" for g in GRANULARITIES for s in SCALES]
    return specs + [f"{name}{r}:zero={z}" if z != "none" else f"{name}{r}" for r in ranges for z in zeros]


def check_specs(crumb, folder, specs, tensors):
    """Quantizes every tensor with every spec; the reader must agree with `crumb dequantize`."""
    checkpoint = {f"{i:03}.{name}": tensor for i in range(len(specs)) for name, tensor in tensors.items()}
    checkpoint["ids"] = ("I64", (2, 3), np.arange(6, dtype="<i8").tobytes())
    checkpoint["zeros"] = ("F32", (4, 4096), bytes(4 * 4 * 4096))  # codes that compression does make smaller
    rules = [word for i, spec in enumerate(specs) for word in ("--set", f"{i:03}.*={spec}")]
    write_safetensors(folder / "in.safetensors", checkpoint)
    for zstd in ("off", "3"):
        packed, back = folder / f"{zstd}.crumb", folder / f"{zstd}.safetensors"
        crumb("quantize", folder / "in.safetensors", "-o", packed, "--weights", "int8", "--zstd", zstd, *rules)
        crumb("dequantize", packed, "-o", back)
        crumb("verify", packed)
        entries = split(packed)[0]["tensors"]
        assert {entry["name"] for entry in entries if "encoding" not in entry} == {"ids"}
        assert_same(crumb_reader.read(packed), read_safetensors(back))
    assert {entry["encoding"]["layout"] for entry in entries if "encoding" in entry} == {"rows"}
    assert any(entry["codes"]["codec"] == "zstd" for entry in entries if "codes" in entry)
    assert (folder / "off.safetensors").read_bytes() == (folder / "3.safetensors").read_bytes()


def test_formats_are_complete(formats):
    names = {f["name"] for f in formats["formats"] + formats["block_formats"]} - {"e8m0"}
    assert names == {*NUMBERS, *BLOCK_FORMATS} and set(NUMBERS) == set(crumb_reader.NUMBERS)


@pytest.mark.parametrize("name", NUMBERS + BLOCK_FORMATS)
def test_reads_as_crumb_does(crumb, tmp_path, name):
    check_specs(crumb, tmp_path, specs_of(name), float_tensors(len(name)))


def layout_specs_of(name):
    """Blocks of one row and of more, and of the zero points each kind."""
    if name.startswith(("mx", "nv")):
        return [f"{name}:pad"]
    zeros = [":zero=int", ":zero=float:scale=bf16"] if name in INT_FORMATS else []
    ranges = [":range=full:zero=int", ":range=narrow:zero=int"] if name in INT_FORMATS and name != "uint1" else []
    return [f"{name}:{g}" for g in GRANULARITIES] + [f"{name}:{g}{z}" for g in GRANULARITIES[1:] for z in [*zeros, *ranges]]


@pytest.mark.parametrize("name", NUMBERS + BLOCK_FORMATS)
def test_tiles_have_the_values_of_rows(crumb, tmp_path, name):
    """`crumb quantize --layout tiles` writes what the page calls tiles, and the same values as without it."""
    rng = np.random.default_rng(len(name))
    checkpoint, rules = {}, []
    for i, spec in enumerate(layout_specs_of(name)):
        for shape in ((7,), (3, 5), (16, 32), (17, 33), (40, 70), (2, 3, 4, 5), (0, 4)):
            values = rng.standard_normal(shape).astype("<f4") + (0.5 if "zero=" in spec else 0)
            checkpoint[f"{i:03}.{'x'.join(map(str, shape))}"] = ("F32", shape, values.astype("<f4").tobytes())
        rules += ["--set", f"{i:03}.*={spec}"]
    checkpoint["ids"] = ("I64", (64, 64), bytes(8 * 64 * 64))
    write_safetensors(tmp_path / "in.safetensors", checkpoint)
    values = {}
    for lies in (None, "rows", "tiles"):
        packed, back = tmp_path / f"{lies}.crumb", tmp_path / f"{lies}.safetensors"
        option = [] if lies is None else ["--layout", lies]
        crumb("quantize", tmp_path / "in.safetensors", "-o", packed, "--weights", "int8", "--zstd", "3", *option, *rules)
        crumb("verify", packed)
        crumb("dequantize", packed, "-o", back)
        entries = {entry["name"]: entry for entry in split(packed)[0]["tensors"]}
        assert entries.pop("ids")["data"]["codec"] == "zstd"
        for entry in entries.values():
            in_tiles = entry["encoding"]["layout"] == "tiles"
            if lies != "tiles":
                assert not in_tiles
            elif min(crumb_reader._matrix(entry["shape"])) >= 16:  # whether smaller ones are worth it is the writer's choice
                assert in_tiles, entry["name"]
            if in_tiles:
                assert {entry[part]["codec"] for part in set(entry) & set(crumb_reader.PARTS)} == {"none"}
        assert_same(crumb_reader.read(packed), read_safetensors(back))
        values[lies] = back.read_bytes()
    assert values["tiles"] == values["rows"] == values[None]
    assert (tmp_path / "None.crumb").read_bytes() == (tmp_path / "rows.crumb").read_bytes()


# --- Kept tensors and files -------------------------------------------------------------------------------------------


def kept_tensors():
    rng = np.random.default_rng(5)
    tensors = {}
    for dtype, kind in crumb_reader.OTHERS.items():
        content = rng.integers(0, 2 if dtype == "BOOL" else 256, 15 * np.dtype(kind).itemsize, dtype=np.uint8)
        tensors[f"kept.{dtype}"] = (dtype, (3, 5), content.tobytes())
    f16 = np.arange(1 << 16, dtype="<u2")
    tensors["kept.F16"] = ("F16", (256, 256), f16.tobytes())  # every one: subnormals, infinities, NaNs
    tensors["kept.BF16"] = ("BF16", (256, 256), f16.tobytes())
    tensors["kept.F32"] = ("F32", (64, 64), rng.integers(0, 1 << 32, 4096, dtype=np.uint32).tobytes())
    f64 = rng.standard_normal(4096) * 10.0 ** rng.integers(-60, 60, 4096)  # many beyond float32 on either side
    near = np.float64(1) + np.arange(-64, 64) * 2.0**-26  # ties and their neighbours
    f64[: 4 * 128] = np.concatenate([near, near * 2.0**-126, near * 2.0**-130, near * 2.0**128])
    f64[-4:] = [np.inf, -np.inf, np.nan, -0.0]
    tensors["kept.F64"] = ("F64", (16, 256), f64.tobytes())
    for dtype in ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"):
        tensors[f"kept.{dtype}"] = (dtype, (16, 16), bytes(range(256)))
    for dtype, bits in (("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6)):
        tensors[f"kept.{dtype}"] = (dtype, (4, 16), rng.integers(0, 256, 8 * bits, dtype=np.uint8).tobytes())
    tensors["kept.scalar"] = ("F32", (), np.float32(1.5).tobytes())
    tensors["kept.empty"] = ("I32", (0, 3), b"")
    tensors["w.weight"] = ("F32", (4, 16), rng.standard_normal((4, 16)).astype("<f4").tobytes())
    return tensors


def test_kept_tensors_and_files(crumb, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    write_safetensors(model / "model.safetensors", kept_tensors())
    files = {
        "config.json": json.dumps({"architectures": ["BertModel"], "hidden_size": 16}).encode(),
        "tokenizer.json": json.dumps({"version": "1.0", "model": {"vocab": {"Ä": 0}}}, ensure_ascii=False).encode(),
        "tokenizer_config.json": b"{}",
        "vocab.txt": b"[PAD]\n[UNK]\nhello\n" * 50,
        "special_tokens_map.json": b"{ }\n",
    }
    for name, content in files.items():
        (model / name).write_bytes(content)
    for zstd in ("off", "19"):
        packed, back = tmp_path / f"{zstd}.crumb", tmp_path / f"{zstd}.safetensors"
        crumb("quantize", model, "-o", packed, "--weights", "int4", "--exclude", "kept.*", "--zstd", zstd)
        crumb("dequantize", packed, "-o", back)
        crumb("verify", packed)
        header = split(packed)[0]
        assert header["model"] == "BertModel" and header["features"] == [] and crumb_reader.read_version(packed) == 2
        ours = crumb_reader.read_files(packed)
        assert {name: ours[name] for name in files} == files
        tensors, theirs = crumb_reader.read(packed), read_safetensors(back)
        assert_same(tensors, theirs)
        assert {t["name"] for t in header["tensors"] if "encoding" in t} == {"w.weight"}
        for name, (dtype, shape, content) in kept_tensors().items():
            if dtype[0] not in "FBw" or dtype in ("F32", "BOOL"):
                assert name == "w.weight" or tensors[name].tobytes() == content, name


# --- Files of the past ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v1", "v1_zstd", "v2", "v2_zstd", "v2_tiles"])
def test_fixture(crumb, repo, tmp_path, name):
    """Files of every version stay readable; fixtures/crumb/make.py says what they hold."""
    folder = repo / "tests/fixtures/crumb"
    packed, expected = folder / f"{name}.crumb", read_safetensors(folder / f"{name[:2]}.safetensors")
    header = split(packed)[0]
    assert crumb_reader.read_version(packed) == int(name[1])
    encodings = [entry["encoding"] for entry in header["tensors"] if "encoding" in entry]
    numbers, scales = ({encoding[what] for encoding in encodings} for what in ("number", "scale"))
    assert numbers <= set(NUMBERS) and len(numbers) == 59  # as many as there were then
    assert scales <= set(SCALES) and len(scales) == 5
    assert {encoding["zero"] for encoding in encodings} == {"none", "int", "float"}
    assert any("tensor_scale" in entry for entry in header["tensors"])
    assert any(encoding["scale_exponent"] for encoding in encodings)
    codecs = {"v1_zstd": {"zstd"}, "v2_zstd": {"zstd", "none"}, "v2_tiles": {"zstd", "none"}}.get(name, {"none"})
    assert {part["codec"] for part in parts_of(header)} == codecs
    if name[1] == "2":
        assert any(encoding["layout"] == "tiles" for encoding in encodings) == (name == "v2_tiles")
    assert_same(crumb_reader.read(packed), expected)
    files = crumb_reader.read_files(packed)
    assert json.loads(files["config.json"])["hidden_size"] == 16 and files["vocab.txt"].startswith(b"[PAD]\n")
    crumb("verify", packed)
    crumb("dequantize", packed, "-o", tmp_path / "back.safetensors")
    assert read_safetensors(tmp_path / "back.safetensors") == expected


def test_fixture_by_hand(crumb, repo, tmp_path):
    """Signed scales and minima, in rows and in tiles."""
    folder = repo / "tests/fixtures/crumb"
    expected = read_safetensors(folder / "v2_by_hand.safetensors")
    assert_same(crumb_reader.read(folder / "v2_by_hand.crumb"), expected)
    crumb("dequantize", folder / "v2_by_hand.crumb", "-o", tmp_path / "back.safetensors")
    assert read_safetensors(tmp_path / "back.safetensors") == expected


# --- Files made by hand -----------------------------------------------------------------------------------------------


def by_hand_tensors(number, version, lies):
    small = {"tensor_scale": 2.7e-3}
    zeros = ("none", "int", "float", *(["min"] if version == 2 else [])) if number in INT_FORMATS else ("none",)
    for zero in zeros:
        for scale in SCALES:
            for exponent, tensor_scale in (0, {}), (3, {}), (-6, small), (-120, {}), (120, small):
                for shape, block in ((3, 67), (1, 5)), ((18, 3, 5), (4, 8)), ((300,), (1, 1)):
                    sign = "any" if version == 2 and exponent in (3, -6) and scale in SIGNED else "plus"
                    name = f"{zero}.{scale}.{exponent}.{len(shape)}"
                    yield tensor(name, shape, number, zero, scale, block, exponent, sign=sign, layout=lies, **tensor_scale)


@pytest.mark.parametrize("version, lies", [(1, "rows"), (2, "rows"), (2, "tiles")])
@pytest.mark.parametrize("number", NUMBERS)
def test_reads_files_made_by_hand(crumb, tmp_path, number, version, lies):
    """Every code with every scale, whether a quantizer writes it or not; values overflow here, scales underflow."""
    packed = tmp_path / "hand.crumb"
    tensors = list(by_hand_tensors(number, version, lies))
    packed.write_bytes(layout({"format": "crumb", "model": "", "tensors": tensors, "files": []}, version=version))
    crumb("verify", packed)
    crumb("dequantize", packed, "-o", tmp_path / "back.safetensors")
    assert_same(crumb_reader.read(packed), read_safetensors(tmp_path / "back.safetensors"))


# --- Damaged files ----------------------------------------------------------------------------------------------------


def good_header():
    """A header with something of everything; the cases below damage it."""
    content = bytes(range(256)) * 6
    return {
        "format": "crumb",
        "model": "BertModel",
        "tensors": [
            tensor("int", (5, 37), "int4", "int", "f16", (1, 16), kind="narrow"),
            tensor("float", (3, 2, 3), "uint3", "float", "f32", (2, 4)),
            tensor("ternary", (2, 7), "ternary", block=(1, 7)),
            tensor("e4m3fn", (4, 3), "e4m3fn", scale="e4m3", block=(1, 3), tensor_scale=0.5),
            tensor("palette", (4, 9), "palette2", scale="bf16", block=(4, 9)),
            {"name": "kept", "dtype": "F32", "shape": [6, 64], "data": compressed(content)},
            {"name": "scalar", "dtype": "I64", "shape": [], "data": Part(bytes(8))},
            {"name": "empty", "dtype": "F32", "shape": [0, 4], "data": Part(b"")},
            tensor("tiles", (17, 40), "int5", "int", "f16", (1, 32), kind="narrow", layout="tiles"),
            tensor("tall", (17, 40), "uint4", "min", "f32", (4, 8), sign="any", layout="tiles"),
            tensor("last", (3, 16), "int4"),
        ],
        "files": [
            {"path": "config.json", "data": Part(b"{}")},
            {"path": "vocab.txt", "data": compressed(b"a\n" * 500)},
        ],
    }


def file_of(edit=lambda header: None, **options):
    header = good_header()
    edit(header)
    return layout(header, **options)


def by_name(header, name):
    return next(entry for entry in header["tensors"] if entry["name"] == name)


def setting(name, path, value):
    """An edit that sets one value of a tensor's header, as in setting("int", "encoding.zero", "none")."""

    def edit(header):
        entry = by_name(header, name)
        *keys, last = path.split(".")
        for key in keys:
            entry = entry[key]
        if callable(value):
            entry[last] = value(entry[last])
        elif value is None:
            del entry[last]
        else:
            entry[last] = value

    return edit


def setting_bytes(name, part, at, value):
    """An edit that changes stored bytes of a tensor's part (the checksum follows)."""

    def edit(header):
        blob = by_name(header, name)[part]
        content = bytearray(blob.content)
        start = at % len(content)
        content[start : start + len(value)] = value
        blob.content = bytes(content)

    return edit


def stored(name, part, change):
    """An edit that changes all stored bytes of a tensor's part."""

    def edit(header):
        blob = by_name(header, name)[part]
        blob.content = change(blob.content)

    return edit


def with_part(name, part, blob):
    def edit(header):
        by_name(header, name)[part] = blob

    return edit


def both(*edits):
    def edit(header):
        for one in edits:
            one(header)

    return edit


def raw_bytes(at, value):
    """A good file with some bytes changed and no checksum recomputed."""

    def make():
        data = bytearray(file_of())
        data[at : at + len(value)] = value
        return bytes(data)

    return make


@functools.cache
def zeros_frame(size, window_log=20):
    """A Zstandard frame of zeros, which does not say how many."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    chunk = bytes(min(size, 1 << 20))
    return b"".join(compressor.compress(chunk) for _ in range(0, size, 1 << 20)) + compressor.flush()


def big(shape, block=(1, 16), **keys):
    """A tensor whose sizes the header gives by right arithmetic, or by arithmetic that wrapped."""

    def edit(header):
        entry = tensor("big", (1, 16), **keys)
        entry["shape"], entry["encoding"]["block"] = list(shape), list(block)
        header["tensors"].insert(0, entry)

    return edit


def kept(shape, part, dtype="F32"):
    def edit(header):
        header["tensors"].insert(0, {"name": "new", "dtype": dtype, "shape": list(shape), "data": part})

    return edit


def text(old, new, count=1):
    def edit(header_text):
        assert old in header_text, old
        return header_text.replace(old, new, count)

    return lambda: file_of(edit_text=edit)


def before(edit):
    return lambda: file_of(edit)


def after(edit):
    return lambda: file_of(edit_placed=edit)


def preamble(**fields):
    return lambda: file_of(**fields)


BOMB = 1 << 28
DAMAGES = {
    # the preamble
    "empty file": lambda: b"",
    "magic only": lambda: crumb_reader.MAGIC,
    "63 bytes": lambda: file_of()[:63],
    "64 bytes": lambda: file_of()[:64],
    "magic": raw_bytes(0, b"\x88"),
    "magic as text": raw_bytes(6, b"\n\n"),
    "version 0": preamble(version=0),
    "version 3": preamble(version=3),
    "reserved at 12": preamble(reserved=1),
    "reserved at 40": preamble(tail=b"\x01" + bytes(23)),
    "reserved at 63": preamble(tail=bytes(23) + b"\x01"),
    "header length 0": preamble(header_length=0, header_crc=0),
    "header too long by 1": preamble(header_length=(1 << 14) + 1),
    "header beyond the file": preamble(header_length=1 << 40),
    "header length 2^64 - 1": preamble(header_length=(1 << 64) - 1),
    "header length 2^64 - 64": preamble(header_length=(1 << 64) - 64),
    "file length smaller": preamble(length=1000),
    "file length greater": preamble(length=1 << 50),
    "checksum of the header": preamble(header_crc=0),
    "checksum of the preamble": preamble(crc=0),
    "cut off by one": lambda: file_of()[:-1],
    "one byte more": lambda: file_of() + b"\0",
    "64 bytes more": lambda: file_of() + bytes(64),
    "cut inside, length follows": preamble(length=1 << 14),
    "flipped bit in the header": raw_bytes(100, b"\xff"),
    # the header as JSON
    "header of spaces": lambda: seal(b" " * 64, b""),
    "header empty": lambda: seal(b"", b""),
    "header no object": lambda: seal(b"[]", b""),
    "header null": lambda: seal(b"null", b""),
    "header not UTF-8": lambda: seal(b'{"format":"crumb","model":"\xff","tensors":[],"files":[],"features":[]}', b""),
    "header then more": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"files":[],"features":[]}{}', b""),
    "header nested deep": lambda: seal(b'{"format":"crumb","model":"","tensors":' + b"[" * 200000, b""),
    "header with a huge number": lambda: seal(b'{"format":1' + b"0" * 100000 + b"}", b""),
    "no tensors": lambda: seal(b'{"format":"crumb","model":"","files":[],"features":[]}', b""),
    "no files": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"features":[]}', b""),
    "no features": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"files":[]}', b""),
    "no model": lambda: seal(b'{"format":"crumb","tensors":[],"files":[],"features":[]}', b""),
    "no format": lambda: seal(b'{"model":"","tensors":[],"files":[],"features":[]}', b""),
    "other format": text('"crumb"', '"crumbs"'),
    "tensors as an object": lambda: seal(b'{"format":"crumb","model":"","tensors":{},"files":[],"features":[]}', b""),
    "padding after the header": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"files":[],"features":[]}', bytes(11)),
    "unknown key at the top": text('"model"', '"version":1,"model"'),
    "unknown key in a tensor": text('"dtype"', '"note":"","dtype"'),
    "unknown key in an encoding": text('"range"', '"order":"C","range"'),
    "unknown key in a blob": text('"stored"', '"size":1,"stored"'),
    "unknown key in a file": text('"path"', '"mode":1,"path"'),
    "duplicate key at the top": text('"model"', '"model":"","model"'),
    "duplicate key in a tensor": text('"dtype"', '"dtype":"F32","dtype"'),
    "duplicate key in an encoding": text('"zero"', '"zero":"int","zero"'),
    "duplicate key in a blob": text('"codec"', '"codec":"none","codec"'),
    "name no string": text('"name": "int"', '"name": 1'),
    "shape no list": before(setting("int", "shape", 5)),
    "shape of fractions": text('"shape": [5, 37]', '"shape": [5.5, 37]'),
    "shape of booleans": text('"shape": [5, 37]', '"shape": [true, 37]'),
    "offset as text": after(setting("int", "codes.offset", str)),
    "offset as a fraction": after(setting("int", "codes.offset", lambda x: x + 0.5)),
    # names and parts
    "two tensors of one name": before(setting("float", "name", "int")),
    "two files of one path": text('"vocab.txt"', '"config.json"'),
    "no name": before(setting("int", "name", None)),
    "no dtype": before(setting("int", "dtype", None)),
    "unknown dtype": before(setting("kept", "dtype", "F31")),
    "no shape": before(setting("int", "shape", None)),
    "no codes": before(setting("int", "codes", None)),
    "no scales": before(setting("int", "scales", None)),
    "no zeros": before(setting("int", "zeros", None)),
    "no codebook": before(setting("palette", "codebook", None)),
    "no data": before(setting("kept", "data", None)),
    "no encoding": before(setting("int", "encoding", None)),
    "zeros of none": before(setting("int", "encoding.zero", "none")),
    "data of a quantized tensor": before(with_part("int", "data", Part(bytes(740)))),
    "codes of a kept tensor": before(with_part("kept", "codes", Part(bytes(10)))),
    "codebook of an int": before(with_part("int", "codebook", Part(bytes(64)))),
    "no sign": before(setting("int", "encoding.sign", None)),
    "no layout": before(setting("int", "encoding.layout", None)),
    "no zeros of min": before(setting("tall", "zeros", None)),
    "no scale_exponent": before(setting("int", "encoding.scale_exponent", None)),
    # encodings
    "unknown number": before(setting("int", "encoding.number", "int9")),
    "number int1": before(setting("int", "encoding.number", "int1")),
    "number e8m0": before(setting("e4m3fn", "encoding.number", "e8m0")),
    "number e0m7": before(setting("e4m3fn", "encoding.number", "e0m7")),
    "number mxfp8_e4m3": before(setting("e4m3fn", "encoding.number", "mxfp8_e4m3")),
    "unknown range": before(setting("int", "encoding.range", "wide")),
    "ternary with the full range": before(setting("ternary", "encoding.range", "full")),
    "palette with the narrow range": before(setting("palette", "encoding.range", "narrow")),
    "unknown scale": before(setting("int", "encoding.scale", "f8")),
    "unknown zero": before(setting("int", "encoding.zero", "half")),
    "unknown sign": before(setting("int", "encoding.sign", "minus")),
    "unknown layout": before(setting("int", "encoding.layout", "columns")),
    "rows that lie in tiles": before(setting("int", "encoding.layout", "tiles")),
    "tiles that lie in rows": before(setting("tiles", "encoding.layout", "rows")),
    "min of a palette": before(setting("palette", "encoding.zero", "min")),
    "scale_exponent as text": before(setting("int", "encoding.scale_exponent", "0")),
    "scales that overflow": before(setting("int", "encoding.scale_exponent", 1000)),
    "scale_exponent beyond 64 bits": before(setting("int", "encoding.scale_exponent", 1 << 70)),
    "block of one number": before(setting("int", "encoding.block", [16])),
    "block of three numbers": before(setting("int", "encoding.block", [1, 16, 1])),
    "block of no rows": before(setting("int", "encoding.block", [0, 16])),
    "block of no columns": before(setting("int", "encoding.block", [1, 0])),
    "block of negative size": before(setting("int", "encoding.block", [-1, -16])),
    "other block": before(setting("int", "encoding.block", [1, 8])),
    # shapes and sizes
    "shape smaller": before(setting("int", "shape", [5, 36])),
    "shape negative": before(setting("kept", "shape", [-6, -64])),
    "shape transposed": before(setting("int", "shape", [37, 5])),
    "tiles of 2^64 elements": before(big([1 << 32, 1 << 32], layout="tiles")),
    "tiles of 2^58 rows": before(big([1 << 58], layout="tiles")),
    "tiles of 2^58 rows, one column": before(big([1 << 58, 1], layout="tiles", number="int8", block=(1, 16))),
    "tiles of 2^58 columns": before(big([1, 1 << 58], layout="tiles", number="int8")),
    "tiles of 2^58 rows and scales": before(big([1 << 58, 1], (1, 1), layout="tiles", scale="f32")),
    "shape of 2^64 elements": before(big([1 << 32, 1 << 32])),
    "shape that wraps to 16": before(big([(1 << 60) + 1, 16])),
    "shape beyond 64 bits": before(big([1 << 64, 16])),
    "shape of 2^62": before(big([1 << 62])),
    "rows without columns, rank 70": before(big([2] * 70)),
    "kept of 2^64 bytes": before(kept([1 << 62], Part(b""))),
    "kept of 2^64 + 4 bytes": before(kept([(1 << 62) + 1], Part(bytes(4)))),
    "zero times 2^63 times 2^63": before(kept([0, 1 << 63, 1 << 63], Part(bytes(4)))),
    "raw too small": after(setting("int", "codes.raw", lambda x: x - 1)),
    "raw and stored too small": after(
        both(setting("int", "codes.raw", lambda x: x - 1), setting("int", "codes.stored", lambda x: x - 1))
    ),
    "raw negative": after(setting("int", "codes.raw", -1)),
    "stored too great": after(setting("int", "codes.stored", lambda x: x + 1)),
    "stored is 2^64 - 1": after(setting("int", "codes.stored", (1 << 64) - 1)),
    "stored is 2^63": after(setting("int", "codes.stored", 1 << 63)),
    "stored negative": after(setting("int", "codes.stored", -1)),
    # where blobs lie
    "offset of another blob": after(setting("int", "scales.offset", lambda x: x - 64)),
    "offset 64 too far": after(setting("int", "codes.offset", lambda x: x + 64)),
    "offset not aligned": after(setting("int", "codes.offset", lambda x: x + 1)),
    "offset 0": after(setting("int", "codes.offset", 0)),
    "offset beyond the file": after(setting("last", "codes.offset", 1 << 40)),
    "offset 2^64 - 64": after(setting("last", "codes.offset", (1 << 64) - 64)),
    "offset negative": after(setting("int", "codes.offset", -64)),
    "offset beyond 64 bits": after(setting("int", "codes.offset", lambda x: x + (1 << 64))),
    "offset of an empty blob": after(setting("empty", "data.offset", lambda x: x + 64)),
    "tensors swapped": after(lambda header: header["tensors"].reverse()),
    "files swapped": after(lambda header: header["files"].reverse()),
    # blobs
    "checksum of a blob": after(setting("int", "codes.crc32", "00000000")),
    "checksum in upper case": after(setting("int", "codes.crc32", str.upper)),
    "checksum too short": after(setting("int", "codes.crc32", lambda x: x[:7])),
    "checksum with more": after(setting("int", "codes.crc32", lambda x: x + "0")),
    "checksum no hexadecimal": after(setting("int", "codes.crc32", "zzzzzzzz")),
    "checksum as a number": after(setting("int", "codes.crc32", 0)),
    "flipped bit in the first blob": raw_bytes(64 + (1 << 14), b"\xff"),
    "padding of a blob": raw_bytes(64 + (1 << 14) + 5 * 19, b"\x01"),
    "checksum of stored bytes": after(lambda h: by_name(h, "kept")["data"].update(crc32=f"{zlib.crc32(by_name(h, 'kept')['data'].content):08x}")),
    "frame of other bytes": before(stored("kept", "data", lambda x: compressed(bytes(1536)).content)),
    "a frame in tiles": before(lambda h: by_name(h, "tiles").update(codes=compressed(by_name(h, "tiles")["codes"].content))),
    "a frame of scales in tiles": before(lambda h: by_name(h, "tall").update(scales=compressed(by_name(h, "tall")["scales"].content))),
    "unknown codec": before(with_part("int", "codes", Part(bytes(95), codec="lz4"))),
    "codec none for a frame": after(setting("kept", "data.codec", "none")),
    "codec zstd for plain bytes": after(setting("int", "codes.codec", "zstd")),
    "frame cut off": before(stored("kept", "data", lambda x: x[:-1])),
    "frame damaged": before(setting_bytes("kept", "data", 0, b"\xff")),
    "frame empty": before(setting("kept", "data", Part(b"", codec="zstd", raw=1536))),
    "two frames": before(stored("kept", "data", lambda x: compressed(bytes(768)).content * 2)),
    "bytes after the frame": before(stored("kept", "data", lambda x: x + b"\0")),
    "an empty frame after it": before(stored("kept", "data", lambda x: x + compressed(b"").content)),
    "a skippable frame first": before(stored("kept", "data", lambda x: b"\x50\x2a\x4d\x18\0\0\0\0" + x)),
    "frame with less": before(kept([1024], framed(compressed(bytes(4000)).content, bytes(4000), 4096))),
    "frame with more": before(kept([1024], framed(compressed(bytes(5000)).content, bytes(5000), 4096))),
    "frame with less, size unsaid": lambda: file_of(kept([BOMB], framed(zeros_frame(1 << 20), bytes(1 << 20), 4 * BOMB))),
    "bomb": lambda: file_of(kept([1024], framed(zeros_frame(BOMB), bytes(BOMB), 4096))),
    "bomb that says its size": lambda: file_of(kept([1024], framed(compressed(bytes(1 << 26)).content, bytes(1 << 26), 4096))),
    "bomb in a file": before(lambda h: h["files"].append({"path": "new", "data": framed(zeros_frame(BOMB), bytes(BOMB), 4096)})),
    "frame of 2^60 bytes": lambda: file_of(kept([1 << 58], framed(zeros_frame(1 << 20), bytes(1 << 20), 1 << 60))),
    "frame with a window of 16 MiB": lambda: file_of(kept([1024], framed(zeros_frame(4096, 24), bytes(4096)))),
    # what the blobs hold
    "code out of the narrow range": before(setting_bytes("int", "codes", 0, b"\x88")),
    "code out of ternary": before(setting_bytes("ternary", "codes", 0, b"\x02")),
    "code that is NaN": before(setting_bytes("e4m3fn", "codes", 0, b"\x7f")),
    "zero point out of the narrow range": before(setting_bytes("int", "zeros", 0, b"\x88")),
    "bits after a row": before(setting_bytes("int", "codes", 18, b"\x10")),
    "bits after the zero points": before(setting_bytes("int", "zeros", 7, b"\x10")),
    "code out of the narrow range in tiles": before(both(setting_bytes("tiles", "codes", 0, b"\0"), setting_bytes("tiles", "codes", 256, b"\x03"))),
    "code beyond the columns of tiles": before(setting_bytes("tiles", "codes", 320 + 64 * 1, b"\x01")),
    "code beyond the rows of tiles": before(setting_bytes("tall", "codes", -1, b"\x10")),
    "scale beyond the rows of tiles": before(setting_bytes("tiles", "scales", -1, b"\x01")),
    "zero point beyond the rows of tiles": before(setting_bytes("tiles", "zeros", -1, b"\x01")),
    "zero point out of the narrow range in tiles": before(setting_bytes("tiles", "zeros", 0, b"\x10")),
    "min infinite": before(setting_bytes("tall", "zeros", 0, b"\x00\x00\x80\xff")),
    "scale -infinite, sign any": before(setting_bytes("tall", "scales", 0, b"\x00\x00\x80\xff")),
    "scale NaN": before(setting_bytes("int", "scales", 0, b"\x01\x7c")),
    "scale infinite": before(setting_bytes("int", "scales", 0, b"\x00\x7c")),
    "scale negative": before(setting_bytes("int", "scales", 0, b"\x00\xbc")),
    "scale e4m3 NaN": before(setting_bytes("e4m3fn", "scales", 0, b"\x7f")),
    "scale e4m3 negative": before(setting_bytes("e4m3fn", "scales", 0, b"\x81")),
    "tensor_scale NaN": before(setting_bytes("e4m3fn", "tensor_scale", 0, b"\x00\x00\xc0\x7f")),
    "tensor_scale negative": before(setting_bytes("e4m3fn", "tensor_scale", 0, b"\x00\x00\x80\xbf")),
    "zero point NaN": before(setting_bytes("float", "zeros", 0, b"\x00\x00\xc0\x7f")),
    "codebook descending": before(setting_bytes("palette", "codebook", 0, np.float32([4, 3, 2, 1]).tobytes())),
    "codebook NaN": before(setting_bytes("palette", "codebook", 12, b"\x00\x00\xc0\x7f")),
    "codebook infinite": before(setting_bytes("palette", "codebook", 12, b"\x00\x00\x80\x7f")),
}


def run_within(memory, *command):
    """Runs a command with so much address space at most; gives its exit code, output, error and seconds."""
    limited = ["sh", "-c", 'ulimit -v "$1"; shift; exec "$@"', "sh", str(memory >> 10), *map(str, command)]
    start = time.monotonic()
    done = subprocess.run(limited, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - start


@pytest.fixture(scope="module")
def baseline(crumb_bin, tmp_path_factory):
    """A file without damage is fine; the address space that `crumb verify` needs for it."""
    path = tmp_path_factory.mktemp("good") / "good.crumb"
    path.write_bytes(file_of())
    assert len(crumb_reader.read(path)) == 11 and len(crumb_reader.read_files(path)) == 2
    for mebibytes in range(8, 4096, 8):
        code, _, err, _ = run_within(mebibytes << 20, crumb_bin, "verify", path)
        if code == 0:
            return mebibytes << 20
    raise AssertionError(err)


@pytest.mark.parametrize("damage", DAMAGES)
def test_refuses(crumb_bin, tmp_path, baseline, damage):
    path = tmp_path / "bad.crumb"
    path.write_bytes(DAMAGES[damage]())
    with pytest.raises(ValueError) as refused:
        crumb_reader.read(path)
    memory = baseline + path.stat().st_size + (64 << 20)
    code, out, err, seconds = run_within(memory, crumb_bin, "verify", path)
    print(f"reader: {refused.value}"[:300], err, sep="\n", end="")
    assert code == 1 and out == "", (code, out, err)
    assert err.startswith("crumb: ") and err.count("\n") == 1 and len(err) < 500, err
    assert "bad_alloc" not in err and "out of memory" not in err and seconds < 5, (err, seconds)
    code, out, err, seconds = run_within(1 << 32, crumb_bin, "dequantize", path, "-o", tmp_path / "out.safetensors")
    assert code in (0, 1) and seconds < 5, (code, out, err)


@pytest.mark.parametrize("before, after", [(b"", b"\0"), (b"", b"\0garbage"), (b"\xef\xbb\xbf", b"")])
def test_refuses_bytes_that_are_not_json_around_the_header(crumb, tmp_path, before, after):
    path = tmp_path / "bad.crumb"
    path.write_bytes(seal(before + b'{"format":"crumb","model":"","features":[],"tensors":[],"files":[]}' + after, b""))
    with pytest.raises(ValueError):
        crumb_reader.read(path)
    crumb("verify", path, status=1)
