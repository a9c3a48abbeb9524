"""Folders of the `peft` package: what it saves is read as it computes it, and what Crumb writes it loads to the same."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
sys.path.insert(0, str(Path(__file__).resolve().parent))
import peft_models as models  # noqa: E402


def loaded(base, folder):
    """As PEFT loads it, without a word of missing or unknown keys."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = peft.PeftModel.from_pretrained(base, folder).eval()
    assert not [str(w.message) for w in said if "keys" in str(w.message)]
    return model


def check_answer(answer, path, want):
    assert "error" not in answer, answer
    floats = safetensors_numpy.load_file(path)
    assert {u["module"] for u in answer["updates"]} == set(want)
    for update in answer["updates"]:
        scale, down, up = want[update["module"]]
        assert np.float32(update["scale"]) == scale, update
        assert (update["rank"], update["in"], update["out"]) == (*down.shape, len(up))
        for found, meant in ((floats[f"{update['module']}.down"], down), (floats[f"{update['module']}.up"], up)):
            assert found.shape == meant.shape and (found.view("u4") == meant.view("u4")).all()


def test_what_peft_saves_is_what_it_computes_and_back(adapter_cases, tmp_path):
    rng = np.random.default_rng(1)
    cases, wanted = [], []
    for i in range(250):
        folder = tmp_path / f"in{i}"
        dtype = [torch.float32, torch.float16, torch.bfloat16][i % 3]
        model = models.adapted(models.Net(i).to(dtype), models.drawn_config(rng))
        models.save(model, folder)
        models.shuffle_patterns(rng, folder)
        try:  # another order of patterns may give other ranks
            model = peft.PeftModel.from_pretrained(models.Net(i), folder, autocast_adapter_dtype=False).eval()
        except RuntimeError:
            assert "size mismatch" in str(sys.exc_info()[1])
            cases.append({"in": folder})
            wanted.append(None)
            continue
        name = ["F32", "F16", "BF16"][i % 3]
        cases.append({"in": folder, "as": "floats", "out": tmp_path / f"f{i}"})
        cases.append({"in": folder, "as": "peft", "out": tmp_path / f"out{i}", "dtype": name, "base": "some/model",
                      "task": ""})  # fmt: skip
        wanted += [(i, model), (i, model)]
    answers = adapter_cases(cases)
    compared = 0
    for case, answer, want in zip(cases, answers, wanted, strict=True):
        if want is None:
            assert "has rank" in answer["error"]
            continue
        i, model = want
        if case["as"] == "floats":
            check_answer(answer, case["out"], models.updates(model))
            continue
        back = loaded(models.Net(i), case["out"])
        assert back.peft_config["default"].base_model_name_or_path == "some/model"
        found, meant = models.updates(back), models.updates(model)
        assert found.keys() == meant.keys()
        for module in meant:
            assert all(np.array_equal(a, b) for a, b in zip(found[module], meant[module], strict=True)), module
        x = torch.randn(3, 5)
        assert torch.equal(back(x), model.float()(x))
        compared += 1
    assert compared > 150
    assert sum(want is None for want in wanted) > 5


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "gemma3_text", "phi3", "olmo2", "smollm3", "mistral"])
def test_a_decoder_with_what_is_written_gives_the_same_logits(adapter_cases, kind, tmp_path):
    rng = np.random.default_rng(2)
    config = peft.LoraConfig(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear", init_lora_weights=False,
                             rank_pattern={"down_proj": 2, r"layers.0.*o_proj": 4}, alpha_pattern={"o_proj": 1.5})  # fmt: skip
    model = models.adapted(models.tiny(kind), config)
    (answer,) = adapter_cases([{"in": models.save(model, tmp_path / "in"), "as": "peft", "out": tmp_path / "out"}])
    assert answer["updates"] and {u["rank"] for u in answer["updates"]} == {2, 3, 4}
    ids = torch.tensor(rng.integers(0, 64, (2, 9)))
    with torch.no_grad():
        base = models.tiny(kind)(ids).logits
        want, got = model(ids).logits, loaded(models.tiny(kind), tmp_path / "out")(ids).logits
        merged = peft.PeftModel.from_pretrained(models.tiny(kind), tmp_path / "out").merge_and_unload()(ids).logits
    assert (want - base).abs().max() > 1e-3
    assert torch.equal(want, got)
    assert torch.allclose(want, merged, atol=1e-4)


