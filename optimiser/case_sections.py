"""The sections of a case: brief, hardware, levers, assumptions, limits."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from optimiser.catalogue.formats import cache_format_name, weight_format_name
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.load import Catalogue, default_catalogue
from optimiser.catalogue.offer import Offer, Term
from optimiser.errors import CatalogueError
from optimiser.names import count, nearest
from optimiser.schema import AnySchema, Problem, Schema, refuse, refuse_all, shown
from optimiser.units import s_of_ms

MOST_TOKENS = 10_000_000


def catalogue_of(info: ValidationInfo) -> Catalogue:
    """The catalogue of the validation at hand, else the shipped one."""
    return (info.context or {}).get("catalogue") or default_catalogue()


def _gpu_by_name(value: object, info: ValidationInfo) -> object:
    return named_or_inline(value, catalogue_of(info).gpu, Gpu)


def named_or_inline(
    value: object, by_name: Callable[[str], AnySchema], schema: type[AnySchema]
) -> object:
    """The catalogue's entry where a name is given; a section is left to the schema."""
    if not isinstance(value, str):
        if not isinstance(value, dict | schema):
            refuse(f"found {shown(value)}, expected a catalogue name or a section with fields")
        return value
    try:
        return by_name(value)
    except CatalogueError as error:
        _refuse_as(error)


def _refuse_as(error: CatalogueError) -> NoReturn:
    """Refuse the current value with a catalogue's words."""
    first = error.mistakes[0]
    refuse(str(first).removeprefix(":").strip() if first.where else first.message, first.nearest)


def opened(value: object) -> object:
    """A lever's single value as a list of one; an empty list is refused, repeats are dropped."""
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values:
        refuse("empty list, expected a value or a list of values")
    return tuple(dict.fromkeys(values)) if all(map(_hashable, values)) else tuple(values)


def _list_or_none(value: object) -> object:
    return None if value is None else opened(value)


def _hashable(value: object) -> bool:
    return isinstance(value, str | int | float)


def _named(resolve: Any, values: tuple[object, ...] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(dict.fromkeys(resolve(value) for value in values))


Count = Annotated[int, Field(gt=0, le=1_000_000)]


class Traffic(Schema):
    """How many requests there are, said once, and the names that lengths go by."""

    requests_per_s: float | None = Field(default=None, gt=0, le=1e9)
    """Requests that arrive per second; give this or `concurrent_users`."""
    concurrent_users: float | None = Field(default=None, gt=0, le=1e9)
    """Users who always have one request in flight, in place of `requests_per_s`."""

    @model_validator(mode="before")
    @classmethod
    def _lengths_by_their_other_names(cls, data: Any) -> Any:
        """Accepts ISL and OSL for the prompt and answer lengths."""
        if not isinstance(data, dict):
            return data
        names = {"isl": "prompt_tokens", "osl": "answer_tokens"}
        renamed = {names.get(str(key).lower(), key): value for key, value in data.items()}
        return renamed if len(renamed) == len(data) else data

    @model_validator(mode="after")
    def _says_its_traffic_once(self) -> Self:
        if (self.requests_per_s is None) == (self.concurrent_users is None):
            refuse("expected requests_per_s or concurrent_users, one of the two")
        return self

    @property
    def traffic_field(self) -> str:
        """The field that states the traffic."""
        return "requests_per_s" if self.requests_per_s is not None else "concurrent_users"


class Brief(Traffic):
    """Traffic, lengths and latency promises."""

    prompt_tokens: int = Field(gt=0, le=MOST_TOKENS)
    """Mean prompt length (ISL), tokens."""
    answer_tokens: int = Field(gt=0, le=MOST_TOKENS)
    """Mean answer length (OSL), tokens."""
    ttft_target_s: float = Field(gt=0, le=1e6)
    """Longest acceptable time to first token, s."""
    tpot_target_ms: float = Field(gt=0, le=1e9)
    """Longest acceptable mean time per output token after the first, ms."""

    @property
    def rate(self) -> float:
        """Requests per second; users are converted at the promised pace.

        users / (ttft_target_s + answer_tokens * tpot_target)
        """
        if self.requests_per_s is not None:
            return self.requests_per_s
        pace_s = self.ttft_target_s + self.answer_tokens * s_of_ms(self.tpot_target_ms)
        return (self.concurrent_users or 0.0) / pace_s


class Offers(Schema):
    """Which of the catalogue's offers may be rented; any, on demand, where nothing is said."""

    names: Annotated[tuple[str, ...] | None, BeforeValidator(_list_or_none)] = None
    """Offers by name."""
    clouds: Annotated[tuple[str, ...] | None, BeforeValidator(_list_or_none)] = None
    """Sellers."""
    regions: Annotated[tuple[str, ...] | None, BeforeValidator(_list_or_none)] = None
    """Regions."""
    terms: Annotated[tuple[Term, ...], BeforeValidator(opened)] = ("on-demand",)
    """on-demand, spot, or both."""

    def admits(self, offer: Offer) -> bool:
        """Whether an offer may be rented."""
        return (
            (self.names is None or offer.name in self.names)
            and (self.clouds is None or offer.cloud in self.clouds)
            and (self.regions is None or offer.region in self.regions)
            and any(offer.price(term) is not None for term in self.terms)
        )


class Hardware(Schema):
    """What may be rented."""

    gpus: Annotated[
        tuple[Annotated[Gpu, BeforeValidator(_gpu_by_name, json_schema_input_type=str | Gpu)], ...],
        BeforeValidator(opened, json_schema_input_type=list[str | Gpu]),
    ]
    """GPUs to choose among: catalogue names, or inline with name, memory_gb, bandwidth_gb_per_s,
    tflops and usd_per_hour."""
    usd_per_gpu_hour: float | None = Field(default=None, gt=0, le=1e6)
    """Price of each of these GPUs for an hour, in place of the offers' prices."""
    offers: Offers = Offers()
    """Which offers may be rented where nothing states a price."""

    def none_admitted(self, gpu: Gpu, known: Sequence[Offer]) -> Problem:
        """What is said where no known offer of a GPU may be rented."""
        message = f"none of the {count(len(known), 'offer')} of {gpu.name} is admitted"
        names = [offer.name for offer in known]
        wrong = [name for name in self.offers.names or () if name not in names]
        near = tuple(dict.fromkeys(one for name in wrong for one in nearest(name, names)))
        return Problem("hardware.offers", message, near)

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        names = [gpu.name for gpu in self.gpus]
        for name in names:
            if names.count(name) > 1:
                refuse(f"gpus: {name!r} is given {names.count(name)} times")
        return self


class Batch(Schema):
    """Bounds of the batch."""

    most: int = Field(default=1024, gt=0, le=1_000_000)
    """Largest batch to consider, sequences."""


class Levers(Schema):
    """What may be changed: a value fixes a lever, a list opens it."""

    weights: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(partial(_named, weight_format_name)),
        BeforeValidator(_list_or_none, json_schema_input_type=str | list[str] | None),
    ] = None
    """Weight formats; the checkpoint's own where nothing is said, 16 bits for most."""
    kv_cache: Annotated[
        tuple[str, ...],
        BeforeValidator(partial(_named, cache_format_name)),
        BeforeValidator(opened, json_schema_input_type=str | list[str]),
    ] = ("fp16",)
    """KV-cache formats."""
    kv_heads: Annotated[
        tuple[Count, ...] | None,
        BeforeValidator(_list_or_none, json_schema_input_type=int | list[int] | None),
    ] = None
    """KV heads; the model's own where nothing is said."""
    tensor_parallel: Annotated[
        tuple[Count, ...], BeforeValidator(opened, json_schema_input_type=int | list[int])
    ] = (1,)
    """GPUs that share one replica."""
    batch: Batch = Batch()
    """Sequences that a replica runs at once."""


