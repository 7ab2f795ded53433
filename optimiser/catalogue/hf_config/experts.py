"""Mixtures of experts: routed experts, shared experts, and which layers have them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.mlp import Mlp, WidthRule, projections
from optimiser.catalogue.hf_config.modules import Block, Module, kept, linear

SparseRule = Callable[[Fields, int], list[bool]]
"""(config, layers) -> whether each layer is a mixture."""

SharedRule = Callable[[Fields, int], int]
"""(config, width of a routed expert) -> total width of the shared experts, 0 for none."""


def every_layer(fields: Fields, layers: int) -> list[bool]:
    """All layers are mixtures."""
    return [True] * layers


def after_first(fields: Fields, layers: int) -> list[bool]:
    """DeepSeek: dense first layers, then every `moe_layer_freq`-th; or a list of both kinds."""
    kinds = fields.items("mlp_layer_types", of=str, length=layers)
    if kinds is not None:
        if not set(kinds) <= {"dense", "sparse"}:
            fields.reject("mlp_layer_types", kinds, "layers of dense, sparse")
        return [kind == "sparse" for kind in kinds]
    first = fields.whole("first_k_dense_replace", least=0)
    every = fields.whole("moe_layer_freq")
    return [index >= first and index % every == 0 for index in range(layers)]


def by_step(fields: Fields, layers: int) -> list[bool]:
    """Qwen: every `decoder_sparse_step`-th layer, save those of `mlp_only_layers`."""
    dense = set(fields.items("mlp_only_layers", of=int) or ())
    step = fields.whole("decoder_sparse_step")
    return [(index + 1) % step == 0 and index not in dense for index in range(layers)]


def periodic(fields: Fields, layers: int) -> list[bool]:
    """Jamba: one layer in `expert_layer_period`, from `expert_layer_offset`."""
    period = fields.whole("expert_layer_period")
    offset = fields.whole("expert_layer_offset", least=0)
    return [index % period == offset for index in range(layers)]


def interleaved(fields: Fields, layers: int) -> list[bool]:
    """Llama-4: the layers of `moe_layers`, else the last of each `interleave_moe_layer_step`."""
    step = fields.whole("interleave_moe_layer_step")
    sparse = fields.items("moe_layers", of=int)
    if sparse is None:
        return [(index + 1) % step == 0 for index in range(layers)]
    chosen = set(sparse)
    return [index in chosen for index in range(layers)]


def between(fields: Fields, layers: int) -> list[bool]:
    """Ernie: every `moe_layer_interval`-th layer from a start index to an end index."""
    start = fields.whole("moe_layer_start_index", least=0)
    end = fields.optional("moe_layer_end_index", least=-1)
    last = layers - 1 if end in (None, -1) else end
    step = fields.whole("moe_layer_interval")
    return [(index + 1) % step == 0 and start <= index <= (last or 0) for index in range(layers)]


def none_shared(fields: Fields, width: int) -> int:
    """No shared expert."""
    return 0


def one_shared(fields: Fields, width: int) -> int:
    """One of the routed experts' width, though no key says so (Llama-4)."""
    return width


def counted_shared(fields: Fields, width: int) -> int:
    """`n_shared_experts` of the routed experts' width; none where absent or null."""
    return width * (fields.optional("n_shared_experts", least=0) or 0)


def width_shared(key: str) -> SharedRule:
    """A width of its own under `key`; 0 means none."""
    return lambda fields, width: fields.whole(key, least=0)


def own_width_shared(fields: Fields, width: int) -> int:
    """`n_shared_experts` of a width of their own (Nemotron-H)."""
    each = fields.optional("moe_shared_expert_intermediate_size") or width
    return each * (fields.optional("n_shared_experts", least=0) or 0)


def expert_width(fields: Fields) -> int:
    """`moe_intermediate_size`."""
    return fields.whole("moe_intermediate_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Experts on some layers, a dense MLP on the others."""

    dense: Mlp = field(default_factory=Mlp)
    sparse: SparseRule = every_layer
    width: WidthRule = expert_width
    shared: SharedRule = none_shared
    shared_gate: bool = False
    """The shared expert's output is scaled by a learned gate of one number (Qwen)."""
    expert_bias: bool = False
    router_bias: bool = False
    """A bias of one number an expert: gpt-oss's router, DeepSeek-V3's load balance."""
    optional: bool = False
    """0 or 1 experts mean that every layer is dense (Jamba, Granite hybrids)."""
    latent: str | None = None
    """Key of a narrower space that the routed experts work in, where there is one."""
    nested: str | None = None
    """The object that holds the experts' keys, where they are not at the top (DBRX)."""
    names: Mapping[str, str] = field(default_factory=dict)
    """This family's names for `experts`, `gate` and `shared_experts`."""

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """One block a layer, of at most two kinds."""
        own = fields if self.nested is None else fields.child(self.nested)
        count = own.whole("num_experts", least=0 if self.optional else 1, most=100_000)
        per_token = 1 if count == 0 else own.whole("num_experts_per_tok", most=100_000)
        dense_only = self.optional and count <= 1
        sparse = [False] * layers if dense_only else self.sparse(fields, layers)
        if per_token > max(count, 1) and own.sound("num_experts", "num_experts_per_tok"):
            own.reject("num_experts_per_tok", per_token, f"at most the {count} experts")
        mixture = Block()
        if any(sparse):
            mixture = self._mixture(fields, self.width(own), count, per_token)
        dense = Block() if all(sparse) else self.dense.blocks(fields, 1)[0]
        return [mixture if is_sparse else dense for is_sparse in sparse]

    def _mixture(self, fields: Fields, width: int, count: int, per_token: int) -> Block:
        hidden = fields.whole("hidden_size")
        path = self.dense.path
        router = hidden * count + (count if self.router_bias else 0)
        modules: list[Module] = [kept(f"{path}.{self._name('gate')}", "router", router)]
        latent = fields.optional(self.latent) if self.latent else None
        if latent:
            modules.append(linear(f"{path}.fc1_latent_proj", "mlp", hidden, latent))
            modules.append(linear(f"{path}.fc2_latent_proj", "mlp", latent, hidden))
        modules += [
            replace(module, copies=count, used=per_token)
            for module in projections(
                f"{path}.{self._name('experts')}.0",
                "expert",
                latent or hidden,
                width,
                gated=self.dense.gated,
                bias=self.expert_bias,
            )
        ]
        shared = self.shared(fields, width)
        if shared:
            modules += projections(
                f"{path}.{self._name('shared_experts')}",
                "mlp",
                hidden,
                shared,
                gated=self.dense.gated,
                bias=self.dense.bias.read(fields),
            )
        if self.shared_gate:
            modules.append(kept(f"{path}.shared_expert_gate", "router", hidden))
        return Block(tuple(modules), ffn_width=shared, expert_width=width)

    def _name(self, usual: str) -> str:
        return self.names.get(usual, usual)
