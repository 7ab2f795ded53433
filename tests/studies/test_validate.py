"""Predicted against measured: the same figures as the fit's own, tables in and out, the README."""

import csv
from collections import Counter

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser.catalogue.load import shipped
from optimiser.errors import InputError
from optimiser.review.validation_table import END, START, validation_table
from optimiser.studies.measurements import read_rows, shipped_names
from optimiser.studies.validation import errors, validate, validate_shipped
from optimiser.studies.validation_files import read_measurements, with_predictions
from tests.cli.running import ROOT

E2E = shipped("models") / "measurements" / "e2e.csv"
CALIBRATION = shipped("models") / "calibration"
KINDS = ("tpot", "ttft", "throughput")


@pytest.fixture(scope="module")
def found():
    return validate_shipped(shipped_names())


@pytest.fixture(scope="module")
def stored():
    return yaml.safe_load((CALIBRATION / "accuracy.yaml").read_text())


def test_errors_by_hand():
    # 0.1 under, 0.3 over, 0.2 over; the fourth is not known
    of = errors(np.array([0.9, 1.3, 1.2, np.nan]))
    assert of.rows == 3
    assert of.mean_frac == pytest.approx(0.2)
    assert of.median_frac == pytest.approx(0.2)
    assert of.p90_frac == pytest.approx(0.28)  # 0.8 of the way from 0.2 to 0.3
    assert of.bias_frac == pytest.approx(0.4 / 3)
    assert errors(np.array([np.nan])) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["ideal", "in_sample", "leave_groups_out"])
def test_the_figures_are_those_that_the_fit_stored(found, stored, way, kind):
    """The fit evaluates its constants by another path and with other digits."""
    ratios = {
        "ideal": found.ideal_ratios,
        "in_sample": found.ratios,
        "leave_groups_out": found.unseen_ratios,
    }[way]
    keeps = {"overall": found.everything}
    for engine in stored["engines"]:
        keeps[engine] = found.where(lambda row, of=engine: row.engine == of)
    for name, keep in keeps.items():
        there = (stored["overall"] if name == "overall" else stored["engines"][name])[way][kind]
        here = getattr(ratios.accuracy(keep), kind)
        assert here.rows == there["rows"]
        for figure in ("mean_error", "median_error", "p90_error", "bias"):
            value = getattr(here, f"{figure.removesuffix('_error')}_frac")
            assert value == pytest.approx(there[f"{figure}_frac"], rel=5e-3, abs=5e-4), name


def test_each_row_agrees_with_the_fit(found):
    residuals = read_rows(CALIBRATION / "residuals.csv")
    assert [row.line for row in found.rows] == [int(row["line"]) for row in residuals]
    for kind, column in (("tpot", "tpot_s"), ("throughput", "tokens_per_s")):
        there = np.array([float(row[f"{kind}_in_sample"] or "nan") for row in residuals])
        np.testing.assert_allclose(getattr(found.ratios, column), there, rtol=5e-3)


def test_the_shipped_runs_meet_what_the_fit_promises(found):
    seen = found.ratios.accuracy(found.everything)
    unseen = found.unseen_ratios.accuracy(found.everything)
    assert seen.tpot.mean_frac <= 0.20
    assert seen.tpot.median_frac <= 0.12
    assert seen.ttft.mean_frac <= 0.38
    assert unseen.tpot.mean_frac <= 0.25
    assert unseen.tpot.median_frac <= 0.19
    ideal = found.ideal_ratios.accuracy(found.everything)
    assert ideal.tpot.mean_frac > 2 * seen.tpot.mean_frac


def test_every_row_is_compared_or_counted(found):
    assert len(found.rows) + sum(found.reasons.values()) == len(read_rows(E2E))
    assert sum(found.ttft_reasons.values()) == int(np.isnan(found.ratios.ttft_s).sum())


def test_predictions_are_beside_every_row(found):
    rows = read_measurements(E2E)
    written, types = with_predictions(rows, found)
    assert len(written) == len(rows)
    assert list(written[0]) == list(types)
    reasons = Counter()
    for row, beside in zip(rows, written, strict=True):
        assert {name: beside[name] for name in row} == row
        has = [name for name in types if name.startswith("predicted") and beside[name] is not None]
        assert (beside["reason"] is None) == (len(has) == 3)
        if beside["reason"] is not None and len(has) == 2:
            assert beside["reason"].startswith("no TTFT: ")
        reasons[beside["reason"]] += 1
    assert reasons["no TTFT: more sequences than the cache holds"] == 55
    line = found.rows[0].line
    beside = written[line - 2]
    ratio = beside["predicted_tpot_ms"] / float(beside["tpot_ms"])
    assert ratio == pytest.approx(found.ratios.tpot_s[0], rel=1e-5)
    per_gpu = beside["predicted_tok_s_per_gpu"] / float(beside["out_tok_s_per_gpu"])
    assert per_gpu == pytest.approx(found.ratios.tokens_per_s[0], rel=1e-5)


GOOD = {
    "engine": "vllm",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "h100",
    "tp": "1",
    "isl": "1000",
    "osl": "300",
    "concurrency": "16",
    "ttft_ms": "60",
    "tpot_ms": "8",
}


