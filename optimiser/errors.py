"""What can go wrong, as exceptions that know how to tell a user about it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file or on the command line."""

    where: str
    """`file:line`, or the command-line option that the value came from."""
    field: str
    """Dotted path of the field, such as `brief.tpot_target_ms`; empty for the whole file."""
    message: str
    """What was found and what was expected."""
    nearest: tuple[str, ...] = ()
    """Valid names close to the one found."""

    def __str__(self) -> str:
        place = " ".join(f"{part}:" for part in (self.where, self.field) if part)
        hint = f" (did you mean {' or '.join(self.nearest)}?)" if self.nearest else ""
        return f"{place} {self.message}{hint}".strip()


class OptimiseError(Exception):
    """Any fault that is reported to the user as a message, never as a traceback."""

    exit_code = 1


class InputError(OptimiseError):
    """A file or an option that cannot be used, with all of its mistakes at once."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


class CaseError(InputError):
    """A case that cannot be planned."""


class CatalogueError(InputError):
    """A catalogue file that is broken, or a name or figure that it does not hold."""


class SolverError(OptimiseError):
    """A solver that is missing, failed, or returned values that break its own rows."""


class VerificationError(OptimiseError):
    """A design that the program called best and the verifier or a second solver rejects."""

    exit_code = 5
