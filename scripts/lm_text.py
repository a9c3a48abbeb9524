#!/usr/bin/env python3
"""Lays out the text that language models are measured and calibrated on: scripts/lm_text.py FOLDER

valid.txt test.txt calib.txt train.txt  English prose out of three Debian packages: a handbook of system administration,
                                        a dictionary of slang, a book on politics
kjv.txt                                 out of their domain: the King James Bible, a verse a paragraph
manifest.json                           for each file its sha256, paragraphs and documents

The packages are downloaded with apt-get and unpacked into a folder that goes again; nothing is installed and nobody need
be root.

The files are UTF-8. Paragraphs have one line each and an empty line between them, documents too; manifest.json tells the
documents apart: "documents" lists [first byte, bytes, name] in the order of the file.

A paragraph has at least 80 characters, 85 % of them letters and spaces, and ends a sentence; a repeated one is dropped. A
document is a file of the handbook or of the book, or 12 entries of the dictionary, cut behind the paragraph with which it
reaches 6,000 characters. Validation begins with the documents of HEAD. The others follow ranked by the SHA-256 of their
text and are dealt 10/10/20/60 to validation, test, calibration and training; the first three then keep as many documents
of each source as of the scarcest, and what is over is left out of all.
"""

import gzip
import hashlib
import json
import re
import struct
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

PACKAGES = {
    "debian-handbook": "11.20220922",
    "jargon-text": "4.4.7-4.1",
    "anarchism": "15.3-3",
    "bible-kjv-text": "4.38",
}
MIN_CHARACTERS, MIN_LETTERS = 80, 0.85
DOCUMENT_CHARACTERS = 6000
ENTRIES = 12
DEAL = {"valid": 0.1, "test": 0.1, "calib": 0.2, "train": 0.6}

# Published perplexities are over the first 16,384 tokens of a validation text (tests/fixtures/smollm2_valid_ids.npy). It
# came of the same rules but ranked otherwise; these are its documents: source, name, first and last paragraph.
HEAD = [
    ("handbook", "network-services.html", 59, 78),
    ("jargon", "792", 0, 16),
    ("anarchism", "secI1.md", 112, 119),
    ("jargon", "936", 28, 38),
    ("jargon", "744", 29, 34),
    ("handbook", "sect.installation-steps.html", 0, 17),
    ("anarchism", "secI5.md", 206, 219),
    ("jargon", "480", 0, 20),
    ("handbook", "network-services.html", 18, 37),
    ("anarchism", "secH3.md", 89, 99),
    ("jargon", "1356", 0, 16),
    ("handbook", "sect.installation-steps.html", 81, 101),
    ("jargon", "252", 14, 15),
    ("jargon", "180", 0, 15),
    ("anarchism", "secI5.md", 299, 305),
    ("handbook", "sect.source-package-structure.html", 0, 14),
]


# --- Packages -----------------------------------------------------------------------------------------------------


def call(command, **keywords):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **keywords)


def download(folder):
    """The packages' files, in `folder`. Where the system's lists of packages are missing or old, lists of our own help."""
    wanted = [f"{name}={version}" for name, version in PACKAGES.items()]
    own = [f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache", "APT::Sandbox::User=root"]
    own = ["apt-get", *(word for option in own for word in ("-o", option))]
    for path in ("lists/partial", "cache/archives/partial"):
        (folder / path).mkdir(parents=True)
    if call(["apt-get", "download", *wanted], cwd=folder).returncode != 0:
        call([*own, "update"], cwd=folder)
        done = call([*own, "download", *wanted], cwd=folder)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            sys.exit(
                f"lm_text.py: the Debian packages {' '.join(wanted)} cannot be had; apt-get's words are above. They are"
                " those of Debian 12: other versions would give another text."
            )
    for path in folder.glob("*.deb"):
        done = call(["dpkg-deb", "-f", path, "Package", "Version"])
        found = dict(line.split(": ") for line in done.stdout.splitlines())
        if PACKAGES.get(found.get("Package")) != found.get("Version"):
            sys.exit(f"lm_text.py: {path.name} is {found or 'no package'}, not one of {' '.join(wanted)}")


def unpack(folder):
    """The packages' files, downloaded and unpacked in `folder`; the root of them."""
    download(folder)
    for path in folder.glob("*.deb"):
        done = call(["dpkg-deb", "-x", path, folder / "root"])
        if done.returncode != 0:
            sys.exit(f"lm_text.py: {path.name} cannot be unpacked: {done.stderr}")
    return folder / "root"


def read(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


# --- Sources: (name, paragraphs) of each of their parts -----------------------------------------------------------

PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "\u2011": "-"})


def one_line(text):
    return " ".join(text.translate(PLAIN).split())


class Paragraphs(HTMLParser):
    """The text of each div of class para, without tables and listings."""

    EMPTY = frozenset(["img", "br", "hr", "meta", "link", "input", "col"])

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.found = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag in self.EMPTY:
            return
        paragraph = tag == "div" and dict(attrs).get("class") == "para"
        if paragraph:
            self.texts.append("")
        self.open.append((tag, paragraph))

    def handle_endtag(self, tag):
        if tag in self.EMPTY:
            return
        while self.open:
            opened, paragraph = self.open.pop()
            if paragraph:
                self.found.append(one_line(self.texts.pop()))
            if opened == tag:
                break

    def handle_data(self, data):
        if self.texts and not any(tag in ("pre", "table", "script", "style") for tag, _ in self.open):
            self.texts[-1] += data


