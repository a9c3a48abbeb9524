"""A packed decoder and its float twin, the folder that `crumb dequantize` makes of it: the same bits of logits from each
engine, through caches of codes too, for every number format. The twin's weights are the packed file's to the bit, and an
engine multiplies both in the same order, so the bound is none at all; and answers are the same."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from decoder_runs import DecoderRun
from safetensors.numpy import load_file

pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")

SCHEMES = ["mxfp4:pad", "nvfp4", "mxfp8_e4m3:pad", "mxint8:pad", "int4:group=16:zero=int", "uint4:group=16:zero=min:scale=f16",
           "int4:tensor", "int4:channel", "int4:block=8x16", "int3:group=16:scale=f16", "uint5:group=16:zero=float",
           "int4:group=36:pad"]  # fmt: skip
KINDS = ["int2", "int5", "int8", "uint1", "uint7", "int2h", "int4h", "binary", "ternary", "e1m1", "e2m1", "e3m2", "e4m3fn", "e5m2",
         "e4m3fnuz", "e6m1", "nf4", "palette1", "palette5"]  # fmt: skip


def every_format(crumb_bin):
    listed = json.loads(subprocess.run([crumb_bin, "formats", "--json"], capture_output=True, text=True, check=True).stdout)
    return [row["name"] for row in listed["formats"] if row["name"] != "e8m0"]  # scales alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("llama3")
    tiny.make("llama3", made)
    return made


def twins(crumb, folder, work, weights, cache):
    """A packed file, and one of its values as floats; both with the cache's spec."""
    packed, values, twin = work / "q.crumb", work / "values", work / "twin.crumb"
    crumb("quantize", folder, "-o", packed, *weights, "--kv-cache", cache)
    crumb("dequantize", packed, "-o", values, "--shard", "8GB")
    crumb("quantize", values, "-o", twin, "--weights", "keep", "--embeddings", "keep", "--kv-cache", cache)
    return packed, twin


def steps_of(run, ids):
    """Logits of a prompt and of a step behind it."""
    first, past = run(ids[:, :-1])
    return np.concatenate([first, run(ids[:, -1:], past=past)[0]], axis=1)


def check_formats(crumb, folder, tmp_path, specs):
    ids = (np.arange(12)[None] * 37 + 5) % 256
    seen, decoded = set(), set()
    for number, spec in enumerate(specs):
        work = tmp_path / str(number)
        work.mkdir()
        cache = ("keep", "int8", "int4:group=8", "e4m3fn", "int4:rotate")[number % 5]
        packed, twin = twins(crumb, folder, work, ["--weights", spec, "--embeddings", spec], cache)
        found = [steps_of(DecoderRun(crumb, model, folder, work / model.stem), ids) for model in (packed, twin)]
        assert np.array_equal(*found), (spec, cache, np.abs(found[0] - found[1]).max())
        seen.add(found[0].tobytes())
        values = (load_file(path) for path in sorted((work / "values").glob("*.safetensors")))
        # Zeros of either sign are one number.
        decoded.add((b"".join((file[name] + 0.0).tobytes() for file in values for name in sorted(file)), cache))
    # Grids that are multiples of one another decode alike (e1m2 and int4); all others answer otherwise.
    assert len(decoded) >= len(specs) // 2 and len(seen) == len(decoded)


def test_kinds_of_formats_give_the_bits_of_their_floats(crumb, folder, tmp_path):
    check_formats(crumb, folder, tmp_path, [f"{name}:group=16" for name in KINDS] + SCHEMES)


@pytest.mark.slow
def test_every_format_gives_the_bits_of_its_floats(crumb, crumb_bin, folder, tmp_path):
    check_formats(crumb, folder, tmp_path, [f"{name}:group=16" for name in every_format(crumb_bin)])


def on_libtorch(crumb, packed, folder, work, spec, cache, ids):
    """Logits of a packed file, and of the floats that it exports without its cache's quantizers: their matrices lie as the graph
    has them, and the order of ATen's sums follows from that."""
    crumb("quantize", folder, "-o", work / "plain.crumb", "--weights", spec)
    crumb("export", work / "plain.crumb", "-o", work / "float.onnx", "--to", "float", "--opset", 24)
    crumb("quantize", work / "float.onnx", "-o", work / "twin.crumb", "--weights", "keep", "--embeddings", "keep", "--kv-cache", cache)
    models = (packed, work / "twin.crumb")
    return [steps_of(DecoderRun(crumb, model, folder, work / model.stem, "libtorch"), ids) for model in models]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("spec", "cache"), [("int4:group=16", "int8"), ("nvfp4", "e4m3fn"), ("palette3:tensor", "keep")])
def test_libtorch_gives_the_bits_of_the_floats_too(crumb, folder, tmp_path, spec, cache):
    ids = (np.arange(12)[None] * 37 + 5) % 256
    packed = tmp_path / "q.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", spec, "--kv-cache", cache)
    assert np.array_equal(*on_libtorch(crumb, packed, folder, tmp_path, spec, cache, ids))


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3_long", "smollm3", "olmo2"])
def test_every_family_answers_as_its_floats(crumb, tmp_path, name):
    made = tmp_path / "made"
    tiny.make(name, made)
    packed, twin = twins(crumb, made, tmp_path, ["--weights", "int4:group=8"], "int8")
    said = [json.loads(crumb("generate", model, "--prompt", "Say: 7 + 5!", "--tokens", 24, "--json").stdout)["ids"]
            for model in (packed, twin)]  # fmt: skip
    assert said[0] == said[1]


PUBLISHED = ["int4:group=32", "nvfp4", "palette4", "int8:channel", "int3:group=64", "int2h:group=32", "ternary:group=64", "mxfp4",
             "e4m3fn", "nf4:group=64", "int4:group=64:zero=int", "uint4:group=32:zero=min:scale=f16"]  # fmt: skip


@pytest.mark.slow
def test_a_published_model_gives_the_bits_of_its_floats(request, crumb, smollm2, tmp_path, repo):
    floats = tmp_path / "float"
    crumb("dequantize", smollm2, "-o", floats)
    ids = np.load(repo / "tests/fixtures/smollm2_valid_ids.npy")[None, :40].astype(np.int64)
    for number, spec in enumerate(PUBLISHED):
        work = tmp_path / str(number)
        work.mkdir()
        packed, twin = twins(crumb, floats, work, ["--weights", spec], "int8")
        found = [steps_of(DecoderRun(crumb, model, floats, work / model.stem), ids) for model in (packed, twin)]
        assert np.array_equal(*found), spec
        if number < 3:
            request.getfixturevalue("engine")
            assert np.array_equal(*on_libtorch(crumb, packed, floats, work, spec, "int8", ids)), spec
        shutil.rmtree(work)
