"""Thousands of packed files, sound and damaged, through our reader and through the one that was written from the page:
the same verdict, and the same values bit for bit."""

import functools
import json
import random
import re
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import crumb_reader  # noqa: E402
from crumb_builder import Part, compressed, layout, parts_of, stacked, tensor  # noqa: E402

HOSTILE = [0, 1, 2, 63, 64, 65, 126, 127, 1 << 31, 1 << 32, 1 << 53, 1 << 58, (1 << 58) + 1, 1 << 62, (1 << 62) + 64,
           1 << 63, (1 << 64) - 64, (1 << 64) - 1, 1 << 64, (1 << 64) + 1, 1 << 70, -1, -64, -126, -127, -(1 << 63)]  # fmt: skip
WORDS = {  # by key: words that are right for some tensor, and wrong ones
    "dtype": [*crumb_reader.FLOATS, *crumb_reader.OTHERS, "f32", "F31", ""],
    "number": [*crumb_reader.NUMBERS, "int1", "int9", "uint0", "e8m0", "e0m3", "e9m0", "palette0", "palette9", "INT4"],
    "range": ["full", "narrow", "wide", ""],
    "scale": [*crumb_reader.SCALES, "f64", "e4m3fn", ""],
    "zero": ["none", "int", "float", "min", "half"],
    "sign": ["plus", "any", "minus", ""],
    "layout": ["rows", "tiles", "columns", ""],
    "features": ["stacks", "adapters", "outliers", "cache", "new", ""],
    "codec": ["none", "zstd", "zlib", ""],
    "format": ["crumb", "Crumb"],
    "model": ["", "BertModel", "graph", "\0", "é" * 1000],
    "name": ["", "a", "w0", "w1", "\0", "\x7f", "ü/..", " ", "x" * 3000],
    "spec": ["", "int4", "\0"],
    "path": ["", "a", "a/b", "a/b/c", "a-", "b", "/a", "a/", "a//b", ".", "..", "./a", "a/..", "a/...", "..a", "a\\b", "c:",
             "a\0", "a\x1f", "a\x20", "a\x7f", "a\x80", "a\x9f", "a\xa0", "é", "\u2028", "\ufeff", "graph.onnx"],
    "crc32": ["00000000", "0", "ABCDEF01", "0000000g"],
}  # fmt: skip
TEXT = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"-", b"-0", b"1e3", b".0", b" ", b"\n", b"\t", b"\v", b"\0",
        b"\x7f", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"null", b"true", b"\\ud800", b"\\ud83d\\ude00",
        b"\\udc00\\ud800", b"\\u0000", b"/**/", b"//", b"'", b"NaN", b"Infinity"]  # fmt: skip


# --- Sound files ------------------------------------------------------------------------------------------------------


def some_shape(rng):
    if rng.random() < 0.15:
        return rng.choice([[16, 32], [17, 33], [40, 70], [33, 5], [2, 100]])
    shape = [rng.choice([1, 1, 2, 3, 5, 8, 17]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 4]))]
    if shape and rng.random() < 0.1:
        shape[rng.randrange(len(shape))] = 0
        if rng.random() < 0.3:
            shape.append(rng.choice([1 << 58, 1 << 57, 1 << 29]))
    return shape


def some_block(rng):
    size = lambda: rng.choice([1, 1, 2, 3, 4, 16, 40, 1 << 32, (1 << 64) - 1])  # noqa: E731
    return size(), size()


