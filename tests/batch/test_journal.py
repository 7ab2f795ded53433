"""Finished rows on disk."""

import json

import pytest

from optimiser.errors import InputError
from optimiser.studies.journal import Journal


def line(key):
    return json.dumps({"key": key, "row": {"status": "optimal"}, "options": []})


def test_a_torn_last_line_is_dropped(tmp_path):
    path = tmp_path / "j"
    with Journal(path).open(afresh=True) as journal:
        journal.append([line("a"), line("b")])
    path.write_bytes(path.read_bytes() + line("c").encode()[:-5])
    assert list(Journal(path).finished()) == ["a", "b"]
    with Journal(path).open(afresh=False) as journal:
        journal.append([line("d")])
    assert list(Journal(path).finished()) == ["a", "b", "d"]
    assert all(json.loads(text) for text in path.read_text().splitlines())


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_any_tear_leaves_the_whole_lines(tmp_path, cut):
    path = tmp_path / "j"
    path.write_bytes(f"{line('a')}\n{line('b')}\n".encode()[:-cut])
    with Journal(path).open(afresh=False) as journal:
        journal.append([line("z")])
    assert list(Journal(path).finished()) == (["a", "z"])


def test_errors_are_not_kept(tmp_path):
    with Journal(tmp_path / "j").open(afresh=True) as journal:
        journal.append([json.dumps({"key": None, "row": {"status": "error"}}), "[1]", line("a")])
    assert list(journal.finished()) == ["a"]


def test_afresh_forgets(tmp_path):
    with Journal(tmp_path / "j").open(afresh=True) as journal:
        journal.append([line("a")])
    with Journal(tmp_path / "j").open(afresh=True) as journal:
        assert journal.finished() == {}
    journal.remove()
    assert journal.finished() == {}
    assert not (tmp_path / "j").exists()


def test_faults_of_the_disk_are_told(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        Journal(tmp_path / "no" / "j").open(afresh=True)
    with pytest.raises(InputError, match="cannot be read"):
        Journal(tmp_path).finished()
    with pytest.raises(ValueError, match="not open"):
        Journal(tmp_path / "j").append([])
