"""The fit: reproducible, consistent with what is shipped, and as good as promised."""

import csv

import numpy as np
import pytest
import yaml

from calibration.end_to_end import Table, deviations, fit, folds, predict
from calibration.fit import summaries_of, table_of
from calibration.parameters import END_TO_END, constants_of
from calibration.parts import Parts
from calibration.statistics import error_bar, errors, slo_margin
from calibration.summaries import LENGTHS, summaries
from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.load import shipped
from optimiser.engine.columns_of_shape import latency_row
from optimiser.engine.latency_parts import LatencyParts, columns_of
from optimiser.studies.measurements import read_rows, shipped_names, usable

FOLDER = shipped("models") / "calibration"


@pytest.fixture(scope="module")
def rows():
    return usable(read_rows(FOLDER.parent / "measurements" / "e2e.csv"), shipped_names())[0]


@pytest.fixture(scope="module")
def table(rows) -> Table:
    return table_of(rows, shipped_names())


def _shipped(table, rows):
    pairs = zip(table.gpus, rows, strict=True)
    return [calibrated(FOLDER, gpu, row.engine).constants for gpu, row in pairs]


def _ratios(name):
    with (FOLDER / "residuals.csv").open() as file:
        column = [(row[name], row["ttft_left_out"]) for row in csv.DictReader(file)]
    keep = [value for value, reason in column if not (name.startswith("ttft") and reason)]
    return np.array([float(value) for value in keep])


def test_a_fit_gives_the_committed_constants_again(table, rows):
    values = fit(table, summaries_of(table, shipped_names()))
    for gpu, row, constants in zip(table.gpus, rows, _shipped(table, rows), strict=True):
        for name, value in constants_of(values, gpu, row.engine).items():
            plain, _, fmt = name.partition(".")
            there = getattr(constants, plain)
            if fmt and fmt not in there:
                continue
            there = there[fmt] if fmt else there
            assert there == pytest.approx(value, rel=5e-3), f"{name} of {gpu} under {row.engine}"


def test_parts_put_together_are_the_rows_themselves(rows, table):
    values = {p.name: p.prior for p in END_TO_END}
    some = slice(None, None, 37)
    for gpu, row in list(zip(table.gpus, rows, strict=True))[some]:
        at = constants_of(values, gpu, row.engine)
        flops = {n.partition(".")[2]: at[n] for n in at if n.startswith("flop_frac.")}
        plain = {n: v for n, v in at.items() if not n.startswith("flop_frac.")}
        shipped_there = calibrated(FOLDER, gpu, row.engine).constants
        constants = type(shipped_there)(flop_frac=flops, **plain)
        whole = columns_of([latency_row(row.at, constants)])
        parts = Parts.of([row.at]).columns(at)
        for name in LatencyParts.__dataclass_fields__:
            assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12), name


def test_shipped_constants_reach_the_promised_errors_in_sample(rows, table):
    from optimiser.engine import latency

    constants = _shipped(table, rows)
    columns = columns_of([latency_row(r.at, c) for r, c in zip(rows, constants, strict=True)])
    synchrony = np.array([c.closed_loop_synchrony for c in constants])
    tpot = errors(latency.tpot_s(columns, table.running, synchrony), table.tpot_s)
    keep = table.compare_ttft
    ttft = errors(latency.ttft_s(columns, table.concurrency, synchrony)[keep], table.ttft_s[keep])
    assert tpot["mean_error_frac"] <= 0.20
    assert tpot["median_error_frac"] <= 0.12
    assert ttft["mean_error_frac"] <= 0.38
    np.testing.assert_allclose(
        latency.tpot_s(columns, table.running, synchrony) / table.tpot_s,
        _ratios("tpot_in_sample"),
        rtol=1e-3,
    )


def test_residuals_out_of_sample_are_within_the_promised_errors():
    tpot = np.abs(_ratios("tpot_leave_groups_out") - 1)
    assert tpot.mean() <= 0.25
    assert np.median(tpot) <= 0.19
    assert np.abs(_ratios("ttft_leave_groups_out") - 1).mean() <= 0.38
    models = np.abs(_ratios("tpot_leave_models_out") - 1)
    assert models.mean() <= 0.25


def test_kernel_sums_are_within_their_errors():
    found = yaml.safe_load((FOLDER / "accuracy.yaml").read_text())["kernels"]
    cells = [gpu for source in found.values() for gpu in source.values()]
    for phase, most in (("decode", 0.08), ("prefill", 0.12)):
        mean = np.array([gpu[phase]["measured"]["mean_error_frac"] for gpu in cells])
        assert (mean <= most).all()
        assert (mean < [gpu[phase]["ideal"]["mean_error_frac"] for gpu in cells]).all()


