"""The drawing of the pipeline leaves out what follows, and says how each component ended."""

from taskmix.report import dag_drawing


def test_an_edge_that_follows_from_others_is_left_out():
  edges = dag_drawing.reduced({"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"gone", "c"}})
  assert edges == {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"c"}}


def test_a_component_stands_in_the_lane_of_its_net():
  assert dag_drawing.lane_of("Trainer-pnet", ["pnet", "rnet"]) == "pnet"
  assert dag_drawing.lane_of("ModelPusher", ["pnet", "rnet"]) == dag_drawing.SHARED


def test_times_and_cache_hits_are_told(pushed):
  svg = dag_drawing.draw(pushed.steps, ["pnet"], standing=False)
  assert "StatisticsGen-pnet: 25.8 s" in svg
  assert "CropExampleGen-pnet: from cache" in svg
  # CropExampleGen -> StatisticsGen -> Trainer -> ModelPusher.
  assert svg.count('class="edge"') == 3
