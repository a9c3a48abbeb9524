"""Stages of `crumb quantize` on networks that do more with a matrix, a bias or a value than the usual: the network stays what it is, or
the stage leaves that part alone and says so; reports say what onnxruntime and numpy find; no stage goes by what another one changed."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper, node = onnx.helper, onnx.helper.make_node


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def weight(rng, *shape):
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def save(path, nodes, constants, x=("N", 16), outputs=(("y", ("N", None)),)):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, list(x))],
        [helper.make_tensor_value_info(name, 1, list(shape)) for name, shape in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def floats(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


class Case:
    """A network and its samples; each call quantizes it and runs what comes out."""

    def __init__(self, crumb, folder, x):
        self.crumb, self.folder, self.x = crumb, folder, x
        np.save(folder / "x.npy", x)
        self.meant = floats(folder / "m.onnx", x)

    def __call__(self, *flags, stages="", status=0):
        how = ["quantize", self.folder / "m.onnx", "-o", self.folder / "q.crumb", "--data", self.folder / "x.npy", "--json", *flags]
        done = self.crumb(*how, *(["--stages", stages] if stages else []), status=status)
        if status:
            return done.stderr
        self.report = json.loads(done.stdout)
        self.crumb("run", self.folder / "q.crumb", "--input", self.folder / "x.npy", "--output-dir", self.folder / "out")
        return [np.load(self.folder / f"out/{output['name']}.npy") for output in self.report["outputs"]]

    def lost(self, *flags, stages="", output=0):
        made = self(*flags, stages=stages)[output]
        return float(np.sqrt(np.sum((made - self.meant[output]) ** 2.0) / np.sum(self.meant[output] ** 2.0)))


BESIDE = ["low_rank:rank=1", "outliers:share=0.05", "low_rank:rank=1,outliers:share=0.05", "outliers:share=0.05,low_rank:rank=2"]


@pytest.mark.parametrize("stages", BESIDE)
@pytest.mark.parametrize("name", ["both ways", "elsewhere, too", "in front", "two of a name"])
def test_what_stands_beside_stands_beside_every_use(crumb, tmp_path, rng, name, stages):
    w, v = weight(rng, 8, 8), weight(rng, 8, 8)
    relu = node("Relu", ["a"], ["r"])
    nodes, constants = {
        "both ways": ([node("Gemm", ["x", "w"], ["a"], transB=1), relu, node("Gemm", ["r", "w"], ["b"]), node("MatMul", ["b", "v"], ["y"])], {"w": w}),
        "elsewhere, too": ([node("MatMul", ["x", "w"], ["a"]), relu, node("Mul", ["r", "w"], ["b"]), node("MatMul", ["b", "v"], ["y"])], {"w": w}),
        "in front": ([node("MatMul", ["x", "w"], ["a"]), relu, node("MatMul", ["w", "r"], ["b"]), node("MatMul", ["b", "v"], ["y"])], {"w": w}),
        "two of a name": ([node("MatMul", ["x", "fc"], ["a"]), relu, node("MatMul", ["r", "fc.weight"], ["b"]), node("MatMul", ["b", "v"], ["y"])],
                          {"fc": w, "fc.weight": weight(rng, 8, 8)}),
    }[name]  # fmt: skip
    save(tmp_path / "m.onnx", nodes, constants | {"v": v}, x=(8, 8), outputs=[("y", (8, 8))])
    case = Case(crumb, tmp_path, rng.normal(size=(8, 8)).astype(np.float32))
    assert case.lost("--weights", "int8:tensor", stages=stages) < 0.03
    notes = [note for stage in case.report["stages"] for note in stage.get("notes", [])]
    assert any("stays whole: " in note for note in notes), notes
    assert all(layer["layer"] == "v" for layer in case.report["stages"][0]["layers"])


def test_a_matrix_that_is_a_result_stays_whole(crumb, tmp_path, rng):
    w = weight(rng, 8, 8)
    save(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], {"w": w}, x=("N", 8), outputs=[("y", ("N", 8)), ("w", (8, 8))])
    case = Case(crumb, tmp_path, rng.normal(size=(8, 8)).astype(np.float32))
    for stages in BESIDE[:2]:
        assert "'w' stays whole: it is an output of the network" in case("--weights", "int8", stages=stages, status=1)


@pytest.mark.parametrize("spec", ["int3:token", "int3:tensor"])
@pytest.mark.parametrize("stages", ["", *BESIDE, "rotate:online=8", "outliers:share=0.05,gptq", "low_rank:rank=2,clip"])
def test_activations_stay_quantized_beside(crumb, tmp_path, rng, spec, stages):
    """Products, and what stands beside them, take what the quantizer gives: the file's network by the spec, and no better one."""
    nodes = [node("MatMul", ["x", "w1"], ["a"], name="one"), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w2"], ["y"], name="two")]
    save(tmp_path / "m.onnx", nodes, {"w1": weight(rng, 16, 32), "w2": weight(rng, 32, 6)}, outputs=[("y", ("N", 6))])
    case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
    flags = ["--weights", "int8:channel", "--activations", spec]
    # Sums of a Hadamard matrix' products have other quantizers' errors, not fewer bits.
    assert case.lost(*flags, stages=stages) > 0.5 * case.lost(*flags)
    case(*flags, stages=stages)
    crumb("export", tmp_path / "q.crumb", "-o", tmp_path / "q.onnx", "--to", "qonnx")
    graph = onnx.load(tmp_path / "q.onnx").graph
    made = {output: one for one in graph.node for output in one.output}
    takers = [one for one in graph.node if one.op_type in ("MatMul", "Gemm")]
    of_x = [one for one in takers if one.input[0] not in made]
    assert not of_x, [one.name for one in of_x]
    assert not [one.name for one in takers if one.input[0] in made and made[one.input[0]].op_type == "Relu"]


CORRECTIONS = ["bias_correction", "batch_norm"]


def mlp(path, rng, layers=("Gemm", "Gemm", "Gemm")):
    sizes, nodes, constants, value = [16, 24, 20, 5], [], {}, "x"
    for i, kind in enumerate(layers):
        constants |= {f"w{i}": weight(rng, sizes[i], sizes[i + 1]), f"b{i}": weight(rng, sizes[i + 1]) + (2 if i == 2 else 0)}
        out = "y" if i == 2 else f"a{i}"
        if kind == "Gemm":
            nodes.append(node("Gemm", [value, f"w{i}", f"b{i}"], [out]))
        else:
            nodes += [node("MatMul", [value, f"w{i}"], [f"p{i}"]), node("Add", [f"p{i}", f"b{i}"], [out])]
        if i < 2:
            nodes.append(node("Relu", [out], [f"r{i}"]))
            value = f"r{i}"
    save(path, nodes, constants, outputs=[("y", ("N", 5))])


@pytest.mark.parametrize("layers", [("Gemm",) * 3, ("MatMul",) * 3])
def test_corrections_go_by_the_float_network_whatever_came_before(crumb, tmp_path, rng, layers):
    """Means of outputs are the float network's behind any chain that ends in a correction, with anything beside the matrices, and with
    biases that are codes of eight bits to what these hold."""
    mlp(tmp_path / "m.onnx", rng, layers)
    case = Case(crumb, tmp_path, (rng.normal(size=(256, 16)) + 0.5).astype(np.float32))
    meant = case.meant[0].mean(0)

    def off(stages, *flags):
        return float(np.linalg.norm(case("--weights", "int2:channel", *flags, stages=stages)[0].mean(0) - meant) / np.linalg.norm(meant))

    assert off("") > 0.05
    for before in ("", "outliers:share=0.1,", "low_rank:rank=4,", "gptq,", "low_rank:rank=2,outliers:share=0.02,gptq,"):
        for chain in ("bias_correction", "batch_norm", "bias_correction,bias_correction", "batch_norm,bias_correction", "bias_correction,batch_norm",
                      "bias_correction,batch_norm,bias_correction"):  # fmt: skip
            assert off(before + chain) < 1e-5, (before, chain)
            last = case.report["stages"][-1]
            assert all(layer["after"] <= max(layer["before"], 1e-9) for layer in last["layers"])
    for correction in CORRECTIONS:
        coarse = off(correction, "--set", "b0=int8:tensor", "--set", "b1=int8:tensor", "--set", "b2=int8:tensor")
        assert 1e-6 < coarse < 0.01, correction
        again = [layer["after"] for layer in case.report["stages"][-1]["layers"]]
        assert any(share > 1e-12 for share in again), "codes hold no number exactly, and the report says so"


def test_stages_in_floats_behind_a_correction_are_refused(crumb, tmp_path, rng):
    mlp(tmp_path / "m.onnx", rng)
    case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
    said = case("--weights", "int4:channel", stages="bias_correction,equalize", status=1)
    assert "equalize" in said and "put the stage before those that round" in said


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_bias_for_each_place_is_no_layer_s_own(crumb, tmp_path, rng, correction):
    """[8, 1] behind [N, 8, 8] has eight numbers, as a layer of eight outputs would, but each goes to all of these."""
    save(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])], {"w": weight(rng, 8, 8), "b": weight(rng, 8, 1)},
         x=("N", 8, 8), outputs=[("y", ("N", 8, 8))])  # fmt: skip
    case = Case(crumb, tmp_path, (rng.normal(size=(64, 8, 8)) + 0.5).astype(np.float32))
    assert "has a bias of its own" in case("--weights", "int3:channel", stages=correction, status=1).replace("\n", " ")


