"""RunnerConfig: short names, JSON files, and the flags that Beam is given."""

import pathlib

import pytest
from apache_beam.options import pipeline_options

from pipeline.runners import (
  NAMES,
  Dataflow,
  Flink,
  RunnerConfig,
  Workers,
  convert_args,
  load_runner,
  run_args,
)

GIVEN = {"project": "p", "region": "europe-west4", "temp_location": "gs://b/tmp"}


@pytest.mark.parametrize("name", NAMES)
def test_a_short_name_stands_for_the_defaults_and_survives_json(name, tmp_path):
  runner = load_runner(name)
  assert runner == RunnerConfig(name=name)
  path = tmp_path / "runner.json"
  path.write_text(runner.to_json())
  assert load_runner(str(path)) == runner


def test_an_unknown_name_lists_the_known_ones():
  with pytest.raises(ValueError, match=r"no runner 'spark'; there is direct, flink, dataflow"):
    load_runner("spark")


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ('{"name": "flink", "flink": {"mster": "x"}}', "flink: Flink has no field 'mster'; did you mean master"),
    ('{"name": "flnk"}', "name: Input should be 'direct', 'flink'"),
    ('{"dataflow": {"workers": "x"}}', "dataflow.workers: Input should be a valid integer"),
  ],
)
def test_a_misspelt_setting_is_refused(text, message, tmp_path):
  path = tmp_path / "runner.json"
  path.write_text(text)
  with pytest.raises(ValueError, match=message):
    load_runner(str(path))


def test_direct_is_beams_own_runner():
  assert RunnerConfig().beam_pipeline_args() == ["--runner=DirectRunner"]


def test_flink_names_its_cluster_and_where_python_runs():
  flink = Flink(master="jobmanager:8081", parallelism=8, workers=Workers("EXTERNAL", "localhost:50000"))
  assert RunnerConfig("flink", flink=flink).beam_pipeline_args() == [
    "--runner=FlinkRunner",
    "--flink_master=jobmanager:8081",
    "--flink_version=1.19",
    "--parallelism=8",
    "--environment_type=EXTERNAL",
    "--environment_config=localhost:50000",
    "--sdk_worker_parallelism=1",
  ]


def test_a_worker_environment_without_its_config_is_refused():
  with pytest.raises(ValueError, match="EXTERNAL need host:port of a worker pool"):
    Workers("EXTERNAL")


def test_dataflow_says_what_it_still_needs():
  with pytest.raises(ValueError, match="dataflow needs region, temp_location: give --region"):
    RunnerConfig("dataflow", dataflow=Dataflow(project="p")).beam_pipeline_args()


def test_beam_understands_every_dataflow_setting():
  dataflow = Dataflow(
    **GIVEN,
    machine_type="n2-highcpu-8",
    workers=3,
    max_workers=90,
    disk_gb=70,
    disk_type="compute.googleapis.com/projects//zones//diskTypes/pd-ssd",
    service_account="w@p.iam.gserviceaccount.com",
    subnetwork="regions/europe-west4/subnetworks/s",
    public_ips=False,
    labels=(("team", "faces"), ("run", "r1")),
    experiments=("use_runner_v2",),
    service_options=("enable_prime",),
  )
  options = pipeline_options.PipelineOptions(RunnerConfig("dataflow", dataflow=dataflow).beam_pipeline_args())
  worker = options.view_as(pipeline_options.WorkerOptions)
  cloud = options.view_as(pipeline_options.GoogleCloudOptions)
  assert (worker.machine_type, worker.num_workers, worker.max_num_workers) == ("n2-highcpu-8", 3, 90)
  assert (worker.disk_size_gb, worker.disk_type) == (70, dataflow.disk_type)
  assert worker.autoscaling_algorithm == "THROUGHPUT_BASED"
  assert worker.use_public_ips is False
  assert worker.subnetwork == dataflow.subnetwork
  assert (cloud.project, cloud.region, cloud.temp_location) == tuple(GIVEN.values())
  assert cloud.service_account_email == dataflow.service_account
  assert cloud.labels == ["team=faces", "run=r1"]
  assert cloud.dataflow_service_options == ["enable_prime"]
  assert options.view_as(pipeline_options.DebugOptions).experiments == ["use_runner_v2"]
  assert pathlib.Path(options.view_as(pipeline_options.SetupOptions).setup_file).is_file()


def test_as_many_workers_at_the_start_as_at_most_stay():
  args = RunnerConfig("dataflow", dataflow=Dataflow(**GIVEN, workers=4, max_workers=4)).beam_pipeline_args()
  assert "--autoscaling_algorithm=NONE" in args


def test_an_image_has_the_code_so_nothing_is_staged():
  args = RunnerConfig("dataflow", dataflow=Dataflow(**GIVEN, image="r/taskmix:1")).beam_pipeline_args()
  assert "--sdk_container_image=r/taskmix:1" in args
  assert "--sdk_location=container" in args
  assert not [flag for flag in args if flag.startswith("--setup_file")]


def test_flags_on_the_command_line_win():
  args = RunnerConfig("dataflow", dataflow=Dataflow(**GIVEN)).beam_pipeline_args(["--region=us-east1"])
  assert [flag for flag in args if flag.startswith("--region")] == ["--region=us-east1"]


def test_beam_steps_of_kubeflow_have_an_engine_of_their_own():
  assert RunnerConfig("kubeflow").beam_pipeline_args() == ["--runner=DirectRunner"]
  runner = RunnerConfig("kubeflow", steps="dataflow", dataflow=Dataflow(**GIVEN))
  assert runner.beam_pipeline_args()[0] == "--runner=DataflowRunner"


def test_a_conversion_takes_short_names_and_beams_own():
  assert convert_args("PrismRunner", ["--x=1"]) == ["--runner=PrismRunner", "--x=1"]
  assert convert_args("direct") == ["--runner=DirectRunner"]
  with pytest.raises(ValueError, match="taskmix compile-kubeflow"):
    convert_args("kubeflow")


def test_a_run_takes_beams_flags_and_no_misspelt_ones():
  assert run_args(load_runner("direct")) == ["--runner=DirectRunner"]
  assert run_args(load_runner("direct"), ["--direct_num_workers=2"])[1:] == ["--direct_num_workers=2"]
  assert "--flink_master=j:8081" in run_args(load_runner("flink"), ["--flink_master=j:8081"])
  for wrong in (["--confg", "faces"], ["faces"], ["--confg=faces"]):
    with pytest.raises(ValueError, match=r"no option .*; see taskmix run --help"):
      run_args(load_runner("direct"), wrong)
