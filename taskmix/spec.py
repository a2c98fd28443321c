"""What a net learns, from which samples, in what proportion.

Everything here is frozen plain data: picklable, hashable, JSON-able, and each
class checks itself. `Net` is the single source of truth: splits, schema, masks,
batches, heads, losses, metrics, evaluation and serving signatures are derived
from it, in the modules named after them.
"""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Sequence
from typing import Literal, TypeVar

import pydantic

from taskmix.fields import told

PHASES = ("train", "eval")

# Columns that every example carries beside its targets.
IMAGE = "image"
KIND = "kind"
IMAGE_ID = "image_id"

T = TypeVar("T")

_STRICT = pydantic.ConfigDict(extra="forbid")


@dataclasses.dataclass(frozen=True)
class Column:
  """One feature of a tf.Example: a dense array of one dtype and shape.

  Attributes:
    name: the feature's key.
    dtype: "uint8" is stored as one bytes value of prod(shape) raw bytes in C
      order; "int64", "float32" and "string" are stored as lists of values.
    shape: of one example; () is a scalar.
    low, high: the closed range of the values, where one is known.
    classes: the names of the classes that an int64 scalar counts from 0.
    geometry: what in the image a float32 column is, so that it follows when an
      augmentation moves the image: "box", as (box - crop) / side of four edges,
      or "points", as (point - corner) / side, x and y in turn.
    slices: rising edges between which the evaluation is told apart: (40, 80)
      makes "under 40", "40 to 80" (40 is in, 80 is not) and "80 and over".
  """

  __pydantic_config__ = _STRICT

  name: str
  dtype: Literal["uint8", "int64", "float32", "string"]
  shape: tuple[int, ...] = ()
  low: float | None = None
  high: float | None = None
  classes: tuple[str, ...] = ()
  geometry: Literal["", "box", "points"] = ""
  slices: tuple[float, ...] = ()

  def __post_init__(self):
    _require_name(self.name, "column")
    if any(size < 1 for size in self.shape):
      raise ValueError(f"column {self.name!r}: every side of shape {self.shape} must be 1 or more")
    if self.low is not None and self.high is not None and self.low > self.high:
      raise ValueError(f"column {self.name!r}: low {self.low} is above high {self.high}")
    if self.classes and (self.dtype != "int64" or self.shape):
      raise ValueError(
        f"column {self.name!r}: classes belong to an int64 scalar, not to {self.dtype} {self.shape}"
      )
    if self.slices and (self.shape or self.dtype not in ("int64", "float32")):
      raise ValueError(
        f"column {self.name!r}: slices belong to a number an example, not to {self.dtype} {self.shape}"
      )
    if list(self.slices) != sorted(set(self.slices)):
      raise ValueError(f"column {self.name!r}: the edges of its slices must rise, not {self.slices}")

  @property
  def slice_names(self) -> tuple[str, ...]:
    """What the slices are called, from low to high: one more than edges."""
    edges = [f"{edge:g}" for edge in self.slices]
    if not edges:
      return ()
    between = (f"{low} to {high}" for low, high in itertools.pairwise(edges))
    return (f"under {edges[0]}", *between, f"{edges[-1]} and over")

  @property
  def slice_column(self) -> str:
    """The column of the evaluation that holds an example's slice name."""
    return f"{self.name}_slice"

  @property
  def size(self) -> int:
    """Values in one example."""
    return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class SampleKind:
  """One way of making a sample, and its share of every batch.

  Attributes:
    name: part of the split's name, so letters, digits and underscores.
    share: parts of the mixture's ratio, 1 or more.
    min_iou, max_iou: for crops, the range of the IoU with the nearest of all
      faces of the photo; None for kinds that no IoU decides.
    closed: which ends of that range belong to it.
    when_short: what happens when the kind's examples are used up: "repeat"
      starts another epoch of it, "stop" ends the data, "error" raises.
  """

  __pydantic_config__ = _STRICT

  name: str
  share: int
  min_iou: float | None = None
  max_iou: float | None = None
  closed: Literal["both", "left", "right", "neither"] = "both"
  when_short: Literal["repeat", "stop", "error"] = "repeat"

  def __post_init__(self):
    _require_name(self.name, "kind")
    if self.share < 1:
      raise ValueError(f"kind {self.name!r}: share must be 1 or more, not {self.share}")
    if (self.min_iou is None) != (self.max_iou is None):
      raise ValueError(f"kind {self.name!r}: give both min_iou and max_iou, or neither")
    if not 0 <= (self.min_iou or 0) <= (self.max_iou or 0) <= 1:
      raise ValueError(
        f"kind {self.name!r}: need 0 <= min_iou <= max_iou <= 1, got {self.min_iou}, {self.max_iou}"
      )


