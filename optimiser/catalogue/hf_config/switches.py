"""Yes-or-no facts of an architecture: fixed by its class, or stated under a key."""

from dataclasses import dataclass

from optimiser.catalogue.hf_config.fields import Fields


@dataclass(frozen=True, slots=True)
class Switch:
    """A yes or no."""

    default: bool
    """The class's own answer, used where the key is absent."""
    key: str | None = None
    inverted: bool = False
    """The key says no where it is true, as `no_bias` does."""

    def read(self, fields: Fields) -> bool:
        """The answer for this config."""
        if self.key is None:
            return self.default
        return fields.flag(self.key, default=self.default != self.inverted) != self.inverted


ALWAYS = Switch(default=True)
NEVER = Switch(default=False)


def stated(key: str, *, default: bool = False) -> Switch:
    """A key that says yes where it is true."""
    return Switch(default, key)


def denied(key: str, *, default: bool = False) -> Switch:
    """A key that says no where it is true; `default` is the answer where it is absent."""
    return Switch(default, key, inverted=True)
