"""Language models through libcrumb.so: what the command answers, the C interface answers; and how it fails."""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))
tiny = pytest.importorskip("tiny_decoders")

ROOT = Path(__file__).resolve().parents[3]
PROMPT = b"Say: 7 + 5!"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
OK, ARGUMENT, FILE, INPUT, RUN, LIMIT, CANCELLED = 0, 1, 2, 4, 5, 6, 7
SHOW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_void_p)


class Generation(ctypes.Structure):  # crumb_generation
    _fields_ = [("tokens", ctypes.c_size_t), ("temperature", ctypes.c_double), ("top_k", ctypes.c_size_t),
                ("top_p", ctypes.c_double), ("min_p", ctypes.c_double), ("repeat_penalty", ctypes.c_double),
                ("seed", ctypes.c_uint64), ("stops", ctypes.POINTER(ctypes.c_char_p)), ("stop_count", ctypes.c_size_t),
                ("shift", ctypes.c_int)]  # fmt: skip


class Answer(ctypes.Structure):  # crumb_answer
    _fields_ = [("text", ctypes.POINTER(ctypes.c_char)), ("bytes", ctypes.c_size_t), ("ids", ctypes.POINTER(ctypes.c_int32)),
                ("count", ctypes.c_size_t), ("stopped_by", ctypes.c_int), ("prompt_tokens", ctypes.c_size_t),
                ("prompt_seconds", ctypes.c_double), ("answer_seconds", ctypes.c_double)]  # fmt: skip


class Options(ctypes.Structure):  # crumb_options
    _fields_ = [("threads", ctypes.c_int), ("memory", ctypes.c_uint64), ("work", ctypes.c_uint64), ("promise", ctypes.c_int)]


