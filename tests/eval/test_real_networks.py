"""crumb eval on real networks in floats, at W8A8 and with weights of four bits: its metrics are those of scikit-learn, scikit-image,
jiwer and scipy on what `crumb run` and `crumb embed` give, and docs/evaluation.md shows these figures.

What the networks see is drawn (tests/zoo/zoo_samples.py), or made of the repository's sentences and the test texts of scripts/setup.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/zoo"), str(ROOT / "tests/docs")]
import zoo  # noqa: E402
import zoo_samples  # noqa: E402

jiwer = pytest.importorskip("jiwer")
pictures = pytest.importorskip("skimage.metrics")
metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.slow


class Measured:
    """A float network and two quantized ones, evaluated side by side."""

    def __init__(self, crumb, folder, network, data, flags, four, calibration, eight=()):
        self.crumb, self.folder, self.data = crumb, folder, data
        self.models = [network, folder / "w8a8.crumb", folder / "w4.crumb"]
        crumb("quantize", network, "-o", self.models[1], "--scheme", "W8A8", "--data", *calibration, *eight, timeout=3000)
        crumb("quantize", network, "-o", self.models[2], "--weights", four)
        done = crumb("eval", *self.models[1:], "--baseline", network, "--data", data, *flags, "--json", timeout=3000)
        self.found = json.loads(done.stdout)["models"]

    def outputs(self):
        """What `crumb run` gives: of the floats, of eight and of four bits."""
        made = []
        for model in self.models:
            self.crumb("run", model, "--input", self.data, "--output", self.folder / "out.npy", timeout=3000)
            made.append(np.load(self.folder / "out.npy"))
        return made

    def check(self, name, values, rel=1e-9):
        """`values`: what another library says, of the floats, of eight and of four bits."""
        for model, value in zip(self.found, values[1:], strict=True):
            metric = model["metrics"][name]
            assert metric["baseline"] == pytest.approx(values[0], rel=rel) and metric["model"] == pytest.approx(value, rel=rel), name

    def row(self, what, name, digits):
        """As docs/evaluation.md has it: the metric, its differences with their intervals, and KL or SQNR."""
        shown = [what, f"`{name}`", f"{self.found[0]['metrics'][name]['baseline']:.{digits}f}"]
        for model in self.found:
            metric = model["metrics"][name]
            low, high = metric["interval"]
            shown.append(f"{metric['model']:.{digits}f} ({metric['difference']:+.{digits}f}; {low:+.{digits}f} to {high:+.{digits}f})")
        return "| " + " | ".join(shown) + " |"

    def is_shown(self, what, name, digits, near=0):
        """`near`: how far figures may be off, of networks that were trained on another processor."""
        row = self.row(what, name, digits)
        print(row)
        begin = "| ".join(row.split("| ")[:3])
        there = next((line for line in (ROOT / "docs/evaluation.md").read_text().splitlines() if line.startswith(begin)), "none")
        number = re.compile(r"[-+]?\d+\.\d+")
        found, expected = (np.array([float(x) for x in number.findall(line)]) for line in (row, there))
        assert row == there or (near and np.allclose(found, expected, atol=near)), there


def test_digits(crumb, tmp_path):
    import test_shown_commands as pages

    pages.make_network(crumb, tmp_path)
    here = Measured(crumb, tmp_path, tmp_path / "net.onnx", tmp_path / "x.npy", ["--labels", tmp_path / "y.npy"], "int4:channel",
                    [tmp_path / "x.npy"])  # fmt: skip
    labels = np.load(tmp_path / "y.npy")
    top = [made.argmax(1) for made in here.outputs()]
    here.check("top1", [100 * metrics.accuracy_score(labels, t) for t in top])
    here.check("balanced_accuracy", [100 * metrics.balanced_accuracy_score(labels, t) for t in top])
    here.is_shown("CNN of digits, 200 images", "top1", 2)


def paddle(file):
    path = zoo.FOLDER / "rapidocr_onnxruntime" / file
    if not path.is_file():
        pytest.skip(f"{path} is not there: scripts/setup tests (slow-tests)")
    return path


def test_paddle_recognizer(crumb, tmp_path):
    onnx = pytest.importorskip("onnx")
    network, texts = paddle("rec_infer.onnx"), []
    np.save(tmp_path / "x.npy", zoo_samples.text_lines(2, 48, texts=texts))
    np.save(tmp_path / "c.npy", zoo_samples.text_lines(1, 12))
    (tmp_path / "y.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    properties = {one.key: one.value for one in onnx.load(network).metadata_props}
    symbols = properties["character"].splitlines()
    (tmp_path / "alphabet.txt").write_text("".join(f"{symbol}\n" for symbol in symbols), encoding="utf-8")
    here = Measured(crumb, tmp_path, network, tmp_path / "x.npy", ["--labels", tmp_path / "y.txt", "--alphabet", tmp_path / "alphabet.txt"],
                    "int4:channel", [tmp_path / "c.npy"])  # fmt: skip
    classes = ["", *symbols, " "]

    def text_of(path):
        return "".join(classes[c] for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c))

    read = [[text_of(path) for path in made.argmax(2)] for made in here.outputs()]
    here.check("cer", [100 * jiwer.cer(texts, one) for one in read])
    here.check("wer", [100 * jiwer.wer(texts, one) for one in read])
    here.is_shown("PaddleOCR's recognizer, 48 lines", "cer", 2)


def test_paddle_detector(crumb, tmp_path):
    network, inked = paddle("det_infer.onnx"), []
    np.save(tmp_path / "x.npy", zoo_samples.text_pages(2, 16, inked=inked))
    np.save(tmp_path / "c.npy", zoo_samples.text_pages(1, 8))
    np.save(tmp_path / "y.npy", np.stack(inked))
    here = Measured(crumb, tmp_path, network, tmp_path / "x.npy", ["--labels", tmp_path / "y.npy", "--task", "segment", "--threshold", "0.3"],
                    "int4:channel", [tmp_path / "c.npy"])  # fmt: skip
    labels, made = np.stack(inked).ravel(), [made.ravel() > 0.3 for made in here.outputs()]
    here.check("mean_iou", [100 * metrics.jaccard_score(labels, one, average="macro") for one in made])
    here.check("pixel_accuracy", [100 * metrics.accuracy_score(labels, one) for one in made])
    here.is_shown("PaddleOCR's detector, 16 pages", "mean_iou", 2)


def test_super_resolution(crumb, engine, tmp_path):
    data = zoo.CACHE / "data"
    if not (data / "china.npy").is_file():
        pytest.skip(f"{data} holds no photographs (scripts/setup tests)")
    crumb("train", "task", "sr", "--float-only", "-o", tmp_path / "sr", "--data-dir", data, timeout=1200)
    folder = tmp_path / "sr"
    here = Measured(crumb, tmp_path, folder / "float.onnx", folder / "valid.npy", ["--labels", folder / "labels.npy", "--peak", "255"],
                    "int4:channel", [folder / "calibration.npy"])  # fmt: skip
    labels, outputs = np.load(folder / "labels.npy"), here.outputs()

    def mean(measure, made):
        return np.mean([measure(y[0].astype(np.float64), x[0].astype(np.float64)) for y, x in zip(labels, made, strict=True)])

    def ssim(y, x):
        return pictures.structural_similarity(y, x, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)

    here.check("psnr", [mean(lambda y, x: pictures.peak_signal_noise_ratio(y, x, data_range=255), made) for made in outputs])
    here.check("ssim", [mean(ssim, made) for made in outputs])
    here.is_shown("ESPCN x3, 24 tiles of a photograph", "psnr", 2, near=0.5)


def test_minilm(crumb, minilm, tmp_path):
    """Pairs of a sentence and what is left of it when words of another take the place of some; the score is the share that is left."""
    rng = np.random.default_rng(4)
    sentences = [line.split() for line in (ROOT / "examples/sentences.txt").read_text(encoding="utf-8").splitlines()]
    lines, scores = [], []
    for i, words in enumerate(sentences):
        other, kept = sentences[(i + 7) % len(sentences)], rng.random()
        stays = rng.random(len(words)) < kept
        mixed = [word if stay else other[j % len(other)] for j, (word, stay) in enumerate(zip(words, stays, strict=True))]
        lines.append((" ".join(words), " ".join(mixed)))
        scores.append(np.float32(stays.mean()))
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a, b in lines), encoding="utf-8")
    (tmp_path / "flat.txt").write_text("".join(f"{a}\n{b}\n" for a, b in lines), encoding="utf-8")
    (tmp_path / "scores.txt").write_text("".join(f"{score}\n" for score in scores))
    here = Measured(crumb, tmp_path, minilm, tmp_path / "pairs.txt", ["--labels", tmp_path / "scores.txt"], "int4:group=32",
                    [ROOT / "examples/calibration_sentences.txt"])  # fmt: skip
    expected = []
    for model in here.models:
        crumb("embed", model, "--text", tmp_path / "flat.txt", "-o", tmp_path / "v.npy")
        v = np.load(tmp_path / "v.npy").astype(np.float64)
        cosine = (v[::2] * v[1::2]).sum(1) / np.sqrt((v[::2] ** 2).sum(1) * (v[1::2] ** 2).sum(1))
        expected.append(stats.spearmanr(cosine, scores).statistic)
    here.check("spearman", expected)
    here.is_shown("all-MiniLM-L6-v2, 200 pairs", "spearman", 4)


def test_smollm2(crumb, smollm2, tmp_path):
    texts = zoo.CACHE / "lm_text"
    if not (texts / "valid.txt").is_file():
        pytest.skip(f"{texts} holds no texts (scripts/setup tests)")
    tokens = ["--tokens", "1024", "--context", "256"]
    here = Measured(crumb, tmp_path, smollm2, texts / "valid.txt", tokens, "int4:group=32", [texts / "calib.txt"],
                    ["--tokens", "48", "--method", "rounding"])  # fmt: skip
    said = json.loads(crumb("perplexity", *here.models[1:], "--baseline", smollm2, "--text", texts / "valid.txt", *tokens, "--json",
                            timeout=3000).stdout)  # fmt: skip
    here.check("perplexity", [said["models"][0]["baseline_perplexity"], *(model["perplexity"] for model in said["models"])])
    here.is_shown("SmolLM2-135M-Instruct, 1,024 tokens", "perplexity", 2)
