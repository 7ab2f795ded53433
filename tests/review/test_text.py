"""The review as people read it, against stored texts whose figures were checked by hand."""

import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from optimiser import Case, Planned, plan
from optimiser.review import as_json, markdown, terminal
from optimiser.review.plan import review
from optimiser.review.review import Review
from optimiser.studies.levers import rank_levers
from tests.cli.running import CASES, CHAT, optimise, written

GOLDEN = Path(__file__).parent / "golden"
CHAT_CASE = CASES / "chat-7b.yaml"
CHECK = ("check", CHAT_CASE, "--gpu", "generic-80gb", "--batch", "85", "--gpus")
USERS = "brief={concurrent_users: 200, isl: 1000, osl: 300, ttft_target_s: 1, tpot_target_ms: 50}"

COMMANDS: dict[str, tuple[object, ...]] = {
    "chat-7b.txt": (CHAT_CASE,),
    "chat-7b.md": (CHAT_CASE, "--format", "markdown"),
    "infeasible.txt": (CHAT_CASE, "--set", "limits.usd_per_hour=5"),
    "two-conflicts.txt": (
        CHAT_CASE,
        *("--set", "brief.tpot_target_ms=7", "--set", "brief.ttft_target_s=0.04"),
    ),
    "undecided.txt": (CHAT_CASE, "--time-limit", "1e-9"),
    "users-and-limits.txt": (
        *(CHAT_CASE, "--no-levers", "--set", USERS),
        *("--set", "limits={most_gpus: 9, usd_per_hour: 99, least_replicas: 2}"),
    ),
    "check.txt": (*CHECK, "3"),
    "check-too-few.txt": (*CHECK, "2"),
}


def masked(text: str) -> str:
    """Elapsed seconds and the place of the checkout, which differ from run to run."""
    text = re.sub(r"\d+\.\d\d s\b(?! =)(?=\)| \(|;|$)", "N.NN s", text, flags=re.MULTILINE)
    text = text.replace(str(CASES), "cases")
    return re.sub(r" {2,}in$", "  in", re.sub(r" {2,}(?=cases/|--set )", "  ", text), flags=re.M)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_text_is_as_stored(name: str) -> None:
    assert masked(optimise(*COMMANDS[name]).out) == (GOLDEN / name).read_text(encoding="utf-8")


def test_memory_of_several_gpus_is_of_the_smallest_one_in_readable_digits() -> None:
    # 12 x 2**30 bytes = 12.884901888 GB
    fast = "bandwidth_gb_per_s: 2000, tflops: {fp16: 300}"
    small = f"{{name: small, memory_bytes: 12884901888, usd_per_hour: 1, {fast}}}"
    large = f"{{name: large, memory_gb: 80, usd_per_hour: 9, {fast}}}"
    text = optimise(
        CHAT_CASE,
        *("--set", "hardware.usd_per_gpu_hour=null", "--set", "brief.requests_per_s=1"),
        *("--set", f"hardware.gpus=[{large}, {small}]", "--set", "limits.usd_per_hour=3"),
    ).out
    (line,) = (line for line in text.splitlines() if "hardware.gpus" in line)
    assert line.split("  ")[1] == "hardware.gpus (GB of memory of small)"
    assert line.split()[6:8] == ["12.88", "15.8"]


def test_the_stored_review_shows_every_figure_of_the_page() -> None:
    text = (GOLDEN / "chat-7b.txt").read_text(encoding="utf-8")
    for figure in (
        "3,000 answer tokens/s needed",
        "weights 13.5 GB",
        "0.500 MiB a token",
        "0.68 GB a request",
        "85 requests fit",
        "13.5 TFLOP",
        "first token 45 ms",
        "7.0 ms a token alone",
        "batch 85: 32 ms a token",
        "6.28 req/s a replica",
        "51.2 GB of KV cache",
        "× 9.75 s = 98 in flight",
        "$6.00 an hour",
        "$0.556 per 1M answer tokens",
        "$0.167 per 1,000 requests",
        "bottleneck: KV reads; best next change: GQA (8 KV heads), saving 2 GPUs",
        "proved cheapest: $6.00/h, bound $6.00/h, gap 0",
    ):
        assert figure in text


def test_an_open_case_says_that_nothing_more_is_saved() -> None:
    text = optimise("chat-7b-open").out
    assert "1 GPU · first token 45 ms · per token 33 ms · $0.185 per 1M answer tokens" in text
    assert "fp16 weights, fp16 cache, 8 KV heads" in text
    assert "no single lever saves a GPU" in text
    assert "Levers" not in text


def test_real_hardware_cites_its_price_and_its_measurements() -> None:
    text = optimise("llama-3.1-70b", "--no-levers").out
    assert re.search(
        r"price \$\S+ per hour of \w+ \S+ in \S+, on demand, as of \d{4}: \d instance", text
    )
    assert "default levers.kv_heads: 8 (the model's own)" in text
    assert "constants of h100-sxm: end-to-end runs" in text
    assert "planned at 82.8 % of the latency targets" in text
    assert "in 8 of 10 measured runs" in text


