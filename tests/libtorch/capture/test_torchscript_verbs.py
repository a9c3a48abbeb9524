"""TorchScript archives as graphs: verbs besides run, and arguments of forward() that are no tensors, against torch itself."""

import json
from typing import List, Optional

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("engine")]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)


class Int(Scaled):
    def forward(self, x, steps: int):
        for i in range(steps):
            x = torch.relu(x) + float(i)
        return self.fc(x)


class FirstInt(Scaled):
    def forward(self, axis: int, x, y):
        return torch.cat([self.fc(x), y], axis)


class Bools(Scaled):
    def forward(self, x, squares: bool, doubles: bool = True, scale: float = 3.0):
        y = self.fc(x)
        if squares:
            y = y * y
        if doubles:
            y = 2 * y
        return y * scale


class Options(Scaled):
    def forward(self, x, mode: str, parts: List[int], least: Optional[float]):
        y = self.fc(x)
        if least is not None:
            y = y.clamp(min=least)
        if mode == "sum":
            return y.sum(parts)
        return y.mean(parts)


class Default(Scaled):
    def forward(self, x, steps: int = 1):
        for _ in range(steps):
            x = torch.sigmoid(x)
        return self.fc(x)


X = ("x", (5, 6))
SIGNATURES = [
    (Int, [X], {"steps": 0}), (Int, [X], {"steps": 3}), (FirstInt, [X, ("y", (5, 2))], {"axis": 1}), (FirstInt, [X, ("y", (5, 2))], {"axis": -1}),
    (Bools, [X], {"squares": True}), (Bools, [X], {"squares": False, "doubles": False, "scale": 0.25}), (Options, [X], {"mode": "sum", "parts": [1], "least": None}),
    (Options, [("x", (5, 3, 6))], {"mode": "mean", "parts": [1, 2], "least": -0.125}), (Default, [X], {}), (Default, [X], {"steps": 2}),
]  # fmt: skip


def text(value):
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def saved(module, tmp_path):
    torch.jit.script(module.eval()).save(tmp_path / "model.pt")
    return module


@pytest.mark.parametrize("case", range(len(SIGNATURES)))
def test_arguments_that_are_no_tensors_are_constants(crumb, tmp_path, case):
    torch.manual_seed(case)
    make, tensors, constants = SIGNATURES[case]
    module = saved(make(), tmp_path)
    given = {name: torch.randn(shape) for name, shape in tensors}
    flags = []
    for name, value in given.items():
        np.save(tmp_path / f"{name}.npy", value.numpy())
        flags += ["--input", f"{name}={name}.npy"]
    for name, value in constants.items():
        flags += ["--set-argument", f"{name}={text(value)}"]
    crumb("run", "model.pt", *flags, "--output", "out.npy", cwd=tmp_path)
    with torch.no_grad():
        expected = module(**given, **constants).numpy()
    found = np.load(tmp_path / "out.npy")
    assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-3)

    # The exported graph has the constants in it.
    shapes = [part for name, value in given.items() for part in ("--shape", f"{name}={'x'.join(map(str, value.shape))}")]
    arguments = [part for name, value in constants.items() for part in ("--set-argument", f"{name}={text(value)}")]
    crumb("export", "model.pt", "--to", "float", "-o", "net.onnx", *shapes, *arguments, cwd=tmp_path)
    inputs = [part for name in given for part in ("--input", f"{name}={name}.npy")]
    crumb("run", "net.onnx", *inputs, "--output", "exported.npy", cwd=tmp_path)
    again = np.load(tmp_path / "exported.npy")
    assert again.shape == expected.shape and np.abs(again - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-3)


MISSING = "forward() takes 'steps' of type int: give --set-argument steps=VALUE"


@pytest.mark.parametrize(("verb", "arguments", "says"), [
    ("run", [], MISSING), ("cost", [], MISSING), ("run", ["steps=1.5"], "expected a whole number, found '1.5'"), ("run", ["steps=2", "step=1"], "did you mean"),
    ("cost", ["x=2"], "which is no constant: give --input x=FILE.npy"), ("run", ["steps"], "expected NAME=VALUE"), ("run", ["steps=1", "steps=2"], "gives 'steps' twice"),
])  # fmt: skip
def test_what_an_archive_is_not_called_with(crumb, tmp_path, verb, arguments, says):
    saved(Int(), tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((2, 6), np.float32))
    flags = [part for argument in arguments for part in ("--set-argument", argument)]
    more = ["--output", "y.npy"] if verb == "run" else []
    assert says in crumb(verb, "model.pt", "--input", "x.npy", *flags, *more, cwd=tmp_path, status=2).stderr


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))

    def forward(self, x):
        return self.body(x)


