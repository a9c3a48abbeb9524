"""`crumb quantize --target` in bit operations and bits of accumulators: formats of weights and of what layers take in, against
PyTorch's losses and a search through all choices, and what `crumb cost` says of the file."""

import itertools
import json
import os
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
safetensors = pytest.importorskip("safetensors.numpy")

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
WEIGHTS = ["int2:channel", "int4:channel", "int7:channel"]
ACTIVATIONS = ["uint2:tensor", "uint4:tensor", "uint8:tensor"]  # signed at what can be negative
PAIRS = list(itertools.product(range(len(WEIGHTS)), range(len(ACTIVATIONS))))


class Network(torch.nn.Module):
    """Two layers share what they take in: their weights may differ, and the format of that may not."""

    GROUPS = [["first"], ["left", "right"], ["last"]]

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Conv2d(2, 5, 3)
        self.left, self.right = torch.nn.Conv2d(5, 4, 3), torch.nn.Conv2d(5, 4, 3, padding=1)
        self.last = torch.nn.Linear(4 * 9 + 4 * 25, 6)
        with torch.no_grad():
            for layer in self.layers().values():  # channels of unlike ranges
                layer.weight.mul_(torch.exp2(2 * torch.randn(len(layer.weight))).reshape(-1, *[1] * (layer.weight.dim() - 1)))

    def layers(self):
        return dict(self.named_children())

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.first(x)), 2)
        both = [torch.relu(layer(x)).flatten(1) for layer in (self.left, self.right)]
        return self.last(torch.cat(both, 1))

    def taken(self, x):
        """What each layer takes, by its name."""
        found = {}
        hooks = [layer.register_forward_pre_hook(lambda _, given, name=name: found.__setitem__(name, given[0].detach()))
                 for name, layer in self.layers().items()]  # fmt: skip
        with torch.no_grad():
            self(x)
        for hook in hooks:
            hook.remove()
        return found

    def write(self, path):
        def conv(name, x, y, **how):
            return [onnx.helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [f"{name}_out"], f"{name}/Conv", **how),
                    onnx.helper.make_node("Relu", [f"{name}_out"], [y], f"{name}/Relu")]  # fmt: skip

        node = onnx.helper.make_node
        nodes = [*conv("first", "x", "a"), node("MaxPool", ["a"], ["b"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
                 *conv("left", "b", "c"), *conv("right", "b", "d", pads=[1, 1, 1, 1]), node("Flatten", ["c"], ["e"], "flat_c"),
                 node("Flatten", ["d"], ["f"], "flat_d"), node("Concat", ["e", "f"], ["g"], "concat", axis=1),
                 node("Gemm", ["g", "last.weight", "last.bias"], ["y"], "last/Gemm", transB=1)]  # fmt: skip
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, ["n", 2, 12, 12])], [value("y", 1, ["n", 6])],
            [onnx.numpy_helper.from_array(tensor.numpy(), name) for name, tensor in self.state_dict().items()])  # fmt: skip
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)


def multiplied(layer, weight, x):
    """Without the bias."""
    if isinstance(layer, torch.nn.Linear):
        return x @ weight.T
    return torch.conv2d(x, weight, padding=layer.padding)


def costs(crumb, file, *flags):
    """{layer: (bit operations, bits of the register, or None)} of a file, and all operations."""
    said = json.loads(crumb("cost", file, "--json", *flags).stdout)
    nodes = {}
    for node in said["nodes"]:
        register = node["accumulator"] and node["accumulator"]["by_data_type"]
        nodes[node["name"].split("/")[0]] = (node["bops_qap"], register)
    return nodes, said["total"]["bops_qap"]


