"""A review as JSON."""

import json

from optimiser.review.review import Review


def render(review: Review) -> str:
    """The review's data as indented JSON; keys are stable, more may be added."""
    return json.dumps(review.data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
