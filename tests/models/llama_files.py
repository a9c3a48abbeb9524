"""A tiny Llama, its packed files, and how far what they predict is from it. Import it behind torch, transformers and tokenizers."""

import json

import tiny_decoders as tiny

LENGTH = 24  # of windows


def make_llama(work):
    """WORK/model, and texts beside it."""
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    return work


def quantize(crumb, made, out, *flags, weights="int2h:group=16"):
    """Its report."""
    done = crumb("quantize", made / "model", "-o", out, "--weights", weights, "--embeddings", "keep", "--json", *flags)
    return json.loads(done.stdout)


def divergence(crumb, model, made, *flags):
    """Mean KL over the text that it was not made by."""
    said = crumb("perplexity", model, "--text", made / "valid.txt", "--context", LENGTH, "--baseline", made / "model", "--json", *flags)
    return json.loads(said.stdout)["kl_mean"]
