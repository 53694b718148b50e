"""Run the code of the gallery and of other pictures, and keep the figures in two colors (MkDocs hook).

A picture ``pictures/plot_NAME.svg`` in any page becomes the one of the reader's theme. mkdocs-matplotlib (0.10) keeps
only pyplot's current figure, and mkdocs-gallery (0.10) makes a page of each script; neither draws for two themes.
"""

import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from mkdocs.structure.files import File, Files

PAGE = "gallery.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
CALL = re.compile(r"\b(plot_\w+)\(")
PICTURE = re.compile(r"!\[([^\]]*)\]\(((?:\.\./)?pictures/\w+)\.svg\)")
TEXT = {"light": "#1F2933", "dark": "#D9DEE6"}
BRIGHTER = {b"#0072b2": b"#4fa8e0", b"#009e73": b"#3cc49a", b"#d55e00": b"#ff8a3d", b"#c8283a": b"#ff7482"}
"""Brighter replacements of line colors that are too dark on a dark background."""
HOME = {
    f"hero_{name}": f"from udtw.demo.series import picture\nfigure = picture({number})"
    for number, name in enumerate(("dtw", "soft_dtw", "udtw"))
}
HOME["search"] = """
import numpy as np
from udtw.cli.figures import search_figure
from udtw.data.series_files import Series
from udtw.timeseries import SubsequenceSearch
rng = np.random.default_rng(0)
stream = 0.2 * rng.standard_normal(600)
stream[100:160] += np.sin(np.linspace(0, 2 * np.pi, 60))
stream[350:440] += np.sin(np.linspace(0, 2 * np.pi, 90))
found = SubsequenceSearch(np.sin(np.linspace(0, 2 * np.pi, 60))).search(stream, k=2)
figure = search_figure(Series(stream[:, None], ['value'], steps=np.arange(600)), found)
"""
HOME["speedups"] = r"""
import re
from pathlib import Path
from matplotlib.figure import Figure
from udtw.plots.style import X_COLOR
page = Path("docs/benchmarks.md").read_text(encoding="utf-8")
rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([\d.]+)× \|", page, re.MULTILINE)[::-1]
figure = Figure((9, 0.4 * len(rows) + 0.6), layout="constrained")
axes = figure.subplots()
axes.barh(range(len(rows)), [float(times) for *_, times in rows], color=X_COLOR)
for place, (_, rival, times) in enumerate(rows):
    axes.text(float(times) + 0.4, place, f"{times} × {rival}", va="center", fontsize=10)
axes.set_yticks(range(len(rows)), [work for work, *_ in rows])
axes.set_xlim(0, 1.7 * max(float(times) for *_, times in rows))
axes.axvline(1, color="0.5", linewidth=1)
axes.set_xlabel("times as fast as the other library (line: equally fast)")
axes.spines[["top", "right"]].set_visible(False)
"""
"""Code of the pictures of the home page and of the benchmarks that are not in the gallery."""
COLORED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")


def on_files(files: Files, config: Any) -> Files:
    """Add the pictures to the files of the site."""
    code = (Path(config.docs_dir) / PAGE).read_text(encoding="utf-8")
    for name, content in pictures(code).items():
        files.append(File.generated(config, f"pictures/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show each picture in the colors of the reader's theme."""
    return PICTURE.sub(r"![\1](\2-light.svg#only-light)![\1](\2-dark.svg#only-dark)", markdown)


@cache
def pictures(page: str) -> dict[str, bytes]:
    """Map names to the SVG of every figure drawn by the code of a page."""
    drawn = {}
    for name, block in ({CALL.findall(one)[-1]: one for one in BLOCK.findall(page)} | HOME).items():
        for theme in TEXT:
            drawn[f"{name}-{theme}.svg"] = draw(block, theme)
    return drawn


def draw(code: str, theme: str) -> bytes:
    """Draw the ``figure`` of the code on a transparent background."""
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    ground = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none")
    with matplotlib.rc_context(ground | dict.fromkeys(COLORED, TEXT[theme]) | {"svg.hashsalt": "udtw"}):
        exec(compile(code, PAGE, "exec"), names)
        figure = names["figure"]
        assert isinstance(figure, Figure), "each block of the gallery makes a `figure`"
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", dpi=120, metadata={"Date": None})
    content = buffer.getvalue()
    for dim, bright in BRIGHTER.items() if theme == "dark" else ():
        content = content.replace(dim, bright)
    return content
