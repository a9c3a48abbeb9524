"""Packed files made by hand, after docs/crumb_file.md: every checksum, size and place is right where no edit says otherwise.

    header = {"format": "crumb", "model": "", "tensors": [tensor("w", (3, 16), "int4")], "files": []}
    Path("w.crumb").write_bytes(layout(header))  # layout(header, version=1) for the older format
"""

import json
import struct
import zlib

import crumb_reader
import numpy as np
import zstandard

SIGNED = ("f32", "f16", "bf16", "e4m3")  # formats of scales that may be negative


def bf16(values):
    return (np.asarray(values, "<f4").view("<u4") >> 16).astype("<u2")


class Part(dict):
    """A blob to be placed: its stored bytes in `content`, which stand for the bytes `meant` (None: for themselves); the
    keys of the header that are already there stay."""

    def __init__(self, content, meant=None, **keys):
        super().__init__(keys)
        self.content, self.meant = bytes(content), meant

    def place(self, offset, version):
        summed = self.content if version == 1 or self.meant is None else self.meant
        placed = {"offset": offset, "stored": len(self.content), "raw": len(self.content), "codec": "none"}
        placed["crc32"] = f"{zlib.crc32(summed):08x}"
        for key in placed:
            self.setdefault(key, placed[key])


def compressed(content):
    return framed(zstandard.ZstdCompressor(level=3).compress(content), content)


def framed(frame, meant, raw=None):
    """A blob of a Zstandard frame that stands for the bytes `meant`, and says that they are `raw`."""
    return Part(frame, meant, raw=len(meant) if raw is None else raw, codec="zstd")


