"""The include-direction check finds what it must, and only that."""

import subprocess
import sys

import pytest


def check(repo, root):
    script = repo / "scripts" / "check_includes.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


RIGHT = {
    "formats/a.h": "#include <vector>",
    "quant/b.h": '#include "formats/a.h"',
    "libtorch/c.h": '#include <torch/torch.h>\n#include "quant/b.h"',
    "cli/main.cpp": '#include "quant/b.h"',
    "tests/formats/a_test.cpp": '#include "formats/a.h"\n#include "quant/b.h"',
    "tests/libtorch/c_test.cpp": '#include "libtorch/c.h"',
}


def test_a_right_tree_passes(repo, tmp_path):
    write(tmp_path, RIGHT)
    done = check(repo, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("formats/x.h", '#include "quant/b.h"', "formats includes"),
        ("formats/x.h", "#include <quant/b.h>", "formats includes"),
        ("quant/x.cpp", '  #  include "cli/x.h"', "quant includes"),
        ("quant/x.cpp", '#include "libtorch/c.h"', "quant includes"),
        ("quant/x.cpp", '#include "tests/help.h"', "not part of the library"),
        ("quant/x.cpp", '#include "b.h"', "no path from the root"),
        ("quant/x.cpp", "#include <ATen/ATen.h>", "must be free of LibTorch"),
        ("cli/x.h", '#include "libtorch/c.h"', "cli/x.h -> libtorch/c.h -> torch/torch.h"),
        ("tests/quant/x_test.cpp", '#include "tests/help.h"', "tests/help.h -> libtorch/c.h -> torch/torch.h"),
        ("runtime/x.cpp", "#include <c10/util/Half.h>", "must be free of LibTorch"),
    ],
)
def test_a_wrong_include_is_found(repo, tmp_path, path, text, says):
    write(tmp_path, {**RIGHT, "cli/x.h": "", "tests/help.h": '#include "libtorch/c.h"', path: text})
    done = check(repo, tmp_path)
    assert done.returncode == 1
    assert path in done.stderr
    assert says in done.stderr
