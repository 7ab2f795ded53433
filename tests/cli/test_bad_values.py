"""Cases with wrong fields: every mistake at once, with its line and the nearest valid name."""

from pathlib import Path

import pytest

from tests.cli.running import CHAT, WEIGHTS, edited, optimise, refused, written

GPU = "  gpus: [{{name: g, {memory}, bandwidth_gb_per_s: 2000, tflops: {tflops}}}]"
TEN_TO_400 = "1" + "0" * 400

UNKNOWN_KEYS = [
    (1, "nam: chat", ["1: name: missing", "1: nam: unknown key (did you mean name?)"]),
    (
        3,
        "  request_per_s: 10",
        ["3: brief.request_per_s: unknown key (did you mean requests_per_s?)"],
    ),
    (
        10,
        "  gpu: [l4]",
        ["9: hardware.gpus: missing", "10: hardware.gpu: unknown key (did you mean gpus?)"],
    ),
    (13, "  weight: fp16", ["13: levers.weight: unknown key (did you mean weights?)"]),
    (17, "  batch: {mst: 512}", ["17: levers.batch.mst: unknown key (did you mean most?)"]),
    (19, "  eficiency: 1", ["19: assumptions.eficiency: unknown key (did you mean efficiency?)"]),
    (22, "limits: {most_gpu: 3}", ["22: limits.most_gpu: unknown key (did you mean most_gpus?)"]),
    (
        22,
        "limits: {zzzz: 3}",
        ["22: limits.zzzz: unknown key; expected one of least_replicas, most_gpus, usd_per_hour"],
    ),
    (
        22,
        "limits: {1: 3}",
        ["22: limits.1: unknown key; expected one of least_replicas, most_gpus, usd_per_hour"],
    ),
    (
        22,
        "limits: {<<: {most_gpus: 3}}",
        ["22: limits.<<: unknown key; expected one of least_replicas, most_gpus, usd_per_hour"],
    ),
    (22, "limits: {[1, 2]: 3}", ["22: limits: a key must be plain text"]),
    (22, "limits: {{a: b}: 3}", ["22: limits: a key must be plain text"]),
    (
        8,
        "model: {name: m, parms: 1e9, layers: 2, attention_heads: 32, kv_heads: 2, head_dim: 4}",
        [
            "8: model.params: missing",
            "8: model.parms: unknown key (did you mean params or head_params?)",
        ],
    ),
    (
        10,
        GPU.format(memory="memory_gib: 80", tflops="{fp16: 1}"),
        ["10: hardware.gpus[0].memory_gib: unknown key (did you mean memory_gb or memory_bytes?)"],
    ),
]

TYPES = [
    (3, "  requests_per_s: lots", "3: brief.requests_per_s: found 'lots', expected a number"),
    (3, '  requests_per_s: "10"', "3: brief.requests_per_s: found '10', expected a number"),
    (3, "  requests_per_s: true", "3: brief.requests_per_s: found true, expected a number"),
    (3, "  requests_per_s: [10]", "3: brief.requests_per_s: found [10], expected a number"),
    (4, "  prompt_tokens: 1000.5", "4: brief.prompt_tokens: found 1000.5, expected a whole number"),
    (4, "  prompt_tokens: 1e3", "4: brief.prompt_tokens: found 1000.0, expected a whole number"),
    (4, "  prompt_tokens: 1_000", "4: brief.prompt_tokens: found '1_000', expected a whole number"),
    (4, "  prompt_tokens: 0x10", "4: brief.prompt_tokens: found '0x10', expected a whole number"),
    (4, "  prompt_tokens: 1:30", "4: brief.prompt_tokens: found '1:30', expected a whole number"),
    (4, "  prompt_tokens:", "4: brief.prompt_tokens: found nothing, expected a whole number"),
    (4, "  prompt_tokens: false", "4: brief.prompt_tokens: found false, expected a whole number"),
    (1, "name: 7", "1: name: found 7, expected text"),
    (1, "name: ''", "1: name: found '', expected text that is not empty"),
    (1, "name: ~", "1: name: found nothing, expected text"),
    (22, "limits: [1]", "22: limits: found [1], expected a section with fields"),
    (22, "limits:", "22: limits: found nothing, expected a section with fields"),
    (17, "  batch: 512", "17: levers.batch: found 512, expected a section with fields"),
    (8, "model:", "8: model: found nothing, expected a catalogue name or a section with fields"),
    (8, "model: 7", "8: model: found 7, expected a catalogue name or a section with fields"),
    (
        10,
        "  gpus: [4]",
        "10: hardware.gpus[0]: found 4, expected a catalogue name or a section with fields",
    ),
    (
        10,
        "  gpus:",
        "10: hardware.gpus[0]: found nothing, expected a catalogue name or a section with fields",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 8", tflops="{fp16: fast}"),
        "10: hardware.gpus[0].tflops.fp16: found 'fast', expected a number",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 8", tflops="300"),
        "10: hardware.gpus[0].tflops: found 300, expected a section with fields",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 8", tflops="{}"),
        "10: hardware.gpus[0].tflops: found {}, expected at least one entry",
    ),
]

