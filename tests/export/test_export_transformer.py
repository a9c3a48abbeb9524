"""The MiniLM encoder as torch.onnx writes it: read, quantized, exported, and run by onnxruntime and qonnx."""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest

warnings.filterwarnings("ignore")

SHAPE = ["--shape", "input_ids=1x16", "--shape", "attention_mask=1x16"]


@pytest.fixture(scope="module")
def encoder(minilm, tmp_path_factory):
    """The file that torch.onnx.export writes by default, with open batch and length; of six layers the first two."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.AutoModel.from_pretrained(minilm, num_hidden_layers=2).eval()

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    example = (torch.randint(0, 30000, (2, 16)), torch.ones(2, 16, dtype=torch.long))
    axes = {0: "batch", 1: "sequence"}
    torch.onnx.export(
        Encoder().eval(),
        example,
        input_names=["input_ids", "attention_mask"],
        output_names=["hidden"],
        dynamic_shapes={"input_ids": axes, "attention_mask": axes},
    ).save(path)
    return path


@pytest.fixture(scope="module")
def tokens():
    mask = np.ones((1, 16), np.int64)
    mask[0, 12:] = 0
    return {"input_ids": np.random.default_rng(5).integers(0, 30000, (1, 16)), "attention_mask": mask}


def by_onnxruntime(path, inputs):
    options = onnxruntime.SessionOptions()
    # Else it multiplies dequantized weights with activations of 8 bits.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {value.name: inputs[value.name] for value in session.get_inputs()})[0]


def distance(found, want):
    assert found.shape == want.shape
    return np.abs(found - want).max() / np.abs(want).max()


def test_float_files_keep_the_outputs(crumb, encoder, tokens, tmp_path):
    want = by_onnxruntime(encoder, tokens)
    for form, shape in (("float", []), ("float", SHAPE), ("qonnx", SHAPE)):
        out = tmp_path / "out.onnx"
        crumb("export", encoder, "-o", out, "--to", form, *shape)
        opset = {o.domain: o.version for o in onnx.load(out).opset_import}[""]
        assert opset == 13 if shape else opset <= 14  # arithmetic on open sizes needs 14
        assert distance(by_onnxruntime(out, tokens), want) < 1e-5


def test_quantized_weights_mean_the_same_everywhere(crumb, encoder, tokens, tmp_path):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    packed, qonnx, qcdq, folded, back = (
        tmp_path / name for name in ("q.crumb", "q.onnx", "qcdq.onnx", "float.onnx", "back.onnx")
    )
    crumb("quantize", encoder, "-o", packed, "--weights", "int8:channel")
    crumb("export", packed, "-o", qonnx, "--to", "qonnx", *SHAPE)
    crumb("export", packed, "-o", qcdq, "--to", "qcdq")
    crumb("export", packed, "-o", folded, "--to", "float")
    crumb("convert", qcdq, back, "--to", "qonnx", *SHAPE)
    crumb("lint", qonnx, "--for", "qonnx")

    want = by_onnxruntime(folded, tokens)
    assert distance(want, by_onnxruntime(encoder, tokens)) < 0.1
    assert distance(by_onnxruntime(qcdq, tokens), want) < 1e-5
    assert packed.stat().st_size < 0.27 * encoder.stat().st_size
    for path in (qonnx, back):
        model = ModelWrapper(str(path))
        names = {value.name for value in model.graph.input}
        outputs = execute_onnx(model, {name: tokens[name] for name in names})
        assert distance(outputs[model.graph.output[0].name], want) < 1e-5


def test_crumb_runs_it(crumb, engine, encoder, tokens, tmp_path):
    for name, value in tokens.items():
        np.save(tmp_path / f"{name}.npy", value)
    arguments = [part for name in tokens for part in ("--input", f"{name}={tmp_path / name}.npy")]
    crumb("run", encoder, *arguments, "--output", tmp_path / "y.npy")
    assert distance(np.load(tmp_path / "y.npy"), by_onnxruntime(encoder, tokens)) < 1e-5
