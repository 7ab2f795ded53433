"""Typed look-ups in a config that collect every problem instead of stopping at the first.

A look-up that fails notes the problem and answers with a harmless stand-in, so that reading goes
on and the user sees all mistakes at once. `Fields.finish` raises if anything was noted.
"""

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from optimiser.catalogue.hf_config.errors import ConfigError, Problem, shortened

LAYERS_MOST = 10_000
WIDTH_MOST = 10_000_000
TOKENS_MOST = 2**40
"""Beyond these a number is a mistake, not a model."""

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "num_hidden_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        "hidden_size": ("hidden_size", "n_embd", "d_model", "n_embed"),
        "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
        "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
        "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
        "intermediate_size": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
        "max_position_embeddings": ("max_position_embeddings", "n_positions"),
        "num_experts": (
            "num_local_experts",
            "num_experts",
            "n_routed_experts",
            "moe_num_experts",
        ),
        "num_experts_per_tok": (
            "num_experts_per_tok",
            "num_experts_per_token",
            "experts_per_token",
            "moe_top_k",
            "moe_topk",
            "moe_k",
        ),
        "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
        "sliding_window_pattern": ("sliding_window_pattern", "_sliding_window_pattern"),
        "torch_dtype": ("torch_dtype", "dtype"),
        "quantization_config": ("quantization_config", "compression_config"),
        "state_size": ("state_size", "mamba_d_state", "ssm_state_size"),
        "conv_kernel": ("conv_kernel", "mamba_d_conv"),
        "expand": ("expand", "mamba_expand"),
        "time_step_rank": ("time_step_rank", "mamba_dt_rank"),
        "mamba_num_heads": ("mamba_num_heads", "mamba_n_heads"),
        "mamba_head_dim": ("mamba_head_dim", "mamba_d_head"),
        "n_groups": ("n_groups", "mamba_n_groups"),
        "use_bias": ("use_bias", "mamba_proj_bias"),
        "use_conv_bias": ("use_conv_bias", "mamba_conv_bias"),
        "mamba_ssm_cache_dtype": ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
    }
)
"""Every key a field goes by. Two keys of one field must agree."""


class Fields:
    """One JSON object of a config, and the problems met while reading it."""

    def __init__(
        self,
        config: Mapping[str, object],
        path: str = "",
        keys: Mapping[str, tuple[str, ...]] | None = None,
        defaults: Mapping[str, object] | None = None,
        problems: dict[str, Problem] | None = None,
    ) -> None:
        self._config = config
        self._path = path
        self._keys = {**KEYS, **(keys or {})}
        self._defaults = defaults or {}
        self._problems: dict[str, Problem] = {} if problems is None else problems
        self._used: set[str] = set()
        self._bad: set[str] = set()

    def keys_of(self, name: str) -> tuple[str, ...]:
        """The keys that a field may stand under, the preferred one first."""
        return self._keys.get(name, (name,))

    def reject(self, name: str, found: object, expected: str, *, key: str | None = None) -> None:
        """Note a problem with a field; the first one of a key counts."""
        self._bad.add(name)
        place = self._path + (key or self.spelled(name))
        self._problems.setdefault(place, Problem(place, shortened(found), expected))

    def note(self, problem: Problem) -> None:
        """Note a problem that is not about a single field of this object."""
        self._problems.setdefault(problem.field, problem)

    def sound(self, *names: str) -> bool:
        """Whether nothing was wrong with these fields, so that they can be compared."""
        return self._bad.isdisjoint(names)

    def spelled(self, name: str) -> str:
        """The key that the file uses for a field, or the usual one where it uses none."""
        keys = self.keys_of(name)
        stated = [key for key in keys if self._config.get(key) is not None]
        present = [key for key in keys if key in self._config]
        return (stated or present or list(keys))[0]

    def raw(self, name: str) -> object:
        """The value of a field as it stands; null where absent or null."""
        keys = self.keys_of(name)
        self._used.update(keys)
        stated = {key: self._config[key] for key in keys if self._config.get(key) is not None}
        values = list(stated.values())
        if not values:
            absent = not any(key in self._config for key in keys)
            return self._defaults.get(name) if absent else None
        if any(type(value) is not type(values[0]) or value != values[0] for value in values[1:]):
            both = " and ".join(f"{key} {shortened(value)}" for key, value in stated.items())
            self.reject(name, values[0], f"one value, not {both}")
        return values[0]

    def whole(self, name: str, *, least: int = 1, most: int = WIDTH_MOST) -> int:
        """A whole number that must be there."""
        value = self.optional(name, least=least, most=most)
        if value is not None:
            return value
        if self.sound(name):
            self._missing(name)
        return max(least, 1)

    def optional(self, name: str, *, least: int = 1, most: int = WIDTH_MOST) -> int | None:
        """A whole number, or null where the file has none."""
        value = self.raw(name)
        if value is None or not self.sound(name):
            return None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.reject(name, value, f"a whole number from {least} to {most}")
        return None

    def flag(self, name: str, *, default: bool) -> bool:
        """A yes or no; the default where absent or null."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        self.reject(name, value, "true or false")
        return default

    def word(self, name: str, among: Sequence[str]) -> str | None:
        """One of a few words, or null where the file has none."""
        value = self.raw(name)
        if value is None or (isinstance(value, str) and value in among):
            return value
        self.reject(name, value, "one of " + ", ".join(among))
        return None

    def items(self, name: str, *, of: type, length: int | None = None) -> list[object] | None:
        """A list of one type of item, or null where the file has none.

        A length is not asked for where it may come from a number of layers that is wrong itself.
        """
        value = self.raw(name)
        if value is None:
            return None
        if (
            isinstance(value, list | tuple)
            and len(value) <= LAYERS_MOST
            and all(isinstance(item, of) and not isinstance(item, bool) for item in value)
            and length in (None, len(value))
        ):
            return list(value)
        if length is not None and not self.sound("num_hidden_layers"):
            self._bad.add(name)
            return None
        kind = {int: "whole numbers", str: "words", Mapping: "objects"}[of]
        self.reject(name, value, f"a list of {'' if length is None else f'{length} '}{kind}")
        return None

    def child(self, name: str) -> "Fields":
        """A nested object, its problems noted with this one's; empty where there is none."""
        value = self.raw(name)
        if value is not None and not isinstance(value, Mapping):
            self.reject(name, value, "an object")
            value = None
        return self.inside(value or {}, name)

    def inside(self, config: Mapping[str, object], name: str) -> "Fields":
        """Look-ups in an object of this one, its problems noted with this one's."""
        return Fields(config, f"{self._path}{name}.", self._keys, None, self._problems)

    def unused(self, names: Sequence[str]) -> dict[str, object]:
        """Stated keys of these fields that nothing has read."""
        keys = [key for name in names for key in self.keys_of(name)]
        return {
            key: self._config[key] for key in keys if key in self._config and key not in self._used
        }

    def finish(self) -> None:
        """Raise ConfigError if there was any problem."""
        if self._problems:
            raise ConfigError(list(self._problems.values()))

    def _missing(self, name: str) -> None:
        present = any(key in self._config for key in self.keys_of(name))
        near = difflib.get_close_matches(name, [k for k in self._config if isinstance(k, str)], 1)
        hint = f" (nearest key: {near[0]})" if near and not present else ""
        place = self._path + self.spelled(name)
        self._bad.add(name)
        found = "null" if present else "nothing"
        expected = f"a whole number above 0{hint}"
        self._problems.setdefault(place, Problem(place, found, expected))
