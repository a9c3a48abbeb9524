"""The demo's last part: what its files lost, as pages to look at."""

import os

import encoder
import language
from terminal import paragraph, say

TOKENS = 512


def show(crumb):
    paragraph("""What the encoder and the language model lost in each file, as pages that need nothing else: quality against size,
              the sentences that changed most, how often each code is used, layer by layer.""")
    say()
    for name, part, more in [("encoder", encoder, ["--data", "sentences.txt"]),
                             ("language", language, ["--data", "test.txt", "--tokens", TOKENS, "--context", TOKENS])]:  # fmt: skip
        files = [row.packed for row in part.ROWS if (crumb.folder / row.packed).is_file()]
        page = f"{name}.html"
        crumb(f"a page about {len(files)} files", "eval", *files, "--baseline", part.MODEL, *more, "--report", page)
        say(f"{os.path.relpath(crumb.folder / page)}")
