"""What numpy.save, savez and savez_compressed write, read by crumb and compared with what numpy itself has."""

import json
import zipfile

import numpy as np
import pytest

safetensors_numpy = pytest.importorskip("safetensors.numpy")

NUMBERS = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8"]
SAVERS = [np.savez, np.savez_compressed]


@pytest.fixture
def values(crumb, tmp_path):
    """Every tensor of a file as crumb reads it: kept in a packed file, and from there to safetensors."""

    def read(path):
        packed, plain = tmp_path / "values.crumb", tmp_path / "values.safetensors"
        crumb("quantize", path, "-o", packed, "--weights", "keep", "--embeddings", "keep")
        crumb("dequantize", packed, "-o", plain)
        return safetensors_numpy.load_file(plain)

    return read


@pytest.fixture
def refusal(crumb):
    """What crumb says when it refuses a file."""

    def read(path):
        return crumb("inspect", path, status=1).stderr

    return read


def as_read(array):
    """As crumb gives it back: floats as float32, the machine's byte order, row by row."""
    array = np.asarray(array)
    wanted = np.float32 if array.dtype.kind == "f" else array.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):
        return array.astype(wanted, order="C")


def assert_same(found, expected):
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        wanted = as_read(array)
        assert found[name].dtype == wanted.dtype, name
        assert found[name].shape == wanted.shape, name
        assert found[name].tobytes() == wanted.tobytes(), name


def make(rng, dtype, shape, order="C", byte_order="<"):
    numbers = rng.standard_normal(shape) * 50
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * rng.standard_normal(shape)
    if np.dtype(dtype).kind == "u":
        numbers = np.abs(numbers)
    if np.dtype(dtype).kind == "b":
        numbers = numbers > 0
    return np.asarray(numbers, order=order).astype(np.dtype(dtype).newbyteorder(byte_order), order=order)


@pytest.mark.parametrize("save", SAVERS)
def test_every_type_in_every_order(values, tmp_path, save):
    rng = np.random.default_rng(1)
    arrays = {
        f"{dtype}.{order}.{'little' if byte_order == '<' else 'big'}.{len(shape)}": make(
            rng, dtype, shape, order, byte_order
        )
        for dtype in NUMBERS
        for order in "CF"
        for byte_order in "<>"
        for shape in [(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)]
    }
    save(tmp_path / "m.npz", **arrays)
    assert_same(values(tmp_path / "m.npz"), arrays)