RANGES = [
    (3, "  requests_per_s: 0", "3: brief.requests_per_s: found 0, expected greater than 0"),
    (3, "  requests_per_s: -1", "3: brief.requests_per_s: found -1, expected greater than 0"),
    (3, "  requests_per_s: .nan", "3: brief.requests_per_s: found nan, expected a finite number"),
    (3, "  requests_per_s: 1e400", "3: brief.requests_per_s: found inf, expected a finite number"),
    (
        3,
        "  requests_per_s: 1e308",
        "3: brief.requests_per_s: found 1e+308, expected less than or equal to 1000000000",
    ),
    (
        3,
        f"  requests_per_s: {TEN_TO_400}",
        "3: brief.requests_per_s: found inf, expected a finite number",
    ),
    (
        4,
        f"  prompt_tokens: {TEN_TO_400}",
        "4: brief.prompt_tokens: found inf, expected a whole number",
    ),
    (
        4,
        f"  prompt_tokens: {10**99}",
        f"4: brief.prompt_tokens: found {str(10**99)[:57]}..., expected less than or equal to "
        "10000000",
    ),
    (4, "  prompt_tokens: 0", "4: brief.prompt_tokens: found 0, expected greater than 0"),
    (5, "  answer_tokens: -300", "5: brief.answer_tokens: found -300, expected greater than 0"),
    (4, "  prompt_tokens: .inf", "4: brief.prompt_tokens: found inf, expected a whole number"),
    (6, "  ttft_target_s: -.Inf", "6: brief.ttft_target_s: found -inf, expected a finite number"),
    (6, "  ttft_target_s: -0.0", "6: brief.ttft_target_s: found 0.0, expected greater than 0"),
    (7, "  tpot_target_ms: 0", "7: brief.tpot_target_ms: found 0, expected greater than 0"),
    (
        11,
        "  usd_per_gpu_hour: 0",
        "11: hardware.usd_per_gpu_hour: found 0, expected greater than 0",
    ),
    (
        11,
        "  usd_per_gpu_hour: .NaN",
        "11: hardware.usd_per_gpu_hour: found nan, expected a finite number",
    ),
    (15, "  kv_heads: 0", "15: levers.kv_heads[0]: found 0, expected greater than 0"),
    (
        16,
        "  tensor_parallel: [1, -2]",
        "16: levers.tensor_parallel[1]: found -2, expected greater than 0",
    ),
    (17, "  batch: {most: 0}", "17: levers.batch.most: found 0, expected greater than 0"),
    (19, "  efficiency: 0", "19: assumptions.efficiency: found 0, expected greater than 0"),
    (
        19,
        "  efficiency: 70",
        "19: assumptions.efficiency: found 70, expected less than or equal to 1",
    ),
    (
        20,
        "  headroom: 0.9",
        "20: assumptions.headroom: found 0.9, expected greater than or equal to 1",
    ),
    (21, "  memory_reserve: 1", "21: assumptions.memory_reserve: found 1, expected less than 1"),
    (
        21,
        "  memory_reserve: -0.1",
        "21: assumptions.memory_reserve: found -0.1, expected greater than or equal to 0",
    ),
    (22, "limits: {most_gpus: 0}", "22: limits.most_gpus: found 0, expected greater than 0"),
    (
        22,
        "limits: {usd_per_hour: -1}",
        "22: limits.usd_per_hour: found -1, expected greater than 0",
    ),
    (
        22,
        "limits: {least_replicas: 0}",
        "22: limits.least_replicas: found 0, expected greater than 0",
    ),
    (
        10,
        GPU.format(memory="memory_gb: -80", tflops="{fp16: 1}"),
        "10: hardware.gpus[0].memory_gb: found -80, expected greater than 0",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 80", tflops="{fp16: .inf}"),
        "10: hardware.gpus[0].tflops.fp16: found inf, expected a finite number",
    ),
]

