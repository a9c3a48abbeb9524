"""A second reader of packed files, written from docs/crumb_file.md alone: nothing here knows how Crumb is made.

    import crumb_reader
    tensors = crumb_reader.read("minilm.crumb")      # name -> numpy array; floating tensors become float32
    tensors = crumb_reader.read("net.crumb", widen=False)  # kept tensors stay as they are: what a graph takes
    files = crumb_reader.read_files("minilm.crumb")  # path -> bytes

Versions 1 and 2 are read. Everything that the page says should be checked is checked; a file that fails is refused with
a ValueError.
"""

import json
import math
import re
import zlib

import numpy as np
import zstandard

MAGIC = b"\x89CRUMB\r\n"
PARTS = ("data", "codes", "scales", "zeros", "codebook", "tensor_scale")  # in the order of their blobs
FLOATS = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "e4m3fn", "F8_E5M2": "e5m2",
          "F8_E4M3FNUZ": "e4m3fnuz", "F8_E5M2FNUZ": "e5m2fnuz", "F8_E8M0": "e8m0", "F6_E2M3": "e2m3",
          "F6_E3M2": "e3m2", "F4": "e2m1"}
OTHERS = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
          "I64": "<i8", "C64": "<c8"}
NUMBERS = {  # the number formats of codes, with their bits
    **{f"int{bits}": bits for bits in range(2, 9)}, **{f"uint{bits}": bits for bits in range(1, 9)},
    **{f"int{bits}h": bits for bits in (2, 3, 4)}, **{f"palette{bits}": bits for bits in range(1, 9)},
    **{f"e{bits - 1 - y}m{y}": bits for bits in range(3, 9) for y in range(bits - 1)},
    "binary": 1, "ternary": 2, "nf4": 4, "e4m3fn": 8, "e4m3fnuz": 8, "e5m2fnuz": 8}
BITS = {**NUMBERS, "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "e8m0": 8}
SCALES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "e8m0": "e8m0", "e4m3": "e4m3fn"}
NF4 = [-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1]

# What each object of the header holds: its keys and their types. The keys of OPTIONAL may be absent.
BLOB = {"offset": int, "stored": int, "raw": int, "codec": str, "crc32": str}
ENCODING = {"number": str, "range": str, "block": [int], "scale": str, "scale_exponent": int, "zero": str}
TENSOR = {"name": str, "dtype": str, "shape": [int], "spec": str, "encoding": ENCODING, **dict.fromkeys(PARTS, BLOB)}
FILE = {"path": str, "data": BLOB}
HEADER = {"format": str, "model": str, "tensors": [TENSOR], "files": [FILE]}  # of version 1
TENSOR_2 = {**TENSOR, "encoding": {**ENCODING, "sign": str, "layout": str, "stack": int}}
HEADER_2 = {**HEADER, "features": [str], "tensors": [TENSOR_2]}
OPTIONAL = {"header.tensors[]": {"spec", "encoding", *PARTS}, "header.tensors[].encoding": {"stack"}}


def read(path, widen=True):
    """All tensors of a packed file by name: float32 for floating tensors, their own dtype for others. Without `widen`
    kept tensors have their own dtype, too; where numpy has none their elements are bits (uint16 for BF16, uint8 for
    types of 8 bits), and for smaller types the packed bytes."""
    return _read(path, widen)[0]


def read_files(path):
    """The configuration and tokenizer files inside a packed file: their bytes by path."""
    return _read(path)[1]


def read_header(path):
    """What the header says, as JSON's objects and lists."""
    return _open(path)[2]


def read_version(path):
    """The version of the format that a packed file has."""
    return _open(path)[1]


def _open(path):
    with open(path, "rb") as file:
        data = file.read()
    version, end = _check_preamble(data)
    return data, version, _parse_header(data[64:end], version), end


