"""What a checkpoint says about the format of its weights: `quantization_config`.

Formats keep the names that engines use. A quantiser packs the matrices of attention, MLPs,
experts and state mixers; embeddings, head, norms, routers, biases and convolutions never.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from optimiser.catalogue.hf_config.exclusions import ModuleNames
from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block, Role
from optimiser.catalogue.hf_config.shape import Quantisation

PACKED: frozenset[Role] = frozenset({"attention", "state", "mlp", "expert"})
EXCLUSION_KEYS = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")


class Stored(NamedTuple):
    """A format, and what it is used for."""

    format: str
    block: int | None = None
    roles: frozenset[Role] = PACKED
    targets: tuple[str, ...] = ()
    """Modules that it is limited to; empty for all."""


def fp8(config: Fields) -> Stored | None:
    """8-bit floats, scaled by tensor or channel unless a square block is stated."""
    block = config.items("weight_block_size", of=int, length=2)
    if block is None:
        return Stored("fp8")
    side = block[0]
    if not isinstance(side, int) or side != block[1] or not 0 < side <= 2**16:
        config.reject("weight_block_size", block, "two equal whole numbers above 0")
        return None
    return Stored("fp8-block", side)


def mxfp4(config: Fields) -> Stored:
    """4-bit floats in groups of 32 with a shared 8-bit exponent, on the experts only."""
    return Stored("mxfp4", 32, frozenset({"expert"}))


def grouped_integers(config: Fields) -> Stored | None:
    """AWQ and GPTQ: weight-only whole numbers of 4 or 8 bits with a scale a group."""
    bits, group = config.whole("bits"), config.whole("group_size", least=-1)
    if config.flag("lm_head", default=False):
        config.reject("lm_head", True, "false: a head in the checkpoint's dtype")
    if config.raw("dynamic"):
        config.reject("dynamic", config.raw("dynamic"), "nothing: one format for all modules")
    return integers(config, bits, group, "bits", "group_size")


def integers(config: Fields, bits: int, group: int, bits_key: str, group_key: str) -> Stored | None:
    """The name of a weight-only integer format."""
    block = None if group == -1 else group
    if group == 0:
        config.reject(group_key, group, "-1 or a whole number above 0")
    if bits not in (4, 8):
        config.reject(bits_key, bits, "4 or 8")
        return None
    if bits == 8:
        return Stored("int8", block)
    return Stored("int4" if block is None else f"int4-g{block}", block)


def compressed_tensors(config: Fields) -> Stored | None:
    """Groups of modules with a scheme each; all groups must share one format."""
    sparsity = config.child("sparsity_config")
    sparsity.word("format", ("dense",))
    groups = config.raw("config_groups")
    if not isinstance(groups, Mapping) or not groups or len(groups) > 100:
        config.reject("config_groups", groups, "an object with a scheme for each group")
        return None
    nested = config.child("config_groups")
    stored = [_group(nested.child(str(name))) for name in groups]
    first = stored[0]
    if first is None or None in stored:
        return None
    if any(one is not None and one[:2] != first[:2] for one in stored):
        config.reject("config_groups", groups, "one format for all groups")
    targets = [one.targets for one in stored if one is not None]
    names = () if () in targets else tuple(name for some in targets for name in some)
    return first._replace(targets=names)


def _group(group: Fields) -> Stored | None:
    targets = group.items("targets", of=str) or ["Linear"]
    stored = _scheme(group.child("weights"), with_activations=bool(group.raw("input_activations")))
    named = () if "Linear" in targets else tuple(str(name) for name in targets)
    return stored and stored._replace(targets=named)


def _scheme(weights: Fields, *, with_activations: bool) -> Stored | None:
    bits, kind = weights.whole("num_bits"), weights.word("type", ("float", "int"))
    group = weights.optional("group_size", least=-1)
    if kind == "float" and bits == 8:
        side = weights.items("block_structure", of=int, length=2)
        return Stored("fp8") if side is None else _square(weights, side)
    if kind == "float" and bits == 4 and group in (16, 32):
        return Stored("nvfp4" if group == 16 else "mxfp4", group)
    if kind == "int" and bits == 8 and with_activations:
        return Stored("w8a8-int8")
    if kind == "int" and not with_activations:
        return integers(weights, bits, -1 if group is None else group, "num_bits", "group_size")
    if weights.sound("num_bits", "type", "group_size"):
        weights.reject("num_bits", bits, "float 8, float 4 in groups of 16 or 32, or int 8 or 4")
    return None


def _square(weights: Fields, sides: Sequence[object]) -> Stored | None:
    if sides[0] != sides[1] or not isinstance(sides[0], int) or not 0 < sides[0] <= 2**16:
        weights.reject("block_structure", sides, "two equal whole numbers above 0")
        return None
    return Stored("fp8-block", sides[0])


def modelopt(config: Fields) -> Stored | None:
    """NVIDIA's exporter names its recipe."""
    recipes = {
        "FP8": Stored("fp8"),
        "FP8_PER_CHANNEL_PER_TOKEN": Stored("fp8"),
        "FP8_PB_WO": Stored("fp8-block", 128),
        "NVFP4": Stored("nvfp4", 16),
    }
    word = config.word("quant_algo", tuple(recipes))
    if word is None and config.sound("quant_algo"):
        config.reject("quant_algo", None, "one of " + ", ".join(recipes))
    return None if word is None else recipes[word]


