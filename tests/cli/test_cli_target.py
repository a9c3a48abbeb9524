"""crumb quantize --target: formats chosen by a budget, against a search through all choices."""

import itertools
import json
import os
import subprocess
import time

import numpy as np
import pytest
from sample_checkpoints import digest, normal, small_tensors, write_folder, write_safetensors

FORMATS = ["int2h:group=32", "int4:group=64", "int8:channel"]
LIST = ",".join(FORMATS)
TABLE = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("target") / "model")


@pytest.fixture(scope="module")
def uniform(crumb, folder, tmp_path_factory):
    """{format: the report of a run that gives it to every tensor}."""
    out = tmp_path_factory.mktemp("uniform") / "out.crumb"
    reports = {}
    for spec in FORMATS:
        done = crumb("quantize", folder, "-o", out, "--weights", spec, "--embeddings", spec, "--json")
        reports[spec] = json.loads(done.stdout)
    return reports


@pytest.fixture
def choose(crumb, folder, tmp_path):
    """Quantizes the folder within a target; gives the report."""

    def run(target, *options, formats=LIST, dry=False, source=folder):
        where = ["--dry-run"] if dry else ["-o", tmp_path / "out.crumb"]
        done = crumb("quantize", source, *where, "--target", target, "--formats", formats, *options, "--json")
        return json.loads(done.stdout)

    return run


@pytest.fixture
def refuse(crumb, folder, tmp_path):
    """Gives the message that a run is refused with (nothing written)."""

    def run(*options, status=2, source=folder):
        done = crumb("quantize", source, "-o", tmp_path / "refused.crumb", *options, status=status)
        assert done.stdout == "" and not list(tmp_path.glob("refused*"))
        return done.stderr

    return run


def specs(report):
    return {t["name"]: t["spec"] for t in report["tensors"]}


def loss_of(row):
    return 0.0 if row["sqnr_db"] is None else 10 ** (-row["sqnr_db"] / 10)


def options_of(uniform):
    """{tensor: [(bytes, loss, format)]} out of the runs that give every tensor one format."""
    found = {}
    for spec, report in uniform.items():
        for row in report["tensors"]:
            if row["spec"]:
                found.setdefault(row["name"], []).append((row["bytes"], loss_of(row), spec))
    return found


def weights_of(report):
    return sum(int(np.prod(t["shape"])) for t in report["tensors"] if t["spec"])


def test_bits_per_weight_against_every_choice(choose, uniform):
    options = options_of(uniform)
    weights = weights_of(uniform[FORMATS[0]])
    for target in (2.75, 3.1, 3.5, 4.3, 6, 7.99):
        best = min(
            sum(option[1] for option in choice)
            for choice in itertools.product(*options.values())
            if sum(option[0] for option in choice) * 8 / weights <= target
        )
        report = choose(f"{target}bpw")
        quantized = [t for t in report["tensors"] if t["spec"]]
        assert sum(map(loss_of, quantized)) == pytest.approx(best, rel=1e-9)
        assert report["assignment"]["loss"] == report["assignment"]["bound"] == pytest.approx(best, rel=1e-9)
        assert report["bits_per_weight"] == sum(t["bytes"] for t in quantized) * 8 / weights <= target
        assert set(specs(report).values()) - {None} <= set(FORMATS) and specs(report)[TABLE]