def some_tensor(rng, name, version):
    if rng.random() < 0.6:
        number = rng.choice(sorted(crumb_reader.NUMBERS))
        integer = re.fullmatch(r"u?int\d", number)
        keys = {"tensor_scale": rng.choice([0.0, 0.5, 2.7e-3, 1.0, 1e-30])} if rng.random() < 0.3 else {}
        if version == 2:
            keys |= {"sign": rng.choice(["plus", "plus", "any"]), "layout": rng.choice(["rows", "tiles"])}
        zeros = ["none", "int", "float", "min"][: 2 + version] if integer else ["none"]
        shape, make = some_shape(rng), tensor
        if version == 2 and len(shape) > 2 and rng.random() < 0.7:
            axes = rng.randrange(1, len(shape) - 1)
            shape, make = shape[axes:], functools.partial(stacked, batch=shape[:axes])
        entry = make(name, shape=shape, number=number, zero=rng.choice(zeros), scale=rng.choice(sorted(crumb_reader.SCALES)),
                     block=some_block(rng), exponent=rng.choice([0, 0, 0, 1, -1, -126, 20]),
                     kind=rng.choice(["narrow", "full"]) if integer and number != "uint1" else None, **keys)  # fmt: skip
        entry["dtype"] = rng.choice(sorted(crumb_reader.FLOATS))
        return entry
    dtype = rng.choice([*crumb_reader.FLOATS, *crumb_reader.OTHERS])
    bits = crumb_reader.BITS[crumb_reader.FLOATS[dtype]] if dtype in crumb_reader.FLOATS else 8 * np.dtype(
        crumb_reader.OTHERS[dtype]).itemsize  # fmt: skip
    shape = some_shape(rng)
    count = int(np.prod([int(n) for n in shape], dtype=object))
    while count * bits % 8:
        shape.append(2)
        count *= 2
    content = rng.randbytes(count * bits // 8)
    return {"name": name, "dtype": dtype, "shape": shape, "data": compressed(content) if rng.random() < 0.3 else Part(content)}


def in_tiles(entry):
    return entry.get("encoding", {}).get("layout") == "tiles"


def sound_header(rng, version):
    paths = rng.sample(["config.json", "a/b", "a-", "a/c/d", "vocab.txt", "é", "\xa0", "1_Pooling/config.json"], rng.randrange(4))
    header = {"format": "crumb", "model": rng.choice(["", "BertModel", "\x7f\0"]),
              "tensors": [some_tensor(rng, f"w{i}", version) for i in range(rng.randrange(4))],
              "files": [{"path": path, "data": Part(rng.randbytes(rng.choice([0, 1, 64, 100])))} for path in paths]}  # fmt: skip
    if version == 2:
        has_stacks = any("stack" in entry.get("encoding", {}) for entry in header["tensors"])
        header["features"] = ["stacks"] if has_stacks or rng.random() < 0.05 else []
    for entry in header["tensors"] + header["files"]:
        share = 0.01 if in_tiles(entry) else 0.1  # of compressed parts, which tiles must not have
        for part in [part for part in crumb_reader.PARTS if part in entry]:
            if "codec" not in entry[part] and rng.random() < share:
                entry[part] = compressed(entry[part].content)
    if rng.random() < 0.2:
        header = dict(reversed(header.items()))  # keys in another order
    return header


# --- Damage -----------------------------------------------------------------------------------------------------------


def places(value, path=()):
    """Every value inside a header: (the object or list that holds it, its key)."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def change_a_value(rng, header):
    """A hostile number, another word, a value of another kind, a key less or more."""
    holder, key = rng.choice(list(places(header)))
    value = holder[key]
    kind = rng.random()
    if kind < 0.08 and isinstance(holder, dict):
        del holder[key]
    elif kind < 0.16:
        holder[key] = rng.choice([None, True, 1.5, 1e400, "", [], {}, 7, "F32", [0, 1 << 58, 1 << 58], [1] * 65])
    elif kind < 0.2 and isinstance(holder, dict):
        holder[rng.choice(["note", "zeros", "codebook", "data", "spec", "tensor_scale", "encoding", "sign", "layout", "stack", "features",
                           "outlier_places", "adapters"])] = value
    elif isinstance(value, int) and not isinstance(value, bool):
        holder[key] = rng.choice([*HOSTILE, value + 1, value - 1, value + 64, value + (1 << 32), value + (1 << 64), 2 * value])
    elif isinstance(value, str):
        holder[key] = rng.choice(WORDS.get(key, [""]))
    elif isinstance(value, list):
        rng.choice([lambda: value.append(rng.choice(WORDS.get(key, HOSTILE))), value.reverse, value.clear,
                    lambda: value.extend(value)])()  # fmt: skip


def change_a_blob(rng, header):
    """Bytes of a part whose checksum follows; of a frame its head and its length only, since decoders need not agree
    on the rest."""
    parts = [part for part in parts_of(header) if len(part.content) > 0]
    in_a_tile = {id(entry[part]) for entry in header["tensors"] if in_tiles(entry) for part in crumb_reader.PARTS if part in entry}
    tiles = [part for part in parts if id(part) in in_a_tile]
    if tiles and rng.random() < 0.5:
        parts = tiles
    if not parts:
        return
    part = rng.choice(parts)
    content = bytearray(part.content)
    if part.get("codec") == "zstd":
        kind = rng.randrange(6)
        if kind == 0:
            content = content[: rng.randrange(len(content))]
        elif kind == 1:
            content += rng.choice([b"\0", bytes(content), b"\x50\x2a\x4d\x18\0\0\0\0"])
        elif kind == 2:
            content = rng.choice([b"\x50\x2a\x4d\x18\0\0\0\0", b"\x5f\x2a\x4d\x18\x01\0\0\0x"]) + rng.choice([b"", bytes(content)])
        elif kind == 3:
            content[:4] = rng.choice([b"\x27\xb5\x2f\xfd", b"\x25\xb5\x2f\xfd", b"\x1e\xb5\x2f\xfd", b"\x28\xb5\x2f\xfc"])
        elif kind == 4:
            part["raw"] += rng.choice([-1, 1])
        elif len(content) > 4:  # a frame with a window descriptor, which says 1 MiB to 2 TiB, and the content's size
            head = bytes([0x80 if content[4] >> 6 == 2 else 0xC0 if content[4] >> 6 == 3 else 0x40])
            known = {0x80: 4, 0xC0: 8, 0x40: 2}[head[0]]
            if content[4] >> 6 in (1, 2, 3) and content[4] & 0x20 and content[4] & 7 == 0:
                content = content[:4] + head + bytes([rng.choice([80, 103, 104, 105, 112, 168])]) + content[5 : 5 + known] + content[5 + known :]
    else:
        held = [at for at, byte in enumerate(content) if byte]  # a tile of a small matrix is zeros for the most part
        for _ in range(rng.choice([1, 1, 1, 4])):
            at = rng.choice(held) if held and rng.random() < 0.5 else rng.randrange(len(content))
            content[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    part.content = bytes(content)


def called(version, content):
    """A file that says that it is of another version."""
    start = content[:8] + version.to_bytes(4, "little") + content[12:36]
    return start + zlib.crc32(start).to_bytes(4, "little") + content[40:]


def change_text(rng, text):
    """The header's text: something put in, taken out or written twice."""
    at = rng.randrange(len(text))
    if rng.random() < 0.5:
        at = rng.choice([match.start() for match in re.finditer(r'[{}\[\]",:]', text)])
    what = rng.choice(TEXT).decode("latin1")
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + what + text[at:]
    if kind == 1:
        return text[:at] + what + text[at + 1 :]
    if kind == 2:
        return text[:at] + text[at + rng.randrange(1, 8) :]
    pair = rng.choice(re.findall(r'"\w+": (?:-?\d+|"[^"]*")', text) or ['"a": 1'])
    return text.replace(pair, pair + ", " + pair, 1)


def draw(rng):
    """A file, and what was done to it."""
    version = rng.choice([1, 2, 2])
    header = sound_header(rng, version)
    kind = rng.random()
    if kind < 0.3:
        return layout(header, size=512, version=version)
    if kind < 0.5:
        for _ in range(rng.choice([1, 1, 2])):
            change_a_blob(rng, header)
        return layout(header, size=512, version=version)
    if kind < 0.65:
        try:
            change_a_value(rng, header)
            return layout(header, size=512, version=version)
        except (AttributeError, TypeError, KeyError):  # no header that can be laid out
            return layout(sound_header(rng, version), size=512, version=version)
    if kind < 0.85:
        return layout(header, edit_placed=lambda placed: change_a_value(rng, placed), version=version)
    if kind < 0.95:
        return layout(header, edit_text=lambda text: change_text(rng, text), encoding="latin1", version=version)
    content = bytearray(layout(header, size=512, version=version))
    if kind < 0.96:  # of another version
        return called(rng.choice([0, 1, 2, 3]), bytes(content))
    at = rng.randrange(len(content))
    content[at] ^= 1 << rng.randrange(8)
    return bytes(content[: rng.choice([len(content), len(content), at])])


# --- The comparison ---------------------------------------------------------------------------------------------------


def page_says(path):
    """The same line from the reader that was written from the page; a message only for people."""
    try:
        tensors, files = crumb_reader._read(path)
    except ValueError as error:
        return f"refused {error}"
    return " ".join(["sound", *(f"{zlib.crc32(np.ascontiguousarray(t).tobytes()):08x}" for t in tensors.values()),
                     *(f"{zlib.crc32(content):08x}" for content in files.values())])  # fmt: skip


def same(ours, page):
    return ours.split(" ")[0] == page.split(" ")[0] == "refused" or ours == page


def compare(verdicts, folder, seed, count):
    rng = random.Random(seed)
    paths = [folder / f"{i}.crumb" for i in range(count)]
    for path in paths:
        path.write_bytes(draw(rng))
    pages = [page_says(path) for path in paths]
    found = list(zip(paths, verdicts(paths), pages, strict=True))
    wrong = [(path.name, ours[:300], page[:300]) for path, ours, page in found if not same(ours, page)]
    for path in paths:
        if path.name not in {name for name, _, _ in wrong[:20]}:
            path.unlink()
    assert not wrong, f"{len(wrong)} of {count} differ (files in {folder}): {json.dumps(wrong[:20], indent=1)}"
    return sum(page.startswith("sound") for page in pages)


def test_the_page_and_the_reader_agree(verdicts, tmp_path):
    """Neither says yes, or no, to everything: the shares are those of the generator."""
    sound = compare(verdicts, tmp_path, 1, 1500)
    assert 500 < sound < 1000, sound


@pytest.mark.slow
def test_the_page_and_the_reader_agree_on_many(verdicts, tmp_path):
    for seed in range(2, 52):
        compare(verdicts, tmp_path, seed, 2000)


def test_the_test_sees_a_difference(verdicts, tmp_path):
    """A page that meant something else by a number would be found out."""
    path = tmp_path / "w.crumb"
    path.write_bytes(layout({"format": "crumb", "model": "", "tensors": [tensor("w", (3, 16), "int4")], "files": []}))
    assert same(verdicts([path])[0], page_says(path))
    other = tmp_path / "other.crumb"
    other.write_bytes(layout({"format": "crumb", "model": "", "tensors": [tensor("w", (3, 16), "uint4")], "files": []}))
    assert not same(verdicts([path])[0], page_says(other))
