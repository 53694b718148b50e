"""`Document`: the same content in Markdown and in one HTML file, and plain text is never interpreted as markup."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from experiments import Document, escape_markdown
from udtw.errors import ShapeError

VOID = {"meta", "img", "br", "hr"}
EVIL = '<script>alert("1")</script> & | `x` *y* _z_'


class Outline(HTMLParser):
    """Tags that are open and closed in order, and the text between them."""

    def __init__(self, source):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def find(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def written(document, folder):
    path = document.write(folder)
    assert path == folder / "report.html"
    outline = Outline(path.read_text())
    assert outline.open == []
    return outline, (folder / "report.md").read_text()


def test_text_tables_and_title_are_in_both_reports(tmp_path):
    document = Document("Results")
    document.text("## Setting\n\nWith **care** and `code`.\n\n- one\n- two")
    document.table("Accuracy", ["set", "mean"], [["A", 0.123456], ["B", None]], note="Five seeds.")
    outline, markdown = written(document, tmp_path)
    assert markdown == (
        "# Results\n\n## Setting\n\nWith **care** and `code`.\n\n- one\n- two\n\n**Accuracy**\n\n"
        "| set | mean |\n| --- | ---: |\n| A | 0.1235 |\n| B | – |\n\nFive seeds.\n"
    )
    assert {"h1", "h2", "strong", "code", "li", "caption"} <= {tag for tag, _ in outline.tags}
    assert [cell.get("class") for cell in outline.find("td")] == [None, "number"] * 2
    assert "Five seeds." in outline.words


def test_foreign_strings_are_shown_and_never_run(tmp_path):
    document = Document(EVIL)
    document.text(EVIL + " [link](javascript:alert(1)) ![image](http://example.org/x.png)")
    document.table(EVIL, [EVIL], [[EVIL]], note=EVIL)
    outline, markdown = written(document, tmp_path)
    assert outline.find("script") == []
    assert outline.find("img") == []
    assert not any("javascript" in str(attributes.get("href")) for attributes in outline.find("a"))
    # Title, heading, caption, column, cell and note.
    assert "".join(outline.words).count(EVIL) == 6
    assert markdown.count("<script>") == 1  # in the text alone, which is the author's own Markdown
    assert escape_markdown(EVIL) in markdown


def test_markdown_escapes_keep_a_cell_in_its_cell():
    assert escape_markdown("a|b\nc") == r"a\|b c"
    assert escape_markdown("<b> & [x](y) #1 \\") == r"&lt;b&gt; &amp; \[x\](y) \#1 " + "\\\\"


def test_figures_are_embedded_and_also_files(tmp_path):
    plt = pytest.importorskip("matplotlib.figure")
    figure = plt.Figure(figsize=(2, 1))
    figure.subplots().plot(np.arange(3))
    document = Document("Figures")
    document.figure(figure, 'a "quoted" <caption>')
    document.figure(figure, "again")
    figure.clear()
    outline, markdown = written(document, tmp_path)
    png = (tmp_path / "figure-01.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert png == (tmp_path / "figure-02.png").read_bytes()
    first, second = outline.find("img")
    assert first["alt"] == 'a "quoted" <caption>'
    assert base64.b64decode(first["src"].removeprefix("data:image/png;base64,")) == png
    assert second["alt"] == "again"
    assert "(figure-02.png)\n\n*again*" in markdown


def test_the_page_needs_no_other_file_and_no_network(tmp_path):
    document = Document("Alone")
    document.table("t", ["a"], [[1]])
    source = document.write(tmp_path).read_text()
    assert not re.search(r"https?://|<link|<script|@import|url\(", source)
    assert "prefers-color-scheme: dark" in source
    assert 'name="viewport"' in source


@pytest.mark.parametrize("cell", ["83.3 ± 1.2", "12 %", "-3", "−0.5", "1e-05", 7, 0.25, None, float("nan"), ""])
def test_numbers_are_aligned_on_the_right(tmp_path, cell):
    document = Document("t")
    document.table("t", ["n", "mixed"], [[cell, "word"], [1, 2]])
    outline, _ = written(document, tmp_path)
    assert [head.get("class") for head in outline.find("th")] == ["number", None]


def test_a_row_of_another_width_is_refused():
    with pytest.raises(ShapeError, match="Row 1 of table 'Accuracy' has 1 cells, but there are 2 columns"):
        Document("t").table("Accuracy", ["a", "b"], [[1, 2], [3]])


def test_an_empty_table_and_an_empty_document_are_fine(tmp_path):
    document = Document("")
    written(document, tmp_path)
    document.table("none", ["a"], [])
    written(document, tmp_path)


def test_writing_again_replaces_the_report(tmp_path):
    for title in ("first", "second"):
        Document(title).write(tmp_path)
    assert "second" in (tmp_path / "report.md").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.md"]
