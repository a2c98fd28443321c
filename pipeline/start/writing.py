"""The files of `taskmix init`: a net, a config that runs it, and the schemas that follow."""

import json
import pathlib
import re
import textwrap
from collections.abc import Sequence

from pipeline.start.finding import Found
from taskmix.nets.mtcnn import PNET

_FEW_PHOTOS = 500

_FACE_NET = '''"""The nets of `{name}`: MTCNN's three, on the photos of this folder.

Written by `taskmix init`; yours to change. After a change of tasks, columns or kinds:

    taskmix schema --config {config} --write
"""

import dataclasses

from taskmix.nets.mtcnn import ONET, PNET, RNET
from taskmix.spec import {imports}

# What was found. A source gives only the kinds that it can: where some faces of a
# photo are not marked, crops beside the marked ones are no sure negatives.
SOURCES = (
{sources}
)

# A tenth of the photos, by the hash of the picture, is never trained on. Photos of
# one person or event belong together: group=r"^([^_]+)_".
PHASES = Phases(eval_share=0.1)
{recipe}

def _net(net: Net) -> Net:
{body}


NETS = (_net(PNET), _net(RNET), _net(ONET))
'''

_FACE_CONFIG = '''"""A face detector on the photos of this folder.

    taskmix doctor --config {config}
    taskmix run --config {config}

{what}
Time, memory and result: write down here what your first run comes to.
"""

import pathlib

from {module} import NETS
from pipeline.config import Config, Stage
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Training

HERE = pathlib.Path(__file__).parent.resolve()

# On the fly; labels follow. Take out what your photos must not be told apart by.
AUGMENT = ("mirror", "brightness", "contrast", "hue")

PNET, RNET, ONET = NETS

CONFIG = Config(
  "{name}",
  stages=(
    # A batch holds the ratio {ratio} exactly: sizes are multiples of {unit}.
    Stage(PNET, Training(batch_size={batches[0]}, steps={steps[0]}, augment=AUGMENT)),
    Stage(RNET, Training(batch_size={batches[1]}, steps={steps[1]}, augment=AUGMENT)),
    Stage(ONET, Training(batch_size={batches[2]}, steps={steps[2]}, augment=AUGMENT)),
  ),
  # Of whole photos, so fewer and slower than of crops.
  serving=ServingPolicy(large_batch=8, answer_seconds=5.0),
  data=str(HERE),
  schemas=str(HERE / "schemas"),
)
'''

_IMAGE_NET = '''"""The net of `{name}`: {tasks_in_words}.

Written by `taskmix init`; yours to change. After a change of tasks, columns or kinds:

    taskmix schema --config {config} --write
"""

from taskmix.spec import Bound, Column, Loss, Mixture, Net, Phases, SampleKind, Source, Task


def backbone(image):
  """[b, 64, 64, 3], 0 to 255, to the features [b, 64] that every task reads."""
  from keras import layers  # not at the top: workers import this module, too

  x = layers.Rescaling(1 / 255)(image)
  for width in (16, 32, 64):
    x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
  return layers.GlobalAveragePooling2D()(x)


NET = Net(
  name="{name}",
  input_size=(64, 64, 3),
  backbone="{module}:backbone",
  # A head each; only samples of its kinds teach it, all others are masked out.
  tasks=(
{tasks}
  ),
  # Parts of every batch: exact in each, however many images a kind has.
  mixture=Mixture(({kinds},)),
  sources=(
{sources}
  ),
{phases}
)
'''

_IMAGE_CONFIG = '''"""{tasks_in_words}, on the images of this folder.

    taskmix doctor --config {config}
    taskmix run --config {config}

{what}
Time, memory and result: write down here what your first run comes to.
"""

import pathlib

from {module} import NET
from pipeline.config import Config, Stage
from taskmix.spec import Training

HERE = pathlib.Path(__file__).parent.resolve()

CONFIG = Config(
  "{name}",
  # augment: "mirror", "shift", "brightness", ... where they leave the label true.
  stages=(Stage(NET, Training(batch_size={batch}, steps=600, augment=("shift",))),),
  data=str(HERE),
  schemas=str(HERE / "schemas"),
)
'''


