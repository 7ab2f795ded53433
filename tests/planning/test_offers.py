"""Offers: which may be rented, whole instances paid for, and which are not worth considering."""

import math
from collections.abc import Mapping
from typing import Any

import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimiser import Case, Infeasible, Planned, Undecided, plan
from optimiser.catalogue.gpu import Gpu
from optimiser.catalogue.load import shipped
from optimiser.catalogue.offer import Offer
from optimiser.errors import CaseError
from optimiser.planning import planner
from optimiser.planning.build import build
from optimiser.planning.configurations import configurations
from optimiser.planning.order import preferences
from optimiser.planning.rental import GPUS_PER_NODE, Rental, rentals, undominated
from optimiser.planning.solvers.base import Limits, Solution, Status
from optimiser.planning.verify import verify
from optimiser.review.plan import review
from tests import oracle
from tests.planning.by_hand import by_hand
from tests.planning.test_program import optimum_of, rows_of, saved, without_rows
from tests.strategies import KINDS, Shop, case_of, draw_real_case

SOLVERS = ("cp-sat", "highs", "cbc")


def offer(name: str, gpus: int, usd: float, **changes: Any) -> Offer:
    fields = {
        "name": name,
        "gpu": "round",
        "cloud": "north",
        "region": "east",
        "instance": name,
        "gpus_per_instance": gpus,
        "usd_per_hour": usd,
        "source": "by hand",
        "as_of": "2026-01",
    }
    return Offer.model_validate({**fields, **changes})


def rented(*offers: Offer, changes: Mapping[str, object] | None = None, **gpu: Any) -> Case:
    """10e9 parameters in fp16 on 60 GB, 1 TB/s and 100 TFLOP/s; 2 replicas at 3 requests/s.

    As by hand in the tests of configurations: batch 120 in 24 ms, 0.3 s a request, 3 x 1.5 x 0.3 =
    1.35 replicas. On two GPUs a replica takes half of that and on four a quarter.
    """
    return case_of(by_hand("rented", **gpu), Shop(*offers)).changed(dict(changes or {}))


def planned(case: Case, solver_name: str = "cp-sat") -> Planned:
    outcome = plan(case, explained=False, solver_name=solver_name)
    assert isinstance(outcome, Planned)
    assert outcome.verdict.complies
    return outcome


def bought(outcome: Planned) -> tuple[str, str, int, int, float]:
    """Offer, term, units, rented GPUs and dollars an hour."""
    design, rental = outcome.design, outcome.design.configuration.rental
    assert rental.offer is not None
    cost = outcome.proof.objective_usd_per_hour
    assert outcome.verdict.figures.usd_per_hour == cost
    return rental.offer.name, rental.term, design.units, design.rented_gpus, cost


# Whole instances.


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_a_gpu_sold_eight_at_a_time_costs_eight(solver_name: str) -> None:
    outcome = planned(rented(offer("eight", 8, 16.0)), solver_name)
    assert bought(outcome) == ("eight", "on-demand", 1, 8, 16.0)
    # two of the eight do the work; idle ones run nothing
    assert (outcome.design.replicas, outcome.design.gpus) == (2, 2)
    assert review(outcome).headline.startswith("2 GPUs (8 rented) · ")
    assert outcome.verdict.figures.usd_per_month == 16 * 730


@pytest.mark.parametrize(
    ("rate", "replicas", "units"),
    [(3.0, 2, 1), (17.7, 8, 1), (17.8, 9, 2), (40.0, 18, 3)],  # 0.45 x rate: 1.35, 7.97, 8.01, 18
)
def test_instances_are_counted_up(rate: float, replicas: int, units: int) -> None:
    case = rented(offer("eight", 8, 16.0), changes={"brief.requests_per_s": rate})
    outcome = planned(case)
    assert outcome.design.replicas == replicas
    assert bought(outcome) == ("eight", "on-demand", units, 8 * units, 16.0 * units)


