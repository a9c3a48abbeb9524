"""libcrumb.so and its examples, as somebody else builds and runs them."""

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples/digits"
HERE = Path(__file__).parent


class Tensor(ctypes.Structure):  # crumb_tensor
    _fields_ = [("type", ctypes.c_int32), ("rank", ctypes.c_size_t), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]  # fmt: skip


@pytest.fixture(scope="module")
def library(crumb_bin):
    path = crumb_bin.parent / "libcrumb.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return path


def say(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options).stdout


def right_of(text):
    """"199 of 200 digits are right"."""
    words = text.splitlines()[-1].split()
    assert words[1] == "of"
    return int(words[0]), int(words[2])


def test_the_c_example_classifies_digits(library, tmp_path):
    program = tmp_path / "classify"
    say("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", DIGITS / "classify.c", "-I", ROOT / "runtime",
        "-L", library.parent, "-lcrumb", f"-Wl,-rpath,{library.parent}", "-o", program)  # fmt: skip
    right, all = right_of(say(program, DIGITS / "digits_cnn.crumb", DIGITS / "digits.txt"))
    assert all >= 100 and right >= 0.98 * all
    failed = subprocess.run([program, DIGITS / "digits.txt", DIGITS / "digits.txt"], capture_output=True, text=True)
    assert failed.returncode == 1 and "not a packed file" in failed.stderr


def test_the_python_example_classifies_digits(library):
    program = DIGITS / "classify.py"
    assert right_of(say(sys.executable, program, library, DIGITS / "digits_cnn.crumb", DIGITS / "digits.txt"))[0] >= 98
    assert len(program.read_text().splitlines()) < 60


