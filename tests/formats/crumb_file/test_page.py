"""What docs/crumb_file.md settles where a reader might guess: a case for each, and both readers agree with the page."""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crumb_reader  # noqa: E402
from crumb_builder import Part, compressed, framed, layout, seal, tensor  # noqa: E402

K = 1 << 58


def file_with(tensors=(), files=(), model="", **options):
    entries = [{"path": path, "data": part} for path, part in files]
    return layout({"format": "crumb", "model": model, "tensors": list(tensors), "files": entries}, **options)


def kept(shape, content=b"", dtype="F32", name="w"):
    return {"name": name, "dtype": dtype, "shape": list(shape), "data": content if isinstance(content, Part) else Part(content)}


def encoded(shape, **keys):
    return tensor("w", shape, **{"number": "int4", "block": (1, 16), **keys})


def path(text):
    return file_with(files=[(text, Part(b"x"))])


def paths(*texts):
    return file_with(files=[(text, Part(b"x")) for text in texts])


def header(old, new):
    """A file of one tensor whose header has another text in one place."""

    def edit(text):
        assert old in text, (old, text)
        return text.replace(old, new, 1)

    return file_with([encoded((3, 16))], edit_text=edit)


def window(byte, size_known):
    """A frame of 300 zero bytes with a window descriptor: 2^(10 + byte / 8) bytes and more."""
    head = bytes([0x40]) + bytes([byte]) + struct.pack("<H", 300 - 256) if size_known else bytes([0x00, byte])
    block = 1 | 1 << 1 | 300 << 3  # the last, a byte repeated 300 times
    return framed(b"\x28\xb5\x2f\xfd" + head + struct.pack("<I", block)[:3] + b"\0", 300)


def long_name(model="", name="a"):
    """A header of a few MiB, without the spaces that layout() makes room for."""
    text = '{"format":"crumb","model":"%s","tensors":[{"name":"%s","dtype":"U8","shape":[],"data":{"offset":@@@@@@@@,"stored":1,"raw":1,"codec":"none","crc32":"d202ef8d"}}],"files":[]}' % (model, name)
    text = text.ljust((len(text) + 63) // 64 * 64)
    return seal(text.replace("@@@@@@@@", "%8d" % (64 + len(text))).encode(), b"\0")


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
}  # fmt: skip
REFUSED = {
    **{f"U+{code:04X} in a path": lambda code=code: path(f"a{chr(code)}b") for code in (*range(0x20), *range(0x7F, 0xA0))},
    "a path in a file": lambda: paths("a", "a/b"),
    "a path in a file, far": lambda: paths("a/b/c/d", "x", "a/b-", "a/b"),
    "half a pair of surrogates in a name": lambda: header('"name": "w"', '"name": "\\ud800"'),
    "a pair the wrong way round": lambda: header('"spec": "by hand"', '"spec": "\\ude00\\ud83d"'),
    "half a pair in a model": lambda: header('"model": ""', '"model": "\\udfff"'),
    "a surrogate in UTF-8": lambda: seal(b'{"format":"crumb","model":"\xed\xa0\x80","tensors":[],"files":[]}', b""),
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
    "a skippable frame": lambda: file_with([kept((0,), framed(SKIPPABLE, 0))]),
    "a skippable frame of a file": lambda: file_with(files=[("a", framed(b"\x5f\x2a\x4d\x18\x03\0\0\0abc", 0))]),
    "a skippable frame and nothing": lambda: file_with([kept((0,), framed(SKIPPABLE + compressed(b"").content, 0))]),
    "no frame": lambda: file_with([kept((0,), framed(b"", 0))]),
    "a frame of zstd 0.7": lambda: file_with([kept((0,), framed(b"\x27\xb5\x2f\xfd\x00\x00\xc0\x00\x00", 0))]),
    "a window above 8 MiB": lambda: file_with([kept((75,), window(13 << 3 | 1, True))]),
    "a window of 1 GiB": lambda: file_with([kept((75,), window(20 << 3, True))]),
    "a window above 8 MiB, size unsaid": lambda: file_with([kept((75,), window(13 << 3 | 1, False))]),
    "a header too long": lambda: long_name(name="x" * (7 << 20)),
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
        text = b'{"format":"crumb","model":"","tensors":[],"files":[]}'
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
