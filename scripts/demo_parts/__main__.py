"""What scripts/demo shows when the command is built: python scripts/demo_parts BINARY FOLDER [--full]

All is done by the crumb command and a C program; Python runs them and prints. With --full every row is made."""

import os
import subprocess
import sys
from pathlib import Path

import encoder
import language
import pages
from terminal import Crumb, link, paragraph, say

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples"
TEXTS = ["sentences.txt", "calibration_sentences.txt", "language/calibration.txt", "language/test.txt"]


def digits(crumb):
    paragraph("""A convolutional network of four layers, the two inner ones with weights and activations of 4 bits, run by a C
              program with libcrumb.so on 200 handwritten digits:""")
    say()
    build = crumb.binary.parent
    subprocess.run(["cc", "-O2", EXAMPLES / "digits/classify.c", "-I", REPOSITORY / "runtime", "-L", build, "-lcrumb",
                    f"-Wl,-rpath,{build}", "-o", crumb.folder / "classify"], check=True)  # fmt: skip
    model = EXAMPLES / "digits/digits_cnn.crumb"
    done = subprocess.run([crumb.folder / "classify", model, EXAMPLES / "digits/digits.txt"], stdout=subprocess.PIPE, text=True, check=True)
    say(done.stdout.strip())
    say(f"\nThe widest sums that any image can make, from the integers in the file ({model.stat().st_size / 1e3:.0f} kB). bits: of the\n"
        "register that holds them, whatever comes; certified: those that training kept them within.\n")  # fmt: skip
    say(crumb("the widest sums", "verify", model, "--accumulator").rstrip())
    say("\nconv2 and conv3 were trained so that 12 bits are enough (A2Q+). A project for an FPGA, with these widths, is one command"
        f"\naway: crumb export {model.relative_to(REPOSITORY)} -o digits_fpga --to hls4ml-project")  # fmt: skip


def heading(text):
    say(f"\n--- {text} " + "-" * (96 - len(text)) + "\n")


def main():
    binary, out, full = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), "--full" in sys.argv[3:]
    out.mkdir(parents=True, exist_ok=True)
    for text in TEXTS:
        link(EXAMPLES / text, out / Path(text).name)
    crumb = Crumb(binary, out)
    if full:
        texts = Path(os.environ["CRUMB_LM_TEXT"])
        for name in ("train.txt", "calib.txt"):
            link(texts / name, out / name)
        encoder.write_training_sentences(texts / "train.txt", out / "train_sentences.txt")
    paragraph("""Formats: int4:group=32 are integers of four bits with one scale for 32 weights, :channel one scale for a row, int2h
              two bits for -1.5, -0.5, 0.5, 1.5. Ways: rounding takes the nearest code for each weight; gptq chooses codes so that
              each layer's outputs on a text stay; training lets codes learn what the float model says; an adapter is a narrow
              matrix of 16 bits beside the codes.""")
    heading("1. A sentence encoder in 8, 4, 3 and 2 bits")
    encoder.show(crumb, full)
    heading("2. A language model in 8, 4, 3 and 2 bits")
    language.show(crumb, full)
    heading("3. A network for small machines, and how wide its sums are")
    digits(crumb)
    heading("4. What was lost, to look at")
    pages.show(crumb)
    crumb.say_notes()
    heading("Worth trying next")
    folder, command = os.path.relpath(out), os.path.relpath(binary)
    say(f"{command} generate {folder}/language_8.crumb --chat\n"
        f"{command} quantize YOUR_MODEL -o yours.crumb --weights int4:group=32 --data YOUR_TEXT --tokens 4096\n"
        f"{command} compare {folder}/all-MiniLM-L6-v2 {folder}/encoder_4_gptq.crumb")  # fmt: skip
    paragraph("YOUR_MODEL: a folder of Hugging Face, a GGUF file or an ONNX network; with --data weights take gptq. docs/ has a page for "
              "each task.")  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
