"""What is run, and whether that is all there is."""

import json
import re
import subprocess

from outputs.decoder import HEAD, KEY_HEADS, LAYERS

SCHEMES = ["W8A16", "W4A16", "W3A16", "W2A16", "FP8", "MXFP4", "MXFP8", "NVFP4", "W8A8", "W4A8", "W4A4", "hls4ml", "finn"]
TOOLS = ["finn", "hls4ml", "qonnx", "onnxruntime"]
PASSES = ["infer-shapes", "expand-functions", "fold-constants", "plain-constants", "fold-batch-norm", "fold-norms", "gemm-to-matmul",
          "matmul-to-gemm", "extract-conv-bias", "remove-identities", "fold-transposes", "channels-last", "channels-last-inputs",
          "unroll-recurrent", "readable-names", "to-float32", "to-float32-keep-io", "opset-13", "opset-17", "opset-21", "tidy"]  # fmt: skip
LEFT_OUT = {"bench": "it prints times", "doctor": "it prints where files lie", "man": "tests read its pages", "completion": "tests run its scripts",
            "sweep": "its tables hold times; its files are those of quantize"}


class Refusable(list):
    """A command that may be refused. Where any other is, that is said, since nothing is compared then."""


def commands(folder, quick):
    """Every command, in an order in which outputs of earlier ones are inputs of later ones."""
    yield from tables()
    yield from checkpoints()
    yield from graphs(folder)
    yield from tokenizers()
    yield from language_models()
    if (folder / "minilm").exists():
        yield from sentences()
    if not quick:
        yield from training()
    if not quick and (folder / "minilm").exists():
        yield from sentence_training()


def missing(crumb, lines, has_minilm):
    """A text for each verb and pass of that program which no line runs."""
    pages = [subprocess.run([crumb, *page], capture_output=True, text=True, check=True).stdout for page in (["--help"], ["passes", "--json"])]
    run = {line[0] for line in lines} | LEFT_OUT.keys() | (set() if has_minilm else {"embed"})
    for verb in re.findall(r"^  ([\w-]+) ", pages[0].split("\nQuantize and export:\n")[1], re.MULTILINE):
        if verb not in run:
            yield f"no line runs the verb {verb}, and LEFT_OUT has no reason"
    passes = {word for line in lines if line[0] == "passes" for word in line[1:]}
    for row in json.loads(pages[1])["passes"]:
        if row["name"] not in passes:
            yield f"no line runs the pass {row['name']}"


def tables():
    yield from [["--version"], ["formats"], ["formats", "--json"], ["formats", "e2m1", "--values"]]
    yield from [["recipe"], ["recipe", "--fields"], ["lint", "--rules"], ["run", "--operators"], ["passes"], ["passes", "--json"]]
    yield from (["recipe", scheme] for scheme in SCHEMES)


def checkpoints():
    odd = ["--set", "*.odd.weight=int3:group=8:pad"]  # its rows are divided by no block
    for scheme in SCHEMES[:8]:
        packed = f"{scheme}.crumb"
        yield ["quantize", "model.safetensors", "-o", packed, "--scheme", scheme, *odd]
        yield from [["inspect", packed], ["inspect", packed, "--json"], ["verify", packed]]
        yield ["compare", "model.safetensors", packed]
        yield ["compare", "other.safetensors", packed, "--json"]
        yield ["dequantize", packed, "-o", f"{scheme}.safetensors"]
    yield ["quantize", "model.safetensors", "-o", "zstd.crumb", "--scheme", "W4A16", "--zstd", "9", *odd, "--json"]
    yield ["quantize", "model.safetensors", "-o", "target.crumb", "--target", "3.5bpw"]
    yield ["quantize", "model.safetensors", "--dry-run", "--scheme", "W4A16", *odd]
    yield Refusable(["quantize", "model.safetensors", "-o", "refused.crumb", "--scheme", "W4A16"])
    yield Refusable(["quantize", "model.safetensors", "-o", "refused.crumb", "--weights", "int9"])
    yield from (["agree", "vectors.npy", "near.npy", *more] for more in ([], ["--json"]))


