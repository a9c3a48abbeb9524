"""Decoders whose tensors have what training, compiling and sharding put around their names: to the byte the same model."""

import json
import random
import shutil

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
from safetensors.torch import load_file, save_file  # noqa: E402

FRONTS = ("_orig_mod.", "module.", "base_model.model.", "language_model.", "_fsdp_wrapped_module.")
HIDDEN = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(name) -> the folder of a tiny decoder."""
    known = {}

    def make(name):
        if name not in known:
            folder = known[name] = tmp_path_factory.mktemp(name)
            tiny.make(name, folder)
            for file in folder.glob("*.npy"):
                file.unlink()
        return known[name]

    return make


def without_model(name):
    return name.removeprefix("model.")


def in_language_model(name):
    return "model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name


def hidden(generator):
    """Puts a wrapper between any two parts behind the first layer's name, as wrapping a part of the network does."""
    chosen = generator.choice(HIDDEN)

    def rename(name):
        words = name.split(".")
        if words[:2] == ["model", "layers"]:
            words.insert(3, chosen)
        return ".".join(words)

    return rename


def renamings(name):
    """What saving made of the names, each by itself and some together, drawn."""
    generator = random.Random(name)
    yield "without model", without_model
    yield "model.language_model", in_language_model
    yield "wrapped layers", hidden(generator)
    for front in FRONTS:
        yield front, lambda tensor, front=front: front + tensor
    for _ in range(2):
        fronts = "".join(generator.choices(FRONTS, k=generator.randint(2, 3)))
        inner = generator.choice([without_model, in_language_model, hidden(generator)])
        yield f"{fronts} drawn", lambda tensor, fronts=fronts, inner=inner: fronts + inner(tensor)


def renamed(folder, target, rename, torch_file=False):
    shutil.copytree(folder, target)
    tensors = {rename(name): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    if torch_file:
        (target / "model.safetensors").unlink()
        tiny.torch.save(tensors, target / "pytorch_model.bin")
    else:
        save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_names_that_saving_changed_are_the_decoders(crumb, made, tmp_path, name):
    folder = made(name)
    crumb("quantize", folder, "-o", tmp_path / "meant.crumb", "--weights", "int8:channel")
    meant = (tmp_path / "meant.crumb").read_bytes()
    for number, (what, rename) in enumerate(renamings(name)):
        other = renamed(folder, tmp_path / f"{number}", rename, torch_file=number % 3 == 1)
        assert set(load_file(folder / "model.safetensors")) != {rename(n) for n in load_file(folder / "model.safetensors")}, what
        crumb("quantize", other, "-o", tmp_path / f"{number}.crumb", "--weights", "int8:channel")
        assert (tmp_path / f"{number}.crumb").read_bytes() == meant, what


def test_they_run_and_leave_under_the_decoders_names(crumb, made, tmp_path):
    folder = made("qwen3")
    other = renamed(folder, tmp_path / "other", without_model)
    answers = [crumb("generate", path, "--prompt", "then", "--tokens", "8").stdout for path in (folder, other)]
    assert answers[0] == answers[1]
    crumb("quantize", other, "-o", tmp_path / "x.crumb", "--weights", "int8:channel", "--exclude", "*")
    crumb("export", tmp_path / "x.crumb", "-o", tmp_path / "hf", "--to", "hf")
    assert set(load_file(tmp_path / "hf" / "model.safetensors")) == set(load_file(folder / "model.safetensors"))
    ids = tiny.tokens("qwen3")
    assert (tiny.prefill(tiny.load(tmp_path / "hf"), ids) == tiny.prefill(tiny.load(folder), ids)).all()


def test_two_tensors_of_one_name_are_refused(crumb, made, tmp_path):
    folder = made("llama")
    other = renamed(folder, tmp_path / "other", lambda name: name)
    tensors = load_file(folder / "model.safetensors")
    twice = "module.model.layers.1.mlp.up_proj.weight"
    save_file({**tensors, twice: tensors[twice.removeprefix("module.")] + 1}, other / "model.safetensors")
    said = crumb("quantize", other, "-o", tmp_path / "x.crumb", "--weights", "int8:channel", status=1).stderr
    assert f"'{twice.removeprefix('module.')}' and '{twice}' are both" in said and str(other) in said


def test_tensors_of_other_networks_keep_their_names(crumb, tmp_path):
    """Of a configuration that says no decoder, and of a file without one."""
    names = {"module.layers.0.weight", "module.embed_tokens.weight", "_orig_mod.lm_head.weight"}
    tensors = {name: tiny.torch.ones(4, 4) for name in names}
    for config in ({"model_type": "vit"}, None):
        folder = tmp_path / ("folder" if config else "alone")
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
        if config:
            (folder / "config.json").write_text(json.dumps(config))
        shown = crumb("inspect", folder if config else folder / "model.safetensors", "--json").stdout
        assert names == {tensor["name"] for tensor in json.loads(shown)["tensors"]}
