"""The fleet search beside the plain program handed whole to HiGHS, on `fleet_bench.json`.

    python bench/bench_fleet.py [--runs 3] [--plain] [--growth] [--packing] [INSTANCE …]

Prints cost, bound and gap after 10, 30 and 120 seconds, pool building included, and the load of
the machine: two processes race, so quote medians.
"""

import argparse
import os
import time
from random import Random
from statistics import median

import numpy as np
from fleet_instances import fleet_of, load

from optimiser.planning.fleet.pools import Fleet, Pools
from optimiser.planning.fleet.rows import table
from optimiser.planning.fleet.search import FleetFound, search
from optimiser.planning.fleet.solve_rows import Solved, run_whole
from optimiser.planning.solvers.base import Status

MARKS_S = (10.0, 30.0, 120.0)


def at(found: FleetFound, seconds: float) -> tuple[float, float]:
    """Cost and bound at a time."""
    cost, bound = float("inf"), 0.0
    for when, upper, lower in found.history:
        if when <= seconds:
            cost, bound = upper, lower
    return cost, bound


def gap(cost: float, bound: float) -> float:
    """(cost - bound) / cost."""
    return 1.0 if cost == float("inf") else (cost - bound) / cost


def alone(fleet: Fleet, seconds: float) -> Solved:
    """The plain program handed whole to HiGHS."""
    rows, columns = table(fleet, totals=False)
    rows.serve_all(columns)
    return run_whole(rows, columns.whole, seconds=seconds)


def run_instance(name: str, runs: int, with_plain: bool) -> None:
    """One instance by the search, and by HiGHS alone."""
    data = load()
    workloads = next(i["workloads"] for i in data["instances"] if i["name"] == name)
    results = []
    for _ in range(runs):
        start, cpu = time.perf_counter(), time.process_time()
        fleet = fleet_of(data["gpus"], workloads)
        built = time.perf_counter() - start
        found = search(fleet, MARKS_S[-1] - built)
        results.append(found)
        told = "proved" if found.status is Status.OPTIMAL else "stopped"
        print(
            f"{name}: {told} at {found.seconds + built:.1f} s ({time.process_time() - cpu:.1f} s "
            f"of CPU, load {os.getloadavg()[0]:.1f}), {found.usd_per_hour:.1f} $/h, "
            f"bound {found.bound_usd_per_hour:.1f}"
        )
    for mark in MARKS_S:
        gaps = [gap(*at(found, mark)) for found in results]
        costs = [at(found, mark)[0] for found in results]
        print(f"  {mark:.0f} s: median {median(costs):.1f} $/h, gap {median(gaps):.2%}")
    if with_plain:
        fleet = fleet_of(data["gpus"], workloads)
        for mark in MARKS_S:
            plain = alone(fleet, mark)
            shown = gap(plain.objective, max(plain.bound, 0.0))
            print(f"  HiGHS alone, {mark:.0f} s: {plain.objective:.1f} $/h, gap {shown:.2%}")


def run_growth() -> None:
    """Seconds to proof, at most 60, by the number of classes and of GPU types."""
    data = load()
    for n_classes, n_gpus in ((5, 9), (10, 9), (20, 9), (10, 3), (10, 6)):
        seconds, proved = [], 0
        for seed in range(3):
            random = Random(seed)
            workloads = random.sample(data["instances"][1]["workloads"], n_classes)
            found = search(fleet_of(random.sample(data["gpus"], n_gpus), workloads), 60)
            seconds.append(found.seconds)
            proved += found.status is not Status.FEASIBLE
        print(
            f"{n_classes} classes, {n_gpus} GPU types: median {median(seconds):.1f} s, "
            f"{proved} of 3 proved (load {os.getloadavg()[0]:.1f})"
        )


def packing(seed: int, n_sizes: int = 60, n_gpus: int = 4, slices: int = 4) -> Fleet:
    """Request sizes over GPU types, each replica packed with whole slices of sizes."""
    random = np.random.default_rng(seed)
    rate = random.uniform(0.2, 3.0, n_sizes)
    scale = np.geomspace(2, 40, n_gpus)[:, None] * random.uniform(0.7, 1.4, (n_gpus, n_sizes))
    price = np.round(np.geomspace(0.7, 12, n_gpus) * random.uniform(0.8, 1.2, n_gpus), 2)
    need = (rate / scale)[:, None, :]
    kinds = np.arange(n_gpus)
    return Fleet(
        pools=Pools(need, need[:, 0] > 0, kinds, np.ones(n_gpus), kinds, np.ones(n_gpus)),
        unit_nano_usd=np.round(price * 1e9).astype(np.int64),
        stock_use=np.zeros((0, n_gpus)),
        stock_most=np.zeros(0),
        demand=rate,
        spot=np.zeros(n_gpus, dtype=bool),
        slices=slices,
    )


def run_packing() -> None:
    """60 request sizes over 4 GPU types in whole slices, both ways."""
    for seed in range(5):
        fleet = packing(seed)
        found = search(fleet, 60)
        start = time.perf_counter()
        plain = alone(fleet, 60)
        print(
            f"packing {seed}: {found.usd_per_hour:.2f} $/h {found.status.value} in "
            f"{found.seconds:.1f} s; HiGHS alone {plain.objective:.2f} $/h {plain.status} "
            f"in {time.perf_counter() - start:.1f} s"
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("instances", nargs="*")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="HiGHS alone, as long, too")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--packing", action="store_true")
    asked = parser.parse_args()
    if asked.growth:
        run_growth()
    if asked.packing:
        run_packing()
    alone = asked.growth or asked.packing
    for name in asked.instances or ([] if alone else [i["name"] for i in load()["instances"]]):
        run_instance(name, asked.runs, asked.plain)


if __name__ == "__main__":
    main()