class Oracle:
    """Losses and costs of every layer in every format, from files where all layers have the same."""

    def __init__(self, crumb, work, seed):
        self.work, self.model, self.data = work, work / "net.onnx", work / "x.npy"
        network = Network(seed)
        network.write(self.model)
        samples = np.random.default_rng(seed).normal(size=(20, 2, 12, 12)).astype(np.float32)
        np.save(self.data, samples)
        layers, taken = network.layers(), network.taken(torch.tensor(samples))
        doubles = {name: x.double() for name, x in taken.items()}
        with torch.no_grad():  # quantizers stand before what moves elements
            pooled = torch.relu(network.first(torch.tensor(samples)))
        at_edge = {"first": taken["first"], "left": pooled, "right": pooled, "last": taken["last"]}
        self.costs, self.weights, self.inputs = {}, {}, {}
        for (w, weights), (a, activations) in itertools.product(enumerate(WEIGHTS), enumerate(ACTIVATIONS)):
            out = work / f"u{w}{a}.crumb"
            report = json.loads(crumb("quantize", self.model, "-o", out, "--weights", weights, "--activations", activations,
                                      "--inputs", activations.removeprefix("u"), "--method", "rounding", "--data", self.data, "--json").stdout)  # fmt: skip
            self.costs[w, a] = costs(crumb, out)[0]
            crumb("dequantize", out, "-o", work / "u.safetensors")
            rounded = safetensors.load_file(work / "u.safetensors")
            scales = {edge["value"]: edge["scale"] for edge in report["activations"]}
            for name, layer in layers.items():
                x, weight = doubles[name], layer.weight.detach().double()
                y = multiplied(layer, weight, x).pow(2).sum()
                lost = torch.tensor(rounded[f"{name}.weight"]).double() - weight
                self.weights[name, w] = {"error": float(lost.pow(2).sum() / weight.pow(2).sum()),
                                         "hessian": float(multiplied(layer, lost, x).pow(2).sum() / y)}  # fmt: skip
                bits, is_signed = int(re.search(r"uint(\d)", activations)[1]), name == "first"
                low, high = (-(2 ** (bits - 1)) + 1, 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
                scale = np.float32(scales[{"first": "x", "last": "c"}.get(name, "a")])

                def change(value, scale=scale, low=low, high=high):
                    return ((value / scale).round().clamp(low, high) * scale - value).double()

                own, out = change(at_edge[name]), multiplied(layer, weight, change(taken[name]))
                self.inputs[name, a] = {"error": float(own.pow(2).sum() / at_edge[name].double().pow(2).sum()),
                                        "hessian": float(out.pow(2).sum() / y)}  # fmt: skip

    def options(self, group, sensitivity, widest=None):
        """(loss, bit operations) of every choice of a group."""
        found = []
        for a in range(len(ACTIVATIONS)):
            for ws in itertools.product(range(len(WEIGHTS)), repeat=len(group)):
                layers = list(zip(group, ws, strict=True))
                loss = sum(self.weights[name, w][sensitivity] + self.inputs[name, a][sensitivity] for name, w in layers)
                if widest is None or all(self.costs[w, a][name][1] <= widest for name, w in layers):
                    found.append((loss, sum(self.costs[w, a][name][0] for name, w in layers)))
        return found

    def choices(self, sensitivity, widest=None):
        groups = [np.array(self.options(group, sensitivity, widest)).reshape(-1, 2) for group in Network.GROUPS]
        sums = groups[0]
        for group in groups[1:]:
            sums = (sums[:, None] + group[None]).reshape(-1, 2)
        return sums


@pytest.fixture(scope="module", params=range(3 if SLOW else 2))
def oracle(crumb, tmp_path_factory, request):
    return Oracle(crumb, tmp_path_factory.mktemp("mixed"), request.param)


def choose(crumb, oracle, out, target, *flags, sensitivity="hessian"):
    done = crumb("quantize", oracle.model, "-o", out, "--target", target, "--formats", ",".join(WEIGHTS), "--activation-formats",
                 ",".join(ACTIVATIONS), "--sensitivity", sensitivity, "--data", oracle.data, "--json", *flags)  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("sensitivity", ["error", "hessian"])
def test_no_choice_within_operations_loses_less(crumb, oracle, tmp_path, sensitivity):
    choices = oracle.choices(sensitivity)
    losses, bops = choices[:, 0], choices[:, 1]
    out = tmp_path / "out.crumb"
    seen = set()
    for share in (0, 0.02, 0.1, 0.25, 0.5, 1):
        target = int(np.ceil(bops.min() + share * (bops.max() - bops.min())))
        report = choose(crumb, oracle, out, f"{target}bops", sensitivity=sensitivity)
        said = report["assignment"]
        # Sums of float32 squares, and rounding to nearest at ties that float32 and the scale decide.
        assert said["loss"] == pytest.approx(losses[bops <= target].min(), rel=1e-4)
        assert said["bound"] == pytest.approx(said["loss"], rel=1e-9)
        assert said["used"] <= target
        assert costs(crumb, out)[1] == pytest.approx(said["used"], rel=1e-12)
        seen.add(said["loss"])
    assert len(seen) == 6  # more is spent where more may be


def test_no_choice_within_registers_loses_less(crumb, oracle, tmp_path):
    out = tmp_path / "out.crumb"
    registers = {bits for of in oracle.costs.values() for _, bits in of.values()}
    losses = {}
    for widest in range(min(registers), max(registers) + 1):
        choices = oracle.choices("hessian", widest)
        if len(choices) == 0:
            said = crumb("quantize", oracle.model, "-o", out, "--target", f"{widest}acc", "--formats", ",".join(WEIGHTS),
                         "--activation-formats", ",".join(ACTIVATIONS), "--data", oracle.data, status=2).stderr  # fmt: skip
            least = int(re.search(r"the least that these formats give here: (\d+)acc", said)[1])
            assert least > widest and len(oracle.choices("hessian", least)) > 0
            assert len(oracle.choices("hessian", least - 1)) == 0
            continue
        said = choose(crumb, oracle, out, f"{widest}acc")["assignment"]
        assert said["loss"] == pytest.approx(choices[:, 0].min(), rel=1e-4)
        assert said["used"] == max(bits for _, bits in costs(crumb, out)[0].values()) <= widest
        losses[widest] = said["loss"]
    assert len(set(losses.values())) > 3


@pytest.mark.parametrize("sensitivity", ["error", "hessian", "kl"])
def test_the_recipe_makes_the_same_file(crumb, oracle, tmp_path, sensitivity):
    bops = oracle.choices("hessian")[:, 1]
    for target in (f"{int(np.median(bops))}bops", "15acc"):
        report = choose(crumb, oracle, tmp_path / "out.crumb", target, sensitivity=sensitivity)
        crumb("quantize", oracle.model, "-o", tmp_path / "again.crumb", "--recipe", tmp_path / "out.recipe.yaml", "--data",
              oracle.data)  # fmt: skip
        assert (tmp_path / "again.crumb").read_bytes() == (tmp_path / "out.crumb").read_bytes()
        assert report["recipe"] in (tmp_path / "out.recipe.yaml").read_text()
        specs = {edge["value"]: edge["spec"] for edge in report["activations"]}
        assert set(specs) == {"x", "a", "c", "d"} and specs["c"] == specs["d"]  # both sides of a Concat have one scale


def test_what_is_said_of_layers_holds(crumb, oracle, tmp_path):
    """Flags that name formats, too: those layers are not chosen for, and count."""
    out = tmp_path / "out.crumb"
    report = choose(crumb, oracle, out, "2Mbops", "--set", "last=int8:tensor", "--inputs", "int8", "--exclude", "right")
    weights = {row["name"]: row["spec"] for row in report["weights"]}
    assert weights["last.weight"] == "int8:tensor" and weights["right.weight"] is None
    assert weights["first.weight"] in WEIGHTS and weights["left.weight"] in WEIGHTS
    specs = {edge["value"]: edge["spec"] for edge in report["activations"]}
    assert specs["x"] == "int8:tensor" and specs["a"] in ACTIVATIONS
    assert costs(crumb, out)[1] == pytest.approx(report["assignment"]["used"], rel=1e-12)
    assert report["assignment"]["used"] <= 2000000
    widest = choose(crumb, oracle, out, "20acc", "--exclude", "right")["assignment"]["used"]
    assert widest == max(bits for _, bits in costs(crumb, out)[0].values() if bits) <= 20


@pytest.mark.parametrize("sensitivity", ["error", "hessian"])
def test_an_excluded_sibling_counts_by_what_it_takes(crumb, oracle, tmp_path, sensitivity):
    """It keeps its weights, and takes the value whose format is chosen for the other: every choice counts as its file costs."""
    out, beside = tmp_path / "out.crumb", []
    for spec in ACTIVATIONS:
        crumb("quantize", oracle.model, "-o", out, "--weights", "int4:channel", "--activations", spec, "--exclude", "right", "--data", oracle.data)
        beside.append(costs(crumb, out)[0]["right"][0])
    assert len(set(beside)) == len(ACTIVATIONS)
    groups = [np.array([(oracle.weights[name, w][sensitivity] + oracle.inputs[name, a][sensitivity],
                         oracle.costs[w, a][name][0] + (beside[a] if name == "left" else 0)) for w, a in PAIRS]) for name in ("first", "left", "last")]  # fmt: skip
    choices = groups[0]
    for group in groups[1:]:
        choices = (choices[:, None] + group[None]).reshape(-1, 2)
    losses, bops = choices[:, 0], choices[:, 1]
    for share in (0, 0.02, 0.1, 0.25, 0.5, 1):
        target = int(np.ceil(bops.min() + share * (bops.max() - bops.min())))
        said = choose(crumb, oracle, out, f"{target}bops", "--exclude", "right", sensitivity=sensitivity)["assignment"]
        assert said["loss"] == pytest.approx(losses[bops <= target].min(), rel=1e-4)
        assert said["bound"] == pytest.approx(said["loss"], rel=1e-9)
        assert costs(crumb, out)[1] == pytest.approx(said["used"], rel=1e-12) and said["used"] <= target
    least = crumb("quantize", oracle.model, "-o", out, "--target", f"{int(bops.min()) - 2}bops", "--formats", ",".join(WEIGHTS), "--activation-formats",
                  ",".join(ACTIVATIONS), "--exclude", "right", "--data", oracle.data, status=2).stderr  # fmt: skip
    assert f"the least that these formats give here: {int(np.ceil(bops.min()))}bops" in least


def test_products_of_computed_values(crumb, tmp_path):
    """What formats of two layers decide is counted by the widest, which is said; what adds up floats has no register, which is said, too."""
    draw = np.random.default_rng(2)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    constants = {name: draw.normal(size=shape).astype(np.float32) for name, shape in (("first", (12, 8)), ("second", (8, 6)))}
    nodes = [node("MatMul", ["x", "first"], ["a"], "one"), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "second"], ["y"], "two"),
             node("Transpose", ["r"], ["t"], perm=[0, 2, 1]), node("MatMul", ["t", "x"], ["z"], "prod")]  # fmt: skip
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, ["n", 5, 12])], [value("y", 1, ["n", 5, 6]), value("z", 1, ["n", 8, 12])],
                                   [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()])  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", draw.normal(size=(32, 5, 12)).astype(np.float32))
    base = ["quantize", tmp_path / "m.onnx", "-o", tmp_path / "out.crumb", "--data", tmp_path / "x.npy", "--formats", ",".join(WEIGHTS)]
    chosen = [*base, "--activation-formats", ",".join(ACTIVATIONS)]
    said = crumb(*chosen, "--target", "9bops", status=2).stderr
    least = re.search(r"give here: (\d+bops), counted by the widest formats for what several layers' formats decide \(1 node, the first makes 'z'\)", said)
    assert least
    report = json.loads(crumb(*chosen, "--target", least[1], "--json").stdout)["assignment"]
    assert report["used"] <= int(least[1].removesuffix("bops")) and (report["bound"] == 0 or report["loss"] == report["bound"])
    graph.node[4].CopyFrom(node("MatMul", ["t", "s"], ["z"], "prod"))  # of a value that no layer takes, and no quantizer makes
    graph.node.insert(4, node("Sin", ["x"], ["s"]))
    graph.node[3].CopyFrom(node("Softmax", ["r"], ["u"], axis=1))
    graph.node.insert(4, node("Transpose", ["u"], ["t"], perm=[0, 2, 1]))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    made = crumb(*base, "--target", "30acc", "--activation-formats", "uint8", "--exclude", "second")
    assert "node" in made.stdout and "add" in made.stdout and "no register, the first is " in made.stdout


