"""The files that start neuropil on clusters, by the validators of those clusters."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from neuropil.cli.arguments import parse
from neuropil.cli.train import TrainArguments
from neuropil.recipes import recipe

ROOT = Path(__file__).parents[2]
SLURM, JOB = ROOT / "launch" / "slurm.sh", ROOT / "launch" / "kubernetes.yaml"
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
SHELLCHECK = shutil.which("shellcheck", path=PROGRAMS)
SCHEMA = json.loads(Path(__file__).with_name("pytorchjob-v1.json").read_text())


def strict(schema: Any) -> Any:
    """As `kubectl create --validate=strict` has it: a field that the operator does not know is refused."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {name: strict(each) for name, each in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def job() -> dict[str, Any]:
    return yaml.safe_load(JOB.read_text())


def complaints(content: Any) -> list[str]:
    schema = strict(SCHEMA)
    schema["properties"]["metadata"] = {"type": "object"}  # which every object of Kubernetes has
    return [each.message for each in jsonschema.Draft7Validator(schema).iter_errors(content)]


def test_the_job_is_one_that_the_operator_takes():
    assert complaints(job()) == []


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("spec", "nprocPerNode"), 8, "8 is not of type 'string'"),
        (("spec", "elasticPolicy", "rdzvBackend"), 1, "1 is not of type 'string'"),
        (("spec", "gpus"), 8, "Additional properties are not allowed ('gpus' was unexpected)"),
        (("spec", "pytorchReplicaSpecs", "Worker", "replicas"), "two", "'two' is not of type 'integer'"),
    ],
)
def test_the_validator_sees_what_is_wrong(path: tuple[str, ...], value: object, complaint: str):
    content = job()
    place = content
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert complaints(content) == [complaint]


def test_the_job_is_one_that_the_operators_webhook_admits():
    """Its rules beyond the schema: of the name, the roles, the container and the number of processes."""
    content, spec = job(), job()["spec"]
    assert content["apiVersion"] == "kubeflow.org/v1"
    assert content["kind"] == "PyTorchJob"
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", content["metadata"]["name"])
    assert set(spec["pytorchReplicaSpecs"]) <= {"Master", "Worker"}
    worker = spec["pytorchReplicaSpecs"]["Worker"]  # which an elastic policy needs
    assert worker["replicas"] >= 1
    assert "nProcPerNode" not in spec["elasticPolicy"]  # beside nprocPerNode
    (container,) = worker["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    assert container["image"]
    assert spec["elasticPolicy"]["minReplicas"] == spec["elasticPolicy"]["maxReplicas"] == worker["replicas"]
    assert int(spec["nprocPerNode"]) == container["resources"]["limits"]["nvidia.com/gpu"]


def test_the_mounts_of_the_job_are_its_volumes_and_its_words_those_of_neuropil():
    pod = job()["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert container["command"] == ["torchrun", "-m", "neuropil", "train"]
    name, *words = container["args"]
    form = TrainArguments(recipe=recipe(name).options)
    read = parse(form, words, command="train", about="")
    assert str(read.out).startswith("/shared/")


def test_the_image_holds_files_that_there_are_and_installs_the_versions_that_were_tested():
    lines = [line.split() for line in (ROOT / "launch" / "Dockerfile").read_text().splitlines()]
    copied = [path for line in lines if line[:1] == ["COPY"] for path in line[1:-1]]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert [line[-3:] for line in lines if line[:1] == ["RUN"]] == [["--constraint", "constraints.txt", "."]]
    assert "constraints.txt" in copied


def test_the_batch_file_is_a_program_of_bash():
    subprocess.run(["bash", "-n", SLURM], check=True)


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing():
    found = subprocess.run([str(SHELLCHECK), SLURM], capture_output=True, text=True)
    assert found.stdout == ""


def test_the_batch_file_has_one_torchrun_on_each_node_which_is_told_before_the_end(tmp_path: Path):
    """With programs in the place of SLURM's that print how they are called."""
    for name, does in {"scontrol": "seq --format=node-%.0f 100000", "srun": 'printf "%s\\n" "$@"'}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/bash\n{does}\n")
        program.chmod(0o755)
    job = {"SLURM_JOB_NODELIST": "nodes", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "17", "SLURM_GPUS_ON_NODE": "4"}
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **job}
    words = ["gpt2", "--data", "a file", "--out", "/shared/run"]
    done = subprocess.run([SLURM, *words], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        *("torchrun", "--nnodes", "2", "--nproc-per-node", "4", "--rdzv-backend", "c10d"),
        *(
            "--rdzv-endpoint",
            "node-1:29400",
            "--rdzv-id",
            "17",
            "--max-restarts",
            "3",
            "-m",
            "neuropil",
            "train",
            *words,
        ),
    ]
    asked = re.findall(r"^#SBATCH --([a-z-]+)", SLURM.read_text(), re.M)
    assert {"requeue", "signal", "ntasks-per-node"} <= {*asked}


def test_the_batch_file_without_words_says_how_it_is_called():
    done = subprocess.run([SLURM], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "usage: sbatch [options of sbatch] launch/slurm.sh NAME [options of neuropil train] --out FOLDER\n"
    )