@pytest.mark.parametrize(
    ("size", "gpus", "held"), [(1, 8, 8), (2, 8, 4), (4, 6, 1), (3, 8, 2), (8, 8, 1), (1, 1, 1)]
)
def test_replicas_in_an_instance(size: int, gpus: int, held: int) -> None:
    rental = Rental(10**9, gpus, gpus, offer("x", gpus, 1.0))
    assert rental.replicas_per_unit(size) == held
    assert rental.nano_usd_per_unit(size) == 10**9
    assert rental.gpus_per_unit(size) == gpus
    alone = Rental(10**9, 1, 8)
    assert alone.replicas_per_unit(size) == 1
    assert (alone.nano_usd_per_unit(size), alone.gpus_per_unit(size)) == (size * 10**9, size)


def test_a_replica_never_spans_instances() -> None:
    # replicas of four need an instance of four, however cheap single GPUs are; six hold one
    offers = (offer("one", 1, 0.1), offer("six", 6, 12.0))
    case = rented(*offers, changes={"levers.tensor_parallel": 4})
    assert bought(planned(case)) == ("six", "on-demand", 1, 6, 12.0)
    with pytest.raises(CaseError, match="4 is more than the 1 GPU of a node") as caught:
        configurations(rented(offers[0], changes={"levers.tensor_parallel": 4}))
    assert caught.value.mistakes[0].message.endswith("legal: 1")
    # where sizes are open the small one takes the small instance
    both = planned(rented(*offers, changes={"levers.tensor_parallel": [1, 4]}))
    assert bought(both) == ("one", "on-demand", 2, 2, 0.2)


def test_two_replicas_of_four_take_two_instances_of_six() -> None:
    # four GPUs: 24 ms x 4 = 96 ms of a fp16 step at least; a quarter of 0.45 x 40 is 4.5
    case = rented(
        offer("six", 6, 12.0),
        changes={"levers.tensor_parallel": 4, "limits.least_replicas": 2},
    )
    outcome = planned(case)
    assert bought(outcome) == ("six", "on-demand", 2, 12, 24.0)
    assert outcome.design.gpus == 8


def test_the_smallest_price_for_the_need_wins() -> None:
    # two replicas: two of one ($6), one of two ($5.5) or one of eight ($16)
    offers = (offer("one", 1, 3.0), offer("two", 2, 5.5), offer("eight", 8, 16.0))
    assert bought(planned(rented(*offers)))[0] == "two"
    # six: 6 x 3 = 18, 3 x 5.5 = 16.5, 16
    more = rented(*offers, changes={"limits.least_replicas": 6})
    assert bought(planned(more)) == ("eight", "on-demand", 1, 8, 16.0)
    # nine: 27, 5 x 5.5 = 27.5, 32
    nine = rented(*offers, changes={"limits.least_replicas": 9})
    assert bought(planned(nine)) == ("one", "on-demand", 9, 9, 27.0)


def test_most_gpus_counts_those_that_are_rented() -> None:
    eight = offer("eight", 8, 16.0)
    assert isinstance(
        plan(rented(eight, changes={"limits.most_gpus": 7}), explained=False), Infeasible
    )
    assert bought(planned(rented(eight, changes={"limits.most_gpus": 8})))[3] == 8
    # a dearer instance with fewer GPUs is kept where GPUs are limited
    offers = (eight, offer("two", 2, 17.0))
    assert bought(planned(rented(*offers)))[0] == "eight"
    limited = rented(*offers, changes={"limits.most_gpus": 7})
    assert bought(planned(limited)) == ("two", "on-demand", 1, 2, 17.0)


def test_the_nearest_limit_counts_rented_gpus() -> None:
    outcome = plan(rented(offer("eight", 8, 16.0), changes={"limits.most_gpus": 7}))
    assert isinstance(outcome, Infeasible)
    (conflict,) = outcome.conflicts
    works = {near.requirement: near.works_at for near in conflict.nearest}
    assert works["limits.most_gpus"] == 8
    budget = plan(rented(offer("eight", 8, 16.0), changes={"limits.usd_per_hour": 15.0}))
    assert isinstance(budget, Infeasible)
    works = {near.requirement: near.works_at for near in budget.conflicts[0].nearest}
    assert works["limits.usd_per_hour"] == 16.0


