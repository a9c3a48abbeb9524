"""Pages about results: their structure as a parser finds it, hostile names, sizes, JSON, Markdown."""

import base64
import hashlib
import io
import json
import random
import re
from html.parser import HTMLParser

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

VOID = {"meta", "link", "img", "br", "hr", "input", "path"}


class Node:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.children = tag, attributes, []

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, tag=None):
        for child in self.children:
            if isinstance(child, Node):
                if tag in (None, child.tag):
                    yield child
                yield from child.all(tag)

    def one(self, tag):
        (found,) = self.all(tag)
        return found


class Page(HTMLParser):
    """The tree of a page; every element must be closed, in order, and no attribute given twice."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root], [node.tag for node in self.open]

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), (tag, attributes)
        node = Node(tag, dict(attributes))
        self.open[-1].children.append(node)
        if tag not in VOID - {"path"}:
            self.open.append(node)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Node(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, (self.open[-1].tag, tag)
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_pi(self, data):
        raise AssertionError(data)

    def unknown_decl(self, data):
        raise AssertionError(data)


def tables_of(page):
    """{caption's beginning: [{head: cell}]} of every table."""
    found = {}
    for table in page.all("table"):
        heads = [head.text() for head in table.one("thead").all("th")]
        rows = [[cell.text() for cell in row.children if isinstance(cell, Node)] for row in table.one("tbody").all("tr")]
        assert all(len(row) == len(heads) for row in rows)
        found[table.one("caption").text().split(":")[0]] = [dict(zip(heads, row, strict=True)) for row in rows]
    return found


def network(path, sizes, seed=0, weight="w{}", node="layer{}", shape=None):
    """Products with Relu between them; names by a pattern or a list."""
    draw = np.random.default_rng(seed)
    named = lambda pattern, i: pattern[i] if isinstance(pattern, list) else pattern.format(i)  # noqa: E731
    constants, nodes, value = [], [], "x"
    if shape:
        nodes.append(helper.make_node("Flatten", ["x"], ["flat"]))
        value = "flat"
    for i, (here, there) in enumerate(zip(sizes, sizes[1:])):
        values = draw.normal(size=(here, there)).astype(np.float32) / np.sqrt(here)
        constants.append(numpy_helper.from_array(values.astype(np.float32), named(weight, i)))
        last = i + 2 == len(sizes)
        nodes.append(helper.make_node("MatMul", [value, named(weight, i)], ["y" if last else f"h{i}"], named(node, i)))
        if not last:
            nodes.append(helper.make_node("Relu", [f"h{i}"], [f"r{i}"]))
            value = f"r{i}"
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *(shape or [sizes[0]])]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", sizes[-1]])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


@pytest.fixture(scope="module")
def made(crumb, tmp_path_factory):
    """A network, samples with the classes that it gives but for a few, and packed files of 2 and 8 bits."""
    work = tmp_path_factory.mktemp("report")
    network(work / "net.onnx", [64, 48, 10], shape=[1, 8, 8])
    x = np.random.default_rng(1).normal(size=(60, 1, 8, 8)).astype(np.float32)
    np.save(work / "x.npy", x)
    crumb("run", work / "net.onnx", "--input", work / "x.npy", "--output", work / "out.npy")
    labels = np.load(work / "out.npy").argmax(1)
    labels[::7] = (labels[::7] + 1) % 10
    np.save(work / "y.npy", labels)
    for bits in (2, 8):
        crumb("quantize", work / "net.onnx", "-o", work / f"net{bits}.crumb", "--weights", f"int{bits}:channel")
    return work


@pytest.fixture(scope="module")
def evaluated(crumb, made):
    """evaluated(ending): the report of both files, and what --json prints."""
    words = ["eval", made / "net2.crumb", made / "net8.crumb", "--baseline", made / "net.onnx", "--data", made / "x.npy", "--labels", made / "y.npy"]

    def run(ending):
        printed = crumb(*words, "--json", "--report", made / f"out.{ending}").stdout
        return (made / f"out.{ending}").read_text(encoding="utf-8"), json.loads(printed)

    return run


