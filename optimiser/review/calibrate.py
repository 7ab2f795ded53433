"""The review of a calibration: the scales, and each run before and after them."""

from typing import Any

from optimiser.review.numbers import count, ms, per_cent, plain, significant
from optimiser.review.review import Review, Table
from optimiser.studies.calibrate import Calibration, Said
from optimiser.units import MS_PER_S
from optimiser.units import ms as ms_of

COLUMNS = (
    *("concurrency", "run", "TTFT: measured", "before", "after"),
    *("TPOT: measured", "before", "after", "used"),
)


def calibrate_review(found: Calibration, output: str | None) -> Review:
    """What the runs say; `output` is the file that the scales went to, where they went to one."""
    scales, used = found.scales, len(found.runs) - len(found.refused)
    offset = ms(scales.ttft_offset_s * MS_PER_S)
    kept = "" if scales.offset_fitted else " (the engine's, kept: three loads would tell)"
    before, after = _off(found, found.before), _off(found, found.after)
    closing = [
        f"TPOT {per_cent(before[0])} off before, {per_cent(after[0])} after; TTFT "
        f"{per_cent(before[1])} before, {per_cent(after[1])} after",
    ]
    if output is not None:
        closing.append(f"written to {output}; a case names it under assumptions.calibration")
    return Review(
        title=f"{found.case.model.name} · {found.chosen.label}, "
        f"{found.case.assumptions.serving_engine}",
        headline=f"decode × {significant(scales.decode_scale)} · prefill × "
        f"{significant(scales.prefill_scale)} · TTFT offset {offset}{kept}, from "
        f"{count(used, 'run')}",
        good=True,
        steps=(),
        tables=(Table("Runs", COLUMNS, tuple(_rows(found)), text=(1, 8)),),
        closing=tuple(closing),
        notes=tuple(_notes(found)),
        data=_data(found, output),
    )


def _rows(found: Calibration) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, run in enumerate(found.runs):
        before, after = found.before[place], found.after[place]
        refused = found.refused.get(place)
        rows.append(
            (
                significant(run.concurrency) if run.concurrency % 1 else plain(run.concurrency),
                run.source,
                ms(ms_of(run.ttft_s)),
                f"{ms(ms_of(before.ttft_s))} {_signed(before.ttft_s / run.ttft_s)}",
                f"{ms(ms_of(after.ttft_s))} {_signed(after.ttft_s / run.ttft_s)}",
                ms(ms_of(run.tpot_s)),
                f"{ms(ms_of(before.tpot_s))} {_signed(before.tpot_s / run.tpot_s)}",
                f"{ms(ms_of(after.tpot_s))} {_signed(after.tpot_s / run.tpot_s)}",
                "yes" if refused is None else "no: " + refused.split(": ", 1)[-1],
            )
        )
    return rows


def _signed(ratio: float) -> str:
    return f"{round((ratio - 1) * 100) + 0:+d} %"


def _off(found: Calibration, said: tuple[Said, ...]) -> tuple[float, float]:
    """Mean error of TPOT and of TTFT over the runs that are used."""
    pairs = [
        (abs(one.tpot_s / run.tpot_s - 1), abs(one.ttft_s / run.ttft_s - 1))
        for place, (one, run) in enumerate(zip(said, found.runs, strict=True))
        if place not in found.refused
    ]
    return sum(tpot for tpot, _ in pairs) / len(pairs), sum(ttft for _, ttft in pairs) / len(pairs)


def _notes(found: Calibration) -> list[str]:
    notes = ["each run is of one replica"]
    if any(run.closed_loop for run in found.runs):
        how = f"synchronised to {significant(found.synchrony)} of all at once, as the engine's"
        if not found.synchrony:
            how = "spread out, which fits the runs clearly better than synchronised ones"
        notes.append(f"requests of a fixed concurrency arrive {how}")
    return notes


def _data(found: Calibration, output: str | None) -> dict[str, Any]:
    scales, chosen = found.scales, found.chosen
    return {
        "status": "calibrated",
        "case": found.case.name,
        "deployment": {
            "model": found.case.model.name,
            "gpu": chosen.gpu.name,
            "tensor_parallel": chosen.tensor_parallel,
            "weights": chosen.weights,
            "kv_cache": chosen.kv_cache,
            "kv_heads": chosen.kv_heads,
            "serving_engine": found.case.assumptions.serving_engine,
        },
        "scales": {
            "decode_scale": scales.decode_scale,
            "prefill_scale": scales.prefill_scale,
            "ttft_offset_s": scales.ttft_offset_s,
            "ttft_offset_fitted": scales.offset_fitted,
        },
        "runs": [
            {
                "source": run.source,
                "concurrency": run.concurrency,
                "prompt_tokens": run.prompt_tokens,
                "answer_tokens": run.answer_tokens,
                "measured": {"ttft_ms": ms_of(run.ttft_s), "tpot_ms": ms_of(run.tpot_s)},
                "before": _said_data(found.before[place]),
                "after": _said_data(found.after[place]),
                "refused": found.refused.get(place),
            }
            for place, run in enumerate(found.runs)
        ],
        "output": output,
    }


def _said_data(said: Said) -> dict[str, float]:
    return {"ttft_ms": ms_of(said.ttft_s), "tpot_ms": ms_of(said.tpot_s)}