def test_the_command_gives_the_same_classes(library, crumb, tmp_path):
    lines = [line.split() for line in (DIGITS / "digits.txt").read_text().splitlines() if not line.startswith("#")]
    rows = np.array(lines, np.float32)
    np.save(tmp_path / "x.npy", rows[:, 1:].reshape(-1, 1, 8, 8))
    crumb("run", DIGITS / "digits_cnn.crumb", "--engine", "runtime", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert (np.load(tmp_path / "y.npy").argmax(1) == rows[:, 0]).mean() >= 0.98


class Loaded:
    """A model that is open, with one session."""

    def __init__(self, library, path):
        self.lib = ctypes.CDLL(str(library))
        self.lib.crumb_error.restype = ctypes.c_char_p
        self.model, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.crumb_open(str(path).encode(), ctypes.byref(self.model)))
        self.check(self.lib.crumb_session_open(self.model, None, ctypes.byref(self.session)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"{status}: {self.lib.crumb_error().decode()}")

    def run(self, arrays, result):
        """The bytes of one result; `arrays` are int64."""
        made, tensors = Tensor(), (Tensor * len(arrays))()
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.type, tensor.rank, tensor.shape = 7, array.ndim, (ctypes.c_int64 * array.ndim)(*array.shape)
            tensor.data, tensor.bytes = array.ctypes.data, array.nbytes
        self.check(self.lib.crumb_run(self.session, tensors, ctypes.c_size_t(len(arrays))))
        self.check(self.lib.crumb_result(self.session, ctypes.c_size_t(result), ctypes.byref(made)))
        return ctypes.string_at(made.data, made.bytes)

    def __del__(self):
        self.lib.crumb_session_close(self.session)
        self.lib.crumb_close(self.model)


def token_arrays():
    rng = np.random.default_rng(3)
    arrays = [rng.integers(1000, 20000, (3, 17)), np.ones((3, 17), np.int64), np.zeros((3, 17), np.int64)]
    arrays[1][1, 9:] = 0  # padding
    return arrays


@pytest.mark.parametrize("how", ["--layout rows", "--layout tiles", "--zstd 3", "--exclude *.layer.0.*", "float16"])
def test_a_real_encoder_from_one_packed_file_has_the_bits_of_the_command(library, crumb, minilm, tmp_path, how):
    """The file that `crumb quantize` writes holds the network's graph: the library knows no architecture. Its bits are those
    of the graph that the command builds from the configuration, too."""
    packed, graph = tmp_path / "minilm.crumb", tmp_path / "graph.crumb"
    model = as_float16(minilm, tmp_path / "half") if how == "float16" else minilm
    crumb("quantize", model, "-o", packed, "--scheme", "W4A16", *([] if how == "float16" else how.split()))
    crumb("export", packed, "-o", graph, "--to", "packed")
    arrays, wishes = token_arrays(), []
    for name, array in zip(("input_ids", "attention_mask", "token_type_ids"), arrays, strict=True):
        np.save(tmp_path / f"{name}.npy", array)
        wishes += ["--input", f"{name}={tmp_path / name}.npy"]
    crumb("run", packed, *wishes, "--engine", "runtime", "--output-dir", tmp_path / "out")
    expected = np.load(tmp_path / "out" / "sentence_embedding.npy").tobytes()
    for path in (packed, graph):
        assert Loaded(library, path).run(arrays, 1) == expected, path


def as_float16(model, folder):
    """The checkpoint with its tensors as float16."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    tensors = load_file(model / "model.safetensors")
    save_file({name: t.astype(np.float16) if t.dtype == np.float32 else t for name, t in tensors.items()},
              folder / "model.safetensors")  # fmt: skip
    return folder


def test_a_damaged_weight_is_found_when_it_is_used(library, crumb, minilm, tmp_path):
    """Opening looks at the header, scales and the graph; codes are looked at by the run that uses them."""
    packed = tmp_path / "minilm.crumb"
    crumb("quantize", minilm, "-o", packed, "--scheme", "W4A16", "--layout", "tiles")
    content = bytearray(packed.read_bytes())
    header = json.loads(content[64 : 64 + int.from_bytes(content[16:24], "little")])
    codes = next(t for t in header["tensors"] if t["name"].endswith("layer.3.output.dense.weight"))["codes"]
    content[codes["offset"] + codes["stored"] // 2] ^= 1
    packed.write_bytes(content)
    model = Loaded(library, packed)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="layer.3.output.dense.weight.*codes.*damaged"):
            model.run(token_arrays(), 1)
    assert "damaged" in crumb("verify", packed, status=1).stderr


class Decoder:
    """The decoder beside this file, through ctypes: what a language model's caller does."""

    def __init__(self, library, **options):
        self.lib = ctypes.CDLL(str(library))
        self.lib.crumb_error.restype = ctypes.c_char_p
        for name in ("crumb_cache_length", "crumb_cache_memory", "crumb_peak_memory"):
            getattr(self.lib, name).restype = ctypes.c_uint64
        self.session, model = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.crumb_open(str(HERE / "decoder.crumb").encode(), ctypes.byref(model)))
        self.check(self.lib.crumb_session_open(model, None, ctypes.byref(self.session)))
        self.lib.crumb_close(model)
        ties = ctypes.c_size_t()
        self.check(self.lib.crumb_cache_open(self.session, ctypes.c_uint64(options.get("most", 0)), ctypes.byref(ties)))
        assert ties.value == 4

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"{status}: {self.lib.crumb_error().decode()}")

    def call(self, name, *arguments):
        self.check(getattr(self.lib, name)(self.session, *arguments))

    def __del__(self):
        self.lib.crumb_session_close(self.session)

    def __len__(self):
        return self.lib.crumb_cache_length(self.session)

    def step(self, ids, low=np.float32(-1e9)):
        """The logits of more words, [batch, count] ids."""
        ids = np.ascontiguousarray(ids, np.int64)
        positions = np.broadcast_to(np.arange(len(self), len(self) + ids.shape[1]), ids.shape)
        seen = np.arange(len(self) + ids.shape[1]) <= positions[:, :, None]
        arrays = [ids, np.ascontiguousarray(positions), np.where(seen, np.float32(0), low)[:, None]]
        tensors = (Tensor * 3)()
        for tensor, array in zip(tensors, arrays, strict=True):
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            tensor.type, tensor.rank, tensor.shape = 1 if array.dtype == np.float32 else 7, array.ndim, shape
            tensor.data, tensor.bytes = array.ctypes.data, array.nbytes
        self.call("crumb_run", tensors, ctypes.c_size_t(3))
        made = Tensor()
        self.call("crumb_result", ctypes.c_size_t(0), ctypes.byref(made))
        return np.frombuffer(ctypes.string_at(made.data, made.bytes), np.float32).reshape(made.shape[: made.rank])

    def save(self):
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("crumb_cache_save", ctypes.byref(data), ctypes.byref(size))
        return ctypes.string_at(data.value, size.value)


def words(batch, count):
    return np.random.default_rng(8).integers(0, 40, (batch, count))


