"""Run by the environment clients/transformers4: what transformers 4 makes of folders, as JSON on standard output.

Standard input has {"folders": [...], "texts": [...]}. Of each folder: null where it is refused, else the ids of each text, and
their text without special tokens.
"""

import json
import sys

from transformers import AutoTokenizer


def read(folder, texts):
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception:
        return None
    ids = [tokenizer(text)["input_ids"] for text in texts]
    return {"ids": ids, "texts": [tokenizer.decode(one, skip_special_tokens=True) for one in ids]}


given = json.load(sys.stdin)
print(json.dumps([read(folder, given["texts"]) for folder in given["folders"]]))
