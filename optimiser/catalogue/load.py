"""Finds and reads the catalogue: one YAML file for each LLM, GPU and offer."""

import os
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

FOLDER_VARIABLE = "OPTIMISE_CATALOGUE"
MOST_NAMES_LISTED = 60


def shipped(folder: str) -> Path:
    """A data folder that ships with the product: the wheel's copy, else the checkout's."""
    package = Path(__file__).resolve().parent.parent
    installed = package / folder
    return installed if installed.is_dir() else package.parent / folder


class Catalogue:
    """The LLMs, GPUs and offers under some root folders, read when asked for and kept.

    A later root adds to the earlier ones, and wins where both have a name.
    """

    def __init__(self, *roots: Path) -> None:
        self.roots = roots
        self._entries: dict[Path, Schema] = {}
        self._listings: dict[str, dict[str, Path]] = {}
        self._offers: dict[str, tuple[Offer, ...]] = {}

    def llm(self, name: str) -> Llm:
        """The LLM of that name. Raises CatalogueError with the nearest names."""
        return self._read(Llm, self._path("llms", "model", name))

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name. Raises CatalogueError with the nearest names."""
        return self._read(Gpu, self._path("gpus", "GPU", name))

    def offer(self, name: str) -> Offer:
        """The offer of that name. Raises CatalogueError with the nearest names."""
        return self._read(Offer, self._path("offers", "offer", name))

    def offers(self, gpu: str) -> tuple[Offer, ...]:
        """Every offer of a GPU: the smallest instances first, the cheapest first among equals."""
        if gpu not in self._offers:
            paths = [p for p in self._paths("offers").values() if p.parent.name == gpu]
            found = sorted((self._read(Offer, path) for path in paths), key=_size_and_price)
            self._offers[gpu] = tuple(found)
        return self._offers[gpu]

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of all entries of a kind: `llms`, `gpus` or `offers`."""
        return tuple(sorted(self._paths(kind)))

    def where(self, kind: str, name: str) -> Path:
        """The file of an entry."""
        return self._paths(kind)[name]

    def _paths(self, kind: str) -> dict[str, Path]:
        if kind not in self._listings:
            pattern = "*/*.yaml" if kind == "offers" else "*.yaml"
            found = (p for root in self.roots for p in sorted((root / kind).glob(pattern)))
            self._listings[kind] = {p.stem: p for p in found}
        return self._listings[kind]

    def _path(self, kind: str, what: str, name: str) -> Path:
        known = self._paths(kind)
        if name not in known:
            near = nearest(name, known)
            listed = len(known) <= MOST_NAMES_LISTED and not near
            listing = f"; the catalogue has {', '.join(known)}" if listed else ""
            raise CatalogueError([Mistake("", "", f"unknown {what} {name!r}{listing}", near)])
        return known[name]

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
        if entry.name != path.stem:
            message = f"found {entry.name!r}, expected the file's own name {path.stem!r}"
            raise CatalogueError([Mistake(document.where(("name",)), "name", message)])
        self._entries[path] = entry
        return entry


def _size_and_price(offer: Offer) -> tuple[int, float, str]:
    return offer.gpus_per_instance, offer.usd_per_hour, offer.name


@lru_cache(maxsize=8)
def catalogue(folder: str | None = None) -> Catalogue:
    """The shipped catalogue, with a user's folder (llms/, gpus/, offers/GPU/) added to it.

    Kept for the process. Raises CatalogueError where the folder is none.
    """
    if folder is None:
        return Catalogue(shipped("models"))
    if not Path(folder).is_dir():
        raise CatalogueError([Mistake(folder, "", "no such catalogue folder")])
    return Catalogue(shipped("models"), Path(folder))


def default_catalogue() -> Catalogue:
    """The shipped catalogue, with the folder that OPTIMISE_CATALOGUE names."""
    return catalogue(os.environ.get(FOLDER_VARIABLE) or None)