def test_the_verifier_counts_rented_gpus() -> None:
    case = rented(offer("eight", 8, 16.0), changes={"limits.most_gpus": 8})
    design = planned(case).design
    fewer = case.changed({"limits.most_gpus": 7})
    failed = [c for c in verify(fewer, design).checks if not c.holds]
    assert [(c.requirement, c.actual) for c in failed] == [("limits.most_gpus", 8.0)]
    budget = case.changed({"limits.usd_per_hour": 15.9})
    failed = [c for c in verify(budget, design).checks if not c.holds]
    assert [(c.requirement, c.actual) for c in failed] == [("limits.usd_per_hour", 16.0)]


@pytest.mark.parametrize(("most", "kind"), [(7, Undecided), (8, Planned)])
def test_a_repaired_design_counts_rented_gpus(
    most: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped solver's proposal is repaired only into a design that the limits allow."""

    def stopped(problem: pulp.LpProblem, limits: Limits) -> Solution:
        values = dict.fromkeys((variable.name for variable in problem.variables()), 1)
        return Solution(Status.FEASIBLE, values, 2.0, None)

    monkeypatch.setattr(planner, "solver", lambda name: stopped)
    outcome = plan(rented(offer("eight", 8, 16.0), changes={"limits.most_gpus": most}))
    assert isinstance(outcome, kind)


def test_replicas_beyond_the_need_cost_nothing_and_are_still_settled() -> None:
    """In a group of whole instances the cost does not say how many replicas run: fewest do."""
    group = build(configurations(rented(offer("eight", 8, 16.0))))
    assert [name for name, _ in preferences(group)] == ["fewest GPUs", "largest batch"]
    alone = build(configurations(rented(offer("one", 1, 2.0))))
    assert [name for name, _ in preferences(alone)] == ["largest batch"]
    several = build(configurations(rented(offer("one", 1, 2.0), offer("eight", 8, 8.0))))
    assert [name for name, _ in preferences(several)] == [
        "fewest GPUs",
        "smallest tensor parallel",
        "largest batch",
        "name",
    ]


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_the_saved_program_of_whole_instances(solver_name: str, tmp_path: Any) -> None:
    offers = (offer("one", 1, 3.1), offer("eight", 8, 16.3), offer("two", 2, 5.9))
    case = rented(*offers, changes={"brief.requests_per_s": 12.0, "levers.tensor_parallel": [1, 2]})
    # 0.45 x 12 = 5.4, so 6 replicas: 18.6, 16.3 or 17.7
    path = saved(case, tmp_path, solver_name=solver_name)
    assert optimum_of(path) == pytest.approx(16.3, rel=1e-9)
    assert planned(case, solver_name).proof.objective_usd_per_hour == 16.3
    rows = rows_of(path)
    assert any(name.startswith("instances_") for name in rows)
    # without the instances, nothing need be paid
    assert optimum_of(without_rows(path, "instances")) == pytest.approx(0.0)


@pytest.mark.parametrize("seed", range(0, 160, 5))
def test_anyones_solver_finds_the_optimum_of_real_cases(seed: int, tmp_path: Any) -> None:
    case = draw_real_case(seed)
    best = oracle.cheapest(case)
    expected = None if best is None else pytest.approx(best.nano_usd / 1e9, rel=1e-9)
    assert optimum_of(saved(case, tmp_path)) == expected


# Which offers.

SHOP = (
    offer("north-east", 1, 4.0, spot_usd_per_hour=2.5),
    offer("north-west", 1, 3.0, region="west"),
    offer("south-east", 1, 2.0, cloud="south", spot_usd_per_hour=1.5),
    offer("south-west", 1, 1.0, cloud="south", region="west"),
)


@pytest.mark.parametrize(
    ("wanted", "name", "term", "usd"),
    [
        ({}, "south-west", "on-demand", 2.0),
        ({"clouds": "north"}, "north-west", "on-demand", 6.0),
        ({"clouds": ["north", "south"]}, "south-west", "on-demand", 2.0),
        ({"regions": "east"}, "south-east", "on-demand", 4.0),
        ({"clouds": ["north"], "regions": ["east"]}, "north-east", "on-demand", 8.0),
        ({"names": ["north-east", "north-west"]}, "north-west", "on-demand", 6.0),
        ({"terms": "spot"}, "south-east", "spot", 3.0),
        ({"terms": ["on-demand", "spot"]}, "south-west", "on-demand", 2.0),
        ({"terms": ["spot", "on-demand"], "regions": "east"}, "south-east", "spot", 3.0),
        ({"terms": "spot", "clouds": "north"}, "north-east", "spot", 5.0),
    ],
)
def test_offers_that_a_case_admits(
    wanted: dict[str, object], name: str, term: str, usd: float
) -> None:
    outcome = planned(rented(*SHOP, changes={"hardware.offers": wanted}))
    assert bought(outcome) == (name, term, 2, 2, usd)


@pytest.mark.parametrize(
    "wanted",
    [
        {"clouds": "east"},
        {"regions": "south"},
        {"names": "no-such"},
        {"terms": "spot", "regions": "west"},  # neither is sold as spot
    ],
)
def test_no_offer_is_admitted(wanted: dict[str, object]) -> None:
    with pytest.raises(CaseError, match="none of the 4 offers of round is admitted") as caught:
        rented(*SHOP, changes={"hardware.offers": wanted})
    assert [mistake.field for mistake in caught.value.mistakes] == ["hardware.offers"]


def test_a_mistyped_offer_is_told_the_nearest_one() -> None:
    offers = (offer("north-large", 8, 16.0), offer("south", 8, 16.0))
    with pytest.raises(CaseError, match="none of the 2 offers of round") as caught:
        rented(*offers, changes={"hardware.offers": {"names": "north-lage"}})
    assert caught.value.mistakes[0].nearest == ("north-large",)
    with pytest.raises(CaseError, match="did you mean north-large"):
        rented(*offers, changes={"hardware.offers": {"names": ["north-lage", "x"]}})


def test_no_offer_at_all() -> None:
    with pytest.raises(CaseError, match="no price for round") as caught:
        rented()
    assert caught.value.mistakes[0].field == "hardware.gpus"


def test_a_plan_on_spot_says_what_spot_risks() -> None:
    sold = offer("eight", 8, 16.0, spot_usd_per_hour=4.0)
    firm = planned(rented(sold))
    spot = planned(rented(sold, changes={"hardware.offers": {"terms": "spot"}}))
    note = "spot price: Instances are taken back at short notice; keep spare capacity."
    assert note not in review(firm).notes
    assert note in review(spot).notes


def test_a_stated_price_is_of_single_gpus_whatever_the_offers() -> None:
    for case in (
        rented(*SHOP, changes={"hardware.usd_per_gpu_hour": 7.0}),
        rented(*SHOP, usd_per_hour=7.0),
    ):
        assert case.offers(case.hardware.gpus[0]) == ()
        (rental,) = rentals(case, case.hardware.gpus[0])
        assert rental == Rental(7 * 10**9, 1, GPUS_PER_NODE) == Rental(7 * 10**9, 1, 8)
        assert planned(case).proof.objective_usd_per_hour == 14.0


def test_a_node_is_the_gpus_own_where_nothing_is_offered() -> None:
    case = rented(usd_per_hour=1.0, gpus_per_node=2, changes={"levers.tensor_parallel": [1, 2, 4]})
    assert [c.tensor_parallel for c in configurations(case).configurations] == [1, 2]
    # an offer says otherwise
    four = rented(
        offer("four", 4, 4.0), gpus_per_node=2, changes={"levers.tensor_parallel": [1, 2, 4]}
    )
    assert [c.tensor_parallel for c in configurations(four).configurations] == [1, 2, 4]


def test_rentals_of_both_terms() -> None:
    case = rented(*SHOP[:2], changes={"hardware.offers": {"terms": ["spot", "on-demand"]}})
    found = rentals(case, case.hardware.gpus[0])
    assert [(r.offer.name, r.term, r.nano_usd_per_hour) for r in found if r.offer] == [
        ("north-east", "spot", 2_500_000_000),
        ("north-east", "on-demand", 4_000_000_000),
        ("north-west", "on-demand", 3_000_000_000),
    ]


def test_shipped_offers_of_one_cloud() -> None:
    path = shipped("cases") / "llama-3.1-8b.yaml"
    case = Case.load(path, ["hardware.offers.clouds=aws", "hardware.gpus=[h100-sxm]"])
    outcome = planned(case)
    assert bought(outcome) == ("aws-us-east-1-p5.4xlarge", "on-demand", 1, 1, 6.88)
    eight = Case.load(
        path, ["hardware.offers.names=aws-us-east-1-p5.48xlarge", "hardware.gpus=[h100-sxm]"]
    )
    assert bought(planned(eight)) == ("aws-us-east-1-p5.48xlarge", "on-demand", 1, 8, 55.04)


# Dominance.


def as_rentals(*sold: tuple[int, float]) -> tuple[Rental, ...]:
    return tuple(
        Rental(round(usd * 1e9), gpus, gpus, offer(f"o{i}", gpus, usd))
        for i, (gpus, usd) in enumerate(sold)
    )


@pytest.mark.parametrize(
    ("sold", "size", "count_gpus", "kept"),
    [
        (((1, 2.0), (1, 3.0)), 1, False, [0]),
        (((1, 3.0), (1, 2.0)), 1, False, [1]),
        (((1, 2.0), (1, 2.0)), 1, False, [0]),  # the first of equals
        (((1, 2.0), (8, 16.0)), 1, False, [0]),  # eight of one cost no more, and are counted singly
        (((1, 2.0), (8, 15.9)), 1, False, [0, 1]),  # cheaper where all eight are used
        (((8, 15.9), (1, 2.0)), 1, False, [0, 1]),
        (((8, 2.0), (1, 2.0)), 1, False, [0]),
        (((8, 2.0), (1, 2.0)), 1, True, [0, 1]),  # where GPUs are limited, one is fewer
        (((1, 2.0), (2, 4.0)), 2, False, [1]),  # one GPU cannot hold a replica of two
        (((2, 4.0), (4, 8.0)), 2, False, [0]),
        (((2, 4.0), (3, 3.9)), 2, False, [1]),  # three hold one replica, as two do
        (((2, 4.0), (3, 3.9)), 2, True, [0, 1]),
        (((3, 5.0), (8, 11.0)), 1, False, [0, 1]),  # 8 = 3 units of 3: 15
        (((3, 3.6), (8, 11.0)), 1, False, [0]),  # 3 x 3.6 = 10.8
        (((3, 3.6), (8, 11.0)), 1, True, [0, 1]),  # but nine GPUs
        (((1, 2.0),), 2, False, []),
    ],
)
def test_which_rentals_are_worth_considering(
    sold: tuple[tuple[int, float], ...], size: int, count_gpus: bool, kept: list[int]
) -> None:
    choices = as_rentals(*sold)
    assert undominated(choices, size, count_gpus) == tuple(choices[i] for i in kept)


@given(
    st.lists(st.tuples(st.integers(1, 16), st.integers(1, 40)), min_size=1, max_size=8),
    st.sampled_from((1, 2, 3, 4, 8)),
    st.booleans(),
)
@settings(max_examples=300)
def test_dropped_rentals_never_change_the_cheapest(
    sold: list[tuple[int, int]], size: int, count_gpus: bool
) -> None:
    """For every number of replicas, and every limit on the GPUs where there is one."""
    choices = as_rentals(*((gpus, price / 4) for gpus, price in sold))
    kept = undominated(choices, size, count_gpus)
    assert set(kept) <= set(choices)
    able = [rental for rental in choices if rental.gpus >= size]
    assert bool(kept) == bool(able)

    def cost(rental: Rental, replicas: int) -> tuple[int, int]:
        count = math.ceil(replicas / (rental.gpus // size))
        return count * rental.nano_usd_per_hour, count * rental.gpus

    for replicas in (*range(1, 20), 33, 97):
        every = [cost(rental, replicas) for rental in able]
        left = [cost(rental, replicas) for rental in kept]
        limits = [gpus for _, gpus in every] if count_gpus else [10**9]
        for most in limits:
            cheapest = min((usd for usd, gpus in every if gpus <= most), default=None)
            assert min((usd for usd, gpus in left if gpus <= most), default=None) == cheapest
    # and none that is left is dominated by another
    for one in kept:
        assert set(undominated((one, *kept), size, count_gpus)) == set(kept)


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_dropping_every_other_offer_is_never_cheaper(seed: int) -> None:
    """More to choose from never costs more, whatever is dominated among it."""
    case = draw_real_case(seed, twisted=False)
    offers = [o for gpu in case.hardware.gpus for o in case.offers(gpu)]
    if not offers:
        return
    names = [o.name for o in offers][::2]
    try:
        fewer = plan(case.changed({"hardware.offers.names": names}), explained=False)
    except CaseError:
        return  # some GPU has none left
    if isinstance(fewer, Planned):
        every = planned(case)
        assert every.proof.objective_usd_per_hour <= fewer.proof.objective_usd_per_hour


def test_every_kind_of_model_is_planned_somewhere() -> None:
    done = set()
    for seed in range(64):
        case = draw_real_case(seed, twisted=False)
        if isinstance(plan(case, explained=False), Planned):
            done.add(case.model.name)
    assert done == set(KINDS)


def test_a_gpu_is_the_same_by_name() -> None:
    """Offers are looked up by the GPU's name, an inline GPU's too."""
    mine = Gpu(name="round", memory_gb=1, bandwidth_gb_per_s=1, tflops={"fp16": 1})
    assert rented(*SHOP).offers(mine) == SHOP


def test_conflicts_of_real_cases_and_their_nearest_values() -> None:
    """As exhaustive search finds them; one conflict's nearest value plans, one step less does not.

    Memory is left out: a larger device may put more tokens into a step.
    """
    kinds, tried = set(), 0
    for seed in range(170):
        case = draw_real_case(seed)
        outcome = plan(case, explained=False)
        if isinstance(outcome, Planned):
            continue
        outcome = plan(case)
        assert isinstance(outcome, Infeasible)
        found = [conflict.requirements for conflict in outcome.conflicts]
        assert found == oracle.conflicts(case), f"seed {seed}"
        if len(found) > 1:
            continue
        for near in outcome.conflicts[0].nearest:
            if near.works_at is None or near.requirement == "hardware.gpus":
                continue
            whole = near.requirement in ("limits.most_gpus", "limits.least_replicas")
            works: float = int(near.works_at) if whole else near.works_at
            step = 1 if whole else 10 ** (math.floor(math.log10(works)) - 2)  # of three digits
            short = works - step if works > near.asked else works + step
            fits = plan(case.changed({near.requirement: works}), explained=False)
            assert isinstance(fits, Planned), f"seed {seed}"
            less = plan(case.changed({near.requirement: short}), explained=False)
            assert isinstance(less, Infeasible), f"seed {seed}"
            kinds.add(near.requirement)
            tried += 1
    assert tried >= 10
    assert {"limits.usd_per_hour", "limits.most_gpus"} <= kinds
