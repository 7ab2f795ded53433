"""`optimise new NAME`: a case to start from."""

import json
import shlex
from pathlib import Path

import click

from optimiser.cli.options import SUFFIXES, is_there
from optimiser.cli.schema import schema_text
from optimiser.errors import CaseError, InputError, Mistake
from optimiser.files import write
from optimiser.yaml_io import parse

SCHEMA_FILE = "case.schema.json"

TEMPLATE = """\
# yaml-language-server: $schema={schema}
# Plan it with: optimise {file}
name: {name}

brief:
  requests_per_s: 10         # or concurrent_users: 200
  prompt_tokens: 1000        # mean lengths
  answer_tokens: 300
  ttft_target_s: 1.0         # longest acceptable time to first token, seconds
  tpot_target_ms: 50         # longest acceptable time per output token, milliseconds

model: llama-3.1-8b          # a catalogue name, or inline:
# model: {{name: mine, params: 8.0e9, layers: 32, attention_heads: 32, kv_heads: 8, head_dim: 128}}

hardware:
  gpus: [l4, l40s, h100-sxm] # catalogue names, or inline:
  # - {{name: my-gpu, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {{fp16: 300}},
  #    usd_per_hour: 2.00}}
  # usd_per_gpu_hour: 2.00   # overrides the prices of all of these GPUs

levers:                      # a value fixes a lever, a list opens it
  weights: [fp16, fp8]       # fp32, fp16, fp8, int8, int4
  kv_cache: fp16             # fp16, fp8, int8
  # kv_heads: 8              # the model's own where nothing is said; others need another model
  tensor_parallel: [1, 2]    # GPUs that share a replica
  batch: {{most: 1024}}

assumptions:
  headroom: 1.3              # capacity planned for each unit of demand
  latency: measured          # as published runs of servers have it
  serving_engine: vllm       # vllm, sglang, tensorrt-llm
  memory: itemised           # all that an engine takes
  # an inline model or GPU takes these in place of the three lines above:
  # latency: ideal           # the bare roofline
  # efficiency: 0.6          # share of it that is reached
  # memory_reserve: 0.10     # share of memory held back

limits: {{}}                   # most_gpus, usd_per_hour, least_replicas
"""


@click.command("new", epilog="Example: optimise new chat && optimise chat.yaml")
@click.argument("name")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def command(name: str, force: bool) -> None:
    """Write NAME.yaml, a commented case to edit, and its JSON schema beside it."""
    path = Path(name if name.endswith(SUFFIXES) else f"{name}.yaml")
    if path.suffix not in SUFFIXES or not str(path).isprintable():
        raise CaseError([Mistake("NAME", "", f"{name!r} cannot name a case")])
    if not is_there(path.parent):
        raise CaseError([Mistake(str(path), "", f"no such folder: {path.parent}")])
    if is_there(path) and not force:
        raise CaseError([Mistake(str(path), "", "is there already; --force replaces it")])
    file = shlex.quote(str(path))
    text = TEMPLATE.format(name=_as_yaml(path.stem), file=file, schema=SCHEMA_FILE)
    write(path.with_name(SCHEMA_FILE), schema_text())
    write(path, text)
    click.echo(f"wrote {path}; plan it with: optimise {file}")


def _as_yaml(text: str) -> str:
    """Text as a YAML value, quoted where it would be read as something else."""
    try:
        plain = parse(text, "NAME").data == text
    except InputError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
