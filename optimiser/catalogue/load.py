"""Finds and reads the catalogue: one YAML file for each LLM, GPU and offer."""

from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.offer import Offer
from optimiser.errors import CatalogueError, InputError, Mistake
from optimiser.names import nearest
from optimiser.schema import Schema, validated
from optimiser.yaml_io import read

AnyEntry = TypeVar("AnyEntry", Llm, Gpu, Offer)


def shipped(folder: str) -> Path:
    """A data folder that ships with the product: the wheel's copy, else the checkout's."""
    package = Path(__file__).resolve().parent.parent
    installed = package / folder
    return installed if installed.is_dir() else package.parent / folder


class Catalogue:
    """The LLMs, GPUs and offers under a root folder, read when asked for and kept."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entries: dict[Path, Schema] = {}

    def llm(self, name: str) -> Llm:
        """The LLM of that name. Raises CatalogueError with the nearest names."""
        return self._entry(Llm, "llms", "model", name)

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name. Raises CatalogueError with the nearest names."""
        return self._entry(Gpu, "gpus", "GPU", name)

    def offers(self, gpu: str) -> tuple[Offer, ...]:
        """Every offer of a GPU: the smallest instances first, the cheapest first among equals."""
        folder = self.root / "offers" / gpu
        found = [self._read(Offer, path) for path in sorted(folder.glob("*.yaml"))]
        return tuple(sorted(found, key=_instance_size_and_price))

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all entries of a kind: `llms` or `gpus`."""
        return tuple(sorted(path.stem for path in (self.root / kind).glob("*.yaml")))

    def _entry(self, schema: type[AnyEntry], kind: str, what: str, name: str) -> AnyEntry:
        path = self.root / kind / f"{name}.yaml"
        if "/" in name or "\\" in name or "\0" in name or not path.is_file():
            known = self.names(kind)
            near = nearest(name, known)
            listing = "" if near else f"; the catalogue has {', '.join(known)}"
            raise CatalogueError([Mistake("", "", f"unknown {what} {name!r}{listing}", near)])
        return self._read(schema, path)

    def _read(self, schema: type[AnyEntry], path: Path) -> AnyEntry:
        kept = self._entries.get(path)
        if isinstance(kept, schema):
            return kept
        try:
            document = read(path)
        except InputError as error:
            raise CatalogueError(error.mistakes) from error
        entry = validated(schema, document, {})
        if isinstance(entry, list):
            raise CatalogueError(entry)
        self._entries[path] = entry
        return entry


@lru_cache(maxsize=1)
def default_catalogue() -> Catalogue:
    """The catalogue that ships with the product, shared by everything in the process."""
    return Catalogue(shipped("models"))


def _instance_size_and_price(offer: Offer) -> tuple[int, float, str]:
    return offer.gpus_per_instance, offer.usd_per_gpu_hour, offer.name
