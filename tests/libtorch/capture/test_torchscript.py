"""crumb run on TorchScript archives, traced and scripted, gives what torch gives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.filterwarnings("ignore")


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.fc = nn.Linear(6 * 4 * 4, 5)
        self.bn.running_mean.uniform_(-1, 1)
        self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x):
        y = torch.max_pool2d(torch.relu(self.bn(self.conv(x))), 2)
        return self.fc(y.view(x.size(0), -1))


class BiLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 3)

    def forward(self, x):
        y, _ = self.lstm(self.words(x))
        return self.out(y[:, -1])


class Shapes(nn.Module):
    """Conditions and loops over shapes and options, which a script carries out."""

    def __init__(self, steps: int = 3):
        super().__init__()
        self.steps = steps
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if x.dim() == 3:
            x = x.flatten(0, 1)
        for i in range(self.steps):
            x = torch.relu(self.fc(x)) + x * float(i)
        parts = [x[:, j] * j for j in range(x.size(1))]
        return torch.stack(parts, 1)


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x.exp()
        return x - 1


class Loop(nn.Module):
    def forward(self, x):
        while bool((x > 1).any()):
            x = x / 2
        return x


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


CASES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)), (6,)),
    "cnn": (Cnn, (3, 8, 8)),
    "bilstm": (BiLstm, "words"),
    "gru": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Flatten()), (3, 4)),
    "encoder": (encoder, (5, 8)),
}


def inputs(shape, batch):
    if shape == "words":
        return torch.randint(20, (batch, 7))
    return torch.randn(batch, *shape)


def check_run(crumb, tmp_path, module, path, x):
    np.save(tmp_path / "x.npy", x.numpy())
    crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    with torch.no_grad():
        expected = module(x).numpy()
    found = np.load(tmp_path / "y.npy")
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("way", ["traced", "scripted"])
@pytest.mark.parametrize("name", CASES)
def test_archives_run(crumb, engine, tmp_path, name, way):
    torch.manual_seed(1)
    make, shape = CASES[name]
    module = make().eval()
    saved = torch.jit.script(module) if way == "scripted" else torch.jit.trace(module, inputs(shape, 2), check_trace=False)
    saved.save(tmp_path / "model.pt")
    for batch in (2, 1, 7):
        check_run(crumb, tmp_path, module, tmp_path / "model.pt", inputs(shape, batch))


@pytest.mark.parametrize("norm_first", [False, True])
def test_fused_transformer_layers(crumb, engine, tmp_path, norm_first):
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    with torch.no_grad():
        traced = torch.jit.trace(module, torch.randn(2, 5, 8))
    assert "_transformer_encoder_layer_fwd" in str(traced.inlined_graph)
    traced.save(tmp_path / "model.pt")
    check_run(crumb, tmp_path, module, tmp_path / "model.pt", torch.randn(3, 5, 8))


def test_conditions_over_shapes_are_carried_out(crumb, engine, tmp_path):
    torch.manual_seed(2)
    module = Shapes().eval()
    torch.jit.script(module).save(tmp_path / "model.pt")
    check_run(crumb, tmp_path, module, tmp_path / "model.pt", torch.randn(3, 4))
    check_run(crumb, tmp_path, module, tmp_path / "model.pt", torch.randn(2, 5, 4))


def test_large_batches_run_in_pieces(crumb, engine, tmp_path):
    torch.manual_seed(3)
    module = Cnn().eval()
    torch.jit.script(module).save(tmp_path / "model.pt")
    check_run(crumb, tmp_path, module, tmp_path / "model.pt", torch.randn(600, 3, 8, 8))


def test_a_model_saved_while_training_is_run_as_in_eval(crumb, engine, tmp_path):
    torch.manual_seed(4)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    torch.jit.script(module).save(tmp_path / "model.pt")
    check_run(crumb, tmp_path, module.eval(), tmp_path / "model.pt", torch.randn(3, 4))


def test_several_inputs_by_name(crumb, engine, tmp_path):
    class Two(nn.Module):
        def forward(self, first, second):
            return first - second

    torch.jit.script(Two()).save(tmp_path / "model.pt")
    np.save(tmp_path / "a.npy", np.array([[5.0, 6.0]], np.float32))
    np.save(tmp_path / "b.npy", np.array([[1.0, 4.0]], np.float32))
    crumb("run", tmp_path / "model.pt", "--input", f"second={tmp_path}/b.npy", "--input", f"first={tmp_path}/a.npy",
          "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").tolist() == [[4, 2]]
    done = crumb("run", tmp_path / "model.pt", "--input", tmp_path / "a.npy", "--output", tmp_path / "y.npy", status=2)
    assert "second" in done.stderr


@pytest.mark.parametrize("module", [Branch(), Loop()])
def test_control_flow_over_data_is_refused(crumb, engine, tmp_path, module):
    torch.jit.script(module).save(tmp_path / "model.pt")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    done = crumb("run", tmp_path / "model.pt", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1)
    assert "decide" in done.stderr and "model.pt" in done.stderr
    assert "aten::Bool" in done.stderr


def test_unknown_operators_are_named(crumb, engine, tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return torch.linalg.inv(x) + torch.erfinv(x)

    torch.jit.script(Odd()).save(tmp_path / "model.pt")
    np.save(tmp_path / "x.npy", np.eye(3, dtype=np.float32)[None])
    done = crumb("run", tmp_path / "model.pt", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1)
    assert "aten::linalg_inv" in done.stderr and "aten::erfinv" in done.stderr


def test_a_checkpoint_is_no_graph(crumb, engine, tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "weights.pt")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    done = crumb("run", tmp_path / "weights.pt", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", status=1)
    assert "weights.pt" in done.stderr


def test_damaged_archives(crumb, engine, tmp_path):
    module = nn.Linear(3, 2)
    torch.jit.script(module).save(tmp_path / "model.pt")
    whole = (tmp_path / "model.pt").read_bytes()
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    at = whole.index(b"class Linear") if b"class Linear" in whole else len(whole) // 3
    for damaged in (whole[:-40], whole[: len(whole) // 2], whole[:at] + b"?" * 8 + whole[at + 8:]):
        (tmp_path / "damaged.pt").write_bytes(damaged)
        done = crumb("run", tmp_path / "damaged.pt", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy",
                     status=None)
        assert done.returncode == 1 and "damaged.pt" in done.stderr, done.stderr
