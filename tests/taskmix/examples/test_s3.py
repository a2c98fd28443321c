"""A whole conversion from S3 to S3: Beam's own client, against moto's server on loopback."""

import dataclasses
import hashlib
import pathlib

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


@pytest.fixture
def bucket(monkeypatch):
  """An empty bucket "data", and the client that fills it."""
  server = pytest.importorskip("moto.server", reason="needs moto, flask and boto3: the dev extra")
  boto3 = pytest.importorskip("boto3")
  store = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
  store.start()
  host, port = store.get_host_and_port()
  for name, value in (
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
    ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
  ):
    monkeypatch.setenv(name, value)
  client = boto3.client("s3")
  client.create_bucket(Bucket="data")
  yield client
  store.stop()


def _list_of(demo: pathlib.Path) -> str:
  lines = (demo / "bbx_gt.txt").read_text().splitlines(keepends=True)
  starts = [lines.index(f"{photo}\n") for photo in PHOTOS]
  return "".join("".join(lines[at : at + 2 + max(int(lines[at + 1]), 1)]) for at in starts)


@pytest.mark.timeout(900)
def test_a_conversion_in_s3_gives_the_bytes_of_a_local_one(bucket, demo, tmp_path):
  bucket.put_object(Bucket="data", Key="faces/bbx_gt.txt", Body=_list_of(demo).encode())
  for photo in PHOTOS:
    bucket.upload_file(str(demo / photo), "data", f"faces/{photo}")
    (tmp_path / "faces" / photo).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "faces" / photo).write_bytes((demo / photo).read_bytes())
  (tmp_path / "faces/bbx_gt.txt").write_text(_list_of(demo))
  for root in ("s3://data", str(tmp_path)):
    convert(
      NET, data_root=f"{root}/faces", output=f"{root}/out", conversion=Conversion(shards=1), processes=1
    )
  stored = {
    item["Key"]: bucket.get_object(Bucket="data", Key=item["Key"])["Body"].read()
    for item in bucket.list_objects_v2(Bucket="data")["Contents"]
  }
  found = {key[4:]: hashlib.sha256(data).hexdigest() for key, data in stored.items() if key[:4] == "out/"}
  local = tmp_path / "out"
  assert found == {
    str(path.relative_to(local)): hashlib.sha256(path.read_bytes()).hexdigest()
    for path in local.rglob("*")
    if path.is_file()
  }
  # The work folder is gone, and an empty quarantine, which S3's parts cannot hold, is there.
  assert not [key for key in stored if key.startswith("out.partial")]
  assert stored["out/quarantine.jsonl"] == b""
