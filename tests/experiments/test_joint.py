"""`python -m experiments joint`: both ways on the same pairs of tiny performances, and their table."""

from experiments import Document
from experiments.alignments import joint, vienna
from experiments.registry import experiment, units_of
from tests.experiments.test_alignments import data_dir  # noqa: F401 (a fixture)


def test_an_excerpt_is_scored_both_ways_and_reported(data_dir, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(vienna, "PIANISTS", range(1, 5))
    entry = experiment(joint.NAME)
    units = units_of(
        entry, backbones=None, per_class=None, pairs=2, datasets=["vienna"], seeds=[0], quick=True, data_dir=data_dir
    )
    assert len(units) == 2 * len(vienna.PIECES)
    results = [(unit, entry.work(unit, data_dir=data_dir)) for unit in units[:2]]
    assert joint.drawn(units[0]) == joint.drawn(units[1])
    for _, result in results:
        assert len(result["scores"]) == 2
        assert all(one["error"] < 125 for one in result["scores"])
    document = Document(entry.title)
    entry.report(results, document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert "| all | 2 |" in text
    assert "error: joint / pairs" in text