def tensor(name, shape, number="int4", zero="none", scale="f32", block=(1, 16), exponent=0, kind=None, sign="plus",
           layout="rows", **parts):  # fmt: skip
    """A quantized tensor of a header made by hand; its codes, scales and zero points are random, the same in each layout."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    kind = kind or ("narrow" if number == "ternary" else "full")
    encoding = {"number": number, "range": kind, "block": list(block)}
    encoding |= {"scale": scale, "sign": sign, "scale_exponent": exponent, "zero": zero, "layout": layout}
    entry = {"name": name, "dtype": "F32", "shape": list(shape), "spec": "by hand", "encoding": encoding}
    rows, cols = crumb_reader._matrix(shape)
    bits = crumb_reader.NUMBERS[number]
    blocks = -(-rows // block[0]) * -(-cols // block[1])

    def in_slots(items):
        return tile_slots(items, rows, -(-cols // block[1])) if layout == "tiles" and block[0] == 1 else items

    codebook = np.sort(rng.standard_normal(1 << bits)).astype("<f4")
    possible = np.flatnonzero(np.isfinite(crumb_reader._code_values(number, kind, codebook)))
    codes = every(possible, rows * cols, rng).reshape(rows, cols)
    entry["codes"] = Part((pack if layout == "rows" else pack_tiles)(codes, bits))
    scales = {
        "f32": rng.integers(0, 0x7F800000, blocks, dtype=np.uint32),
        "f16": rng.integers(0, 0x7C00, blocks, dtype=np.uint16),
        "bf16": rng.integers(0, 0x7F80, blocks, dtype=np.uint16),
        "e8m0": every(np.arange(256), blocks, rng).astype(np.uint8),
        "e4m3": every(np.arange(127), blocks, rng).astype(np.uint8),
    }[scale]
    with np.errstate(over="ignore"):
        scaled = crumb_reader._floats(scales.tobytes(), crumb_reader.SCALES[scale]) * np.float32(2) ** exponent
    scales[scaled == np.inf] = 1
    if sign == "any" and scale in SIGNED:
        scales[rng.random(blocks) < 0.1] = 0
        scales[rng.random(blocks) < 0.5] |= scales.dtype.type(1 << 8 * scales.itemsize - 1)
    entry["scales"] = Part(in_slots(scales).tobytes())
    if zero == "int":
        entry["zeros"] = Part(pack(in_slots(every(possible, blocks, rng))[None, :], bits))
    if zero in ("float", "min"):
        z = (rng.standard_normal(blocks) * 10.0 ** rng.integers(-6, 5, blocks)).astype("<f4")
        z[::3] = rng.integers(-8, 8, len(z[::3]))
        stored = {"f16": z.astype("<f2"), "bf16": bf16(z)}.get(scale, z)
        entry["zeros"] = Part(in_slots(stored).tobytes())
    if number.startswith("palette"):
        entry["codebook"] = Part(codebook.tobytes())
    if "tensor_scale" in parts:
        entry["tensor_scale"] = Part(np.float32(parts["tensor_scale"]).tobytes())
    return entry


def stacked(name, batch, shape, **keys):
    """A stack of matrices: `batch` are the sizes of the axes that number them."""
    has_none = np.prod([*batch, *shape], dtype=object) == 0
    count = 1 if has_none else int(np.prod(batch))
    matrices = [tensor(f"{name}.{i}", (0, 0) if has_none else shape, **keys) for i in range(count)]
    made = matrices[0]
    for part in crumb_reader.PARTS:
        if part in made:
            made[part] = Part(b"".join(matrix[part].content for matrix in matrices))
    return {**made, "name": name, "shape": [*batch, *shape], "encoding": {**made["encoding"], "stack": len(batch)}}


def every(possible, count, rng):
    """`count` of the possible values, each at least once if there is room."""
    return rng.permutation(np.resize(rng.permutation(possible), count))


def pack(codes, bits):
    """The page's packing in rows."""
    stream = (codes[:, :, None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(stream.reshape(len(codes), codes.shape[1] * bits), axis=1, bitorder="little").tobytes()


FIELDS = {1: (1,), 2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (8,)}


def pack_tiles(codes, bits):
    """The page's packing in tiles, a byte after the other as the page puts it."""
    (rows, cols), codes, packed = codes.shape, codes.tolist(), bytearray()
    for tile_row in range(-(-rows // 16)):
        for tile_col in range(-(-cols // 32)):
            low = 0  # of the field in the code
            for w in FIELDS[bits]:
                for line in range(w):
                    for r in range(16):
                        for c in range(4):
                            byte = 0
                            for p in range(8 // w):
                                i, j = 16 * tile_row + r, 32 * tile_col + line * 32 // w + 4 * p + c
                                if i < rows and j < cols:
                                    byte |= (codes[i][j] >> low) % (1 << w) << w * p
                            packed.append(byte)
                low += w
    return bytes(packed)


def tile_slots(items, rows, across):
    """The slots in tiles of what the blocks have, where blocks are of one row."""
    slots = np.zeros(-(-rows // 16) * 16 * across, items.dtype)
    for b in range(rows * across):
        i, j = b // across, b % across
        slots[i // 16 * 16 * across + 16 * j + i % 16] = items[b]
    return slots


def parts_of(header):
    for entry in header["tensors"] + header["files"]:
        for part in crumb_reader.PARTS:
            if part in entry:
                yield entry[part]


def seal(header_text, rest, **preamble):
    """A whole file with right checksums; `preamble` may set its fields."""
    fields = {"version": 2, "reserved": 0, "header_length": len(header_text)}
    fields |= {"length": 64 + len(header_text) + len(rest), "header_crc": zlib.crc32(header_text)}
    start = crumb_reader.MAGIC + struct.pack("<IIQQI", *(preamble.get(key, fields[key]) for key in fields))
    crc = preamble.get("crc", zlib.crc32(start))
    return start + struct.pack("<I", crc) + preamble.get("tail", bytes(24)) + header_text + rest


def layout(header, edit_placed=lambda header: None, edit_text=lambda text: text, size=1 << 14, encoding="utf-8", version=2,
           **preamble):  # fmt: skip
    """Lays a header with its Parts out as the page says; the edits come after the blobs have got their places. Of version
    1 are files without `features`, and without `sign` and `layout` where they are what goes without saying there."""
    if version == 1:
        for entry in header["tensors"]:
            for key, value in (("sign", "plus"), ("layout", "rows")):
                if entry.get("encoding", {}).get(key) == value:
                    del entry["encoding"][key]
    else:
        has_stacks = any("stack" in entry.get("encoding", {}) for entry in header["tensors"])
        header.setdefault("features", ["stacks"] if has_stacks else [])
    while len(json.dumps(header)) * 1.5 + 150 * len(list(parts_of(header))) > size:
        size *= 2
    rest = b""
    for part in parts_of(header):
        rest += bytes(-len(rest) % 64)
        part.place(64 + size + len(rest), version)
        rest += part.content
    edit_placed(header)
    text = edit_text(json.dumps(header)).encode(encoding)
    assert len(text) <= size
    return seal(text.ljust(size), rest, version=version, **preamble)
