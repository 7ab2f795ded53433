"""`optimise batch` on several processes, stopped, killed and resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batch.making import write_cases
from tests.batch.running import rows, run, start

KILLING = Path(__file__).with_name("killing.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_cases(tmp_path_factory.mktemp("batch") / "cases", 150)


@pytest.fixture(scope="module")
def unbroken(folder):
    for ending in ("csv", "jsonl", "parquet"):
        output = folder.with_name(f"unbroken.{ending}")
        assert run(folder, "-o", output, "--jobs", 1).returncode == 0
    return folder.with_name("unbroken.jsonl")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_two_processes_give_the_same_bytes(folder, unbroken, ending):
    output = folder.with_name(f"two.{ending}")
    done = run(folder, "-o", output, "--jobs", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert output.read_bytes() == unbroken.with_suffix(f".{ending}").read_bytes()


def started(process, journal, least):
    """How many lines a running batch has written, once there are enough of them."""
    for _ in range(1000):
        n_lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
        if n_lines >= least:
            return n_lines
        if process.poll() is not None:
            break
        time.sleep(0.02)
    pytest.fail(f"the batch ended too soon: {process.communicate()}")


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_half_way_and_resumed(folder, unbroken, tmp_path, jobs):
    output, journal = tmp_path / "killed.jsonl", tmp_path / "killed.jsonl.journal"
    process = start(folder, "-o", output, "--jobs", jobs)
    started(process, journal, least=8)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not output.exists()
    kept = journal.read_bytes().count(b"\n")
    assert kept < 150
    done = run(folder, "-o", output, "--jobs", jobs, "--resume")
    assert done.returncode == 0
    assert output.read_bytes() == unbroken.read_bytes()
    assert not journal.exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_says_how_to_go_on(folder, unbroken, tmp_path, jobs):
    output, journal = tmp_path / "stopped.jsonl", tmp_path / "stopped.jsonl.journal"
    process = start(folder, "-o", output, "--jobs", jobs)
    started(process, journal, least=4)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "--resume goes on" in stderr
    assert "Traceback" not in stderr
    assert not output.exists()
    assert run(folder, "-o", output, "--jobs", jobs, "--resume").returncode == 0
    assert output.read_bytes() == unbroken.read_bytes()


@pytest.mark.parametrize("how_often", ["once", "always"])
def test_a_killed_worker_loses_nothing(folder, unbroken, tmp_path, how_often):
    check_killed_worker("processes", how_often, folder, unbroken, tmp_path)


def check_killed_worker(engine, how_often, folder, unbroken, tmp_path):
    """Every other row is there; a case that always kills its worker is a row that says so."""
    output = tmp_path / "results.jsonl"
    command = [sys.executable, str(KILLING), str(folder), str(output), engine, how_often]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert output.with_name("results.jsonl.killed").exists()
    found, expected = rows(output), rows(unbroken)
    if how_often == "always":
        assert found[17]["status"] == "error"
        assert "killed or crashed" in found[17]["error"]
        del found[17], expected[17]
    assert found == expected
