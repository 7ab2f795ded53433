"""`optimise catalogue`: what is known, with sources, and a user's own entries beside it."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import CASES, CHAT, optimise, written

KINDS = ("gpus", "models", "offers")
DATE = re.compile(r"^\d{4}(-\d{2}(-\d{2})?)?$")


def listed(kind: str, *arguments: object) -> dict[str, dict[str, Any]]:
    ran = optimise("catalogue", kind, *arguments, "--format", "json")
    assert ran.code == 0
    assert set(ran.data) == {kind}
    return {entry["name"]: entry for entry in ran.data[kind]}


def shown(kind: str, name: str, *arguments: object) -> dict[str, Any]:
    ran = optimise("catalogue", kind, name, *arguments, "--format", "json")
    assert ran.code == 0
    data: dict[str, Any] = ran.data
    return data


GPUS = (
    *("t4", "v100-16gb", "v100-32gb", "rtx-3090", "rtx-4090", "rtx-5090", "a10g", "l4", "a40"),
    *("l40s", "a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"),
    *("h100-pcie", "h100-sxm", "h100-nvl", "h200", "b200", "b300", "gb200", "mi300x"),
    "rtx-pro-6000",
)


def test_at_least_eighteen_gpus_and_twenty_four_models() -> None:
    gpus, models, offers = map(listed, KINDS)
    assert len(gpus) >= 18
    assert set(GPUS) <= set(gpus)
    assert len(models) >= 24
    assert {offer["gpu"] for offer in offers.values()} <= set(gpus)


def test_every_figure_has_a_source_and_a_date() -> None:
    for kind, bare in (("gpus", {"name", "vendor"}), ("models", {"name"})):
        for name, entry in listed(kind).items():
            if name == "generic-80gb":
                assert entry["sources"]
            figures = {
                key
                for key, value in entry.items()
                if key not in {*bare, "sources"} and isinstance(value, int | float | dict | list)
                if not isinstance(value, bool)
            }
            unsourced = figures - set(entry["sources"]) - {"aliases"}
            assert not unsourced, f"{kind} {name}: {unsourced}"
            for origin in entry["sources"].values():
                assert DATE.match(str(origin["as_of"]))
                assert len(origin["source"]) > 3
    for offer in listed("offers").values():
        assert DATE.match(offer["as_of"])
        assert len(offer["source"]) > 3


@pytest.mark.parametrize(
    ("kind", "columns", "row"),
    [
        (
            "gpus",
            "name memory bandwidth fp16 fp8 link",
            ["h100-sxm", "79.18 GiB", "3,350 GB/s", "989.4 TFLOP/s", "1,978.9 TFLOP/s", "nvlink-4"],
        ),
        (
            "models",
            "name parameters active layers heads KV heads context",
            ["mixtral-8x7b", "46.7B", "12.88B", "32", "32", "8", "32,768"],
        ),
        (
            "offers",
            "name GPU GPUs on demand spot as of",
            ["aws-us-east-1-p5.48xlarge", "h100-sxm", "8", "$55.04/h", "-", "2026-07-20"],
        ),
    ],
)
def test_lists_as_tables(kind: str, columns: str, row: list[str]) -> None:
    ran = optimise("catalogue", kind)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert re.fullmatch(rf"Catalogue: \d+ {'GPU' if kind == 'gpus' else kind[:-1]}s", lines[0])
    assert any(" ".join(line.split()) == columns for line in lines)
    (found,) = [line for line in lines if line.split() and line.split()[0] == row[0]]
    assert re.split(r"\s{2,}", found.strip()) == row
    names = [line.split()[0] for line in lines[5:] if line.strip()]
    assert names == sorted(names)
    assert len(names) == len(listed(kind))


def test_one_gpu_with_its_sources() -> None:
    ran = optimise("catalogue", "gpus", "h100-sxm")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "GPU h100-sxm"
    assert lines[1].endswith("models/gpus/h100-sxm.yaml")
    (bandwidth,) = [line for line in lines if "bandwidth_gb_per_s" in line]
    mark = re.search(r"3,350\s+(\[\d+\])$", bandwidth)
    assert mark
    (origin,) = [line for line in lines if line.startswith(mark[1])]
    assert "H100" in origin
    assert ", 2022 (high confidence)" in origin
    data = shown("gpus", "h100-sxm")
    assert data == listed("gpus")["h100-sxm"]
    assert data["sources"]["bandwidth_gb_per_s"]["source"] in origin


def test_one_model_and_one_offer() -> None:
    text = optimise("catalogue", "models", "deepseek-v3").out
    assert "kind latent, kv_heads 1, head_dim 576, numbers_per_token 576" in text
    assert "DeepSeek-V3 config.json" in text
    offer = optimise("catalogue", "offers", "aws-us-east-1-p5.48xlarge").out
    for said in ("cloud", "us-east-1", "p5.48xlarge", "55.04", "karpenter", "2026-07-20"):
        assert said in offer
    assert shown("offers", "aws-us-east-1-p5.48xlarge")["gpus_per_instance"] == 8


@pytest.mark.parametrize(
    ("kind", "name", "message", "nearest"),
    [
        ("gpus", "h10-sxm", "unknown GPU 'h10-sxm'", "h100-sxm"),
        ("models", "llama-3.1-8", "unknown model 'llama-3.1-8'", "llama-3.1-8b"),
        ("offers", "aws-us-east-1-p5.48xlarg", "unknown offer", "aws-us-east-1-p5.48xlarge"),
    ],
)
def test_an_unknown_name_suggests(kind: str, name: str, message: str, nearest: str) -> None:
    ran = optimise("catalogue", kind, name)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
    assert "did you mean" in ran.err
    assert nearest in ran.err
    as_json = optimise("catalogue", kind, name, "--format", "json")
    assert as_json.code == 1
    assert nearest in as_json.data["errors"][0]["nearest"]


def test_a_name_like_none_lists_what_there_is() -> None:
    ran = optimise("catalogue", "gpus", "zzz")
    assert ran.code == 1
    assert "the catalogue has a10, " in ran.err


def test_an_unknown_kind_is_a_usage_error() -> None:
    ran = optimise("catalogue", "cpus")
    assert (ran.code, ran.out) == (2, "")


# A user's own entries.

GPU = """\
name: {name}
memory_gb: 100
bandwidth_gb_per_s: 4000
tflops: {{fp16: 500}}
sources:
  memory_gb: {{source: my own data sheet, as_of: "2026"}}
