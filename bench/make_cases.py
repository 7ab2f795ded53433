"""Writes generated cases for batches: a folder of files, or one table over a base case.

    python bench/make_cases.py cases-2000/ --n 2000
    python bench/make_cases.py cases-2000.csv --n 2000     (.jsonl, .parquet; base beside it)

The same seed gives the same cases, in a folder or in a table.
"""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from optimiser.review.tables import write_table

BASE = {
    "name": "base",
    "brief": {
        "requests_per_s": 10,
        "prompt_tokens": 1000,
        "answer_tokens": 300,
        "ttft_target_s": 2.0,
        "tpot_target_ms": 50,
    },
    "model": "llama-3.1-8b",
    "hardware": {"gpus": ["l4", "h100-sxm"]},
    "levers": {"batch": {"most": 512}},
    "assumptions": {"efficiency": 0.7, "headroom": 1.3},
}
MODELS = {
    "llama-2-7b": ("l4", "a10g", "l40s", "a100-sxm-80gb", "h100-sxm"),
    "llama-3.1-8b": ("l4", "a10g", "l40s", "h100-sxm", "h200"),
    "llama-2-13b": ("l40s", "a100-sxm-80gb", "h100-sxm"),
    "qwen3-32b": ("a100-sxm-80gb", "h100-sxm", "h200"),
    "llama-3.1-70b": ("h100-sxm", "h200", "b200"),
}
TENSOR_PARALLEL = {"qwen3-32b": [1, 2, 4], "llama-3.1-70b": [2, 4, 8]}


def drawn(n: int, seed: int) -> Iterator[dict[str, Any]]:
    """The fields of each case, by dotted path."""
    chance = random.Random(seed)
    for i in range(n):
        model = chance.choice(tuple(MODELS))
        gpus = MODELS[model]
        yield {
            "name": f"case-{i:06}",
            "brief.requests_per_s": round(10 ** chance.uniform(0, 2.5), 2),
            "brief.prompt_tokens": round(10 ** chance.uniform(2, 4)),
            "brief.answer_tokens": round(10 ** chance.uniform(1.5, 3)),
            "brief.ttft_target_s": chance.choice([0.3, 0.5, 1.0, 2.0, 5.0]),
            "brief.tpot_target_ms": chance.choice([15, 25, 40, 60, 100]),
            "model": model,
            "hardware.gpus": chance.sample(gpus, chance.randint(1, len(gpus))),
            "levers.weights": chance.choice([["fp16"], ["fp16", "fp8"], ["fp16", "int4-g128"]]),
            "levers.kv_cache": chance.choice([["fp16"], ["fp16", "fp8"]]),
            "levers.tensor_parallel": TENSOR_PARALLEL.get(model, [1, 2]),
        }


def nested(fields: dict[str, Any]) -> dict[str, Any]:
    """The base case with fields set by their dotted paths."""
    case = json.loads(json.dumps(BASE))
    for path, value in fields.items():
        *sections, last = path.split(".")
        section = case
        for name in sections:
            section = section[name]
        section[last] = value
    return case


def write(place: Path, n: int, seed: int) -> None:
    """A folder of n files, or a table by its ending with base.yaml beside it."""
    if not place.suffix:
        place.mkdir(parents=True, exist_ok=True)
        for fields in drawn(n, seed):
            text = yaml.safe_dump(nested(fields), sort_keys=False)
            (place / f"{fields['name']}.yaml").write_text(text, encoding="utf-8")
        return
    rows = list(drawn(n, seed))
    if place.suffix == ".csv":
        rows = [
            {key: json.dumps(v) if isinstance(v, list) else v for key, v in row.items()}
            for row in rows
        ]
    write_table(rows, place)
    base = yaml.safe_dump(BASE, sort_keys=False)
    place.with_name("base.yaml").write_text(base, encoding="utf-8")


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(description="Write generated cases for batches.")
    parser.add_argument("place", type=Path, help="a folder, or a .csv, .jsonl or .parquet table")
    parser.add_argument("--n", type=int, default=2000, help="cases (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (default: 1)")
    arguments = parser.parse_args()
    write(arguments.place, arguments.n, arguments.seed)
    print(f"{arguments.n:,} cases in {arguments.place}")


if __name__ == "__main__":
    main()
