"""`optimise batch` on one process: what comes out, whatever goes in."""

import csv
import json

import pyarrow
import pyarrow.parquet as parquet
import pytest
import yaml

from optimiser import Case, plan
from optimiser.planning.planner import Infeasible, Planned
from optimiser.studies.levers import rank_levers
from tests.batch.making import case, fields, write_base, write_broken, write_cases
from tests.batch.running import invoke, rows


def test_broken_files_are_rows_and_stop_nothing(tmp_path):
    folder = write_cases(tmp_path / "cases", 50)
    write_broken(folder)
    output = tmp_path / "results.jsonl"
    done = invoke(folder, "-o", output, "--format", "json")
    assert done.exit_code == 1
    found = rows(output)
    assert [row["source"] for row in found] == sorted(map(str, folder.iterdir()))
    errors = [row for row in found if row["status"] == "error"]
    assert len(found) == 55
    assert len(errors) == 5
    for row in errors:
        assert row["source"].split("/")[-1] in row["error"]
        assert row["usd_per_month"] is None
    assert sum(row["status"] == "optimal" for row in found) == 48
    assert sum(row["status"] == "infeasible" for row in found) == 2
    summary = json.loads(done.stdout)
    assert (summary["cases"], summary["planned"], summary["infeasible"]) == (55, 48, 2)
    assert len(summary["errors"]) == 5
    assert "--resume" in done.stderr


def test_mended_files_are_planned_by_resuming(tmp_path):
    folder = write_cases(tmp_path / "cases", 3)
    bad = folder / "case-000001.yaml"
    good_text = bad.read_text()
    bad.write_text("name: [")
    output = tmp_path / "results.csv"
    assert invoke(folder, "-o", output).exit_code == 1
    assert (tmp_path / "results.csv.journal").exists()
    bad.write_text(good_text)
    assert invoke(folder, "-o", output, "--resume").exit_code == 0
    assert not (tmp_path / "results.csv.journal").exists()
    lines = output.read_text().splitlines()
    assert [row["status"] for row in csv.DictReader(lines)] == ["optimal"] * 3


def test_a_row_equals_the_plan_of_its_case(tmp_path):
    folder = write_cases(tmp_path / "cases", 20)
    output = tmp_path / "results.jsonl"
    assert invoke(folder, "-o", output).exit_code == 0
    for row in rows(output):
        outcome = plan(Case.load(row["source"]))
        assert row["status"] == outcome.status
        if isinstance(outcome, Infeasible):
            nearest = outcome.conflicts[0].nearest[0]
            assert nearest.requirement in row["conflict"]
            field, value = row["nearest"].split(" or ")[0].split("=")
            changed = Case.load(row["source"]).changed({field: float(value)})
            assert isinstance(plan(changed), Planned)
            continue
        assert row["rented_gpus"] == outcome.design.rented_gpus
        assert row["batch"] == outcome.design.batch
        assert row["usd_per_month"] == outcome.verdict.figures.usd_per_month
        levers = rank_levers(outcome)
        assert row["lever"] == (levers[0].name if levers else None)
        assert row["gpus_saved"] == (levers[0].gpus_saved if levers else None)


def test_all_levers_are_a_row_each(tmp_path):
    folder = write_cases(tmp_path / "cases", 3)
    output = tmp_path / "results.jsonl"
    assert invoke(folder, "-o", output, "--all-levers").exit_code == 0
    expected = []
    for path in sorted(folder.iterdir()):
        outcome = plan(Case.load(path))
        expected += [lever.name for lever in rank_levers(outcome)] or [None]
    assert [row["lever"] for row in rows(output)] == expected


