"""The longest context that a config allows, as engines derive it.

Source: vLLM, `_get_and_verify_max_len` in vllm/config/model.py: the smallest of the keys below,
`model_max_length` above all, times the factor of a rope scaling that was not trained in.
"""

import math

from optimiser.catalogue.hf_config.fields import TOKENS_MOST, Fields

CONTEXT_KEYS = (
    "max_position_embeddings",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
UNSTATED_CONTEXT = 2048
"""What vLLM assumes for a config that says nothing (Mamba)."""

TRAINED_IN = ("default", "llama3", "longrope", "su", "mrope")
"""Rope scalings whose stated context already includes the factor."""


def max_context(fields: Fields, *, rope_extends: bool) -> int:
    """Tokens."""
    stated = fields.optional("model_max_length", most=TOKENS_MOST)
    several = [fields.optional(key, most=TOKENS_MOST) for key in CONTEXT_KEYS]
    base = stated or min((value for value in several if value), default=UNSTATED_CONTEXT)
    return _scaled(fields, base) if rope_extends and stated is None else base


def _scaled(fields: Fields, base: int) -> int:
    name = "rope_scaling" if fields.raw("rope_scaling") is not None else "rope_parameters"
    rope = fields.child(name)
    kind = rope.raw("rope_type") or rope.raw("type") or "default"
    if not isinstance(kind, str):
        rope.reject("rope_type", kind, "a word")
    factor = rope.raw("factor")
    if factor is None or kind in TRAINED_IN:
        return base
    original = rope.optional("original_max_position_embeddings", most=TOKENS_MOST)
    start = original if kind == "yarn" and original else base
    if (
        isinstance(factor, int | float)
        and not isinstance(factor, bool)
        and 0 < factor < TOKENS_MOST
    ):
        tokens = math.floor(start * factor)
        if 0 < tokens <= TOKENS_MOST:
            return tokens
    rope.reject("factor", factor, "a number above 0")
    return base
