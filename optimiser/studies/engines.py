"""Where the chunks of a batch run: local processes, a Dask cluster or a Ray cluster.

All through joblib. An engine says how many chunks run at once and which exceptions mean that a
worker was lost, so that the batch can send its chunks again.
"""

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from optimiser.errors import OptimiseError

FEWEST = 2
"""Chunks in flight on a cluster: of a single one, joblib would run it in this process instead."""


class EngineError(OptimiseError):
    """An engine that is not installed, cannot be reached, or lacks what a worker needs."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A place where chunks run."""

    name: str
    n_workers: int
    """Chunks that run at once."""
    lost: tuple[type[BaseException], ...]
    """What is raised where a worker dies."""
    backend: Callable[[], Any]
    """A fresh joblib back end, or its name."""


@contextlib.contextmanager
def opened(
    name: str, n_cases: int, jobs: int | None = None, address: str | None = None
) -> Iterator[Engine]:
    """An engine, with what it started ended again at the end.

    `jobs` is the number of local workers, all cores where it is None, and never more than there
    are cases; at an `address` the cluster's own count holds. Raises EngineError.
    """
    jobs = max(1, min(jobs or _cores(), n_cases))
    if name == "dask":
        with _dask(jobs, address) as engine:
            yield engine
    elif name == "ray":
        with _ray(jobs, address) as engine:
            yield engine
    else:
        yield Engine(name, jobs, (BrokenExecutor,), lambda: "loky")


def _cores() -> int:
    import joblib

    return int(joblib.cpu_count())


@contextlib.contextmanager
def _dask(jobs: int, address: str | None) -> Iterator[Engine]:
    distributed = _library("distributed", "dask")
    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        """Reports lost workers too, which joblib's own leaves waiting for ever."""

        def effective_n_jobs(self, n_jobs: int) -> int:
            return max(FEWEST, int(super().effective_n_jobs(n_jobs)))

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)

            def report(done: Any) -> None:
                if callback is not None and done.exception() is not None:
                    callback(done.exception())

            future.add_done_callback(report)
            return future

    with contextlib.ExitStack() as stack:
        try:
            if address is None:
                quick = {
                    # a lost worker's chunks are for the batch to send again, and to suspect
                    "distributed.scheduler.allowed-failures": 0,
                    "distributed.worker.profile.enabled": False,
                }
                stack.enter_context(import_module("dask.config").set(quick))
                cluster = distributed.LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
                stack.enter_context(cluster)
                address = cluster.scheduler_address
            client = stack.enter_context(distributed.Client(address, timeout=10))
            n_workers = sum(client.ncores().values())
        except (OSError, ValueError) as error:
            raise EngineError(f"no Dask cluster at {address}: {error}") from error
        if not n_workers:
            raise EngineError(f"the Dask cluster at {address} has no workers")
        lost = (
            distributed.KilledWorker,
            distributed.CancelledError,
            distributed.comm.CommClosedError,
            TimeoutError,
        )
        n_workers = max(FEWEST, n_workers)
        yield Engine("dask", n_workers, lost, lambda: Backend(client=client))


@contextlib.contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[Engine]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = _library("ray", "ray")
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address is None:
            ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            _knock(address)
            ray.init(address=address, **quiet)
        n_workers = max(FEWEST, int(ray.cluster_resources().get("CPU", 0)))
    except (OSError, ValueError, RuntimeError) as error:
        raise EngineError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
    try:
        lost = (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.OutOfMemoryError,
        )
        yield Engine("ray", n_workers, lost, lambda: _ray_backend(ray, n_workers))
    finally:
        ray.shutdown()


def _ray_backend(ray: Any, n_workers: int) -> Any:
    """A joblib back end over Ray tasks.

    Ray's own deals chunks out to its workers in turn, busy or not, and gives results at the end.
    """
    from joblib.parallel import ParallelBackendBase

    @ray.remote(max_retries=0)  # type: ignore[untyped-decorator]  # the batch sends chunks again
    def call(chunk: Any) -> Any:
        return chunk()

    class Backend(ParallelBackendBase):  # type: ignore[misc]
        """Each chunk is a task; a thread waits for each one in flight."""

        supports_retrieve_callback = True

        def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
            self.parallel = parallel
            self.flying: set[Any] = set()
            self.threads = ThreadPoolExecutor(2 * n_workers)
            return n_workers

        def effective_n_jobs(self, _: int) -> int:
            return n_workers

        def submit(self, func: Any, callback: Any = None) -> Any:
            task = call.remote(func)
            self.flying.add(task)
            future = self.threads.submit(self._result, task)
            future.add_done_callback(callback)
            return future

        def _result(self, task: Any) -> Any:
            try:
                return ray.get(task)
            finally:
                self.flying.discard(task)

        def retrieve_result_callback(self, out: Any) -> Any:
            return out.result()

        def abort_everything(self, ensure_ready: bool = True) -> None:
            for task in tuple(self.flying):
                ray.cancel(task, force=True)

        def terminate(self) -> None:
            self.threads.shutdown(wait=False)

    return Backend()


def _knock(address: str) -> None:
    """Raises OSError where nothing listens at a host:port: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host, int(port)), timeout=10):
            pass


def _library(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        message = f"--engine {extra} needs pip install 'optimise[{extra}]' ({error})"
        raise EngineError(message) from error