def graphs(folder):
    data = {"cnn.onnx": ("x.npy", "x.npy"), "lstm.onnx": ("steps.npy", "step.npy")}
    for name in [*data, *sorted(path.name for path in folder.glob("*.onnx") if path.name not in data)]:
        stem = name.removesuffix(".onnx")
        if name in data:
            yield from quantized_graphs(name, stem, *data[name])
        yield ["inspect", name, "--svg", f"{stem}.svg"]
        yield from ([verb, name, *more] for verb in ("inspect", "cost") for more in ([], ["--json"]))
        yield ["verify", name, "--accumulator", "16"]
        yield from (["passes", name, "-o", f"{stem}_{one}.onnx", one] for one in PASSES)
        yield ["passes", name, "-o", f"{stem}_tidy.crumb", "tidy"]
        yield from (["lint", name, "--for", tool] for tool in TOOLS)
    yield ["passes", "untidy.onnx", "-o", "untidy_all.onnx", *(one for one in PASSES if not one.startswith("opset")), "--json"]
    for tool in ("hls4ml", "finn"):
        yield ["quantize", "plain.onnx", "-o", f"plain_{tool}.crumb", "--profile", tool, "--data", "x.npy"]
        yield ["export", f"plain_{tool}.crumb", "-o", f"plain_{tool}_project", "--to", f"{tool}-project", "--json"]


def quantized_graphs(name, stem, data, given):
    """Of the samples in `data`, and run on those of `given`."""
    for scheme in ("W8A8", "W4A4", "hls4ml", "finn"):
        made = f"{stem}_{scheme}"
        yield ["quantize", name, "-o", f"{made}.onnx", "--scheme", scheme, "--data", data]
        yield ["quantize", name, "-o", f"{made}.crumb", "--scheme", scheme, "--data", data]
        yield ["run", f"{made}.onnx", "--input", given, "--output", f"{made}.npy"]
        yield from ([verb, f"{made}.crumb", *more] for verb in ("inspect", "cost") for more in ([], ["--json"]))
        yield ["verify", f"{made}.crumb", "--accumulator", "12", "--json"]
        yield from (["eval", f"{made}.crumb", "--baseline", name, "--data", data, *more] for more in ([], ["--json"], ["--report", f"{made}.md"]))
        for form in ("qonnx", "qcdq", "float"):  # with FINN's average pool in QONNX alone
            yield Refusable(["export", f"{made}.crumb", "-o", f"{made}_{form}.onnx", "--to", form])
            yield Refusable(["convert", f"{made}.onnx", f"{made}_to_{form}.onnx", "--to", form])
        for tool in TOOLS:
            yield ["lint", f"{made}.onnx", "--for", tool, "--json"]
            yield ["lint", f"{made}.onnx", "--for", tool, "--fix", f"{made}_{tool}_fixed.onnx"]
    for tool in ("hls4ml", "finn"):  # neither has an LSTM, nor hls4ml the average pool
        yield Refusable(["export", f"{stem}_{tool}.crumb", "-o", f"{stem}_{tool}_project", "--to", f"{tool}-project"])
    yield ["quantize", name, "-o", f"{stem}_mixed.onnx", "--recipe", f"{stem}.yaml", "--data", data, "--to", "qcdq"]
    yield ["run", name, "--input", data, "--output-dir", f"{stem}_values", "--all-tensors"]
    yield ["run", f"{stem}_W4A4.onnx", "--input", given, "--output", f"{stem}_wrapped.npy", "--accumulator", "7", "--overflow", "wrap"]


def tokenizers():
    yield from (["tokenize", "letters.json", "--text", "lines.txt", *more] for more in ([], ["--pieces", "--lines"], ["--json"]))
    yield ["detokenize", "letters.json", "--ids", "0 3 8 15"]
    yield from (["tokenize", "decoder", "--text", "-", *more] for more in ([], ["--pieces", "--lines"], ["--json", "--no-special"]))
    yield from (["tokenize", "decoder", "--chat", "messages.json", *more] for more in ([], ["--rendered", "--no-generation-prompt"]))
    yield from (["detokenize", "decoder", "--ids", "256 72 259 75 195 131", *more] for more in ([], ["--special"], ["--json"]))