def handbook(root):
    for path in sorted((root / "usr/share/doc/debian-handbook/html/en-US").glob("*.html")):
        parser = Paragraphs()
        parser.feed(read(path))
        yield path.name, parser.found


def jargon(root):
    entries = []
    for block in re.split(r"\n\s*\n", read(root / "usr/share/doc/jargon-text/jargon.txt.gz")):
        if re.match(r"   :[^:\n].*?:", block):
            entries.append([])
        elif entries:
            entries[-1].append(one_line(re.sub("[{}]", "", block)))
    for first in range(0, len(entries), ENTRIES):
        yield str(first), [text for entry in entries[first : first + ENTRIES] for text in entry]


def anarchism(root):
    for path in sorted((root / "usr/share/doc/anarchism/markdown").glob("sec*.md*")):
        found = []
        for block in re.split(r"\n\s*\n", read(path)):
            if block.startswith("#"):  # a heading
                continue
            block = re.sub(r"^\s*>\s?", "", block, flags=re.MULTILINE)  # quotations
            block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)  # links
            block = block.replace("**", "").replace("_", "")
            found.append(re.sub(r" ([,.;:!?])", r"\1", one_line(block)))
        yield path.name.removesuffix(".gz"), found


def king_james(root):
    """bible.data: big-endian 32-bit numbers from byte 88: how many windows, and where each begins and the last ends. A
    window is a stream of compress(1), only the first of them behind its three bytes of header."""
    data = (root / "usr/lib/bible.data").read_bytes()
    count = struct.unpack_from(">I", data, 88)[0]
    bounds = struct.unpack_from(f">{count + 1}I", data, 92)
    text = b""
    for begin, end in zip(bounds, bounds[1:]):
        window = b"\x1f\x9d\x90" + data[begin:end]
        text += subprocess.run(["gzip", "-dc"], input=window, stdout=subprocess.PIPE, check=True).stdout
    chapters = {}
    for line in text.decode("ascii").splitlines():
        if found := re.match(r"(\w+?)(\d+):\d+ (.*)", line):
            chapters.setdefault(f"{found[1]} {found[2]}", []).append(one_line(found[3]))
    return list(chapters.items())


# --- Documents ----------------------------------------------------------------------------------------------------


def is_prose(text):
    letters = sum(character.isalpha() or character == " " for character in text)
    return len(text) >= MIN_CHARACTERS and letters >= MIN_LETTERS * len(text) and re.search(r"[.!?:]['\")\]]*$", text)


def documents(root):
    """(source, name, paragraphs) of the head of the validation text, and of all others in the order of their source."""
    head, others, seen = {}, [], set()
    pinned = {(source, name): [] for source, name, _, _ in HEAD}
    for source, name, first, last in HEAD:
        pinned[source, name].append((first, last))
    for source, parts in (("handbook", handbook), ("jargon", jargon), ("anarchism", anarchism)):
        for name, paragraphs in parts(root):
            pieces, size, before = [], 0, None
            for index, text in enumerate(paragraphs):
                if not is_prose(text) or text in seen:
                    continue
                seen.add(text)
                here = next(((a, b) for a, b in pinned.get((source, name), ()) if a <= index <= b), None)
                if here:
                    head.setdefault((source, name, *here), []).append(text)
                elif not pieces or size >= DOCUMENT_CHARACTERS or before:
                    pieces.append([text])
                    size = len(text)
                else:
                    pieces[-1].append(text)
                    size += 2 + len(text)
                before = here
            others += [(source, f"{name}#{index}", piece) for index, piece in enumerate(pieces)]
    return [(source, f"{name}@{a}-{b}", head[source, name, a, b]) for source, name, a, b in HEAD], others


def deal(head, others):
    """The documents of each split."""
    others = sorted(others, key=lambda document: hashlib.sha256("\n\n".join(document[2]).encode()).digest())
    total = len(head) + len(others)
    ranked, end, splits = head + others, 0.0, {}
    for split, share in DEAL.items():
        begin, end = end, end + share
        splits[split] = ranked[round(begin * total) : round(end * total)]
    for split in list(DEAL)[:-1]:
        sources = [source for source, _, _ in splits[split]]
        most = min(sources.count(source) for source in set(sources))
        kept = []
        for document in splits[split]:
            if sum(other[0] == document[0] for other in kept) < most:
                kept.append(document)
        splits[split] = kept
    return splits


def write(path, found):
    """Writes documents; what the manifest says of them."""
    data, places = b"", []
    for source, name, paragraphs in found:
        text = "\n\n".join(paragraphs).encode()
        data += b"\n\n" if data else b""
        places.append([len(data), len(text), f"{source} {name}"])
        data += text
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "paragraphs": sum(len(paragraphs) for _, _, paragraphs in found),
        "documents": places,
    }


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        root = unpack(Path(work))
        splits = deal(*documents(root))
        splits["kjv"] = [("bible", name, verses) for name, verses in king_james(root)]
    manifest = {"packages": PACKAGES, "files": {}}
    for split, found in splits.items():
        manifest["files"][f"{split}.txt"] = write(folder / f"{split}.txt", found)
    partial = folder / "manifest.json.partial"
    partial.write_text(json.dumps(manifest, indent=1) + "\n")
    partial.replace(folder / "manifest.json")


if __name__ == "__main__":
    main()
