"""`optimise check CASE --gpu … --gpus … --batch …`: a design that the user already runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimiser.cli.options import case_options, emit, load_case, output_options, solver_options
from optimiser.errors import CaseError, Mistake

if TYPE_CHECKING:
    from optimiser.case import Case
    from optimiser.planning.design import Configuration

DOES_NOT_COMPLY = 3


@click.command(
    "check",
    epilog="Example: optimise check cases/llama-3.1-8b.yaml --gpu h100-sxm --gpus 4 --batch 64",
)
@case_options
@click.option("--gpu", required=True, help="Catalogue name, or the name of one of the case's GPUs.")
@click.option("--gpus", required=True, type=click.IntRange(1, 10**6), help="GPUs in all.")
@click.option("--batch", required=True, type=click.IntRange(1, 10**6), help="Sequences a replica.")
@click.option("--weights", help="Weight format.  [default: the case's]")
@click.option("--kv-cache", help="KV-cache format.  [default: the case's]")
@click.option("--kv-heads", type=click.IntRange(1, 10**6), help="KV heads.  [default: the case's]")
@click.option(
    "--tensor-parallel",
    type=click.IntRange(1, 10**6),
    help="GPUs that share a replica.  [default: the case's]",
)
@output_options
@solver_options
def command(
    case_path: str,
    settings: tuple[str, ...],
    folder: str | None,
    gpu: str,
    gpus: int,
    batch: int,
    weights: str | None,
    kv_cache: str | None,
    kv_heads: int | None,
    tensor_parallel: int | None,
    format_name: str,
    output: Path | None,
    solver_name: str,
    time_limit_s: float | None,
    workers: int,
) -> None:
    """Say whether a design complies with CASE, and what it costs beside the cheapest one.

    Where a lever is not given, the case's value is taken, the first of a list. Of the offers that
    the case admits, the cheapest for that many GPUs is taken. Exit code 3 where the design does not
    comply.
    """
    from optimiser.planning.design import Design
    from optimiser.planning.planner import plan
    from optimiser.planning.verify import verify
    from optimiser.review.check import check_review

    case = load_case(case_path, settings, folder)
    given = {
        "levers.weights": weights,
        "levers.kv_cache": kv_cache,
        "levers.kv_heads": kv_heads,
        "levers.tensor_parallel": tensor_parallel,
    }
    fixed, ways = fixed_to(case, gpu, {k: v for k, v in given.items() if v is not None})
    size = ways[0].tensor_parallel
    if gpus % size:
        message = f"{gpus} GPUs do not make whole replicas of tensor parallel {size}"
        raise CaseError([Mistake("--gpus", "", message)])
    designs = [Design(way, batch, gpus // size) for way in ways]
    design, verdict = min(
        ((design, verify(fixed, design)) for design in designs),
        key=lambda found: (not found[1].complies, found[0].nano_usd_per_hour),
    )
    best = plan(
        case,
        solver_name=solver_name,
        time_limit_s=time_limit_s,
        workers=workers,
        explained=False,
    )
    emit(check_review(fixed, design, verdict, best), format_name, output)
    if not verdict.complies:
        sys.exit(DOES_NOT_COMPLY)


def fixed_to(
    case: "Case", gpu: str, given: dict[str, object]
) -> "tuple[Case, tuple[Configuration, ...]]":
    """The case with its levers fixed, at what was given or its own first values.

    With it the ways to rent that one configuration, of which each is cheapest for some size.

    Raises CaseError, in which what came from an option cites the option.
    """
    from optimiser.planning.configurations import configurations
    from optimiser.planning.design import fixed_levers

    known = {one.name: one.model_dump(exclude_unset=True) for one in case.hardware.gpus}
    own_price = {} if gpu in known else {"hardware.usd_per_gpu_hour": None}
    changes = {
        **own_price,  # the case prices only the GPUs that it names
        "hardware.gpus": [known.get(gpu, gpu)],
        **fixed_levers(case.weights[0], case.levers.kv_cache[0], case.kv_heads[0]),
        "levers.tensor_parallel": case.levers.tensor_parallel[0],
        **given,
    }
    try:
        fixed = case.changed(changes)
        return fixed, configurations(fixed).configurations
    except CaseError as error:
        cited = {field: f"--{field.split('.')[1].replace('_', '-')}" for field in given}
        cited |= {"hardware.gpus": "--gpu", "hardware.gpus[0]": "--gpu"}
        raise CaseError(
            Mistake(cited[m.field], "", m.message, m.nearest) if m.field in cited else m
            for m in error.mistakes
        ) from error