def test_a_group_that_no_sample_reaches_keeps_good_palettes(crumb, tmp_path, rng):
    """Channels that are dead on the samples are not dead for ever."""
    w = np.zeros((8, 4, 3, 3), np.float32)
    w[:4], w[4:] = -(0.5 + 0.5 * rng.random((4, 4, 3, 3))), 0.2 + 0.8 * rng.random((4, 4, 3, 3))
    save(tmp_path / "m.onnx", [node("Conv", ["x", "w"], ["y"], group=2)], {"w": w}, x=("N", 8, 6, 6), outputs=[("y", ("N", 8, 4, 4))])
    x = rng.normal(size=(16, 8, 6, 6)).astype(np.float32)
    x[:, :4] = 0
    case = Case(crumb, tmp_path, x)
    for stage in ("gptq", "clip", "adaround:steps=20", "gpfq", "qronos"):
        case("--weights", "palette3", stages=stage)
        assert any("no sample reaches some of its groups" in note for note in case.report["stages"][0]["notes"])
        crumb("export", tmp_path / "q.crumb", "-o", tmp_path / "f.onnx", "--to", "float")
        made = onnx.numpy_helper.to_array(onnx.load(tmp_path / "f.onnx").graph.initializer[0])
        assert np.all(np.sign(made) == np.sign(w)), stage
        assert np.linalg.norm(made[:4] - w[:4]) < 0.2 * np.linalg.norm(w[:4]), stage