CHOICES = [
    (10, "  gpus: []", "10: hardware.gpus: empty list, expected a value or a list of values"),
    (13, "  weights: []", "13: levers.weights: empty list, expected a value or a list of values"),
    (15, "  kv_heads: []", "15: levers.kv_heads: empty list, expected a value or a list of values"),
    (
        16,
        "  tensor_parallel: []",
        "16: levers.tensor_parallel: empty list, expected a value or a list of values",
    ),
    (
        13,
        "  weights: [[fp16]]",
        "13: levers.weights: found ['fp16'], expected a weight format: " + WEIGHTS,
    ),
    (15, "  kv_heads: [[32]]", "15: levers.kv_heads[0]: found [32], expected a whole number"),
    (
        16,
        "  tensor_parallel: {a: 1}",
        "16: levers.tensor_parallel[0]: found {'a': 1}, expected a whole number",
    ),
    (
        13,
        "  weights: [fp16, fp61]",
        "13: levers.weights: unknown weight format 'fp61', expected one of "
        f"{WEIGHTS} (did you mean fp16?)",
    ),
    (
        14,
        "  kv_cache: int4",
        "14: levers.kv_cache: unknown KV-cache format 'int4', expected one of fp16, fp8, "
        "int8 (did you mean int8?)",
    ),
    (
        13,
        "  weights: 16",
        "13: levers.weights: found 16, expected a weight format: " + WEIGHTS,
    ),
    (4, "  requests_per_s: 11", "4: brief.requests_per_s: duplicate key, first given on line 3"),
]

TOGETHER = [
    (
        3,
        "  requests_per_s: 10\n  concurrent_users: 5",
        "2: brief: expected requests_per_s or concurrent_users, one of the two",
    ),
    (3, "  # nothing", "2: brief: expected requests_per_s or concurrent_users, one of the two"),
    (
        3,
        "  requests_per_s: null",
        "2: brief: expected requests_per_s or concurrent_users, one of the two",
    ),
    (
        4,
        "  prompt_tokens: 1000\n  isl: 900",
        "5: brief.isl: unknown key; expected one of answer_tokens, concurrent_users, "
        "prompt_tokens, "
        "requests_per_s, tpot_target_ms, ttft_target_s",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 80, memory_bytes: 80", tflops="{fp16: 1}"),
        "10: hardware.gpus[0]: expected memory_gb or memory_bytes, one of the two",
    ),
    (
        10,
        GPU.format(memory="vendor: x", tflops="{fp16: 1}"),
        "10: hardware.gpus[0]: expected memory_gb or memory_bytes, one of the two",
    ),
    (
        10,
        GPU.format(memory="memory_gb: 80", tflops="{int8: 600}"),
        "10: hardware.gpus: g has no fp16 figure, which fp16 weights need",
    ),
    (
        11,
        "  # no price",
        "10: hardware.gpus: no price for generic-80gb: give hardware.usd_per_gpu_hour, or "
        "usd_per_hour of an inline GPU",
    ),
    (
        15,
        "  kv_heads: [32, 5, 7]",
        "15: levers.kv_heads: 5, 7 does not divide the model's 32 attention heads; legal: 1, "
        "2, 4, 8, 16, 32",
    ),
    (
        16,
        "  tensor_parallel: 3",
        "16: levers.tensor_parallel: 3 does not divide 32 attention heads; legal: 1, 2, 4, 8",
    ),
    (
        8,
        "model: {name: m, params: 1e9, layers: 2, attention_heads: 8, kv_heads: 3, head_dim: 4}",
        "8: model: kv_heads 3 does not divide attention_heads 8",
    ),
]


@pytest.mark.parametrize(("line", "text", "expected"), UNKNOWN_KEYS)
def test_unknown_keys(tmp_path: Path, line: int, text: str, expected: list[str]) -> None:
    refused(written(tmp_path, edited(line, text)), *expected)


@pytest.mark.parametrize(("line", "text", "expected"), TYPES + RANGES + CHOICES + TOGETHER)
def test_one_wrong_value(tmp_path: Path, line: int, text: str, expected: str) -> None:
    refused(written(tmp_path, edited(line, text)), expected)


def test_unknown_names_suggest_the_nearest(tmp_path: Path) -> None:
    gpu = optimise(written(tmp_path, edited(10, "  gpus: [l4, h10-sxm]")), "--format", "json")
    assert gpu.data["errors"][0]["field"] == "hardware.gpus[1]"
    assert gpu.data["errors"][0]["where"].endswith(":10")
    assert gpu.data["errors"][0]["nearest"][0] == "h100-sxm"
    model = optimise(written(tmp_path, edited(8, "model: llama-3.1-8")), "--format", "json")
    assert model.data["errors"][0]["field"] == "model"
    assert model.data["errors"][0]["where"].endswith(":8")
    assert model.data["errors"][0]["nearest"][0] == "llama-3.1-8b"


