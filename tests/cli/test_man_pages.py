"""Manual pages: a page for every verb, which roff takes without a word, with all that help says."""

import re
import shutil
import subprocess

import pytest
from help_pages import flags, verbs


@pytest.fixture(scope="module")
def pages(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("man") / "pages"
    crumb("man", folder)
    return folder


def test_there_is_a_page_for_every_verb(crumb, pages):
    wanted = {"-".join(["crumb", *verb]) for verb in verbs(crumb)} | {"crumb", "crumb-train"}
    assert {path.stem for path in pages.iterdir()} == wanted


def text_of(page):
    """As it is read, spaces joined."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", "-rLL=100n", page], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return re.sub(r"\s+", " ", re.sub("[\u2010\u2212]", "-", done.stdout))


@pytest.mark.parametrize("verb", [["quantize"], ["train", "lm"], ["tokenize"], ["export"]], ids=" ".join)
def test_a_page_says_what_help_says(crumb, pages, verb):
    text = text_of(pages / f"{'-'.join(['crumb', *verb])}.1")
    squeezed = text.replace(" ", "")
    assert f"{' '.join(['crumb', *verb])} " in text
    for flag in flags(crumb, verb):
        assert f"{flag.name} {flag.value}".strip() in text, flag
        assert flag.text.replace(" ", "") in squeezed, flag
    example = re.search(r"Examples?:\n  (.*)", crumb(*verb, "--help").stdout)[1]
    assert example.replace(" ", "") in squeezed


def test_no_page_makes_roff_complain(pages):
    for page in sorted(pages.iterdir()):
        text_of(page)


def test_mandoc_takes_them_too(pages):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *sorted(pages.iterdir())], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_man_finds_an_installed_page(pages, tmp_path):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    (tmp_path / "man1").mkdir()
    shutil.copy(pages / "crumb-quantize.1", tmp_path / "man1")
    done = subprocess.run(["man", "-M", tmp_path, "--warnings", "-P", "cat", "crumb-quantize"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and "--scheme SCHEME" in re.sub("[\u2010\u2212]", "-", re.sub(".\b", "", done.stdout))