@pytest.mark.parametrize("save", SAVERS)
def test_odd_shapes_and_names(values, tmp_path, save):
    arrays = {
        "empty": np.zeros((0, 7), "f4"),
        "empty.columns": np.zeros((7, 0, 2), ">f8", order="F"),
        "scalar": np.float32(3.25),
        "rank": np.full((1,) * 20 + (2,), 7, "i2"),
        "größe/κ": np.arange(3.0, dtype="f4"),
        "ends.npy": np.ones(2, "u1"),
        "large": np.random.default_rng(2).standard_normal((1000, 900)).astype(">f4", order="F"),
    }
    save(tmp_path / "m.npz", **arrays)
    assert_same(values(tmp_path / "m.npz"), arrays)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_array_file_is_named_after_its_stem(values, tmp_path, version):
    array = make(np.random.default_rng(3), "f4", (6, 5), "F", ">")
    with open(tmp_path / "my.layer.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert_same(values(tmp_path / "my.layer.npy"), {"my.layer": array})


def test_the_same_codes_from_every_file(crumb, tmp_path):
    rng = np.random.default_rng(4)
    arrays = {
        "a.weight": rng.standard_normal((64, 96)).astype("f4"),
        "b.weight": rng.standard_normal((40, 4, 8)).astype("f4"),
        "b.bias": rng.standard_normal(40).astype("f4"),
    }
    safetensors_numpy.save_file(arrays, tmp_path / "m.safetensors")
    np.savez(tmp_path / "stored.npz", **arrays)
    np.savez_compressed(tmp_path / "deflated.npz", **arrays)
    turned = {name: np.asfortranarray(array).astype(">f4", order="F") for name, array in arrays.items()}
    np.savez_compressed(tmp_path / "turned.npz", **turned)
    decoded = {}
    for name in ["m.safetensors", "stored.npz", "deflated.npz", "turned.npz"]:
        packed, plain = tmp_path / f"{name}.crumb", tmp_path / f"{name}.plain.safetensors"
        crumb("quantize", tmp_path / name, "-o", packed, "--weights", "int4:group=16")
        crumb("dequantize", packed, "-o", plain)
        decoded[name] = safetensors_numpy.load_file(plain)
    for name, tensors in decoded.items():
        assert_same(tensors, decoded["m.safetensors"])
    for name in ["stored.npz", "deflated.npz", "turned.npz"]:
        rows = json.loads(crumb("compare", tmp_path / "m.safetensors", tmp_path / name, "--json").stdout)["tensors"]
        assert [row["exact_fraction"] for row in rows] == [1.0] * len(arrays)


@pytest.mark.parametrize("save", SAVERS)
def test_what_is_no_number_of_ours_is_skipped_and_listed(crumb, values, tmp_path, save):
    kept = {"w": np.ones((2, 3), "f4")}
    foreign = {
        "objects": np.array([{}, 1], object),
        "strings": np.array(["é"]),
        "bytes": np.array([b"ab"]),
        "records": np.zeros(2, [("é", "f4"), ("b", [("c", "i2", (2,))])]),
        "dates": np.zeros(2, "M8[s]"),
        "double": np.zeros(2, "c16"),
        "long": np.zeros(2, np.longdouble),
        "void": np.zeros(2, "V3"),
    }
    ml_dtypes = pytest.importorskip("ml_dtypes")
    foreign["brain"] = np.zeros(2, ml_dtypes.bfloat16)
    foreign["small"] = np.zeros(2, ml_dtypes.float8_e5m2)
    save(tmp_path / "m.npz", **kept, **foreign)
    with zipfile.ZipFile(tmp_path / "m.npz", "a") as archive:
        archive.writestr("readme.txt", "hello")
    said = crumb("inspect", tmp_path / "m.npz")
    for name in [*foreign, "readme.txt"]:
        assert name in said.stdout + said.stderr
    assert_same(values(tmp_path / "m.npz"), kept)


@pytest.mark.parametrize(
    "array, what",
    [
        (np.array([None]), "Python objects ('|O')"),
        (np.array(["x"]), "strings ('<U1')"),
        (np.zeros(2, "c16"), "other complex numbers ('<c16')"),
        (np.zeros(2, [("a", "f4")]), "records"),
    ],
)
def test_an_array_file_of_something_else_is_refused(refusal, tmp_path, array, what):
    np.save(tmp_path / "x.npy", array)
    assert f"an array of {what}" in refusal(tmp_path / "x.npy")


def test_damage_is_found(refusal, crumb, tmp_path):
    array = np.random.default_rng(5).standard_normal((200, 200)).astype("f4")
    for save in SAVERS:
        save(tmp_path / "good.npz", w=array)
        good = (tmp_path / "good.npz").read_bytes()
        (tmp_path / "cut.npz").write_bytes(good[:-1])
        assert "no end record" in refusal(tmp_path / "cut.npz")
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 4
        (tmp_path / "flipped.npz").write_bytes(flipped)
        packed = tmp_path / "x.crumb"
        said = crumb("quantize", tmp_path / "flipped.npz", "-o", packed, "--weights", "int4", status=1).stderr
        assert "damaged" in said or "checksum" in said
        assert not packed.exists()
    with zipfile.ZipFile(tmp_path / "bz.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("w.npy", b"\x93NUMPY")
    assert "bzip2" in refusal(tmp_path / "bz.npz")
