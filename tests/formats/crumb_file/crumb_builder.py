"""Packed files made by hand, after docs/crumb_file.md: every checksum, size and place is right where no edit says otherwise.

    header = {"format": "crumb", "model": "", "tensors": [tensor("w", (3, 16), "int4")], "files": []}
    Path("w.crumb").write_bytes(layout(header))
"""

import json
import struct
import zlib

import crumb_reader
import numpy as np
import zstandard


def bf16(values):
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


class Part(dict):
    """A blob to be placed: its stored bytes in `content`; the keys of the header that are already there stay."""

    def __init__(self, content, **keys):
        super().__init__(keys)
        self.content = bytes(content)

    def place(self, offset):
        placed = {"offset": offset, "stored": len(self.content), "raw": len(self.content), "codec": "none"}
        placed["crc32"] = f"{zlib.crc32(self.content):08x}"
        for key in placed:
            self.setdefault(key, placed[key])


def compressed(content):
    return framed(zstandard.ZstdCompressor(level=3).compress(content), len(content))


def framed(content, raw):
    """A blob of a Zstandard frame that says that it has `raw` bytes."""
    return Part(content, raw=raw, codec="zstd")


def tensor(name, shape, number="int4", zero="none", scale="f32", block=(1, 16), exponent=0, kind=None, **parts):
    """A quantized tensor of a header made by hand; its codes and scales are random."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    kind = kind or ("narrow" if number == "ternary" else "full")
    encoding = {"number": number, "range": kind, "block": list(block)}
    encoding |= {"scale": scale, "scale_exponent": exponent, "zero": zero}
    entry = {"name": name, "dtype": "F32", "shape": list(shape), "spec": "by hand", "encoding": encoding}
    rows, cols = crumb_reader._matrix(shape)
    bits = crumb_reader.NUMBERS[number]
    blocks = -(-rows // block[0]) * -(-cols // block[1])
    codebook = np.sort(rng.standard_normal(1 << bits)).astype("<f4")
    possible = np.flatnonzero(np.isfinite(crumb_reader._code_values(number, kind, codebook)))
    entry["codes"] = Part(pack(every(possible, rows * cols, rng).reshape(rows, cols), bits))
    scales = {
        "f32": rng.integers(0, 0x7F800000, blocks, dtype=np.uint32),
        "f16": rng.integers(0, 0x7C00, blocks, dtype=np.uint16),
        "bf16": rng.integers(0, 0x7F80, blocks, dtype=np.uint16),
        "e8m0": every(np.arange(256), blocks, rng).astype(np.uint8),
        "e4m3": every(np.arange(127), blocks, rng).astype(np.uint8),
    }
    with np.errstate(over="ignore"):
        scaled = crumb_reader._floats(scales[scale].tobytes(), crumb_reader.SCALES[scale]) * np.float32(2) ** exponent
    scales[scale][scaled == np.inf] = 1
    entry["scales"] = Part(scales[scale].tobytes())
    if zero == "int":
        entry["zeros"] = Part(pack(every(possible, blocks, rng)[None, :], bits))
    if zero == "float":
        z = (rng.standard_normal(blocks) * 10.0 ** rng.integers(-6, 5, blocks)).astype("<f4")
        z[::3] = rng.integers(-8, 8, len(z[::3]))
        stored = {"f16": z.astype("<f2"), "bf16": bf16(z)}.get(scale, z)
        entry["zeros"] = Part(stored.tobytes())
    if number.startswith("palette"):
        entry["codebook"] = Part(codebook.tobytes())
    if "tensor_scale" in parts:
        entry["tensor_scale"] = Part(np.float32(parts["tensor_scale"]).tobytes())
    return entry


def every(possible, count, rng):
    """`count` of the possible values, each at least once if there is room."""
    return rng.permutation(np.resize(rng.permutation(possible), count))


def pack(codes, bits):
    """The page's packing."""
    stream = (codes[:, :, None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(stream.reshape(len(codes), codes.shape[1] * bits), axis=1, bitorder="little").tobytes()


def parts_of(header):
    for entry in header["tensors"] + header["files"]:
        for part in crumb_reader.PARTS:
            if part in entry:
                yield entry[part]


def seal(header_text, rest, **preamble):
    """A whole file with right checksums; `preamble` may set its fields."""
    fields = {"version": 1, "reserved": 0, "header_length": len(header_text)}
    fields |= {"length": 64 + len(header_text) + len(rest), "header_crc": zlib.crc32(header_text)}
    start = crumb_reader.MAGIC + struct.pack("<IIQQI", *(preamble.get(key, fields[key]) for key in fields))
    crc = preamble.get("crc", zlib.crc32(start))
    return start + struct.pack("<I", crc) + preamble.get("tail", bytes(24)) + header_text + rest


def layout(header, edit_placed=lambda header: None, edit_text=lambda text: text, size=1 << 14, encoding="utf-8", **preamble):
    """Lays a header with its Parts out as the page says; the edits come after the blobs have got their places."""
    while len(json.dumps(header)) * 1.5 + 150 * len(list(parts_of(header))) > size:
        size *= 2
    rest = b""
    for part in parts_of(header):
        rest += bytes(-len(rest) % 64)
        part.place(64 + size + len(rest))
        rest += part.content
    edit_placed(header)
    text = edit_text(json.dumps(header)).encode(encoding)
    assert len(text) <= size
    return seal(text.ljust(size), rest, **preamble)
