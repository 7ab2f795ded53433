"""Lists of modules, as quantisers write them: names, wildcards and `re:` expressions."""

import fnmatch
import re
from collections.abc import Iterable

from optimiser.catalogue.hf_config.modules import Module

ROOTS = ("model.", "language_model.model.", "model.language_model.", "backbone.", "")
"""Where different wrappers hang the layers of the language model."""

OTHER_NAMES = {
    "q_proj": ("qkv_proj",),
    "k_proj": ("qkv_proj",),
    "v_proj": ("qkv_proj",),
    "gate_proj": ("gate_up_proj", "w1"),
    "up_proj": ("gate_up_proj", "w3"),
    "down_proj": ("w2",),
    "in_proj_ba": ("in_proj_a", "in_proj_b"),
}
"""Other last names of a module in checkpoints that fuse or split it."""

OUTSIDE = re.compile(
    r"vision|visual|image|audio|projector|mtp|eh_proj|enorm|hnorm|shared_head"
    r"|lm_head|embed|norm|router|conv1d|e_score|gate(\W*$|\.weight)|\.D$|A_log|dt_bias"
)
"""Words of modules outside the language model's layers, or that no quantiser packs anyway."""

QUANTIFIERS_MOST = 4
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_QUANTIFIER = re.compile(r"[*+?{]")


class ModuleNames:
    """Which modules a list names, and which of its entries named nothing."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._literal: dict[str, str] = {}
        self._expressions: dict[str, re.Pattern[str]] = {}
        self._attention_classes: set[str] = set()
        self.unknown: set[str] = set()
        for entry in entries:
            if entry.startswith("re:"):
                self._add_tame_expression(entry, entry.removeprefix("re:"))
            elif "*" in entry:
                whole_name = fnmatch.translate(entry)[:-2] + r"(\.|\Z)"
                self._add_expression(entry, whole_name)
            elif re.fullmatch(r"[A-Z]\w*Attention", entry):
                self._attention_classes.add(entry)
            else:
                self._literal[_below_root(entry)] = entry
        self.unknown |= {*self._literal.values(), *self._expressions, *self._attention_classes}

    def match(self, layer: int, module: Module) -> bool:
        """Whether the list names this module of this layer; marks the entries that do."""
        hits: set[str] = set()
        for path in _paths(layer, module):
            if self._literal:
                hits |= {self._literal[run] for run in _runs(path) if run in self._literal}
            for entry, expression in self._expressions.items():
                if any(expression.match(root + path) for root in ROOTS):
                    hits.add(entry)
        if module.role == "attention":
            hits |= self._attention_classes
        self.unknown -= hits
        return bool(hits)

    def unexplained(self, layers: int) -> list[str]:
        """Entries that named no module and are not known to lie outside the layers."""
        return sorted(
            entry
            for entry in self.unknown
            if not OUTSIDE.search(entry) and not _beyond(entry, layers)
        )

    def _add_tame_expression(self, entry: str, text: str) -> None:
        """Take an expression whose matching cannot run away; others stay unexplained."""
        tame = len(_QUANTIFIER.findall(text.replace("(?", "("))) <= QUANTIFIERS_MOST
        if not tame or _REPEATED_GROUP.search(text) or len(text) > 400:
            self.unknown.add(entry)
        else:
            self._add_expression(entry, text)

    def _add_expression(self, entry: str, text: str) -> None:
        try:
            self._expressions[entry] = re.compile(text)
        except (re.error, OverflowError, RecursionError):
            self.unknown.add(entry)


def _paths(layer: int, module: Module) -> list[str]:
    stem, _, last = module.path.rpartition(".")
    names = (last, *OTHER_NAMES.get(last, ()))
    return [f"layers.{layer}.{stem}.{name}" if stem else f"layers.{layer}.{name}" for name in names]


def _runs(path: str) -> set[str]:
    """Every run of whole names within a path."""
    names = path.split(".")
    return {
        ".".join(names[start:end])
        for start in range(len(names))
        for end in range(start + 1, len(names) + 1)
    }


def _below_root(entry: str) -> str:
    for root in sorted(ROOTS, key=len, reverse=True):
        if root and entry.startswith(root):
            return entry[len(root) :]
    return entry


def _beyond(entry: str, layers: int) -> bool:
    """Whether the entry is of a layer after the last: a multi-token-prediction module."""
    found = re.search(r"layers\.(\d{1,6})(\.|$|\*)", entry)
    return found is not None and int(found[1]) >= layers
