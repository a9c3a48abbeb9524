"""Classifies handwritten digits with a packed network and libcrumb, by ctypes alone.

    python3 examples/digits/classify.py build/libcrumb.so examples/digits/digits_cnn.crumb examples/digits/digits.txt
"""

import ctypes as c
import sys


class Tensor(c.Structure):  # crumb_tensor
    _fields_ = [("type", c.c_int), ("rank", c.c_size_t), ("shape", c.POINTER(c.c_int64)), ("data", c.c_void_p), ("bytes", c.c_size_t)]


def load(library):
    crumb = c.CDLL(library)
    crumb.crumb_error.restype = c.c_char_p
    return crumb


def check(crumb, status):
    if status != 0:
        sys.exit(crumb.crumb_error().decode())


def classify(crumb, session, pixels):
    data, shape = (c.c_float * 64)(*pixels), (c.c_int64 * 4)(1, 1, 8, 8)
    image = Tensor(1, 4, shape, c.cast(data, c.c_void_p), c.sizeof(data))  # 1: CRUMB_FLOAT32
    check(crumb, crumb.crumb_run(session, c.byref(image), c.c_size_t(1)))
    made = Tensor()
    check(crumb, crumb.crumb_result(session, c.c_size_t(0), c.byref(made)))
    scores = (c.c_float * 10).from_address(made.data)
    return max(range(10), key=lambda digit: scores[digit])


def main(library, model_path, digits_path):
    crumb = load(library)
    model, session = c.c_void_p(), c.c_void_p()
    check(crumb, crumb.crumb_open(model_path.encode(), c.byref(model)))
    check(crumb, crumb.crumb_session_open(model, None, c.byref(session)))
    digits = [[int(v) for v in line.split()] for line in open(digits_path) if not line.startswith("#")]
    right = sum(classify(crumb, session, pixels) == label for label, *pixels in digits)
    print(f"{right} of {len(digits)} digits are right")


if __name__ == "__main__":
    main(*sys.argv[1:])
