"""Whole conversions in object stores: Beam's own clients, against servers on loopback."""

import contextlib
import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterator

import pytest

from taskmix.examples.convert import convert
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion, CropRecipe, Phases, Source

PHOTOS = ("photos/skimage_astronaut.jpg", "photos/adminkit_avatar-2.jpg", "negatives/skimage_coffee.jpg")
NET = dataclasses.replace(
  PNET,
  sources=(Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),),
  phases=Phases(eval_share=0.0, eval_images=PHOTOS[:1]),
  recipe=CropRecipe(random_negatives=20, tries_per_face=30),
)


@dataclasses.dataclass(frozen=True)
class Store:
  """A bucket on a server of this process.

  Attributes:
    root: its address, "s3://data".
    put: stores bytes under a name.
    read: every name's bytes.
    beam_args: what Beam needs to reach it.
  """

  root: str
  put: Callable[[str, bytes], None]
  read: Callable[[], dict[str, bytes]]
  beam_args: tuple[str, ...] = ()


@contextlib.contextmanager
def _s3(monkeypatch) -> Iterator[Store]:
  boto3 = pytest.importorskip("boto3")
  moto = pytest.importorskip("moto.server", reason="needs moto and flask: the dev extra")
  server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
  server.start()
  host, port = server.get_host_and_port()
  for name, value in (
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
    ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
  ):
    monkeypatch.setenv(name, value)
  client = boto3.client("s3")
  client.create_bucket(Bucket="data")

  def read() -> dict[str, bytes]:
    names = [item["Key"] for item in client.list_objects_v2(Bucket="data")["Contents"]]
    return {name: client.get_object(Bucket="data", Key=name)["Body"].read() for name in names}

  yield Store("s3://data", lambda name, data: client.put_object(Bucket="data", Key=name, Body=data), read)
  server.stop()


@contextlib.contextmanager
def _gs(monkeypatch) -> Iterator[Store]:
  emulator = pytest.importorskip("gcp_storage_emulator.server", reason="the dev extra has it")
  storage = pytest.importorskip("google.cloud.storage")
  server = emulator.create_server("127.0.0.1", 0, in_memory=True)
  server.start()
  port = server._api._httpd.server_address[1]
  monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
  client = storage.Client.create_anonymous_client()
  bucket = client.create_bucket("data", project="test")
  yield Store(
    "gs://data",
    lambda name, data: bucket.blob(name).upload_from_string(data),
    lambda: {blob.name: blob.download_as_bytes() for blob in client.list_blobs("data")},
    ("--no_auth",),
  )
  server.stop()


@pytest.fixture(params=[_s3, _gs], ids=["s3", "gs"])
def store(request, monkeypatch) -> Iterator[Store]:
  from apache_beam.io.filesystems import FileSystems

  # Beam keeps the first options it was given, those of another test.
  monkeypatch.setattr(FileSystems, "_pipeline_options", None)
  with request.param(monkeypatch) as made:
    yield made


def _list_of(demo: pathlib.Path) -> bytes:
  lines = (demo / "bbx_gt.txt").read_text().splitlines(keepends=True)
  starts = [lines.index(f"{photo}\n") for photo in PHOTOS]
  return "".join("".join(lines[at : at + 2 + max(int(lines[at + 1]), 1)]) for at in starts).encode()


@pytest.mark.timeout(900)
def test_a_conversion_in_a_store_gives_the_bytes_of_a_local_one(store, demo, tmp_path):
  given = {"bbx_gt.txt": _list_of(demo), **{photo: (demo / photo).read_bytes() for photo in PHOTOS}}
  for name, data in given.items():
    store.put(f"faces/{name}", data)
    (tmp_path / "faces" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "faces" / name).write_bytes(data)
  for root, beam_args in ((store.root, store.beam_args), (str(tmp_path), ())):
    convert(
      NET,
      data_root=f"{root}/faces",
      output=f"{root}/out",
      conversion=Conversion(shards=1),
      processes=1,
      beam_args=beam_args,
    )
  stored = store.read()
  found = {name[4:]: hashlib.sha256(data).hexdigest() for name, data in stored.items() if name[:4] == "out/"}
  local = tmp_path / "out"
  assert found == {
    str(path.relative_to(local)): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in local.rglob("*")
    if path.is_file()
  }
  # The work folder is gone, and an empty quarantine, which S3's parts cannot hold, is there.
  assert not [name for name in stored if name.startswith("out.partial")]
  assert stored["out/quarantine.jsonl"] == b""