def test_few_columns_are_enough():
    found = validate([GOOD], shipped_names(), "mine")
    assert (len(found.rows), found.reasons, found.unseen_ratios) == (1, {}, None)
    assert found.ratios.accuracy(found.everything).throughput is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "Unheard-Of-7B"}, "unknown model Unheard-Of-7B"),
        ({"gpu": "h900"}, "unknown GPU h900"),
        ({"engine": "llama.cpp"}, "no latency constants for the serving engine 'llama.cpp'"),
        ({"ttft_ms": ""}, "no TTFT or TPOT measured"),
        ({"tpot_ms": "fast"}, "tpot_ms is not a positive number"),
        ({"tpot_ms": "nan"}, "tpot_ms is not a positive number"),
        ({"isl": "0"}, "isl is not a positive number"),
        ({"isl": "1e300"}, "isl is not a positive number"),
        ({"osl": ""}, "osl is not a positive number"),
        ({"concurrency": "inf"}, "no finite concurrency"),
        ({"concurrency": "-4"}, "concurrency is not a positive number"),
        ({"tp": ""}, "neither tp nor n_gpus says how many GPUs"),
        ({"tp": "1.5"}, "tp is not a whole number of GPUs"),
        ({"attn_dp": "two"}, "attn_dp is not a whole number of GPUs"),
        ({"out_tok_s_per_gpu": "?"}, "out_tok_s_per_gpu is not a positive number"),
        ({"precision": "fp3"}, "unknown precision fp3"),
    ],
)
def test_strange_rows_are_counted_by_reason(changes, reason):
    found = validate([GOOD, GOOD | changes], shipped_names(), "mine")
    assert (len(found.rows), found.reasons) == (1, {reason: 1})


def test_counts_may_be_written_as_decimals():
    rows = [GOOD | {"tp": "2.0", "n_gpus": "2.0", "attn_dp": "1.0"}, GOOD | {"tp": "2"}]
    found = validate(rows, shipped_names(), "mine")
    assert found.predicted.tpot_s[0] == found.predicted.tpot_s[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the file is empty"),
        ("\n \n", ": the file is empty"),
        (",".join(GOOD) + "\n", ": the table has a header but no rows"),
        ("a,b\n1,2\n", ":1: not a table of measurements: a header with engine, model, gpu"),
        ('{"rows": []}', ":1: not a table of measurements"),
        (b"PAR1\0\0", ": not CSV: binary data"),
        (b"\xff\xfe\xfa", ": not CSV: not UTF-8 text"),
        (",".join(GOOD) + ',tp\n"x\n', ":1: the column 'tp' stands twice"),
        (",".join(GOOD) + '\n"x"y,1\n', ":2: not CSV: "),
        (",".join(GOOD) + "\n" + "1," * 12 + "\n", ":2: more cells than the header has columns"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, message):
    path = tmp_path / "runs.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        read_measurements(path)
    assert str(raised.value).startswith(f"{path}{message}")


def test_all_missing_columns_are_named_with_the_nearest(tmp_path):
    path = tmp_path / "runs.csv"
    names = {"tpot_ms": "TPOT ms", "tp": "gpus"}
    path.write_text(",".join(names.get(name, name) for name in GOOD) + "\n")
    with pytest.raises(InputError) as raised:
        read_measurements(path)
    tpot, tp = raised.value.mistakes
    assert tpot.message == "the column 'tpot_ms' is missing"
    assert tpot.nearest == ("TPOT ms",)
    assert tp.message == "the column 'tp' is missing"


@pytest.mark.parametrize("name", ["nothing.csv", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"no such file|is a directory"):
        read_measurements(tmp_path / name)


def test_short_rows_and_a_byte_order_mark_are_read(tmp_path):
    path = tmp_path / "runs.csv"
    cells = {**GOOD, "precision": "fp8", "out_tok_s_per_gpu": ""}
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerow(list(cells.values())[:-1])
    (row,) = read_measurements(path)
    assert row == cells


def test_the_readme_has_the_table_of_the_shipped_runs(found):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = validation_table(found)
    assert START in readme, f"README.md has no {START} … {END}; it should hold\n\n{table}"
    assert END in readme, f"README.md has no {END}"
    shown = readme.partition(START)[2].partition(END)[0].strip()
    assert shown == table, f"README.md should say between its {START} markers:\n\n{table}"


def test_only_the_shipped_runs_have_a_table():
    with pytest.raises(ValueError, match="stored residuals"):
        validation_table(validate([GOOD], shipped_names(), "mine"))


CELLS = (
    "",
    " ",
    "inf",
    "-inf",
    "nan",
    "-1",
    "0",
    "0.5",
    "1",
    "8",
    "1e9",
    "1e400",
    "0x10",
    "x",
    "٣",
)


@settings(max_examples=300)
@given(
    changes=st.dictionaries(
        st.sampled_from([*GOOD, "n_gpus", "attn_dp", "precision", "out_tok_s_per_gpu"]),
        st.one_of(st.sampled_from(CELLS), st.text(max_size=4)),
        max_size=4,
    )
)
def test_no_cell_breaks_it(changes):
    rows = [GOOD | changes]
    found = validate(rows, shipped_names(), "mine")
    assert len(found.rows) + len(found.left_out) == 1
    (written,), _ = with_predictions(rows, found)
    assert written["reason"] or written["predicted_tpot_ms"] > 0
