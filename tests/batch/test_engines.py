"""Engines that are missing or out of reach, and how chunks are sized."""

import io
import sys

import pytest

from optimiser.cli.progress import Progress
from optimiser.studies.batch import CHUNK_S, FIRST_CHUNK, _Pace
from optimiser.studies.batch_work import Done
from optimiser.studies.engines import EngineError, opened
from tests.batch.making import write_cases
from tests.batch.running import invoke


@pytest.mark.parametrize(("engine", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_library_is_named(tmp_path, monkeypatch, engine, module):
    monkeypatch.setitem(sys.modules, module, None)
    folder = write_cases(tmp_path / "cases", 1)
    done = invoke(folder, "-o", tmp_path / "r.csv", "--engine", engine)
    assert done.exit_code == 1
    assert f"pip install 'optimise[{engine}]'" in done.stderr


def test_processes_are_no_more_than_cases():
    with opened("processes", n_cases=3, jobs=8) as engine:
        assert engine.n_workers == 3
    with opened("processes", n_cases=0) as engine:
        assert engine.n_workers == 1


def test_an_engine_error_is_a_message():
    assert EngineError("x").exit_code == 1


def test_chunks_take_their_time_whatever_a_case_takes():
    pace = _Pace()
    assert pace.chunk(1000, 2) == FIRST_CHUNK
    pace.add(Done(tuple(range(4)), (), 0.04))
    assert pace.chunk(10**6, 2) == round(CHUNK_S / 0.01)
    assert pace.chunk(100, 2) == 25  # towards the end, smaller, so that no worker waits for another
    assert pace.chunk(1, 2) == 1
    for _ in range(20):
        pace.add(Done((0,), (), 60.0))
    assert pace.chunk(10**6, 2) == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal()
    shown = Progress(2000, stream)
    for second in range(1, 5):
        now[0] = second
        shown.update(second * 500)
    shown.close()
    last = stream.getvalue().rsplit("\r", 1)[-1]
    assert "█" * 24 in last
    assert "2,000 of 2,000 cases, 500 a second, 0 s left" in last
    assert stream.getvalue().endswith("\n")


def test_elsewhere_a_line_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    shown = Progress(100_000, stream)
    for second in range(1, 26):
        now[0] = second
        shown.update(1000 + second * 10, before=1000)
    shown.close()
    assert stream.getvalue().splitlines() == [
        "1,100 of 100,000 cases, 10 a second, 2 h 44 min left",
        "1,200 of 100,000 cases, 10 a second, 2 h 44 min left",
    ]