@dataclasses.dataclass(frozen=True)
class Mixture:
  """The kinds of a net and the exact ratio in which a batch holds them.

  >>> mixture = Mixture((SampleKind("neg", 3), SampleKind("pos", 1)))
  >>> mixture.counts(8)
  {'neg': 6, 'pos': 2}
  """

  __pydantic_config__ = _STRICT

  kinds: tuple[SampleKind, ...]

  def __post_init__(self):
    if not self.kinds:
      raise ValueError("a mixture needs at least one kind")
    _require_distinct([kind.name for kind in self.kinds], "kind")

  @property
  def names(self) -> tuple[str, ...]:
    return tuple(kind.name for kind in self.kinds)

  @property
  def total_share(self) -> int:
    """The sum of the shares: 7 for 3:1:1:2."""
    return sum(kind.share for kind in self.kinds)

  @property
  def batch_unit(self) -> int:
    """Batch sizes that fit are the multiples of this."""
    return self.total_share // math.gcd(*(kind.share for kind in self.kinds))

  def counts(self, batch_size: int) -> dict[str, int]:
    """How many examples of each kind a batch holds, exactly.

    Raises:
      ValueError: if the ratio does not divide `batch_size`; names the nearest
        batch sizes that fit.
    """
    unit = self.batch_unit
    if batch_size < 1 or batch_size % unit:
      below, above = batch_size // unit * unit, (batch_size // unit + 1) * unit
      fits = f"{below} or {above}" if below > 0 else str(max(above, unit))
      ratio = ":".join(str(kind.share) for kind in self.kinds)
      raise ValueError(
        f"batch size {batch_size} cannot hold the ratio {ratio} ({':'.join(self.names)}) exactly; "
        f"it must be a multiple of {unit}: use {fits}"
      )
    return {kind.name: batch_size * kind.share // self.total_share for kind in self.kinds}


@dataclasses.dataclass(frozen=True)
class Loss:
  """A loss by name, and the share of its hardest samples that count.

  Attributes:
    name: one of `taskmix.model.losses.LOSSES`, or "package.module:function".
    keep_hardest: the top fraction of the task's masked losses in a batch that
      is averaged; the rest add no gradient. (Zhang et al. 2016, section II-C:
      0.7.)
  """

  __pydantic_config__ = _STRICT

  name: str
  keep_hardest: float = 1.0

  def __post_init__(self):
    if not 0 < self.keep_hardest <= 1:
      raise ValueError(f"loss {self.name!r}: keep_hardest must be in (0, 1], not {self.keep_hardest}")


@dataclasses.dataclass(frozen=True)
class Bound:
  """A limit on one metric of a task that a blessed model must keep.

  At least one of the limits is given; `min` and `max` are inclusive.

  Attributes:
    metric: one of the task's.
    min, max: of its value over all eval samples that label the task.
    max_worsening: by how much it may be worse than that of the last blessed
      model, on the same samples; None compares with no other model. A metric
      with a `max` alone is better when lower, any other when higher.
  """

  __pydantic_config__ = _STRICT

  metric: str
  min: float | None = None
  max: float | None = None
  max_worsening: float | None = None

  def __post_init__(self):
    if self.min is None and self.max is None:
      raise ValueError(f"bound on {self.metric!r}: give min, max or both")
    if self.max_worsening is not None and not self.max_worsening >= 0:
      raise ValueError(f"bound on {self.metric!r}: max_worsening must be 0 or more, not {self.max_worsening}")

  @property
  def higher_is_better(self) -> bool:
    return self.min is not None

  def worsening(self, value: float, baseline: float) -> float:
    """How much worse `value` is than the baseline's: negative where it is better."""
    return baseline - value if self.higher_is_better else value - baseline

  def holds(self, value: float) -> bool:
    """Whether `value` is within `min` and `max`; NaN is not."""
    low = -math.inf if self.min is None else self.min
    high = math.inf if self.max is None else self.max
    return low <= value <= high

  @property
  def limits(self) -> str:
    """`min` and `max` in words: "at least 0.8", "at most 0.2"."""
    low = [] if self.min is None else [f"at least {self.min:g}"]
    high = [] if self.max is None else [f"at most {self.max:g}"]
    return " and ".join([*low, *high])


@dataclasses.dataclass(frozen=True)
class Task:
  """One head of the net and all that belongs to it.

  Attributes:
    name: names the head, the model's output and the mask `<name>_mask`.
    target: the column it learns; classes make it a softmax over them, float32
      makes it a regression of that shape.
    kinds: the kinds whose samples label it; all others are masked out.
    loss: what is minimised, and `loss_weight` its weight in the sum.
    metrics: names in `taskmix.evaluation.METRICS`.
    bounds: what the Evaluator demands.
    standardize: learn each target value's mean and deviation over the whole
      training data in Transform, train on the standardized value, and undo it
      in the served graph.
  """

  __pydantic_config__ = _STRICT

  name: str
  target: Column
  kinds: tuple[str, ...]
  loss: Loss
  loss_weight: float = 1.0
  metrics: tuple[str, ...] = ()
  bounds: tuple[Bound, ...] = ()
  standardize: bool = False

  def __post_init__(self):
    _require_name(self.name, "task")
    if not self.kinds:
      raise ValueError(f"task {self.name!r}: name at least one kind that labels it")
    if self.target.dtype not in ("int64", "float32"):
      raise ValueError(f"task {self.name!r}: a target is int64 or float32, not {self.target.dtype}")
    if self.target.dtype == "int64" and not self.target.classes:
      raise ValueError(f"task {self.name!r}: an int64 target needs its classes")
    if self.standardize and self.target.dtype != "float32":
      raise ValueError(f"task {self.name!r}: only a float32 target can be standardized")
    unbounded = [bound.metric for bound in self.bounds if bound.metric not in self.metrics]
    if unbounded:
      raise ValueError(f"task {self.name!r}: bounds on {unbounded}, which are not among {self.metrics}")

  @property
  def mask(self) -> str:
    """The transformed column that is 1.0 where a sample labels this task, else 0.0."""
    return f"{self.name}_mask"


@dataclasses.dataclass(frozen=True)
class CropRecipe:
  """How crops are cut from an annotated photo (Zhang et al. 2016, section II-D,
  with the counts of the usual re-implementations). Lengths in photo pixels.

  Attributes:
    random_negatives: tries anywhere in the photo, side from the net's input
      size to half of the photo's shorter side.
    near_negatives: tries that overlap each face.
    mined_negatives: at most so many false alarms of the nets before this one,
      the surest first; none where no net comes before.
    tries_per_face: candidates round each face for pos and part.
    min_face: faces with a shorter side below this give no crop of their own;
      they still count when a crop's IoU is taken.
    side_range: candidate side, from first * min(w, h) to second * max(w, h).
    max_shift: candidate centre moves by up to this times the face's w and h.
    landmark_shifts: candidates round each face with points.
    mirror: also keep every landmark crop mirrored, points swapped.
    max_rotation: degrees; each kept landmark crop is turned once by a random
      angle up to this, either way; 0 turns none.
  """

  __pydantic_config__ = _STRICT

  random_negatives: int = 50
  near_negatives: int = 5
  mined_negatives: int = 60
  tries_per_face: int = 20
  min_face: float = 20.0
  side_range: tuple[float, float] = (0.8, 1.25)
  max_shift: float = 0.2
  landmark_shifts: int = 10
  mirror: bool = True
  max_rotation: float = 5.0


@dataclasses.dataclass(frozen=True)
class Source:
  """One annotated set of images, and the kinds of sample it may give.

  Attributes:
    name: for messages and the manifest.
    format: a reader in `taskmix.sources`.
    annotations: path of the annotation file or folder, relative to the run's
      data folder ("" where the format has none).
    images: folder that image paths start from, relative to the data folder.
    kinds: the kinds it gives. Leave out negatives, positives and parts where
      not every face is annotated.
    options: the reader's keyword arguments, as (name, value) pairs.
    phase: "train" or "eval" where the set has one by its origin, such as an
      official test set; "" leaves it to the net's `phases`. A picture that is
      in an eval set is never trained on.
    max_annotation_bytes: an annotation file that holds more, unpacked, is refused.
      The longest list among the formats read here has some 40 MB; a gzip bomb of a
      megabyte unpacks to a thousand.
  """

  __pydantic_config__ = _STRICT

  name: str
  format: str
  annotations: str
  images: str
  kinds: tuple[str, ...]
  options: tuple[tuple[str, str | int | float | bool], ...] = ()
  phase: Literal["", "train", "eval"] = ""
  max_annotation_bytes: int = 1 << 30

  def __post_init__(self):
    _require_name(self.name, "source")
    if self.max_annotation_bytes < 1:
      raise ValueError(f"max_annotation_bytes must be 1 or more, not {self.max_annotation_bytes}")


@dataclasses.dataclass(frozen=True)
class Phases:
  """Which photos train and which evaluate; never a photo in both.

  Attributes:
    eval_share: the fraction of photos that the hash of the decoded picture
      sends to eval.
    eval_images: image ids that go to eval whatever their hash.
    stratified: evaluate the photos of each kind with the lowest hashes, as many
      as `eval_share` of that kind, rounded; else every photo by its own hash,
      which is right on average only, but photos that are added later then move
      none of the others.
    group: a regular expression; photos in whose ids it finds the same text (of
      its first group, where it has one) are always in one phase, as the photos
      of a person or of an event should be. "" groups none.
  """

  __pydantic_config__ = _STRICT

  eval_share: float = 0.1
  eval_images: tuple[str, ...] = ()
  stratified: bool = False
  group: str = ""

  def __post_init__(self):
    if not 0 <= self.eval_share < 1:
      raise ValueError(f"eval_share must be in [0, 1), not {self.eval_share}")
    try:
      re.compile(self.group)
    except re.error as error:
      raise ValueError(f"group {self.group!r} is no regular expression: {error}") from error


@dataclasses.dataclass(frozen=True)
class Net:
  """A multi-task net: the single source of truth of its pipeline.

  Attributes:
    name: of the net, its schema file and its artifacts.
    input_size: (height, width, channels) of its uint8 RGB input.
    backbone: "package.module:function", a function from a Keras input to the
      features that every head reads.
    tasks: the heads.
    mixture: kinds and ratio.
    sources: where samples come from; set by a config.
    phases: how photos are split into train and eval.
    recipe: how crops are cut; None takes whole images, resized.
    context: columns that every sample carries and no task learns, such as the
      crop's place in its photo: for checks, slices and reports.
  """

  __pydantic_config__ = _STRICT

  name: str
  input_size: tuple[int, int, int]
  backbone: str
  tasks: tuple[Task, ...]
  mixture: Mixture
  sources: tuple[Source, ...] = ()
  phases: Phases = Phases()
  recipe: CropRecipe | None = None
  context: tuple[Column, ...] = ()

  def __post_init__(self):
    _require_name(self.name, "net")
    if not self.tasks:
      raise ValueError(f"net {self.name!r} needs at least one task")
    if ":" not in self.backbone:
      raise ValueError(
        f"net {self.name!r}: backbone must read 'package.module:function', not {self.backbone!r}"
      )
    _require_distinct([task.name for task in self.tasks], "task")
    _require_distinct([source.name for source in self.sources], "source")
    _require_distinct([column.name for column in self.columns], "column")
    known = self.mixture.names
    for owner in (*self.tasks, *self.sources):
      for kind in owner.kinds:
        if kind not in known:
          what = type(owner).__name__.lower()
          raise ValueError(
            f"{what} {owner.name!r} names the kind {kind!r}; the mixture has {', '.join(known)}"
          )

  @property
  def image(self) -> Column:
    return Column(IMAGE, "uint8", self.input_size)

  @property
  def columns(self) -> tuple[Column, ...]:
    """Every column of an example before Transform, in a fixed order."""
    return (
      self.image,
      Column(KIND, "string"),
      Column(IMAGE_ID, "string"),
      *(task.target for task in self.tasks),
      *self.context,
    )

  @property
  def splits(self) -> tuple[str, ...]:
    """Every split's name: phase x kind."""
    return tuple(split_name(phase, kind) for phase in PHASES for kind in self.mixture.names)

  def task(self, name: str) -> Task:
    return _lookup(self.tasks, name, "task")

  def kind(self, name: str) -> SampleKind:
    return _lookup(self.mixture.kinds, name, "kind")

  @property
  def unbounded(self) -> "Net":
    """The net without its tasks' bounds: all that examples and weights come from.

    What makes those is given this net, so that a run with other bounds judges the
    weights that are there.
    """
    return dataclasses.replace(self, tasks=tuple(dataclasses.replace(task, bounds=()) for task in self.tasks))

  def to_json(self) -> str:
    """Canonical JSON: equal nets give equal text."""
    return to_json(self)

  @classmethod
  def from_json(cls, text: str) -> "Net":
    """The net of `to_json`; raises ValueError on unknown or ill-typed fields."""
    return from_json(cls, text)


@dataclasses.dataclass(frozen=True)
class Cascade:
  """Nets in the order in which they see a photo: each feeds the next."""

  __pydantic_config__ = _STRICT

  name: str
  nets: tuple[Net, ...]

  def __post_init__(self):
    _require_name(self.name, "cascade")
    _require_distinct([net.name for net in self.nets], "net")


@dataclasses.dataclass(frozen=True)
class Conversion:
  """How annotated images become sharded TFRecords.

  Attributes:
    seed: of every random choice.
    shards: files a split; 0 chooses by `shard_mib`.
    shard_mib: wanted size of a file in MiB, used when `shards` is 0.
    compression: of the files.
    max_bad_fraction: the run stops when more than this share of the photos is
      quarantined.
    max_pixels: a photo whose header promises more is quarantined undecoded.
    max_bytes: a photo whose file is larger is quarantined unread.
  """

  __pydantic_config__ = _STRICT

  seed: int = 0
  shards: int = 0
  shard_mib: float = 64.0
  compression: Literal["gzip", "none"] = "none"
  max_bad_fraction: float = 0.01
  max_pixels: int = 100_000_000
  max_bytes: int = 1 << 28

  def __post_init__(self):
    if self.max_pixels < 1 or self.max_bytes < 1:
      raise ValueError(f"max_pixels {self.max_pixels} and max_bytes {self.max_bytes} must be 1 or more")
    if self.shards < 0:
      raise ValueError(f"shards must be 0 (choose by size) or more, not {self.shards}")
    if self.shard_mib <= 0:
      raise ValueError(f"shard_mib must be positive, not {self.shard_mib}")
    if not 0 <= self.max_bad_fraction <= 1:
      raise ValueError(f"max_bad_fraction must be in [0, 1], not {self.max_bad_fraction}")


@dataclasses.dataclass(frozen=True)
class Training:
  """How a net is trained.

  Attributes:
    batch_size: examples a step over all devices; must hold the net's ratio.
    steps: optimizer steps.
    learning_rate: the peak; cosine decay to zero after a linear warm-up of
      `warmup_steps`.
    seed: of the weights and of the batches.
    engine: of `taskmix.mixing`: "auto", "memory", "stream" or "device".
    memory_budget_mib: what "auto" lets the memory engine hold.
    checkpoint_every: steps between checkpoints.
    keep_checkpoints: how many stay.
    precision: a Keras dtype policy; "auto" is mixed_float16 on a GPU that has
      tensor cores, else float32.
    jit_compile: compile the step by XLA; None leaves it to the device.
    steps_per_execution: steps in one call of the compiled loop.
    augment: on-the-fly augmentations by name, see `taskmix.mixing.augment`.
    max_devices: use at most so many GPUs; 0 uses all.
    init_weights: what to start from: the folder of a SavedModel that taskmix
      exported, or a .weights.h5 file of the net whose regressions answer in their
      targets' own unit, as `taskmix import-weights` writes. "" starts from the seed.
    pretrained: file with the weights of a backbone of `taskmix.model.pretrained`,
      or "random"; "" for other backbones.
    frozen_steps: steps at the start in which those weights stay as they are.
    fine_tuning_rate: what the learning rate is multiplied by once weights from a
      file of `pretrained` learn too; a rate that suits new heads undoes them.
  """

  __pydantic_config__ = _STRICT

  batch_size: int
  steps: int
  learning_rate: float = 1e-3
  warmup_steps: int = 100
  weight_decay: float = 0.0
  seed: int = 0
  engine: Literal["auto", "memory", "stream", "device"] = "auto"
  memory_budget_mib: int = 2048
  checkpoint_every: int = 500
  keep_checkpoints: int = 3
  precision: Literal["auto", "float32", "mixed_float16", "mixed_bfloat16"] = "auto"
  jit_compile: bool | None = None
  steps_per_execution: int = 16
  augment: tuple[str, ...] = ()
  max_devices: int = 0
  init_weights: str = ""
  pretrained: str = ""
  frozen_steps: int = 0
  fine_tuning_rate: float = 0.01

  def __post_init__(self):
    for name in ("batch_size", "steps", "checkpoint_every", "keep_checkpoints", "steps_per_execution"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")
    if self.fine_tuning_rate <= 0:
      raise ValueError(f"fine_tuning_rate must be positive, not {self.fine_tuning_rate}")


def split_name(phase: str, kind: str) -> str:
  """The split of one phase and kind: "train-neg"."""
  return f"{phase}-{kind}"


def split_parts(split: str) -> tuple[str, str]:
  """(phase, kind) of a split's name.

  Raises:
    ValueError: if `split` is not phase-kind.
  """
  phase, dash, kind = split.partition("-")
  if phase not in PHASES or not dash or not kind:
    raise ValueError(f"{split!r} is not a split: expected train-KIND or eval-KIND")
  return phase, kind


def to_json(value: object) -> str:
  """Canonical JSON of one of this module's dataclasses: equal values, equal text."""
  return json.dumps(dataclasses.asdict(value), sort_keys=True, separators=(",", ":"))  # type: ignore[call-overload]


def from_json(cls: type[T], text: str) -> T:
  """The value of `to_json`; raises ValueError on unknown or ill-typed fields."""
  try:
    return pydantic.TypeAdapter(cls).validate_json(text)
  except pydantic.ValidationError as error:
    raise ValueError(told(error, cls)) from None


def _lookup(items: Sequence, name: str, what: str):
  for item in items:
    if item.name == name:
      return item
  raise ValueError(f"no {what} {name!r}; there is {', '.join(item.name for item in items)}")


def _require_name(name: str, what: str) -> None:
  if not name or not name.replace("_", "").isalnum():
    raise ValueError(f"{what} name {name!r}: use letters, digits and underscores")


def _require_distinct(names: Sequence[str], what: str) -> None:
  twice = sorted({name for name in names if names.count(name) > 1})
  if twice:
    raise ValueError(f"{what} names must differ; twice: {', '.join(twice)}")
