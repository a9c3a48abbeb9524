"""crumb recipe and crumb quantize --recipe: presets, fields, rules, and what is refused."""

import json

import pytest
from sample_checkpoints import normal, write_folder, write_safetensors

PRESETS = ["W8A16", "W4A16", "W3A16", "W2A16", "FP8", "MXFP4", "MXFP8", "NVFP4"]
FOR_GRAPHS = ["W8A8", "W4A8", "W4A4", "hls4ml", "finn"]
NORM = "embeddings.LayerNorm.weight"
TABLE = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("recipe") / "model")


@pytest.fixture
def quantize(crumb, folder, tmp_path):
    """Quantizes the folder by a recipe's text and further options; gives {name: spec or None}."""

    def run(text, *options):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        done = crumb("quantize", folder, "-o", tmp_path / "out.crumb", "--recipe", path, *options, "--json")
        return {row["name"]: row["spec"] for row in json.loads(done.stdout)["tensors"]}

    return run


@pytest.fixture
def refuse(crumb, folder, tmp_path):
    """Gives the message that a recipe is refused with (exit code 2, nothing written)."""

    def run(text, *options):
        path = tmp_path / "mine.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        done = crumb("quantize", folder, "-o", tmp_path / "refused.crumb", "--recipe", path, *options, status=2)
        assert done.stdout == "" and not (tmp_path / "refused.crumb").exists()
        return done.stderr

    return run


# --- crumb recipe -----------------------------------------------------------------------------------------------------


def test_presets_are_listed_with_a_line_each(crumb):
    lines = crumb("recipe").stdout.splitlines()
    for preset in [*PRESETS, *FOR_GRAPHS]:
        assert sum(line.startswith(preset + " ") and len(line) > 15 for line in lines) == 1
    assert sum("for graphs" in line for line in lines) == len(FOR_GRAPHS)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_printed_preset_gives_the_file_of_its_scheme(crumb, folder, tmp_path, preset):
    text = crumb("recipe", preset.lower()).stdout
    assert text.count("# ") >= 4
    (tmp_path / "preset.yaml").write_text(text)
    crumb("quantize", folder, "-o", tmp_path / "a.crumb", "--scheme", preset)
    crumb("quantize", folder, "-o", tmp_path / "b.crumb", "--recipe", tmp_path / "preset.yaml")
    assert (tmp_path / "a.crumb").read_bytes() == (tmp_path / "b.crumb").read_bytes()


def test_names_that_are_no_presets(crumb):
    assert "'W4A16'" in crumb("recipe", "W4A61", status=2).stderr
    for name in ("W8A8", "w4a8"):
        assert "\nactivations: uint8:tensor:" in crumb("recipe", name).stdout
    assert "mine.yaml" in crumb("recipe", "missing/mine.yaml", status=2).stderr


