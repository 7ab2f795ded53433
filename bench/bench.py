"""What speed is promised, measured in one run: ratios and medians, since machines are noisy.

Run with `make bench`.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from optimiser import Case, plan
from optimiser.planning.build import build
from optimiser.planning.configurations import configurations
from optimiser.planning.cut_loop import Run, search
from optimiser.planning.solvers.base import SOLVERS, solver

ROOT = Path(__file__).resolve().parent.parent
LARGE = ROOT / "bench" / "large.yaml"
REAL = ROOT / "cases" / "llama-3.1-70b.yaml"
SEED = ROOT / "cases" / "chat-7b.yaml"
BARE = "import ortools.sat.python.cp_model, numpy, pydantic, click"
KIB_PER_MIB = 1024


def main() -> None:
    """Print every figure beside its bar."""
    command_line()
    programs()


def command_line() -> None:
    """The whole command against a bare import of its libraries, run in turn."""
    bare = [sys.executable, "-c", BARE]
    command = [sys.executable, "-m", "optimiser", str(SEED)]
    ratios, seconds = [], []
    for _ in range(9):
        took = wall_s(command)[0]
        ratios.append(took / wall_s(bare)[0])
        seconds.append(took)
    row("optimise cases/chat-7b.yaml, wall", f"{statistics.median(seconds):.2f} s")
    row("  ratio to a bare import of its libraries", f"{statistics.median(ratios):.2f}", "2.0")
    memory = max(wall_s([sys.executable, "-m", "optimiser", str(LARGE)])[1] for _ in range(3))
    row("  peak memory, the large case", f"{memory:.0f} MiB", "286 (300 MB)")


def programs() -> None:
    """Build and solve the cost program of a large case, and plan it whole."""
    case = Case.load(LARGE)
    for name in SOLVERS:
        solve, rounds, sizes = solver(name), [], []

        def build_and_solve(solve=solve, rounds=rounds, sizes=sizes) -> None:
            run = Run(solve)
            space = configurations(case)
            search(build(space), run)
            rounds.append(run.rounds)
            sizes.append(len(space))

        took = median_s(build_and_solve, 5)
        what = f"cost program, {sizes[-1]:,} configurations, {name}"
        bar = "0.3" if name == "cp-sat" else ""
        row(what, f"{took:.3f} s in {rounds[-1]} round(s)", bar)
    row("  whole plan, ties settled and verified", f"{median_s(lambda: plan(case), 5):.3f} s")
    seed = Case.load(SEED)
    real = Case.load(REAL)
    for name, one, bar in (("chat-7b", seed, "100"), ("llama-3.1-70b", real, "20")):
        rate = 1 / median_s(lambda one=one: plan(one), 30)
        row(f"plan() of cases/{name}.yaml, warm", f"{rate:.0f} per s", bar, at="least")


def median_s(action: Callable[[], object], times: int) -> float:
    """Median wall time of an action after one warm-up, s."""
    action()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def wall_s(command: list[str]) -> tuple[float, float]:
    """Wall time of a whole process, s, and its peak memory, MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return took, usage.ru_maxrss / KIB_PER_MIB


def row(what: str, figure: str, bar: str = "", at: str = "most") -> None:
    """One line of the report."""
    print(f"{what:<56} {figure:<24} {f'bar: at {at} {bar}' if bar else ''}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
