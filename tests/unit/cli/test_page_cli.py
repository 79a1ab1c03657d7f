"""``convc report``: a file or stdout, with the verdicts where they are asked for."""

from __future__ import annotations


def test_a_report_of_a_model_with_its_verdicts(convc, two, tmp_path):
    said = convc.good("report", two, "--verify", "-o", tmp_path / "page.html")
    assert "page.html: 2 layers, " in said
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<td>exact, in bound</td>") == 2


def test_a_report_of_one_layer_goes_to_stdout(convc, two):
    page = convc.good("report", two, "--layer", "head", "-o", "-")
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>")
    assert page.count("<section") == 1
    assert 'data-schedule="reload"' in page
