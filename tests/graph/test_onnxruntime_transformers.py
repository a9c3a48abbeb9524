"""A small BERT as onnxruntime's optimizer for transformers and its quantizer write it: it runs, and its weights become codes."""

import warnings

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
from onnxruntime import quantization  # noqa: E402
from onnxruntime.transformers.fusion_options import FusionOptions  # noqa: E402
from onnxruntime_graphs import feed, session  # noqa: E402

WIDTH, HEADS, LAYERS = 32, 4, 2
MATRICES = {"Attention": 4 * LAYERS, "MultiHeadAttention": 6 * LAYERS}  # queries, keys and values are one or three


def export_bert(path):
    torch.manual_seed(0)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 48}
    config = transformers.BertConfig(vocab_size=50, max_position_embeddings=16, attn_implementation="eager", **sizes)
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel(config, add_pooling_layer=False)

        def forward(self, ids, mask, kinds):
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=kinds)[0]

    ids = torch.randint(1, 50, (2, 7))
    axes = {name: {0: "batch", 1: "sequence"} for name in [*names, "y"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(States().eval(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), str(path), input_names=names,
                          output_names=["y"], dynamic_axes=axes, opset_version=14, dynamo=False)  # fmt: skip


@pytest.fixture(scope="module")
def berts(tmp_path_factory):
    """The network by the operator that its attention has; "..., int8" of quantize_dynamic."""
    folder = tmp_path_factory.mktemp("berts")
    export_bert(folder / "float.onnx")
    made = {}
    for op in MATRICES:
        options = FusionOptions("bert")
        options.use_multi_head_attention = op == "MultiHeadAttention"
        model = optimizer.optimize_model(str(folder / "float.onnx"), model_type="bert", num_heads=HEADS, hidden_size=WIDTH, opt_level=0,
                                         optimization_options=options)  # fmt: skip
        made[op] = folder / f"{op}.onnx"
        model.save_model_to_file(str(made[op]))
        made[f"{op}, int8"] = folder / f"{op}_int8.onnx"
        quantization.quantize_dynamic(made[op], made[f"{op}, int8"], weight_type=quantization.QuantType.QInt8,
                                      extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})  # fmt: skip
    return made


def batch(seed):
    random = np.random.default_rng(seed)
    rows, tokens = int(random.integers(1, 4)), int(random.integers(3, 15))
    mask = (np.arange(tokens)[None] < random.integers(1, tokens + 1, size=(rows, 1))).astype(np.int64)
    return {"input_ids": random.integers(1, 50, (rows, tokens)), "attention_mask": mask, "token_type_ids": random.integers(0, 2, (rows, tokens))}


def off(made, wanted, mask):
    """The largest difference at tokens that the mask shows, as a part of the largest value."""
    return np.abs(made - wanted)[mask == 1].max() / np.abs(wanted).max()


@pytest.mark.parametrize("name", ["Attention", "MultiHeadAttention", "Attention, int8", "MultiHeadAttention, int8"])
def test_it_runs(crumb, tmp_path, berts, name):
    path = berts[name]
    ops = {node.op_type for node in onnx.load(path).graph.node}
    wanted_ops = {name} if name in MATRICES else {"QEmbedLayerNormalization", "MultiHeadAttention" if "Multi" in name else "QAttention"}
    assert wanted_ops <= ops
    for seed in range(3):
        x = batch(seed)
        wanted = session(path).run(None, x)[0]
        crumb("run", path, *feed(tmp_path, x), "--output", tmp_path / "y.npy", "--engine", "runtime")
        # A code of DynamicQuantizeLinear that rounds to its neighbour is a step of 1/255 of a range.
        assert off(np.load(tmp_path / "y.npy"), wanted, x["attention_mask"]) < (1e-5 if name in MATRICES else 1 / 255)


@pytest.mark.parametrize("op", MATRICES)
def test_its_weights_become_codes_that_onnxruntime_runs(crumb, tmp_path, berts, op):
    out = tmp_path / "q.onnx"
    crumb("quantize", berts[op], "-o", out, "--to", "qcdq", "--weights", "int8:channel")
    model = onnx.load(out)
    assert {node.domain for node in model.graph.node} == {""}
    codes = {value.name for value in model.graph.initializer if value.data_type == onnx.TensorProto.INT8}
    codes |= {node.output[0] for node in model.graph.node if node.op_type == "Clip" and node.input[0] in codes}
    decoded = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in codes}
    products = [node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in decoded]
    assert len(products) == MATRICES[op]
    for seed in range(2):
        x = batch(seed)
        wanted = session(berts[op]).run(None, x)[0]
        made = session(out, rounds_inputs=False).run(None, x)[0]
        assert off(made, wanted, x["attention_mask"]) < 0.03
        crumb("run", out, *feed(tmp_path, x), "--output", tmp_path / "y.npy", "--engine", "runtime")
        assert off(np.load(tmp_path / "y.npy"), made, x["attention_mask"]) < 1e-5


@pytest.mark.parametrize("op", MATRICES)
def test_it_is_packed_and_exported(crumb, tmp_path, berts, op):
    """A packed file has one operator set for all nodes; the file that is made of it computes the same."""
    packed, out, x = tmp_path / "bert.crumb", tmp_path / "bert.onnx", batch(1)
    crumb("quantize", berts[op], "-o", packed, "--weights", "int8:channel")
    crumb("export", packed, "-o", out, "--to", "qcdq")
    wanted = session(out, rounds_inputs=False).run(None, x)[0]
    for path in (packed, out):
        crumb("run", path, *feed(tmp_path, x), "--output", tmp_path / "y.npy", "--engine", "runtime")
        assert off(np.load(tmp_path / "y.npy"), wanted, x["attention_mask"]) < 1e-5
    shapes = [part for name, values in x.items() for part in ("--shape", f"{name}={values.shape[0]}x{values.shape[1]}")]
    crumb("export", packed, "-o", tmp_path / "qonnx.onnx", "--to", "qonnx", *shapes)
    crumb("run", tmp_path / "qonnx.onnx", *feed(tmp_path, x), "--output", tmp_path / "y.npy", "--engine", "runtime")
    assert off(np.load(tmp_path / "y.npy"), wanted, x["attention_mask"]) < 1e-5