def check_page(text):
    """What every page keeps; gives its tree."""
    page = Page(text).root
    html = page.one("html")
    assert html.attributes["lang"] == "en" and page.one("head").one("title").text() == page.one("h1").text() != ""
    assert [page.one(tag) for tag in ("main", "header", "nav", "footer")]
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.all():
        for name, value in node.attributes.items():
            assert not name.startswith("on") and name not in ("style", "srcset", "action", "formaction"), (node.tag, name)
            if name in ("href", "src"):
                assert value.startswith(("#", "data:image/png;base64,")) or value == "data:,", value
            if name == "href" and value.startswith("#"):
                assert value[1:] in ids
            if name in ("aria-labelledby", "aria-describedby"):
                assert value in ids
    assert next(page.all("a")).attributes["href"] == "#summary"  # the first thing that a keyboard reaches
    for table in page.all("table"):
        assert table.one("caption").text()
        for head in table.one("thead").all("th"):
            assert head.attributes["scope"] == "col" and [child.tag for child in head.children] == ["button"]
        for head in table.one("tbody").all("th"):
            assert head.attributes["scope"] == "row"
    for picture in page.all("img"):
        assert picture.attributes["alt"]
    levels = [int(node.tag[1]) for node in page.all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:]))
    # Nothing runs but what the page's policy names: its own script.
    (policy,) = [node.attributes["content"] for node in page.all("meta") if node.attributes.get("http-equiv") == "Content-Security-Policy"]
    script = page.one("script").text()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy, f"kScriptHash is sha256-{digest}"
    assert not re.search(r"@import|url\(", page.one("style").text())
    return page


def test_a_page_of_two_models(evaluated, made):
    text, printed = evaluated("html")
    page = check_page(text)
    tables = tables_of(page)
    for model in printed["models"]:
        name = model["model"].split("/")[-1]
        rows = {row["metric"]: row for row in tables["Metrics"] if row["model"] == name}
        for metric, figures in model["metrics"].items():
            row = rows[f"{metric} %"]
            for head, value in [("baseline", figures["baseline"]), ("value", figures["model"]), ("difference", figures["difference"]),
                                ("95 % from", figures["interval"][0]), ("to", figures["interval"][1])]:  # fmt: skip
                assert float(row[head]) == pytest.approx(value, abs=0.006), (metric, head)
    # Both are in the chart, with what their interval is.
    chart = next(svg for svg in page.all("svg") if svg.attributes["class"] == "chart")
    assert [mark.text() for mark in chart.all("path") if mark.children] == ["net2.crumb", "net8.crumb"]
    # The worst samples are there with their pictures.
    samples = [item for item in page.all("li") if any(True for _ in item.all("img"))]
    assert len(samples) == sum(len(model["worst"]) for model in printed["models"])
    pil = pytest.importorskip("PIL.Image")
    x = np.load(made / "x.npy")
    for item in samples:
        number = int(re.match(r"Sample (\d+)", item.one("h3").text())[1])
        source = item.one("img").attributes["src"].removeprefix("data:image/png;base64,")
        pixels = np.asarray(pil.open(io.BytesIO(base64.b64decode(source, validate=True))))
        picture = x[number, 0]
        expected = 255 * (picture - picture.min()) / (picture.max() - picture.min())
        assert pixels.shape == (8, 8) and np.abs(pixels - expected).max() <= 0.5001


def test_json_of_two_models(evaluated, made):
    text, printed = evaluated("json")
    report = json.loads(text)
    assert (report["schema"], report["kind"]) == (1, "eval")
    assert set(report) == {"schema", "kind", "title", "sentence", "summary", "notes", "charts", "tables", "histograms", "samples", "recipe", "commands", "made_with"}
    for table in report["tables"].values():
        keys = [column["key"] for column in table["columns"]]
        assert len(set(keys)) == len(keys) and all(re.fullmatch("[a-z0-9_]+", key) for key in keys)
        for row in table["rows"]:
            assert list(row) == keys
            for column in table["columns"]:
                value = row[column["key"]]
                assert value is None or isinstance(value, (int, float) if column["number"] else str) or value in ("inf", "-inf", "nan")
    rows = report["tables"]["metrics"]["rows"]
    figures = [figure for model in printed["models"] for figure in model["metrics"].values()]
    assert [(row["baseline"], row["value"], row["low"], row["high"]) for row in rows] == [
        (figure["baseline"], figure["model"], *figure["interval"]) for figure in figures
    ]
    command = report["commands"][0]
    assert command.startswith("crumb eval ") and "--report" not in command and str(made / "x.npy") in command


