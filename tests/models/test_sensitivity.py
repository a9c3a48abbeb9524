"""`crumb quantize --target --sensitivity hessian|kl --data`: what the choice loses is what transformers says of each matrix
rounded alone, and no exchange within the budget loses less."""

import itertools
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
tokenizers = pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")
FORMATS = ["int2h:group=16", "int3:group=16", "int6:group=16"]  # the first is the probe
TOKENS = 60


@pytest.fixture(scope="module")
def made(crumb, tmp_path_factory):
    """A decoder, the window of text that it is measured on, and its matrices in each of the formats."""
    work = tmp_path_factory.mktemp("sensitivity")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    tokenizer = tokenizers.Tokenizer.from_file(str(work / "model/tokenizer.json"))
    ids = tokenizer.encode((work / "train.txt").read_text(), add_special_tokens=False).ids[:TOKENS]
    plain, full = (tokenizer.encode("a", add_special_tokens=special).ids for special in (False, True))
    if len(full) > len(plain):
        ids = [full[0], *ids]
    matrices = {}
    for spec in FORMATS:
        crumb("quantize", work / "model", "-o", work / "one.crumb", "--weights", spec, "--embeddings", "keep")
        crumb("dequantize", work / "one.crumb", "-o", work / "one.safetensors")
        matrices[spec] = safetensors.load_file(work / "one.safetensors")
    network = tiny.load(work / "model").double()
    return work, network, torch.tensor([ids]), matrices


def linears(network):
    return {f"{name}.weight": module for name, module in network.named_modules() if isinstance(module, torch.nn.Linear)}


def output_losses(network, ids, matrices):
    """Squared error of each layer's outputs over their squares."""
    taken = {}
    hooks = [module.register_forward_pre_hook(lambda _, x, name=name: taken.__setitem__(name, x[0].detach()[0]))
             for name, module in linears(network).items()]  # fmt: skip
    with torch.no_grad():
        network(ids)
    for hook in hooks:
        hook.remove()
    losses = {}
    for name, module in linears(network).items():
        y = taken[name] @ module.weight.detach().T
        for spec in FORMATS:
            lost = taken[name] @ (torch.tensor(matrices[spec][name]).double() - module.weight.detach()).T
            losses[name, spec] = float(lost.pow(2).sum() / y.pow(2).sum())
    return losses


def prediction_losses(network, ids, matrices):
    """The divergence with each matrix alone in the probe, in proportion for other formats."""
    own = output_losses(network, ids, matrices)
    with torch.no_grad():
        floats = network(ids).logits[0].log_softmax(-1)
    half = len(floats) // 2
    losses = {}
    for name, module in linears(network).items():
        before = module.weight.data
        module.weight.data = torch.tensor(matrices[FORMATS[0]][name]).double()
        with torch.no_grad():
            found = network(ids).logits[0].log_softmax(-1)
        module.weight.data = before
        kl = float((floats.exp() * (floats - found)).sum(-1)[half:].mean())
        for spec in FORMATS:
            losses[name, spec] = kl / own[name, FORMATS[0]] * own[name, spec]
    return losses


@pytest.mark.parametrize(("sensitivity", "oracle"), [("hessian", output_losses), ("kl", prediction_losses)])
@pytest.mark.parametrize("target", [3.3, 4.1, 5.5])
def test_the_choice_loses_least(crumb, made, tmp_path, sensitivity, oracle, target):
    work, network, ids, matrices = made
    out = tmp_path / "out.crumb"
    done = crumb("quantize", work / "model", "-o", out, "--target", f"{target}bpw", "--sensitivity", sensitivity, "--formats",
                 ",".join(FORMATS), "--embeddings", "keep", "--data", work / "train.txt", "--tokens", TOKENS)  # fmt: skip
    said = float(re.search(r"which lose ([0-9.]+) in all", done.stdout)[1])
    losses = oracle(network, ids, matrices)
    # What was chosen, by the values that are in the file.
    crumb("dequantize", out, "-o", tmp_path / "out.safetensors")
    file = safetensors.load_file(tmp_path / "out.safetensors")
    chosen = {name: next(spec for spec in FORMATS if np.array_equal(file[name], matrices[spec][name])) for name in linears(network)}
    lost = sum(losses[one] for one in chosen.items())
    assert said == pytest.approx(lost, rel=1e-3, abs=1e-6)
    bits = {spec: float(re.search(r"int(\d)", spec)[1]) + 1 for spec in FORMATS}  # a float16 scale for 16
    size = {name: module.weight.numel() for name, module in linears(network).items()}
    cost = sum(size[name] * bits[spec] for name, spec in chosen.items())
    assert cost <= target * sum(size.values())
    for (a, b), (x, y) in itertools.product(itertools.combinations(chosen, 2), itertools.product(FORMATS, FORMATS)):
        other = cost + size[a] * (bits[x] - bits[chosen[a]]) + size[b] * (bits[y] - bits[chosen[b]])
        if other <= target * sum(size.values()):
            change = losses[a, x] + losses[b, y] - losses[a, chosen[a]] - losses[b, chosen[b]]
            assert change > -1e-4 * lost
    # The recipe beside it makes the same file.
    crumb("quantize", work / "model", "-o", tmp_path / "again.crumb", "--recipe", tmp_path / "out.recipe.yaml", "--data",
          work / "train.txt", "--tokens", TOKENS)  # fmt: skip
    again = tmp_path / "again.safetensors"
    crumb("dequantize", tmp_path / "again.crumb", "-o", again)
    assert all(np.array_equal(file[name], values) for name, values in safetensors.load_file(again).items())


def test_stages_go_on_with_what_was_chosen(crumb, made, tmp_path):
    work = made[0]
    how = ["--target", "3.5bpw", "--sensitivity", "kl", "--formats", ",".join(FORMATS), "--embeddings", "keep", "--data",
           work / "train.txt", "--tokens", 3000]  # fmt: skip
    found = {}
    for name, more in (("plain", []), ("gptq", ["--method", "gptq"])):
        crumb("quantize", work / "model", "-o", tmp_path / f"{name}.crumb", *how, *more)
        said = crumb("perplexity", tmp_path / f"{name}.crumb", "--text", work / "valid.txt", "--context", 24, "--baseline",
                     work / "model")  # fmt: skip
        found[name] = float(re.search(r"KL divergence +([0-9.]+)", said.stdout)[1])
    assert found["gptq"] < 0.8 * found["plain"]
    assert "stages:" in (tmp_path / "gptq.recipe.yaml").read_text()


def test_what_it_cannot_do_is_said(crumb, made, tmp_path):
    model = made[0] / "model"

    def refused(*flags):
        said = crumb("quantize", model, "-o", tmp_path / "no.crumb", *flags, status=2).stderr
        assert not list(tmp_path.glob("no*"))
        return said

    assert "--sensitivity kl is measured on samples: give --data" in refused("--target", "4bpw", "--sensitivity", "kl")
    assert "give --target too" in refused("--weights", "int4", "--sensitivity", "kl", "--data", made[0] / "train.txt")
    assert "error" in refused("--target", "4bpw", "--sensitivity", "taste")
