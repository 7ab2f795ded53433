"""Where the catalogue is found, and what a broken one says."""

from pathlib import Path

import pytest

from optimiser import Case
from optimiser.catalogue import load
from optimiser.catalogue.load import Catalogue, shipped
from optimiser.errors import CaseError, CatalogueError

ROOT = Path(load.__file__).resolve().parents[2]

GPU = """\
name: tiny
memory_gb: 8
bandwidth_gb_per_s: 100
tflops: {fp16: 10}
"""
OFFER = """\
name: shop-tiny
gpu: tiny
cloud: shop
region: here
instance: tiny-1
gpus_per_instance: 2
usd_per_hour: 3.00
source: "the shop's price list"
as_of: "2026-01-01"
"""


def laid_out(folder: Path, place: str) -> None:
    """A package folder with data where a wheel or a checkout has it."""
    package = folder / "site" / "optimiser" / "catalogue"
    package.mkdir(parents=True)
    (package / "load.py").touch()
    (folder / "site" / place).mkdir(parents=True)


@pytest.mark.parametrize("place", ["optimiser/models", "models"])
def test_data_is_found_in_a_wheel_and_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    laid_out(tmp_path, place)
    monkeypatch.setattr(load, "__file__", str(tmp_path / "site/optimiser/catalogue/load.py"))
    assert shipped("models") == tmp_path / "site" / place


def test_a_wheel_s_own_copy_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path, "models")
    (tmp_path / "site/optimiser/models").mkdir()
    monkeypatch.setattr(load, "__file__", str(tmp_path / "site/optimiser/catalogue/load.py"))
    assert shipped("models") == tmp_path / "site/optimiser/models"


def test_this_checkout_has_its_data() -> None:
    assert shipped("models").is_dir()
    assert shipped("cases").is_dir()
    assert (ROOT / "optimiser").is_dir()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("gpus", "llms", "offers/tiny"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "gpus/tiny.yaml").write_text(GPU)
    (tmp_path / "offers/tiny/shop-tiny.yaml").write_text(OFFER)
    return tmp_path


def test_a_catalogue_of_one_s_own(root: Path) -> None:
    catalogue = Catalogue(root)
    assert catalogue.names("gpus") == ("tiny",)
    assert catalogue.gpu("tiny").capacity_bytes == 8e9
    assert catalogue.offers("tiny")[0].usd_per_hour / 2 == 1.5


def test_a_broken_entry_tells_all_with_file_and_line(root: Path) -> None:
    broken = GPU.replace("memory_gb: 8", "memory_gib: 8").replace("100", "-1")
    (root / "gpus/tiny.yaml").write_text(broken)
    with pytest.raises(CatalogueError) as raised:
        Catalogue(root).gpu("tiny")
    path = root / "gpus/tiny.yaml"
    assert [str(mistake) for mistake in raised.value.mistakes] == [
        f"{path}:3: bandwidth_gb_per_s: found -1, expected greater than 0",
        f"{path}:2: memory_gib: unknown key (did you mean memory_gb or memory_bytes?)",
    ]


@pytest.mark.parametrize("text", ["", "[1", "- a list"])
def test_an_unreadable_entry(root: Path, text: str) -> None:
    (root / "gpus/tiny.yaml").write_text(text)
    with pytest.raises(CatalogueError) as raised:
        Catalogue(root).gpu("tiny")
    assert str(root / "gpus/tiny.yaml") in str(raised.value)


@pytest.mark.parametrize("line", ["source", "as_of", "usd_per_hour", "gpus_per_instance"])
def test_an_offer_must_say_its_source_date_and_price(root: Path, line: str) -> None:
    kept = [one for one in OFFER.splitlines() if not one.startswith(line)]
    (root / "offers/tiny/shop-tiny.yaml").write_text("\n".join(kept))
    with pytest.raises(CatalogueError, match=f"{line}: missing"):
        Catalogue(root).offers("tiny")


@pytest.mark.parametrize("date", ["yesterday", "26-01-01", "2026/01/01", "2026-1-1"])
def test_a_date_is_a_date(root: Path, date: str) -> None:
    (root / "offers/tiny/shop-tiny.yaml").write_text(OFFER.replace("2026-01-01", date))
    with pytest.raises(CatalogueError, match="as_of: found"):
        Catalogue(root).offers("tiny")


def test_a_case_over_a_broken_catalogue_cites_the_catalogue(root: Path, tmp_path: Path) -> None:
    (root / "gpus/tiny.yaml").write_text(GPU.replace("100", "-1"))
    case = tmp_path / "case.yaml"
    case.write_text(
        "name: x\nbrief: {requests_per_s: 1, prompt_tokens: 1, answer_tokens: 1, "
        "ttft_target_s: 1, tpot_target_ms: 1}\n"
        "model: {name: m, params: 1e9, layers: 2, attention_heads: 8, kv_heads: 8, head_dim: 8}\n"
        "hardware: {gpus: [tiny]}\n"
    )
    with pytest.raises(CaseError) as raised:
        Case.load(case, catalogue=Catalogue(root))
    assert f"{case}:4: hardware.gpus[0]: " in str(raised.value)
    assert f"{root / 'gpus/tiny.yaml'}:3: bandwidth_gb_per_s" in str(raised.value)
