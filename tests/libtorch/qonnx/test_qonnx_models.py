"""Networks of others: the outputs that their packages give with them, and what qonnx and onnxruntime compute."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qonnx_cases import write_sets


@pytest.fixture
def trained(shared):
    """The zoo's own files, whose weights no package has, with outputs that qonnx gave."""
    folder = shared / "onnx"
    if not folder.is_dir():
        pytest.skip("there is no folder ../shared/onnx (an addition: the same shapes are compared with drawn weights)")
    return folder


def case_of(folder, model, sets):
    """A case folder of a model (a path, or a ModelProto) and (inputs, outputs) pairs."""
    folder.mkdir()
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model.read_bytes()
    (folder / "model.onnx").write_bytes(content)
    write_sets(folder, sets)
    return folder


def tensor(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_2W2A"])
def test_trained_tfc(name, trained, tmp_path, assert_cases_pass):
    x, y = (np.load(trained / "golden" / f"{name}.{kind}.npy") for kind in ("input", "output"))
    sets = [([x[i : i + 1]], [y[i : i + 1]]) for i in range(len(x))]
    assert_cases_pass([case_of(tmp_path / name, trained / f"{name}.onnx", sets)], "--exact")


def test_trained_thresholds(trained, tmp_path, assert_cases_pass):
    name = "tfc_1w1a_multithreshold"
    x, y = np.load(trained / f"{name}.input.npy"), np.load(trained / f"{name}.expected_output.npy")
    sets = [([x[i : i + 1]], [y[i : i + 1].reshape(1, 1)]) for i in range(len(x))]
    assert_cases_pass([case_of(tmp_path / "case", trained / f"{name}.onnx", sets)], "--exact")


def structure(path):
    """Everything but the numbers; what has no order is sorted."""
    model = onnx.load(path)
    graph = model.graph
    notes = [(note.tensor_name, sorted(map(str, note.quant_parameter_tensor_names))) for note in graph.quantization_annotation]
    return (model.ir_version, [(one.domain, one.version) for one in model.opset_import], list(map(str, graph.node)), list(map(str, graph.input)),
            list(map(str, graph.output)), sorted(map(str, graph.value_info)), sorted(notes),
            sorted((one.name, tuple(one.dims), one.data_type) for one in graph.initializer))  # fmt: skip


@pytest.mark.parametrize("name", ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "tfc_1w1a_multithreshold"])
def test_drawn_networks_have_the_structure_of_the_trained(name, trained, networks):
    assert structure(networks / f"{name}.onnx") == structure(trained / f"{name}.onnx")


def test_espcn_golden(networks, tmp_path, assert_cases_pass):
    """As a whole: a value next to a quantizer's threshold takes the other step in 1 of 10,000 at most."""
    path = networks / "espcn_nn_resize_quant.onnx"
    x = tensor(networks / "espcn_input_0.pb")
    y = executed_by_qonnx(path, x)
    # The last quantizer's step: the least distance between two of its values.
    step = np.diff(np.unique(y)).min()
    assert_cases_pass([case_of(tmp_path / "case", path, [([x], [y])])], f"--step={step:.9g}")


def test_float_quantizer_golden_and_inner_values(networks, tmp_path, assert_cases_pass):
    name = "floatquant_fp8_e4m3"
    x, y = np.load(networks / f"{name}.input.npy"), np.load(networks / f"{name}.output.npy")
    inner = np.load(networks / f"{name}.activation.npz")
    model = onnx.load(networks / f"{name}.onnx")
    assert_cases_pass([case_of(tmp_path / "outer", model, [([x], [y])])])

    nodes = [node for node in model.graph.node if node.op_type == "FloatQuant"]
    del model.graph.output[:]
    for node in nodes:
        model.graph.output.add(name=node.output[0]).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    outputs = [inner["input_quant"], inner["weight_quant"]]
    assert_cases_pass([case_of(tmp_path / "inner", model, [([x], outputs)])], "--exact")