def test_bits_of_a_graph(crumb, oracle, tmp_path):
    """The same sum for weights alone."""
    out = tmp_path / "out.crumb"
    base = ["quantize", oracle.model, "-o", out, "--formats", ",".join(WEIGHTS), "--sensitivity", "hessian", "--data", oracle.data]
    bytes_of = {}
    for w, spec in enumerate(WEIGHTS):
        report = json.loads(crumb("quantize", oracle.model, "--dry-run", "--weights", spec, "--json").stdout)
        for row in report["weights"]:
            if row["spec"]:
                bytes_of[row["name"].removesuffix(".weight"), w] = row["bits"] * np.prod(row["shape"])
    names = [name for group in Network.GROUPS for name in group]
    numbers = sum(layer.weight.numel() for layer in Network(0).layers().values())
    for target in (2.6, 4.5, 5.5, 8):
        said = json.loads(crumb(*base, "--target", f"{target}bpw", "--json").stdout)["assignment"]
        losses = [sum(oracle.weights[name, w]["hessian"] for name, w in zip(names, ws, strict=True))
                  for ws in itertools.product(range(len(WEIGHTS)), repeat=len(names))
                  if sum(bytes_of[name, w] for name, w in zip(names, ws, strict=True)) <= target * numbers * (1 + 1e-12)]  # fmt: skip
        assert said["loss"] == pytest.approx(min(losses), rel=1e-4)
        assert said["used"] <= target
    least = crumb(*base, "--target", "1bpw", status=2).stderr
    target = re.search(r"give here: ([0-9.]+bpw)", least)[1]
    crumb(*base, "--target", target)


