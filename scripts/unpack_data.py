#!/usr/bin/env python3
"""Lays out the data sets that crumb train learns from: scripts/unpack_data.py FOLDER

digits.csv.gz       1,797 digits, as scikit-learn ships them
china.npy flower.npy  two photographs, uint8 [427, 640, 3]
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import sklearn
from PIL import Image

PHOTOGRAPHS = ["china", "flower"]


def main():
    folder = Path(sys.argv[1])
    source = Path(sklearn.__file__).parent / "datasets"
    for name in PHOTOGRAPHS:
        partial = folder / f"{name}.npy.partial"
        with open(partial, "wb") as file:
            np.save(file, np.asarray(Image.open(source / "images" / f"{name}.jpg").convert("RGB"), dtype=np.uint8))
        partial.replace(folder / f"{name}.npy")
    partial = folder / "digits.csv.gz.partial"
    shutil.copyfile(source / "data" / "digits.csv.gz", partial)
    partial.replace(folder / "digits.csv.gz")


if __name__ == "__main__":
    main()
