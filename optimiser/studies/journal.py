"""Finished rows on disk: appended as they come, read back after a stop."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from optimiser.errors import InputError, Mistake


class Journal:
    """One JSON object a line, each under the key of what it answers.

    Appends are flushed to the disk together, so whatever a run is stopped by, only the last line
    can be torn; a torn line is dropped when the journal is opened again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def finished(self) -> dict[str, dict[str, Any]]:
        """The answers on disk by their keys, the last one of a key, errors left out."""
        answers = {}
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._refused("read", error) from error
        for line in lines:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict) and isinstance(answer.get("key"), str):
                answers[answer["key"]] = answer
        return answers

    def open(self, afresh: bool) -> Self:
        """Open for appending, emptied where it starts afresh. Raises InputError."""
        try:
            self._file = self.path.open("wb" if afresh else "ab")
            if not afresh:
                content = self.path.read_bytes()
                os.truncate(self.path, content.rfind(b"\n") + 1)
        except OSError as error:
            raise self._refused("written", error) from error
        return self

    def append(self, lines: Iterable[str]) -> None:
        """Add lines, on disk when this returns. Raises InputError where the disk refuses."""
        if self._file is None:
            raise ValueError("the journal is not open")
        try:
            self._file.write("".join(f"{line}\n" for line in lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refused("written", error) from error

    def remove(self) -> None:
        """Close it and remove it: the output has everything."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _refused(self, what: str, error: OSError) -> InputError:
        return InputError([Mistake(str(self.path), "", f"cannot be {what}: {error.strerror}")])
