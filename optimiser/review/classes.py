"""Classes of traffic as workloads of a case, and as values for programs."""

from typing import Any

from optimiser.review.numbers import per_cent, significant
from optimiser.traffic.group import Grouping


def classes_data(
    found: Grouping, peak: bool, ttft_target_s: float, tpot_target_ms: float
) -> dict[str, Any]:
    """The workloads of a case, each group's rates, and the errors of coarser and finer groups."""
    workloads = []
    for one in found.groups:
        rate = one.peak_requests_per_s if peak and one.peak_requests_per_s else one.requests_per_s
        workloads.append(
            {
                "name": one.name,
                "requests_per_s": None if rate is None else float(f"{rate:.4g}"),
                "prompt_tokens": one.prompt_tokens,
                "answer_tokens": one.answer_tokens,
                "ttft_target_s": ttft_target_s,
                "tpot_target_ms": tpot_target_ms,
            }
        )
    return {
        "workloads": workloads,
        "groups": [
            {
                "name": one.name,
                "share_frac": one.share_frac,
                "mean_requests_per_s": one.requests_per_s,
                "peak_minute_requests_per_s": one.peak_requests_per_s,
            }
            for one in found.groups
        ],
        "accuracy": [
            {"groups": count, "cache_error_frac": error} for count, error in found.errors_frac
        ],
    }


def classes_yaml(data: dict[str, Any], source: str) -> str:
    """The workloads as YAML, with what is known of them as comments."""
    lines = [f"# Classes of {source}."]
    for row in data["accuracy"]:
        error = per_cent(row["cache_error_frac"])
        lines.append(f"# {row['groups']} groups: their means misjudge the cache kept by {error}.")
    lines.append("workloads:")
    for one, group in zip(data["workloads"], data["groups"], strict=True):
        mean, peak = group["mean_requests_per_s"], group["peak_minute_requests_per_s"]
        told = [f"{per_cent(group['share_frac'])} of requests"]
        told += [] if mean is None else [f"mean {significant(mean)}/s"]
        told += [] if peak is None else [f"busiest minute {significant(peak)}/s"]
        lines.append(f"  - name: {one['name']}  # {', '.join(told)}")
        for key, value in list(one.items())[1:]:
            shown = "null  # give the rate" if value is None else f"{value}"
            lines.append(f"    {key}: {shown}")
    return "\n".join(lines) + "\n"
