"""What the networks of the zoo are shown: drawn lines of text, synthesized sounds, files whose bytes are pinned.

All of it follows from a seed and from packages that scripts/requirements.txt pins, so that every machine has the same.
"""

import string
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

# --- Lines of text --------------------------------------------------------------------------------------------------


def _ink(random, shape):
    """A background of a soft gradient, and a colour that stands out from it."""
    height, width = shape
    dark = random.random() < 0.3
    low, high = (0, 90) if dark else (150, 255)
    corners = random.uniform(low, high, (2, 2, 3))
    y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    field = (corners[0, 0] * (1 - y) + corners[1, 0] * y) * (1 - x) + (corners[0, 1] * (1 - y) + corners[1, 1] * y) * x
    ink = random.uniform(170, 255, 3) if dark else random.uniform(0, 90, 3)
    return Image.fromarray(field.astype(np.uint8)), tuple(int(v) for v in ink)


def _words(random, letters):
    alphabet = string.ascii_letters + string.digits
    text = ""
    while len(text) < letters:
        text += "".join(random.choice(list(alphabet), random.integers(2, 9))) + " "
    return text.strip()


def _as_input(image, random):
    values = np.asarray(image, np.float32) + random.normal(0, random.uniform(0, 6), (*image.size[::-1], 3))
    return ((np.clip(values, 0, 255) / 255 - 0.5) / 0.5).astype(np.float32).transpose(2, 0, 1)


def text_lines(seed, count, height=48, width=320, turned=False, texts=None):
    """Single lines of random words, [count, 3, height, width] in -1..1; `turned`: half of them upside down. `texts` gets the words."""
    random = np.random.default_rng(seed)
    lines = []
    for i in range(count):
        image, ink = _ink(random, (height, width))
        size = int(height * random.uniform(0.45, 0.75))
        text = _words(random, int(width / size * 1.5))
        if texts is not None:
            texts.append(text)
        ImageDraw.Draw(image).text((6, (height - size) / 2 - 4), text, ink, ImageFont.load_default(size))
        if turned and i % 2:
            image = image.rotate(180)
        lines.append(_as_input(image, random))
    return np.stack(lines)


def text_pages(seed, count, side=320, inked=None):
    """Pages with several lines, [count, 3, side, side] in -1..1. `inked` gets of each page where its lines' boxes are, [side, side]."""
    random = np.random.default_rng(seed)
    pages = []
    for _ in range(count):
        image, ink = _ink(random, (side, side))
        draw, y = ImageDraw.Draw(image), random.uniform(5, 30)
        boxes = np.zeros((side, side), np.uint8)
        while y < side - 20:
            size = int(random.uniform(12, 34))
            line = (random.uniform(4, side / 3), y), _words(random, random.integers(5, 24))
            draw.text(*line, ink, ImageFont.load_default(size))
            left, top, right, bottom = draw.textbbox(*line, ImageFont.load_default(size))
            boxes[int(top) : int(bottom) + 1, int(left) : int(right) + 1] = 1
            y += size * random.uniform(1.2, 2.2)
        pages.append(_as_input(image, random))
        if inked is not None:
            inked.append(boxes)
    return np.stack(pages)


def photographs(seed, count, side, folder):
    """Patches of the two photographs of scikit-learn (scripts/unpack_data.py), mirrored and scaled, bytes [count, side, side, 3]."""
    random = np.random.default_rng(seed)
    images = [np.load(Path(folder) / f"{name}.npy") for name in ("china", "flower")]
    patches = []
    for i in range(count):
        image = images[i % 2]
        edge = int(random.integers(min(side, 200), image.shape[0]))
        y, x = random.integers(0, image.shape[0] - edge + 1), random.integers(0, image.shape[1] - edge + 1)
        patch = image[y : y + edge, x : x + edge]
        patch = patch[:, ::-1] if random.random() < 0.5 else patch
        patches.append(np.asarray(Image.fromarray(np.ascontiguousarray(patch)).resize((side, side), Image.BILINEAR)))
    return np.stack(patches)


# --- Files ----------------------------------------------------------------------------------------------------------


def pinned_files(seed, count, folder):
    """Beginnings and ends of files as magika takes them, int32 [count, 2048]: of the site-packages of pinned packages."""
    kinds = {}
    for package in ("sklearn", "numpy", "onnx", "torch/include/ATen", "torchgen", "PIL", "scipy/io", "sympy/core", "tqdm"):
        for path in sorted((Path(folder) / package).rglob("*")):
            if path.is_file() and path.stat().st_size >= 64 and path.suffix not in (".pyc", ""):
                kinds.setdefault(path.suffix, []).append(path)
    random = np.random.default_rng(seed)
    suffixes = sorted(kinds)
    rows = []
    for i in range(count):
        paths = kinds[suffixes[i % len(suffixes)]]
        data = paths[random.integers(len(paths))].read_bytes()
        begin = list(data[:4096].lstrip())[:1024]
        end = list(data[-4096:].rstrip())[-1024:]
        rows.append(begin + [256] * (1024 - len(begin)) + [256] * (1024 - len(end)) + end)
    return np.array(rows, np.int32)