@pytest.mark.parametrize("stage", ["gptq", "bias_correction", "batch_norm", "smooth"])
@pytest.mark.parametrize("left", [0, 1, 3])
def test_samples_of_a_fixed_batch_count_once(crumb, tmp_path, rng, stage, left):
    """A network that takes four at a time: the same file as that of an open batch, of as many whole batches as there are."""
    x = rng.normal(size=(32 + left, 16)).astype(np.float32)
    x[-1] *= 6
    files = []
    for batch, samples in ((4, x), ("N", x[:32])):
        folder = tmp_path / str(batch)
        folder.mkdir()
        mlp(folder / "m.onnx", np.random.default_rng(3))
        model = onnx.load(folder / "m.onnx")
        for value in (model.graph.input[0], model.graph.output[0]):
            dim = value.type.tensor_type.shape.dim[0]
            dim.Clear()
            if batch == "N":
                dim.dim_param = "N"
            else:
                dim.dim_value = batch
        onnx.save(model, folder / "m.onnx")
        np.save(folder / "x.npy", samples)
        crumb("quantize", folder / "m.onnx", "-o", folder / "q.crumb", "--weights", "int3:channel", "--data", folder / "x.npy", "--stages", stage)
        crumb("export", folder / "q.crumb", "-o", folder / "f.onnx", "--to", "float")
        graph = onnx.load(folder / "f.onnx").graph
        files.append({one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer})
    assert files[0].keys() == files[1].keys()
    for name, value in files[0].items():
        assert np.allclose(value, files[1][name], rtol=1e-5, atol=1e-6), name


def test_factors_are_found_for_channels_that_are_scaled_once(crumb, tmp_path, rng):
    """x * Relu(x) has a factor squared: what awq and smooth would choose by the factor alone is not what the layer gets."""
    nodes = [node("MatMul", ["x", "w1"], ["a"]), node("Relu", ["a"], ["r"]), node("Mul", ["a", "r"], ["s"]), node("MatMul", ["s", "w2"], ["y"])]
    save(tmp_path / "m.onnx", nodes, {"w1": weight(rng, 16, 24), "w2": weight(rng, 24, 6)}, outputs=[("y", ("N", 6))])
    case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
    for stage in ("awq", "smooth"):
        assert "finds no value between layers whose channels can be scaled" in case("--weights", "int2:channel", stages=stage, status=1)


def test_a_register_is_promised_to_layers_that_take_integers(crumb, tmp_path, rng):
    """Two layers take one value, of which one takes it in floats: nothing bounds its sums."""
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "wa"], ["p"]), node("MatMul", ["r", "wb"], ["q"]), node("Concat", ["p", "q"], ["y"], axis=1)]
    save(tmp_path / "m.onnx", nodes, {"w": weight(rng, 16, 24), "wa": weight(rng, 24, 6), "wb": weight(rng, 24, 6)}, outputs=[("y", ("N", 12))])
    (tmp_path / "r.yaml").write_text("version: 1\nweights: int4:channel\nactivations: int8:token\nstages: [gptq:accumulator=14]\n"
                                     "rules:\n  - {match: {name: wb}, activations: keep}\n  - {match: {op: Concat}, activations: keep}\n")  # fmt: skip
    case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
    said = case("--recipe", tmp_path / "r.yaml", status=1)
    assert "'wb'" in said and "no quantizer of integers makes" in said
