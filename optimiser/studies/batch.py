"""Thousands of cases at a time: chunks sent to workers, answers kept as they come.

An engine's overhead is paid once a chunk, so the first chunks are small, and later ones are sized
by what the finished ones took. The chunks in flight when a worker dies are sent again, case by
case; a case that is in flight time after time is tried alone, and becomes a row with an error where
it ends its worker then too.
"""

import json
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimiser.studies.batch_inputs import CaseInput
from optimiser.studies.batch_work import Done, Job, answer_chunk, fault, key_chunk
from optimiser.studies.engines import Engine, EngineError
from optimiser.studies.journal import Journal

Answer = dict[str, Any]
Work = Callable[[Job, Sequence[CaseInput]], Done]
Progress = Callable[[int, int], None]

CHUNK_S = 1.5
"""Time that a chunk should take its worker, s."""
FIRST_CHUNK = 4
LARGEST_CHUNK = 2_000
ATTEMPTS_IN_COMPANY = 2
WORKER_LOST = "the worker that planned this case was killed or crashed, three times in a row"


def run(
    items: Sequence[CaseInput],
    job: Job,
    engine: Engine,
    journal: Journal,
    progress: Progress,
    finished: dict[str, Answer],
) -> list[Answer]:
    """The answer to every case, in order; `finished` holds earlier ones by key.

    `progress` is told how many cases are done, and how many of them were done before.
    """
    answers: dict[int, Answer] = {}
    if finished:
        for done in Spread(items, job, engine, key_chunk).results():
            kept = zip(done.indices, done.results, strict=True)
            answers |= {index: finished[key] for index, key in kept if key in finished}
    n_before = len(answers)
    progress(n_before, n_before)
    missing = [item for item in items if item.index not in answers]
    for done in Spread(missing, job, engine, answer_chunk).results():
        journal.append(done.results)
        answers |= {i: json.loads(line) for i, line in zip(done.indices, done.results, strict=True)}
        progress(len(answers), n_before)
    return [answers[item.index] for item in items]


@dataclass(slots=True)
class _Pace:
    """How long a case takes, from the chunks that are done."""

    n_cases: int = 0
    seconds: float = 0.0

    def add(self, done: Done) -> None:
        # Older chunks count for less, as the cases of one folder tend to resemble each other.
        self.n_cases = self.n_cases // 2 + len(done.indices)
        self.seconds = self.seconds / 2 + done.seconds

    def chunk(self, n_waiting: int, n_workers: int) -> int:
        """Cases for the next chunk: so many seconds' worth, fewer towards the end."""
        if not self.n_cases:
            return FIRST_CHUNK
        fair = max(1, n_waiting // (2 * n_workers))
        timely = int(CHUNK_S * self.n_cases / max(self.seconds, 1e-6))
        return max(1, min(fair, timely, LARGEST_CHUNK))


class Spread:
    """Cases spread over an engine's workers."""

    def __init__(self, items: Sequence[CaseInput], job: Job, engine: Engine, work: Work) -> None:
        self.job, self.engine, self.work = job, engine, work
        self.items = {item.index: item for item in items}
        self.waiting = deque(self.items)
        self.flying: dict[tuple[int, ...], None] = {}
        self.attempts = dict.fromkeys(self.items, 0)
        self.pace = _Pace()

    def results(self) -> Iterator[Done]:
        """What became of each chunk, as they finish; every case is in one of them."""
        suspects: list[int] = []
        while self.waiting:
            yield from self._round(ahead=2 * self.engine.n_workers)
            lost = [index for chunk in self.flying for index in chunk]
            if self.waiting and not lost:
                raise EngineError(f"no worker of {self.engine.name} is left; --resume goes on")
            self.flying.clear()
            for index in lost:
                self.attempts[index] += 1
            suspects += [i for i in lost if self.attempts[i] >= ATTEMPTS_IN_COMPANY]
            again = [i for i in lost if self.attempts[i] < ATTEMPTS_IN_COMPANY]
            self.waiting.extendleft(reversed(again))
        for index in sorted(suspects):
            self.waiting.append(index)
            yield from self._round(ahead=1)
            if self.flying:
                self.flying.clear()
                line = fault(self.items[index], WORKER_LOST)
                yield Done((index,), (line if self.work is answer_chunk else "",), 0.0)

    def _round(self, ahead: int) -> Iterator[Done]:
        """One pass over what waits, until it is done or a worker is lost."""
        from joblib import Parallel

        engine = self.engine
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of joblib, about results that a lost worker leaves
            parallel = Parallel(
                n_jobs=engine.n_workers,
                backend=engine.backend(),
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=ahead,
            )
            try:
                for done in parallel(self._chunks()):
                    del self.flying[done.indices]
                    self.pace.add(done)
                    yield done
            except engine.lost:
                return
            except ImportError as error:
                message = f"a worker cannot import what it needs, install optimise there: {error}"
                raise EngineError(message) from error

    def _chunks(self) -> Iterator[Any]:
        from joblib import delayed

        while self.waiting:
            size = self.pace.chunk(len(self.waiting), self.engine.n_workers)
            if self.attempts[self.waiting[0]]:
                size = 1
            chunk = tuple(self.waiting.popleft() for _ in range(min(size, len(self.waiting))))
            self.flying[chunk] = None
            yield delayed(self.work)(self.job, tuple(self.items[index] for index in chunk))
