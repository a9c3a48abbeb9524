"""Pages in headless Chromium, on a telephone and a desk, light and dark: axe-core finds no fault, nothing is said on the
console, nothing is wider than the window, and tables sort."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_report import hostile, made  # noqa: F401  (fixtures)

pytestmark = pytest.mark.slow

# Runs inside the page, whose policy is left out of the copy, and tells the page around it.
RUNNER = """
const faults = [];
addEventListener("error", event => faults.push(event.message));
addEventListener("load", async () => {
  const found = {faults, dark: matchMedia("(prefers-color-scheme: dark)").matches, width: innerWidth,
                 wide: document.documentElement.scrollWidth - innerWidth, sorts: []};
  for (const table of document.querySelectorAll("table"))
    for (const head of table.tHead.rows[0].cells) {
      for (const times of [1, 2]) {
        head.querySelector("button").click();
        found.sorts.push([head.className, head.getAttribute("aria-sort"), table.querySelectorAll("[aria-sort]").length,
          Array.from(table.tBodies[0].rows, row => row.cells[head.cellIndex]).map(cell => cell.dataset.v ?? cell.textContent)]);
      }
    }
  const result = await axe.run();
  found.passes = result.passes.length;
  found.violations = result.violations.map(one => one.id + ": " + one.nodes[0].html + ": " + one.nodes[0].failureSummary);
  parent.postMessage(JSON.stringify(found), "*");
});
"""
AROUND = """<!DOCTYPE html><body style="margin:0"><pre id="found"></pre><script>
addEventListener("message", event => { document.getElementById("found").textContent = event.data; });
</script><iframe src="%s" width="%d" height="900" style="border:0"></iframe></body>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """browser(file, *flags): what Chromium has of the page, and what was said on its console."""
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium is not there: scripts/setup slow-tests")

    def run(file, *flags):
        profile = tmp_path_factory.mktemp("profile")
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr",
                   "--allow-file-access-from-files", "--virtual-time-budget=60000", "--window-size=1400,1000", *flags, "--dump-dom",
                   Path(file).as_uri()]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


@pytest.fixture(scope="module")
def axe():
    cache = Path(os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb")
    script = cache / "axe/axe_playwright_python/axe.min.js"
    if not script.is_file():
        pytest.skip("axe-core is not there: scripts/setup slow-tests")
    return script.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(crumb, made, hostile):  # noqa: F811
    work, _ = hostile
    data = ["--data", made / "x.npy", "--labels", made / "y.npy"]
    crumb("eval", made / "net2.crumb", made / "net8.crumb", "--baseline", made / "net.onnx", *data, "--layers", "--report", made / "eval.html")
    crumb("quantize", made / "net.onnx", "-o", made / "net.crumb", "--scheme", "W8A8", "--data", made / "x.npy", "--report", made / "quantize.html")
    crumb("sweep", made / "net.onnx", "--formats", "int2:channel,int4:channel", *data, "-o", made / "grid", "--report", made / "sweep.html")
    crumb("eval", work / "<b>.crumb", "--baseline", work / "net.onnx", "--data", work / "x.npy", "--report", work / "hostile.html")
    return {"eval": made / "eval.html", "quantize": made / "quantize.html", "sweep": made / "sweep.html", "hostile": work / "hostile.html"}


@pytest.mark.parametrize("name", ["eval", "quantize", "sweep", "hostile"])
def test_nothing_is_said_on_the_console(browser, pages, name):
    dom, console = browser(pages[name])
    assert "<h1>" in dom and console == []
    broken = pages[name].with_name("broken.html")  # what a script of somebody else would come to
    broken.write_text(pages[name].read_text().replace("</body>", "<script>document.title = 'mine'</script></body>"))
    dom, console = browser(broken)
    assert "<title>mine</title>" not in dom and "Content Security Policy" in " ".join(console)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["eval", "quantize", "sweep", "hostile"])
def test_pages_for_everybody(browser, axe, pages, name, width, scheme):
    page = pages[name].read_text(encoding="utf-8")
    copy, around = pages[name].with_name("copy.html"), pages[name].with_name("around.html")
    copy.write_text(re.sub("<meta http-equiv[^>]*>", "", page).replace("</head>", f"<script>{axe}</script><script>{RUNNER}</script></head>"), encoding="utf-8")
    around.write_text(AROUND % (copy.name, width))
    dom, _ = browser(around, f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}")
    found = json.loads(html.unescape(re.search('<pre id="found">(.*?)</pre>', dom, re.S)[1]))
    assert (found["dark"], found["width"], found["faults"]) == (scheme == "dark", width, [])
    assert found["violations"] == [] and found["passes"] > 20
    assert found["wide"] <= 0
    for kind, order, marks, cells in found["sorts"]:
        assert marks == 1 and order in ("ascending", "descending")
        if kind == "n":
            numbers = np.array([float(cell.replace("Infinity", "inf")) if re.match(r"[-+\d.I]", cell) else np.nan for cell in cells])
            known = numbers[~np.isnan(numbers)]
            assert np.isnan(numbers[len(known) :]).all()  # what is not known comes last
            steps = known[:-1] <= known[1:] if order == "ascending" else known[:-1] >= known[1:]
            assert steps.all(), (order, cells)
