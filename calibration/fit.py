"""Re-fits every constant of the latency model and writes `models/calibration`.

    python -m calibration.fit           writes the files
    python -m calibration.fit --check   fits and compares with the files instead

Deterministic: fixed folds, fixed starting points, no random draws.
"""

import argparse
import csv
import io
import math
import sys
from pathlib import Path
from typing import Any

import yaml

from calibration.documents import engines_file, family_files, kernel_file
from calibration.end_to_end import N_FOLDS, Table, deviations, fit, left_out, predict
from calibration.kernels import kernel_fits
from calibration.report import accuracy_file, error_bars_file, residuals_file
from calibration.statistics import rounded
from calibration.summaries import Summaries, summaries
from optimiser.catalogue.load import shipped
from optimiser.studies.measurements import Measured, Names, read_rows, shipped_names, usable

TOLERANCE = 5e-3
"""Relative difference that another machine's arithmetic may make."""


def main(arguments: list[str] | None = None) -> int:
    """Fits, then writes or compares. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Fit the latency model's constants.")
    parser.add_argument("--check", action="store_true", help="compare with the files instead")
    options = parser.parse_args(arguments)
    folder = shipped("models") / "calibration"
    files = calibrated()
    if not options.check:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return 0
    different = [name for name, text in files.items() if not _same(folder / name, text)]
    for name in different:
        sys.stderr.write(f"{folder / name} differs from the fit\n")
    return 1 if different else 0


def calibrated() -> dict[str, str]:
    """Every file of `models/calibration`, by name."""
    names = shipped_names()
    folder = shipped("models") / "measurements"
    kept, dropped = usable(read_rows(folder / "e2e.csv"), names)
    table = table_of(kept, names)
    also = summaries_of(table, names)
    values = {name: rounded(value) for name, value in fit(table, also).items()}
    groups_out, _ = left_out(table, table.groups, N_FOLDS, also)
    models_out, _ = left_out(table, table.models, len(set(table.models)))
    _, fits = left_out(table, table.groups, len(set(table.groups)), also)
    spread = deviations(fits)
    ways = {
        "in_sample": predict(values, table),
        "leave_groups_out": groups_out,
        "leave_models_out": models_out,
    }
    kernels = {
        source: kernel_fits(read_rows(folder / f"{source}_steps.csv"), names, source)
        for source in ("aic", "vidur")
    }
    documents = {
        "engines.yaml": engines_file(values, spread),
        **family_files(values, spread, kernels["aic"]),
        **{f"kernels-{source}.yaml": kernel_file(f, source) for source, f in kernels.items()},
        "accuracy.yaml": accuracy_file(table, ways, list(dropped.values()), kernels),
        "error-bars.yaml": error_bars_file(table, groups_out),
    }
    files = {
        name: yaml.safe_dump(_plain(document), sort_keys=False, width=100)
        for name, document in documents.items()
    }
    files["residuals.csv"] = residuals_file(kept, table, ways)
    return files


def summaries_of(table: Table, names: Names) -> Summaries:
    """Medians of the groups that the table has no rows of."""
    known = set(zip(table.models.tolist(), table.gpus, table.engines, strict=True))
    folder = shipped("models") / "measurements"
    return summaries(read_rows(folder / "achieved_efficiency.csv"), names, known)


def table_of(rows: list[Measured], names: Names) -> Table:
    """Usable rows as arrays."""
    gpus = [names.gpu(row.gpu) for row in rows]
    return Table.of(
        rows,
        [gpu.name for gpu in gpus if gpu is not None],
        [str(names.config(row.model)) for row in rows],
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return rounded(value)
    return value


def _same(path: Path, text: str) -> bool:
    """Whether a file holds what was fitted, numbers to within the tolerance."""
    if not path.exists():
        return False
    if path.suffix == ".csv":
        there, here = (list(csv.reader(io.StringIO(t))) for t in (path.read_text("utf-8"), text))
    else:
        there, here = yaml.safe_load(path.read_text("utf-8")), yaml.safe_load(text)
    return _alike(there, here)


def _alike(there: Any, here: Any) -> bool:
    if isinstance(there, dict) and isinstance(here, dict):
        return there.keys() == here.keys() and all(_alike(there[k], here[k]) for k in there)
    if isinstance(there, list) and isinstance(here, list):
        return len(there) == len(here) and all(map(_alike, there, here))
    try:
        return math.isclose(float(there), float(here), rel_tol=TOLERANCE, abs_tol=TOLERANCE / 10)
    except (TypeError, ValueError):
        return bool(there == here)


if __name__ == "__main__":
    sys.exit(main())