def test_the_summary_adds_up(tmp_path):
    folder = write_cases(tmp_path / "cases", 30)
    output = tmp_path / "results.jsonl"
    summary = json.loads(invoke(folder, "-o", output, "--format", "json").stdout)
    found = rows(output)
    prices = [row["usd_per_month"] or 0 for row in found]
    assert summary["usd_per_month"] == pytest.approx(sum(prices))
    saved = [row["usd_saved_per_month"] or 0 for row in found]
    assert summary["usd_saved_per_month"] == pytest.approx(sum(saved))
    for lever in summary["levers"]:
        assert lever["wins"] == sum(row["lever"] == lever["name"] for row in found)
        assert lever["helps"] >= lever["wins"]
    totals = [lever["usd_saved_per_month"] for lever in summary["levers"]]
    assert totals == sorted(totals, reverse=True)


def test_compare_takes_the_cheapest_alternative(tmp_path):
    folder = write_cases(tmp_path / "cases", 4)
    output = tmp_path / "results.jsonl"
    options = ("--job", "compare", "--gpu", "h100-sxm", "--set", "brief.requests_per_s=1")
    done = invoke(folder, "-o", output, *options)
    assert done.exit_code == 0
    assert "alternative" in done.stdout
    for row in rows(output):
        one = "usd_per_month[brief.requests_per_s=1]"
        prices = [row["usd_per_month"], row["usd_per_month[h100-sxm]"], row[one]]
        assert row["winner_usd_per_month"] == min(prices)
        assert row["usd_saved_per_month"] == row["usd_per_month"] - min(prices)


def test_plan_alone_has_no_levers(tmp_path):
    folder = write_cases(tmp_path / "cases", 2)
    output = tmp_path / "results.csv"
    stdout = invoke(folder, "-o", output, "--job", "plan").stdout
    assert "lever" not in stdout.replace(str(tmp_path), "")
    assert "lever" not in output.read_text().splitlines()[0]


def _table(path, n):
    lines = [fields(i) for i in range(n)]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            for line in lines:
                writer.writerow({**line, "levers.weights": json.dumps(line["levers.weights"])})
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    else:
        parquet.write_table(pyarrow.Table.from_pylist(lines), path)
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_table_equals_the_same_cases_as_files(tmp_path, ending):
    folder = write_cases(tmp_path / "cases", 21)
    table = _table(tmp_path / f"cases.{ending}", 21)
    base = write_base(tmp_path / "base.yaml")
    assert invoke(folder, "-o", tmp_path / "files.jsonl").exit_code == 0
    assert invoke(table, "--base", base, "-o", tmp_path / "rows.jsonl").exit_code == 0
    of_files, of_table = rows(tmp_path / "files.jsonl"), rows(tmp_path / "rows.jsonl")
    assert of_table[0]["source"].startswith(f"{table}:")
    for row in (*of_files, *of_table):
        del row["source"]
    assert of_table == of_files


def test_an_empty_cell_keeps_the_value_of_the_base(tmp_path):
    base = write_base(tmp_path / "base.yaml")
    table = tmp_path / "cases.csv"
    table.write_text("name,brief.requests_per_s,brief.prompt_tokens\nkept,,\nset,40,\nbad,x,\n")
    done = invoke(table, "--base", base, "-o", tmp_path / "rows.jsonl")
    assert done.exit_code == 1
    kept, changed, bad = rows(tmp_path / "rows.jsonl")
    outcome = plan(Case.load(base))
    assert kept["rented_gpus"] == outcome.design.rented_gpus
    assert changed["rented_gpus"] > kept["rented_gpus"]
    assert "cases.csv:4 brief.requests_per_s=x" in bad["error"]


