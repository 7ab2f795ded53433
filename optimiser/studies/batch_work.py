"""What a worker of a batch does: one case in, one answer out, whatever happens.

An answer is a line of JSON with `key` (what it depends on), `row` (case, status, error, design,
figures, conflict) and `options` (the levers or alternatives, best first). It holds no times.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from optimiser import __version__
from optimiser.case import Case, named_llm
from optimiser.catalogue.load import Catalogue, catalogue
from optimiser.errors import CaseError, CatalogueError, InputError, Mistake, OptimiseError
from optimiser.planning.planner import Infeasible, Planned, Undecided, plan
from optimiser.studies.batch_inputs import CaseInput
from optimiser.studies.compare import compare, every_gpu, gpu_change, model_change, offer_change
from optimiser.studies.levers import rank_levers
from optimiser.studies.rows import Changes, Row
from optimiser.yaml_io import Document, override, parse, parse_setting

Kind = Literal["levers", "plan", "compare"]
FIGURES = (
    "ttft_ms",
    "tpot_ms",
    "usd_per_million_answer_tokens",
    "usd_per_hour",
    "usd_per_month",
    "requests_per_s_per_replica",
    "in_flight",
    "bottleneck",
)


@dataclass(frozen=True, slots=True)
class Job:
    """What is done with each case."""

    kind: Kind = "levers"
    alternatives: tuple[tuple[str, str], ...] = ()
    """For `compare`: (`gpu`, `model`, `offer` or `set`; its value); none is every priced GPU."""
    solver_name: str = "cp-sat"
    folder: str | None = None
    """The user's catalogue folder."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a chunk of cases."""

    indices: tuple[int, ...]
    results: tuple[str, ...]
    seconds: float
    """Time the worker took."""


def answer_chunk(job: Job, items: Sequence[CaseInput]) -> Done:
    """Answers to a chunk of cases."""
    start = time.perf_counter()
    results = tuple(answer(job, item) for item in items)
    return Done(tuple(item.index for item in items), results, time.perf_counter() - start)


def key_chunk(job: Job, items: Sequence[CaseInput]) -> Done:
    """Keys of a chunk of cases; empty for those that cannot be read."""
    start = time.perf_counter()
    keys = []
    for item in items:
        try:
            keys.append(key(job, case_of(job, item)))
        except Exception:  # the answer will say what is wrong
            keys.append("")
    return Done(tuple(item.index for item in items), tuple(keys), time.perf_counter() - start)


def answer(job: Job, item: CaseInput) -> str:
    """The answer to one case, as a line of JSON; a fault is an answer with the status `error`."""
    if item.fault:
        return fault(item, item.fault)
    name = None
    try:
        case = case_of(job, item)
        name = case.name
        found = {"key": key(job, case), **_answered(job, case)}
    except OptimiseError as error:
        return fault(item, str(error), name)
    except Exception as error:  # a fault of ours in one case must not stop the others
        return fault(item, f"internal error: {type(error).__name__}: {error}", name)
    return json.dumps(found, ensure_ascii=False, default=_plain)


def fault(item: CaseInput, message: str, name: str | None = None) -> str:
    """The answer to a case that went wrong."""
    row = {"case": name, "status": "error", "error": " / ".join(message.splitlines())}
    return json.dumps({"key": None, "row": row, "options": []}, ensure_ascii=False)


def case_of(job: Job, item: CaseInput) -> Case:
    """The case. Raises InputError with every mistake at once."""
    if item.fault:
        raise InputError(())
    document = _parsed(item.text, item.text_source)
    if item.settings:
        document = override(document, item.settings, option=item.source)
    return Case.of_document(document, catalogue(job.folder))


def key(job: Job, case: Case) -> str:
    """A digest of all that an answer depends on: the case, its catalogue entries, the job."""
    known = catalogue(job.folder)
    parts = [__version__, job.kind, job.solver_name, json.dumps(job.alternatives)]
    parts += _content(case)
    if job.kind == "compare":
        for what, value in job.alternatives or [("gpu", name) for name in _priced(known)]:
            if what == "gpu":
                parts.append(known.gpu(value).model_dump_json())
                parts += [offer.model_dump_json() for offer in known.offers(value)]
                continue
            try:
                parts += _content(case.changed(_change(case, known, what, value)))
            except CaseError as error:
                parts.append(str(error))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _content(case: Case) -> list[str]:
    offers = [offer for gpu in case.hardware.gpus for offer in case.offers(gpu)]
    return [case.model_dump_json(), *(offer.model_dump_json() for offer in offers)]


