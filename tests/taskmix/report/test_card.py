"""The model card: from the artifacts, and from what a person says."""

import dataclasses

from taskmix.report import card


def test_a_card_tells_use_data_figures_limits_and_licence(pushed):
  text = pushed.card
  for heading in ("Intended use", "Model", "Data", "Figures", "Limits"):
    assert f"\n## {heading}\n" in text
  assert "To show it." in text and "Licence: CC0" in text
  assert "75 photos: 63 train, 12 evaluate, 1 left out." in text
  assert "| face | accuracy | all | 833 | 0.8580 | at least 0.8 |" in text
  assert "| average precision | 0.6880 |" in text


def test_limits_follow_from_the_figures(pushed):
  limits = pushed.card.partition("## Limits")[2]
  assert "12 held-out photos alone, so they are rough" in limits
  assert "No held-out face has a shorter side of 20 to 40 pixels" in limits
  assert "pnet: face accuracy is 0.628 where kind is pos, 0.858 overall." in limits
  assert "too few held-out samples to tell where face_size is 20 to 40 (12)" in limits


def test_what_nobody_said_is_asked_for(pushed):
  text = card.model_card("mine", pushed.nets, None, card.CardNotes())
  assert text.count("fill in `card` in the config") == 2


def test_there_is_no_card_of_a_net_that_was_not_evaluated(pushed):
  (net,) = pushed.nets
  assert card.model_card("mine", (dataclasses.replace(net, metrics=()),), None, card.CardNotes()) == ""


def test_a_slice_is_weak_when_it_has_a_quarter_more_error():
  assert card.is_weak(0.62, 0.86, higher_is_better=True)
  assert not card.is_weak(0.85, 0.86, higher_is_better=True)
  assert card.is_weak(0.13, 0.1, higher_is_better=False)
  assert not card.is_weak(0.09, 0.1, higher_is_better=False)
