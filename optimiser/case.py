"""The case: what is asked, as one YAML file (step 1 of the page)."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from optimiser.case_sections import (
    Assumptions,
    Brief,
    Hardware,
    Levers,
    Limits,
    catalogue_of,
    named_or_inline,
)
from optimiser.catalogue.calibrated import calibrated
from optimiser.catalogue.formats import WEIGHT_FORMATS
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.load import Catalogue, shipped
from optimiser.catalogue.offer import Offer
from optimiser.catalogue.scales import Scales, read_scales
from optimiser.errors import CaseError, CatalogueError, InputError, Mistake
from optimiser.schema import Problem, Schema, refuse_all, shown, validated
from optimiser.units import nano_usd
from optimiser.yaml_io import Document, override, parse, read


def llm_by_name(value: object, info: ValidationInfo) -> object:
    """A model given by name or path as the model itself; a section is left to the schema."""
    folder = (info.context or {}).get("folder", Path())
    return named_or_inline(value, lambda name: named_llm(name, catalogue_of(info), folder), Llm)


def is_config_path(name: str) -> bool:
    """Whether a model is named by a path to a config.json instead of by a catalogue name."""
    return name.endswith(".json") or "/" in name


def named_llm(name: str, known: Catalogue, folder: Path = Path()) -> Llm:
    """The LLM of a catalogue name, or of a path to a config.json relative to a folder.

    Raises CatalogueError.
    """
    if not is_config_path(name):
        return known.llm(name)
    from optimiser.catalogue.hf_import import llm_of_config

    return llm_of_config(folder / name)


class Case(Schema):
    """A serving brief: what is asked of the fleet and what it may be built from."""

    name: str = Field(min_length=1)
    """Name of the case, shown in its review."""
    brief: Brief
    """Traffic, lengths and latency promises."""
    model: Annotated[Llm, BeforeValidator(llm_by_name, json_schema_input_type=str | Llm)]
    """The LLM to serve: a catalogue name, or inline."""
    hardware: Hardware
    """What may be rented."""
    levers: Levers = Levers()
    """What may be changed."""
    assumptions: Assumptions = Assumptions()
    """What the engine assumes."""
    limits: Limits = Limits()
    """The case's own limits."""

    _offers: dict[str, tuple[Offer, ...]] = PrivateAttr(default_factory=dict)
    _document: Document | None = PrivateAttr(default=None)
    _catalogue: Catalogue | None = PrivateAttr(default=None)
    _folder: Path = PrivateAttr(default=Path())
    _scales: Scales = PrivateAttr(default_factory=Scales)

    @model_validator(mode="after")
    def _parts_suit_each_other(self, info: ValidationInfo) -> Self:
        self._catalogue = catalogue_of(info)
        self._folder = (info.context or {}).get("folder", Path())
        refuse_all(
            [
                *self._unpriced_gpus(),
                *self._gpus_without_rates(),
                *self._illegal_heads(),
                *self._figures_for_memory(),
                *self._what_latency_needs(),
            ]
        )
        return self

    def _unpriced_gpus(self) -> Iterator[Problem]:
        """Looks up the offers of each GPU that needs one."""
        for gpu in self.hardware.gpus:
            stated = self.hardware.usd_per_gpu_hour or gpu.usd_per_hour
            if stated is not None:
                if nano_usd(stated) == 0:
                    message = f"the price of {gpu.name}, {stated}, is less than a nano-dollar"
                    yield Problem("hardware.gpus", message)
                continue
            known = self._catalogue.offers(gpu.name) if self._catalogue else ()
            self._offers[gpu.name] = tuple(filter(self.hardware.offers.admits, known))
            if not known:
                message = (
                    f"no price for {gpu.name}: give hardware.usd_per_gpu_hour, "
                    "or usd_per_hour of an inline GPU"
                )
                yield Problem("hardware.gpus", message)
            elif not self._offers[gpu.name]:
                yield self.hardware.none_admitted(gpu, known)

    def _gpus_without_rates(self) -> Iterator[Problem]:
        unknown = [name for name in self.weights if name not in WEIGHT_FORMATS]
        if unknown:
            message = f"{self.model.name} is stored in {unknown[0]}: say what format to plan with"
            yield Problem("levers.weights", message)
            return
        for gpu in self.hardware.gpus:
            for name in self.weights:
                fmt = WEIGHT_FORMATS[name]
                if gpu.flops_per_s(fmt) is None:
                    figures = " and no ".join(dict.fromkeys((fmt.computes_in, "fp16")))
                    message = f"{gpu.name} has no {figures} figure, which {name} weights need"
                    yield Problem("hardware.gpus", message)

    def _figures_for_memory(self) -> Iterator[Problem]:
        if self.assumptions.memory == "itemised":
            missing = self.model.missing_for_memory
            if missing:
                message = f"itemised memory needs the model's {', '.join(missing)}"
                yield Problem("assumptions.memory", message)

    def _what_latency_needs(self) -> Iterator[Problem]:
        """Reads the case's own calibration; parts of the model and constants must be known."""
        if self.assumptions.latency != "measured":
            return
        if not self.model.detailed:
            message = "measured latency needs the model's parts: import its config.json"
            yield Problem("model", message)
        for gpu in self.hardware.gpus:
            try:
                calibrated(shipped("models") / "calibration", gpu.latency_name, "vllm")
            except CatalogueError as error:
                first = error.mistakes[0]
                hint = f"{first.message}; say latency_like: a GPU of the catalogue"
                yield Problem("hardware.gpus", hint, first.nearest)
        if self.assumptions.calibration is not None:
            try:
                self._scales = read_scales(self._folder / self.assumptions.calibration)
            except CatalogueError as error:
                for mistake in error.mistakes:
                    yield Problem("assumptions.calibration", str(mistake))

    def _illegal_heads(self) -> Iterator[Problem]:
        heads = self.model.attention_heads
        if self.levers.kv_heads and not self.model.kv_heads:
            yield Problem("levers.kv_heads", f"{self.model.name} has no KV heads; leave this out")
            return
        wrong = [count for count in self.levers.kv_heads or () if heads % count]
        if wrong:
            legal = [count for count in range(1, heads + 1) if heads % count == 0]
            message = (
                f"{', '.join(map(str, wrong))} does not divide the model's {heads} attention "
                f"heads; legal: {', '.join(map(str, legal))}"
            )
            yield Problem("levers.kv_heads", message)

    @classmethod
    def load(
        cls,
        path: str | Path,
        settings: Sequence[str] = (),
        catalogue: Catalogue | None = None,
    ) -> "Case":
        """Read a case file, with `field=value` settings applied over it.

        Raises CaseError with every mistake at once.
        """
        try:
            document = override(read(Path(path)), settings)
        except InputError as error:
            raise CaseError(error.mistakes) from error
        return cls.of_document(document, catalogue)

    @classmethod
    def of_text(cls, text: str, source: str = "case") -> "Case":
        """A case from YAML text. Raises CaseError with every mistake at once."""
        try:
            return cls.of_document(parse(text, source), None)
        except CaseError:
            raise
        except InputError as error:
            raise CaseError(error.mistakes) from error

    @classmethod
    def of_document(
        cls, document: Document, catalogue: Catalogue | None, folder: Path | None = None
    ) -> "Case":
        """A case from a read document; paths in it are relative to the folder, else to its file.

        Raises CaseError with every mistake at once.
        """
        if not isinstance(document.data, dict):
            message = (
                f"found {shown(document.data)}, expected a case with name, brief, model, hardware"
            )
            raise CaseError([Mistake(document.where(()), "", message)])
        place = Path(document.source).parent if folder is None else folder
        case = validated(cls, document, {"catalogue": catalogue, "folder": place})
        if isinstance(case, list):
            raise CaseError(case)
        case._document = document
        return case

    def changed(self, changes: Mapping[str, object]) -> "Case":
        """The case with fields set by their dotted paths, checked again; None removes a field."""
        data = self.model_dump(exclude_unset=True)
        for path, value in changes.items():
            *sections, last = path.split(".")
            section = data
            for name in sections:
                section = section.setdefault(name, {})
            if value is None:
                section.pop(last, None)
            else:
                section[last] = value
        case = Case.of_document(Document(self.name, data), self._catalogue, self._folder)
        case._document = self._document
        return case

    def repriced(self, name: str, scale: float) -> "Case":
        """The case with the price of one of its GPU types scaled.

        A price that the case states for all of its GPUs is scaled for all.
        """
        if self.hardware.usd_per_gpu_hour is not None:
            price = self.hardware.usd_per_gpu_hour * scale
            return self.changed({"hardware.usd_per_gpu_hour": price})
        gpus = [gpu.model_dump(exclude_unset=True) for gpu in self.hardware.gpus]
        for gpu in gpus:
            if gpu["name"] == name and gpu.get("usd_per_hour") is not None:
                gpu["usd_per_hour"] *= scale
        case = self.changed({"hardware.gpus": gpus})
        if name in case._offers:
            case._offers[name] = tuple(offer.repriced(scale) for offer in case._offers[name])
        return case

    def offers(self, gpu: Gpu) -> tuple[Offer, ...]:
        """The offers of a GPU that the case admits; none where its price is stated."""
        return self._offers.get(gpu.name, ())

    @property
    def source(self) -> str:
        """The file that the case was read from, or its name."""
        return self._document.source if self._document else self.name

    def where(self, field: str) -> str:
        """`file:line` of a dotted field, for messages and rows that quote it."""
        return self._document.where(tuple(field.split("."))) if self._document else self.name

    @property
    def scales(self) -> Scales:
        """What this deployment measured of itself; all 1 where it has not."""
        return self._scales

    @property
    def weights(self) -> tuple[str, ...]:
        """Weight formats to choose among: the lever's, else the checkpoint's own."""
        return self.levers.weights or (self.model.own_format,)

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """KV heads to choose among: the lever's, else the model's own."""
        return self.levers.kv_heads or (self.model.kv_heads,)