# --- Sounds ---------------------------------------------------------------------------------------------------------


def _resonance(signal, frequency, width, rate):
    from scipy.signal import lfilter

    r = np.exp(-np.pi * width / rate)
    return lfilter([1 - r], [1, -2 * r * np.cos(2 * np.pi * frequency / rate), r * r], signal)


def voices(seed, count, seconds, rate=16000):
    """Something like speech: syllables of a gliding pulse train through three formants, hisses, pauses, a noisy room.

    float32 [count, seconds * rate] in -1..1."""
    random = np.random.default_rng(seed)
    length = int(seconds * rate)
    sounds = []
    for _ in range(count):
        sound, at, base = np.zeros(length), int(random.uniform(0, 0.2) * rate), random.uniform(85, 260)
        while at < length:
            span = min(int(random.uniform(0.08, 0.35) * rate), length - at)
            if random.random() < 0.25:
                piece = _resonance(random.normal(0, 1, span), random.uniform(2500, 6000), 900, rate)
            else:
                pitch = base * np.exp(np.linspace(*random.uniform(-0.25, 0.25, 2), span))
                phase = np.cumsum(pitch / rate)
                pulses = np.diff(np.floor(phase), prepend=0) + random.normal(0, 0.02, span)
                piece = pulses
                for low, high in ((250, 900), (800, 2400), (2200, 3400)):
                    piece = piece + 3 * _resonance(pulses, random.uniform(low, high), random.uniform(50, 160), rate)
            piece = piece / (np.abs(piece).max() + 1e-9) * np.hanning(span) * random.uniform(0.2, 1)
            sound[at : at + span] += piece
            at += span + (int(random.exponential(0.12) * rate) if random.random() < 0.5 else 0)
        sound = sound / np.abs(sound).max() * random.uniform(0.1, 0.9)
        sound += random.normal(0, 10 ** random.uniform(-4, -1.8), length)
        sounds.append(np.clip(sound, -1, 1))
    return np.stack(sounds).astype(np.float32)


def music(seed, count, length, rate=22050):
    """Plucked notes of several harmonics, up to four at a time, float32 [count, length]."""
    random = np.random.default_rng(seed)
    pieces = []
    for _ in range(count):
        piece = random.normal(0, 10 ** random.uniform(-4.5, -3), length)
        for _ in range(random.integers(3, 12)):
            begin, pitch = int(random.integers(0, length)), 440 * 2 ** ((random.integers(36, 90) - 69) / 12)
            time = np.arange(length - begin) / rate
            for harmonic in range(1, 9):
                if pitch * harmonic < rate / 2:
                    loud = random.uniform(0.02, 0.3) / harmonic
                    piece[begin:] += loud * np.sin(2 * np.pi * pitch * harmonic * time) * np.exp(-time * random.uniform(1, 5) * harmonic**0.5)
        pieces.append(np.clip(piece, -1, 1))
    return np.stack(pieces).astype(np.float32)


def mel_spectrogram(sound, bands, window, hop, rate=16000, points=None):
    """Power in bands of Slaney's scale, [frames, bands], as librosa computes it: Hann window, centred, padded with zeros."""
    points = points or window
    padded = np.pad(sound.astype(np.float64), points // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, points)[::hop]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(points) / points)
    power = np.abs(np.fft.rfft(frames * hann, axis=1)) ** 2
    to_mel = lambda f: np.where(f < 1000, f * 3 / 200, 15 + np.log(np.maximum(f, 1e-9) / 1000) / (np.log(6.4) / 27))
    to_hertz = lambda m: np.where(m < 15, m * 200 / 3, 1000 * np.exp((m - 15) * np.log(6.4) / 27))
    edges = to_hertz(np.linspace(to_mel(np.array(0.0)), to_mel(np.array(rate / 2)), bands + 2))
    at = np.fft.rfftfreq(points, 1 / rate)[None]
    rising = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    return (power @ weights.T).astype(np.float32)


def decibels(power):
    """DNSMOS' scale of a mel spectrogram: 10 log10 over the largest, at most 80 dB below it, (x + 40) / 40."""
    level = 10 * np.log10(np.maximum(power, 1e-10)) - 10 * np.log10(max(power.max(), 1e-10))
    return ((np.maximum(level, level.max() - 80) + 40) / 40).astype(np.float32)
