"""Decides what the review of a plan shows, whatever came of it."""

from collections.abc import Sequence

from optimiser.case import Case
from optimiser.planning.design import Design
from optimiser.planning.planner import Infeasible, Planned, Undecided
from optimiser.planning.verify import Figures
from optimiser.review import assumptions as assumed
from optimiser.review import data
from optimiser.review.bars import Bars, bars_of
from optimiser.review.numbers import (
    at_least_whole,
    count,
    gpus,
    ms,
    per_cent,
    plain,
    rounded,
    significant,
    usd,
)
from optimiser.review.plan_tables import alternative_table, conflicting, lever_table, verdict_table
from optimiser.review.review import BOTTLENECKS, Review, Step, Table
from optimiser.studies.alternatives import Alternative
from optimiser.studies.levers import LeverRow


def review(
    outcome: Planned | Infeasible | Undecided,
    levers: Sequence[LeverRow] | None = None,
    alternatives: Sequence[Alternative] = (),
) -> Review:
    """The review of a plan, whatever came of it; `levers` is None where they were not ranked."""
    if isinstance(outcome, Planned):
        return _planned(outcome, levers, alternatives)
    if isinstance(outcome, Infeasible):
        return _infeasible(outcome)
    return _undecided(outcome)


def _planned(
    planned: Planned, levers: Sequence[LeverRow] | None, alternatives: Sequence[Alternative]
) -> Review:
    case, design, figures = planned.case, planned.design, planned.verdict.figures
    bars = bars_of(planned)
    n_gpus, tpot = gpus(design.gpus, design.rented_gpus), ms(figures.tpot_ms)
    if bars is not None:
        n_gpus += _range(*bars.gpus)
        tpot += f" ({bars.tpot_ms[0]:,.0f} to {bars.tpot_ms[1]:,.0f} in 8 of 10 measured runs)"
    headline = (
        f"{n_gpus} · first token {ms(figures.ttft_ms)} · per token {tpot} · "
        f"{usd(figures.usd_per_million_answer_tokens)} per 1M answer tokens"
    )
    notes = [
        *(f"default {line}" for line in assumed.defaults(case)),
        *assumed.assumptions(case, design),
        *_bars_note(bars),
        *assumed.spot_note([design.configuration.rental]),
        *(f"left out: {what}: {why}" for what, why in planned.excluded),
        *planned.notes,
    ]
    return Review(
        title=f"{case.name} · {case.model.name} on {design.configuration.gpu.name}",
        headline=headline,
        good=True,
        steps=_steps(case, design, figures),
        tables=(
            verdict_table(planned.verdict),
            *lever_table(levers or ()),
            *alternative_table(alternatives),
        ),
        closing=(_next_change(figures, levers), _proof_line(planned)),
        notes=tuple(notes),
        data=data.planned(planned, levers or (), alternatives),
    )


def _range(fewest: int, most: int) -> str:
    return "" if fewest == most else f" ({fewest:,} to {most:,})"


def _bars_note(bars: Bars | None) -> tuple[str, ...]:
    """What the error bars rest on, and that of the first token, whose spread is wide."""
    if bars is None:
        return ()
    low, high = (ms(value) for value in bars.ttft_ms)
    return (
        f"error bars: of {bars.rows:,} runs of {bars.group} that no fit had seen, 8 of 10 lie "
        f"within; first token {low} to {high}",
    )