@pytest.fixture(params=["traced", "scripted"])
def net(tmp_path, request):
    torch.manual_seed(3)
    module = Net().eval()
    x = torch.randn(64, 1, 6, 6)
    archive = torch.jit.script(module) if request.param == "scripted" else torch.jit.trace(module, x[:2])
    archive.save(tmp_path / "model.pt")
    np.save(tmp_path / "x.npy", x.numpy())
    with torch.no_grad():
        return x, module(x).numpy()


def decibels(found, expected):
    return 10 * np.log10((expected**2).sum() / ((found - expected) ** 2).sum())


def test_archives_are_quantized(crumb, net, tmp_path):
    """With samples, by shapes alone, and to ONNX; the float output is torch's."""
    x, expected = net
    how = ["--weights", "int8:channel"]
    for name, flags in (("samples.crumb", ["--activations", "uint8:tensor", "--data", "x.npy"]), ("shape.crumb", ["--shape", "x=1x1x6x6"]),
                        ("qcdq.onnx", ["--to", "qcdq", "--data", "x.npy"])):  # fmt: skip
        said = crumb("quantize", "model.pt", "-o", name, *how, *flags, cwd=tmp_path)
        crumb("run", name, "--input", "x.npy", "--output", "y.npy", cwd=tmp_path)
        assert decibels(np.load(tmp_path / "y.npy"), expected) > 30, said.stdout
    np.save(tmp_path / "doubles.npy", x.numpy().astype(np.float64))
    crumb("quantize", "model.pt", "-o", "again.crumb", *how, "--activations", "uint8:tensor", "--data", "doubles.npy", cwd=tmp_path)
    assert (tmp_path / "again.crumb").read_bytes() == (tmp_path / "samples.crumb").read_bytes()


def test_cost_and_lint_of_archives(crumb, net, tmp_path):
    cost = json.loads(crumb("cost", "model.pt", "--shape", "x=1x1x6x6", "--json", cwd=tmp_path).stdout)
    assert cost["total"]["macs"] == 4 * 9 * 16 + 64 * 3
    by_file = json.loads(crumb("cost", "model.pt", "--input", "x.npy", "--shape", "x=2x1x6x6", "--json", cwd=tmp_path).stdout)
    assert by_file["total"]["macs"] == 2 * cost["total"]["macs"]
    found = crumb("lint", "model.pt", "--for", "qonnx", "--shape", "x=1x1x6x6", "--json", cwd=tmp_path, status=None)
    assert found.returncode in (0, 1), found.stderr
    rules = {finding["rule"] for finding in json.loads(found.stdout)["findings"]}
    crumb("lint", "model.pt", "--for", "qonnx", "--shape", "x=1x1x6x6", "--fix", "fixed.onnx", cwd=tmp_path, status=None)
    left = json.loads(crumb("lint", "fixed.onnx", "--for", "qonnx", "--json", cwd=tmp_path, status=None).stdout)
    assert {finding["rule"] for finding in left["findings"]} <= rules
    missing = crumb("cost", "model.pt", cwd=tmp_path, status=2).stderr
    assert "input 'x' is missing" in missing and "--input" in missing


def test_flags_for_archives_are_for_archives(crumb, tmp_path):
    saved(Net(), tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 6, 6), np.float32))
    crumb("export", "model.pt", "--to", "float", "-o", "net.onnx", "--shape", "x=1x1x6x6", cwd=tmp_path)
    for command in (["cost", "net.onnx"], ["lint", "net.onnx", "--for", "qonnx"], ["export", "net.onnx", "--to", "float", "-o", "again.onnx"],
                    ["run", "net.onnx", "--input", "x.npy", "--output", "y.npy"], ["quantize", "net.onnx", "-o", "q.crumb", "--weights", "int8"]):  # fmt: skip
        assert "--set-argument is for TorchScript archives" in crumb(*command, "--set-argument", "n=1", cwd=tmp_path, status=2).stderr


class States(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 8, batch_first=True)
        self.fc = nn.Linear(8, 2)

    def forward(self, x, h, c):
        y, (h, c) = self.lstm(x, (h, c))
        return self.fc(y[:, -1]), h, c


def test_states_with_their_batch_on_another_axis(crumb, tmp_path):
    torch.manual_seed(4)
    module = saved(States(), tmp_path)
    given = {"x": torch.randn(300, 4, 3), "h": torch.randn(1, 300, 8), "c": torch.randn(1, 300, 8)}
    flags = []
    for name, value in given.items():
        np.save(tmp_path / f"{name}.npy", value.numpy())
        flags += ["--input", f"{name}={name}.npy"]
    crumb("run", "model.pt", *flags, "--batch-axis", "h=1", "--batch-axis", "c=1", "--batch-axis", "output_1=1", "--batch-axis", "output_2=1",
          "--output-dir", "made", cwd=tmp_path)  # fmt: skip
    with torch.no_grad():
        expected = module(**given)
    for i, one in enumerate(expected):
        found = np.load(tmp_path / f"made/output_{i}.npy")
        assert found.shape == one.shape and np.abs(found - one.numpy()).max() < 1e-5