def test_a_file_size_counts_everything(crumb, choose, uniform, tmp_path):
    options = options_of(uniform)
    smallest, largest = (uniform[spec]["output_bytes"] for spec in (FORMATS[0], FORMATS[-1]))
    for target in range(smallest, largest + 3000, (largest - smallest) // 9):
        report = choose(f"{target}B")
        size = (tmp_path / "out.crumb").stat().st_size
        assert size == report["output_bytes"] <= target
        # Nothing better lies far below the target. (Header, padding and the recipe change with the choice.)
        quantized = [t for t in report["tensors"] if t["spec"]]
        loss, stored = sum(map(loss_of, quantized)), sum(t["bytes"] for t in quantized)
        for choice in itertools.product(*options.values()):
            if sum(option[0] for option in choice) <= stored + target - size - 1500:
                assert loss <= sum(option[1] for option in choice) * (1 + 1e-9)
        assert report["assignment"]["bound"] <= report["assignment"]["loss"] == pytest.approx(loss, rel=1e-9)


def test_the_recipe_makes_the_same_file(crumb, choose, folder, tmp_path):
    for target, *options in (["3.5bpw"], ["30kB", "--zstd", "3"], ["5bpw", "--set", "*.key.weight=int6", "--exclude",
                             "stem.*", "--embeddings", "int5"], ["4bpw", "--include", "*.bias"]):  # fmt: skip
        formats = LIST + ",int3:tensor"
        report = choose(target, *options, formats=formats)
        recipe = tmp_path / "out.recipe.yaml"
        head, text = recipe.read_text().split("\n", 1)
        assert head.startswith("# crumb quantize --target chose this for 'out.crumb' ") and text == report["recipe"]
        crumb("quantize", folder, "-o", tmp_path / "again.crumb", "--recipe", recipe)
        assert (tmp_path / "again.crumb").read_bytes() == (tmp_path / "out.crumb").read_bytes()
        dry = choose(target, *options, formats=formats, dry=True)
        assert specs(dry) == specs(report) and dry["recipe"] == report["recipe"]
        assert dry["assignment"] == report["assignment"]


def test_fixed_and_kept_tensors(choose, uniform):
    fixed = ["--set", "*.1.query.weight=int6:group=32", "--exclude", "*.0.key.weight", "--embeddings", "int5:channel"]
    report = choose("4.5bpw", *fixed)
    got = specs(report)
    assert got["encoder.layer.1.query.weight"] == "int6:group=32" and got[TABLE] == "int5:channel"
    assert got["encoder.layer.0.key.weight"] is None and report["assignment"]["tensors"] == 3
    quantized = [t for t in report["tensors"] if t["spec"]]
    assert report["bits_per_weight"] == sum(t["bytes"] for t in quantized) * 8 / weights_of(report) <= 4.5
    with_bias = specs(choose("4bpw", "--include", "*.bias", formats=LIST + ",int8:tensor"))
    assert with_bias["encoder.layer.0.query.bias"] is not None
    assert specs(choose("5bpw", "--embeddings", "keep"))[TABLE] is None
    # A tensor's spec that is also one the search uses inside stays fixed.
    assert specs(choose("6bpw", "--set", "*.key.weight=int8:tensor"))["encoder.layer.0.key.weight"] == "int8:tensor"


def test_names_that_are_layers_of_others(crumb, tmp_path):
    """A rule for the tensor `a` also reaches the layer `a`, whose weight is another tensor."""
    tensors = {"a": normal(4, 128), "a.weight": normal(4, 128, seed=1), "a.weight.weight": normal(4, 128, seed=2),
               "b*": normal(6, 128), "b*.weight": normal(6, 128, seed=3), "b1": normal(4, 100),
               "x.weight": normal(64, 128)}  # fmt: skip
    source = write_safetensors(tmp_path / "in.safetensors", tensors)
    seen = set()
    for target in (3.0, 3.15, 3.3, 4.0, 4.6, 5.5, 6.5, 7.5):
        report = json.loads(
            crumb("quantize", source, "-o", tmp_path / "o.crumb", "--target", f"{target}bpw", "--formats",
                  LIST + ",int5:tensor", "--set", "a.weight=int6:tensor", "--exclude", "b*.weight", "--json").stdout
        )  # fmt: skip
        got = specs(report)
        assert got["a.weight"] == "int6:tensor" and got["b*.weight"] is None and report["bits_per_weight"] <= target
        seen |= {(name, got[name]) for name in ("a", "a.weight.weight", "b*")}
        crumb("quantize", source, "-o", tmp_path / "p.crumb", "--recipe", tmp_path / "o.recipe.yaml")
        assert (tmp_path / "p.crumb").read_bytes() == (tmp_path / "o.crumb").read_bytes()
    assert len(seen) >= 6


def test_threads_and_memory_never_change_the_choice(choose, tmp_path):
    source = tmp_path / "big"
    write_folder(source, {f"layer.{i}.weight": normal(300 + 100 * i, 512, seed=i) for i in range(6)})
    formats = "int2h:group=64:search=mse,int3:tensor,palette2:channel,int4:group=128,int8:channel"
    one = choose("3.3bpw", "--threads", "1", formats=formats, source=source)
    packed = (tmp_path / "out.crumb").read_bytes()
    floor = 10**6
    for options in (["--threads", "2"], ["--threads", "7"], ["--memory", "200MB"], []):
        other = choose("3.3bpw", *options, formats=formats, source=source)
        assert other["assignment"] == one["assignment"] and specs(other) == specs(one)
        assert (tmp_path / "out.crumb").read_bytes() == packed
        floor = max(floor, other["peak_rss_bytes"])
    assert floor < 220e6


def test_shapes_that_only_some_formats_fit(crumb, tmp_path):
    tensors = {"odd.weight": normal(6, 50), "even.weight": normal(6, 128), "zero.weight": np.zeros((4, 128), np.float32),
               "empty.weight": np.zeros((0, 128), np.float32)}  # fmt: skip
    source = write_safetensors(tmp_path / "in.safetensors", tensors)
    args = ["quantize", source, "-o", tmp_path / "o.crumb", "--json", "--target"]
    report = json.loads(crumb(*args, "4bpw", "--formats", "int2h:group=32,int4:tensor,int8:group=32").stdout)
    assert specs(report)["odd.weight"] == "int4:tensor" and specs(report)["zero.weight"] == "int2h:group=32"
    refused = crumb(*args, "4bpw", "--formats", "int2h:group=32,int8:group=64", status=1).stderr
    assert "'odd.weight'" in refused and "int2h:group=32" in refused and "group=64" in refused and ":pad" in refused


def test_a_dry_run_reads_and_writes_nothing(crumb, choose, folder, tmp_path):
    before = digest(folder)
    report = choose("3.5bpw", "--set", "stem.*=int6", dry=True)
    assert report["dry_run"] and report["output"] is None and digest(folder) == before and not list(tmp_path.iterdir())
    real = choose("3.5bpw", "--set", "stem.*=int6")
    assert report["output_bytes"] == real["output_bytes"] and real["peak_rss_bytes"] <= report["peak_rss_bytes"]
    for foreseen, done in zip(report["tensors"], real["tensors"], strict=True):
        measured = done["spec"] and not done["name"].startswith("stem.")
        for figure in ("sqnr_db", "max_abs_error"):
            assert foreseen[figure] == (done[figure] if measured else None)
    text = crumb("quantize", folder, "--dry-run", "--target", "3.5bpw", "--formats", LIST).stdout
    assert "the recipe:\nversion: 1\n" in text and "no choice loses less" in text


def test_the_text_names_the_recipe_and_says_why_room_is_left(crumb, folder, tmp_path):
    done = crumb("quantize", folder, "-o", tmp_path / "a.b.crumb", "--target", "3.5bpw", "--formats", LIST)
    assert str(tmp_path / "a.b.recipe.yaml") in done.stdout and (tmp_path / "a.b.recipe.yaml").is_file()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.b.crumb", "a.b.recipe.yaml"]
    roomy = crumb("quantize", folder, "--dry-run", "--target", "1GB", "--formats", LIST)
    assert "every tensor has the format that loses least" in roomy.stderr
    coarse = crumb("quantize", folder, "--dry-run", "--target", "7.9bpw", "--formats", "int2h:group=32,int8:channel")
    assert "% of the target is left" in coarse.stderr and "no larger choice" in coarse.stderr
    exact = crumb("quantize", folder, "--dry-run", "--target", "2.5bpw", "--formats", LIST)
    assert "of the target is left" not in exact.stderr


def test_resume_measures_again_and_gives_the_same(crumb, crumb_bin, tmp_path):
    source = write_safetensors(
        tmp_path / "in.safetensors", {f"{i}.weight": normal(512, 4096, seed=i) for i in range(12)}
    )
    base = ["quantize", source, "--target", "3.5bpw", "--formats", LIST]
    start = time.monotonic()
    crumb(*base, "-o", tmp_path / "whole.crumb")
    took = time.monotonic() - start
    out, interrupted = tmp_path / "out.crumb", 0
    for share in (0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        run = subprocess.Popen([crumb_bin, *map(str, base), "-o", out, "--resume"], stdout=-3, stderr=-3)
        try:
            run.wait(share * took)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            interrupted += 1
    crumb(*base, "-o", out, "--resume")
    assert interrupted > 0 and out.read_bytes() == (tmp_path / "whole.crumb").read_bytes()
    recipes = [(tmp_path / f"{name}.recipe.yaml").read_text().split("\n", 1)[1] for name in ("out", "whole")]
    assert recipes[0] == recipes[1]
    assert not list(tmp_path.glob("*.partial*"))


def test_targets_below_the_least_name_it(crumb, refuse, folder, tmp_path, uniform):
    message = refuse("--target", "2.4bpw", "--formats", LIST)
    least = message.split()[-1]
    assert "2.4bpw" in message and least.endswith("bpw")
    crumb("quantize", folder, "-o", tmp_path / "a.crumb", "--target", least, "--formats", LIST)
    message = refuse("--target", "10kB", "--formats", LIST)
    least = message.split()[-1]
    assert "10000 bytes" in message and least == f"{uniform[FORMATS[0]]['output_bytes']}B"
    crumb("quantize", folder, "-o", tmp_path / "b.crumb", "--target", least, "--formats", LIST)


def test_what_is_refused(refuse, tmp_path):
    assert "'three'" in refuse("--target", "three")
    assert "found '-1'" in refuse("--target=-1bpw")
    assert "--target too" in refuse("--scheme", "W4A16", "--formats", LIST)
    assert "format 2" in refuse("--target", "4bpw", "--formats", "int4,int44")
    for flag, value in (("--scheme", "W4A16"), ("--weights", "int4"), ("--recipe", "r.yaml")):
        message = refuse("--target", "4bpw", flag, value)
        assert flag in message and "--target" in message
    assert "nothing to choose" in refuse("--target", "4bpw", "--exclude", "*")
    assert "nothing to choose" in refuse("--target", "4bpw", "--set", "*=int4")
    refuse("--target", "")
    broken = small_tensors()
    broken["encoder.layer.0.key.weight"][3, 4] = np.nan
    source = write_folder(tmp_path / "broken", broken)
    assert "'encoder.layer.0.key.weight'" in refuse("--target", "4bpw", status=1, source=source)


def test_an_input_is_never_the_recipe(crumb, tmp_path):
    source = tmp_path / "out.recipe.yaml"
    write_safetensors(source, {"a.weight": normal(4, 128)})
    (tmp_path / "in.safetensors").symlink_to(source)
    before = digest(source)
    done = crumb("quantize", tmp_path / "in.safetensors", "-o", tmp_path / "out.crumb", "--target", "4bpw", status=2)
    assert "out.recipe.yaml" in done.stderr and digest(source) == before


def test_a_recipe_that_somebody_wrote_is_not_replaced(crumb, folder, tmp_path):
    args = ["quantize", folder, "--target", "3.5bpw", "--formats", LIST, "-o"]
    recipe = tmp_path / "u.recipe.yaml"
    for foreign in ("weights: int4\n", "", "# crumb quantize --target chose this for 'u.crumb'\nweights: int4\n"):
        recipe.write_text(foreign)
        for more in ([], ["--dry-run"]):
            done = crumb(*args, tmp_path / "u.crumb", *more, status=2)
            assert "u.recipe.yaml" in done.stderr and "measuring" not in done.stderr and done.stdout == ""
            assert recipe.read_text() == foreign and os.listdir(tmp_path) == ["u.recipe.yaml"]
    recipe.unlink()
    crumb(*args, tmp_path / "u.crumb")
    written = recipe.read_text()
    crumb(*args, tmp_path / "u.crumb", "--zstd", "1")  # its own is replaced
    assert recipe.read_text() != written
    recipe.write_text(recipe.read_text().replace("zstd: 1", "zstd: 2"))
    assert "u.recipe.yaml" in crumb(*args, tmp_path / "u.crumb", status=2).stderr
    recipe.unlink()
    recipe.symlink_to("nowhere")
    crumb(*args, tmp_path / "u.crumb", status=2)


def test_outputs_that_differ_do_not_share_a_recipe(crumb, folder, tmp_path):
    args = ["quantize", folder, "--target", "3.5bpw", "--formats", LIST, "-o"]
    for name, recipe in (("u.crumb", "u.recipe.yaml"), ("u.bin", "u.bin.recipe.yaml"), ("v", "v.recipe.yaml")):
        crumb(*args, tmp_path / name)
        assert name in (tmp_path / recipe).read_text().split("\n")[0]
    before = (tmp_path / "u.recipe.yaml").read_bytes()
    assert "'u'" in crumb(*args, tmp_path / "u", status=2).stderr
    assert (tmp_path / "u.recipe.yaml").read_bytes() == before


@pytest.mark.slow
def test_the_budget_beats_every_format_of_its_size(crumb, minilm, repo, tmp_path):
    """On a real encoder: closer embeddings than each of the formats applied to all tensors."""
    formats = ["int2h:group=64", "int3:group=64", "int4:group=128", "int5:group=128"]
    sentences = repo / "examples" / "sentences.txt"
    crumb("embed", minilm, "--text", sentences, "-o", tmp_path / "float.npy")

    def quality(*options):
        done = crumb("quantize", minilm, "-o", tmp_path / "o.crumb", *options, "--json")
        crumb("embed", tmp_path / "o.crumb", "--text", sentences, "-o", tmp_path / "o.npy")
        cosine = json.loads(crumb("agree", tmp_path / "float.npy", tmp_path / "o.npy", "--json").stdout)["mean_cosine"]
        return json.loads(done.stdout), cosine

    rivals = [quality("--weights", spec, "--embeddings", spec)
              for spec in [*formats, "int3:group=64:search=mse", "int2h:group=64:search=mse"]]  # fmt: skip
    for options in ([], ["--formats", ",".join(formats)]):
        report, cosine = quality("--target", "3.5bpw", *options)
        assert 3.5 * 0.99 <= report["bits_per_weight"] <= 3.5
        smaller = [theirs for rival, theirs in rivals if rival["output_bytes"] <= report["output_bytes"]]
        assert len(smaller) == 4 and cosine > max(smaller)


def test_a_person_can_interrupt_measuring(crumb_bin, tmp_path):
    import signal
    import time

    source = write_safetensors(tmp_path / "in.safetensors", {"a.weight": normal(1024, 8192)})
    formats = ",".join(f"int{bits}:group={group}:search=mse" for bits in range(2, 9) for group in (16, 32, 64, 128))
    run = subprocess.Popen(
        [crumb_bin, "quantize", source, "-o", tmp_path / "o.crumb", "--target", "4bpw", "--formats", formats],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(0.7)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130 and [p.name for p in tmp_path.iterdir()] == ["in.safetensors"]


def test_the_least_memory_is_named_before_measuring(crumb, tmp_path):
    import re

    source = write_safetensors(tmp_path / "in.safetensors", {f"{i}.weight": normal(2048, 2048, seed=i) for i in (1, 2)})
    args = ["quantize", source, "-o", tmp_path / "o.crumb", "--target", "4bpw", "--formats",
            "int2h:group=64:search=mse,palette4:group=32,int8", "--json", "--memory"]  # fmt: skip
    refused = crumb(*args, "1MB", status=2).stderr
    assert "measuring" not in refused
    least = int(re.search(r"the least is (\d+) MB", refused).group(1)) + 4  # two runs differ by a few pages
    assert json.loads(crumb(*args, f"{least}MB").stdout)["peak_rss_bytes"] <= least * 1_000_000
