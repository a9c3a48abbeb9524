"""The published model: answers of transformers on the same floats, and the perplexities of shared tables (measured with transformers
on the same windows of the same tokens)."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
NEAR = 1e-3  # of logits; what both differ by is a tenth of it
PROMPTS = [
    "The capital of France is", "Once upon a time, in a small village by the sea,", "def fibonacci(n):\n",
    "The three laws of thermodynamics say that", "Q: How do plants make sugar from light?\nA:",
    "Dear Sir or Madam,\n\nI am writing to", "1, 1, 2, 3, 5, 8, 13,", "Die Hauptstadt von Deutschland ist",
    "<|im_start|>user\nWhat is two plus two?<|im_end|>\n<|im_start|>assistant\n", "“It’s raining,” she said —",
]  # fmt: skip
# Of windows' second halves, embeddings float: perplexity, KL, equal first choice in percent
TABLE = {"int4:group=32": (46.43, 0.402, 66.6), "mxfp4": (53.45, 0.496, 63.1), "int3:group=64": (366, 2.48, 24)}


@pytest.fixture(scope="module")
def floats(crumb, smollm2, tmp_path_factory):
    folder = tmp_path_factory.mktemp("smollm2") / "float"
    crumb("dequantize", smollm2, "-o", folder)
    return folder


@pytest.mark.slow
def test_greedy_answers_are_those_of_transformers(crumb, floats, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(floats, dtype=torch.float32).eval()
    tokenizer = tokenizers.Tokenizer.from_file(str(floats / "tokenizer.json"))
    ties, tokens = [], 0
    for prompt in PROMPTS:
        (tmp_path / "prompt.txt").write_text(prompt)
        said = json.loads(crumb("generate", floats, "--prompt-file", tmp_path / "prompt.txt", "--tokens", 200, "--json").stdout)
        before, made = tokenizer.encode(prompt).ids, said["ids"]
        assert len(made) == 200 or said["stopped_by"] == "end"
        chosen = made + ([2] if said["stopped_by"] == "end" else [])
        with torch.no_grad():
            rows = model(torch.tensor([before + made])).logits[0, len(before) - 1 :]
        for place, token in enumerate(chosen):
            gap = float(rows[place].max() - rows[place, token])
            assert gap < NEAR, (prompt, place, gap)
            if gap > 0:
                ties.append((prompt, place, gap))
        tokens += len(chosen)
    print(f"{tokens} tokens, near-ties taken the other way: {ties}")
    assert tokens > 1000 and len(ties) < 5


@pytest.mark.slow
def test_perplexities_are_those_of_the_table(crumb, floats, tmp_path, repo):
    reference = np.load(repo / "tests/fixtures/smollm2_valid_ids.npy")
    text = tmp_path / "text.txt"
    text.write_text(tokenizers.Tokenizer.from_file(str(floats / "tokenizer.json")).decode(reference.tolist()))
    assert list(map(int, crumb("tokenize", floats, "--text", text).stdout.split())) == reference.tolist()
    windows = ["--text", text, "--context", 1024, "--json"]
    said = json.loads(crumb("perplexity", floats, *windows, timeout=3600).stdout)
    assert said["tokens"] == 16 * 1023 and said["perplexity"] == pytest.approx(36.376, rel=1e-3)
    packed = []
    for number, spec in enumerate(TABLE):
        packed.append(tmp_path / f"{number}.crumb")
        crumb("quantize", floats, "-o", packed[-1], "--weights", spec, "--embeddings", "keep")
    said = json.loads(crumb("perplexity", *packed, "--baseline", floats, *windows, "--score", "half", timeout=7200).stdout)
    for (half, kl, same), found in zip(TABLE.values(), said["models"], strict=True):
        assert found["baseline_perplexity"] == pytest.approx(33.644, rel=1e-3)
        assert found["perplexity"] == pytest.approx(half, rel=0.01)
        assert found["kl_mean"] == pytest.approx(kl, rel=0.01)
        assert 100 * found["same_top1"] == pytest.approx(same, abs=0.6)