def test_what_does_not_go_together_is_said(crumb, oracle, tmp_path):
    def refused(*flags, source=oracle.model):
        said = crumb("quantize", source, "-o", tmp_path / "no.crumb", *flags, status=2).stderr
        assert not list(tmp_path.glob("no.*"))
        return said

    data, formats = ["--data", oracle.data], ["--activation-formats", "uint4,uint8"]
    assert "give --target too" in refused("--weights", "int4", *formats)
    assert "measured on samples: give --data" in refused("--target", "1Mbops", *formats)
    assert "give --data" in refused("--target", "1Mbops", "--activations", "uint4")
    assert "measured on samples: give --data" in refused("--target", "1Mbops", "--sensitivity", "kl")
    assert "costs none of 3bpw" in refused("--target", "3bpw", *formats, *data)
    assert "the size of a file" in refused("--target", "3kB", *data)
    assert "stays float" in refused("--target", "16acc", *data)
    assert "format 2" in refused("--target", "16acc", "--activation-formats", "uint4,int4:group=8", *data)
    assert "has no register" in refused("--target", "16acc", "--formats", "nf4:channel,palette4:tensor", *formats, *data)
    assert "'first/Conv'" in refused("--target", "16acc", "--inputs", "keep", *formats, *data)
    nameless = onnx.load(oracle.model)
    for node in nameless.graph.node:
        node.name = ""
    onnx.save(nameless, tmp_path / "nameless.onnx")
    assert "has no register" in refused("--target", "16acc", "--inputs", "keep", *formats, *data, source=tmp_path / "nameless.onnx")
    assert "none of the formats fits" in crumb("quantize", oracle.model, "-o", tmp_path / "no.crumb", "--target", "1Mbops",
        "--formats", "int4:group=32", *formats, *data, status=1).stderr  # fmt: skip
    assert "nothing to choose" in refused("--target", "1Mbops", "--set", "*.weight=int8:channel", "--activations", "uint8", *data)
    assert "is no target" in refused("--target", "1Xbops", *data)
    for stage in ("split", "low_rank:rank=1", "outliers", "rotate:online=2"):
        said = refused("--target", "1Mbops", *formats, *data, "--stages", f"{stage},gptq")
        assert f"the stage {stage.split(':')[0]} adds numbers or products" in said
    assert "known architecture" in refused("--target", "1Mbops", "--tensors-only")
    least = re.search(r"give here: (\d+bops)", refused("--target", "9bops", "--formats", ",".join(WEIGHTS), *formats, *data))[1]
    crumb("quantize", oracle.model, "-o", tmp_path / "yes.crumb", "--target", least, "--formats", ",".join(WEIGHTS), *formats, *data)
    crumb("quantize", oracle.model, "-o", tmp_path / "yes.crumb", "--target", "20acc", "--inputs", "keep", "--exclude", "first",
          *formats, *data)  # fmt: skip