def files(name: str, found: Sequence[Found]) -> dict[str, str]:
  """File name -> text: `<name>_net.py` and `<name>_config.py`.

  Args:
    name: of the config, its net and its modules.
    found: what to train on; faces, or labelled images.
  """
  fields = {
    "name": name,
    "module": f"{name}_net",
    "config": f"{name}_config.py",
    "what": "\n".join(f"{_worded(told(each))}." for each in found),
  }
  make = _faces if any(each.faces for each in found) else _images
  net, config = make(name, found, fields)
  return {f"{name}_net.py": net, f"{name}_config.py": config}


def project_name(folder: pathlib.Path) -> str:
  """The folder's name as a module's: letters, digits and underscores."""
  name = re.sub(r"\W+", "_", folder.resolve().name.lower()).strip("_")
  return name if name[:1].isalpha() else f"my_{name}".rstrip("_")


def write(folder: pathlib.Path, texts: dict[str, str], *, replace: bool = False) -> list[pathlib.Path]:
  """Writes the files, and the schemas that follow from the nets.

  Raises:
    ValueError: if one of the files is there already, unless they are to be replaced.
  """
  there = [name for name in texts if (folder / name).exists()]
  if there and not replace:
    raise ValueError(f"{folder} has {', '.join(there)} already: change it, or replace it with --force")
  for name, text in texts.items():
    (folder / name).write_text(text)
  from pipeline.config import load_config, schema_path
  from taskmix.schema import write_schema

  config = load_config(str(folder / next(name for name in texts if name.endswith("_config.py"))))
  for net in config.nets:
    write_schema(net, schema_path(config, net))
  return [*(folder / name for name in texts), *(schema_path(config, net) for net in config.nets)]


def told(found: Found) -> str:
  """What was found, in a line."""
  faces = f", {found.faces:,} faces" + (" with points" if found.points else "") if found.faces else ""
  classes = f", classes {', '.join(found.classes)}" if found.classes else ""
  return f"{found.annotations or found.images}: {found.photos:,} photos as {found.format}{faces}{classes}"


def _faces(name: str, found: Sequence[Found], fields: dict[str, str]) -> tuple[str, str]:
  points = any(each.points for each in found)
  few = max(each.photos for each in found) < _FEW_PHOTOS
  sources = [_source(each, _face_kinds(each, found), _place(each)) for each in found]
  recipe, more = "", ""
  if few:
    recipe = "\n# Few photos, so more crops of each.\n"
    recipe += "RECIPE = CropRecipe(tries_per_face=60, landmark_shifts=30)\n"
    more = ", recipe=RECIPE"
  body = [f"return dataclasses.replace(net, sources=SOURCES, phases=PHASES{more})"]
  if not points:
    body = [
      "# No points were found, so no net learns any.",
      'tasks = tuple(task for task in net.tasks if task.name != "landmark")',
      'kinds = tuple(kind for kind in net.mixture.kinds if kind.name != "landmark")',
      "net = dataclasses.replace(net, tasks=tasks, mixture=Mixture(kinds))",
      *body,
    ]
  # The nets' own, without the kind that no source gives.
  shares = [kind.share for kind in PNET.mixture.kinds if points or kind.name != "landmark"]
  unit = sum(shares)
  imports = [*(["CropRecipe"] if few else []), *([] if points else ["Mixture"]), "Net", "Phases", "Source"]
  net = _FACE_NET.format(
    **fields,
    imports=", ".join(imports),
    sources="\n".join(sources),
    recipe=recipe,
    body=textwrap.indent("\n".join(body), "  "),
  )
  config = _FACE_CONFIG.format(
    **fields,
    ratio=":".join(map(str, shares)),
    unit=unit,
    batches=(64 * unit, 32 * unit, 16 * unit),
    steps=(1500, 800, 600) if few else (4000, 4000, 4000),
  )
  return net, config


