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
        named = ["--stages", stages or "rounding"] if stages or "--recipe" not in flags else []
        done = self.crumb(*how, *named, status=status)
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
    undone = 0
    for before in ("", "outliers:share=0.1,", "low_rank:rank=4,", "gptq,", "low_rank:rank=2,outliers:share=0.02,gptq,"):
        for chain in ("bias_correction", "batch_norm", "bias_correction,bias_correction", "batch_norm,bias_correction", "bias_correction,batch_norm",
                      "bias_correction,batch_norm,bias_correction"):  # fmt: skip
            found, last = off(before + chain), case.report["stages"][-1]
            if last["rolled_back"]:  # the means come right, and the outputs lose more by it
                assert last["loss_after"] > last["loss_before"]
                undone += 1
                continue
            assert found < 1e-5, (before, chain)
            assert all(layer["after"] <= max(layer["before"], 1e-9) for layer in last["layers"])
    assert undone <= 15  # of 30: behind two bits means that come right may cost more than they bring
    for correction in CORRECTIONS:
        coarse = off(correction, "--set", "b0=int8:tensor", "--set", "b1=int8:tensor", "--set", "b2=int8:tensor")
        if case.report["stages"][-1]["rolled_back"]:
            continue
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


def test_the_best_way_to_round_is_the_one_whose_outputs_lose_least(crumb, tmp_path):
    """Behind layers that are rounded already, too, and whatever a way holds outputs against; what is reported is what is lost."""
    tried = ["gptq", "gptq:order=off", "qronos:sweeps=4", "gptq:damp=0.001", "gptq:damp=0.1", "clip:sweeps=4:float_inputs=on", "gpfq:sweeps=4"]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        w1, w2 = weight(rng, 24, 32), weight(rng, 32, 16)
        nodes = [node("Gemm", ["x", "w1"], ["a"], alpha=0.5), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w2"], ["y"])]
        save(tmp_path / "m.onnx", nodes, {"w1": w1, "w2": w2}, x=("N", 24), outputs=[("y", ("N", 16))])
        x = (rng.normal(size=(60, 24)) @ (rng.normal(size=(24, 24)) * 0.3 + np.eye(24))).astype(np.float32)
        case = Case(crumb, tmp_path, x)
        lost = []
        for stages in tried:
            lost.append(case.lost("--weights", "int3:channel", "--set", "w1=int2:channel", stages=stages) ** 2)
            (layer,) = case.report["stages"][0]["layers"]  # a Gemm with alpha keeps rounding
            assert layer["after"] == pytest.approx(lost[-1], rel=2e-3), (stages, lost)
        for trials in (4, 5):
            best = case.lost("--weights", "int3:channel", "--set", "w1=int2:channel", stages=f"best:trials={trials}") ** 2
            assert best == pytest.approx(min(lost[:trials]), rel=2e-3), (trials, lost)


@pytest.mark.parametrize("bits", [3, 4, 5])
def test_scales_are_searched_alike_on_one_grid_by_two_names(crumb, tmp_path, rng, bits):
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    save(tmp_path / "m.onnx", nodes, {"w": weight(rng, 32, 12)}, x=("N", 32), outputs=[("y", ("N", 12))])
    case = Case(crumb, tmp_path, (rng.normal(size=(128, 32)) * np.exp(rng.normal(size=32))).astype(np.float32))
    for zero in ("int", "float"):
        both = [f"uint{bits}:channel:zero={zero}", f"int{bits}:range=full:channel:zero={zero}"]
        rounded, clipped = ([case.lost("--weights", spec, stages=stages) for spec in both] for stages in ("", "clip"))
        assert rounded[0] == pytest.approx(rounded[1], rel=1e-4) and clipped[0] == pytest.approx(clipped[1], rel=1e-3)
        assert clipped[0] < 0.97 * rounded[0]


@pytest.mark.parametrize("group", [1, 4, 16])
@pytest.mark.parametrize("spec", ["int4:tensor", "int3:block=8x9", "int4:tensor:scale=e8m0"])
def test_scales_that_groups_of_a_convolution_share_are_searched_too(crumb, tmp_path, rng, group, spec):
    w = weight(rng, 16, 16 // group, 3, 3)
    w[rng.random(w.shape) < 0.01] *= 6  # what makes the scale, and is better cut off
    save(tmp_path / "m.onnx", [node("Conv", ["x", "w"], ["y"], group=group)], {"w": w}, x=("N", 16, 8, 8), outputs=[("y", ("N", 16, None, None))])
    case = Case(crumb, tmp_path, rng.normal(size=(8, 16, 8, 8)).astype(np.float32))
    rounded, clipped = (case.lost("--weights", f"{spec}:pad", stages=stages) for stages in ("", "clip"))
    assert clipped <= rounded * (1 + 1e-6)
    if "e8m0" not in spec:
        assert clipped < 0.95 * rounded
    assert not any("rounding loses less" in note for note in case.report["stages"][0].get("notes", []))


@pytest.mark.parametrize("rounding", ["floor", "ceil", "up", "down", "stochastic=3", "half_up", "half_even"])
def test_no_sweep_loses_more_whichever_way_a_spec_rounds(crumb, tmp_path, rng, rounding):
    save(tmp_path / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], {"w": weight(rng, 32, 12)}, x=("N", 32), outputs=[("y", ("N", 12))])
    case = Case(crumb, tmp_path, rng.normal(size=(96, 32)).astype(np.float32))
    lost = [case.lost("--weights", f"int4:channel:round={rounding}", stages=f"gptq:sweeps={sweeps}") for sweeps in (0, 1, 2, 4)]
    assert all(then <= before * (1 + 1e-4) for before, then in zip(lost, lost[1:])), lost


@pytest.mark.parametrize("bits", [3, 4, 6, 8])
def test_what_turns_as_the_network_runs_has_a_sign(crumb, tmp_path, rng, bits):
    """A Relu's values have none; turned they do, whatever spec the recipe gives them."""
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    save(tmp_path / "m.onnx", nodes, {"w": weight(rng, 16, 32), "v": weight(rng, 32, 6)}, outputs=[("y", ("N", 6))])
    case = Case(crumb, tmp_path, rng.normal(size=(256, 16)).astype(np.float32))
    lost = {}
    for name in (f"uint{bits}", f"int{bits}"):
        lost[name] = case.lost("--weights", "int8:channel", "--activations", name, stages="rotate:online=8")
        turned = next(one for one in case.report["activations"] if one["value"] == "r")
        assert turned["spec"].startswith(f"int{bits}"), turned
    assert lost[f"uint{bits}"] == pytest.approx(lost[f"int{bits}"], rel=0.2)


@pytest.mark.parametrize("online", [4, 8])
@pytest.mark.parametrize("gain", [1, 0.01, 1e-3])
def test_a_norm_that_nothing_turns_stays_what_it_is(crumb, tmp_path, rng, online, gain):
    """20 channels are no multiple of 8; of 4 they are, and turn behind the norm. Neither wants gains in matrices."""
    gains = np.ones(20, np.float32)
    gains[5] = gain
    nodes = [node("MatMul", ["x", "w1"], ["a"]), node("LayerNormalization", ["a", "g", "b"], ["n"]), node("MatMul", ["n", "w2"], ["c"]),
             node("Relu", ["c"], ["r"]), node("MatMul", ["r", "w3"], ["y"])]  # fmt: skip
    constants = {"w1": weight(rng, 16, 20), "g": gains, "b": rng.normal(size=20).astype(np.float32), "w2": weight(rng, 20, 24), "w3": weight(rng, 24, 6)}
    save(tmp_path / "m.onnx", nodes, constants, outputs=[("y", ("N", 6))])
    case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
    flags = ["--weights", "int8:channel", "--activations", "int8:tensor"]
    assert case.lost(*flags, stages=f"rotate:online={online}") < 2 * case.lost(*flags)
    crumb("export", tmp_path / "q.crumb", "-o", tmp_path / "f.onnx", "--to", "float")
    kept = [onnx.numpy_helper.to_array(one) for one in onnx.load(tmp_path / "f.onnx").graph.initializer]
    assert any(values.shape == gains.shape and np.array_equal(values, gains) for values in kept)


@pytest.mark.parametrize("spec", ["int3:channel", "int3:group=8", "int3:channel:scale=bf16", "uint3:group=8:scale=bf16:zero=int", "palette3:group=4"])
def test_means_come_back_by_the_scales_that_are_stored(crumb, tmp_path, rng, spec):
    """A gain times a scale is rounded to the scale's format; inputs far from 0 show what that takes from a mean."""
    mlp(tmp_path / "m.onnx", rng)
    case = Case(crumb, tmp_path, (rng.normal(size=(256, 16)) + 30).astype(np.float32))
    made = case("--weights", f"{spec}:pad", stages="batch_norm")[0]
    off = np.abs(made.mean(0) - case.meant[0].mean(0)) / case.meant[0].std(0)
    assert off.max() < 1e-4, off
    lost = np.sum((made - case.meant[0]) ** 2.0) / np.sum(case.meant[0] ** 2.0)
    assert case.report["stages"][0]["layers"][-1]["after"] == pytest.approx(lost, rel=5e-3)


@pytest.mark.parametrize("stage", ["gptq", "clip"])
def test_samples_count_evenly_though_most_are_nothing(crumb, tmp_path, rng, stage):
    x = np.zeros((8, 3, 12, 12), np.float32)
    x[:, :, 4:7, 4:7] = rng.normal(size=(8, 3, 3, 3)) * 3
    save(tmp_path / "m.onnx", [node("Conv", ["x", "w"], ["y"])], {"w": weight(rng, 8, 3, 3, 3)}, x=("N", 3, 12, 12), outputs=[("y", ("N", 8, None, None))])
    case = Case(crumb, tmp_path, x)
    plain = case.lost("--weights", "int3:channel")
    assert case.lost("--weights", "int3:channel", stages=f"{stage}:even=on") < plain
    assert not any("no sample reaches" in note for note in case.report["stages"][0].get("notes", []))


@pytest.mark.parametrize(("group", "share", "doubled"), [(8, 0.02, 0), (4, 0.02, 4), (2, 0.02, 2), (8, 0.5, 8)])
def test_channels_are_doubled_up_to_a_quarter_unless_more_is_asked_for(crumb, tmp_path, rng, group, share, doubled):
    nodes = [node("Conv", ["x", "w1"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "w2"], ["y"], group=group)]
    constants = {"w1": weight(rng, 16, 3, 3, 3), "w2": weight(rng, 16, 16 // group, 3, 3)}
    save(tmp_path / "m.onnx", nodes, constants, x=("N", 3, 10, 10), outputs=[("y", ("N", 16, None, None))])
    case = Case(crumb, tmp_path, rng.normal(size=(4, 3, 10, 10)).astype(np.float32))
    if doubled == 0:
        case("--weights", "int4:channel", stages=f"split:share={share}")
        (first, *_) = case.report["stages"][0]["notes"]
        assert first.startswith("1 layer ('w2') not split: more than a quarter of their channels would be doubled")
        return
    case("--weights", "int4:channel", stages=f"split:share={share}")
    assert any(note.startswith(f"{doubled} channels of 16") for note in case.report["stages"][0]["notes"])


def test_tiny_weights_are_equalized_like_others(crumb, tmp_path, rng):
    size = np.exp(2 * rng.normal(size=24))
    lost = []
    for scale in (1, 1e-10):
        constants = {"w1": weight(rng, 16, 24) * size.astype(np.float32) * np.float32(scale), "w2": weight(rng, 24, 6)}
        nodes = [node("MatMul", ["x", "w1"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w2"], ["y"])]
        save(tmp_path / "m.onnx", nodes, constants, outputs=[("y", ("N", 6))])
        case = Case(crumb, tmp_path, rng.normal(size=(64, 16)).astype(np.float32))
        lost.append(case.lost("--weights", "int4:tensor", stages="equalize") / case.lost("--weights", "int4:tensor"))
    assert max(lost) < 0.9, lost
