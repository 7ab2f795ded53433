"""Every figure of the worked example, through the public API, from the shipped case files."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from optimiser import Case, Infeasible, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.planning.design import Design
from optimiser.planning.verify import Figures, verify
from optimiser.studies.levers import rank_levers

SEED = json.loads((Path(__file__).parent / "seed.json").read_text(encoding="utf-8"))

FIELDS = {
    "requests_per_s": "brief.requests_per_s",
    "prompt_tokens": "brief.prompt_tokens",
    "answer_tokens": "brief.answer_tokens",
    "ttft_target_s": "brief.ttft_target_s",
    "tpot_target_ms": "brief.tpot_target_ms",
    "kv_heads": "levers.kv_heads",
    "kv_cache": "levers.kv_cache",
    "weights": "levers.weights",
    "efficiency": "assumptions.efficiency",
}


def chat_7b(*settings: str) -> Case:
    return Case.load(shipped("cases") / "chat-7b.yaml", settings)


def planned(*settings: str) -> Planned:
    outcome = plan(chat_7b(*settings))
    assert isinstance(outcome, Planned)
    return outcome


def figures(batch: int | None = None) -> Figures:
    """The figures of the chosen design, or of one with another batch."""
    chosen = planned()
    if batch is None:
        return chosen.verdict.figures
    design = Design(chosen.design.configuration, batch, chosen.design.replicas)
    return verify(chosen.case, design).figures


STEPS: dict[str, Callable[[], object]] = {
    "tokens per request": lambda: chat_7b().brief.prompt_tokens + chat_7b().brief.answer_tokens,
    "answer tokens per second needed": lambda: chat_7b().brief.rate * chat_7b().brief.answer_tokens,
    "reading speed at target, tok/s": lambda: 1000 / chat_7b().brief.tpot_target_ms,
    "weights, GB": lambda: figures().weight_gb,
    "KV cache per token, MiB": lambda: figures().kv_mib_per_token,
    "KV cache per request, GB": lambda: figures().kv_gb_per_request,
    "most requests that fit": lambda: figures().largest_batch_that_fits,
    "KV cache for 32 requests, GB": lambda: 32 * figures().kv_gb_per_request,
    "weights at int4, GB": lambda: planned("levers.weights=int4").verdict.figures.weight_gb,
    "prefill work, TFLOP": lambda: figures().prefill_tflop,
    "first token, ms (prefill, compute-bound)": lambda: figures().ttft_ms,
    "per token alone (batch 1), ms (memory-bound)": lambda: figures().tpot_alone_ms,
    "batch 32: per token, ms": lambda: figures(32).tpot_ms,
    "batch 32: tokens/s per GPU": lambda: figures(32).answer_tokens_per_s_per_replica,
    "batch 32: requests/s per GPU": lambda: figures(32).requests_per_s_per_replica,
    "chosen batch": lambda: planned().design.batch,
    "per token at the chosen batch, ms": lambda: figures().tpot_ms,
    "KV bytes read in one decode step at the chosen batch, GB": lambda: (
        figures().kv_read_gb_per_step
    ),
    "requests/s per GPU at the chosen batch": lambda: figures().requests_per_s_per_replica,
    "GPUs": lambda: planned().design.gpus,
    "time one request spends in the system, s": lambda: figures().time_in_system_s,
    "requests in flight (Little's law)": lambda: figures().in_flight,
    "fleet, $/hour": lambda: figures().usd_per_hour,
    "per 1M answer tokens, $": lambda: figures().usd_per_million_answer_tokens,
    "per 1,000 requests, $": lambda: figures().usd_per_thousand_requests,
    "bottleneck": lambda: figures().bottleneck.replace("kv_reads", "KV reads"),
    "best next change": lambda: "{0.name}, saving {0.gpus_saved} GPUs".format(
        rank_levers(planned())[0]
    ),
    "GPUs at 50 requests/s, all else default": lambda: (
        planned("brief.requests_per_s=50").design.gpus
    ),
}


def rounds_to(value: float, shown: float, literal: str) -> bool:
    """Whether a value, rounded to the digits of a figure as it is displayed, is that figure."""
    digits = len(literal.partition(".")[2]) if "." in literal else 0
    return math.isclose(round(value, digits), shown, rel_tol=0, abs_tol=1e-9)


def test_every_step_of_the_page_is_held() -> None:
    assert [step["what"] for step in SEED["steps"]] == list(STEPS)


@pytest.mark.parametrize("step", SEED["steps"], ids=lambda step: step["what"])
def test_step(step: dict[str, object]) -> None:
    value, shown = STEPS[step["what"]](), step["shown"]
    if isinstance(shown, str):
        assert value == shown
        return
    assert rounds_to(float(value), float(shown), json.dumps(shown))
    if "derived" in step:
        digits = len(json.dumps(step["derived"]).partition(".")[2])
        assert value == pytest.approx(step["derived"], rel=0, abs=0.5000001 * 10**-digits)


def test_the_design_of_the_page() -> None:
    outcome = planned()
    design, proof = outcome.design, outcome.proof
    chosen = design.configuration
    assert (chosen.weights, chosen.kv_cache, chosen.kv_heads) == ("fp16", "fp16", 32)
    assert (chosen.gpu.name, chosen.tensor_parallel) == ("generic-80gb", 1)
    assert (design.gpus, design.replicas, design.batch) == (3, 3, 85)
    assert outcome.status == "optimal"
    assert (proof.objective_usd_per_hour, proof.bound_usd_per_hour) == (6.0, 6.0)
    assert (proof.gap_frac, proof.configurations) == (0.0, 1)
    assert outcome.verdict.figures.prefill_bound == "compute"
    assert outcome.verdict.figures.usd_per_month == 6.0 * 730


def settings_of(change: dict[str, object]) -> list[str]:
    return [f"{FIELDS[name]}={value}" for name, value in change.items()]


VARIANTS = SEED["recomputed_variants"]


@pytest.mark.parametrize(
    "variant",
    [row for row in VARIANTS if "infeasible" not in row],
    ids=lambda row: ",".join(settings_of(row["change"])),
)
@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
def test_variant(variant: dict[str, object], solver: str) -> None:
    outcome = plan(chat_7b(*settings_of(variant["change"])), solver_name=solver)
    assert isinstance(outcome, Planned)
    assert outcome.design.batch == variant["batch"]
    assert outcome.design.gpus == variant["gpus"]
    found = outcome.verdict.figures
    if "tpot_ms" in variant:
        assert found.tpot_ms == pytest.approx(variant["tpot_ms"], abs=0.5001e-4)
    if "usd_per_million" in variant:
        price = found.usd_per_million_answer_tokens
        assert price == pytest.approx(variant["usd_per_million"], abs=0.5001e-6)


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
@pytest.mark.parametrize(
    ("setting", "field", "needs", "works_at"),
    [
        ("brief.tpot_target_ms=7", "brief.tpot_target_ms", 7.0415, 7.05),
        ("brief.ttft_target_s=0.04", "brief.ttft_target_s", 44.933, 0.045),
    ],
)
def test_infeasible_variant(
    setting: str, field: str, needs: float, works_at: float, solver: str
) -> None:
    rows = [row for row in VARIANTS if "infeasible" in row]
    row = next(row for row in rows if settings_of(row["change"]) == [setting])
    assert f"{needs} ms" in row["infeasible"]
    outcome = plan(chat_7b(setting), solver_name=solver)
    assert isinstance(outcome, Infeasible)
    assert outcome.status == "infeasible"
    (conflict,) = outcome.conflicts
    (nearest,) = conflict.nearest
    assert conflict.requirements == (nearest.requirement,) == (field,)
    assert nearest.works_at == works_at
    works = planned(f"{field}={works_at}").verdict.figures
    alone = works.tpot_alone_ms if field.endswith("tpot_target_ms") else works.ttft_ms
    digits = len(str(needs).partition(".")[2])
    assert round(alone, digits) == needs


def test_every_variant_is_held() -> None:
    assert len(VARIANTS) == 12
    assert sum("infeasible" in row for row in VARIANTS) == 2


def test_levers_of_the_page_in_its_order() -> None:
    rows = rank_levers(planned())
    assert [(row.name, row.gpus_saved) for row in rows] == [
        ("GQA (8 KV heads)", 2),
        ("int8 KV cache", 1),
        ("int4 weights", 1),
        ("int8 weights", 1),
    ]
    # a GPU is 2 dollars an hour, a month 730 hours
    assert [row.usd_saved_per_month for row in rows] == [2920.0, 1460.0, 1460.0, 1460.0]


@pytest.mark.parametrize("solver", ["cp-sat", "highs", "cbc"])
def test_open_case_quantises_nothing(solver: str) -> None:
    case = Case.load(shipped("cases") / "chat-7b-open.yaml")
    outcome = plan(case, solver_name=solver)
    assert isinstance(outcome, Planned)
    chosen = outcome.design.configuration
    assert (chosen.weights, chosen.kv_cache, chosen.kv_heads) == ("fp16", "fp16", 8)
    assert (outcome.design.gpus, outcome.design.batch) == (1, 343)
    assert outcome.proof.configurations == 3 * 2 * 2
    assert round(outcome.verdict.figures.usd_per_million_answer_tokens, 3) == 0.185
    assert outcome.status == "optimal"


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b"])
def test_shipped_cases_of_real_models_are_planned(name: str) -> None:
    case = Case.load(shipped("cases") / f"{name}.yaml")
    outcome = plan(case, cross_check=True)
    assert isinstance(outcome, Planned)
    assert (outcome.status, outcome.proof.cross_check) == ("optimal", "highs")
    assert outcome.verdict.complies