class Assumptions(Schema):
    """What the engine assumes, with the page's defaults."""

    efficiency: float = Field(default=1.0, gt=0, le=1)
    """Share of the ideal roofline that is reached."""
    headroom: float = Field(default=1.3, ge=1, le=1000)
    """Capacity planned for each unit of demand, for bursts and queueing."""
    memory: Literal["reserve", "itemised"] = "reserve"
    """How memory is counted: one share held back, or every term of an engine."""
    memory_reserve: float = Field(default=0.10, ge=0, lt=1)
    """Share of memory held back for activations, fragmentation and buffers."""
    memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """Itemised: share of the device that the engine budgets."""
    max_num_batched_tokens: int | None = Field(default=None, gt=0, le=10_000_000)
    """Itemised: most tokens in one step; the engine's own default for the GPU if not given."""
    prefix_cached_frac: float = Field(default=0.0, ge=0, lt=1)
    """Share of the prompt tokens found in the engine's prefix cache, so not computed again."""

    latency: Literal["ideal", "measured"] = "ideal"
    """How long passes take: the page's roofline, or a model fitted to measured servers."""
    serving_engine: Literal["vllm", "sglang", "tensorrt-llm"] = "vllm"
    """Measured: the engine that serves."""
    slo_margin: float | None = Field(default=None, gt=0, le=1)
    """Share of the latency targets that is planned at; 1 for the ideal roofline, what measured runs
    call for otherwise."""
    calibration: str | None = None
    """Measured: file of this deployment's own scales, as `optimise calibrate` writes it."""

    @model_validator(mode="after")
    def _one_way_to_time(self) -> Self:
        measured = self.latency == "measured"
        of_the_other = {"efficiency"} if measured else {"serving_engine", "calibration"}
        refuse_all(
            [
                Problem(name, f"does not go with latency: {self.latency}")
                for name in sorted(of_the_other & self.model_fields_set)
            ]
        )
        return self

    @model_validator(mode="after")
    def _one_way_to_count_memory(self) -> Self:
        itemised = self.memory == "itemised"
        of_the_other = (
            {"memory_reserve"} if itemised else {"memory_utilization", "max_num_batched_tokens"}
        )
        refuse_all(
            [
                Problem(name, f"does not go with memory: {self.memory}")
                for name in sorted(of_the_other & self.model_fields_set)
            ]
        )
        return self


class Limits(Schema):
    """The case's own limits."""

    most_gpus: int | None = Field(default=None, gt=0, le=10**9)
    """Most GPUs in all."""
    usd_per_hour: float | None = Field(default=None, gt=0, le=1e12)
    """Most dollars per hour in all."""
    least_replicas: int | None = Field(default=None, gt=0, le=1_000_000)
    """Fewest replicas, for redundancy."""
