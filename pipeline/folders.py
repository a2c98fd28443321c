"""Where a run keeps what it makes."""

import dataclasses
import pathlib

from taskmix.report import REPORT

# What a cascade is called where it is pushed.
DETECTOR = "detector"


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """One folder that holds everything of a config's runs.

  Deleting it forgets the cache and the pushed models, and nothing else.
  """

  root: pathlib.Path

  @property
  def metadata(self) -> pathlib.Path:
    """ML Metadata's SQLite file: what ran, on what, with which result."""
    return self.root / "metadata.sqlite"

  @property
  def artifacts(self) -> pathlib.Path:
    """A folder a component, with one a execution inside."""
    return self.root / "artifacts"

  @property
  def checkpoints(self) -> pathlib.Path:
    """Of a training that has not finished; outside the artifacts, since a re-run is another execution."""
    return self.root / "checkpoints"

  @property
  def serving(self) -> pathlib.Path:
    """Pushed models as TF Serving reads them: <net or "detector">/<version>/saved_model.pb."""
    return self.root / "serving"

  @property
  def pictures(self) -> pathlib.Path:
    """Held-out photos with what the pushed detectors found, one picture a version."""
    return self.root / "pictures"

  @property
  def report(self) -> pathlib.Path:
    """The report of the last run; those of all lie in artifacts/ReportGen."""
    return self.root / REPORT

  @property
  def journals(self) -> pathlib.Path:
    """A file a run: its components, their times, what ended it."""
    return self.root / "journals"

  @property
  def logs(self) -> pathlib.Path:
    """What TFX, Beam and TensorFlow had to say."""
    return self.root / "logs"
