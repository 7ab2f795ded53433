"""The sections that only fleets have: workloads, stock, and limits on pools."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from optimiser.case import llm_by_name
from optimiser.case_sections import MOST_TOKENS, Brief, Hardware, Levers, Limits, Traffic
from optimiser.catalogue.llm import Llm
from optimiser.schema import refuse


class FleetHardware(Hardware):
    """What may be rented, and how much of it there is."""

    stock: dict[str, int] | None = None
    """GPUs that there are of a type: `{h100-sxm: 16, l4: 64}`; types left out are unlimited."""

    @model_validator(mode="after")
    def _stock_is_of_its_gpus(self) -> Self:
        names = {gpu.name for gpu in self.gpus}
        for name, count in (self.stock or {}).items():
            if name not in names:
                refuse(f"stock: {name!r} is none of the GPUs {', '.join(sorted(names))}")
            if not 0 <= count <= 10**9:
                refuse(f"stock: {count} of {name}, expected a count of GPUs")
        return self


class FleetLimits(Limits):
    """Limits of a fleet."""

    survive: int = Field(default=0, ge=0, le=1000)
    """Replicas of each open pool that may fail while the rest carries its traffic."""
    most_pools: int | None = Field(default=None, gt=0, le=10_000)
    """Most different pools."""
    most_spot_frac: float | None = Field(default=None, ge=0, le=1)
    """Largest share of all requests that spot instances may serve."""


class Workload(Traffic):
    """One class of traffic: its requests, lengths and promises."""

    name: str = Field(min_length=1)
    """Name of the class."""
    prompt_tokens: int | None = Field(default=None, gt=0, le=MOST_TOKENS)
    """Mean prompt length (ISL), tokens."""
    answer_tokens: int | None = Field(default=None, gt=0, le=MOST_TOKENS)
    """Mean answer length (OSL), tokens."""
    histogram: str | None = None
    """CSV file of lengths in place of means: columns `count`, `mean_prompt`, `mean_answer`. The
    class is then planned as the mix of its rows; its time to first token is their mean."""
    ttft_target_s: float | None = Field(default=None, gt=0, le=1e6)
    """Longest acceptable time to first token, s."""
    tpot_target_ms: float | None = Field(default=None, gt=0, le=1e9)
    """Longest acceptable mean time per output token after the first, ms."""
    model: Annotated[Llm, BeforeValidator(llm_by_name, json_schema_input_type=str | Llm)] | None = (
        None
    )
    """The LLM of this class, where it is not the case's."""
    levers: Levers | None = None
    """Levers that this class accepts, where it accepts fewer than the case allows."""

    @classmethod
    def of_brief(cls, brief: Brief) -> "Workload":
        """A single brief as a class of traffic."""
        return cls(name="brief", **brief.model_dump(exclude_unset=True))

    def changed(self, **fields: object) -> "Workload":
        """The class with some fields set."""
        return self.model_copy(update=fields)
