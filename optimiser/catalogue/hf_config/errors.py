"""The one error of the reader: every problem of a config at once."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One field that could not be understood."""

    field: str
    """Dotted key as the file spells it, such as `text_config.hidden_size`."""
    found: str
    """What stands there, shortened."""
    expected: str
    """What would have been understood."""

    def __str__(self) -> str:
        return f"{self.field}: found {self.found}, expected {self.expected}"


class ConfigError(Exception):
    """A config that cannot be turned into a shape; carries all its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def shortened(value: object) -> str:
    """A value as an error message shows it: one short line, whatever was in the file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if abs(value) < 10**18 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object with {len(value)} keys"
    return f"a {type(value).__name__}"