LINEAR = ["q_proj", "v_proj"]
REFUSED = {
    "dora": (dict(use_dora=True), '"use_dora" is true'),
    "bias": (dict(bias="lora_only"), "\"bias\" is 'lora_only'"),
    "lora_bias": (dict(lora_bias=True), '"lora_bias" is true'),
    "saved_modules": (dict(modules_to_save=["lm_head"]), '"modules_to_save" is ["lm_head"]'),
    "tokens": (dict(trainable_token_indices=[1, 2]), '"trainable_token_indices" is [1,2]'),
    "alora": (dict(alora_invocation_tokens=[3], task_type="CAUSAL_LM"), '"alora_invocation_tokens" is [3]'),
    "replication": (dict(layer_replication=[[0, 2], [1, 2]]), '"layer_replication" is [[0,2],[1,2]]'),
    "embedding": (dict(target_modules=["embed_tokens", "q_proj"]), "embed_tokens"),
    "pissa": (dict(init_lora_weights="pissa"), '"init_lora_weights" is "pissa"'),
    "olora": (dict(init_lora_weights="olora"), '"init_lora_weights" is "olora"'),
    "velora": (dict(velora_config=lambda: peft.tuners.lora.VeloraConfig(num_groups=4)), '"velora_config" is {'),
    "monteclora": (dict(monteclora_config=lambda: peft.MontecloraConfig()), '"monteclora_config" is {'),
    "kasa": (dict(kasa_config=lambda: peft.tuners.lora.KasaConfig()), '"kasa_config" is {'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plain_lora_is_refused_by_name(adapter_cases, name, tmp_path):
    options, message = REFUSED[name]
    options = {key: value() if callable(value) else value for key, value in options.items()}
    config = peft.LoraConfig(**{"r": 2, "target_modules": LINEAR, **options})
    base = models.tiny("qwen2" if name == "bias" else "llama")  # whose layers have biases
    models.save(models.adapted(base, config), tmp_path / "a")
    (answer,) = adapter_cases([{"in": tmp_path / "a"}])
    assert message in answer["error"] and str(tmp_path / "a") in answer["error"]
    # The tensors alone say it, too, but where nothing else is saved.
    path = tmp_path / "a" / "adapter_config.json"
    path.write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    (answer,) = adapter_cases([{"in": tmp_path / "a"}])
    assert ("error" in answer) == (name not in ("alora", "replication", "pissa", "olora")), answer


@pytest.mark.parametrize("kind", ["AdaLoraConfig", "LoHaConfig", "IA3Config", "VeraConfig"])
def test_other_kinds_of_adapters_are_refused_by_name(adapter_cases, kind, tmp_path):
    options = {"target_modules": ["q_proj"]}
    if kind == "AdaLoraConfig":
        options["total_step"] = 10
    if kind == "IA3Config":
        options["feedforward_modules"] = []
    config = getattr(peft, kind)(**options)
    models.save(models.adapted(models.tiny("llama"), config), tmp_path / "a")
    (answer,) = adapter_cases([{"in": tmp_path / "a"}])
    assert f"\"peft_type\" is '{config.peft_type.value}', expected 'LORA'" in answer["error"]


def test_transposed_matrices_are_refused_by_name(adapter_cases, tmp_path):
    import transformers

    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=16, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    models.save(models.adapted(model, peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)), tmp_path / "a")
    (answer,) = adapter_cases([{"in": tmp_path / "a"}])
    assert '"fan_in_fan_out" is true' in answer["error"]


@pytest.mark.parametrize("how", ["gaussian", "eva", "orthogonal", "mica", True])
def test_initializations_that_leave_the_base_alone_are_read(adapter_cases, how, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = peft.LoraConfig(r=2, target_modules=LINEAR, init_lora_weights=how)
        model = models.adapted(models.tiny("llama"), config)
    before = {name: value.clone() for name, value in models.tiny("llama").state_dict().items()}
    for name, value in model.get_base_model().state_dict().items():
        if "lora_" not in name:
            assert torch.equal(value, before[name.replace(".base_layer", "")]), name
    models.save(model, tmp_path / "a")
    (answer,) = adapter_cases([{"in": tmp_path / "a", "as": "floats", "out": tmp_path / "f"}])
    check_answer(answer, tmp_path / "f", models.updates(model))


def test_fields_of_the_package_are_all_known(adapter_cases, tmp_path):
    """Each field of LoraConfig, set to something, is read, of no matter, or refused by what it means: none is unknown."""
    import dataclasses

    models.save(models.adapted(models.Net(0), peft.LoraConfig(r=2, target_modules=["q"])), tmp_path / "a")
    path = tmp_path / "a" / "adapter_config.json"
    sound = json.loads(path.read_text())
    names = {field.name for field in dataclasses.fields(peft.LoraConfig)}
    assert set(sound) - names <= {"auto_mapping", "peft_version"}
    for name in sorted(names | set(sound)):
        path.write_text(json.dumps({**sound, name: [1]}))
        (answer,) = adapter_cases([{"in": tmp_path / "a"}])
        assert "does not know" not in answer.get("error", ""), answer
