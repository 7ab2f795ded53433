"""Cases that are quick to plan, for batches."""

import json
from pathlib import Path

import yaml

CASE = {
    "name": "base",
    "brief": {
        "requests_per_s": 10,
        "prompt_tokens": 1000,
        "answer_tokens": 300,
        "ttft_target_s": 1.0,
        "tpot_target_ms": 50,
    },
    "model": "llama-2-7b",
    "hardware": {"gpus": ["generic-80gb"], "usd_per_gpu_hour": 2.0},
    "levers": {"batch": {"most": 256}},
}


def fields(i: int) -> dict[str, object]:
    """The fields of case i, by dotted path; every 20th cannot comply."""
    return {
        "name": f"case-{i:06}",
        "brief.requests_per_s": 1 + i * 0.5,
        "brief.prompt_tokens": 500 + 7 * (i % 13),
        "brief.tpot_target_ms": 0.5 if i % 20 == 19 else 30 + i % 11,
        "levers.weights": ["fp16", "int8"] if i % 3 == 0 else ["fp16"],
    }


def case(i: int) -> dict[str, object]:
    made = json.loads(json.dumps(CASE))
    for path, value in fields(i).items():
        *sections, last = path.split(".")
        section = made
        for name in sections:
            section = section[name]
        section[last] = value
    return made


def write_cases(folder: Path, n: int) -> Path:
    folder.mkdir(exist_ok=True)
    for i in range(n):
        text = yaml.safe_dump(case(i), sort_keys=False)
        (folder / f"case-{i:06}.yaml").write_text(text, encoding="utf-8")
    return folder


def write_broken(folder: Path) -> None:
    """Five files that no plan can be made of, each for its own reason."""
    missing, negative, unknown = case(0), case(0), case(0)
    del missing["brief"]
    negative["brief"]["tpot_target_ms"] = -1
    unknown["model"] = "nothing-like-it"
    texts = {
        "a-cut-off.yaml": "name: [",
        "b-list.yaml": "- 1\n- 2\n",
        "case-000010-negative.yaml": yaml.safe_dump(negative),
        "d-missing.yml": yaml.safe_dump(missing),
        "e-unknown-model.yaml": yaml.safe_dump(unknown),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def write_base(path: Path) -> Path:
    path.write_text(yaml.safe_dump(CASE, sort_keys=False), encoding="utf-8")
    return path
