"""Every file of the catalogue: it loads, and each of its figures has a source and a date."""

import re
from pathlib import Path

import pytest

from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.load import Catalogue, default_catalogue, shipped
from optimiser.catalogue.offer import Offer
from optimiser.errors import CatalogueError

MODELS = shipped("models")
GPUS = sorted((MODELS / "gpus").glob("*.yaml"))
LLMS = sorted((MODELS / "llms").glob("*.yaml"))
OFFERS = sorted((MODELS / "offers").glob("*/*.yaml"))
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?$")
REQUIRED_GPUS = ("generic-80gb", "l4", "l40s", "a100-sxm-80gb", "h100-sxm", "h200")
REQUIRED_LLMS = ("llama-2-7b", "llama-3.1-8b", "llama-3.1-70b", "mistral-7b")


def figures(entry: Gpu | Llm) -> set[str]:
    """Fields that hold numbers; `tflops` counts as one."""
    return {
        name
        for name in entry.model_fields_set - {"sources"}
        if isinstance(getattr(entry, name), int | float | dict)
        and not isinstance(getattr(entry, name), bool)
    }


@pytest.mark.parametrize("path", GPUS, ids=lambda path: path.stem)
def test_a_gpu(path: Path) -> None:
    gpu = default_catalogue().gpu(path.stem)
    assert gpu.name == path.stem
    check_sources(gpu)
    assert gpu.usd_per_hour is None, "prices are offers"
    assert {"bandwidth_gb_per_s", "tflops"} <= figures(gpu)
    # 8 GB to 1 TB, and what a driver reports is not more than what the name says
    assert 8e9 < gpu.capacity_bytes < 1e12
    assert 100 < gpu.bandwidth_gb_per_s < 20_000
    assert all(1 < rate < 30_000 for rate in gpu.tflops.values())
    assert "fp16" in gpu.tflops


@pytest.mark.parametrize("path", LLMS, ids=lambda path: path.stem)
def test_an_llm(path: Path) -> None:
    llm = default_catalogue().llm(path.stem)
    assert llm.name == path.stem
    check_sources(llm)
    assert llm.matmul_params <= (llm.active_params or llm.params) <= llm.params
    assert sum(run.layers for run in llm.cache_layers) <= llm.layers


def check_sources(entry: Gpu | Llm) -> None:
    assert figures(entry) <= set(entry.sources) <= entry.model_fields_set
    for name, origin in entry.sources.items():
        assert len(origin.source) > 10, name
        assert DATE.match(origin.as_of), name


@pytest.mark.parametrize("path", OFFERS, ids=lambda path: path.stem)
def test_an_offer(path: Path) -> None:
    gpu = default_catalogue().gpu(path.parent.name)
    (offer,) = [one for one in default_catalogue().offers(gpu.name) if one.name == path.stem]
    assert offer.gpu == gpu.name
    assert len(offer.source) > 10
    assert DATE.match(offer.as_of)
    assert 0.1 < offer.usd_per_hour / offer.gpus_per_instance < 30
    if offer.spot_usd_per_hour is not None:
        assert offer.spot_usd_per_hour < offer.usd_per_hour


def test_offers_stand_in_folders_of_known_gpus() -> None:
    folders = {path.name for path in (MODELS / "offers").iterdir()}
    assert folders <= set(default_catalogue().names("gpus"))
    for folder in ("llms", "gpus", "offers"):
        assert all(p.suffix == ".yaml" for p in (MODELS / folder).rglob("*") if p.is_file())


def test_the_main_job_has_what_it_needs() -> None:
    catalogue = default_catalogue()
    assert set(REQUIRED_GPUS) <= set(catalogue.names("gpus"))
    assert set(REQUIRED_LLMS) <= set(catalogue.names("llms"))
    for name in REQUIRED_GPUS[1:]:
        assert catalogue.offers(name), name


def test_the_worked_example_s_figures() -> None:
    gpu, llm = default_catalogue().gpu("generic-80gb"), default_catalogue().llm("llama-2-7b")
    assert (gpu.memory_gb, gpu.bandwidth_gb_per_s, gpu.tflops) == (80, 2000, {"fp16": 300})
    shape = (llm.params, llm.layers, llm.attention_heads, llm.kv_heads, llm.head_dim)
    assert shape == (6.74e9, 32, 32, 32, 128)


def test_offers_come_smallest_instance_first_then_cheapest() -> None:
    for name in default_catalogue().names("gpus"):
        offers = default_catalogue().offers(name)
        assert all(isinstance(offer, Offer) for offer in offers)
        keys = [(offer.gpus_per_instance, offer.usd_per_hour) for offer in offers]
        assert keys == sorted(keys)


def test_entries_are_read_once_and_are_one_object() -> None:
    catalogue = Catalogue(MODELS)
    assert catalogue.gpu("l4") is catalogue.gpu("l4")
    assert catalogue.offers("l4")[0] is catalogue.offers("l4")[0]


@pytest.mark.parametrize("name", ["h10-sxm", "H100-SXM2", "h100sxm"])
def test_an_unknown_name_raises_with_the_nearest(name: str) -> None:
    with pytest.raises(CatalogueError) as raised:
        default_catalogue().gpu(name)
    assert raised.value.mistakes[0].nearest[0] == "h100-sxm"
    assert f"unknown GPU {name!r}" in str(raised.value)


def test_an_unknown_llm_lists_all_where_none_is_near() -> None:
    with pytest.raises(CatalogueError) as raised:
        default_catalogue().llm("zzz")
    assert all(name in str(raised.value) for name in REQUIRED_LLMS)


def test_no_offers_of_an_unknown_gpu() -> None:
    assert default_catalogue().offers("nothing-like-it") == ()
