"""A page says what came of a run, needs nothing else, and shows what there is alone."""

import dataclasses
import re

import pytest

from taskmix.report import charts, facts, markdown, page


def _sections(html: str) -> list[str]:
  return re.findall(r'<section id="(\w+)"', html)


def test_facts_are_the_same_after_json(pushed, refused):
  for run in (pushed, refused):
    assert facts.RunFacts.from_json(run.to_json()) == run


@pytest.mark.parametrize("name", ["pushed", "refused"])
def test_a_page_is_one_file_that_asks_for_nothing(name, request):
  html = page.render(request.getfixturevalue(name))
  assert len(html) < 5_000_000
  assert not re.search(r"https?://|<script|@import|<link [^>]*stylesheet", html)
  assert all(
    source.startswith("data:image/jpeg;base64,")
    for source in re.findall(r'(?:src|href)="([^#"][^"]*)"', html)
    if source != "data:,"
  )


def test_a_pushed_run_says_so_and_where(pushed):
  html = page.render(pushed)
  verdict = html[html.index('id="verdict"') : html.index('id="pipeline"')]
  assert "Pushed</h2>" in verdict
  assert "runs/demo/serving/detector/17" in verdict
  assert "average precision" in verdict and "0.688" in verdict


def test_a_stopped_run_says_which_gate_which_number_and_which_bound(refused):
  html = page.render(refused)
  verdict = html[html.index('id="verdict"') : html.index('id="pipeline"')]
  assert "Stopped by ModelGate-pnet" in verdict
  assert "Evaluator-pnet: face accuracy is 0.7000, must be at least 0.8." in verdict
  assert "cannot be shown: OSError: gone" in verdict
  assert 'class="step failed"' in html


def test_sections_are_there_only_where_they_apply(pushed, refused):
  assert "detector" in _sections(page.render(pushed))
  assert "detector" not in _sections(page.render(refused))
  bare = dataclasses.replace(refused, nets=(facts.Net("pnet", (12, 12, 3), "m:f", kinds=()),), card="")
  assert _sections(page.render(bare)) == ["verdict", "pipeline", "data", "origin", "repeat"]


def test_names_from_data_are_text_and_no_markup(pushed):
  html = page.render(pushed)
  assert "<script>broken" not in html
  assert "&lt;script&gt;broken" in html


def test_a_metric_stands_beside_the_last_blessed_and_a_weak_slice_is_marked(pushed):
  (table,) = page.metric_tables(pushed.nets[0])
  words, ((whole,), (pos,), (few,)) = [row[0] for row in table["rows"]], [row[1] for row in table["rows"]]
  assert words == ["all", "kind is pos", "face_size is 20 to 40"]
  assert (round(whole["change"], 4), whole["better"], whole["weak"]) == (-0.052, False, False)
  assert pos["weak"]
  assert few["baseline"] is None and few["change"] is None


def test_an_audit_is_told_in_a_sentence(pushed):
  (audit,) = pushed.nets[0].training.audits
  assert page.audit_words(audit).startswith("In every one of 1,500 batches")
  short = dataclasses.replace(audit, kinds=(dataclasses.replace(audit.kinds[0], least=63),))
  assert page.audit_words(short).startswith("The contract was broken for pos")


@pytest.mark.parametrize(
  ("limits", "expected"),
  [
    ((0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ((0, 600), [0, 100, 200, 300, 400, 500, 600]),
    ((-1, 1), [-1, -0.5, 0, 0.5, 1]),
  ],
)
def test_ticks_are_round(limits, expected):
  assert charts.ticks(limits) == expected


def test_a_gap_breaks_a_line_and_a_lone_point_is_a_dot():
  svg = charts.line_chart(
    [facts.Curve("loss", (0, 1, 2, 3), (1.0, 0.5, None, 0.2))], title="Loss", x_label="step", y_label="loss"
  )
  assert svg.count("<path") == 1 and svg.count("<circle") == 1
  assert 'aria-label="Loss: loss ends at 0.2"' in svg


@pytest.mark.parametrize(
  ("value", "words"), [(0.0947, "94.7 ms"), (4.6, "4.6 s"), (624.0, "10 min 24 s"), (7260, "2 h 01 min")]
)
def test_durations_are_in_a_persons_units(value, words):
  assert page.seconds(value) == words


@pytest.mark.parametrize(
  ("value", "words"), [(None, page.NONE), (0, "0"), (1851, "1,851"), (0.8583, "0.858"), (12.34, "12.3")]
)
def test_numbers_are_as_long_as_they_tell_something(value, words):
  assert page.number(value) == words


def test_markdown_of_a_card_becomes_headings_tables_and_lists():
  html = markdown.to_html("# Card\n\n| a | b |\n| --- | --- |\n| 1 | <2> |\n\n- one\n- two\n")
  assert html.startswith("<h3>Card</h3>")
  assert '<th scope="col">b</th>' in html and "<td>&lt;2&gt;</td>" in html
  assert "<ul><li>one</li><li>two</li></ul>" in html