def _face_kinds(found: Found, every: Sequence[Found]) -> tuple[str, ...]:
  """The kinds that a source gives; all, of a list with points where no other has every face."""
  boxes = ("neg", "pos", "part")
  if found.every_face or not any(each.every_face for each in every):
    return (*boxes, "landmark") if found.points else boxes
  return ("landmark",)


def _images(name: str, found: Sequence[Found], fields: dict[str, str]) -> tuple[str, str]:
  """One task for a folder of classes; one a label type where there are several."""
  several = len(found) > 1 and not any(each.phase for each in found)
  labels = {_place(each): each for each in found} if several else {"label": found[0]}
  kinds = list(labels) if several else ["image"]
  sources, tasks = [], []
  for number, each in enumerate(found):
    label, kind = (list(labels)[number], kinds[number]) if several else ("label", "image")
    options = (*each.options, ("target", label), ("kind", kind))
    sources.append(_source(each, (kind,), label if several else _place(each), options=options, indent=4))
  for (label, each), kind in zip(labels.items(), kinds, strict=True):
    tasks.append(_task(label, each.classes, kind))
  phases = "  phases=Phases(eval_share=0.2, stratified=True),"
  if found[0].phase:
    phases = "  # The folders' names say which images train.\n  phases=Phases(),"
  words = [_worded(f"{label} ({', '.join(each.classes)})") for label, each in labels.items()]
  net = _IMAGE_NET.format(
    **fields,
    tasks_in_words="; ".join(words),
    tasks="\n".join(tasks),
    kinds=", ".join(f'SampleKind("{kind}", 1)' for kind in kinds),
    sources="\n".join(sources),
    phases=phases,
  )
  return net, _IMAGE_CONFIG.format(
    **fields, tasks_in_words="; ".join(words).capitalize(), batch=32 * len(kinds)
  )


def _task(label: str, classes: Sequence[str], kind: str) -> str:
  # Better than chance by a third, and no certainty.
  least = round(min(1.3 / len(classes), 0.9), 2)
  return textwrap.indent(
    f"""Task(
  name={_quoted(label)},
  target=Column({_quoted(label)}, "int64", classes={_tuple(classes)}),
  kinds=({_quoted(kind)},),
  loss=Loss("softmax_cross_entropy"),
  metrics=("accuracy",),
  # Below this, nothing is pushed.
  bounds=(Bound("accuracy", min={least}),),
),""",
    "    ",
  )


def _source(found: Found, kinds: Sequence[str], name: str, *, options: Sequence = (), indent: int = 2) -> str:
  options = tuple(options or found.options)
  more = ""
  if options:
    pairs = ", ".join(f"({_quoted(key)}, {_quoted(value)})" for key, value in options)
    more = f",\n  options=({pairs},)"
  if found.phase:
    more += f",\n  phase={_quoted(found.phase)}"
  comment = f"# {_worded(told(found))}"
  head = ", ".join(map(_quoted, (name, found.format, found.annotations, found.images)))
  text = f"Source(\n  {head},\n  kinds={_tuple(kinds)}{more},\n),"
  return textwrap.indent(f"{comment}\n{text}", " " * indent)


def _place(found: Found) -> str:
  """A name for the source, of its path."""
  path = pathlib.PurePosixPath(found.annotations or found.images)
  words = [*path.parent.parts, path.stem]
  return re.sub(r"\W+", "_", "_".join(word for word in words if word not in (".", ""))).strip("_") or "images"


def _tuple(values: Sequence[str]) -> str:
  return f"({', '.join(map(_quoted, values))}{',' if len(values) == 1 else ''})"


def _quoted(text: str) -> str:
  return json.dumps(text, ensure_ascii=False)


def _worded(text: str) -> str:
  """For a docstring or a comment, which no name of a file or folder ends."""
  return _quoted(text)[1:-1]