def test_histograms_are_of_the_codes_in_the_file(crumb, evaluated, made):
    report = json.loads(evaluated("json")[0])
    assert len(report["histograms"]) == 4
    for one in report["histograms"]:
        crumb("dequantize", made / one["model"], "-o", made / "back.safetensors")
        values = read_safetensors(made / "back.safetensors")[one["layer"]].astype(np.float64)
        bits = int(one["format"][3])
        assert one["seen"] == one["all"] == values.size == sum(one["codes"]["counts"]) == sum(one["values"]["counts"])
        assert (one["codes"]["least"], one["codes"]["greatest"]) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        counts, _ = np.histogram(values, bins=64, range=(one["values"]["least"], one["values"]["greatest"]))
        assert (one["values"]["least"], one["values"]["greatest"]) == (values.min(), values.max())
        assert np.abs(counts - one["values"]["counts"]).sum() <= 0.02 * values.size  # numbers at the edges of bars
        if bits == 2:
            assert one["codes"]["counts"][2] == (values == 0).sum()


def read_safetensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return {name: np.frombuffer(data[8 + length :][slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}  # fmt: skip


def test_markdown_says_the_same(evaluated):
    markdown = pytest.importorskip("markdown_it")
    report = json.loads(evaluated("json")[0])
    text, _ = evaluated("md")
    html = markdown.MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    page = Page(html).root
    found = [[[cell.text() for cell in row.children if isinstance(cell, Node)] for row in table.all("tr")] for table in page.all("table")]
    assert len(found) == len(report["charts"]) + len(report["tables"])
    for rows, table in zip(found[len(report["charts"]) :], report["tables"].values(), strict=True):
        columns = [column for column in table["columns"] if any(row[column["key"]] is not None for row in table["rows"])]
        assert rows[0] == [column["head"] for column in columns]  # without those in which nothing is known
        assert len(rows) == 1 + len(table["rows"])
        for row, expected in zip(rows[1:], table["rows"], strict=True):
            assert len(row) == len(columns)
            for cell, column in zip(row, columns, strict=True):
                assert column["number"] or cell == (expected[column["key"]] or "")


@pytest.mark.parametrize("ending", [".crumb", ".onnx"])
def test_what_quantizing_made(crumb, made, tmp_path, ending):
    words = ["--scheme", "W8A8", "--data", made / "x.npy"]
    out = tmp_path / f"net{ending}"
    printed = json.loads(crumb("quantize", made / "net.onnx", "-o", out, *words, "--json", "--report", tmp_path / "out.json").stdout)
    report = json.loads((tmp_path / "out.json").read_text())
    tables = report["tables"]
    weights = {row["layer"]: row for row in tables["layers"]["rows"]}
    assert set(weights) == {tensor["name"] for tensor in printed["tensors"]}
    for tensor in printed["tensors"]:
        row = weights[tensor["name"]]
        assert (row["bytes"], row["kept_because"]) == (tensor["bytes"], tensor["kept_because"])
        if tensor["spec"]:
            assert (row["format"], row["weights_sqnr_db"], row["bits"]) == (tensor["spec"], tensor["sqnr_db"], tensor["bits"])
    assert [row["low"] for row in tables["activations"]["rows"]] == [edge["min"] for edge in printed["activations"]]
    assert [row["clipped"] for row in tables["activations"]["rows"]] == [pytest.approx(100 * edge["saturated"]) for edge in printed["activations"]]
    assert tables["outputs"]["rows"][0]["sqnr_db"] == printed["outputs"][0]["sqnr_db"]
    checked = json.loads(crumb("verify", out, "--accumulator", "--json").stdout)["layers"]
    assert [row["bits_needed"] for row in tables["accumulators"]["rows"]] == [layer["bits_needed"] for layer in checked]
    facts = {fact["name"]: fact["value"] for fact in report["summary"]}
    assert (facts["size"], facts["bits a weight"]) == (out.stat().st_size, printed["bits_per_weight"])
    # The recipe as it was carried out makes the same file.
    (tmp_path / "recipe.yaml").write_text(report["recipe"])
    crumb("quantize", made / "net.onnx", "-o", tmp_path / f"again{ending}", "--recipe", tmp_path / "recipe.yaml", "--data", made / "x.npy")
    assert (tmp_path / f"again{ending}").read_bytes() == out.read_bytes()
    sums = {one["layer"]: sum(one["codes"]["counts"]) for one in report["histograms"]}
    assert sorted(sums.values()) == [48 * 10, 64 * 48]


def test_layers_and_advice_are_in_the_page(crumb, made, tmp_path):
    crumb("quantize", made / "net.onnx", "-o", tmp_path / "net.crumb", "--weights", "int3:channel", "--activations", "uint4:tensor", "--data", made / "x.npy")
    words = ["eval", tmp_path / "net.crumb", "--baseline", made / "net.onnx", "--data", made / "x.npy", "--layers"]
    printed = json.loads(crumb(*words, "--json", "--report", tmp_path / "out.json").stdout)
    tables = json.loads((tmp_path / "out.json").read_text())["tables"]
    rows = tables["layers"]["rows"]
    assert [row["layer"] for row in rows] == [layer["name"] for layer in printed["layers"]] != []
    for row, layer in zip(rows, printed["layers"], strict=True):
        names = {"bits_needed": "accumulator_bits", "bits_there": "register_bits"}
        for key in ("weights_sqnr_db", "alone_db", "accumulated_db", "clipped", "dead_channels", "bits_needed", "bits_there"):
            assert row[key] == layer.get(names.get(key, key)), key
    crumb(*words, "--report", tmp_path / "out.html")
    assert [row["layer"] for row in tables_of(check_page((tmp_path / "out.html").read_text()))["Layers"]] == [row["layer"] for row in rows]


def test_sentences_are_in_the_page(crumb, minilm, tmp_path):
    lines = ["A <b>small</b> dog sleeps.", "Rain | is likely.", "He wrote three letters.", "\u202eNobody came."]
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    crumb("quantize", minilm, "-o", tmp_path / "m.crumb", "--weights", "int4:group=32")
    crumb("eval", tmp_path / "m.crumb", "--baseline", minilm, "--data", tmp_path / "lines.txt", "--report", tmp_path / "out.html")
    page = check_page((tmp_path / "out.html").read_text(encoding="utf-8"))
    found = {item.one("h3").text(): quote.text() for item in page.all("li") for quote in item.all("blockquote")}
    assert found == {f"Sample {i}": visible(line) for i, line in enumerate(lines)}


def test_a_sweep(crumb, made, tmp_path):
    words = ["sweep", made / "net.onnx", "--formats", "int2:channel,int4:channel", "--methods", "rounding", "--data", made / "x.npy",
             "--labels", made / "y.npy", "-o", tmp_path / "grid"]  # fmt: skip
    printed = json.loads(crumb(*words, "--json", "--report", tmp_path / "out.json").stdout)
    report = json.loads((tmp_path / "out.json").read_text())
    rows = report["tables"]["grid"]["rows"]
    assert [(row["format"], row["accuracy"], row["bytes"]) for row in rows] == [
        (row["format"], row["scores"]["accuracy"], row["bytes"]) for row in printed["rows"]
    ]
    (chart,) = report["charts"]
    assert [point["y"] for point in chart["points"]] == [row["accuracy"] for row in rows[1:]] and chart["level"] == rows[0]["accuracy"]
    crumb(*words, "--report", tmp_path / "out.html")  # finished cells are not computed again
    check_page((tmp_path / "out.html").read_text())
    done = crumb(*words, "--report", tmp_path / "grid/sweep.json", status=2)
    assert "--report" in done.stderr and "sweep.json" in done.stderr
    assert json.loads((tmp_path / "grid/sweep.json").read_text())["rows"]


@pytest.mark.usefixtures("engine")
def test_training(crumb, made, tmp_path):
    words = ["train", "graph", made / "net.onnx", "--data", made / "x.npy", "--labels", made / "y.npy", "--loss", "ce", "--epochs", 2,
             "--float-epochs", 1, "-o", tmp_path / "out"]  # fmt: skip
    printed = json.loads(crumb(*words, "--json", "--report", tmp_path / "out.json").stdout)
    report = json.loads((tmp_path / "out.json").read_text())
    values = {row["network"]: row["value"] for row in report["tables"]["networks"]["rows"]}
    assert (values["float"], values["trained"]) == (printed["float"], printed["quantized"])
    assert report["recipe"] == printed["recipe"] and len(report["histograms"]) == 2
    assert [row["bits_needed"] for row in report["tables"]["accumulators"]["rows"]] == [row["bits_needed"] for row in printed["accumulator"]]
    done = crumb(*words, "--report", tmp_path / "out/report.json", status=2)
    assert "is written by this run already" in done.stderr
    crumb(*words[:-1], tmp_path / "again", "--report", tmp_path / "out.html")
    check_page((tmp_path / "out.html").read_text())


# --- Hostile names ----------------------------------------------------------------------------------------------------

PIECES = ["<script>alert(1)</script>", "</script>", "</style>", "</title>", "<!--", "-->", "]]>", "<![CDATA[", '"', "'", "`", "&", "&lt;", "&#0;", "<",
          ">", "=", "|", "\\", "\\|", "\x00", "\x01", "\x1b[31m", "\x7f", "\x85", "\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u2028",
          "\ufffe", "\ufdd0", "\n", "\r\n", "\t", "javascript:alert(1)", "https://example.org/x.js", '" onload="alert(1)', "<img src=x onerror=alert(1)>",
          "<svg/onload=alert(1)>", "${7*7}", "{{7*7}}", "# ", "- ", "1. ", "***", "[a](b)", "![a](b)", "<http://a.b>", "\u05d0\u05d1", "\u65e5\u672c",
          "\U0001f600", "e\u0301", "\u200d", "%00", "../..", " ", "  ", "layer", "w"]  # fmt: skip


def visible(text):
    """As docs/report.md says."""
    out = []
    for c in text:
        code = ord(c)
        if code < 0x20 or code == 0x7F or 0x80 <= code < 0xA0:
            out.append("".join(f"\\x{byte:02x}" for byte in c.encode()))
        elif code in (0x61C, 0x200E, 0x200F, 0x2028, 0x2029) or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:
            out.append(f"\\u{{{code:04X}}}")
        else:
            out.append(c)
    return "".join(out)


@pytest.fixture(scope="module")
def hostile(crumb, tmp_path_factory):
    """200 layers with drawn names, quantized; the names."""
    work = tmp_path_factory.mktemp("hostile")
    rng = random.Random(11)
    names = []
    while len(names) < 200:
        name = "".join(rng.choices(PIECES, k=rng.randint(1, 6)))
        if name not in names and name.strip():
            names.append(name)
    network(work / "net.onnx", [8] * 201, weight=names)
    np.save(work / "x.npy", np.random.default_rng(2).normal(size=(8, 8)).astype(np.float32))
    crumb("quantize", work / "net.onnx", "-o", work / "<b>.crumb", "--weights", "int8:channel")
    return work, names


def test_hostile_names_do_nothing_and_a_page_of_200_layers_is_small(crumb, hostile):
    work, names = hostile
    for ending in ("html", "json", "md"):
        crumb("eval", work / "<b>.crumb", "--baseline", work / "net.onnx", "--data", work / "x.npy", "--report", work / f"out.{ending}")
    text = (work / "out.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    page = check_page(text)
    assert len(list(page.all("script"))) == len(list(page.all("style"))) == 1
    assert sorted(row["layer"] for row in tables_of(page)["Layers with codes"]) == sorted(map(visible, names))
    assert sorted(item.one("h3").text() for item in page.all("li") if item.children and any(True for _ in item.all("figure"))) == sorted(map(visible, names))
    report = json.loads((work / "out.json").read_text(encoding="utf-8"))
    assert sorted(one["layer"] for one in report["histograms"]) == sorted(names)
    markdown = pytest.importorskip("markdown_it")
    html = markdown.MarkdownIt("commonmark", {"html": False}).enable("table").render((work / "out.md").read_text(encoding="utf-8"))
    tables = [[[cell.text() for cell in row.children if isinstance(cell, Node)] for row in table.all("tr")] for table in Page(html).root.all("table")]
    rows = next(rows for rows in tables if rows[0][0] == "layer")
    assert sorted(row[0] for row in rows[1:]) == sorted(" ".join(visible(name).split(" ")).strip() for name in names)


def test_hostile_names_in_what_quantizing_made(crumb, hostile):
    work, names = hostile
    crumb("quantize", work / "net.onnx", "-o", work / "again.crumb", "--weights", "int8:channel", "--report", work / "made.html")
    text = (work / "made.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert sorted(row["weight"] for row in tables_of(check_page(text))["Weights"]) == sorted(map(visible, names))


def test_other_endings_and_other_outputs_are_refused(crumb, made):
    words = ["eval", made / "net2.crumb", "--baseline", made / "net.onnx", "--data", made / "x.npy", "--report"]
    for name in ("out.pdf", "out", "out.html.gz"):
        done = crumb(*words, made / name, status=2)
        assert "--report" in done.stderr and "ends in .html, .json or .md" in done.stderr
    assert not (made / "out.pdf").exists()
