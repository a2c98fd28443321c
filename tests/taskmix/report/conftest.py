"""Runs as facts, and a headless Chromium, driven by its DevTools protocol, that looks at their pages."""

import base64
import contextlib
import dataclasses
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import websocket

from taskmix.report import card, facts, pictures


class Browser:
  """One tab. Requests that a page makes, and what its console says, are kept."""

  def __init__(self, address: str):
    self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
    self._number = 0
    self.requests: list[str] = []
    self.console: list[str] = []
    for domain in ("Page", "Runtime", "Network", "Log"):
      self.call(f"{domain}.enable")

  def call(self, method: str, **params: Any) -> dict[str, Any]:
    """Sends a command and waits for its answer."""
    self._number += 1
    self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
    while True:
      message = self._read()
      if message.get("id") == self._number:
        assert "error" not in message, message["error"]
        return message["result"]

  def open(self, page: pathlib.Path, *, width: int, height: int = 900, dark: bool = False) -> None:
    """Shows a file at a width, in pixels, and waits until it is laid out."""
    self.requests, self.console = [], []
    phone = width < 600
    self.call(
      "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    self.call("Emulation.setEmulatedMedia", features=[scheme])
    self.call("Page.navigate", url=page.resolve().as_uri())
    self._wait_for("Page.loadEventFired")
    self.evaluate(
      "Promise.all([...document.images].map(image => image.decode().catch(() => 0))).then(() => 1)"
    )

  def evaluate(self, expression: str) -> Any:
    """What the expression comes to in the page, JSON-able."""
    answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")

  def press_tab(self) -> None:
    for kind in ("keyDown", "keyUp"):
      self.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)

  def screenshot(self, to: pathlib.Path, *, whole: bool = True) -> None:
    """Writes a PNG of the page."""
    shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
    to.write_bytes(base64.b64decode(shot["data"]))

  def close(self) -> None:
    self._socket.close()

  def _wait_for(self, method: str) -> None:
    while self._read().get("method") != method:
      pass

  def _read(self) -> dict[str, Any]:
    message = json.loads(self._socket.recv())
    params = message.get("params", {})
    if message.get("method") == "Network.requestWillBeSent":
      self.requests.append(params["request"]["url"])
    elif message.get("method") == "Runtime.consoleAPICalled":
      self.console.append(str(params["args"]))
    elif message.get("method") == "Runtime.exceptionThrown":
      self.console.append(str(params["exceptionDetails"]))
    elif message.get("method") == "Log.entryAdded":
      self.console.append(params["entry"]["text"])
    return message


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
  """A Chromium of its own, ended with the context."""
  command = [
    shutil.which("chromium") or "chromium",
    "--headless=new",
    # Tests may run as root, where Chromium's own sandbox does not.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "about:blank",
  ]
  # Chromium may still write into its profile while it ends.
  with tempfile.TemporaryDirectory(prefix="taskmix-chromium-", ignore_cleanup_errors=True) as profile:
    process = subprocess.Popen(
      [*command, f"--user-data-dir={profile}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
      browser = Browser(_address(pathlib.Path(profile), process))
      yield browser
      browser.close()
    finally:
      process.terminate()
      process.wait(timeout=30)


def _address(profile: pathlib.Path, process: subprocess.Popen) -> str:
  """Of the first tab's DevTools socket."""
  told = profile / "DevToolsActivePort"
  deadline = time.monotonic() + 60
  while not (told.exists() and told.read_text().count("\n")):
    assert process.poll() is None, "Chromium ended at once"
    assert time.monotonic() < deadline, "Chromium did not open its port in a minute"
    time.sleep(0.05)
  port = told.read_text().splitlines()[0]
  with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
    tabs = json.loads(answer.read())
  return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
  """A tab of a headless Chromium; skips where there is none."""
  if not shutil.which("chromium"):
    pytest.skip("needs Debian's chromium: apt-get install chromium")
  with launched() as tab:
    yield tab


def _net(name: str, accuracy: float) -> facts.Net:
  crop = pictures.embed(np.full((48, 48, 3), 90, np.uint8), "A sample of kind pos", side=48, caption="face")
  metrics = (
    facts.Metric("face", "accuracy", "", "", 833, accuracy, 0.91, "at least 0.8", True),
    facts.Metric("face", "accuracy", "kind", "pos", 226, 0.628, 0.7, "", True),
    facts.Metric("face", "accuracy", "face_size", "20 to 40", 12, 0.5, None, "", True),
  )
  audit = facts.Audit(0, 1500, (facts.AuditedKind("pos", 64, 64, 64, 793, 121.1, 1.0, 0, 0),))
  loss = facts.TaskCurves(
    "face",
    (facts.Curve("train", (250.0, 500.0, 750.0), (0.7, None, 0.3)), facts.Curve("eval", (500.0,), (0.4,))),
    (facts.Curve("accuracy", (250.0, 500.0), (0.8, accuracy)),),
  )
  return facts.Net(
    name,
    (12, 12, 3),
    "taskmix.model.backbones:pnet",
    kinds=(facts.Kind("pos", 1, 793, 226, ("face", "box"), (crop,)),),
    photos=facts.Photos(
      counts={"all": 75, "train": 63, "eval": 12, "quarantined": 1, "same_content": 0},
      faces={"all": 123, "quarantined": 0},
      quarantine={"no picture": 1},
      gallery=(
        facts.Picture("", 240, 240, "Left out: broken.jpg", "<script>broken</script>.jpg: no picture"),
      ),
      sources={"boxes": {"annotations_sha256": "3078fe77", "format": "wider_face", "photos": "75"}},
      fingerprint="ab" * 32,
      listed={"photos/a.jpg": "train 00ff", "photos/b.jpg": "eval 01ff"},
    ),
    columns=(
      facts.Column(
        "train-pos", "iou", 793, 0, {"mean": 0.7, "least": 0.65}, ((0.65, 0.8, 700), (0.8, 1, 93))
      ),
      facts.Column("train-pos", "image_id", 793, 0, {"unique": 63}),
    ),
    anomalies=(),
    findings=(facts.Finding("warn", "split eval-pos: SKEW: iou is not as in train"),),
    training=facts.Training(1500, {"batch size": "448", "speed": "37 steps/s"}, (loss,), (audit,)),
    metrics=metrics,
    parameters=6962,
    layers=(facts.Layer("conv1", "Conv2D", "10 x 10 x 10", 280),),
    size=251_904,
  )


def _detector() -> facts.Detector:
  photo = pictures.embed(
    np.full((300, 400, 3), 120, np.uint8),
    "photos/a.jpg: 1 found",
    caption="photos/a.jpg: 1 found",
    marks=[
      facts.Mark("hit", (10, 20, 90, 120), "0.98", ((30, 50),)),
      facts.Mark("missed", (200, 50, 260, 120)),
    ],
  )
  curve = facts.Curve("candidate", (0.1, 0.5, 0.7), (1.0, 0.9, 0.6))
  figures = facts.Figures(
    "candidate",
    {
      "average precision": 0.688,
      "recall": 0.714,
      "precision": 0.769,
      "faces with landmarks": 10,
      "landmark error": 0.1,
    },
    curve,
    (facts.Curve("precision", (0.4, 0.9), (0.5, 1.0)), facts.Curve("recall", (0.4, 0.9), (0.7, 0.3))),
    (("20 to 40", 0, None), ("40 to 80", 7, 0.86)),
    facts.Curve("candidate", (0.0, 0.2), (0.0, 0.9)),
  )
  return facts.Detector((figures,), (0.6, 0.7, 0.7), "", (photo,), (photo,))


@pytest.fixture
def pushed() -> facts.RunFacts:
  """A cascade's run that pushed."""
  net = _net("pnet", 0.858)
  check = facts.Check("Evaluator-pnet", "face accuracy", "0.8580", "at least 0.8", True)
  steps = (
    facts.Step("CropExampleGen-pnet", (), "cached", 0.1),
    facts.Step("StatisticsGen-pnet", ("CropExampleGen-pnet",), "done", 25.8),
    facts.Step("Trainer-pnet", ("CropExampleGen-pnet", "StatisticsGen-pnet"), "done", 72.5),
    facts.Step("ModelPusher", ("Trainer-pnet",), "done", 1.0),
  )
  return facts.RunFacts(
    name="demo",
    run="20261121-104549",
    started="2026-11-21T10:45:49",
    seconds=624.0,
    command="taskmix run --config demo",
    data="demo",
    verdict=facts.Verdict("pushed", checks=(check,), pushed="runs/demo/serving/detector/17"),
    steps=steps,
    nets=(net,),
    detector=_detector(),
    served=(facts.Served("loopback", 2.0, 0.095, 900.0, 40),),
    model_size=5_000_000,
    lineage=(facts.Origin("Trainer-pnet", "model", "runs/demo/artifacts/Trainer-pnet/model/9"),),
    config={"name": "demo", "stages": [{"net": {"name": "pnet"}, "training": {"steps": 1500}}]},
    versions={"python": "3.10.13", "taskmix": "0.1.0"},
    card=card.model_card("demo", (net,), _detector(), card.CardNotes("To show it.", data_licence="CC0")),
  )


@pytest.fixture
def refused(pushed) -> facts.RunFacts:
  """A run of one net, without faces, that its gate stopped."""
  message = "Evaluator-pnet did not bless the net pnet, so nothing is built on it:\n  face accuracy is 0.7000"
  check = facts.Check("Evaluator-pnet", "face accuracy", "0.7000", "at least 0.8", False)
  return dataclasses.replace(
    pushed,
    run="20261121-120000",
    verdict=facts.Verdict("stopped", (message,), (), (check,), component="ModelGate-pnet"),
    nets=(_net("pnet", 0.7),),
    steps=(*pushed.steps[:-1], facts.Step("ModelGate-pnet", ("Trainer-pnet",), "failed")),
    detector=None,
    served=(),
    config={"name": "demo", "stages": [{"net": {"name": "pnet"}, "training": {"steps": 5}}]},
    notes=("the photos of pnet cannot be shown: OSError: gone",),
  )
