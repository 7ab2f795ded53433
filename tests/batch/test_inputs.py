"""Which cases paths stand for."""

import pyarrow
import pyarrow.parquet as parquet
import pytest

from optimiser.errors import InputError
from optimiser.studies.batch_inputs import gather


@pytest.fixture
def folder(tmp_path):
    for name in ("b.yaml", "a.yml", "c.json", "d.yaml"):
        (tmp_path / name).write_text(f"name: {name}")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "e.yaml").write_text("name: e")
    (tmp_path / "deep.yaml").mkdir()
    return tmp_path


def names(items):
    return [item.source.rsplit("/", 1)[-1] for item in items]


def test_a_folder_gives_its_yaml_files_by_name(folder):
    items = gather([str(folder)])
    assert names(items) == ["a.yml", "b.yaml", "d.yaml"]
    assert [item.index for item in items] == [0, 1, 2]
    assert items[0].text == "name: a.yml"


def test_paths_keep_their_order_and_count_once(folder):
    items = gather([str(folder / "d.yaml"), str(folder), f"{folder}/deep/../b.yaml"])
    assert names(items) == ["d.yaml", "a.yml", "b.yaml"]


def test_globs_match_case_files(folder):
    assert names(gather([f"{folder}/**/*"])) == ["a.yml", "b.yaml", "d.yaml", "e.yaml"]


def test_a_file_of_any_ending_may_be_named(folder):
    assert names(gather([str(folder / "c.json")])) == ["c.json"]


def test_a_file_that_cannot_be_read_is_a_case_with_its_fault(folder):
    (folder / "b.yaml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in gather([str(folder)])[1].fault


@pytest.mark.parametrize(
    ("paths", "base", "message"),
    [
        (["nothing-here.yaml"], None, "no such file"),
        (["nothing-*.yaml"], None, "matches no"),
        (["t.csv"], None, "--base"),
        (["t.csv", "u.csv"], "b.yaml", "the only path"),
        (["."], "b.yaml", "needs one table"),
        (["."], None, "holds no"),
        (["t.csv"], "no-base.yaml", "no such file"),
    ],
)
def test_paths_that_stand_for_nothing_are_refused(tmp_path, monkeypatch, paths, base, message):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        gather(paths, base and Path(base))


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.yaml"
    path.write_text("name: base")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "given twice"),
        ("brief..x\n1\n", "not a dotted field"),
        ("a=b\n1\n", "not a dotted field"),
        ("a,\n1,2\n", "not a dotted field"),
    ],
)
def test_tables_that_make_no_sense_are_refused(tmp_path, base, text, message):
    table = tmp_path / "t.csv"
    table.write_text(text)
    with pytest.raises(InputError, match=message):
        gather([str(table)], base)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_bytes_that_are_no_table_are_refused(tmp_path, base, ending):
    table = tmp_path / f"t.{ending}"
    table.write_bytes(b"a\n\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as"):
        gather([str(table)], base)


def test_cells_of_csv_are_yaml(tmp_path, base):
    table = tmp_path / "t.csv"
    table.write_text('name,x,y\n012,"[a, b]",1000.0\n,,null\n\n1,2,3,4\n')
    first, second, third = gather([str(table)], base)
    assert first.settings == ('name="012"', "x=[a, b]", "y=1000")
    assert second.settings == ("y=null",)
    assert "4 cells, the header has 3" in third.fault
    assert (first.source, first.text_source) == (f"{table}:2", str(base))


def test_values_of_json_keep_their_types(tmp_path, base):
    table = tmp_path / "t.jsonl"
    lines = ['{"name": "é", "brief": {"x": 1, "y": null}, "z": "5"}', "{", "[1]", '{"a b": 1}']
    table.write_text("\n\n".join(lines), encoding="utf-8")
    first, *bad = gather([str(table)], base)
    assert first.settings == ('name="é"', "brief.x=1", 'z="5"')
    assert [item.source for item in bad] == [f"{table}:{number}" for number in (3, 5, 7)]
    for item, message in zip(bad, ["not valid JSON", "expected an object", "'a b'"], strict=True):
        assert message in item.fault


def test_gaps_of_parquet_keep_the_base(tmp_path, base):
    table = tmp_path / "t.parquet"
    columns = {"a.b": [1000.0, float("nan"), None], "c": ["[x, y]", None, ""], "d": [[1], [], None]}
    parquet.write_table(pyarrow.table(columns), table)
    settings = [item.settings for item in gather([str(table)], base)]
    assert settings == [("a.b=1000", "c=[x, y]", "d=[1]"), ("d=[]",), ()]