@lru_cache(maxsize=4)
def _parsed(text: str, source: str) -> Document:
    """Kept, since every row of a table is over the same base."""
    return parse(text, source)


def _answered(job: Job, case: Case) -> dict[str, Any]:
    if job.kind == "compare":
        known = catalogue(job.folder)
        changes = [(value, _change(case, known, what, value)) for what, value in job.alternatives]
        found = compare(case, changes or every_gpu(case, known), job.solver_name)
        options = [_alternative(row) for row in found.rows]
        return {"row": _row(case, found.baseline.outcome), "options": options}
    outcome = plan(case, solver_name=job.solver_name)
    options = []
    if job.kind == "levers" and isinstance(outcome, Planned):
        for lever in rank_levers(outcome, job.solver_name):
            option = _option(lever.name, lever.planned)
            option |= {
                "gpus_saved": lever.gpus_saved,
                "usd_saved_per_month": lever.usd_saved_per_month,
            }
            options.append(option)
    return {"row": _row(case, outcome), "options": options}


def _row(case: Case, outcome: Planned | Infeasible | Undecided | CaseError) -> dict[str, Any]:
    if isinstance(outcome, CaseError):
        raise outcome
    row: dict[str, Any] = {"case": case.name, "status": outcome.status}
    if isinstance(outcome, Planned):
        row |= _design(outcome)
    if isinstance(outcome, Infeasible):
        row["conflict"] = "; ".join(", ".join(c.requirements) for c in outcome.conflicts)
        row["nearest"] = "; ".join(
            " or ".join(
                f"{nearest.requirement}={nearest.works_at:.10g}"
                for nearest in conflict.nearest
                if nearest.works_at is not None
            )
            or "no value helps"
            for conflict in outcome.conflicts
        )
    return row


def _design(planned: Planned) -> dict[str, Any]:
    design, figures = planned.design, planned.verdict.figures
    chosen = design.configuration
    return {
        "model": planned.case.model.name,
        "gpu": chosen.gpu.name,
        "gpus": design.gpus,
        "rented_gpus": design.rented_gpus,
        "replicas": design.replicas,
        "tensor_parallel": chosen.tensor_parallel,
        "batch": design.batch,
        "weights": chosen.weights,
        "kv_cache": chosen.kv_cache,
        "kv_heads": chosen.kv_heads,
        "offer": chosen.rental.offer.name if chosen.rental.offer else None,
        "term": chosen.rental.term,
        **{name: getattr(figures, name) for name in FIGURES},
    }


def _alternative(row: Row) -> dict[str, Any]:
    if row.planned is None:
        return {"name": row.name, "status": row.status}
    option = _option(row.name, row.planned)
    return option | {"gpus_saved": row.gpus_saved, "usd_saved_per_month": row.usd_saved_per_month}


def _option(name: str, planned: Planned) -> dict[str, Any]:
    return {
        "name": name,
        "status": planned.status,
        "rented_gpus": planned.design.rented_gpus,
        "usd_per_month": planned.verdict.figures.usd_per_month,
    }


def check_alternatives(job: Job) -> None:
    """Raises InputError where an alternative names what the catalogue does not have."""
    known = catalogue(job.folder)
    look_up: dict[str, Callable[[str], object]] = {
        "gpu": known.gpu,
        "model": lambda name: named_llm(name, known),
        "offer": known.offer,
        "set": parse_setting,
    }
    mistakes: list[Mistake] = []
    for what, value in job.alternatives:
        try:
            look_up[what](value)
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise CatalogueError(mistakes)


def _change(case: Case, known: Catalogue, what: str, value: str) -> Changes:
    if what == "gpu":
        return gpu_change(case, value)
    if what == "model":
        return model_change(case, value)
    if what == "offer":
        return offer_change(known, value)
    return dict([parse_setting(value)])


def _priced(known: Catalogue) -> list[str]:
    return [name for name in known.names("gpus") if known.offers(name)]


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    return value.item()