@pytest.mark.parametrize(
    ("line", "text", "listed"),
    [(8, "model: zzz", "llama-2-7b"), (10, "  gpus: [qqqq]", "h100-sxm")],
)
def test_names_like_none_list_the_catalogue(
    tmp_path: Path, line: int, text: str, listed: str
) -> None:
    ran = optimise(written(tmp_path, edited(line, text)))
    assert f"case.yaml:{line}: " in ran.err
    assert "the catalogue has " in ran.err
    assert listed in ran.err


@pytest.mark.parametrize("name", ["../gpus/l4", "..", "/etc/passwd", "l4.yaml", ""])
def test_names_cannot_leave_the_catalogue(tmp_path: Path, name: str) -> None:
    ran = optimise(written(tmp_path, edited(10, f"  gpus: ['{name}']")))
    assert ran.code == 1
    assert f"case.yaml:10: hardware.gpus[0]: unknown GPU {name!r}" in ran.err


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = (
        CHAT.replace("requests_per_s: 10", "requests_per_s: -10")
        .replace("answer_tokens", "anser_tokens")
        .replace("llama-2-7b", "llama-2-7")
        .replace("weights: fp16", "weights: []")
        .replace("efficiency: 1.0", "efficiency: high")
        .replace("limits: {}", "limits: {most_gpus: 1.5}")
    )
    ran = optimise(written(tmp_path, text), "--format", "json")
    assert [(e["where"].rsplit(":", 1)[1], e["field"]) for e in ran.data["errors"]] == [
        ("3", "brief.requests_per_s"),
        ("2", "brief.answer_tokens"),
        ("5", "brief.anser_tokens"),
        ("8", "model"),
        ("13", "levers.weights"),
        ("19", "assumptions.efficiency"),
        ("22", "limits.most_gpus"),
    ]


def test_mistakes_between_parts_are_told_at_once(tmp_path: Path) -> None:
    text = CHAT.replace("  usd_per_gpu_hour: 2.00\n", "").replace("kv_heads: 32", "kv_heads: 5")
    refused(
        written(tmp_path, text),
        "10: hardware.gpus: no price for generic-80gb: give hardware.usd_per_gpu_hour, "
        "or usd_per_hour of an inline GPU",
        "14: levers.kv_heads: 5 does not divide the model's 32 attention heads; "
        "legal: 1, 2, 4, 8, 16, 32",
    )


def test_inline_gpus_of_one_name(tmp_path: Path) -> None:
    one = "{name: g, memory_gb: 80, bandwidth_gb_per_s: 2000, tflops: {fp16: 300}}"
    path = written(tmp_path, edited(10, f"  gpus: [{one}, {one.replace('80', '40')}]"))
    refused(path, "9: hardware: gpus: 'g' is given 2 times")


@pytest.mark.parametrize("rate", ["1e9", "999999999.5"])
def test_a_demand_beyond_whole_number_arithmetic(tmp_path: Path, rate: str) -> None:
    text = CHAT.replace("requests_per_s: 10", f"requests_per_s: {rate}").replace(
        "answer_tokens: 300", "answer_tokens: 10000000"
    )
    ran = optimise(written(tmp_path, text), "--format", "json")
    assert ran.code == 1
    (error,) = ran.data["errors"]
    assert error["where"].endswith("case.yaml:3")
    assert error["field"] == "brief.requests_per_s"
    assert "too large to plan exactly" in error["message"]


def test_all_sizes_of_the_wrong_tensor_parallel_name_the_legal_ones(tmp_path: Path) -> None:
    text = CHAT.replace("tensor_parallel: 1", "tensor_parallel: [3, 5]")
    (line,) = optimise(written(tmp_path, text)).err.splitlines()
    assert ":16: levers.tensor_parallel: " in line
    assert "3 does not divide 32 attention heads" in line
    assert "5 does not divide 32 attention heads" in line
    assert line.endswith("legal: 1, 2, 4, 8")


def test_some_wrong_sizes_are_left_out_and_said(tmp_path: Path) -> None:
    text = CHAT.replace("tensor_parallel: 1", "tensor_parallel: [1, 3]")
    ran = optimise(written(tmp_path, text), "--format", "json", "--no-levers")
    assert ran.code == 0
    assert ran.data["excluded"] == [
        {
            "what": "tensor parallel 3 on generic-80gb",
            "why": "3 does not divide 32 attention heads",
        }
    ]
