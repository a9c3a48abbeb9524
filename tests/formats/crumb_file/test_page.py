"""What docs/crumb_file.md settles where a reader might guess: a case for each, and both readers agree with the page."""

import json
import re
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crumb_reader  # noqa: E402
from crumb_builder import FIELDS, Part, compressed, framed, layout, pack, pack_tiles, seal, tensor  # noqa: E402

K = 1 << 58


def file_with(tensors=(), files=(), model="", **options):
    entries = [{"path": path, "data": part} for path, part in files]
    return layout({"format": "crumb", "model": model, "tensors": list(tensors), "files": entries}, **options)


def kept(shape, content=b"", dtype="F32", name="w"):
    return {"name": name, "dtype": dtype, "shape": list(shape), "data": content if isinstance(content, Part) else Part(content)}


def encoded(shape, **keys):
    return tensor("w", shape, **{"number": "int4", "block": (1, 16), **keys})


def path(text):
    """A file with a file of this path."""
    return file_with(files=[(text, Part(b"x"))])


def paths(*texts):
    return file_with(files=[(text, Part(b"x")) for text in texts])


def header(old, new, **options):
    """A file of one tensor whose header has another text in one place."""

    def edit(text):
        assert old in text, (old, text)
        return text.replace(old, new, 1)

    return file_with([encoded((3, 16))], edit_text=edit, **options)


def called(version, content):
    """A file that says that it is of another version."""
    start = content[:8] + struct.pack("<I", version) + content[12:36]
    return start + struct.pack("<I", zlib.crc32(start)) + content[40:]


def changed(part, at, value, shape=(17, 33), number="int4", **keys):
    """A file of one tensor, of whose part some bytes are others (the checksum follows)."""
    version = keys.pop("version", 2)
    entry = encoded(shape, number=number, **{"layout": "tiles", **keys})
    content = entry[part].content
    at %= len(content)
    assert content[at : at + len(value)] != value, (part, at)
    entry[part].content = content[:at] + value + content[at + len(value) :]
    return file_with([entry], version=version)


def one_code(code, cols, **keys):
    """A file of one row of int4 in tiles, whose codes are all the same."""
    entry = encoded((1, cols), layout="tiles", **keys)
    entry["codes"].content = pack_tiles(np.full((1, cols), code), 4)
    return file_with([entry])


def numbers(kind, *values):
    return np.array(values, kind).tobytes()


def in_frame(part, **keys):
    """A file of one tensor, one part of which is compressed."""
    entry = encoded((17, 33), **{"layout": "tiles", "number": "int4", **keys})
    entry[part] = compressed(entry[part].content)
    return file_with([entry])


def with_checksum(frame, of, **options):
    """A file of a compressed tensor, whose checksum is that of these bytes."""
    crc = f"{zlib.crc32(of):08x}"
    return file_with([kept((75,), framed(frame, MEANT))], edit_placed=lambda h: h["tensors"][0]["data"].update(crc32=crc), **options)


def with_features(features, **keys):
    return file_with([encoded((3, 16))], edit_placed=lambda h: h.update(features=features, **keys))


def window(byte, size_known):
    """A frame of 300 zero bytes with a window descriptor: 2^(10 + byte / 8) bytes and more."""
    head = bytes([0x40]) + bytes([byte]) + struct.pack("<H", 300 - 256) if size_known else bytes([0x00, byte])
    block = 1 | 1 << 1 | 300 << 3  # the last, a byte repeated 300 times
    return framed(b"\x28\xb5\x2f\xfd" + head + struct.pack("<I", block)[:3] + b"\0", bytes(300))