# How a decoder is packed (as a checkpoint, as a graph, calibrated on a text), and what it is exported to.
TO_FOLDERS, TO_GRAPHS = ["hf", "compressed-tensors"], ["qonnx", "qcdq", "packed"]
PACKED = {
    "groups": (["--weights", "int4:group=32", "--embeddings", "int8:channel:scale=f16"], ["gguf", *TO_FOLDERS, *TO_GRAPHS]),
    "tiles": (["--weights", "int3:group=16", "--embeddings", "int6:group=16", "--layout", "tiles", "--zstd", "3"], TO_FOLDERS),
    "cache": (["--weights", "int8:channel", "--embeddings", "keep", "--kv-cache", "int4:rotate"], [*TO_FOLDERS, "qonnx", "packed"]),
    "floats": (["--weights", "nvfp4", "--kv-cache", "e4m3fn"], TO_FOLDERS),
    "gguf": (["--scheme", "gguf:q4_0", "--embeddings", "gguf:q8_0"], ["gguf"]),
    "tokens": (["--weights", "int4:group=16", "--activations", "int8:token", "--kv-cache", "int8"], ["qonnx", "packed"]),
    "tensors": (["--scheme", "W8A8", "--data", "train.txt"], TO_GRAPHS),
}
OUTPUTS = {"gguf": ".gguf", "hf": "_hf", "compressed-tensors": "_codes", "packed": "_graph.crumb"}


def language_models():
    yield from (["inspect", "decoder", *more] for more in ([], ["--tensors"], ["--json"], ["--svg", "decoder.svg"], ["--memory"]))
    yield ["cost", "decoder", "--json"]
    yield from answers("decoder")
    for name, (how, forms) in PACKED.items():
        stem, packed = f"decoder_{name}", f"decoder_{name}.crumb"
        yield ["quantize", "decoder", "-o", packed, *how]
        yield ["quantize", "decoder", "--dry-run", *how, "--json"]
        yield from [["inspect", packed], ["inspect", packed, "--json"], ["verify", packed]]
        yield Refusable(["compare", "decoder", packed])  # of a graph: its norms are no tensors of the file
        yield ["dequantize", packed, "-o", f"{stem}.safetensors"]
        yield from answers(packed)
        yield ["perplexity", packed, "--text", "valid.txt", "--context", "64", "--baseline", "decoder"]
        yield from language_exports(packed, stem, forms)
    yield from other_answers()
    yield from folders_and_gguf()


