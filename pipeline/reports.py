"""The reports of finished runs: found, rendered anew, compared, logged to MLflow."""

import dataclasses
import pathlib

from pipeline.folders import RunFolder
from taskmix.report import CARD, FACTS, REPORT, compare, page
from taskmix.report.compare import Difference
from taskmix.report.facts import RunFacts


@dataclasses.dataclass(frozen=True)
class Compared:
  """Two runs compared.

  Attributes:
    differences: what changed.
    text: the same for a terminal.
    page: the HTML file with it.
  """

  differences: tuple[Difference, ...]
  text: str
  page: pathlib.Path


def read_facts(run: pathlib.Path) -> RunFacts:
  """What is known of a run.

  Args:
    run: a run folder, whose newest report is taken; or a folder with facts.json.

  Raises:
    ValueError: if there is no report, or one that this version cannot read.
  """
  path = facts_file(run)
  try:
    return RunFacts.from_json(path.read_text())
  except ValueError as error:
    raise ValueError(
      f"{path} cannot be read by this taskmix ({str(error).splitlines()[0]}); run again, which "
      "takes all but the report from the cache"
    ) from None


def facts_file(run: pathlib.Path) -> pathlib.Path:
  """The facts of a run folder's newest report, or of the folder itself; raises ValueError."""
  if (run / FACTS).is_file():
    return run / FACTS
  if not run.is_dir():
    raise ValueError(f"no run folder {run}")
  folder = RunFolder(run)
  found = list((folder.artifacts / "ReportGen" / "report").glob(f"*/{FACTS}"))
  if not found:
    raise ValueError(
      f"{run} has no report: no run in it has come to an end yet. Give the folder of one config's runs, "
      "such as runs/demo"
    )
  # Named after their executions, whose numbers grow.
  return max(found, key=lambda path: int(path.parent.name))


def write_report(run: pathlib.Path, *, out: pathlib.Path | None = None) -> pathlib.Path:
  """Renders a run's page anew; by default into its run folder. Raises as `read_facts`."""
  facts = read_facts(run)
  target = out or RunFolder(run).report
  target.parent.mkdir(parents=True, exist_ok=True)
  target.write_text(page.render(facts))
  return target


def compare_runs(before: pathlib.Path, after: pathlib.Path, *, out: pathlib.Path | None = None) -> Compared:
  """Writes what changed into a page, by default comparison.html of the second run; raises as `read_facts`."""
  old, new = read_facts(before), read_facts(after)
  target = out or after / "comparison.html"
  target.parent.mkdir(parents=True, exist_ok=True)
  target.write_text(compare.render(old, new))
  return Compared(compare.compare(old, new), compare.text(old, new), target)


def log_to_mlflow(run: pathlib.Path, *, uri: str) -> str:
  """Logs a run to MLflow; its id there. Raises as `read_facts`, and `ImportError` without MLflow."""
  from taskmix.report import tracking

  facts = read_facts(run)
  folder = facts_file(run).parent
  files = [folder / name for name in (REPORT, CARD) if (folder / name).is_file()]
  return tracking.log_run(facts, uri=uri, files=files)
