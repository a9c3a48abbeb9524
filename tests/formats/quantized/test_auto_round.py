"""Folders of AutoRound are read as the weights that its own layers compute, bit for bit; other packings are refused by name."""

import json
import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parent))
import loaders  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

NAMES = [f"{form}-{bits}" for form in ("auto_round_auto_gptq", "auto_round") for bits in range(2, 9)] + ["auto_round_auto_awq-4"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auto_round")
    loaders.run("auto_round_folders.py", folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_auto_round_computes_the_same(crumb, written, tmp_path, name):
    out = tmp_path / "values.safetensors"
    said = crumb("dequantize", written / name, "-o", out).stderr
    assert "read as what AutoRound" in said and f"{name[-1]} bits" in said
    loaders.expect_values(load_file(out), load_file(written / f"{name}.values.safetensors"))


def test_it_is_what_a_folder_may_say_in_other_words(crumb, written, tmp_path):
    """The default packing, and the older spellings of its name and the method's."""
    for said in ({"packing_format": None}, {"packing_format": "auto_round:gptq"}, {"quant_method": "intel/auto-round"}):
        shutil.copytree(written / "auto_round_auto_gptq-4", tmp_path / "in", dirs_exist_ok=True)
        config = json.loads((tmp_path / "in" / "config.json").read_text())
        config["quantization_config"] |= said
        (tmp_path / "in" / "config.json").write_text(json.dumps(config))
        crumb("dequantize", tmp_path / "in", "-o", tmp_path / "values.safetensors")
        loaders.expect_values(load_file(tmp_path / "values.safetensors"), load_file(written / "auto_round_auto_gptq-4.values.safetensors"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"packing_format": "auto_round:llm_compressor"}, "packing_format 'auto_round:llm_compressor' is not read"),
        ({"packing_format": "auto_round:fp8_static"}, "'auto_round:fp8_static'"),
        ({"data_type": "mx_fp"}, "data_type 'mx_fp'"),
        ({"rotation_config": {"hadamard_type": "hadamard"}}, "rotation_config"),
        ({"bits": 9}, "9 bits"),
        ({"bits": 3, "packing_format": "auto_round:auto_awq"}, "3 bits with packing_format 'auto_round:auto_awq'"),
        ({"group_size": 0}, "group_size is 0"),
    ],
)
def test_what_is_not_read_is_refused_by_name(crumb, written, tmp_path, changes, said):
    shutil.copytree(written / "auto_round-4", tmp_path / "in")
    config = json.loads((tmp_path / "in" / "config.json").read_text())
    config["quantization_config"] |= changes
    (tmp_path / "in" / "config.json").write_text(json.dumps(config))
    done = crumb("quantize", tmp_path / "in", "-o", tmp_path / "x.crumb", "--weights", "int8:channel", status=1)
    assert said in done.stderr and "auto-round" in done.stderr