def test_a_decoder(crumb, tmp_path):
    """Queries, keys and values take the same; a table that is the head, too, keeps its own format."""
    pytest.importorskip("transformers")
    tiny = pytest.importorskip("tiny_decoders")
    tiny.make("llama_tied", tmp_path / "model")
    tiny.write_texts(tmp_path)
    data, shape = ["--data", tmp_path / "train.txt", "--tokens", 200], ["--shape", "input_ids=1x24"]
    base = ["quantize", tmp_path / "model", "-o", tmp_path / "out.crumb", "--activation-formats", "int4:token,int6:tensor,int8:token",
            "--sensitivity", "kl", *data]  # fmt: skip
    said = crumb(*base, "--target", "1Gbops", status=2).stderr
    assert "--shape input_ids=1x128" in said
    said = crumb(*base, "--target", "1kbops", *shape, status=2).stderr
    least = int(re.search(r"give here: (\d+)bops", said)[1])
    for target in (f"{least + 10000000}bops", "20acc"):
        report = json.loads(crumb(*base, "--target", target, *shape, "--json").stdout)
        nodes, total = costs(crumb, tmp_path / "out.crumb", *shape)
        used = report["assignment"]["used"]
        if target.endswith("bops"):
            assert least < used <= least + 10000000
            assert total == pytest.approx(used, rel=1e-12)
        else:
            assert max(bits for _, bits in nodes.values() if bits) == used <= 20
        weights = {row["name"]: row["spec"] for row in report["weights"]}
        assert weights["model.embed_tokens.weight"] == "int8:channel"
        edges = {edge["value"] for edge in report["activations"]}
        assert not any("embed" in value for value in edges)
        crumb("quantize", tmp_path / "model", "-o", tmp_path / "again.crumb", "--recipe", tmp_path / "out.recipe.yaml", *data)
        assert (tmp_path / "again.crumb").read_bytes() == (tmp_path / "out.crumb").read_bytes()
