"""Fixtures that every test may use."""

import pathlib

import pytest

REPOSITORY = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="session")
def demo() -> pathlib.Path:
  """The folder of the embedded photos."""
  return REPOSITORY / "demo"


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
  """The large development data beside the repository; skips where it is absent."""
  folder = REPOSITORY.parent / "shared" / "data"
  if not folder.is_dir():
    pytest.skip("needs the development photos in ../shared/data, which are not here")
  return folder