def test_a_format_without_a_rate_is_noted() -> None:
    text = optimise("chat-7b", "--no-levers", "--set", "levers.weights=fp8").out
    assert "generic-80gb has no fp8 figure: fp8 weights compute at its 16-bit rate" in text


def test_sizes_left_out_are_noted() -> None:
    text = optimise("chat-7b", "--no-levers", "--set", "levers.tensor_parallel=[1, 3]").out
    why = "3 does not divide 32 attention heads"
    assert f"left out: tensor parallel 3 on generic-80gb: {why}" in text


def test_colour_is_only_for_terminals() -> None:
    assert "\x1b" not in optimise(CHAT_CASE).out
    planned = plan(Case.load(CHAT_CASE))
    assert click.unstyle(terminal.render(review(planned))) != terminal.render(review(planned))


@pytest.fixture(scope="module")
def chat() -> Planned:
    planned = plan(Case.of_text(CHAT))
    assert isinstance(planned, Planned)
    return planned


def closing(planned: Planned) -> str:
    return review(planned).closing[-1]


class TestProofLine:
    """What is said of the proof is what is known."""

    def test_proved(self, chat: Planned) -> None:
        assert closing(chat).startswith("proved cheapest: $6.00/h, bound $6.00/h, gap 0 (cp-sat, ")

    def test_a_bound_below(self, chat: Planned) -> None:
        planned = replace(chat, proof=replace(chat.proof, bound_usd_per_hour=4.5))
        line = "not proved cheapest: $6.00/h, bound $4.50/h, gap 25 % ("
        assert planned.status == "feasible"
        assert closing(planned).startswith(line)
        data = review(planned).data
        assert (data["status"], data["proof"]["gap_frac"]) == ("feasible", 0.25)

    def test_no_bound(self, chat: Planned) -> None:
        planned = replace(chat, proof=replace(chat.proof, bound_usd_per_hour=None))
        assert planned.status == "feasible"
        assert closing(planned).startswith("not proved cheapest: $6.00/h, no bound known (")
        data = review(planned).data
        assert (data["status"], data["proof"]["gap_frac"]) == ("feasible", None)
        assert '"bound_usd_per_hour": null' in as_json.render(review(planned))

    def test_a_cross_check(self, chat: Planned) -> None:
        planned = replace(chat, proof=replace(chat.proof, cross_check="highs"))
        assert closing(planned).endswith("; highs agrees)")

    def test_notes_of_the_planner(self, chat: Planned) -> None:
        noted = replace(chat, notes=("time limit: equally cheap designs were not ranked",))
        assert review(noted).notes[-1] == "time limit: equally cheap designs were not ranked"


class TestMarkdown:
    """The Markdown is well formed, whatever it shows."""

    @pytest.mark.parametrize("name", [name for name in COMMANDS if name.endswith(".txt")])
    def test_tables_are_rectangular_and_headings_stand_alone(self, name: str) -> None:
        text = optimise(*COMMANDS[name], "--format", "markdown").out
        lines = text.split("\n")
        assert lines[0].startswith("# ")
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert "\x1b" not in text
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if line.startswith("#"):
                assert (before, after) == ("", "")
        for block in text.split("\n\n"):
            rows = block.rstrip("\n").split("\n")
            if rows[0].startswith("|"):
                assert set(rows[1]) <= set("|- ")
                assert len({row.count("|") for row in rows}) == 1
                assert all(row.startswith("| ") or row == rows[1] for row in rows)
                assert all(row.endswith("|") for row in rows)

    def test_cells_with_bars_do_not_break_the_table(self, tmp_path: Path) -> None:
        path = written(tmp_path, CHAT, "a|b.yaml")
        arguments = ("--set", "brief.tpot_target_ms=7", "--format", "markdown")
        text = optimise(path, *arguments, "--set", "name=x|y").out
        assert text.startswith("# x|y · llama-2-7b\n")
        ran = optimise(path, "--set", "limits.usd_per_hour=5", "--format", "markdown").out
        assert "a\\|b.yaml:3" in ran


def test_the_three_formats_show_one_review(chat: Planned) -> None:
    shown: Review = review(chat, rank_levers(chat))
    for text in (click.unstyle(terminal.render(shown)), markdown.render(shown)):
        assert shown.headline in text
        for table in shown.tables:
            assert all(cell in text for row in table.rows for cell in row)
        assert all(line in text for line in (*shown.closing, *shown.notes))


def test_links_are_not_modelled_by_the_ideal_roofline() -> None:
    ideal = ("assumptions.latency=ideal", "levers.tensor_parallel=2")
    text = optimise("llama-3.1-70b", "--no-levers", *(x for s in ideal for x in ("--set", s))).out
    assert "tensor parallel: links not modelled" in text
