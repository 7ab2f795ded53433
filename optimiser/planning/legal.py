"""Which tensor-parallel sizes can split a model, and on which GPUs."""

from collections.abc import Iterator

from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.catalogue.llm import Llm
from optimiser.names import count


def why_illegal(
    llm: Llm, weights: str, kv_heads: int, tensor_parallel: int, node: int
) -> str | None:
    """The first reason why a replica cannot be split so, or None where it can."""
    return next(_reasons(llm, weights, kv_heads, tensor_parallel, node), None)


def legal_sizes(llm: Llm, weights: str, kv_heads: int, node: int) -> list[int]:
    """Every tensor-parallel size up to a node that can split the model."""
    sizes = range(1, node + 1)
    return [n for n in sizes if why_illegal(llm, weights, kv_heads, n, node) is None]


def _reasons(
    llm: Llm, weights: str, kv_heads: int, tensor_parallel: int, node: int
) -> Iterator[str]:
    """Every reason.

    The size must divide the attention heads, divide the KV heads or be divided by them, divide
    the widths of MLP and experts, and leave whole the blocks that share a scale; and one replica
    stays within a node. Source: engines' own checks.
    """
    size = tensor_parallel
    if size > node:
        gpus = count(node, "GPU")
        yield f"{size} is more than the {gpus} of a node; replicas across nodes are refused"
    if llm.attention_heads % size:
        yield f"{size} does not divide {llm.attention_heads} attention heads"
    if kv_heads and kv_heads % size and size % kv_heads:
        yield f"{size} neither divides {kv_heads} KV heads nor is divided by them"
    stored = llm.stored
    block = WEIGHT_FORMATS[weights].block
    if stored is not None and stored.format == weights == "fp8-block":
        block = stored.block
    widths = {llm.ffn_size: "MLP", llm.expert_ffn_size: "expert"}  # a width of both is the latter
    for width, what in widths.items():
        if width is None:
            continue
        if width % size:
            yield f"{size} does not divide the {what} width {width}"
        elif block and size > 1 and width // size % block:
            share = width // size
            yield f"{what} width {width} / {size} = {share} is not a multiple of the block {block}"