def test_a_decoder_runs_step_by_step_in_a_cache(library):
    ids = words(2, 30)
    whole = Decoder(library).step(ids)
    assert whole.shape == (2, 30, 40) and np.isfinite(whole).all()
    decoder = Decoder(library)
    steps = [decoder.step(ids[:, a:b]) for a, b in [(0, 11), *((i, i + 1) for i in range(11, 30))]]
    assert np.concatenate(steps, 1).tobytes() == whole.tobytes() and len(decoder) == 30
    decoder.call("crumb_cache_truncate", ctypes.c_uint64(20))
    assert decoder.step(ids[:, 20:]).tobytes() == whole[:, 20:].tobytes()
    decoder.call("crumb_cache_reset")
    assert len(decoder) == 0
    assert decoder.step(ids[1:, :5]).tobytes() == whole[1:, :5].tobytes()  # another batch


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_a_decoder_has_the_same_bits_on_every_instruction_set(library, isa):
    ids = words(2, 30)
    expected = hashlib.sha256(Decoder(library).step(ids).tobytes()).hexdigest()
    program = "import sys, hashlib; from test_library import *; d = Decoder(sys.argv[1]); ids = words(2, 30);" \
              "print(hashlib.sha256(np.concatenate([d.step(ids[:, :9]), d.step(ids[:, 9:])], 1).tobytes()).hexdigest())"  # fmt: skip
    environment = {**os.environ, "CRUMB_ISA": isa}
    assert say(sys.executable, "-c", program, library, cwd=HERE, env=environment).split() == [expected]


def test_a_cache_is_saved_and_goes_on_elsewhere(library):
    ids = words(1, 20)
    one, other = Decoder(library), Decoder(library)
    one.step(ids[:, :12])
    saved = one.save()
    other.call("crumb_cache_restore", saved, ctypes.c_size_t(len(saved)))
    assert other.save() == saved and other.step(ids[:, 12:]).tobytes() == one.step(ids[:, 12:]).tobytes()
    for wrong in (saved[:-1], saved + b"0", b"", saved[:40] + b"!" + saved[41:]):
        with pytest.raises(RuntimeError, match="4: a saved session"):
            other.call("crumb_cache_restore", wrong, ctypes.c_size_t(len(wrong)))
    assert len(other) == 20


def test_the_decoder_computes_what_onnxruntime_does(library, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    from decoder_model import decoder

    model = decoder()
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString())
    except Exception as error:
        pytest.skip(f"onnxruntime does not take it: {error}")
    ids = words(2, 9)
    positions = np.broadcast_to(np.arange(9), ids.shape)
    mask = np.where(np.tril(np.ones((9, 9), bool)), np.float32(0), np.float32(-1e9))
    feed = {"ids": ids, "positions": np.ascontiguousarray(positions), "mask": np.ascontiguousarray(np.broadcast_to(mask, (2, 1, 9, 9)))}
    feed |= {value.name: np.zeros((2, 2, 0, 8), np.float32) for value in model.graph.input if "past" in value.name}
    expected = session.run(["logits"], feed)[0]
    found = Decoder(library).step(ids)
    assert np.abs(found - expected).max() < 0.03 * np.abs(expected).max()  # weights of eight bits


def test_a_cache_has_at_most_so_many_places(library):
    decoder = Decoder(library, most=8)
    decoder.step(words(1, 8))
    with pytest.raises(RuntimeError, match="over the most of 8"):
        decoder.step(words(1, 1))
    # Keys and values of floats have memory for whole blocks of sixteen places.
    assert len(decoder) == 8 and decoder.lib.crumb_cache_memory(decoder.session) == 4 * 16 * 2 * 8 * 4


def test_the_library_is_small_and_shows_its_own_names_alone(library, tmp_path):
    stripped = tmp_path / "libcrumb.so"
    say("strip", "-o", stripped, library)
    assert stripped.stat().st_size < 4_200_000  # 2.4 MB run graphs, .5 MB of it products with codes; tokenizers and chat templates are the rest
    shown = [line.split()[-1] for line in say("nm", "-D", "--defined-only", library).splitlines()]
    assert "crumb_run" in shown and all(name.startswith("crumb_") for name in shown)
    needed = [line.split()[-1] for line in say("readelf", "-d", library).splitlines() if "NEEDED" in line]
    for heavy in ("torch", "protobuf", "onnx", "yaml", "c10"):
        assert not any(heavy in name for name in needed), needed


def test_the_header_is_plain_c_and_plain_cpp(tmp_path):
    (tmp_path / "a.c").write_text("#include <crumb.h>\nint main(void) { return crumb_error() == 0; }\n")
    (tmp_path / "a.cpp").write_text("#include <crumb.h>\nint main() { return crumb_error() == nullptr; }\n")
    for compiler, standard, name in (("cc", "c99", "a.c"), ("c++", "c++11", "a.cpp")):
        say(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", ROOT / "runtime",
            tmp_path / name, env=os.environ)  # fmt: skip
