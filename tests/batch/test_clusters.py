"""Real clusters on this machine, each in processes of its own."""

from importlib.util import find_spec

import pytest

from tests.batch.making import write_cases
from tests.batch.running import run
from tests.batch.test_processes import check_killed_worker

pytestmark = pytest.mark.cluster
N_CASES = 200
ENGINES = [
    "dask",
    pytest.param("ray", marks=pytest.mark.skipif(not find_spec("ray"), reason="no ray here")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_cases(tmp_path_factory.mktemp("clusters") / "cases", N_CASES)


@pytest.fixture(scope="module")
def unbroken(folder):
    output = folder.with_name("unbroken.jsonl")
    assert run(folder, "-o", output, "--jobs", 1).returncode == 0
    return output


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cluster_gives_the_same_rows(folder, unbroken, engine):
    output = folder.with_name(f"{engine}.jsonl")
    done = run(folder, "-o", output, "--jobs", 2, "--engine", engine)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes() == unbroken.read_bytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_worker_loses_nothing(folder, unbroken, tmp_path, engine):
    check_killed_worker(engine, "once", folder, unbroken, tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_case_that_kills_every_worker_is_one_row(folder, unbroken, tmp_path, engine):
    check_killed_worker(engine, "always", folder, unbroken, tmp_path)