def test_passes_of_archives(crumb, net, tmp_path):
    x, expected = net
    for flags in (["--shape", "x=2x1x6x6"], ["--input", "x.npy"]):
        said = crumb("passes", "model.pt", "-o", "clean.onnx", "tidy", "fold-batch-norm", *flags, cwd=tmp_path).stdout
        assert "fold-batch-norm" in said
        crumb("run", "clean.onnx", "--input", "x.npy", "--output", "y.npy", cwd=tmp_path)
        assert np.abs(np.load(tmp_path / "y.npy") - expected).max() < 1e-4
    crumb("export", "model.pt", "--to", "float", "-o", "net.onnx", "--shape", "x=1x1x6x6", cwd=tmp_path)
    for flag, value in (("--shape", "x=1x1x6x6"), ("--input", "x.npy")):
        assert "TorchScript archives" in crumb("passes", "net.onnx", "-o", "a.onnx", "tidy", flag, value, cwd=tmp_path, status=2).stderr
    assert "is one of the inputs" in crumb("passes", "model.pt", "-o", "x.npy", "tidy", "--input", "x.npy", cwd=tmp_path, status=None).stderr


def test_a_sweep_of_an_archive_is_that_of_its_export(crumb, net, tmp_path):
    """Each cell has the codes that quantize makes of the archive, and the scores that the exported network's cells have."""
    x, expected = net
    np.save(tmp_path / "labels.npy", expected.argmax(1))
    crumb("export", "model.pt", "--to", "float", "-o", "net.onnx", "--shape", "x=1x1x6x6", cwd=tmp_path)
    rows = {}
    how = ["--formats", "int8:channel,int3:channel", "--methods", "rounding,gptq", "--data", "x.npy", "--labels", "labels.npy", "--keep-files"]
    for model in ("model.pt", "net.onnx"):
        crumb("sweep", model, *how, "-o", f"{model}.sweep", cwd=tmp_path)
        rows[model] = json.loads((tmp_path / f"{model}.sweep/sweep.json").read_text())["rows"]
    assert len(rows["model.pt"]) == 5 and rows["model.pt"][0]["scores"]["accuracy"] == 1
    for ours, exported in zip(rows["model.pt"], rows["net.onnx"], strict=True):
        scores, others = ({name: float(score) for name, score in row["scores"].items()} for row in (ours, exported))
        assert scores == pytest.approx(others, rel=1e-3, abs=1e-6) and ours["bops"] == exported["bops"]
    missing = crumb("sweep", "model.pt", "--formats", "int8", "--data", "y=x.npy", "-o", "other", cwd=tmp_path, status=2).stderr
    assert "--data" in missing and "'y'" in missing


def test_archives_train(crumb, net, tmp_path):
    """The first samples are what the archive is called with; the float score is torch's."""
    x, expected = net
    labels = np.roll(expected, 1, 1).argmax(1)
    np.save(tmp_path / "labels.npy", labels)
    how = ["--data", "x.npy", "--labels", "labels.npy", "--loss", "ce", "--epochs", 30, "--rate", 0.01, "--float-longer", "off", "--weights",
           "int8:channel", "--activations", "uint8:tensor"]  # fmt: skip
    done = crumb("train", "graph", "model.pt", *how, "-o", "out", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["float"] == pytest.approx((expected.argmax(1) == labels)[4::5].mean())
    assert report["quantized"] > report["float"]
    crumb("run", "out/model.crumb", "--input", "x.npy", "--output", "y.npy", cwd=tmp_path)
    assert (np.load(tmp_path / "y.npy").argmax(1) == labels)[4::5].mean() == pytest.approx(report["quantized"], abs=1e-6)


def test_arguments_of_archives_that_train_and_are_swept(crumb, tmp_path):
    torch.manual_seed(1)
    module = saved(Int(), tmp_path)
    x = torch.randn(40, 6)
    np.save(tmp_path / "x.npy", x.numpy())
    with torch.no_grad():
        np.save(tmp_path / "labels.npy", module(x, 2).argmax(1).numpy())
    sweep = ["sweep", "model.pt", "--formats", "int8:channel", "--data", "x.npy", "--labels", "labels.npy", "-o", "swept"]
    train = ["train", "graph", "model.pt", "--data", "x.npy", "--labels", "labels.npy", "--loss", "ce", "-o", "trained", "--epochs", 1, "--json"]
    for verb in (sweep, train):
        assert MISSING in crumb(*verb, cwd=tmp_path, status=2).stderr
    crumb(*sweep, "--set-argument", "steps=2", cwd=tmp_path)
    assert json.loads((tmp_path / "swept/sweep.json").read_text())["rows"][0]["scores"]["accuracy"] == 1
    assert json.loads(crumb(*train, "--set-argument", "steps=2", cwd=tmp_path).stdout)["float"] == 1
