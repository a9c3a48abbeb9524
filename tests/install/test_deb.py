"""cpack -G DEB: the packages, in a Debian 12 that has nothing but apt, by Debian's own packages alone."""

import json
import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow
CHROOT = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")


def run(*command, **keywords):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1800, **keywords)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def debian(crumb_bin, tmp_path_factory):
    """The root folder of a bare Debian 12 (Debian's mirror, over the network) with the packages installed."""
    if os.geteuid() != 0:
        pytest.skip("a chroot needs root")
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed (scripts/setup slow-tests)")
    packages, root = tmp_path_factory.mktemp("deb"), tmp_path_factory.mktemp("debian") / "root"
    run("cpack", "-G", "DEB", "--config", crumb_bin.parent / "CPackConfig.cmake", "-B", packages)
    debs = sorted(packages.glob("*.deb"))
    assert [deb.name.split("_")[0] for deb in debs] == ["crumb", "libcrumb-dev", "libcrumb-jobs0", "libcrumb0"]
    copies = [f"--customize-hook=copy-in {deb} /root" for deb in debs]
    install = 'chroot "$1" sh -c "apt-get install -y --no-install-recommends /root/*.deb gcc libc6-dev pkg-config"'
    run("mmdebstrap", "--variant=apt", *copies, f"--customize-hook={install}", "bookworm", root)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def inside(debian):
    """inside(COMMAND): a shell's line in the Debian's /root, as its users run it; gives what it prints."""

    def inside(line):
        return run(CHROOT, debian, "sh", "-ec", f"cd /root; {line}", env={"PATH": "/usr/bin:/bin", "HOME": "/root"})

    return inside


def test_nothing_but_debian_is_needed(inside):
    for name in ["/usr/bin/crumb", "/usr/lib/libcrumb.so.0", "/usr/lib/libcrumb_jobs.so.0"]:
        assert "not found" not in inside(f"ldd {name}")
    assert inside("crumb --version").split()[1] == inside("dpkg-query -W -f '${Version}' crumb")
    assert "Apache" in inside("cat /usr/share/doc/crumb/copyright") and inside("head -n 3 /usr/share/doc/crumb/LICENSE")
    assert inside("ls /root/*.deb && command -v python3 || echo none").endswith("none\n")


def test_it_quantizes_and_embeds(inside, debian, minilm, repo):
    shutil.copytree(minilm, debian / "root/minilm")
    shutil.copy(repo / "examples/sentences.txt", debian / "root")
    inside("crumb quantize minilm -o minilm.crumb --scheme W8A16")
    inside("crumb embed minilm --text sentences.txt -o float.npy && crumb embed minilm.crumb --text sentences.txt -o packed.npy")
    assert json.loads(inside("crumb agree float.npy packed.npy --json"))["mean_cosine"] > 0.999
    assert "sound" in inside("crumb verify minilm.crumb")


def test_it_generates(inside, debian, smollm2, crumb):
    shutil.copy(smollm2, debian / "root/smollm2.gguf")
    question = ["--chat", "--prompt", "What is the capital of France?", "--tokens", "20", "--json"]
    answer = json.loads(inside("crumb generate smollm2.gguf " + " ".join(f"'{word}'" for word in question)))["text"]
    assert "Paris" in answer and answer == json.loads(crumb("generate", smollm2, *question).stdout)["text"]


def test_the_library_of_jobs_quantizes(inside, debian, short_minilm):
    """To the command's bytes, from a program in C."""
    shutil.copytree(short_minilm, debian / "root/short")
    (debian / "root/job.c").write_text(
        "#include <crumb_jobs.h>\n#include <stdio.h>\n"
        "int main(void) {\n"
        '  const int status = crumb_quantize("short", "job.crumb", "weights: int8:channel", 0, 0, 0);\n'
        "  if (status) puts(crumb_jobs_error());\n  return status;\n}\n"
    )
    inside("cc job.c -lcrumb_jobs -o job && ./job && crumb quantize short -o command.crumb --weights int8:channel && cmp job.crumb command.crumb")


def test_the_library_runs_a_network(inside, debian, repo):
    for name in ["classify.c", "digits_cnn.crumb", "digits.txt"]:
        shutil.copy(repo / "examples/digits" / name, debian / "root")
    inside("cc -O2 classify.c $(pkg-config --cflags --libs crumb) -o classify")
    assert "of 200 digits are right" in inside("./classify digits_cnn.crumb digits.txt")
