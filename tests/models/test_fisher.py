"""The stage fisher of `crumb quantize`: in every palette's codebook each value is the mean of its weights, weighed by the squared gradients
that PyTorch finds, of the text's next tokens or of results with drawn signs; other stages go on from it; what it cannot do is said."""

import json
import os

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")
helper = onnx.helper
pytestmark = pytest.mark.usefixtures("engine")

# A mean moves by the error of its weights' shares times how far numbers lie apart: float32 backward passes of a few layers are within
# 1e-5 of the largest squared gradient, and numbers within 2 (scales are 1).
BOUND = 1e-5
MASK = (1 << 64) - 1


def split_mix(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def signs(sample, draw, result, count):
    """As qat/optimize/squared_gradients.h has them."""
    before = split_mix(split_mix(split_mix(sample) ^ draw) ^ result)
    return torch.tensor([1.0 if split_mix(before ^ i) >> 63 == 0 else -1.0 for i in range(count)], dtype=torch.float64)


def off_means(found, weights, squares):
    """How far values of a codebook are from the weighed means of the weights that have them, of numbers over their scales. Rows are
    outputs, each with the scale that its largest number is 1 by."""
    scale = np.abs(weights).max(1, keepdims=True)
    levels, numbers, importance = found / scale, weights / scale, squares * scale**2
    order = np.argsort(levels, axis=None)
    cells = np.split(order, np.flatnonzero(np.diff(levels.ravel()[order]) > 1e-5) + 1)
    worst = 0
    for cell in cells:
        share = importance.ravel()[cell]
        if share.sum() > 1e-12 * importance.sum():
            worst = max(worst, abs(levels.ravel()[cell].mean() - (share * numbers.ravel()[cell]).sum() / share.sum()))
    return worst, len(cells)


def check(found, weights, squares, bits):
    """The codebook follows the squared gradients, and would be another without them."""
    off, size = off_means(found, weights, squares)
    assert off < BOUND and size <= 2**bits
    flat, _ = off_means(found, weights, np.ones_like(squares))
    assert flat > 10 * BOUND


class Drawn:
    """A network of products and convolutions in drawn order, as ONNX and as torch has it. Matrices lie as the operator wants them;
    `outputs`: the axis of each that outputs lie on."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.outputs, self.steps = [], {}, {}, []
        self.value, self.width = "x", 6
        self.is_image = seed % 2 == 1
        for _ in range(2 if self.is_image else 0):
            self.conv()
        if self.is_image and seed % 4 == 1:
            self.widening()
        if self.is_image:
            self.add("GlobalAveragePool", [], lambda w, x: x.mean((2, 3), keepdim=True))
            self.add("Flatten", [], lambda w, x: x.flatten(1))
        for kind in self.random.permutation(["matmul", "gemm", "turned", "shared"]):
            getattr(self, kind)()
            self.add("Tanh", [], lambda w, x: x.tanh())

    def weight(self, shape, axis):
        name = f"w{len(self.weights)}"
        # Neither even nor of one mean, so that a codebook has a choice.
        self.weights[name] = self.random.gumbel(size=shape).astype(np.float32)
        self.outputs[name] = axis
        return name

    def add(self, op, weights, step, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.value, *weights], [out], **attributes))
        self.steps.append(step)
        self.value = out

    def conv(self):
        groups, kernel, out = int(self.random.choice([1, 2])), int(self.random.choice([1, 3])), 2 * int(self.random.integers(2, 6))
        w = self.weight((out, self.width // groups, kernel, kernel), 0)
        self.add("Conv", [w], lambda all, x: torch.nn.functional.conv2d(x, all[w], groups=groups, padding=kernel // 2),
                 group=groups, pads=[kernel // 2] * 4)  # fmt: skip
        self.width = out

    def widening(self):
        w = self.weight((self.width, out := int(self.random.integers(3, 8)), 2, 2), 1)
        self.add("ConvTranspose", [w], lambda all, x: torch.nn.functional.conv_transpose2d(x, all[w], stride=2), strides=[2, 2])
        self.width = out

    def matmul(self):
        w = self.weight((self.width, out := int(self.random.integers(5, 12))), 1)
        self.add("MatMul", [w], lambda all, x: x @ all[w])
        self.width = out

    def gemm(self):
        w = self.weight((self.width, out := int(self.random.integers(5, 12))), 1)
        self.add("Gemm", [w], lambda all, x: x @ all[w])
        self.width = out

    def turned(self):
        w = self.weight((out := int(self.random.integers(5, 12)), self.width), 0)
        self.add("Gemm", [w], lambda all, x: x @ all[w].T, transB=1)
        self.width = out

    def shared(self):
        """One matrix in two layers."""
        w = self.weight((self.width, self.width), 1)
        for _ in range(2):
            self.add("MatMul", [w], lambda all, x: (x @ all[w]))
            self.add("Sigmoid", [], lambda all, x: x.sigmoid())

    def save(self, path):
        shape = ["n", 6, 5, 5] if self.is_image else ["n", 6]
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", 1, shape)],
            [helper.make_tensor_value_info(self.value, 1, ["n", self.width])],
            [onnx.numpy_helper.from_array(w, name) for name, w in self.weights.items()])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        return path

    def samples(self, count):
        return self.random.standard_normal((count, 6, 5, 5) if self.is_image else (count, 6)).astype(np.float32)

    def squares(self, samples, draws, at_once=1):
        """Of each matrix: the sum over batches of squared gradients."""
        weights = {name: torch.tensor(w, dtype=torch.float64, requires_grad=True) for name, w in self.weights.items()}
        sums = {name: np.zeros(w.shape) for name, w in self.weights.items()}
        for i, batch in enumerate(samples.reshape(-1, at_once, *samples.shape[1:])):
            x = torch.tensor(batch, dtype=torch.float64)
            for step in self.steps:
                x = step(weights, x)
            for draw in range(draws):
                loss = (x.flatten() * signs(i, draw, 0, x.numel())).sum()
                for name, found in zip(weights, torch.autograd.grad(loss, list(weights.values()), retain_graph=True), strict=True):
                    sums[name] += found.numpy() ** 2 / draws
        return sums

    def rows(self, name, values):
        return np.moveaxis(values, self.outputs[name], 0).reshape(values.shape[self.outputs[name]], -1)


def constants_of(crumb, model, folder):
    """Of a packed graph, in floats."""
    crumb("export", model, "--to", "float", "-o", folder / "floats.onnx")
    return {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(folder / "floats.onnx").graph.initializer}


@pytest.mark.parametrize("seed", range(8))
def test_palettes_of_graphs_follow_gradients(crumb, tmp_path, seed):
    drawn, draws = Drawn(seed), 1 + seed % 3
    samples = drawn.samples(40)
    np.save(tmp_path / "x.npy", samples)
    report = crumb("quantize", drawn.save(tmp_path / "x.onnx"), "-o", tmp_path / "x.crumb", "--weights", "palette2:channel", "--data",
        tmp_path / "x.npy", "--stages", f"fisher:draws={draws}", "--json")  # fmt: skip
    assert [layer["layer"] for layer in json.loads(report.stdout)["stages"][0]["layers"]] == sorted(drawn.weights)
    found, squares = constants_of(crumb, tmp_path / "x.crumb", tmp_path), drawn.squares(samples, draws)
    for name, weights in drawn.weights.items():
        check(*(drawn.rows(name, values.astype(np.float64)) for values in (found[name], weights, squares[name])), bits=2)


def test_recurrent_layers_have_gradients_of_all_their_steps(crumb, tmp_path):
    """Samples lie along axis 1, so that all of them are one batch."""
    random, inputs, states = np.random.default_rng(3), 5, 6
    weights = {name: random.gumbel(size=(1, 4 * states, count)).astype(np.float32) / 2 for name, count in (("W", inputs), ("R", states))}
    x = random.standard_normal((7, 3, inputs)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    graph = helper.make_graph([helper.make_node("LSTM", ["x", "W", "R"], ["", "y"], hidden_size=states)], "g",
        [helper.make_tensor_value_info("x", 1, [7, "n", inputs])], [helper.make_tensor_value_info("y", 1, [1, "n", states])],
        [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "x.onnx")
    crumb("quantize", tmp_path / "x.onnx", "-o", tmp_path / "x.crumb", "--weights", "palette2:channel", "--data", tmp_path / "x.npy", "--stages", "fisher")
    found = constants_of(crumb, tmp_path / "x.crumb", tmp_path)
    w, r = (torch.tensor(weights[name][0], dtype=torch.float64, requires_grad=True) for name in "WR")
    h = c = torch.zeros(3, states, dtype=torch.float64)
    for step in torch.tensor(x, dtype=torch.float64):
        i, o, f, g = (step @ w.T + h @ r.T).chunk(4, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    gradients = torch.autograd.grad((h.flatten() * signs(0, 0, 0, h.numel())).sum(), [w, r])
    for name, gradient in zip("WR", gradients, strict=True):
        check(found[name][0].astype(np.float64), weights[name][0].astype(np.float64), gradient.numpy() ** 2, bits=2)


def test_batches_that_a_graph_fixes_go_through_whole(crumb, tmp_path):
    """Then the loss is of all of a batch's samples, and signs are drawn for each."""
    drawn = Drawn(2)
    samples = drawn.samples(24)
    np.save(tmp_path / "x.npy", samples)
    model = onnx.load(drawn.save(tmp_path / "x.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, tmp_path / "x.onnx")
    crumb("quantize", tmp_path / "x.onnx", "-o", tmp_path / "x.crumb", "--weights", "palette2:channel", "--data", tmp_path / "x.npy", "--stages", "fisher")
    found, squares = constants_of(crumb, tmp_path / "x.crumb", tmp_path), drawn.squares(samples, 1, at_once=4)
    for name, weights in drawn.weights.items():
        check(*(drawn.rows(name, values.astype(np.float64)) for values in (found[name], weights, squares[name])), bits=2)


class Decoder:
    """A tiny decoder's folder, its texts, and what transformers makes of it."""

    def __init__(self, name, work):
        tiny = pytest.importorskip("tiny_decoders")
        tokenizers = pytest.importorskip("tokenizers")
        self.folder = work / name
        tiny.make(name, self.folder)
        tiny.write_texts(work)
        self.text, self.valid, self.network = work / "train.txt", work / "valid.txt", tiny.load(self.folder).double()
        tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.ids = tokenizer.encode(self.text.read_text(), add_special_tokens=False).ids
        plain, full = (tokenizer.encode("a", add_special_tokens=special).ids for special in (False, True))
        self.first = full[:1] if len(full) > len(plain) else []

    def windows(self, tokens):
        """As calibration cuts a text: 128 positions are fewer than its usual window."""
        step = 128 - len(self.first)
        return [[*self.first, *self.ids[begin : min(begin + step, tokens)]] for begin in range(0, tokens, step)]

    def squares(self, tokens):
        """Of each parameter by its name: the sum over windows of the squared gradient of the sum of what next tokens cost."""
        parameters = dict(self.network.named_parameters())
        sums = {name: np.zeros(tuple(one.shape)) for name, one in parameters.items()}
        for window in self.windows(tokens):
            ids = torch.tensor([window])
            logits = self.network(ids).logits[0]
            loss = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum")
            for name, found in zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True):
                sums[name] += found.numpy() ** 2
        return {name: (parameters[name].detach().numpy(), sums[name]) for name in parameters}

    def quantize(self, crumb, out, *flags, weights="palette3:channel", embeddings="keep"):
        done = crumb("quantize", self.folder, "-o", out, "--weights", weights, "--embeddings", embeddings, "--json", *flags)
        return json.loads(done.stdout)

    def floats(self, crumb, model, folder):
        """A packed file's tensors."""
        crumb("dequantize", model, "-o", folder / f"{model.stem}.safetensors")
        return safetensors.load_file(folder / f"{model.stem}.safetensors")

    def divergence(self, crumb, model):
        said = crumb("perplexity", model, "--text", self.valid, "--context", 24, "--baseline", self.folder, "--json")
        return json.loads(said.stdout)["kl_mean"]


    def train(self, steps):
        """From here on the folder has a network whose loss is near a minimum, as gradients' squares want it."""
        torch.manual_seed(1)
        learner = torch.optim.Adam(self.network.parameters(), 3e-3)
        ids = torch.tensor(self.ids)
        for _ in range(steps):
            batch = torch.stack([ids[begin : begin + 32] for begin in torch.randint(len(ids) - 32, (8,)).tolist()])
            learner.zero_grad()
            self.network(batch, labels=batch).loss.backward()
            learner.step()
        safetensors.save_file({name: one.detach().float().numpy() for name, one in self.network.named_parameters()},
            self.folder / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
        return self


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return Decoder("llama3", tmp_path_factory.mktemp("fisher")).train(steps=200)


@pytest.mark.parametrize(("name", "embeddings"), [("llama3", "keep"), ("llama_tied", "palette4:channel")])
def test_palettes_of_decoders_follow_the_texts_next_tokens(crumb, tmp_path, name, embeddings):
    """A table that is the head, too, has the gradients of both. The report says what they make of it."""
    decoder = Decoder(name, tmp_path)
    decoder.quantize(crumb, tmp_path / "r.crumb", embeddings=embeddings)
    report = decoder.quantize(crumb, tmp_path / "x.crumb", "--stages", "fisher", "--data", decoder.text, "--tokens", 500, embeddings=embeddings)
    rounded, found = (decoder.floats(crumb, tmp_path / f"{one}.crumb", tmp_path) for one in "rx")
    squares = decoder.squares(500)
    layers = report["stages"][0]["layers"]
    assert len(layers) == 3 * 7 + 1
    for layer in layers:
        key = layer["layer"]
        weights, importance = squares[key]
        check(found[key].astype(np.float64), weights, importance, bits=4 if "embed" in key else 3)
        for values, said in ((rounded[key], layer["before"]), (found[key], layer["after"])):
            lost = (importance * (values - weights) ** 2).sum() / (importance * weights**2).sum()
            assert said == pytest.approx(lost, rel=1e-4)  # of squared gradients in float32
        assert layer["after"] < layer["before"]


def test_of_one_layer_it_is_clip(crumb, tmp_path):
    """Whose weights count by the squares of inputs: so do they by gradients of outputs, whatever the signs. It helps where inputs differ."""
    random = np.random.default_rng(7)
    w = random.standard_normal((40, 24)).astype(np.float32)
    x = (random.standard_normal((60, 40)) * np.exp(1.5 * random.standard_normal(40))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["n", 40])],
        [helper.make_tensor_value_info("y", 1, ["n", 24])], [onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "x.onnx")
    found = {}
    for stage in ("", "clip", "fisher"):
        flags = ["--stages", stage, "--data", tmp_path / "x.npy"] if stage else []
        crumb("quantize", tmp_path / "x.onnx", "-o", tmp_path / "x.crumb", "--weights", "palette3:channel", *flags)
        found[stage] = constants_of(crumb, tmp_path / "x.crumb", tmp_path)["w"]
    assert np.abs(found["fisher"] - found["clip"]).max() < BOUND * np.abs(w).max()
    lost = {stage: np.square(x @ (values - w)).sum() for stage, values in found.items()}
    assert lost["fisher"] < 0.8 * lost[""]


def test_gptq_goes_on_under_its_codebook(crumb, llama, tmp_path):
    for name, stages in (("fisher", "fisher"), ("both", "fisher,gptq")):
        report = llama.quantize(crumb, tmp_path / f"{name}.crumb", "--stages", stages, "--data", llama.text, "--tokens", 1500)
    assert all(layer["after"] < layer["before"] for layer in report["stages"][1]["layers"])
    assert llama.divergence(crumb, tmp_path / "both.crumb") < 0.5 * llama.divergence(crumb, tmp_path / "fisher.crumb")
    first, then = (llama.floats(crumb, tmp_path / f"{name}.crumb", tmp_path) for name in ("fisher", "both"))
    for key, weights in llama.network.named_parameters():
        if not key.endswith("proj.weight"):
            continue
        scale = weights.detach().abs().amax(1, keepdim=True).numpy()
        codebook, used = (np.unique((values[key] / scale).astype(np.float32)) for values in (first, then))
        assert np.abs(used[:, None] - codebook).min(1).max() < 1e-6 and (first[key] != then[key]).any()


def test_numbers_beside_codes_go_first(crumb, llama, tmp_path):
    """SqueezeLLM's dense and sparse."""
    text = ["--data", llama.text, "--tokens", 1500]
    llama.quantize(crumb, tmp_path / "dense.crumb", "--stages", "fisher", *text)
    llama.quantize(crumb, tmp_path / "both.crumb", "--stages", "outliers:share=0.03,fisher", *text)
    assert llama.divergence(crumb, tmp_path / "both.crumb") < 0.9 * llama.divergence(crumb, tmp_path / "dense.crumb")


def test_same_bytes_on_every_run(crumb, llama, tmp_path):
    for name, threads in (("one", 1), ("two", 2), ("again", 1)):
        llama.quantize(crumb, tmp_path / f"{name}.crumb", "--stages", "fisher,gptq", "--data", llama.text, "--tokens", 300, "--threads", threads)
    one = (tmp_path / "one.crumb").read_bytes()
    assert all((tmp_path / f"{name}.crumb").read_bytes() == one for name in ("two", "again"))


def test_what_no_gradient_reaches_keeps_rounding(crumb, tmp_path):
    """A product whose sign alone goes on."""
    random = np.random.default_rng(5)
    weights = {name: random.standard_normal((6, 6)).astype(np.float32) for name in "ab"}
    nodes = [helper.make_node("MatMul", ["x", "a"], ["u"]), helper.make_node("Sign", ["u"], ["s"]),
             helper.make_node("MatMul", ["s", "b"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 6])], [helper.make_tensor_value_info("y", 1, ["n", 6])],
        [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "x.onnx")
    np.save(tmp_path / "x.npy", random.standard_normal((20, 6)).astype(np.float32))
    how = ["quantize", tmp_path / "x.onnx", "--weights", "palette2", "--data", tmp_path / "x.npy"]
    said = json.loads(crumb(*how, "-o", tmp_path / "x.crumb", "--stages", "fisher", "--json").stdout)["stages"][0]
    assert said["notes"] == ["a: no gradient reaches it, and rounding stays"] and [layer["layer"] for layer in said["layers"]] == ["b"]
    crumb("quantize", tmp_path / "x.onnx", "--weights", "palette2", "-o", tmp_path / "r.crumb")
    rounded, found = (constants_of(crumb, tmp_path / name, tmp_path) for name in ("r.crumb", "x.crumb"))
    assert (rounded["a"] == found["a"]).all() and (rounded["b"] != found["b"]).any()


def test_what_it_cannot_do_is_said(crumb, llama, tmp_path):
    out, text = tmp_path / "x.crumb", ["--data", llama.text, "--tokens", 100]

    def refused(*flags, status):
        return crumb("quantize", llama.folder, "-o", out, *flags, status=status).stderr

    assert "the stage fisher needs samples" in refused("--weights", "palette3", "--stages", "fisher", status=2)
    assert "finds no palette (palette1 to palette8) that has no codes yet, found int4:channel for 'lm_head.weight'" in refused(
        "--weights", "int4", "--embeddings", "keep", "--stages", "fisher", *text, status=1)  # fmt: skip
    assert "has no codes yet" in refused("--weights", "palette3", "--embeddings", "keep", "--stages", "fisher,fisher", *text, status=1)
    said = crumb("quantize", llama.folder, "-o", out, "--weights", "palette3", "--embeddings", "int8:channel", "--stages", "fisher", *text)
    assert "1 constant of other specs keeps rounding" in said.stdout


def test_without_libtorch_it_says_what_is_missing(crumb, llama, tmp_path):
    said = crumb("quantize", llama.folder, "-o", tmp_path / "x.crumb", "--weights", "palette3", "--stages", "fisher", "--data", llama.text,
        "--tokens", 100, status=1, env={**os.environ, "CRUMB_ENGINE": str(tmp_path / "none.so")}).stderr  # fmt: skip
    assert "need LibTorch, and libcrumb_engine.so cannot be opened" in said
