"""Layers that keep a constant state for each sequence: Mamba, Mamba-2, gated delta net.

A state has two parts. The convolution keeps its last kernel - 1 inputs at the model's 16 bits. The
recurrent state is kept at 16 bits too, unless the config states another width under
`mamba_ssm_cache_dtype` or `mamba_ssm_dtype`. That is what vLLM does on its "auto" setting (source:
vllm/model_executor/layers/mamba/mamba_utils.py, shapes and dtypes; read 2026-11).
"""

from collections.abc import Callable
from dataclasses import dataclass

from optimiser.catalogue.hf_config.fields import Fields
from optimiser.catalogue.hf_config.modules import Block, Module, kept, linear
from optimiser.catalogue.hf_config.shape import CacheLayers

MODEL_BYTES = 2
STATE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "auto": 2}


def keeper(
    modules: tuple[Module, ...], fields: Fields, recurrent: int, conv: int, width: int
) -> Block:
    """A block that keeps `recurrent` + `conv` numbers for each sequence."""
    word = fields.word("mamba_ssm_cache_dtype", tuple(STATE_BYTES)) or "auto"
    state_bytes = recurrent * STATE_BYTES[word] + conv * MODEL_BYTES
    return Block(modules, CacheLayers(1, "state", 0, 0, 0, None, state_bytes), inner_width=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba:
    """The selective state space of Mamba-1. Source: arXiv 2312.00752, section 3.4."""

    inner_norms: bool = False
    """Norms on the step, input and output projections (Jamba)."""
    stated_width: bool = False
    """The file's `intermediate_size` is the inner width (Mamba), not an MLP's (Jamba)."""
    path: str = "mamba"

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """The same block for each layer."""
        hidden = fields.whole("hidden_size")
        state, kernel = fields.whole("state_size"), fields.whole("conv_kernel")
        stated = fields.optional("intermediate_size") if self.stated_width else None
        inner = stated or fields.whole("expand") * hidden
        rank = self._step_rank(fields, hidden)
        bias = fields.flag("use_bias", default=False)
        conv_bias = fields.flag("use_conv_bias", default=True)
        modules = [
            linear(f"{self.path}.in_proj", "state", hidden, 2 * inner, bias=bias),
            kept(f"{self.path}.conv1d", "state", inner * (kernel + conv_bias)),
            linear(f"{self.path}.x_proj", "state", inner, rank + 2 * state),
            linear(f"{self.path}.dt_proj", "state", rank, inner, bias=True),
            kept(f"{self.path}.A_log", "state", inner * state + inner),
            linear(f"{self.path}.out_proj", "state", inner, hidden, bias=bias),
        ]
        if self.inner_norms:
            modules.append(kept(f"{self.path}.dt_layernorm", "state", rank + 2 * state))
        block = keeper(tuple(modules), fields, inner * state, inner * (kernel - 1), inner)
        return [block] * layers

    def _step_rank(self, fields: Fields, hidden: int) -> int:
        if fields.raw("time_step_rank") == "auto":
            return -(-hidden // 16)
        return fields.whole("time_step_rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """The scalar-decay state space of Mamba-2. Source: arXiv 2405.21060, section 7."""

    inner: Callable[[Fields], int]
    path: str = "mamba"

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """The same block for each layer."""
        hidden, inner = fields.whole("hidden_size"), self.inner(fields)
        heads, width = fields.whole("mamba_num_heads"), fields.whole("mamba_head_dim")
        state, kernel = fields.whole("state_size"), fields.whole("conv_kernel")
        groups = fields.whole("n_groups")
        if inner != heads * width and fields.sound("mamba_num_heads", "mamba_head_dim", "expand"):
            fields.reject("mamba_num_heads", heads, f"{inner} / {width} heads, the inner width's")
        bias = fields.flag("use_bias", default=False)
        conv_bias = fields.flag("use_conv_bias", default=True)
        convolved = inner + 2 * groups * state
        modules = (
            linear(f"{self.path}.in_proj", "state", hidden, inner + convolved + heads, bias=bias),
            kept(f"{self.path}.conv1d", "state", convolved * (kernel + conv_bias)),
            kept(f"{self.path}.A_log", "state", 3 * heads),
            kept(f"{self.path}.norm", "state", inner),
            linear(f"{self.path}.out_proj", "state", inner, hidden, bias=bias),
        )
        block = keeper(modules, fields, heads * width * state, convolved * (kernel - 1), inner)
        return [block] * layers


def expanded(fields: Fields) -> int:
    """A multiple of the hidden size."""
    return fields.whole("expand") * fields.whole("hidden_size")


def heads_wide(fields: Fields) -> int:
    """The heads side by side; `expand` is not used (Nemotron-H)."""
    fields.raw("expand")
    return fields.whole("mamba_num_heads") * fields.whole("mamba_head_dim")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention with a gated delta rule (Qwen3-Next). Source: arXiv 2412.06464."""

    path: str = "linear_attn"

    def blocks(self, fields: Fields, layers: int) -> list[Block]:
        """The same block for each layer."""
        hidden, kernel = fields.whole("hidden_size"), fields.whole("linear_conv_kernel_dim")
        key_heads, key_dim = (
            fields.whole("linear_num_key_heads"),
            fields.whole("linear_key_head_dim"),
        )
        value_heads = fields.whole("linear_num_value_heads")
        value_dim = fields.whole("linear_value_head_dim")
        if value_heads % key_heads and fields.sound(
            "linear_num_key_heads", "linear_num_value_heads"
        ):
            fields.reject("linear_num_value_heads", value_heads, f"a multiple of {key_heads}")
        values = value_heads * value_dim
        convolved = 2 * key_heads * key_dim + values
        modules = (
            linear(f"{self.path}.in_proj_qkvz", "state", hidden, convolved + values),
            linear(f"{self.path}.in_proj_ba", "state", hidden, 2 * value_heads),
            kept(f"{self.path}.conv1d", "state", convolved * kernel),
            kept(f"{self.path}.A_log", "state", 2 * value_heads),
            kept(f"{self.path}.norm", "state", value_dim),
            linear(f"{self.path}.out_proj", "state", values, hidden),
        )
        recurrent = value_heads * key_dim * value_dim
        block = keeper(modules, fields, recurrent, convolved * (kernel - 1), values)
        return [block] * layers