"""
OFFER = """\
name: {name}
gpu: {gpu}
cloud: mine
region: cellar
instance: rack
gpus_per_instance: {gpus}
usd_per_hour: {usd}
source: my own invoice
as_of: "2026-02"
"""
MODEL = """\
name: mine-1b
params: 1000000000
layers: 16
attention_heads: 16
kv_heads: 4
head_dim: 64
sources:
  params: {source: my own training run, as_of: "2026"}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A GPU and a model of one's own, an L4 of one's own, and offers of both GPUs."""
    for folder in ("gpus", "llms", "offers/mine-gpu", "offers/l4"):
        (tmp_path / folder).mkdir(parents=True)
    written(tmp_path / "gpus", GPU.format(name="mine-gpu"), "mine-gpu.yaml")
    written(tmp_path / "gpus", GPU.format(name="l4"), "l4.yaml")
    written(tmp_path / "llms", MODEL, "mine-1b.yaml")
    pair = OFFER.format(name="mine-pair", gpu="mine-gpu", gpus=2, usd=1.5)
    written(tmp_path / "offers/mine-gpu", pair, "mine-pair.yaml")
    single = OFFER.format(name="mine-l4", gpu="l4", gpus=1, usd=0.01)
    written(tmp_path / "offers/l4", single, "mine-l4.yaml")
    return tmp_path


@pytest.mark.parametrize("by_variable", [True, False])
def test_entries_of_ones_own_add_and_override(
    mine: Path, by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {kind: listed(kind) for kind in KINDS}
    arguments: tuple[object, ...] = ("--catalogue", mine)
    if by_variable:
        monkeypatch.setenv("OPTIMISE_CATALOGUE", str(mine))
        arguments = ()
    gpus, models, offers = (listed(kind, *arguments) for kind in KINDS)
    assert set(gpus) - set(before["gpus"]) == {"mine-gpu"}
    assert set(models) - set(before["models"]) == {"mine-1b"}
    assert set(offers) - set(before["offers"]) == {"mine-pair", "mine-l4"}
    assert before["gpus"]["l4"]["bandwidth_gb_per_s"] == 300
    assert gpus["l4"]["bandwidth_gb_per_s"] == 4000
    assert gpus["h200"] == before["gpus"]["h200"]
    text = optimise("catalogue", "gpus", "mine-gpu", *arguments).out
    assert str(mine / "gpus" / "mine-gpu.yaml") in text
    assert "my own data sheet, 2026" in text
    # and planning, comparing and fitting use them
    path = written(mine, CHAT.replace("[generic-80gb]", "[mine-gpu]"), "case.yaml")
    priced = path.read_text(encoding="utf-8").replace("  usd_per_gpu_hour: 2.00\n", "")
    path.write_text(priced, encoding="utf-8")
    planned = optimise(path, *arguments, "--no-levers", "--format", "json").data
    assert planned["design"]["offer"] == "mine-pair"
    assert planned["design"]["rented_gpus"] % 2 == 0
    small = optimise(path, "--set", "model=mine-1b", "--set", "levers.kv_heads=4", *arguments)
    assert small.code == 0
    row = optimise("compare", path, "--gpu", "l4", *arguments, "--format", "json").data["rows"][0]
    assert row["design"]["offer"] == "mine-l4"
    fit = optimise("fit", "llama-3.1-8b", "--gpu", "mine-gpu", "--context", 1000, *arguments)
    assert fit.code == 0


def test_an_option_wins_over_the_variable(
    mine: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "gpus").mkdir()
    written(other / "gpus", GPU.format(name="another"), "another.yaml")
    monkeypatch.setenv("OPTIMISE_CATALOGUE", str(mine))
    names = set(listed("gpus", "--catalogue", other))
    assert "another" in names
    assert "mine-gpu" not in names


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    ran = optimise("catalogue", "gpus", "--catalogue", tmp_path / "nowhere")
    assert (ran.code, ran.out) == (1, "")
    assert "no such catalogue folder" in ran.err


def test_a_broken_entry_is_named(mine: Path) -> None:
    written(mine / "gpus", "name: mine-gpu\nmemory_gb: -1\n", "mine-gpu.yaml")
    ran = optimise("catalogue", "gpus", "mine-gpu", "--catalogue", mine)
    assert (ran.code, ran.out) == (1, "")
    assert "mine-gpu.yaml:2" in ran.err
    assert "bandwidth_gb_per_s" in ran.err


# Why the other GPU types lost.


def test_why_other_gpus_lost() -> None:
    path = CASES / "llama-3.1-70b.yaml"
    ran = optimise(path, "--format", "json")
    assert ran.code == 0
    data = ran.data
    others = {one["gpu"]: one for one in data["other_gpus"]}
    gpus = ["l40s", "a100-sxm-80gb", "h100-sxm", "h100-nvl", "h200", "b200", "mi300x"]
    assert {*others, data["design"]["gpu"]} == {*gpus, "rtx-pro-6000"}
    best = data["figures"]["usd_per_hour"]
    for one in others.values():
        assert set(one) == {
            "gpu",
            "status",
            "design",
            "usd_per_hour",
            "usd_per_hour_above",
            "conflicts",
        }
        if one["status"] == "optimal":
            assert one["usd_per_hour_above"] == pytest.approx(one["usd_per_hour"] - best)
            assert one["usd_per_hour_above"] >= 0
            assert one["design"]["gpu"] == one["gpu"]
        else:
            assert one["conflicts"]
    name = next(name for name, one in others.items() if one["status"] == "optimal")
    alone = optimise(path, "--set", f"hardware.gpus={name}", "--no-levers", "--format", "json").data
    assert alone["design"] == others[name]["design"]
    assert alone["figures"]["usd_per_hour"] == others[name]["usd_per_hour"]
    text = optimise(path).out
    assert "Other GPU types" in text
    assert "dearer" in text
    for one in others.values():
        assert one["gpu"] in text


def test_a_gpu_that_fails_a_requirement_says_which() -> None:
    path = CASES / "llama-3.1-8b.yaml"
    settings = ("--set", "hardware.gpus=[t4, h200]", "--set", "levers.tensor_parallel=1")
    settings += ("--set", "brief.tpot_target_ms=20", "--set", "levers.weights=fp16")
    ran = optimise(path, *settings, "--format", "json")
    (t4,) = ran.data["other_gpus"]
    assert (t4["gpu"], t4["status"], t4["design"]) == ("t4", "infeasible", None)
    asked = t4["conflicts"][0]["requirements"]
    alone = optimise(path, *settings, "--set", "hardware.gpus=t4", "--format", "json")
    assert alone.code == 3
    assert asked == alone.data["conflict"]["requirements"]
    text = optimise(path, *settings).out
    (line,) = [line for line in text.splitlines() if line.strip().startswith("t4 ")]
    assert asked[0] in line


def test_one_gpu_has_no_others() -> None:
    data = optimise(CASES / "chat-7b.yaml", "--format", "json").data
    assert data["other_gpus"] == []
    assert "Other GPU types" not in optimise(CASES / "chat-7b.yaml").out