def test_columns_of_parquet_have_types_even_where_empty(tmp_path):
    folder = write_cases(tmp_path / "cases", 2)
    output = tmp_path / "results.parquet"
    assert invoke(folder, "-o", output).exit_code == 0
    schema = parquet.read_schema(output)
    assert schema.field("error").type == pyarrow.string()
    assert schema.field("gpus").type == pyarrow.int64()
    assert schema.field("tpot_ms").type == pyarrow.float64()
    assert not [name for name in schema.names if "second" in name.split("_")]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("missing/results.csv", "No such file"),
        ("folder.csv", "directory"),
        ("results.txt", "ending"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_first(tmp_path, monkeypatch, output, message):
    folder = write_cases(tmp_path / "cases", 2)
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.setattr("optimiser.studies.batch.run", None)  # no work may begin
    done = invoke(folder, "-o", tmp_path / output)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not list(tmp_path.glob("**/*journal*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "l4"], "--job compare"),
        (["--job", "plan", "--all-levers"], "--job levers"),
        (["--address", "tcp://head:8786"], "--engine"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options, message):
    done = invoke(tmp_path, "-o", tmp_path / "r.csv", *options)
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_unknown_alternative_is_refused_first(tmp_path):
    folder = write_cases(tmp_path / "cases", 1)
    options = ("--job", "compare", "--gpu", "h200x", "--model", "nope", "--set", "brief")
    done = invoke(folder, "-o", tmp_path / "r.csv", *options)
    assert done.exit_code == 1
    assert "h200x" in done.stderr
    assert "nope" in done.stderr
    assert "path.to.field=value" in done.stderr


def test_a_fault_of_ours_is_a_row(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("out of cheese")

    monkeypatch.setattr("optimiser.studies.batch_work.plan", fails)
    folder = write_cases(tmp_path / "cases", 1)
    assert invoke(folder, "-o", tmp_path / "r.jsonl").exit_code == 1
    row = rows(tmp_path / "r.jsonl")[0]
    assert row["case"] == "case-000000"
    assert row["error"] == "internal error: RuntimeError: out of cheese"


def test_resuming_plans_changed_cases_again_and_no_others(tmp_path, monkeypatch):
    folder = write_cases(tmp_path / "cases", 6)
    write_broken(folder)  # keeps the journal
    output = tmp_path / "r.jsonl"
    invoke(folder, "-o", output)
    before = {row["source"]: row for row in rows(output)}
    changed = folder / "case-000002.yaml"
    changed.write_text(yaml.safe_dump({**case(2), "name": "another"}))
    commented = folder / "case-000003.yaml"
    commented.write_text(f"# the same case\n{commented.read_text()}")
    planned = []

    def counted(wanted, **options):
        planned.append(wanted.name)
        return plan(wanted, **options)

    monkeypatch.setattr("optimiser.studies.batch_work.plan", counted)
    invoke(folder, "-o", output, "--resume")
    assert planned == ["another"]
    after = {row["source"]: row for row in rows(output)}
    assert after[str(changed)]["case"] == "another"
    del before[str(changed)], after[str(changed)]
    assert after == before
    planned.clear()
    invoke(folder, "-o", output, "--resume", "--job", "plan")
    assert len(planned) == 6  # another job, other rows
    planned.clear()
    invoke(folder, "-o", output)
    assert len(planned) == 6  # afresh


def test_resuming_plans_again_where_the_catalogue_changed(tmp_path, monkeypatch):
    from optimiser.catalogue.load import catalogue, shipped

    folder = write_cases(tmp_path / "cases", 2)
    write_broken(folder)
    own = tmp_path / "own"
    (own / "gpus").mkdir(parents=True)
    for name in ("generic-80gb", "l4"):
        text = (shipped("models") / "gpus" / f"{name}.yaml").read_text()
        (own / "gpus" / f"{name}.yaml").write_text(text)
    arguments = (folder, "-o", tmp_path / "r.jsonl", "--catalogue", own)
    invoke(*arguments)
    planned = []

    def counted(wanted, **options):
        planned.append(wanted.name)
        return plan(wanted, **options)

    monkeypatch.setattr("optimiser.studies.batch_work.plan", counted)
    for name, expected in (("l4", 0), ("generic-80gb", 2)):
        path = own / "gpus" / f"{name}.yaml"
        text = path.read_text()
        bandwidth = next(line for line in text.splitlines() if line.startswith("bandwidth"))
        key, number = bandwidth.split(":")[0], float(bandwidth.split(":")[1].split("#")[0])
        path.write_text(text.replace(bandwidth, f"{key}: {number * 0.9}"))
        catalogue.cache_clear()
        planned.clear()
        invoke(*arguments, "--resume")
        assert len(planned) == expected