def test_the_readme_shows_the_errors_of_kernel_sums():
    found = yaml.safe_load((FOLDER / "accuracy.yaml").read_text())["kernels"]
    readme = (FOLDER.parent.parent / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- kernel-sums -->")[1].split("<!-- /kernel-sums -->")[0]
    rows = [line.strip("| ").split(" | ") for line in shown.strip().splitlines()[2:]]
    assert len(rows) == sum(len(gpus) for gpus in found.values())
    for name, n_rows, *cells in rows:
        source, gpu = name.split()
        phases = found[source][gpu]
        assert int(n_rows) == sum(phases[phase]["measured"]["rows"] for phase in phases)
        for phase, cell in zip(("decode", "prefill"), cells, strict=True):
            both = [float(part.strip(" %()")) / 100 for part in cell.replace("(", "|").split("|")]
            for way, value in zip(("measured", "ideal"), both, strict=True):
                error = phases[phase][way]["mean_error_frac"]
                assert value == pytest.approx(error, abs=5.01e-4 if way == "measured" else 5e-3)


def test_the_margin_that_is_shipped_follows_from_the_residuals():
    shipped_margin = yaml.safe_load((FOLDER / "error-bars.yaml").read_text())["slo_margin"]["tpot"]
    ratio = _ratios("tpot_leave_groups_out")  # predicted / measured
    # Planned at this share, at most 10 % of runs pass the target by more than 5 %; at a share a
    # little larger, more do.
    assert (shipped_margin / ratio > 1.05 * 1.001).mean() <= 0.1
    assert (shipped_margin * 1.02 / ratio > 1.05).mean() > 0.1


def test_folds_keep_groups_whole_and_are_always_the_same():
    groups = np.array([f"g{i % 7}" for i in range(50)])
    fold = folds(groups, 3)
    assert all(len(set(fold[groups == group])) == 1 for group in set(groups))
    assert set(fold) == {0, 1, 2}
    assert (fold == folds(groups, 3)).all()


def test_statistics_by_hand():
    # Errors 10 %, 20 % and 30 %, one of them below.
    found = errors(np.array([1.1, 0.8, 1.3, 5.0]), np.array([1.0, 1.0, 1.0, np.nan]))
    assert found["rows"] == 3
    assert found["mean_error_frac"] == pytest.approx(0.2)
    assert found["median_error_frac"] == pytest.approx(0.2)
    assert found["bias_frac"] == pytest.approx(0.2 / 3)
    # Ten runs, measured over predicted 0.8 ... 1.4: one may exceed by 5 %, the next is 1.25.
    measured = np.array([1.4, 1.25, 1.1, 1, 1, 1, 1, 0.9, 0.9, 0.8])
    assert slo_margin(np.ones(10), measured) == pytest.approx(1.05 / 1.25)
    assert slo_margin(np.ones(10), measured / 2) == 1.0
    bar = error_bar(np.full(11, 2.0), np.linspace(1, 3, 11))
    assert (bar["low_factor"], bar["high_factor"]) == (pytest.approx(0.6), pytest.approx(1.4))
    # Two fits a factor e^2 apart: jackknife deviation sqrt(1/2 (1 + 1)) = 1 in the logarithm.
    assert deviations([{"a": 1.0}, {"a": np.exp(2)}])["a"] == pytest.approx(np.e)


def test_predictions_rise_with_the_priors_alone(table):
    values = {p.name: p.prior for p in END_TO_END}
    said = predict(values, table)
    assert np.isfinite(said.tpot_s).all()
    assert (said.ttft_s > 0).all()


def test_medians_of_groups_without_rows_are_matched(table):
    names = shipped_names()
    found = summaries_of(table, names)
    groups = set(zip(found.gpus, found.engines, strict=True))
    assert groups == {("b200", "vllm"), ("h200", "vllm"), ("h100-sxm", "tensorrt-llm")}
    values = {p.name: p.prior for p in END_TO_END}
    slower = {n: v * 2 if n.startswith("ttft_offset_s") else v for n, v in values.items()}
    change = found.log_errors(slower) - found.log_errors(values)
    assert (change[~found.of_tpot] > 0).all()
    assert (change[found.of_tpot] == 0).all()


def test_medians_say_what_their_rows_say(table, rows):
    # Llama 3.1 70B on H200 under TensorRT-LLM has both: the medians of its rows and those
    # published agree, so the fractions are understood.
    path = FOLDER.parent / "measurements" / "achieved_efficiency.csv"
    names = shipped_names()
    found = summaries(read_rows(path), names, set())
    at = [
        i
        for i, (g, e) in enumerate(zip(found.gpus, found.engines, strict=True))
        if (g, e) == ("h200", "tensorrt-llm")
    ]
    measured = {
        (row.at.n_gpus, row.at.prompt_tokens, row.at.answer_tokens, row.concurrency): row
        for row in rows
        if (row.model, row.gpu, row.engine) == ("Llama-3.1-70B", "h200", "tensorrt-llm")
    }
    # Eight runs' conditions in the table's order: tensor parallel 1, up to 8 requests.
    first = found.median[at[0]]
    runs = [row for key, row in measured.items() if key[0] == 1 and key[3] in (4, 8)]
    works = [found.work[i] for i in at if found.median[i] == first]
    keys = [(1, p, a, c) for p, a in LENGTHS for c in (4, 8)]
    fractions = [w / measured[key].tpot_s for w, key in zip(works, keys, strict=True)]
    assert len(runs) == len(keys)
    assert np.median(fractions) == pytest.approx(found.measured[first], rel=0.005)