def _steps(case: Case, design: Design, figures: Figures) -> tuple[Step, ...]:
    brief, chosen = case.brief, design.configuration
    asked = (
        f"{plain(brief.requests_per_s)} req/s"
        if brief.requests_per_s is not None
        else f"{plain(brief.concurrent_users or 0)} users ({rounded(brief.rate)} req/s)"
    )
    replica = count(chosen.tensor_parallel, "GPU")
    return (
        Step(
            "Brief",
            (
                f"{asked} · {brief.prompt_tokens:,}-token prompts · "
                f"{brief.answer_tokens:,}-token answers",
                f"first token ≤ {plain(brief.ttft_target_s)} s · per token ≤ "
                f"{plain(brief.tpot_target_ms)} ms · "
                f"{rounded(brief.rate * brief.answer_tokens, 4)} answer tokens/s needed",
            ),
        ),
        Step(
            "Memory",
            (
                f"{chosen.label}",
                f"weights {figures.weight_gb:,.1f} GB · KV cache "
                f"{significant(figures.kv_mib_per_token)} MiB a token, "
                f"{significant(figures.kv_gb_per_request, 2)} GB a request · "
                f"{figures.largest_batch_that_fits:,} requests fit",
            ),
        ),
        Step(
            "Timeline",
            (
                f"first token {ms(figures.ttft_ms)} ({significant(figures.prefill_tflop)} TFLOP, "
                f"{figures.prefill_bound}-bound) · {ms(figures.tpot_alone_ms)} a token alone",
            ),
        ),
        Step(
            "Batching",
            (
                f"batch {design.batch:,}: {ms(figures.tpot_ms)} a token · "
                f"{figures.answer_tokens_per_s_per_replica:,.0f} tokens/s and "
                f"{significant(figures.requests_per_s_per_replica)} req/s a replica",
                f"a step reads {significant(figures.weight_read_gb_per_step)} GB of weights and "
                f"{significant(figures.kv_read_gb_per_step)} GB of KV cache",
            ),
        ),
        Step(
            "Fleet",
            (
                f"{count(design.replicas, 'replica')} of {replica} · {rounded(brief.rate)} "
                f"req/s × {significant(figures.time_in_system_s)} s = "
                f"{at_least_whole(figures.in_flight)} in flight",
                f"{usd(figures.usd_per_hour)} an hour · {usd(figures.usd_per_month)} a month · "
                f"{usd(figures.usd_per_thousand_requests)} per 1,000 requests",
            ),
        ),
    )


def _next_change(figures: Figures, levers: Sequence[LeverRow] | None) -> str:
    limited = f"bottleneck: {BOTTLENECKS[figures.bottleneck]}"
    if levers is None:
        return limited
    if not levers:
        return f"{limited}; no single lever saves a GPU"
    return f"{limited}; best next change: {levers[0].name}, saving " + count(
        levers[0].gpus_saved, "GPU"
    )


def _proof_line(planned: Planned) -> str:
    proof = planned.proof
    work = (
        f"{proof.solver}, {count(proof.rounds, 'round')}, "
        f"{count(proof.configurations, 'configuration')}, {proof.seconds:.2f} s"
    )
    checked = f"; {proof.cross_check} agrees" if proof.cross_check else ""
    cost = usd(proof.objective_usd_per_hour)
    if planned.status == "optimal":
        return f"proved cheapest: {cost}/h, bound {cost}/h, gap 0 ({work}{checked})"
    if proof.bound_usd_per_hour is None or proof.gap_frac is None:
        return f"not proved cheapest: {cost}/h, no bound known ({work})"
    bound, gap = usd(proof.bound_usd_per_hour), per_cent(proof.gap_frac)
    return f"not proved cheapest: {cost}/h, bound {bound}/h, gap {gap} ({work})"


def _infeasible(outcome: Infeasible) -> Review:
    case = outcome.case
    tables = []
    for i, conflict in enumerate(outcome.conflicts):
        rows = tuple(
            (
                *conflicting(nearest.requirement, nearest.asked, case.hardware.gpus),
                "no value helps" if nearest.works_at is None else plain(nearest.works_at),
                case.where(nearest.requirement),
            )
            for nearest in conflict.nearest
        )
        title = f"Conflict {i + 1} of {len(outcome.conflicts)}"
        alone = "cannot be met" if len(rows) == 1 else "cannot all be met; changing one is enough"
        tables.append(
            Table(
                f"{title}: {alone}", ("requirement", "asked", "works at", "in"), rows, text=(0, 3)
            )
        )
    work = f"{outcome.solver}, {count(outcome.configurations, 'configuration')}"
    return Review(
        title=f"{case.name} · {case.model.name}",
        headline=f"no design complies (proved by {work}, {outcome.seconds:.2f} s)",
        good=False,
        steps=(),
        tables=tuple(tables),
        closing=("each conflict is told with the others lifted; plan again once one is mended",)
        if len(outcome.conflicts) > 1
        else (),
        notes=tuple(f"default {line}" for line in assumed.defaults(case)),
        data=data.infeasible(outcome),
    )


def _undecided(outcome: Undecided) -> Review:
    work = f"{outcome.solver}, {count(outcome.configurations, 'configuration')}"
    return Review(
        title=f"{outcome.case.name} · {outcome.case.model.name}",
        headline=f"undecided: no design and no proof in {outcome.seconds:.2f} s ({work})",
        good=False,
        steps=(),
        tables=(),
        closing=("give it more time with --time-limit, or another solver with --solver",),
        notes=(),
        data=data.undecided(outcome),
    )