@pytest.fixture(scope="module")
def packed(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c_language")
    tiny.make("llama", folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    crumb("quantize", folder, "-o", folder.parent / "c_language.crumb", "--weights", "int4:group=16", "--kv-cache", "int8")
    return folder.parent / "c_language.crumb"


@pytest.fixture(scope="module")
def lib(crumb_bin):
    path = crumb_bin.parent / "libcrumb.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    made = ctypes.CDLL(str(path))
    made.crumb_error.restype = ctypes.c_char_p
    for name in ("crumb_vocabulary", "crumb_positions", "crumb_decoding_length"):
        getattr(made, name).restype = ctypes.c_size_t
    return made


class Language:
    def __init__(self, lib, path):
        self.lib, self.handle = lib, ctypes.c_void_p()
        self.ok(lib.crumb_language_open(str(path).encode(), ctypes.byref(self.handle)))

    def ok(self, status):
        assert status == OK, self.lib.crumb_error()

    def sized(self, call, kind, *before):
        """What a call that is asked twice gives."""
        count = ctypes.c_size_t()
        self.ok(call(self.handle, *before, None, ctypes.c_size_t(0), ctypes.byref(count)))
        made = (kind * count.value)()
        self.ok(call(self.handle, *before, made, ctypes.c_size_t(count.value), ctypes.byref(count)))
        return made

    def encode(self, text, special=1):
        return list(self.sized(self.lib.crumb_encode, ctypes.c_int32, text, ctypes.c_size_t(len(text)), special))

    def decode(self, ids):
        given = (ctypes.c_int32 * len(ids))(*ids)
        return bytes(self.sized(self.lib.crumb_decode, ctypes.c_char, given, ctypes.c_size_t(len(ids)), 0))

    def decoding(self, context=0, **options):
        made = ctypes.c_void_p()
        self.ok(self.lib.crumb_decoding_open(self.handle, ctypes.byref(Options(**options)), ctypes.c_uint64(context), ctypes.byref(made)))
        return made

    def generate(self, decoding, ids, show=None, expected=OK, **how):
        given, answer = (ctypes.c_int32 * len(ids))(*ids), Answer()
        status = self.lib.crumb_generate(decoding, given, ctypes.c_size_t(len(ids)), ctypes.byref(Generation(**how)),
                                         show or SHOW(), None, ctypes.byref(answer))  # fmt: skip
        assert status == expected, self.lib.crumb_error()
        return answer

    def feed(self, decoding, ids, kept):
        given, rows = (ctypes.c_int32 * len(ids))(*ids), ctypes.POINTER(ctypes.c_float)()
        self.ok(self.lib.crumb_feed(decoding, given, ctypes.c_size_t(len(ids)), ctypes.c_size_t(kept), ctypes.byref(rows)))
        vocabulary = self.lib.crumb_vocabulary(self.handle)
        return np.ctypeslib.as_array(rows, (kept, vocabulary)).copy()


def test_the_interface_answers_as_the_command_does(crumb, lib, packed):
    model = Language(lib, packed)
    ids = model.encode(PROMPT)
    assert model.decode(ids) == PROMPT
    shown = []
    show = SHOW(lambda text, size, user: shown.append(ctypes.string_at(text, size)) or 0)
    decoding = model.decoding()
    for how, flags in (({}, []), ({"temperature": 1.2, "seed": 7, "top_k": 50}, ["--temperature", 1.2, "--seed", 7, "--top-k", 50])):
        shown.clear()
        answer = model.generate(decoding, ids, show, tokens=20, **how)
        told = json.loads(crumb("generate", packed, "--prompt", PROMPT.decode(), "--tokens", 20, "--json", *flags).stdout)
        assert [answer.ids[i] for i in range(answer.count)] == told["ids"]
        text = ctypes.string_at(answer.text, answer.bytes)
        assert text == b"".join(shown) and text.decode(errors="replace") == told["text"]
        assert ["end", "stop", "tokens", "interrupt"][answer.stopped_by] == told["stopped_by"]


def test_steps_have_the_bits_of_the_whole(lib, packed):
    model = Language(lib, packed)
    ids = model.encode(PROMPT)
    whole = model.feed(model.decoding(threads=2), ids, len(ids))
    decoding = model.decoding(threads=1)
    steps = [model.feed(decoding, ids[begin:end], end - begin) for begin, end in ((0, 4), (4, 5), (5, len(ids)))]
    assert np.concatenate(steps).tobytes() == whole.tobytes()
    assert lib.crumb_decoding_length(decoding) == len(ids)
    assert lib.crumb_decoding_truncate(decoding, ctypes.c_uint64(4)) == OK
    assert model.feed(decoding, ids[4:], 1).tobytes() == whole[-1:].tobytes()
    assert lib.crumb_decoding_truncate(decoding, ctypes.c_uint64(999)) == ARGUMENT


def test_chat_templates_are_rendered(lib, packed):
    model = Language(lib, packed)
    said = json.dumps([{"role": "user", "content": "é?"}]).encode()
    text = bytes(model.sized(lib.crumb_render_chat, ctypes.c_char, said, ctypes.c_size_t(len(said))))
    assert text.decode() == "user: é?\nassistant: "
    count = ctypes.c_size_t()
    assert lib.crumb_render_chat(model.handle, b"{}", ctypes.c_size_t(2), None, ctypes.c_size_t(0), ctypes.byref(count)) == INPUT


def test_answers_end_when_they_are_told_to_and_limits_hold(lib, packed):
    model = Language(lib, packed)
    ids = model.encode(PROMPT)
    stopped = model.generate(model.decoding(), ids, SHOW(lambda text, size, user: 1), tokens=50)
    assert stopped.stopped_by == 3 and stopped.count < 10
    model.generate(model.decoding(context=13), ids, tokens=20, expected=RUN)
    assert b"the context is full" in lib.crumb_error()
    model.generate(model.decoding(memory=1000), ids, tokens=20, expected=LIMIT)
    model.generate(model.decoding(work=1000), ids, tokens=20, expected=LIMIT)
    model.generate(model.decoding(), [99999], expected=INPUT)
    model.generate(model.decoding(), [], expected=INPUT)
    model.generate(model.decoding(), ids, temperature=-1.0, expected=INPUT)
    refused = ctypes.c_void_p()
    assert lib.crumb_decoding_open(model.handle, None, ctypes.c_uint64(10**6), ctypes.byref(refused)) == ARGUMENT
    digits = ROOT / "examples/digits/digits_cnn.crumb"
    assert lib.crumb_language_open(str(digits).encode(), ctypes.byref(refused)) == FILE
    assert b"config.json" in lib.crumb_error()


def test_the_example_answers(crumb_bin, packed, tmp_path):
    program = tmp_path / "answer"
    build = ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", ROOT / "examples/language/answer.c", "-I",
             ROOT / "runtime", "-L", crumb_bin.parent, "-lcrumb", f"-Wl,-rpath,{crumb_bin.parent}", "-o", program]  # fmt: skip
    subprocess.run([str(part) for part in build], check=True)
    said = json.dumps([{"role": "user", "content": "Hi"}])
    done = subprocess.run([program, packed, said, "8"], capture_output=True, check=True)
    assert len(done.stdout) > 1 and b"tokens of prompt" in done.stderr