def long_name(model="", name="a"):
    """A header of a few MiB, without the spaces that layout() makes room for."""
    text = '{"format":"crumb","model":"%s","tensors":[{"name":"%s","dtype":"U8","shape":[],"data":{"offset":@@@@@@@@,"stored":1,"raw":1,"codec":"none","crc32":"d202ef8d"}}],"files":[],"features":[]}' % (model, name)
    text = text.ljust((len(text) + 63) // 64 * 64)
    return seal(text.replace("@@@@@@@@", "%8d" % (64 + len(text))).encode(), b"\0")


MEANT = 300 * b"a"
FRAME = compressed(MEANT).content
OLD = {"version": 1}
INT_ZEROS = {"zero": "int", "block": (1, 5)}
SKIPPABLE = b"\x50\x2a\x4d\x18\0\0\0\0"
SOUND = {
    "paths with other white space": lambda: paths("a b", "a\xa0b", "\u2028", "\ufeff"),
    "a path beside its beginning": lambda: paths("a-", "a/b", "a0", "ab"),
    "a path of three dots": lambda: path("..."),
    "a long path": lambda: path("/".join(["a"] * 20000)),
    "an escaped pair of surrogates": lambda: header('"name": "w"', '"name": "\\ud83d\\ude00"'),
    "a name of one zero": lambda: header('"name": "w"', '"name": "\\u0000"'),
    "a name of 5 MiB": lambda: long_name(name="x" * (5 << 20)),
    "a model of 5 MiB": lambda: long_name(model="x" * (5 << 20)),
    "a spec without characters": lambda: header('"spec": "by hand"', '"spec": ""'),
    "blocks of 2^64 - 1": lambda: file_with([encoded((3, 16), block=((1 << 64) - 1, (1 << 64) - 1))]),
    "no elements, kept": lambda: file_with([kept((0, K))]),
    "no elements, encoded": lambda: file_with([encoded((K, 0))]),
    "no elements, axes whose product is 2^58": lambda: file_with([kept((1 << 29, 0, 1 << 29)), {**encoded((0, 1 << 57, 2)), "name": "e"}]),
    "64 axes": lambda: file_with([kept([1] * 64, bytes(4))]),
    "the least exponent": lambda: header('"scale_exponent": 0', '"scale_exponent": -126'),
    "a frame of nothing": lambda: file_with([kept((0,), compressed(b""))]),
    "a window of 8 MiB": lambda: file_with([kept((75,), window(13 << 3, True))]),
    "a window of 8 MiB, size unsaid": lambda: file_with([kept((75,), window(13 << 3, False))]),
    "keys in another order": lambda: header('"format": "crumb", "model": ""', '"model": "", "format": "crumb"'),
    # versions
    "version 1": lambda: file_with([encoded((3, 16))], **OLD),
    "version 1 of nothing": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"files":[]}', b"", **OLD),
    "version 1 of kept tensors and files": lambda: file_with([kept((1,), bytes(4))], [("a", compressed(b"a" * 99))], **OLD),
    "version 1, no elements": lambda: file_with([encoded((0, 5), zero="int")], **OLD),
    # what checksums are of
    "a checksum of raw bytes": lambda: with_checksum(FRAME, MEANT),
    "version 1, a checksum of stored bytes": lambda: with_checksum(FRAME, FRAME, **OLD),
    # layouts
    **{f"tiles of {bits} bits": lambda bits=bits: file_with([encoded((17, 33), number=f"uint{bits}", layout="tiles")]) for bits in range(1, 9)},
    **{f"tiles of {number}": lambda number=number: file_with([encoded((5, 40), number=number, layout="tiles")]) for number in ("ternary", "binary", "nf4", "e2m3", "e5m2fnuz", "int3h", "palette5")},
    **{f"tiles of shape {shape}": lambda shape=shape: file_with([encoded(shape, layout="tiles", zero="int", block=(1, 5))]) for shape in ((), (1,), (31,), (16, 32), (16, 33), (17, 32), (2, 3, 4, 5), (0, 5), (5, 0), (0,), (K, 0))},
    "tiles, blocks of a tensor": lambda: file_with([encoded((17, 33), layout="tiles", block=((1 << 64) - 1, (1 << 64) - 1))]),
    "tiles, blocks of a row": lambda: file_with([encoded((17, 33), layout="tiles", block=(1, (1 << 64) - 1))]),
    "tiles, blocks of 16 rows": lambda: file_with([encoded((17, 33), layout="tiles", block=(16, 7), zero="int")]),
    "tiles beside what is compressed": lambda: file_with([encoded((17, 33), layout="tiles"), kept((1200,), compressed(bytes(4800)), name="k")], [("a", compressed(MEANT))]),
    "the narrow range, zeros beyond the matrix": lambda: one_code(1, 33, kind="narrow", zero="int"),
    "uint4 in the narrow range": lambda: file_with([encoded((17, 33), number="uint4", kind="narrow", layout="tiles", zero="int")]),
    "e8m0 beyond the matrix": lambda: file_with([encoded((17, 33), layout="tiles", scale="e8m0")]),
    "rows, compressed": lambda: in_frame("codes", layout="rows"),
    # signs
    **{f"{scale}, sign any": lambda scale=scale: file_with([encoded((17, 33), scale=scale, sign="any")]) for scale in ("f32", "f16", "bf16")},
    "a negative scale": lambda: changed("scales", 0, numbers("<f4", -1), sign="any"),
    "a negative e4m3 scale, sign any": lambda: changed("scales", 0, b"\x81", scale="e4m3", sign="any"),
    "a scale of -0, sign any": lambda: changed("scales", 0, numbers("<f4", -0.0), sign="any"),
    "a negative scale in rows": lambda: changed("scales", 0, numbers("<f4", -1), sign="any", layout="rows"),
    "a negative f16 scale": lambda: changed("scales", 0, numbers("<f2", -1), sign="any", scale="f16"),
    "a negative bf16 scale": lambda: changed("scales", 0, numbers("<u2", 0xBF80), sign="any", scale="bf16"),
    "sign any of scales that are plus": lambda: changed("scales", 0, numbers("<f4", 2), sign="any"),
    "sign any, tensor_scale and exponent": lambda: file_with([encoded((17, 33), scale="f16", sign="any", exponent=-20, tensor_scale=0.5)]),
    # min
    **{f"min of {number}": lambda number=number: file_with([encoded((17, 33), number=number, zero="min")]) for number in ("int2", "int8", "uint1", "uint8")},
    **{f"min beside {scale}": lambda scale=scale: file_with([encoded((17, 33), number="uint4", zero="min", scale=scale, layout="tiles")]) for scale in crumb_reader.SCALES},
    "min of the greatest": lambda: changed("zeros", 0, numbers("<f4", np.finfo("<f4").max), zero="min"),
    "min of -0": lambda: changed("zeros", 0, numbers("<f4", -0.0), zero="min"),
    "min, sign any": lambda: file_with([encoded((17, 33), number="uint4", zero="min", sign="any", layout="tiles")]),
}  # fmt: skip
REFUSED = {
    **{f"U+{code:04X} in a path": lambda code=code: path(f"a{chr(code)}b") for code in (*range(0x20), *range(0x7F, 0xA0))},
    "a path in a file": lambda: paths("a", "a/b"),
    "a path in a file, far": lambda: paths("a/b/c/d", "x", "a/b-", "a/b"),
    "half a pair of surrogates in a name": lambda: header('"name": "w"', '"name": "\\ud800"'),
    "a pair the wrong way round": lambda: header('"spec": "by hand"', '"spec": "\\ude00\\ud83d"'),
    "half a pair in a model": lambda: header('"model": ""', '"model": "\\udfff"'),
    "a surrogate in UTF-8": lambda: seal(b'{"format":"crumb","model":"\xed\xa0\x80","features":[],"tensors":[],"files":[]}', b""),
    "blocks of 2^64": lambda: file_with([encoded((3, 16), block=(1, 1 << 64))]),
    "blocks of 2^70": lambda: file_with([encoded((3, 16), block=(1 << 70, 16))]),
    "no elements, kept, beyond": lambda: file_with([kept((0, K, K))]),
    "no elements, encoded, beyond": lambda: file_with([encoded((0, K, K))]),
    "no elements, kept, 2^59": lambda: file_with([kept((2, 0, K))]),
    "no elements, encoded, 2^59": lambda: file_with([encoded((2, 0, K))]),
    "no elements, an axis beyond": lambda: file_with([kept((0, K + 1))]),
    "65 axes": lambda: file_with([kept([1] * 65, bytes(4))]),
    "65 axes, encoded": lambda: file_with([encoded([1] * 65)]),
    "an exponent of -0": lambda: header('"scale_exponent": 0', '"scale_exponent": -0'),
    "a size of -0": lambda: header('"shape": [3, 16]', '"shape": [3, 16, -0]'),
    "a skippable frame": lambda: file_with([kept((0,), framed(SKIPPABLE, b""))]),
    "a skippable frame of a file": lambda: file_with(files=[("a", framed(b"\x5f\x2a\x4d\x18\x03\0\0\0abc", b""))]),
    "a skippable frame and nothing": lambda: file_with([kept((0,), framed(SKIPPABLE + compressed(b"").content, b""))]),
    "no frame": lambda: file_with([kept((0,), framed(b"", b""))]),
    "a frame of zstd 0.7": lambda: file_with([kept((0,), framed(b"\x27\xb5\x2f\xfd\x00\x00\xc0\x00\x00", b""))]),
    "a window above 8 MiB": lambda: file_with([kept((75,), window(13 << 3 | 1, True))]),
    "a window of 1 GiB": lambda: file_with([kept((75,), window(20 << 3, True))]),
    "a window above 8 MiB, size unsaid": lambda: file_with([kept((75,), window(13 << 3 | 1, False))]),
    "a header too long": lambda: long_name(name="x" * (7 << 20)),
    # versions
    **{f"version {version}": lambda version=version: file_with([encoded((3, 16))], version=version) for version in (0, 3, 256, 1 << 16, 1 << 31, (1 << 32) - 1)},
    **{f"version {version}, like 1": lambda version=version: called(version, file_with([encoded((3, 16))], **OLD)) for version in (0, 2, 3)},
    "version 1, like 2": lambda: called(1, file_with([encoded((3, 16))])),
    "version 1 of nothing, like 2": lambda: called(1, file_with()),
    "version 2 of nothing, like 1": lambda: called(2, file_with(**OLD)),
    "version 2 without features": lambda: header('"features": []', '"note": []'),
    "version 2 without features, no other": lambda: seal(b'{"format":"crumb","model":"","tensors":[],"files":[]}', b""),
    "version 2 without sign": lambda: header('"sign": "plus", ', ""),
    "version 2 without layout": lambda: header(', "layout": "rows"', ""),
    "version 1 with features": lambda: header('"format"', '"features": [], "format"', **OLD),
    "version 1 with a feature": lambda: header('"format"', '"features": ["outliers"], "format"', **OLD),
    "version 1 with sign": lambda: header('"zero"', '"sign": "plus", "zero"', **OLD),
    "version 1 with layout": lambda: header('"zero"', '"layout": "rows", "zero"', **OLD),
    "version 1 in tiles": lambda: file_with([encoded((17, 33), layout="tiles")], **OLD),
    "version 1 with sign any": lambda: file_with([encoded((17, 33), sign="any")], **OLD),
    "version 1 with min": lambda: file_with([encoded((17, 33), zero="min")], **OLD),
    "version 1 with a negative scale": lambda: changed("scales", 0, numbers("<f4", -1), layout="rows", **OLD),
    **{f"two times the key {key}": lambda key=key: header(f'"{key}"', f'"{key}": {value}, "{key}"') for key, value in (("features", "[]"), ("sign", '"plus"'), ("layout", '"rows"'))},
    # features
    **{f"features {json.dumps(value)}": lambda value=value: with_features(value) for value in (
        ["adapters"], ["outliers"], ["cache"], ["adapters", "outliers", "cache"], ["outliers", "outliers"], ["new"], [""], ["Outliers"], ["\0"], ["x" * 3000],
        None, {}, "", "outliers", 0, True, [0], [None], [[]], [["outliers"]], ["outliers", 0])},
    "adapters with their key": lambda: with_features(["adapters"], adapters=[]),
    "cache with its key": lambda: with_features(["cache"], cache=[]),
    "adapters without the feature": lambda: with_features([], adapters=[]),
    "cache without the feature": lambda: with_features([], cache=[]),
    "outliers without the feature": lambda: file_with([encoded((3, 16))], edit_placed=lambda h: h["tensors"][0].update(outlier_places=h["tensors"][0]["codes"])),
    "features in a tensor": lambda: header('"shape"', '"features": [], "shape"'),
    # what checksums are of
    "a checksum of stored bytes": lambda: with_checksum(FRAME, FRAME),
    "version 1, a checksum of raw bytes": lambda: with_checksum(FRAME, MEANT, **OLD),
    "a frame of other bytes": lambda: file_with([kept((75,), framed(compressed(300 * b"b").content, MEANT))]),
    "a frame of a file of other bytes": lambda: file_with(files=[("a", framed(compressed(300 * b"b").content, MEANT))]),
    "a checksum of stored bytes, of nothing": lambda: file_with([kept((0,), framed(compressed(b"").content, compressed(b"").content, 0))]),
    # layouts
    **{f"layout {value}": lambda value=value: header('"layout": "rows"', f'"layout": {value}') for value in ('"tile"', '"Tiles"', '""', '"columns"', '"tiles"', "0", "null", "[]", '["rows"]')},
    "tiles that are called rows": lambda: file_with([encoded((17, 33), layout="tiles")], edit_placed=lambda h: h["tensors"][0]["encoding"].update(layout="rows")),
    "layout of a kept tensor": lambda: header('"shape"', '"layout": "rows", "shape"'),
    # (17, 33): tile (0, 1) has column 32 only, tile (1, 0) row 16 only; 256 bytes each
    "tiles, a code behind the last column": lambda: changed("codes", 256, b"\xf0"),
    "tiles, a code behind the last column, far": lambda: changed("codes", 511, b"\x10"),
    "tiles, a code below the last row": lambda: changed("codes", 512 + 4, b"\x01"),
    "tiles, the last code of all": lambda: changed("codes", -1, b"\x80"),
    **{f"tiles of {bits} bits, a bit of field {i} beyond the matrix": lambda bits=bits, i=i: changed("codes", 64 * sum(FIELDS[bits][: i + 1]) - 1, b"\x80", (15, 32), f"uint{bits}") for bits in range(1, 9) for i in range(len(FIELDS[bits]))},
    **{f"tiles, a slot of no row, {scale}": lambda scale=scale: changed("scales", -1, b"\x01", scale=scale) for scale in crumb_reader.SCALES},
    "tiles, a slot of no row, -0": lambda: changed("scales", -1, b"\x80"),
    "tiles, a slot of no row, -0, sign any": lambda: changed("scales", -1, b"\x80", sign="any"),
    "tiles, the first slot of no row": lambda: changed("scales", 4 * (16 * 3 + 1), b"\x01"),
    "tiles, a slot of no row, e8m0 of 0": lambda: changed("scales", -1, b"\xff", scale="e8m0"),
    "tiles, an int zero point of no row": lambda: changed("zeros", -1, b"\x10", **INT_ZEROS),
    "tiles, an int zero point of no row, within a byte": lambda: changed("zeros", (16 * 7 + 1) * 4 // 8, b"\xf0", (17, 33), **INT_ZEROS),
    "tiles, bits after int zero points": lambda: changed("zeros", -1, b"\x08", (1, 1), "uint3", zero="int", block=(2, 1)),
    "tiles, a float zero point of no row": lambda: changed("zeros", -1, b"\x01", zero="float"),
    "tiles, a min of no row": lambda: changed("zeros", -1, b"\x80", zero="min"),
    "tiles, a code out of the narrow range": lambda: one_code(8, 32, kind="narrow"),
    "tiles, a code of uint4 out of the narrow range": lambda: one_code(15, 32, number="uint4", kind="narrow"),
    "tiles, an int zero point out of the narrow range": lambda: changed("zeros", 0, b"\x88", kind="narrow", zero="int"),
    "tiles, a code that is NaN": lambda: changed("codes", 0, b"\x7f", number="e4m3fn"),
    "tiles, a code out of ternary": lambda: changed("codes", 0, b"\x02", number="ternary"),
    **{f"tiles, {part} compressed": lambda part=part, number=number, keys=keys: in_frame(part, number=number, **keys) for part, number, keys in (
        ("codes", "int4", {}), ("scales", "int4", {}), ("zeros", "int4", {"zero": "int"}), ("codebook", "palette3", {}), ("tensor_scale", "int4", {"tensor_scale": 1.0}))},
    "tiles, no codes, compressed": lambda: file_with([{**encoded((0, 5), layout="tiles"), "codes": compressed(b"")}]),
    **{f"tiles, {part} of the size of rows": lambda part=part: file_with([{**encoded((17, 33), layout="tiles", zero="int"), part: encoded((17, 33), zero="int")[part]}]) for part in ("codes", "scales", "zeros")},
    # signs
    **{f"sign {value}": lambda value=value: header('"sign": "plus"', f'"sign": {value}') for value in ('"minus"', '"Plus"', '""', '"+"', "1", "null", "true")},
    "a negative scale, sign plus": lambda: changed("scales", 0, numbers("<f4", -1)),
    "a scale of -0, sign plus": lambda: changed("scales", 0, numbers("<f4", -0.0)),
    "a scale of -infinity, sign any": lambda: changed("scales", 0, numbers("<f4", -np.inf), sign="any"),
    "a scale of NaN, sign any": lambda: changed("scales", 0, numbers("<f4", np.nan), sign="any"),
    "a scale that overflows, sign any": lambda: changed("scales", 0, numbers("<f4", -1e38), sign="any", exponent=4),
    "a negative tensor_scale, sign plus": lambda: file_with([encoded((3, 16), tensor_scale=-1.0)]),
    "a negative tensor_scale, sign any": lambda: file_with([encoded((3, 16), tensor_scale=-1.0, sign="any")]),
    "a tensor_scale of -0, sign any": lambda: file_with([encoded((3, 16), tensor_scale=-0.0, sign="any")]),
    "a tensor_scale of NaN, sign any": lambda: file_with([encoded((3, 16), tensor_scale=np.nan, sign="any")]),
    # min
    **{f"min of {value}": lambda value=value: changed("zeros", 0, numbers("<f4", value), zero="min") for value in (np.inf, -np.inf, np.nan)},
    "min of f16 that is infinite": lambda: changed("zeros", 0, numbers("<u2", 0x7C00), zero="min", scale="f16"),
    "min of bf16 that is NaN": lambda: changed("zeros", 0, numbers("<u2", 0x7FC0), zero="min", scale="bf16"),
    "min in a format of 2 bytes beside f32": lambda: file_with([{**encoded((17, 33), zero="min"), "zeros": encoded((17, 33), zero="min", scale="f16")["zeros"]}]),
    "min without zeros": lambda: header('"zero": "none"', '"zero": "min"'),
    **{f"min of {number}": lambda number=number: file_with([encoded((3, 16), number=number, zero="min")]) for number in crumb_reader.NUMBERS if not re.fullmatch(r"u?int\d", number)},
    **{f"zero {value}": lambda value=value: header('"zero": "none"', f'"zero": {value}') for value in ('"max"', '"Min"', '""', "null", "0")},
}  # fmt: skip


@pytest.mark.parametrize("wanted, cases", [("sound", SOUND), ("refused", REFUSED)])
def test_both_readers_agree_with_the_page(verdicts, tmp_path, wanted, cases):
    paths = []
    for i, make in enumerate(cases.values()):
        paths.append(tmp_path / f"{i}.crumb")
        paths[-1].write_bytes(make())
    wrong = []
    for name, path, ours in zip(cases, paths, verdicts(paths), strict=True):
        try:
            crumb_reader.read(path)
            page = "sound"
        except ValueError as error:
            page = f"refused {error}"
        if not ours.startswith(wanted) or not page.startswith(wanted):
            wrong.append((name, ours[:200], page[:200]))
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_header_as_long_as_it_may_be(verdicts, tmp_path):
    """6 MiB and a sixteenth of the file, to the byte."""
    for more, wanted in ((0, "sound"), (1, "refused")):
        length = next(n for n in range((6 << 20) + (6 << 16), 8 << 20) if n == (6 << 20) + (64 + n) // 16) + more
        text = b'{"format":"crumb","model":"","features":[],"tensors":[],"files":[]}'
        path = tmp_path / f"{more}.crumb"
        path.write_bytes(seal(text.ljust(length), b""))
        if more and length <= (6 << 20) + path.stat().st_size // 16:
            pytest.fail("the length is not one too many")
        assert verdicts([path])[0].startswith(wanted)
        if wanted == "sound":
            crumb_reader.read(path)
        else:
            with pytest.raises(ValueError, match="too long"):
                crumb_reader.read(path)


@pytest.mark.parametrize("feature", ["adapters", "outliers", "cache", "of the future"])
def test_features_are_refused_by_name(verdicts, tmp_path, feature):
    path = tmp_path / "m.crumb"
    path.write_bytes(with_features([feature]))
    ours = verdicts([path])[0]
    assert ours.startswith("refused") and feature in ours
    with pytest.raises(ValueError, match=feature):
        crumb_reader.read(path)


# --- Tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", range(1, 9))
def test_two_readings_of_the_tiles(bits):
    """The builder goes from byte to byte as the page does, the reader cuts arrays: they mean the same."""
    rng = np.random.default_rng(bits)
    for shape in ((1, 1), (1, 31), (2, 33), (15, 32), (16, 32), (17, 1), (31, 65), (48, 96), (33, 100), (0, 0)):
        codes = rng.integers(0, 1 << bits, shape)
        tiles = pack_tiles(codes, bits)
        assert len(tiles) == -(-shape[0] // 16) * -(-shape[1] // 32) * 64 * bits
        np.testing.assert_array_equal(crumb_reader._unpack_tiles(tiles, *shape, bits), codes)
        np.testing.assert_array_equal(crumb_reader._unpack(pack(codes, bits), *shape, bits), codes)


def test_tiles_by_hand():
    """What the page says of single bytes: (bits, row, column, code) of a matrix of 32 x 64, and the bytes that are not zero."""
    for bits, row, col, code, wanted in (
        (8, 0, 0, 0xAB, {0: 0xAB}), (8, 3, 6, 0xAB, {64 * 1 + 4 * 3 + 2: 0xAB}), (8, 31, 63, 1, {3 * 512 + 511: 1}),
        (4, 0, 0, 0xB, {0: 0x0B}), (4, 0, 4, 0xB, {0: 0xB0}), (4, 5, 8 * 3 + 4 + 1, 0xB, {64 * 3 + 4 * 5 + 1: 0xB0}),
        (2, 15, 16 + 4 * 3 + 2, 3, {64 + 4 * 15 + 2: 0xC0}), (1, 2, 4 * 7 + 3, 1, {4 * 2 + 3: 0x80}),
        (7, 1, 9, 0b1_01_1100, {64 * 1 + 4 + 1: 0x0C, 256 + 4 + 1: 0b01 << 4, 384 + 4 + 1: 1 << 2}),
        (6, 16, 32, 0b11_0010, {3 * 384: 0x02, 3 * 384 + 256: 3}), (5, 0, 32, 0b1_0000, {320 + 256: 1}),
        (3, 16, 0, 0b1_10, {2 * 192: 2, 2 * 192 + 128: 1}),
    ):  # fmt: skip
        codes = np.zeros((32, 64), int)
        codes[row, col] = code
        packed = bytearray(32 * 64 * bits // 8)
        for at, byte in wanted.items():
            packed[at] = byte
        assert pack_tiles(codes, bits) == packed, (bits, row, col)
        np.testing.assert_array_equal(crumb_reader._unpack_tiles(bytes(packed), 32, 64, bits), codes)


@pytest.mark.parametrize("zero", ["none", "int", "float", "min"])
def test_slots_of_tiles(tmp_path, zero):
    """Scales and zero points of tiles are those of the same blocks; of a version 1, where it has them, as well."""
    path = tmp_path / "m.crumb"
    for shape, block in (((17, 33), (1, 5)), ((40, 7), (1, 1)), ((1, 100), (1, 32)), ((5,), (1, 2)), ((33, 40), (2, 7)), ((17, 33), (16, 32))):
        for number, scale in (("int3", "f16"), ("uint5", "e8m0"), ("int8", "f32")):
            values = []
            for version, lies in ((2, "rows"), (2, "tiles"), (1, "rows")):
                if version == 2 or zero != "min":
                    path.write_bytes(file_with([encoded(shape, number=number, scale=scale, block=block, zero=zero, layout=lies)], version=version))
                    values.append(crumb_reader.read(path)["w"].tobytes())
            assert len(set(values)) == 1, (shape, block, number, scale)


def test_values_of_min_and_of_signs(tmp_path):
    """By hand: the product is rounded, then the sum; a scale of -0 makes zeros of the other sign."""
    entry = encoded((1, 6), number="uint4", block=(1, 2), zero="min", sign="any")
    entry["codes"].content = pack(np.array([[0, 3, 3, 10, 0, 1]]), 4)
    entry["scales"].content = numbers("<f4", np.float32(0.1), -2.5, -0.0)
    entry["zeros"].content = numbers("<f4", np.float32(0.7), 1e-3, -0.0)
    path = tmp_path / "m.crumb"
    path.write_bytes(file_with([entry]))
    three = np.float32(np.float32(3) * np.float32(0.1))
    wanted = [np.float32(0.7), three + np.float32(0.7), np.float32(-7.5) + np.float32(1e-3), np.float32(-25) + np.float32(1e-3), -0.0, -0.0]
    assert crumb_reader.read(path)["w"].tobytes() == numbers("<f4", *wanted)


# --- NaN --------------------------------------------------------------------------------------------------------------


def bits_after_the_page(dtype, bits):
    """The bits of the binary32 that a pattern of 8, 16 or 64 bits widens to, from the page's words."""
    if dtype == "BF16":
        return bits << 16
    if dtype == "F16":
        sign, exponent, mantissa = bits >> 15, bits >> 10 & 31, bits & 0x3FF
        if exponent == 31:
            return sign << 31 | 0xFF << 23 | mantissa << 13
        value = np.ldexp(np.float64(mantissa + 1024 * (exponent > 0)), max(exponent, 1) - 25)
        return int(np.float32(-value if sign else value).view(np.uint32))
    if dtype == "F64":
        return bits >> 63 << 31 | 0xFF << 23 | 1 << 22 | bits >> 29 & 0x3FFFFF
    value = {"F8_E8M0": e8m0}.get(dtype, small_float)(dtype, bits)
    return 0x7FC00000 if value is None else int(np.float32(value).view(np.uint32))


def e8m0(_, byte):
    return None if byte == 255 else np.ldexp(1.0, byte - 127)


def small_float(dtype, byte):
    x = 5 if "E5" in dtype else 4
    y, fnuz = 7 - x, dtype.endswith("FNUZ")
    sign, e, m = byte >> 7, byte >> y & ((1 << x) - 1), byte & ((1 << y) - 1)
    greatest = e == (1 << x) - 1
    if (fnuz and byte == 0x80) or (dtype == "F8_E4M3" and greatest and m == 7) or (dtype == "F8_E5M2" and greatest and m > 0):
        return None
    bias = (1 << (x - 1)) - (not fnuz)
    value = np.ldexp(1 + m / (1 << y), e - bias) if e > 0 else np.ldexp(m / (1 << y), 1 - bias)
    value = np.inf if dtype == "F8_E5M2" and greatest else value
    return -value if sign else value


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F8_E5M2", "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F64"])
def test_every_pattern_widens_as_the_page_says(verdicts, tmp_path, dtype):
    """NaN's sign and payload included, at every place that a vector of a processor may have."""
    if dtype == "F64":
        rng = np.random.default_rng(3)
        nan = np.uint64(0x7FF) << np.uint64(52) | rng.integers(1, 1 << 52, 4000, np.uint64) >> rng.integers(0, 51, 4000, np.uint64)
        nan[(nan & np.uint64((1 << 52) - 1)) == 0] += np.uint64(1)
        patterns = nan | rng.integers(0, 2, 4000, np.uint64) << np.uint64(63)
    else:
        kind = np.uint16 if "16" in dtype else np.uint8
        patterns = np.tile(np.arange(1 << 8 * np.dtype(kind).itemsize).astype(kind), 3)[1:]
    path = tmp_path / "m.crumb"
    path.write_bytes(file_with([kept(patterns.shape, patterns.tobytes(), dtype)]))
    wanted = np.array([bits_after_the_page(dtype, int(bits)) for bits in patterns], np.uint32)
    assert verdicts([path]) == [f"sound {zlib.crc32(wanted.tobytes()):08x}"]
    np.testing.assert_array_equal(crumb_reader.read(path)["w"].view(np.uint32), wanted)
