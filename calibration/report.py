"""What the fit is worth: errors beside the ideal roofline's, error bars, residuals by row."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibration.documents import AS_OF, Document
from calibration.end_to_end import Predicted, Table
from calibration.parts import UNIT
from calibration.statistics import FEWEST_ROWS, error_bar, errors, slo_margin
from optimiser.engine.latency import decode_step_s, prefill_s
from optimiser.studies.measurements import Measured

Ways = Mapping[str, Predicted]


def ideal_values() -> dict[str, float]:
    """The ideal roofline: peaks reached, links, floors and host work free."""
    whole = {n: float(getattr(UNIT, n)) for n in UNIT.__dataclass_fields__ if n != "flop_frac"}
    flops = {f"flop_frac.{fmt}": 1.0 for fmt in UNIT.flop_frac}
    return {**whole, **flops, "link_bandwidth_frac": math.inf, "link_large_s": 0.0}


def ideal(table: Table) -> Predicted:
    """What the ideal roofline says of each row: no stalls, no queue."""
    columns = table.parts.columns(ideal_values())
    tpot, ttft = decode_step_s(columns, table.running), prefill_s(columns)
    residence = ttft + (columns.answer_tokens - 1) * tpot
    return Predicted(tpot, ttft, table.running * columns.answer_tokens / residence)


def _compared(said: Predicted, table: Table, keep: np.ndarray) -> Document:
    within = keep & table.compare_ttft
    return {
        "tpot": errors(said.tpot_s[keep], table.tpot_s[keep]),
        "ttft": errors(said.ttft_s[within], table.ttft_s[within]),
        "throughput": errors(said.tokens_per_s[keep], table.tokens_per_s[keep]),
    }


def accuracy_file(
    table: Table,
    ways: Ways,
    dropped: Sequence[str],
    kernels: Mapping[str, Mapping[str, Document]],
) -> Document:
    """Errors of each way to predict, overall, by GPU and by engine."""
    gpus, engines = np.array(table.gpus), np.array(table.engines)
    everything = np.ones(len(gpus), dtype=bool)
    ways = {"ideal": ideal(table), **ways}
    return {
        "as_of": AS_OF,
        "left_out": {reason: dropped.count(reason) for reason in sorted(set(dropped))},
        "overall": {way: _compared(said, table, everything) for way, said in ways.items()},
        **{
            by: {
                str(name): {
                    way: _compared(said, table, whose == name) for way, said in ways.items()
                }
                for name in np.unique(whose)
            }
            for by, whose in (("gpus", gpus), ("engines", engines))
        },
        "kernels": {
            source: {gpu: entry["accuracy"] for gpu, entry in found.items()}
            for source, found in kernels.items()
        },
    }


def error_bars_file(table: Table, outside: Predicted) -> Document:
    """From runs that the fit had not seen: measured / predicted."""
    gpus, engines = np.array(table.gpus), np.array(table.engines)
    pairs = np.array([f"{g} {e}" for g, e in zip(gpus, engines, strict=True)])
    within = table.compare_ttft

    def bars(keep: np.ndarray) -> Document:
        both = keep & within
        found = {"tpot": error_bar(outside.tpot_s[keep], table.tpot_s[keep])}
        if both.sum() >= FEWEST_ROWS:
            found["ttft"] = error_bar(outside.ttft_s[both], table.ttft_s[both])
        found["throughput"] = error_bar(outside.tokens_per_s[keep], table.tokens_per_s[keep])
        return found

    return {
        "source": "residuals of the end-to-end runs, each predicted by a fit without its group",
        "as_of": AS_OF,
        "slo_margin": {
            "tpot": slo_margin(outside.tpot_s, table.tpot_s),
            "ttft": slo_margin(outside.ttft_s[within], table.ttft_s[within]),
        },
        "overall": bars(np.ones(len(gpus), dtype=bool)),
        **{
            by: {
                str(name): bars(whose == name)
                for name in np.unique(whose)
                if (whose == name).sum() >= FEWEST_ROWS
            }
            for by, whose in (("gpus", gpus), ("engines", engines), ("gpus_and_engines", pairs))
        },
    }


def residuals_file(rows: Sequence[Measured], table: Table, ways: Ways) -> str:
    """Predicted / measured of each row, each way."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    kinds = ("tpot", "ttft", "throughput")
    header: list[Any] = ["line", "model", "gpu", "engine", "ttft_left_out"]
    writer.writerow(header + [f"{kind}_{way}" for way in ways for kind in kinds])
    for i, row in enumerate(rows):
        measured = (table.tpot_s[i], table.ttft_s[i], table.tokens_per_s[i])
        ratios = [
            f"{said[i] / true:.4f}" if np.isfinite(true) else ""
            for way in ways.values()
            for said, true in zip((way.tpot_s, way.ttft_s, way.tokens_per_s), measured, strict=True)
        ]
        reason = row.ttft_left_out or ""
        writer.writerow([row.line, row.model, row.gpu, row.engine, reason, *ratios])
    return file.getvalue()