def _read(path, widen=True):
    data, version, header, end = _open(path)
    tensors, files = {}, {}
    where = "header"
    try:
        for entry in header["tensors"]:
            where = f"tensor {entry['name']!r}"
            _check(entry["name"], "the name is empty")
            _check(entry["name"] not in tensors, "the name is there twice")
            parts = {}
            for part, raw in _part_sizes(entry, version).items():
                _check(entry[part]["codec"] == "none" or not _in_tiles(entry), "a tensor in tiles is compressed")
                parts[part], end = _read_blob(data, version, entry[part], raw, end)
            tensors[entry["name"]] = _kept(entry, parts, widen) if "data" in parts else _dequantize(entry, parts)
        for entry in header["files"]:
            where = f"file {entry['path']!r}"
            _check_path(entry["path"])
            _check(entry["path"] not in files, "the path is there twice")
            files[entry["path"]], end = _read_blob(data, version, entry["data"], entry["data"]["raw"], end)
    except (ValueError, MemoryError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from error
    _check(end == len(data), f"the file has {len(data)} bytes, but its last blob ends at {end}")
    before = ""  # in this order a folder comes right before what it holds
    for path in sorted(files, key=lambda path: path.split("/")):
        _check(not path.startswith(before + "/"), f"the file {path!r} lies in {before!r}, which is a file")
        before = path
    return tensors, files


def _check(condition, message):
    if not condition:
        raise ValueError(message)


# --- Preamble, header, blobs -----------------------------------------------------------------------------------------


def _check_preamble(data):
    """Checks the 64 bytes at the start and the header's checksum; gives the version and where the header ends."""

    def number(offset, size):
        return int.from_bytes(data[offset : offset + size], "little")

    _check(data[:8] == MAGIC, "not a packed file: the magic is wrong")
    _check(len(data) >= 64, "the preamble is cut off")
    _check(number(8, 4) in (1, 2), f"version {number(8, 4)} of the format is unknown")
    _check(number(36, 4) == zlib.crc32(data[:36]), "the checksum of the preamble is wrong")
    _check(number(12, 4) == 0 and number(40, 24) == 0, "reserved bytes of the preamble are not zero")
    _check(number(24, 8) == len(data), f"the file has {len(data)} bytes, but its preamble says {number(24, 8)}")
    end = 64 + number(16, 8)
    _check(end <= len(data), "the header ends beyond the file")
    _check(end - 64 <= (6 << 20) + len(data) // 16, "the header is too long for the file")
    _check(number(32, 4) == zlib.crc32(data[64:end]), "the checksum of the header is wrong")
    return number(8, 4), end


def _parse_header(text, version):
    def without_duplicates(pairs):
        _check(len(dict(pairs)) == len(pairs), "duplicate keys")
        return dict(pairs)

    def integer(digits):
        _check(digits != "-0", "a number is -0")
        return int(digits)

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=without_duplicates, parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the header is not JSON: {error}") from error
    if version == 2 and type(header) is dict:  # first: with a feature the header may have other keys
        features = header.get("features", [])
        _check_types(features, [str], "header.features")
        unknown = [feature for feature in features if feature != "stacks"]
        _check(not unknown, f"the features {', '.join(unknown)} are unknown to this reader")
        _check(len(features) == len(set(features)), "a feature is there twice")
    _check_types(header, HEADER if version == 1 else HEADER_2, "header")
    stacks = any(_stack(entry) is not None for entry in header["tensors"])
    _check(not stacks or "stacks" in header["features"], "a stack, and not the feature stacks")
    _check(header["format"] == "crumb", "the header's format is not crumb")
    return header


def _check_types(value, wanted, where):
    kind = wanted if isinstance(wanted, type) else type(wanted)
    _check(type(value) is kind, f"{where} is of the wrong type")  # not isinstance, for which True is an int
    if kind is str:
        value.encode("utf-8")  # refuses half a surrogate pair
    if kind is int:
        signed = where.endswith("scale_exponent")
        _check((-126 <= value <= 126) if signed else (0 <= value < 1 << 64), f"{where} is {value}")
    if kind is dict:
        _check(value.keys() <= wanted.keys(), f"{where} has keys that are unknown")
        _check(wanted.keys() - value.keys() <= OPTIONAL.get(where, set()), f"{where} lacks keys")
        for key in value:
            _check_types(value[key], wanted[key], f"{where}.{key}")
    if kind is list:
        for item in value:
            _check_types(item, wanted[0], f"{where}[]")


def _check_path(path):
    steps = path.split("/")
    _check(not {"", ".", ".."} & set(steps), "the path has a component that is empty, . or ..")
    _check(not re.search(r"[\\:\x00-\x1f\x7f-\x9f]", path), "the path has a character that paths must not have")


def _read_blob(data, version, blob, raw, end):
    """The `raw` bytes of a blob, and where it ends; `end` is where the one before it (or the header) ended."""
    offset, stored = blob["offset"], blob["stored"]
    _check(blob["raw"] == raw, f"a blob of {blob['raw']} bytes where {raw} are needed")
    _check(offset == -(-end // 64) * 64, f"a blob begins at {offset}, not at the next multiple of 64 after {end}")
    _check(0 <= stored <= len(data) - offset, "a blob ends beyond the file")
    _check(not any(data[end:offset]), "padding before a blob is not zero")
    content = before = data[offset : offset + stored]
    _check(blob["codec"] in ("none", "zstd"), f"the codec {blob['codec']!r} is unknown")
    if blob["codec"] == "zstd":
        content = _decompress(content, raw)
    _check(len(content) == raw, f"a blob holds {len(content)} bytes, not {raw}")
    checksum = zlib.crc32(before if version == 1 else content)
    _check(blob["crc32"] == f"{checksum:08x}", "the checksum of a blob is wrong")
    return content, offset + stored


def _decompress(content, raw):
    """Decompresses one Zstandard frame of `raw` bytes, a little at a time: it may hold far more than it says."""
    try:
        _check(content[:4] == b"\x28\xb5\x2f\xfd", "no Zstandard frame, or a skippable one")
        window = zstandard.get_frame_parameters(content).window_size
        frame = zstandard.ZstdDecompressor().decompressobj()
        result, at = bytearray(), 0
        while not frame.eof and at < len(content) and len(result) <= raw:
            result += frame.decompress(content[at : at + 1024])
            at += 1024
    except zstandard.ZstdError as error:
        raise ValueError(f"a bad Zstandard frame: {error}") from error
    _check(window <= 8 << 20, "a Zstandard frame has a window of more than 8 MiB")
    _check(len(result) <= raw, f"a Zstandard frame holds more than {raw} bytes")
    _check(frame.eof, "a Zstandard frame is cut off")
    _check(at >= len(content) and not frame.unused_data, "there are bytes after a Zstandard frame")
    return bytes(result)


# --- Tensors ---------------------------------------------------------------------------------------------------------


def _matrix(shape):
    """Rows and columns."""
    if math.prod(shape) == 0:
        return 0, 0
    return (1, math.prod(shape)) if len(shape) < 2 else (shape[0], math.prod(shape[1:]))


def _stack(entry):
    return entry.get("encoding", {}).get("stack")


def _matrix_of(entry):
    """One matrix of a stack as a tensor of its own, and how many there are."""
    axes, shape = _stack(entry), entry["shape"]
    _check(1 <= axes <= 64 and len(shape) >= axes + 2, f"no stack over {axes} axes")
    encoding = {key: value for key, value in entry["encoding"].items() if key != "stack"}
    if math.prod(shape) == 0:
        return {**entry, "encoding": encoding}, 1
    return {**entry, "encoding": encoding, "shape": shape[axes:]}, math.prod(shape[:axes])


def _in_tiles(entry):
    return entry.get("encoding", {}).get("layout") == "tiles"


def _part_sizes(entry, version):
    """The parts that a tensor needs, in the order of their blobs, with their sizes; checks that it has just these."""
    dtype, shape, encoding = entry["dtype"], entry["shape"], entry.get("encoding")
    _check(dtype in OTHERS or dtype in FLOATS, f"the dtype {dtype!r} is unknown")
    _check(len(shape) <= 64, "a shape has more than 64 axes")
    _check(math.prod(n for n in shape if n > 0) <= 1 << 58, "the axes that are not 0 multiply to more than 2^58")
    if _stack(entry) is not None:
        one, count = _matrix_of(entry)
        return {part: size * count for part, size in _part_sizes(one, version).items()}
    if encoding is None:
        item = BITS[FLOATS[dtype]] if dtype in FLOATS else 8 * np.dtype(OTHERS[dtype]).itemsize
        _check(math.prod(shape) * item % 8 == 0, "the bits of all elements are no whole bytes")
        sizes = {"data": math.prod(shape) * item // 8}
    else:
        (rows, cols), bits, scale = _matrix(shape), NUMBERS.get(encoding["number"]), encoding["scale"]
        _check(dtype in FLOATS, f"an encoding for the dtype {dtype!r}")
        _check(bits, f"the number format {encoding['number']!r} is unknown")
        _check(len(encoding["block"]) == 2 and min(encoding["block"]) > 0, "a block is two positive numbers")
        _check(scale in SCALES, f"the scale format {scale!r} is unknown")
        _check(encoding.get("sign", "plus") in ("plus", "any"), f"the sign {encoding.get('sign')!r} is unknown")
        _check(encoding.get("layout", "rows") in ("rows", "tiles"), f"the layout {encoding.get('layout')!r} is unknown")
        zeros = ("none", "int", "float", "min")[: 3 if version == 1 else 4]
        _check(encoding["zero"] in zeros, f"the zero points {encoding['zero']!r} are unknown")
        integer = re.fullmatch(r"u?int\d", encoding["number"])
        _check(integer or encoding["zero"] == "none", f"zero points of {encoding['number']}")
        codes = rows * -(-cols * bits // 8)
        down, across = -(-rows // encoding["block"][0]), -(-cols // encoding["block"][1])
        if _in_tiles(entry):
            codes = -(-rows // 16) * -(-cols // 32) * 64 * bits
            down = -(-rows // 16) * 16 if encoding["block"][0] == 1 else down
        slots = down * across
        sizes = {"codes": codes, "scales": slots * BITS[SCALES[scale]] // 8}
        if encoding["zero"] == "int":
            sizes["zeros"] = -(-slots * bits // 8)
        if encoding["zero"] in ("float", "min"):
            sizes["zeros"] = slots * BITS[_zero_kind(scale)] // 8
        if encoding["number"].startswith("palette"):
            sizes["codebook"] = 4 << bits
        if "tensor_scale" in entry:
            sizes["tensor_scale"] = 4
    _check(set(sizes) == set(PARTS) & set(entry), f"not exactly the parts {', '.join(sizes)}")
    _check(("spec" in entry) == (encoding is not None), "a spec without an encoding, or the other way round")
    return sizes


def _kept(entry, parts, widen):
    dtype, data = entry["dtype"], parts["data"]
    if not widen and dtype in FLOATS:
        kind = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}.get(dtype, "u1")
        values = np.frombuffer(data, kind)
        return values.reshape(entry["shape"]) if BITS[FLOATS[dtype]] >= 8 else values
    values = _floats(data, FLOATS[dtype]) if dtype in FLOATS else np.frombuffer(data, OTHERS[dtype])
    return values.reshape(entry["shape"])


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def _dequantize(entry, parts):
    if _stack(entry) is not None:
        one, count = _matrix_of(entry)
        shares = [{part: data[len(data) // count * i : len(data) // count * (i + 1)] for part, data in parts.items()}
                  for i in range(count)]
        return np.concatenate([_dequantize(one, share).ravel() for share in shares]).reshape(entry["shape"])
    (rows, cols), encoding = _matrix(entry["shape"]), entry["encoding"]
    bits, block_rows, block_cols = BITS[encoding["number"]], *encoding["block"]
    values = _code_values(encoding["number"], encoding["range"], _floats(parts.get("codebook", b""), "f32"))
    v = values[(_unpack_tiles if _in_tiles(entry) else _unpack)(parts["codes"], rows, cols, bits)]
    s = _block_floats(entry, parts["scales"], SCALES[encoding["scale"]])
    if encoding["scale"] == "e8m0":
        s[np.isnan(s)] = 0
    t = _floats(parts.get("tensor_scale", b""), "f32")
    z = np.zeros(len(s), np.float32)
    if encoding["zero"] == "int":
        slots = 8 * len(parts["scales"]) // BITS[SCALES[encoding["scale"]]]
        z = values[_of_blocks(entry, _unpack(parts["zeros"], 1, slots, bits)[0])]
    elif encoding["zero"] != "none":
        z = _block_floats(entry, parts["zeros"], _zero_kind(encoding["scale"]))
    _check(np.isfinite(v).all(), "a code is out of range")
    _check(np.isfinite(z).all(), "a zero point is out of range")
    signed = encoding.get("sign") == "any"
    _check(all(np.isfinite(x).all() for x in (s, t)), "a scale is not finite")
    _check(not np.signbit(t).any() and (signed or not np.signbit(s).any()), "a scale has a sign")

    if encoding["scale_exponent"] != 0:
        s = np.ldexp(s.astype(np.float64), encoding["scale_exponent"]).astype(np.float32)
    if len(t) == 1:
        s = s * t
    _check(np.isfinite(s).all(), "a scale overflows")
    block_rows, block_cols = min(block_rows, rows + 1), min(block_cols, cols + 1)  # they may exceed what numpy counts
    across = -(-cols // block_cols)
    block = (np.arange(rows) // block_rows)[:, None] * across + np.arange(cols) // block_cols
    s, z = s[block], z[block]
    return (v * s + z if encoding["zero"] == "min" else (v - z) * s).reshape(entry["shape"])


def _zero_kind(scale):
    return scale if scale in ("f16", "bf16") else "f32"


def _block_floats(entry, data, kind):
    slots = np.frombuffer(data, f"<u{BITS[kind] // 8}")
    return _floats(_of_blocks(entry, slots).tobytes(), kind)


def _of_blocks(entry, slots):
    """What a list of slots holds for each block, in the order of the blocks."""
    (rows, cols), (block_rows, block_cols) = _matrix(entry["shape"]), entry["encoding"]["block"]
    if not _in_tiles(entry) or block_rows > 1:
        return slots
    across = max(-(-cols // block_cols), 1)
    slots = slots.reshape(-1, across, 16).swapaxes(1, 2).reshape(-1, across)
    _check(not slots[rows:].any(), "slots of no row are not zero")
    return slots[:rows].ravel()


def _unpack_tiles(data, rows, cols, bits):
    """The codes of a matrix that lies in tiles."""
    down, across = -(-rows // 16), -(-cols // 32)
    tiles = np.frombuffer(data, np.uint8).reshape(down, across, 64 * bits)
    codes = np.zeros((down, 16, across, 32), np.uint8)
    low = 0  # the bits of the fields before this one
    for width in (width for width in (8, 4, 2, 1) if bits & width):
        lines = tiles[:, :, 64 * low : 64 * (low + width)].reshape(down, across, width, 16, 1, 4)  # lines, rows, p, c
        fields = lines >> (width * np.arange(8 // width, dtype=np.uint8))[:, None] & (1 << width) - 1
        codes |= fields.transpose(0, 3, 1, 2, 4, 5).reshape(codes.shape) << low
        low += width
    codes = codes.reshape(16 * down, 32 * across)
    _check(not codes[rows:].any() and not codes[:, cols:].any(), "a tile has codes beyond the matrix")
    return codes[:rows, :cols]


def _unpack(data, rows, cols, bits):
    """The codes of a matrix, each of whose rows is a stream of bits."""
    stream = np.frombuffer(data, np.uint8).reshape(rows, -(-cols * bits // 8))
    stream = np.unpackbits(stream, axis=1, bitorder="little")
    _check(not stream[:, cols * bits :].any(), "bits after the last code of a row are not zero")
    return stream[:, : cols * bits].reshape(rows, cols, bits) @ (1 << np.arange(bits))


# --- Number formats --------------------------------------------------------------------------------------------------


@np.errstate(over="ignore", invalid="ignore")
def _floats(data, kind):
    """An array of floats as float32; the bits of NaNs are those of the page, whatever numpy makes of them."""
    if kind == "bf16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if kind in ("f64", "f32", "f16"):
        bits = np.frombuffer(data, f"<u{BITS[kind] // 8}")
        floats = bits.view(f"<f{BITS[kind] // 8}")
        values = floats.astype(np.float32)
        nan = np.isnan(floats)
        if kind == "f16":
            wide = bits[nan].astype(np.uint32)
            values.view(np.uint32)[nan] = (wide & 0x8000) << 16 | 0x7F800000 | (wide & 0x3FF) << 13
        if kind == "f64":
            sign, payload = bits[nan] >> np.uint64(63), bits[nan] >> np.uint64(29) & np.uint64(0x3FFFFF)
            values.view(np.uint32)[nan] = (sign << np.uint64(31) | np.uint64(0x7FC00000) | payload).astype(np.uint32)
        if kind == "f32":
            values.view(np.uint32)[:] = bits
        return values
    return _float_table(kind)[_unpack(data, 1, 8 * len(data) // BITS[kind], BITS[kind])[0]]


def _code_values(number, kind, codebook):
    """The value of every code of a number format; codes that must not occur are NaN."""
    integer = re.fullmatch(r"u?int\d", number) is not None
    _check(kind in (("full", "narrow") if integer else ("narrow",) if number == "ternary" else ("full",)),
           f"{number} with the range {kind!r}")
    codes = np.arange(1 << NUMBERS[number])
    twos_complement = np.where(codes < (len(codes) + 1) // 2, codes, codes - len(codes)).astype(np.float32)
    if number.startswith("palette"):
        _check(np.isfinite(codebook).all() and (np.diff(codebook) >= 0).all(), "the codebook is not ascending")
        values = codebook
    elif number == "nf4":
        values = np.array(NF4, np.float32)
    elif number == "binary":
        values = np.array([-1, 1], np.float32)
    elif number.startswith("uint"):
        values = codes.astype(np.float32)
        if kind == "narrow":
            values[-1] = np.nan
    elif number.endswith("h"):
        values = twos_complement + np.float32(0.5)
    elif integer or number == "ternary":
        values = twos_complement
        if kind == "narrow":
            values[len(codes) // 2] = np.nan
    else:
        values = _float_table(number)
    return values


def _float_table(number):
    """The value of every code of a float format, with infinities and NaNs."""
    if number == "e8m0":
        return np.array([2.0 ** (byte - 127) for byte in range(255)] + [np.nan], np.float32)
    x, y, suffix = re.fullmatch(r"e(\d)m(\d)(\w*)", number).groups()
    x, y = int(x), int(y)
    codes = np.arange(1 << 1 + x + y)
    sign, e, m = codes >> x + y, codes >> y & (1 << x) - 1, codes & (1 << y) - 1
    bias = (1 << x - 1) - (0 if suffix == "fnuz" else 1)
    values = np.where(e > 0, np.ldexp(1 + m / (1 << y), e - bias), np.ldexp(m / (1 << y), 1 - bias))
    values[sign == 1] *= -1
    if number == "e5m2":
        values[e == 31] = [np.inf, np.nan, np.nan, np.nan, -np.inf, np.nan, np.nan, np.nan]
    if suffix == "fn":
        values[(e == 15) & (m == 7)] = np.nan
    if suffix == "fnuz":
        values[0x80] = np.nan
    return values.astype(np.float32)