def test_float_cnn_golden(networks, tmp_path, assert_cases_pass):
    name = "mnist_conv_float"
    x, y = (tensor(networks / f"{name}.{kind}_0.pb") for kind in ("input", "output"))
    assert_cases_pass([case_of(tmp_path / "case", networks / f"{name}.onnx", [([x], [y])])])


@pytest.mark.parametrize("name", ["espcn_nn_resize_float", "espcn_subpixel_float", "sdp_float", "residual_block_clean"])
def test_float_files_against_onnxruntime(name, networks, tmp_path, assert_cases_pass):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(networks / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    inputs = {i.name: rng.random(i.shape, dtype=np.float32) for i in session.get_inputs()}
    outputs = session.run(None, inputs)
    case = case_of(tmp_path / "case", networks / f"{name}.onnx", [(list(inputs.values()), outputs)])
    assert_cases_pass([case])


def values_by_qonnx(path, x):
    """Every value of a graph, by name."""
    wrapper = pytest.importorskip("qonnx.core.modelwrapper")
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    model = wrapper.ModelWrapper(str(path)).transform(InferShapes())
    with np.errstate(all="ignore"):
        return execute_onnx(model, {model.graph.input[0].name: x}, return_full_exec_context=True)


def executed_by_qonnx(path, x):
    return values_by_qonnx(path, x)[onnx.load(path).graph.output[0].name]


def stretches(model):
    """A chain cut behind its quantizers: (input, output, nodes, step), each from one quantizer's output to the next."""
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    start = next(value.name for value in graph.input if value.name not in constants)
    nodes = []
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Quant" and node.input[0] not in constants:
            yield start, node.output[0], nodes, float(constants[node.input[1]])
            start, nodes = node.output[0], []


@pytest.mark.parametrize("name", ["espcn_subpixel_quant", "espcn_nn_resize_quant"])
def test_each_quantizer_of_a_quantized_cnn_against_qonnx(name, networks, tmp_path, assert_cases_pass):
    """Sums are rounded in another order, so a value next to a quantizer's threshold may take the other step: one in
    10,000 at most. Behind the next convolution that is a whole neighbourhood, so every stretch starts from qonnx's
    values."""
    path = networks / f"{name}.onnx"
    x = np.random.default_rng(0).random((1, 3, 128, 128), dtype=np.float32)
    values = values_by_qonnx(path, x)
    model = onnx.load(path)
    for i, (source, target, nodes, step) in enumerate(list(stretches(model))):
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.node[:], part.graph.input[:], part.graph.output[:], part.graph.value_info[:]
        part.graph.node.extend(nodes)
        used = {name for node in nodes for name in node.input}
        kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
        del part.graph.initializer[:]
        part.graph.initializer.extend(kept)
        part.graph.input.add(name=source).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        part.graph.output.add(name=target).type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        case = case_of(tmp_path / str(i), part, [([values[source]], [values[target]])])
        assert_cases_pass([case], f"--step={step:.9g}")


@pytest.mark.parametrize(("name", "most"), {"TFC_1W1A": 1, "TFC_1W2A": 1, "TFC_2W2A": 1, "tfc_1w1a_multithreshold": 255}.items())
def test_tfc_against_qonnx(name, most, networks, tmp_path, assert_cases_pass):
    path = networks / f"{name}.onnx"
    rng = np.random.default_rng(2)
    samples = [rng.random((1, 1, 28, 28), dtype=np.float32) for _ in range(4)]
    samples = [np.round(most * x) if most > 1 else x for x in samples]
    sets = [([x], [executed_by_qonnx(path, x)]) for x in samples]
    assert_cases_pass([case_of(tmp_path / "case", path, sets)], "--exact")


def test_quantized_cnn_against_qonnx(networks, tmp_path, assert_cases_pass):
    path = networks / "eltwise_chanlast_testcase.onnx"
    x = np.random.default_rng(3).integers(0, 256, (1, 3, 224, 224)).astype(np.float32)
    case = case_of(tmp_path / "case", path, [([x], [executed_by_qonnx(path, x)])])
    assert_cases_pass([case])
