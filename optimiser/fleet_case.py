"""A case with several classes of traffic, or with limits that only fleets have."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from optimiser.case import Case, llm_by_name
from optimiser.case_sections import Assumptions, Brief, Levers, catalogue_of
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.llm import Llm
from optimiser.catalogue.load import Catalogue
from optimiser.catalogue.offer import Offer
from optimiser.errors import CaseError, InputError, Mistake
from optimiser.fleet_sections import FleetHardware, FleetLimits, Workload
from optimiser.histogram import LengthRow, mean_lengths, read_histogram, shares
from optimiser.schema import Problem, Schema, refuse_all, validated
from optimiser.yaml_io import Document, override, read

NEEDED = ("ttft_target_s", "tpot_target_ms")


class FleetCase(Schema):
    """Several classes of traffic, what their fleet may be built from, and its limits."""

    name: str = Field(min_length=1)
    """Name of the case, shown in its review."""
    workloads: tuple[Workload, ...] = ()
    """Classes of traffic."""
    brief: Brief | None = None
    """The short form of a single class."""
    model: Annotated[Llm, BeforeValidator(llm_by_name, json_schema_input_type=str | Llm)] | None = (
        None
    )
    """The LLM of every class that names none of its own."""
    hardware: FleetHardware
    """What may be rented."""
    levers: Levers = Levers()
    """What may be changed."""
    assumptions: Assumptions = Assumptions()
    """What the engine assumes."""
    limits: FleetLimits = FleetLimits()
    """The case's own limits."""
    measured: str | None = None
    """CSV table of measured rates in place of the engine: columns `pool`, `gpu`,
    `gpus_per_replica`, `workload`, `requests_per_s`."""
    routing: Literal["fractional", "whole"] = "fractional"
    """Whether a class may be split among pools at will, or goes to one pool as a whole."""
    slices: int = Field(default=1, gt=0, le=1000)
    """Equal parts of each class that are routed whole."""

    _document: Document | None = PrivateAttr(default=None)
    _catalogue: Catalogue | None = PrivateAttr(default=None)
    _histograms: dict[str, tuple[LengthRow, ...]] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, data: object) -> object:
        if isinstance(data, dict) and isinstance(data.get("workloads"), list):
            return {**data, "workloads": tuple(data["workloads"])}
        return data

    @model_validator(mode="after")
    def _parts_suit_each_other(self, info: ValidationInfo) -> Self:
        self._catalogue = catalogue_of(info)
        refuse_all(list(self._problems()))
        return self

    def _problems(self) -> Iterator[Problem]:
        if bool(self.workloads) == (self.brief is not None):
            yield Problem("workloads", "expected workloads or brief, one of the two")
        names = [workload.name for workload in self.workloads]
        for name in dict.fromkeys(n for n in names if names.count(n) > 1):
            yield Problem("workloads", f"{name!r} is given {names.count(name)} times")
        if self.slices > 1 and self.routing != "whole":
            yield Problem("slices", "goes with routing: whole")
        if self.measured is not None:
            return
        for i, workload in enumerate(self.workloads):
            where = f"workloads.{i}"
            for field in NEEDED:
                if getattr(workload, field) is None:
                    yield Problem(f"{where}.{field}", "missing")
            lengths = (workload.prompt_tokens, workload.answer_tokens)
            if workload.histogram is None and None in lengths:
                yield Problem(where, "expected prompt_tokens and answer_tokens, or a histogram")
            if workload.histogram is not None and lengths != (None, None):
                message = "does not go with prompt_tokens or answer_tokens"
                yield Problem(f"{where}.histogram", message)
            if workload.model is None and self.model is None:
                yield Problem(where, "no model: give it here or at the top of the case")

    @classmethod
    def load(
        cls, path: str | Path, settings: Sequence[str] = (), catalogue: Catalogue | None = None
    ) -> "FleetCase":
        """Read a case file with `field=value` settings. Raises CaseError with every mistake."""
        try:
            return cls.of_document(override(read(Path(path)), settings), catalogue)
        except CaseError:
            raise
        except InputError as error:
            raise CaseError(error.mistakes) from error

    @classmethod
    def of_document(cls, document: Document, catalogue: Catalogue | None) -> "FleetCase":
        """A case from a read document. Raises CaseError with every mistake at once."""
        folder = Path(document.source).parent
        case = validated(cls, document, {"catalogue": catalogue, "folder": folder})
        if isinstance(case, list):
            raise CaseError(case)
        case._document = document
        lengths = [case._with_lengths(i, one) for i, one in enumerate(case.workloads)]
        made = case.model_copy(update={"workloads": tuple(lengths)})
        made._document, made._catalogue = document, case._catalogue
        if made.measured is None:
            for workload in made.classes:
                made.case_of(workload)  # finds what does not suit the class's model
        return made

    def _with_lengths(self, i: int, workload: Workload) -> Workload:
        """The class with the means of its histogram."""
        if workload.histogram is None:
            return workload
        field, name = f"workloads.{i}.histogram", workload.histogram
        rows = read_histogram(self.path(name), self.where(field), field)
        self._histograms[name] = rows
        prompt, answer = mean_lengths(rows)
        return workload.changed(prompt_tokens=prompt, answer_tokens=answer)

    @property
    def classes(self) -> tuple[Workload, ...]:
        """The classes of traffic; a brief is one."""
        if self.brief is not None:
            return (Workload.of_brief(self.brief),)
        return self.workloads

    def case_of(self, workload: Workload) -> Case:
        """The case of one class alone, without the limits of the whole fleet.

        Raises CaseError where the class does not suit its model or the hardware.
        """
        hardware = self.hardware.model_dump(exclude_unset=True, exclude={"stock"})
        levers = self.levers.model_dump(exclude_unset=True)
        if workload.levers is not None:
            levers.update(workload.levers.model_dump(exclude_unset=True))
        model = workload.model or self.model
        brief = workload.model_dump(
            exclude_none=True, exclude={"name", "histogram", "model", "levers"}
        )
        data = {
            "name": workload.name,
            "brief": brief,
            "model": model.model_dump(exclude_unset=True) if model else None,
            "hardware": hardware,
            "levers": levers,
            "assumptions": self.assumptions.model_dump(exclude_unset=True),
        }
        return Case.of_document(Document(self.source, data), self._catalogue)

    def rows_of(self, workload: Workload, one: Case) -> tuple[tuple[Case, float], ...]:
        """The case of a class at each of its lengths, with their shares of its requests.

        `one` is its case; that itself where it has means only.
        """
        if workload.histogram is None:
            return ((one, 1.0),)
        rows = []
        for (prompt, answer), share in shares(self._histograms[workload.histogram]).items():
            update = {"prompt_tokens": prompt, "answer_tokens": answer}
            rows.append(
                (one.model_copy(update={"brief": one.brief.model_copy(update=update)}), share)
            )
        return tuple(rows)

    def offers(self, gpu: Gpu) -> tuple[Offer, ...]:
        """The offers of a GPU that the case admits. Raises CaseError where nothing prices it."""
        if self.hardware.usd_per_gpu_hour is not None or gpu.usd_per_hour is not None:
            return ()
        known = self._catalogue.offers(gpu.name) if self._catalogue else ()
        found = tuple(filter(self.hardware.offers.admits, known))
        if not found:
            told = Problem("hardware.gpus", f"no price for {gpu.name}: it has no offers")
            if known:
                told = self.hardware.none_admitted(gpu, known)
            where = self.where(told.field)
            raise CaseError([Mistake(where, told.field, told.message, told.nearest)])
        return found

    def changed(self, **fields: object) -> "FleetCase":
        """The case with some of its top fields set."""
        made = self.model_copy(update=fields)
        made._document, made._catalogue = self._document, self._catalogue
        return made

    @property
    def source(self) -> str:
        """The file that the case was read from, or its name."""
        return self._document.source if self._document else self.name

    def path(self, name: str) -> Path:
        """A path that the case names, relative to the case."""
        return Path(self.source).parent / name

    def where(self, field: str) -> str:
        """`file:line` of a dotted field."""
        parts = tuple(int(p) if p.isdigit() else p for p in field.split("."))
        return self._document.where(parts) if self._document else self.name
