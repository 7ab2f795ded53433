"""What-if comparisons: one alternative a row, against the case as it stands."""

from collections.abc import Sequence
from dataclasses import dataclass

from optimiser.case import Case
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.load import Catalogue
from optimiser.planning.planner import Infeasible, Planned, Undecided, plan
from optimiser.studies.rows import Changes, Row, beside, row
from optimiser.units import FLOPS_PER_TFLOP, gb, usd


@dataclass(frozen=True, slots=True)
class Comparison:
    """The baseline and the alternatives, cheapest first, those that cannot comply last."""

    baseline: Row
    rows: tuple[Row, ...]

    @property
    def winner(self) -> Row | None:
        """The cheapest of all; the baseline where nothing is cheaper."""
        compliant = [row for row in (self.baseline, *self.rows) if row.planned]
        return min(compliant, key=lambda row: _cost(row)[:2]) if compliant else None


def compare(
    case: Case, alternatives: Sequence[tuple[str, Changes]], solver_name: str = "cp-sat"
) -> Comparison:
    """Plan a case and each alternative to it."""
    outcome = plan(case, solver_name=solver_name)
    baseline = beside(case.name, outcome, outcome if isinstance(outcome, Planned) else None)
    rows = [row(name, case, change, baseline.planned, solver_name) for name, change in alternatives]
    return Comparison(baseline, tuple(sorted(rows, key=_cost)))


def gpu_change(case: Case, name: str) -> Changes:
    """The case on one GPU type; a price that the case states holds only for GPUs it names."""
    named = {gpu.name: gpu for gpu in case.hardware.gpus}
    if name in named:
        return {"hardware.gpus": [named[name].model_dump(exclude_unset=True)]}
    return {"hardware.gpus": [name], "hardware.usd_per_gpu_hour": None}


def model_change(case: Case, name: str) -> Changes:
    """The case with another model, and that model's own KV heads where the case has its own's."""
    own = case.kv_heads == (case.model.kv_heads,)
    return {"model": name, "levers.kv_heads": None} if own else {"model": name}


def offer_change(known: Catalogue, name: str) -> Changes:
    """The case on one offer. Raises CatalogueError for an unknown one."""
    offer = known.offer(name)
    return {
        "hardware.gpus": [offer.gpu],
        "hardware.usd_per_gpu_hour": None,
        "hardware.offers": {"names": [offer.name]},
    }


def every_gpu(case: Case, known: Catalogue) -> list[tuple[str, Changes]]:
    """Every GPU of the catalogue that has a price, each as an alternative."""
    priced = [name for name in known.names("gpus") if known.offers(name)]
    return [(name, gpu_change(case, name)) for name in priced]


RESOURCES = {
    "weight_reads": "TB/s of bandwidth",
    "kv_reads": "TB/s of bandwidth",
    "memory_capacity": "100 GB of memory",
    "decode_compute": "PFLOP/s",
    "prefill_compute": "PFLOP/s",
}


def resource_price(planned: Planned, resource: str) -> float:
    """Dollars per hour of a unit of a resource, as the plan rents it."""
    chosen = planned.design.configuration
    per_gpu = usd(planned.design.nano_usd_per_hour) / planned.design.rented_gpus
    return per_gpu / _amount(chosen.gpu, chosen.weights, resource)


def _amount(gpu: Gpu, weights: str, resource: str) -> float:
    from optimiser.catalogue.formats import WEIGHT_FORMATS

    if resource.startswith("TB/s"):
        return gpu.bandwidth_gb_per_s / 1000
    if resource.startswith("100 GB"):
        return gb(gpu.capacity_bytes) / 100
    return (gpu.flops_per_s(WEIGHT_FORMATS[weights]) or 0.0) / FLOPS_PER_TFLOP / 1000


def _cost(row: Row) -> tuple[int, float, int, str]:
    if row.planned is None:
        is_error = not isinstance(row.outcome, Infeasible | Undecided)
        return 1 + is_error, 0.0, 0, row.name
    planned = row.planned
    return 0, planned.verdict.figures.usd_per_hour, planned.design.rented_gpus, row.name
