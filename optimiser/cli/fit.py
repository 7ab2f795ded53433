"""`optimise fit MODEL --gpu …`: does it fit, and what is left for the cache?"""

import sys
from pathlib import Path

import click

from optimiser.cli.options import catalogue_option, emit, output_options

DOES_NOT_FIT = 3


@click.command("fit", epilog="Example: optimise fit llama-3.1-8b --gpu l4 --context 16000")
@click.argument("model")
@click.option("--gpu", required=True, help="Catalogue name of the GPU.")
@click.option(
    "--tensor-parallel",
    type=click.IntRange(1, 10_000),
    help="GPUs that share a replica.  [default: the smallest that fits]",
)
@click.option("--weights", help="Weight format.  [default: the checkpoint's own]")
@click.option("--kv-cache", help="KV-cache format.  [default: fp16]")
@click.option("--context", type=click.IntRange(1, 10**9), help="Tokens.  [default: the longest]")
@click.option(
    "--memory-utilization",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the device that the engine budgets.  [default: 0.9]",
)
@click.option("--max-num-batched-tokens", type=click.IntRange(1, 10**7), help="Tokens in a step.")
@click.option("--max-num-seqs", type=click.IntRange(1, 10**6), help="Sequences in a step.")
@catalogue_option
@output_options
def command(
    model: str,
    gpu: str,
    tensor_parallel: int | None,
    weights: str | None,
    kv_cache: str | None,
    context: int | None,
    memory_utilization: float | None,
    max_num_batched_tokens: int | None,
    max_num_seqs: int | None,
    folder: str | None,
    format_name: str,
    output: Path | None,
) -> None:
    """Say whether MODEL fits on a GPU type, term by term.

    MODEL is a catalogue name or a path to a config.json. It fits where one sequence of the context
    does. Exit code 3 where it does not.
    """
    from optimiser.case import named_llm
    from optimiser.catalogue.formats import CACHE_FORMATS, WEIGHT_FORMATS, format_named
    from optimiser.catalogue.load import catalogue
    from optimiser.planning.fit import Asked, fit
    from optimiser.review.fit import fit_review

    known = catalogue(folder)
    found = fit(
        Asked(
            llm=named_llm(model, known),
            gpu=known.gpu(gpu),
            tensor_parallel=tensor_parallel,
            weights=format_named("--weights", weights, WEIGHT_FORMATS),
            kv_cache=format_named("--kv-cache", kv_cache, CACHE_FORMATS),
            context=context,
            memory_utilization=memory_utilization,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
        )
    )
    emit(fit_review(found), format_name, output)
    if not found.fits:
        sys.exit(DOES_NOT_FIT)
