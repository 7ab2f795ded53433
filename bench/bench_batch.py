"""What a batch reaches: speed-up of two processes, overhead of each engine, plans per second.

Run with `make bench`, or alone: python bench/bench_batch.py [CASES] [ROUNDS]. Engines are warm: the
time to start workers and to import the solvers there is shown apart. Runs alternate and medians are
shown, since machines are noisy. Where a machine does other work too, the share of the workers' time
in which they plan is the steadier figure: twice that share is the speed-up of two processes.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import make_cases

from optimiser.studies.batch import Spread
from optimiser.studies.batch_inputs import CaseInput, gather
from optimiser.studies.batch_work import Job, answer_chunk
from optimiser.studies.engines import Engine, opened

LIBRARIES = {"dask": "distributed", "ray": "ray"}
LEVERS, PLAN = Job(), Job("plan")
WARM_UP = 16


def main(n: int = 400, rounds: int = 3) -> None:
    """Print every figure beside its bar."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_cases.write(place / "cases", n, seed=1)
        items = gather([str(place / "cases")])
        processes(items, rounds)
        for name, library in LIBRARIES.items():
            if find_spec(library):
                against_processes(name, items, rounds)
            else:
                row(f"{name}: not installed", "")


def processes(items: Sequence[CaseInput], rounds: int) -> None:
    """Two processes against one."""
    with opened("processes", len(items), 1) as one, opened("processes", len(items), 2) as two:
        started = measured(two, items[:WARM_UP])[0]
        measured(one, items[:WARM_UP])
        runs = [(measured(one, items), measured(two, items)) for _ in range(rounds)]
        plans = min(measured(two, items, PLAN)[0] for _ in range(rounds))
    ratio = statistics.median(alone[0] / both[0] for alone, both in runs)
    row("two processes, time to start", f"{started:.2f} s")
    row(
        f"{len(items):,} cases with levers, two processes", per_s(items, min(b[0] for _, b in runs))
    )
    row(f"{len(items):,} plans alone, two processes", per_s(items, plans))
    row("speed-up of two processes over one", f"{ratio:.2f}", "at least 1.7")
    row("  share of their time in which they plan", share([both for _, both in runs]), "85 %")


def against_processes(name: str, items: Sequence[CaseInput], rounds: int) -> None:
    """A local cluster of two workers against two processes."""
    with opened("processes", len(items), 2) as plain, opened(name, len(items), 2) as cluster:
        measured(plain, items[:WARM_UP])
        started = measured(cluster, items[:WARM_UP])[0]
        runs = [(measured(plain, items), measured(cluster, items)) for _ in range(rounds)]
    overhead = statistics.median(there[0] / here[0] - 1 for here, there in runs)
    row(f"{name}, two local workers, time to import", f"{started:.2f} s")
    row(f"{name}, overhead against two processes", f"{overhead * 100:+.1f} %", "at most 10 %")
    row("  share of their time in which they plan", share([there for _, there in runs]))
    row("  and that of two processes beside them", share([here for here, _ in runs]))


def measured(engine: Engine, items: Sequence[CaseInput], job: Job = LEVERS) -> tuple[float, float]:
    """Wall time of a batch, and the share of its workers' time in which they plan."""
    start = time.perf_counter()
    busy_s = sum(done.seconds for done in Spread(items, job, engine, answer_chunk).results())
    took = time.perf_counter() - start
    return took, busy_s / took / engine.n_workers


def share(runs: Sequence[tuple[float, float]]) -> str:
    """The median share of some runs."""
    return f"{statistics.median(busy for _, busy in runs) * 100:.0f} %"


def per_s(items: Sequence[CaseInput], seconds: float) -> str:
    """Cases in a second."""
    return f"{len(items) / seconds:.0f} per s"


def row(what: str, figure: str, bar: str = "") -> None:
    """One line of the report."""
    print(f"{what:<56} {figure:<24} {f'bar: {bar}' if bar else ''}".rstrip(), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
