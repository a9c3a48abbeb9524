"""What docs/versions.md promises of the C interface: a program of 0.2 runs with today's library.

tests/fixtures/c_api/crumb_VERSION.h is the header as that version had it, never changed. Every declaration is still there,
every struct lies in memory as it did, every enumerator has its number, and the library exports every call.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OLD = sorted((ROOT / "tests/fixtures/c_api").glob("crumb_*.h"))


def plain(header):
    """A header's text without comments and lines of the preprocessor, its white space single blanks."""
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
    return " ".join(re.sub(r"^\s*#.*?$", " ", text, flags=re.M).split())


def calls_of(header):
    return {name: whole for whole, name in re.findall(r"(CRUMB_API [^;{]*?(\w+)\([^;]*\);)", plain(header))}


def layout_program(header):
    """A C program that prints the size of every struct, where each member lies in it, and every enumerator."""
    text, lines = plain(header), []
    for body, name in re.findall(r"typedef struct \w+ \{([^}]*)\} (\w+);", text):
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for member in re.findall(r"(\w+)(?:\[\w+\])?[;,]", body):
            lines.append(f'printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), sizeof((({name}*)0)->{member}));')
    for body in re.findall(r"enum(?: \w+)? \{([^}]*)\}", text):
        lines += [f'printf("{name} %d\\n", (int){name});' for name in re.findall(r"(\w+) = ", body)]
    return '#include "crumb.h"\n#include <stdio.h>\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0;\n}\n"


def printed(header, program, folder):
    folder.mkdir()
    shutil.copy(header, folder / "crumb.h")
    (folder / "layout.c").write_text(program)
    subprocess.run(["cc", "-Wall", "-Werror", "layout.c", "-o", "layout"], cwd=folder, check=True)
    return subprocess.run([folder / "layout"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
class TestPromises:
    def test_declarations_stay(self, old):
        then, now = calls_of(old), calls_of(ROOT / "runtime/crumb.h")
        assert len(then) > 30
        assert {name: now.get(name) for name in then} == then

    def test_layouts_and_numbers_stay(self, old, tmp_path):
        program = layout_program(old)
        assert program.count("sizeof(crumb_") >= 5 and program.count("(int)CRUMB_") > 20
        assert printed(old, program, tmp_path / "then") == printed(ROOT / "runtime/crumb.h", program, tmp_path / "now")

    def test_calls_are_exported(self, old, crumb_bin):
        library = crumb_bin.parent / "libcrumb.so"
        if not library.is_file():
            pytest.skip(f"{library} was not built")
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        assert set(calls_of(old)) <= set(symbols.split())

    def test_a_program_of_then_runs(self, old, crumb_bin, tmp_path):
        library, digits = crumb_bin.parent / "libcrumb.so", ROOT / "examples/digits"
        if not library.is_file():
            pytest.skip(f"{library} was not built")
        shutil.copy(old, tmp_path / "crumb.h")
        subprocess.run(["cc", digits / "classify.c", "-I", tmp_path, library, f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "classify"],
                       check=True)  # fmt: skip
        done = subprocess.run([tmp_path / "classify", digits / "digits_cnn.crumb", digits / "digits.txt"], capture_output=True, text=True)
        assert done.returncode == 0 and "of 200 digits are right" in done.stdout, done.stderr


def test_there_is_a_header_of_an_older_version():
    assert OLD


def test_a_change_would_be_seen(tmp_path):
    """Headers in which one thing moved: each is noticed."""
    now = ROOT / "runtime/crumb.h"
    text, program = now.read_text(), layout_program(now)
    renamed, grown, renumbered = tmp_path / "a.h", tmp_path / "b.h", tmp_path / "c.h"
    renamed.write_text(text.replace("crumb_close(crumb_model* model)", "crumb_close(const crumb_model* model)"))
    assert calls_of(renamed) != calls_of(now)
    before = printed(now, program, tmp_path / "now")
    grown.write_text(text.replace("  int threads;", "  int more; long still; int threads;", 1))
    renumbered.write_text(text.replace("CRUMB_ERROR_RUN = 5", "CRUMB_ERROR_RUN = 55"))
    assert printed(grown, program, tmp_path / "grown") != before
    assert printed(renumbered, program, tmp_path / "renumbered") != before
