"""Models in several GGUF files, as llama.cpp's own writer splits them: by whichever file they are opened, the same model as
in one; a file that is missing, or belongs elsewhere, is named."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
gguf = pytest.importorskip("gguf")
sys.path.append(str(Path(__file__).parents[2] / "models"))
tiny = pytest.importorskip("tiny_decoders")


def split(whole, folder, name, own={}, **how):
    """Writes the file again, in parts."""
    reader = gguf.GGUFReader(whole)
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", reader.fields["general.architecture"].contents(), **how)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kinds = [*field.types, None]
        writer.add_key_value(key, field.contents(), kinds[0], kinds[1] if kinds[0] == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    folder.mkdir(exist_ok=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob("*.gguf"))


@pytest.fixture(scope="module")
def whole(crumb, tmp_path_factory):
    """A tiny decoder with llama3's factors of positions, which lie in a tensor, in one GGUF file of blocks."""
    folder = tmp_path_factory.mktemp("whole")
    sizes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
    tiny.CONFIGS["parts"] = {**tiny.CONFIGS["llama3"], **sizes}
    tiny.VARIANTS["parts"] = []
    tiny.make("parts", folder / "model")
    crumb("quantize", folder / "model", "-o", folder / "model.crumb", "--weights", "gguf:q8_0", "--embeddings", "keep")
    crumb("export", folder / "model.crumb", "-o", folder / "model.gguf", "--to", "gguf")
    return folder / "model.gguf"


def packed(crumb, model, target):
    crumb("quantize", model, "-o", target, "--weights", "int4:group=32")
    return target.read_bytes()


@pytest.mark.parametrize("how", [{"split_max_tensors": 7}, {"split_max_tensors": 20, "small_first_shard": True}])
def test_parts_are_the_model(crumb, whole, tmp_path, how):
    parts = split(whole, tmp_path / "in", "model", **how)
    assert len(parts) > 2
    meant = packed(crumb, whole, tmp_path / "whole.crumb")
    for number, model in enumerate([parts[0], parts[-1], tmp_path / "in"]):
        assert packed(crumb, model, tmp_path / f"{number}.crumb") == meant
    codes = [tmp_path / f"{name}_codes.crumb" for name in ("whole", "parts")]
    for model, target in zip((whole, parts[0]), codes, strict=True):
        crumb("convert", model, target)
    assert codes[0].read_bytes() == codes[1].read_bytes()
    answers = {crumb("generate", model, "--prompt", "then", "--tokens", "6").stdout for model in (whole, parts[0])}
    assert len(answers) == 1


def test_links_into_a_cache_are_followed(crumb, whole, tmp_path):
    """As huggingface_hub keeps them: blobs by their hash, and names that link to them."""
    parts = split(whole, tmp_path / "in", "model", split_max_tensors=20)
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for number, part in enumerate(parts):
        blob = part.rename(tmp_path / "blobs" / f"{number:x}")
        (tmp_path / "snapshot" / part.name).symlink_to(blob)
    meant = packed(crumb, whole, tmp_path / "whole.crumb")
    assert packed(crumb, tmp_path / "snapshot", tmp_path / "linked.crumb") == meant


def refused(crumb, model, *said):
    stderr = crumb("quantize", model, "-o", model.parent / "no.crumb", "--weights", "int4:group=32", status=1).stderr
    assert all(text in stderr for text in said), stderr


def test_what_does_not_belong_together_is_refused_by_name(crumb, whole, tmp_path):
    parts = split(whole, tmp_path / "in", "model", split_max_tensors=10)
    count = len(parts)
    missing = tmp_path / "missing"
    shutil.copytree(tmp_path / "in", missing)
    (missing / parts[1].name).unlink()
    for model in (missing / parts[0].name, missing):
        refused(crumb, model, f"in {count} files", f"model-00002-of-0000{count}.gguf", "expected the others beside it")
    swapped = tmp_path / "swapped"
    shutil.copytree(tmp_path / "in", swapped)
    shutil.copy(parts[2], swapped / parts[1].name)
    refused(crumb, swapped / parts[0].name, f"part '{parts[1].name}'", f"it is number 2 of {count}", f"expected 1 of {count}")
    renamed = tmp_path / "renamed"
    shutil.copytree(tmp_path / "in", renamed)
    (renamed / parts[0].name).rename(renamed / "first.gguf")
    refused(crumb, renamed / "first.gguf", f"this is part 1 of a model in {count} files", f"-00001-of-0000{count}.gguf")
    cut = tmp_path / "cut"
    shutil.copytree(tmp_path / "in", cut)
    (cut / parts[2].name).write_bytes(parts[2].read_bytes()[:-1000])
    refused(crumb, cut / parts[0].name, f"part '{parts[2].name}'")
    fewer = tmp_path / "fewer"
    shutil.copytree(tmp_path / "in", fewer)
    content = (fewer / parts[0].name).read_bytes()
    at = content.index(b"split.tensors.count") + len("split.tensors.count") + 4
    held = int(np.frombuffer(content[at : at + 4], "<i4")[0])
    (fewer / parts[0].name).write_bytes(content[:at] + (held + 1).to_bytes(4, "little") + content[at + 4 :])
    refused(crumb, fewer / parts[0].name, f"its files hold {held} tensors, expected {held + 1}", "split.tensors.count")