def test_a_file_is_checked_and_printed_in_full(crumb, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("weights: int4\nrules: [{match: {name: [a, 'b*']}, skip: True}]\n")
    text = crumb("recipe", path).stdout
    assert text.splitlines() == [
        "version: 1", "weights: int4:channel", "embeddings: int8:channel", "zstd: off", "rules:",
        '  - {match: {name: ["a", "b*"]}, skip: true}'
    ]  # fmt: skip
    path.write_text(text)
    assert crumb("recipe", path).stdout == text


def test_every_field_is_listed(crumb):
    listing = crumb("recipe", "--fields").stdout
    for field in ("version", "weights", "embeddings", "zstd", "rules", "rules: match: name", "rules: match: role",
                  "rules: weights", "rules: skip", "rules: optional"):  # fmt: skip
        assert f"\n{field} " in listing
    assert "--weights" in listing and "--embeddings" in listing and "--zstd" in listing
    crumb("recipe", "W4A16", "--fields", status=2)


# --- Rules ------------------------------------------------------------------------------------------------------------


def test_rules_by_name_layer_and_role(quantize):
    specs = quantize("""
version: 1
weights: int4:channel
embeddings: int6
rules:
  - {match: {name: "encoder.layer.*.query"}, weights: int8:channel}
  - {match: {name: 're:encoder\\.layer\\.[1-9]\\..*', role: weight}, weights: int3:group=64}
  - {match: {name: ["stem.conv", "temperature"]}, weights: int5:tensor}
  - {match: {name: "encoder.layer.1.key"}, skip: true}
  - {match: {name: "lm_head"}, skip: true, optional: true}
""")
    assert specs["encoder.layer.0.query.weight"] == "int8:channel" and specs["encoder.layer.0.query.bias"] is None
    assert specs["encoder.layer.1.query.weight"] == "int3:group=64" and specs["encoder.layer.1.key.weight"] is None
    assert specs["encoder.layer.0.key.weight"] == "int4:channel"
    assert specs["stem.conv.weight"] == specs["temperature"] == "int5:tensor"
    assert specs[TABLE] == "int6:channel" and specs[NORM] is None


def test_later_rules_win_and_flags_come_after_the_recipe(quantize):
    text = "weights: int4\nrules:\n  - {match: {name: '*'}, skip: true}\n  - {match: {role: embedding}, weights: int7}\n"
    specs = quantize(text)
    assert specs.pop(TABLE) == "int7:channel" and set(specs.values()) == {None}
    specs = quantize(text, "--embeddings", "int6", "--set", "*.0.key.weight=int3", "--include", "stem.*")
    assert specs[TABLE] == "int6:channel" and specs["encoder.layer.0.key.weight"] == "int3:channel"
    assert specs["stem.conv.weight"] == "int4:channel"
    assert quantize(text, "--exclude", "*word*")[TABLE] is None
    assert quantize(text, "--embeddings", "keep")[TABLE] is None

    # The flag wins over the recipe's own rules, as every flag does.
    plain = "weights: int4\nembeddings: int5\n"
    assert quantize(plain, "--embeddings", "int6")[TABLE] == "int6:channel"
    assert quantize(plain, "--embeddings", "keep")[TABLE] is None
    assert quantize(plain + "rules: [{match: {name: '*word*'}, skip: true}]", "--embeddings", "int6")[TABLE] == "int6:channel"


def test_flags_reach_biases_and_norms_where_rules_do_not(quantize):
    specs = quantize("weights: int4\nrules: [{match: {name: '*'}, weights: int8:tensor}]")
    assert specs[NORM] is None and specs["encoder.layer.0.query.bias"] is None
    assert quantize("weights: int4\nrules: [{match: {name: '*', role: any}, weights: int8:tensor}]")[NORM]
    assert quantize("weights: int4", "--set", "*=int8:tensor")["encoder.layer.0.query.bias"] == "int8:tensor"
    assert quantize("weights: int4:tensor", "--include", "*")[NORM] == "int4:tensor"


def test_keep_as_the_default_leaves_only_what_rules_name(quantize):
    specs = quantize("weights: keep\nembeddings: keep\nrules: [{match: {name: stem.*}, weights: int8}]")
    assert {name for name, spec in specs.items() if spec} == {"stem.conv.weight"}


def test_the_recipe_s_compression_is_used_and_the_flag_overrides_it(crumb, tmp_path):
    source = write_safetensors(tmp_path / "in.safetensors", {"a.weight": normal(8, 64).repeat(64, axis=1)})
    sizes = {}
    for level, flag in (("off", ()), ("19", ()), ("19", ("--zstd", "off"))):
        (tmp_path / "r.yaml").write_text(f"weights: int8\nzstd: {level}\n")
        crumb("quantize", source, "-o", tmp_path / "o.crumb", "--recipe", tmp_path / "r.yaml", *flag)
        sizes[level, flag] = (tmp_path / "o.crumb").stat().st_size
    assert sizes["19", ()] < sizes["off", ()] == sizes["19", ("--zstd", "off")]


# --- What is refused --------------------------------------------------------------------------------------------------


def test_rules_that_match_nothing_name_their_line_and_the_nearest(refuse, quantize):
    text = "weights: int4\nrules:\n  - {match: {name: 'stem.*'}, skip: true}\n  - {match: {name: 'encoder.layer.0.qeury'}, %s}\n"
    for action in ("skip: true", "weights: int8"):
        message = refuse(text % action)
        assert "line 4" in message and "'encoder.layer.0.qeury'" in message and "'encoder.layer.0.query'" in message
        quantize(text % f"{action}, optional: true")
    assert "role" in refuse("weights: int4\nrules: [{match: {name: '*.bias'}, weights: int8}]")
    assert "floating" in refuse("weights: int4\nrules: [{match: {name: embeddings.position_ids}, weights: int8}]")


def test_activations_of_a_checkpoint_are_refused(refuse):
    for line in ("activations: uint8", "inputs: int8", "biases: int32"):
        message = refuse(f"weights: int4\n{line}\n")
        assert line in message and "of a network" in message


def test_bad_recipes_are_wrong_usage_with_line_and_key(refuse):
    for text, words in (
        ("version: 1\nwieghts: int4\n", ["line 2", "'wieghts'", "'weights'"]),
        ("weights: int4\nweights: int8\n", ["line 2", "line 1", "'weights'"]),
        ("weights: int4\nstages: []\n", ["line 2", "stages: expected STAGE", "an empty list"]),
        ("weights: int44\n", ["line 1", "weights", "'int4'"]),
        ("weights: int4\nrules: [{match: {op: Conv}, skip: true}]\n", ["line 2", "operators", "of a network"]),
        ("weights: &a int4\nembeddings: *a\n", ["line 1", "anchor"]),
        ("weights: int4\nrules: " + "[" * 5000, ["line 2"]),
        ("weights: int4\nrules:\n" + "- " * 5000, ["line 3", "levels"]),
        ("", ["empty"]),
        ("weights: int4\n--- \nweights: int4\n", ["second"]),
        (b"weights: int4\xff\n", ["line 1", "UTF-8"]),
        (b"weights: int4\n\0", ["line 2", "control"]),
        ("rules:\n\t- a", ["line 2", "tab"]),
        ('weights: "int4\nembeddings: int8\n', ["line 1", 'the quote " is not closed']),
        ("weights: int4\nrules:\n  - {match: {name: 'a*}, skip: true}\n", ["line 3", "the quote ' is not closed"]),
        ('weights: int4 # don\'t\nrules: [{match: {name: "é\\"\'}, skip: true}]', ["line 2", 'quote " is not closed']),
        ("weights: int4\nrules:\n  - {match: {name: 'a*}, skip: true}\n  - {match: {name: 'b'}, skip: true}\n",
         ["the quote in line 3 is not closed there"]),
    ):
        message = refuse(text)
        assert "mine.yaml" in message and len(message) < 1000
        assert all(word in message for word in words), message


def test_quotes_that_are_closed(crumb, tmp_path):
    lines = ["# don't", "weights: 'int4'", "rules:", "  - match: {name: ['it''sé', \"a\\\"'b\", \"c\\\\\",", "      'over", "      lines']}",
             "    skip: true"]  # fmt: skip
    for end in ("\n", "\r\n"):
        (tmp_path / "r.yaml").write_bytes(end.join([*lines, ""]).encode())
        text = crumb("recipe", tmp_path / "r.yaml").stdout
        assert r"""name: ["it'sé", "a\"'b", "c\\", "over lines"]""" in text


def test_quotes_inside_words_need_no_end(crumb, tmp_path):
    (tmp_path / "r.yaml").write_text(
        """weights: int4  # don't 'do
rules:
- match: {name: [it's, a-'b]}
  skip: true
- match:
    name: re:['"]x
  skip: true
"""
    )
    printed = crumb("recipe", tmp_path / "r.yaml").stdout
    assert """name: ["it's", "a-'b"]""" in printed and r"""name: "re:['\"]x"}""" in printed


def test_recipes_that_cannot_be_read(crumb, folder, tmp_path):
    (tmp_path / "large.yaml").write_bytes(b"#" * 5_000_000)
    for path in (tmp_path, tmp_path / "missing.yaml", tmp_path / "large.yaml", folder / "model.safetensors"):
        done = crumb("quantize", folder, "-o", tmp_path / "o.crumb", "--recipe", path, status=2)
        assert path.name in done.stderr


def test_the_recipe_is_never_the_output(crumb, folder, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("weights: int4\n")
    (tmp_path / "link.yaml").symlink_to(recipe)
    (tmp_path / "o.crumb.partial").symlink_to(recipe)
    for out in ("mine.yaml", "link.yaml", "o.crumb"):
        for more in ([], ["--dry-run"]):
            done = crumb("quantize", folder, "-o", tmp_path / out, "--recipe", recipe, *more, status=2)
            assert "one of the inputs" in done.stderr and recipe.read_text() == "weights: int4\n"


def test_a_recipe_is_all_that_says_how_weights_are_quantized(refuse, crumb, folder, tmp_path):
    for other in (("--scheme", "W4A16"), ("--weights", "int4")):
        assert "one of them" in refuse("weights: int4\n", *other)
    for flag in ("--recipe", "--scheme", "--weights", "--zstd", "--embeddings"):
        done = crumb("quantize", folder, "-o", tmp_path / "o.crumb", "--scheme", "W4A16", flag, "", status=2)
        assert flag in done.stderr
    assert "--include" in refuse("weights: keep\n", "--include", "stem.*")


def test_tensors_with_odd_names_can_be_named(crumb, tmp_path):
    names = ["a*b.weight", "re:x.weight", "new\nline.weight", 'quo"te\\.weight', "größe.重み", "[t]"]
    source = write_safetensors(tmp_path / "in.safetensors", {name: normal(2, 4) for name in names})
    escaped = [json.dumps(n.replace("\\", "\\\\").replace("*", "\\*").replace("[", "\\[")) for n in names]
    escaped[1] = json.dumps("\\re:x.weight")
    (tmp_path / "r.yaml").write_text(f"weights: keep\nrules: [{{match: {{name: [{', '.join(escaped)}]}}, weights: int8}}]\n")
    done = crumb("quantize", source, "-o", tmp_path / "o", "--recipe", tmp_path / "r.yaml", "--json")
    assert {row["spec"] for row in json.loads(done.stdout)["tensors"]} == {"int8:channel"}
