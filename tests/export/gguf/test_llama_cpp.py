"""llama.cpp itself loads what `crumb export --to gguf` writes, and computes the model that was meant: its own tool compares
its logits with those of transformers on the same weights.

Matrices of codes meet activations of 8 bits in llama.cpp, which costs SmolLM2 a KL divergence of about .003."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
from gguf_checkpoints import FAMILIES, make_folder, with_metadata  # noqa: E402

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).resolve().parents[2] / "fixtures" / "smollm2_valid_ids.npy"


def write_base(path, ids, logits, context):
    """Logits as llama-perplexity keeps them (tools/perplexity/perplexity.cpp): of the second half of each window the
    logarithms of probabilities, within 16 of the greatest, in 16 bits."""
    chunks, vocabulary = len(ids) // context, logits.shape[-1]
    with open(path, "wb") as file:
        file.write(b"_logits_" + struct.pack("<Iii", context, vocabulary, chunks))
        file.write(ids[: chunks * context].astype("<i4").tobytes())
        for chunk in range(chunks):
            for row in logits[chunk, context // 2 : -1].astype(np.float32):
                least = max(row.min(), row.max() - np.float32(16))
                total = np.log(np.exp(row.astype(np.float64) - row.max()).sum())
                scale = np.float32((row.max() - least) / np.float32(65535))
                file.write(struct.pack("<ff", scale, least - row.max() - total))
                file.write(np.rint((np.maximum(row, least) - least) / scale).astype("<u2").tobytes())
                file.write(b"\0\0" * (vocabulary % 2))


def logits_of(folder, ids, context):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    windows = torch.from_numpy(ids[: len(ids) // context * context].astype(np.int64)).reshape(-1, context)
    with torch.no_grad():
        return np.stack([model(window[None], use_cache=False).logits[0].numpy() for window in windows])


def divergence(llama_tool, model, base, context, threads):
    for _ in range(20):  # it may end before its last lines are out: then what it said behind its last window counts
        said = llama_tool("llama-perplexity", "-m", model, "--kl-divergence", "--kl-divergence-base", base, "-c", context, "-b",
                    context, "-t", threads, "-ngl", 0)  # fmt: skip
        if found := re.search(r"Mean +KLD: +(-?[\d.]+)", said):
            return float(found[1])
        if rows := re.findall(r"^ +\d+ +\S+ ± +\S+ +\S+ ± +\S+ +(-?[\d.]+) ± ", said, re.M):
            return float(rows[-1])
    raise AssertionError(said[-2000:])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("weights,bound", [("", 2e-5), ("int8:group=32", 1e-2), ("int4:group=32", 1e-2)])
def test_every_architecture_is_the_same_network(crumb, llama_tool, tmp_path, name, weights, bound):
    make_folder(tmp_path / "model", name)
    ids = np.random.default_rng(2).integers(0, 256, 256)
    options = ["--weights", weights] if weights else ["--weights", "int8:channel", "--exclude", "*"]
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "m.crumb", "--embeddings", "keep", *options)
    crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "twin", "--shard", "1GB")
    logits = logits_of(tmp_path / "twin", ids, 64)
    assert logits.std() > 2
    write_base(tmp_path / "base", ids, logits, 64)
    assert abs(divergence(llama_tool, tmp_path / "m.gguf", tmp_path / "base", 64, 1)) < bound


@pytest.mark.parametrize("changes", [
    {}, {"rope.scaling.factor": 4.0}, {"rope.scale_linear": 4.0}, {"rope.scaling.factor": 2.0, "rope.scale_linear": 4.0}, {"rope.scale_linear": 0.0},
    {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, {"rope.scaling.type": "linear", "rope.scale_linear": 2.0},
    {"rope.scaling.type": "linear", "rope.scaling.attn_factor": 1.0}, {"rope.dimension_count": 16}, {"attention.causal": True}])  # fmt: skip
def test_metadata_mean_what_they_mean_to_llama_cpp(crumb, llama_tool, tmp_path, changes):
    """Its own tool on the file, transformers on what Crumb reads it as."""
    make_folder(tmp_path / "model", "llama")
    crumb("export", tmp_path / "model", "-o", tmp_path / "plain.gguf", "--to", "gguf")
    with_metadata(tmp_path / "plain.gguf", tmp_path / "m.gguf", changes)
    crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "read")
    ids = np.random.default_rng(2).integers(0, 256, 256)
    write_base(tmp_path / "base", ids, logits_of(tmp_path / "read", ids, 64), 64)
    assert abs(divergence(llama_tool, tmp_path / "m.gguf", tmp_path / "base", 64, 1)) < 2e-5


@pytest.mark.parametrize(
    "weights,least,bound",
    [("", -1e-5, 3e-4), ("int8:group=32", 1e-5, 6e-3), ("int4:group=32", 1e-5, 8e-3), ("mxfp4", 1e-5, 8e-3)],
)
def test_a_published_model_is_the_same(crumb, llama_tool, smollm2, tmp_path, weights, least, bound):
    context = 1024
    ids = np.load(GOLDEN)[: 2 * context]
    options = ["--weights", weights] if weights else ["--weights", "int8:channel", "--exclude", "*"]
    crumb("quantize", smollm2, "-o", tmp_path / "m.crumb", "--embeddings", "keep", *options)
    crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "twin", "--shard", "1GB")
    write_base(tmp_path / "base", ids, logits_of(tmp_path / "twin", ids, context), context)
    found = divergence(llama_tool, tmp_path / "m.gguf", tmp_path / "base", context, 2)
    assert least < found < bound


def test_llama_cpp_splits_text_as_we_do(crumb, llama_tool, smollm2, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    crumb("dequantize", smollm2, "-o", tmp_path / "model")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    ids = np.load(GOLDEN).tolist()
    text = tokenizer.decode(ids, skip_special_tokens=False) + "\nçà 12 345 日本語 🙂 <|im_start|>user\tx  y\n\n"
    (tmp_path / "text").write_text(text, encoding="utf-8")
    crumb("export", smollm2, "-o", tmp_path / "m.gguf", "--to", "gguf")
    said = llama_tool("llama-tokenize", "-m", tmp_path / "m.gguf", "-f", tmp_path / "text", "--ids", "--log-disable")
    found = [int(number) for number in re.search(r"\[([\d, ]+)\]", said)[1].split(",")]
    assert found == tokenizer.encode(text).ids


def test_llama_cpp_answers(crumb, llama_tool, smollm2, tmp_path):
    crumb("quantize", smollm2, "-o", tmp_path / "m.crumb", "--weights", "int8:group=32", "--embeddings", "int8:group=32")
    crumb("export", tmp_path / "m.crumb", "-o", tmp_path / "m.gguf", "--to", "gguf")
    said = llama_tool("llama-completion", "-m", tmp_path / "m.gguf", "-p", "The capital of France is", "-n", 4, "--temp", 0,
                "-no-cnv", "-t", 2)  # fmt: skip
    assert "Paris" in said