def answers(model):
    """The same on every machine, whatever the threads."""
    asked = ["generate", model, "--prompt", "Rivers run", "--tokens", "24"]
    yield from [[*asked, "--json"], [*asked, "--json", "--fast"]]
    yield [*asked, "--json", "--temperature", "0.9", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.01", "--repeat-penalty", "1.1", "--seed", "7"]
    yield ["perplexity", model, "--text", "valid.txt", "--context", "48", "--score", "half", "--json"]


def other_answers():
    packed = "decoder_cache.crumb"
    for model in ("decoder", packed):
        stem = model.removesuffix(".crumb")
        yield ["generate", model, "--prompt-file", "lines.txt", "--tokens", "12", "--stop", "e"]
        long = ["generate", model, "--prompt", "Rivers", "--tokens", "40", "--context", "24"]
        yield from [Refusable(long), [*long, "--shift", "--temperature", "0.5"]]
        yield ["generate", model, "--chat", "--system", "Be short.", "--prompt", "What runs?", "--tokens", "12", "--json"]
        yield ["generate", model, "--chat", "--tokens", "8"]
        first, then = f"{stem}_first.cache", f"{stem}_then.cache"
        yield ["generate", model, "--prompt", "Rivers run", "--tokens", "6", "--save-cache", first]
        yield ["generate", model, "--prompt", "Rivers run to", "--tokens", "9", "--load-cache", first, "--save-cache", then, "--json"]
        yield ["perplexity", model, "--text", "valid.txt", "--context", "32", "--stride", "8", "--tokens", "150", "--threads", "2"]
    yield ["generate", "decoder", "--prompt", "Rivers", "--tokens", "12", "--kv-cache", "int4:group=8", "--json"]
    yield ["perplexity", packed, "decoder_groups.crumb", "--text", "valid.txt", "--context", "64", "--baseline", "decoder", "--json", "--fast"]
    given = [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    inputs = [f"--input={name}=decoder_inputs/{name}.npy" for name in ("input_ids", "attention_mask", "position_ids", *given)]
    for engine in ("runtime", "libtorch"):
        yield ["run", "decoder_tokens.crumb", *inputs, "--output-dir", f"decoder_values_{engine}", "--engine", engine]


def language_exports(packed, stem, forms):
    sizes = ["input_ids=1x4", "attention_mask=1x6", "position_ids=1x4"]
    sizes += [f"past_key_values.{layer}.{part}=1x{KEY_HEADS}x2x{HEAD}" for layer in range(LAYERS) for part in ("key", "value")]
    more = {
        "qonnx": [word for size in sizes for word in ("--shape", size)],
        "qcdq": ["--opset", "21", "--native-types"],
        "hf": ["--shard", "100KB"],
        "compressed-tensors": ["--allow-approximate", "--json"],
    }
    for form in forms:
        yield ["export", packed, "-o", stem + OUTPUTS.get(form, f"_{form}.onnx"), "--to", form, *more.get(form, [])]


def folders_and_gguf():
    yield ["export", "decoder", "-o", "decoder.gguf", "--to", "gguf", "--json"]
    yield ["convert", "decoder_gguf.gguf", "again.crumb"]
    yield ["convert", "again.crumb", "again.gguf", "--json"]
    yield ["compare", "decoder_groups.crumb", "decoder_groups_codes"]
    yield ["quantize", "tied", "-o", "tied.crumb", "--weights", "int4:group=32", "--embeddings", "int8:group=32"]
    yield Refusable(["export", "decoder_tiles.crumb", "-o", "decoder_tiles.gguf", "--to", "gguf"])  # groups of 16
    yield from language_exports("tied.crumb", "tied", ["gguf", *TO_FOLDERS, *TO_GRAPHS])
    yield ["passes", "decoder", "-o", "decoder_folded", "fold-norms"]
    yield ["passes", "tied", "-o", "tied_folded", "fold-norms", "--json"]
    yield ["quantize", "decoder.gguf", "-o", "from_gguf.crumb", "--weights", "int4:group=32", "--zstd", "3"]
    yield ["quantize", "decoder_groups_codes", "-o", "from_codes.crumb", "--weights", "e2m1:group=16"]
    yield ["dequantize", "again.gguf", "-o", "from_again"]
    yield ["dequantize", "decoder_groups.crumb", "-o", "decoder_shards", "--shard", "100KB"]
    for model in ("again.gguf", "again.crumb", "decoder_groups_hf", "decoder_groups_codes", "from_again", "tied", "tied.gguf", "tied_folded"):
        yield ["inspect", model]
        yield from answers(model)
    for model in ("again.gguf", "again.crumb"):
        yield ["tokenize", model, "--text", "lines.txt"]
        yield ["tokenize", model, "--chat", "messages.json"]


def sentences():
    yield ["quantize", "minilm", "-o", "minilm.crumb", "--scheme", "W4A16"]
    yield from ([verb, "minilm.crumb"] for verb in ("inspect", "verify"))
    yield ["embed", "minilm.crumb", "--text", "lines.txt", "-o", "packed.npy"]
    yield ["embed", "minilm", "--text", "lines.txt", "-o", "float.npy"]
    yield ["agree", "float.npy", "packed.npy"]
    yield from (["eval", "minilm.crumb", "--baseline", "minilm", "--data", "lines.txt", *more] for more in ([], ["--json"]))
    yield ["export", "minilm.crumb", "-o", "minilm.onnx", "--to", "qcdq"]


def sentence_training():
    how = ["--data", "lines.txt", "--valid", "lines.txt", "--batch", "4", "--length", "16", "--steps", "2", "--threads", "1", "--products", "f32"]
    yield ["train", "embed", "--model", "minilm", "-o", "minilm_trained", "--weights", "int3:group=64", *how]
    yield ["recover", "minilm.crumb", "--baseline", "minilm", "-o", "minilm_recovered", "--rank", "4", *how]
    for model in ("minilm_trained", "minilm_recovered"):
        yield ["embed", f"{model}/model.crumb", "--text", "lines.txt", "-o", f"{model}.npy"]


def training():
    short = ["--epochs", "1", "--float-epochs", "1"]
    for task in ("digits", "jets", "ocr", "sr"):
        yield ["train", "task", task, "-o", f"{task}_trained", *short]
        yield ["train", "task", task, "-o", f"{task}_a2q", *short, "--accumulator", "14:a2q_plus"]
    yield ["train", "task", "digits", "-o", "digits_finn", "--network", "cnn", "--profile", "finn", *short]
    yield ["train", "graph", "cnn.onnx", "-o", "own", "--data", "x.npy", "--labels", "labels.npy", "--loss", "ce", *short]
    yield ["train", "task", "digits", "-o", "pruned", *short, "--prune", "0.5"]
    lm = ["train", "lm", "--model", "decoder", "--valid", "valid.txt", "--length", "24", "--batch", "2", "--threads", "1", "--products", "f32"]
    yield [*lm, "--data", "train.txt", "-o", "lm_trained", "--weights", "int2h:group=16", "--steps", "4"]
    yield [*lm, "--data", "chat.jsonl", "-o", "lm_chat", "--weights", "ternary:group=16", "--steps", "3", "--teacher", "none", "--json"]
    yield [*lm, "--data", "train.txt", "-o", "lm_layers", "--weights", "int2h:group=16", "--embeddings", "int4:group=16", "--activations",
           "int8:token", "--kv-cache", "int4:rotate", "--steps", "2", "--block-wise", "2", "--block-sequences", "4"]  # fmt: skip
    yield [*lm, "--data", "synthetic", "--tokens", "96", "-o", "lm_drawn", "--weights", "int4:group=16", "--stages",
           "block_wise:sequences=2,end_to_end:steps=3", "--average", "0.5"]  # fmt: skip
    scratch = ["--from-scratch" if part == "--model" else part for part in lm]
    yield [*scratch, "--data", "train.txt", "-o", "lm_fresh", "--weights", "keep", "--embeddings", "keep", "--steps", "3"]
    yield ["inspect", "lm_drawn/synthetic.npy", "--json"]
    yield from recovery()
    for made in ("lm_trained", "lm_chat", "lm_layers", "lm_drawn", "lm_fresh", "recovered"):
        yield ["verify", f"{made}/model.crumb"]
        yield from answers(f"{made}/model.crumb")


def recovery():
    how = ["--baseline", "decoder", "--valid", "valid.txt", "--length", "24", "--batch", "2", "--threads", "1", "--products", "f32"]
    yield ["recover", "decoder_groups.crumb", "-o", "recovered", "--data", "train.txt", "--rank", "4", "--steps", "4", "--rate", "0.01", *how]
    yield ["recover", "decoder_floats.crumb", "-o", "recovered_chat", "--data", "chat.jsonl", "--init", "svd", "--loss", "mix", "--type", "int8",
           "--rslora", "--targets", "*mlp*", "--steps", "2", "--json", *how]  # fmt: skip
    for model in ("decoder", "decoder_cache.crumb"):
        yield ["generate", model, "--adapter", "recovered/adapter", "--prompt", "Bread is", "--tokens", "12", "--json"]
    yield ["merge", "decoder", "--adapter", "recovered/adapter", "-o", "merged_floats"]
    yield ["quantize", "decoder", "-o", "low_rank.crumb", "--weights", "int2h:group=16", "--stages", "low_rank:rank=4:iterations=2"]
    yield ["recover", "low_rank.crumb", "-o", "kept", "--data", "train.txt", "--init", "kept", "--steps", "4", *how]
    yield ["export", "recovered/model.crumb", "--to", "packed", "--without-adapters", "-o", "recovered_base.crumb"]
    yield ["merge", "recovered/model.crumb", "-o", "merged.crumb"]
    yield ["export", "recovered/model.crumb", "--to", "adapter", "-o", "adapter_peft"]
    yield ["export", "recovered/model.crumb", "--to", "adapter", "-o", "adapter.gguf"]
    yield ["merge", "recovered_chat/model.crumb", "-o", "merged_chat.crumb", "--weights", "int4:group=16", "--json"]
    for model in ("merged_floats", "merged.crumb", "merged_chat.crumb"):
        yield ["inspect", model, "--json"]
        yield from answers(model)
