"""llama.cpp's adapters: what Crumb writes is what llama.cpp's converter makes, read by the `gguf` package; what that
package writes, and a file of the converter itself, is read as PEFT computes it."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "gguf")]
import llama_cpp_conversion as conversion  # noqa: E402
import peft_models as models  # noqa: E402
from test_peft import check_answer  # noqa: E402

FIXTURES = HERE.parents[1] / "fixtures" / "adapters"
KINDS = ["llama", "mistral", "qwen2", "qwen3", "gemma3_text", "phi3", "olmo2", "smollm3"]
HEADS = {"qwen3": 8, "gemma3_text": 8}  # elements of a head


def architecture(kind):
    return "llama" if kind == "mistral" else conversion.ARCHITECTURES.get(kind, kind)


def llama_name(kind, module):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture(kind).upper()], 2)
    return names.get_name(module) + ".weight"


def rows(kind, module, up):
    """A second matrix as the converter lays it out."""
    if architecture(kind) not in conversion.INTERLEAVED or not module.endswith(("q_proj", "k_proj")):
        return up
    return conversion.interleave(up, len(up) // HEADS.get(kind, 4))


def model_of(kind, tmp_path, **options):
    config = peft.LoraConfig(r=3, target_modules="all-linear", init_lora_weights=False, **{"lora_alpha": 6, **options})
    model = models.adapted(models.tiny(kind), config)
    models.save(model, tmp_path / "in")
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_what_is_written_is_what_the_converter_makes(adapter_cases, kind, dtype, tmp_path):
    model = model_of(kind, tmp_path)
    path, head = tmp_path / "a.gguf", HEADS.get(kind, 4)
    (answer,) = adapter_cases([{"in": tmp_path / "in", "as": "gguf", "out": path, "dtype": dtype, "model_type": kind,
                                "head_size": head, "base": "a/base"}])  # fmt: skip
    assert "error" not in answer, answer
    reader = gguf.GGUFReader(path)
    said = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert said == {
        "general.architecture": architecture(kind),
        "general.type": "adapter",
        "general.file_type": {"F32": 0, "F16": 1, "BF16": 32}[dtype],
        "general.base_model.count": 1,
        "general.base_model.0.name": "a/base",
        "adapter.type": "lora",
        "adapter.lora.alpha": 6,
        f"{architecture(kind)}.attention.key_length": head,
    }
    assert reader.fields["adapter.lora.alpha"].types == [gguf.GGUFValueType.FLOAT32]
    wanted = {}
    for module, (_, down, up) in models.updates(model).items():
        wanted[llama_name(kind, module) + ".lora_a"] = down
        wanted[llama_name(kind, module) + ".lora_b"] = rows(kind, module, up)
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        assert tensor.tensor_type.name == dtype
        assert list(tensor.shape) == list(wanted[name].shape[::-1])
        meant = torch.from_numpy(np.ascontiguousarray(wanted[name])).to(getattr(torch, {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype]))
        assert tensor.data.tobytes() == meant.view(torch.uint8).numpy().tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_package_writes_is_read(adapter_cases, kind, tmp_path):
    model = model_of(kind, tmp_path)
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, architecture(kind))  # as convert_lora_to_gguf.py
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 6)
    writer.add_base_model_count(1)
    writer.add_base_model_name(0, "Base")
    for module, (_, down, up) in models.updates(model).items():
        writer.add_tensor(llama_name(kind, module) + ".lora_a", down)
        writer.add_tensor(llama_name(kind, module) + ".lora_b", np.ascontiguousarray(rows(kind, module, up)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    case = {"in": path, "as": "floats", "out": tmp_path / "f"}
    with_head, without = adapter_cases([{**case, "head_size": HEADS.get(kind, 4)}, {**case, "out": tmp_path / "g"}])
    assert with_head["base"] == "Base"
    check_answer(with_head, tmp_path / "f", models.updates(model))
    assert ("error" in without) == (architecture(kind) in conversion.INTERLEAVED)


def test_scales_that_differ_go_into_the_second_matrix(adapter_cases, tmp_path):
    model = model_of("llama", tmp_path, use_rslora=True, alpha_pattern={"q_proj": 1.5, "down_proj": 0, r"layers.1.*up_proj": -2.25},
                     rank_pattern={"k_proj": 4})  # fmt: skip
    path = tmp_path / "a.gguf"
    case = {"in": tmp_path / "in", "as": "gguf", "out": path, "model_type": "llama", "head_size": 4}
    back = {"in": path, "as": "floats", "out": tmp_path / "f"}
    written, read = adapter_cases([case, back])
    assert "error" not in written and "error" not in read
    alpha = gguf.GGUFReader(path).fields["adapter.lora.alpha"].contents()
    floats = safetensors_numpy.load_file(tmp_path / "f")
    same = 0
    for update in read["updates"]:
        scale, down, up = models.updates(model)[update["module"]]
        assert np.float32(update["scale"]) == np.float32(alpha) / np.float32(len(down))
        assert np.array_equal(floats[update["module"] + ".down"], down)
        got = floats[update["module"] + ".up"].astype("f8") * update["scale"]
        assert np.allclose(got, up.astype("f8") * float(scale), rtol=2e-7, atol=0)
        same += np.array_equal(floats[update["module"] + ".up"], up)
    assert same == 7  # v_proj, o_proj, gate_proj of both layers, up_proj of the first


def test_blocks_are_read(adapter_cases, tmp_path):
    rng = np.random.default_rng(3)
    down, up = rng.normal(size=(32, 64)).astype("f4"), rng.normal(size=(16, 32)).astype("f4")
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    kind = gguf.GGMLQuantizationType.Q8_0
    coded = [gguf.quants.quantize(x, kind) for x in (down, up)]
    for end, data in zip("ab", coded, strict=True):
        writer.add_tensor(f"blk.1.ffn_down.weight.lora_{end}", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (answer,) = adapter_cases([{"in": path, "as": "floats", "out": tmp_path / "f"}])
    down, up = (gguf.quants.dequantize(data, kind) for data in coded)
    check_answer(answer, tmp_path / "f", {"model.layers.1.mlp.down_proj": (np.float32(1), down, up)})


def test_a_file_of_the_converter_is_the_folder_that_it_was_made_from(adapter_cases, tmp_path):
    cases = [{"in": FIXTURES / "peft", "as": "floats", "out": tmp_path / "a"},
             {"in": FIXTURES / "converted.gguf", "head_size": 4, "as": "floats", "out": tmp_path / "b"}]  # fmt: skip
    folder, file = adapter_cases(cases)
    assert folder["updates"] == file["updates"] and len(file["updates"]) == 14
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
