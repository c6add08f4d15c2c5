"""The HTML page: everything inside, nothing from outside, and what a browser makes of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lra.report import page
from lra.report.load import load
from lra.report.rows import compare_rows, join

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def build(make, **chosen) -> str:
    results = load(make.root)
    return page.build(results, compare_rows(join(results, "mini"), "mini", **chosen))


def test_the_page_needs_no_network_and_may_not_use_any(make):
    make.score("local")
    html = build(make)
    assert "default-src 'none'" in html
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:)[a-z]+:""", html)
    assert outside == []
    assert set(re.findall(r"https?://[^\s\"']+", html)) == {"http://www.w3.org/2000/svg"}


def test_the_figures_are_inside(make):
    make.score("transformer", accuracy=0.41)
    make.speed("transformer")
    make.score("local", preset="lra")
    found = json.loads(re.search(r'id="data">(.*?)</script>', build(make), re.DOTALL)[1])  # type: ignore[index]
    assert [preset["name"] for preset in found["presets"]] == ["lra", "mini"]
    (row,) = found["presets"][1]["rows"]
    assert row["tasks"]["listops"]["seeds"] == {"0": 0.41}
    assert row["cells"]["toy-cpu"][0]["sequences_per_second"] == 80
    assert found["start"]["work"] == "1024/8/float32"


def test_an_error_or_a_family_cannot_break_out_of_the_page(make):
    make.score("a", family="</script><script>alert(1)")
    html = build(make)
    assert html.count("</script>") == 2
    assert "\\u003c/script>" in html


def body(html: str) -> list[list[str]]:
    """Cells of the table's body in a dumped page."""
    inside = re.search(r'<tbody id="body">(.*?)</tbody>', html, re.DOTALL)[1]  # type: ignore[index]
    return [re.findall(r"<td[^>]*>(.*?)</td>", line) for line in re.findall(r"<tr.*?</tr>", inside, re.DOTALL)]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_browser_draws_bubbles_and_table_and_follows_the_switches(make, tmp_path):
    for seed in (0, 1):
        make.score("transformer", seed=seed, accuracy=0.3 + 0.2 * seed)
        make.score("local", seed=seed, accuracy=0.35)
    make.score("transformer", "text", accuracy=0.9)
    make.score("local", "text", accuracy=0.6)
    make.score("fnet", accuracy=0.1)
    for variant in ("transformer", "local"):
        make.speed(variant, [make.cell(), make.cell(0.01, mode="inference")])
    path = tmp_path / "page.html"
    path.write_text(build(make))

    def dump(switches: str) -> str:
        command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
        call = [*command, "--dump-dom", f"file://{path}#{switches}"]
        return subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout

    html = dump("")
    assert set(re.findall(r'class="bubble"[^>]*data-variant="([^"]+)"', html)) == {"transformer", "local"}
    assert "Not drawn: fnet (not measured on this work)" in html
    assert [line[:3] for line in body(html)] == [
        ["transformer", "dense", "40.0 ± 14.1"],
        ["local", "patterns", "35.0 ± 0.0"],
        ["fnet", "attention-free", "10.0"],
    ]
    html = dump("task=listops&seed=0&mode=inference&log=true")
    assert "preset mini | inference at length 1,024" in html
    assert [line[2] for line in body(html)] == ["35.0", "30.0", "10.0"]
    assert 'id="log" checked' in html or "logarithmic" in html
    html = dump("task=text&sort=text&descending=false")
    assert html.count('class="bubble"') == 2
    assert [line[0] for line in body(html)] == ["local", "transformer", "fnet"]  # what is missing comes last


def test_page_files_lie_beside_the_module():
    folder = Path(page.__file__).parent
    assert "DATA" in (folder / "page.html").read_text()
    assert (folder / "page.js").read_text().startswith('"use strict";')
