"""The page in a real browser: nothing overflows, and all can be read, light, dark and on paper."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ebrl.planner.report import write
from tests.planner.report import material

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DARK, LIGHT = 0, 1  # as chromium numbers colour schemes

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

# Runs inside the page: what a reader would stumble over, as JSON in a <pre>. A contrast of 4.5 is
# what WCAG asks of text.
LOOK = """
const luminance = ([r, g, b]) => {
  const f = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  return .2126 * f(r) + .7152 * f(g) + .0722 * f(b);
};
const colour = text => text.match(/[\\d.]+/g).map(Number);
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + .05) / (y + .05);
};
const behind = node => {
  const part = node.closest('svg.bar') && node.previousElementSibling;
  if (part) return colour(getComputedStyle(part).fill);
  for (let at = node; at; at = at.parentElement) {
    const found = colour(getComputedStyle(at).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const seen = {texts: 0, faint: [], spilt: [], empty: []};
for (const node of document.querySelectorAll('body *')) {
  const text = [...node.childNodes].filter(n => n.nodeType == 3).map(n => n.data.trim()).join('');
  const box = node.getBoundingClientRect();
  if (!text || !box.width || ['STYLE', 'title', 'desc', 'SCRIPT'].includes(node.tagName)) continue;
  const style = getComputedStyle(node);
  const drawn = node.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const found = contrast(colour(drawn), behind(node));
  seen.texts += 1;
  if (found < 4.5) seen.faint.push([text.slice(0, 30), found.toFixed(2)]);
  const part = node.closest('svg.bar') && node.previousElementSibling.getBoundingClientRect();
  if (part && (box.left < part.left || box.right > part.right)) seen.spilt.push(text);
}
for (const picture of document.querySelectorAll('figure svg')) {
  const box = picture.getBoundingClientRect();
  if (box.width < 8 || box.height < 8) seen.empty.push(picture.outerHTML.slice(0, 80));
}
seen.pictures = document.querySelectorAll('figure svg[aria-labelledby]').length;
seen.overflow = document.documentElement.scrollWidth - innerWidth;
seen.ground = getComputedStyle(document.body).backgroundColor;
const told = document.createElement('pre');
told.id = 'told';
told.textContent = JSON.stringify(seen);
document.body.append(told);
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    run = material.run_directory(folder / "run")
    write(run / "plan.json", run, folder / "report.html")
    return folder / "report.html"


def browse(tmp_path: Path, page: Path, *arguments: str) -> str:
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("scheme", "width"), [(LIGHT, 1280), (DARK, 500)], ids=["light, wide", "dark, narrow"]
)
def test_nothing_overflows_and_everything_can_be_read(
    scheme: int, width: int, report: Path, tmp_path: Path
):
    # The page forbids scripts; the copy that is looked at allows this one.
    text = re.sub(r"<meta http-equiv=[^>]*>", "", report.read_text())
    copy = tmp_path / "copy.html"
    copy.write_text(text.replace("</body>", f"<script>{LOOK}</script></body>"))
    dom = browse(
        tmp_path,
        copy,
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--window-size={width},2000",
        "--dump-dom",
    )
    told = re.search(r'<pre id="told">(.*?)</pre>', dom)
    seen: dict[str, Any] = json.loads(html.unescape(told[1]))
    assert seen["ground"] == ("rgb(15, 18, 22)" if scheme == DARK else "rgb(245, 246, 248)")
    assert seen["texts"] > 200
    assert seen["pictures"] == 7  # the graph, four curves, two metrics
    assert seen["overflow"] <= 0
    assert seen["faint"] == []
    assert seen["spilt"] == []
    assert seen["empty"] == []


def test_it_prints_on_a_few_pages_of_paper(report: Path, tmp_path: Path):
    paper = tmp_path / "report.pdf"
    browse(tmp_path, report, f"--print-to-pdf={paper}")
    pages = re.findall(rb"/Type\s*/Page\b", paper.read_bytes())
    assert 3 <= len(pages) <= 8
