"""crumb doctor on a complete machine, on a bare one, and where a part is broken."""

import json
import os
import platform
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest


def found(crumb, status=0, **environment):
    done = crumb("doctor", "--json", status=status, env={**os.environ, **environment})
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def bare(crumb_bin, tmp_path_factory):
    """The command alone in a folder, and a home without a cache: found(bare), bare(...)."""
    home = tmp_path_factory.mktemp("bare")
    shutil.copy(crumb_bin, home / "crumb")
    unwanted = ("CRUMB_", "XDG_CACHE_HOME", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}

    def run(*arguments, status=0, env=None):
        mine = {**environment, "HOME": str(home)}
        mine |= {name: value for name, value in (env or {}).items() if name.startswith("CRUMB_") and name not in os.environ}
        done = subprocess.run([home / "crumb", *map(str, arguments)], env=mine, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done

    return run


def test_a_complete_machine(crumb, crumb_bin, engine, repo):
    facts = found(crumb)
    version = crumb("--version").stdout.split()[1]
    assert facts["crumb"] == {"version": version, "path": str(crumb_bin.resolve())}
    assert facts["libcrumb"]["version"] == version and Path(facts["libcrumb"]["path"]).is_file()
    assert Path(facts["engine"]["path"]).samefile(engine) and "cpu" in facts["engine"]["devices"]
    pinned = dict(re.findall(r"^(\w+)==([\d.]+)", (repo / "scripts/requirements.txt").read_text(), re.MULTILINE))
    assert facts["onnx"]["version"] == pinned["onnx"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", facts["protobuf"]["version"])
    assert facts["faults"] == []
    there = {row["what"] for row in facts["missing"]}
    assert not any("engine" in what or "libcrumb" in what for what in there)
    text = crumb("doctor").stdout
    for said in (facts["engine"]["libtorch"], facts["libcrumb"]["path"], facts["data"]["folder"], *facts["instruction_sets"]["there"]):
        assert said in text


def test_the_version_of_libtorch_is_that_of_its_package(crumb, engine):
    torch = pytest.importorskip("torch")
    facts = found(crumb)
    if not Path(facts["engine"]["path"]).samefile(engine) or "site-packages/torch" not in os.popen(f"ldd {engine}").read():
        pytest.skip("the engine was built with another LibTorch than the package's")
    assert facts["engine"]["libtorch"] == torch.__version__.split("+")[0]


def test_a_bare_machine(bare):
    facts = found(bare)
    assert facts["libcrumb"] is None and facts["engine"] is None and facts["data"]["there"] == []
    assert facts["faults"] == []
    missing = {row["what"]: row for row in facts["missing"]}
    [engine] = [row for what, row in missing.items() if "libcrumb_engine.so" in what]
    assert "scripts/setup" in engine["command"] and "crumb train" in engine["needed_by"]
    [digits] = [row for what, row in missing.items() if what.endswith("digits.csv.gz")]
    assert any("digits" in job for job in digits["needed_by"])
    text = bare("doctor").stdout
    assert all(row["what"] in text and row["command"] in text for row in missing.values())
    assert "nothing is missing" not in text


@pytest.mark.parametrize("job", [
    ["passes", "{digits}", "-o", "{out}", "fold-constants"],
    ["run", "{digits}", "--engine", "libtorch", "--input", "{x}", "--output", "{out}"],
    ["bench", "{digits}", "--against", "libtorch", "--seconds", "0.01"],
])  # fmt: skip
def test_what_a_bare_machine_cannot_do_is_what_is_said(bare, repo, tmp_path, job):
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    names = {"digits": repo / "examples/digits/digits_cnn.crumb", "out": tmp_path / "out.onnx", "x": tmp_path / "x.npy"}
    said = bare(*[word.format(**names) for word in job], status=1).stderr
    assert "libcrumb_engine.so" in said and "crumb doctor" in said
    needed_by = [row["needed_by"] for row in found(bare)["missing"] if "engine" in row["what"]][0]
    [row] = [row for row in needed_by if row.startswith(f"crumb {job[0]}")]
    assert {"passes": "fold-constants", "run": "--engine libtorch", "bench": "--against libtorch"}[job[0]] in row


def test_data_sets_that_are_there(bare, tmp_path):
    (tmp_path / "china.npy").write_bytes(b"")
    facts = found(bare, CRUMB_DATA=str(tmp_path))
    assert facts["data"] == {"folder": str(tmp_path), "there": ["china.npy"]}
    assert {Path(row["what"]).name for row in facts["missing"]} >= {"digits.csv.gz", "flower.npy"}


@pytest.mark.parametrize("kind", ["absent", "text", "foreign"])
def test_a_broken_engine_is_a_fault(crumb, tmp_path, kind):
    path = tmp_path / "engine.so"
    if kind == "text":
        path.write_text("no library " * 1000)
    if kind == "foreign":
        source = tmp_path / "f.c"
        source.write_text('const char* crumb_engine_interface(void) { return "another"; }\n')
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", path], check=True)
    facts = found(crumb, status=1, CRUMB_ENGINE=str(path))
    [fault] = facts["faults"]
    assert str(path) in fault["what"] and fault["command"]
    assert facts["engine"] is None
    text = crumb("doctor", status=1, env={**os.environ, "CRUMB_ENGINE": str(path)}).stdout
    assert "broken: " in text and str(path) in text


def test_an_engine_that_was_cut_short(crumb, tmp_path):
    """At any length: a fault that is said, and no signal from whoever maps what is not there."""
    source, whole, path = tmp_path / "f.c", tmp_path / "whole.so", tmp_path / "engine.so"
    source.write_text("char data[200000] = {1};\n" + "".join(f"int f{i}(int x) {{ return x * {i}; }}\n" for i in range(2000)))
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", whole], check=True)
    held = whole.read_bytes()
    draw = random.Random(5)
    for length in [0, 1, 63, 64, 100, 4096, *(draw.randrange(len(held)) for _ in range(40))]:
        path.write_bytes(held[:length])
        facts = found(crumb, status=1, CRUMB_ENGINE=str(path))
        [fault] = facts["faults"]
        assert str(path) in fault["what"], (length, fault)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has several")
def test_instruction_sets_found_and_used(crumb):
    flags = set(re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[1].split())
    there = ["portable"]
    if {"avx2", "fma", "f16c"} <= flags:
        there.append("avx2")
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
            there.append("avx512")
    if "avx512_vnni" in flags:
        there.append("avx512-vnni")
        if {"amx_tile", "amx_int8"} <= flags:
            there.append("amx")
    for isa, used in {"": there, "portable": ["portable"], "avx2": there[:2], "vnni": there[:4]}.items():
        sets = found(crumb, CRUMB_ISA=isa)["instruction_sets"]
        assert sets["there"] == there
        refused = isa == "" and there[-1] == "amx" and sets["used"] == there[:-1]  # the system allows tiles, or not
        assert sets["used"] == used or refused


def test_threads(crumb):
    facts = found(crumb, CRUMB_THREADS="3")
    assert facts["threads"]["used"] == 3 and facts["threads"]["processors"] == os.cpu_count()
    assert "CRUMB_THREADS=3" in crumb("doctor", env={**os.environ, "CRUMB_THREADS": "3"}).stdout