READERS: Mapping[str, Callable[[Fields], Stored | None]] = MappingProxyType(
    {
        "fp8": fp8,
        "fbgemm_fp8": lambda config: Stored("fp8"),
        "mxfp4": mxfp4,
        "awq": grouped_integers,
        "gptq": grouped_integers,
        "compressed-tensors": compressed_tensors,
        "modelopt": modelopt,
        "modelopt_fp4": modelopt,
    }
)
"""`quant_method` -> how to read its block. Others (bitsandbytes, torchao, …) are refused."""

QUANTISATION_KEYS = {
    "bits": ("bits", "w_bit"),
    "group_size": ("group_size", "q_group_size"),
}


def read_quantisation(fields: Fields, layers: Sequence[Sequence[Block]]) -> Quantisation | None:
    """The checkpoint's own format and the parameters stored in it; null where it has none."""
    if fields.raw("quantization_config") is None:
        return None
    config = fields.child("quantization_config")
    method = config.word("quant_method", tuple(READERS))
    if method is None:
        if config.sound("quant_method") and fields.sound("quantization_config"):
            config.reject("quant_method", None, "one of " + ", ".join(READERS))
        return None
    stored = READERS[method](config)
    kept = _names(config, EXCLUSION_KEYS)
    if stored is None:
        return None
    params = _packed_params(config, layers, stored, kept)
    return Quantisation(method, stored.format, stored.block, params)


def _names(config: Fields, keys: Sequence[str]) -> dict[str, str]:
    """Excluded module names, each with the key that lists it."""
    return {str(name): key for key in keys for name in config.items(key, of=str) or []}


def _packed_params(
    config: Fields, layers: Sequence[Sequence[Block]], stored: Stored, kept: dict[str, str]
) -> int:
    excluded, targets = ModuleNames(kept), ModuleNames(stored.targets)
    total = 0
    for index, blocks in enumerate(layers):
        for module in (module for block in blocks for module in block.modules):
            is_kept = bool(kept) and excluded.match(index, module)
            is_target = not stored.targets or targets.match(index, module)
            if is_target and not is_kept and module.role in stored.roles:
                total += module.copies * module.matrix
    for entry in excluded.unexplained(len(layers)):
        config.reject(kept[entry], entry, "names of modules that this architecture has")
    for entry in targets.unexplained(len(layers)):
        config.reject("config_groups", entry, "targets that this architecture has")
    if not total and config.sound("config_groups", *EXCLUSION_KEYS):
        config.reject(
            "quant_method", config.raw("quant_method"), "at least one module in its format"
        )
    return total
