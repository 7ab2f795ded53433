"""The program as it stands and as it is saved: rows, names, variables, and its optimum."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import highspy
import pulp
import pytest

from optimiser import Case, Planned, plan
from optimiser.catalogue.load import shipped
from optimiser.errors import InputError
from optimiser.planning.build import build
from optimiser.planning.configurations import configurations
from optimiser.planning.cut_loop import Run, search
from optimiser.planning.export import save_program
from optimiser.planning.one_pool import OnePool
from optimiser.planning.solvers.base import Limits, Status, solver
from tests import oracle
from tests.strategies import case_of, draw_case


def shipped_case(name: str, *settings: str) -> Case:
    return Case.load(shipped("cases") / f"{name}.yaml", settings)


def optimum_of(path: Path) -> float | None:
    """What a solver of one's own makes of the file; None where it is infeasible."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", 0.0)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return highs.getInfo().objective_function_value


def rows_of(path: Path) -> dict[str, str]:
    """Constraint name to text, of an LP file."""
    text = path.read_text(encoding="utf-8")
    body = re.split(r"(?im)^subject to$", text)[1]
    body = re.split(r"(?im)^(?:bounds|binaries|generals|end)$", body)[0]
    parts = re.split(r"(?m)^([A-Za-z_][\w.]*):", body)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def without_rows(path: Path, prefix: str) -> Path:
    text = path.read_text(encoding="utf-8")
    cut, n_cut = re.subn(rf"(?m)^{prefix}[\w.]*:(?:.*\n)(?:[ \t].*\n)*", "", text)
    assert n_cut > 0
    shorter = path.with_name(f"without-{prefix}-{path.name}")
    shorter.write_text(cut, encoding="utf-8")
    assert [name for name in rows_of(shorter) if name.startswith(prefix)] == []
    return shorter


def saved(case: Case, folder: Path, name: str = "saved.lp", solver_name: str = "cp-sat") -> Path:
    path = folder / name
    plan(case, save_lp=path, explained=False, solver_name=solver_name)
    return path


def planned_cost(case: Case) -> float | None:
    best = oracle.cheapest(case)
    return None if best is None else best.nano_usd / 1e9


@pytest.mark.parametrize("seed", range(36))
def test_anyones_solver_finds_the_optimum_of_the_saved_program(seed: int, tmp_path: Path) -> None:
    case = draw_case(seed)
    found = optimum_of(saved(case, tmp_path))
    expected = planned_cost(case)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9))


@pytest.mark.parametrize("name", ["chat-7b", "chat-7b-open"])
@pytest.mark.parametrize("solver_name", ["cp-sat", "highs", "cbc"])
def test_shipped_cases_saved(name: str, solver_name: str, tmp_path: Path) -> None:
    path = saved(shipped_case(name), tmp_path, solver_name=solver_name)
    assert optimum_of(path) == pytest.approx({"chat-7b": 6.0, "chat-7b-open": 2.0}[name])


def test_shipped_case_of_a_real_model_saved(tmp_path: Path) -> None:
    case = shipped_case("llama-3.1-8b")
    outcome = plan(case, save_lp=tmp_path / "saved.lp")
    assert isinstance(outcome, Planned)
    cost = outcome.verdict.figures.usd_per_hour
    assert optimum_of(tmp_path / "saved.lp") == pytest.approx(cost, rel=1e-9)


def cases_where_the_target_binds() -> Iterator[tuple[int, Case, float]]:
    for seed in range(400):
        case = draw_case(seed)
        if case.brief.requests_per_s is None:
            continue  # users' rate depends on the target
        free = planned_cost(case.changed({"brief.tpot_target_ms": 1e9}))
        if free is not None and planned_cost(case) != free:
            yield seed, case, free


def test_without_its_tpot_rows_the_saved_program_is_that_of_no_target(tmp_path: Path) -> None:
    tried = 0
    for seed, case, free in cases_where_the_target_binds():
        path = saved(case, tmp_path)
        shorter = without_rows(path, "tpot")
        assert optimum_of(shorter) == pytest.approx(free, rel=1e-9), seed
        tried += 1
        if tried == 12:
            break
    assert tried == 12


def test_without_its_tpot_rows_where_no_batch_of_the_cheapest_meets_the_target(
    tmp_path: Path,
) -> None:
    # measured TTFT grows with the batch: the batches that 3 ms forbids need their own cuts
    settings = (
        "brief.requests_per_s=60",
        "brief.ttft_target_s=0.12",
        "brief.tpot_target_ms=3",
    )
    case = shipped_case("llama-3.1-8b", *settings)
    free = plan(case.changed({"brief.tpot_target_ms": 1e6}))
    assert isinstance(free, Planned)
    path = saved(case, tmp_path)
    cost = free.verdict.figures.usd_per_hour
    assert optimum_of(without_rows(path, "tpot")) == pytest.approx(cost, rel=1e-9)


def test_without_its_tpot_rows_the_page_at_8_ms(tmp_path: Path) -> None:
    # 9 GPUs at 8 ms per token, 3 at 50 ms or without a target
    path = saved(shipped_case("chat-7b", "brief.tpot_target_ms=8"), tmp_path)
    assert optimum_of(path) == pytest.approx(18.0)
    assert optimum_of(without_rows(path, "tpot")) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("settings", "prefix", "before", "after"),
    [
        (["brief.ttft_target_s=0.04"], "ttft", None, 6.0),
        (["limits.most_gpus=2"], "limit_most_gpus", None, 6.0),
        (["limits.usd_per_hour=5.9"], "limit_usd_per_hour", None, 6.0),
        (["limits.least_replicas=7"], "limit_least", 14.0, 6.0),
        # nothing but one replica is left to pay for
        ([], "capacity", 6.0, 2.0),
    ],
)
def test_each_requirement_is_rows_that_can_be_deleted(
    settings: list[str], prefix: str, before: float | None, after: float, tmp_path: Path
) -> None:
    path = saved(shipped_case("chat-7b", *settings), tmp_path)
    assert optimum_of(path) == (None if before is None else pytest.approx(before))
    assert optimum_of(without_rows(path, prefix)) == pytest.approx(after)


def test_users_are_rows_of_their_own(tmp_path: Path) -> None:
    case = shipped_case("chat-7b").changed(
        {"brief.requests_per_s": None, "brief.concurrent_users": 850.0, "brief.ttft_target_s": 99.0}
    )
    # 850 / 85 = 10 replicas; the rate, 850 / (99 + 15) = 7.5/s, takes 7.5 x 1.3 / 6.28 = 2
    path = saved(case, tmp_path)
    assert optimum_of(path) == pytest.approx(20.0)
    assert optimum_of(without_rows(path, "concurrency")) == pytest.approx(4.0)


def variable_names(program: OnePool) -> list[str]:
    return [variable.name for variable in program.problem.variables()]


def test_choices_batch_and_replicas_are_variables() -> None:
    program = build(configurations(shipped_case("chat-7b-open")))
    names = variable_names(program)
    for expected in (
        "batch",
        "replicas",
        "weights_0_fp16",
        "weights_1_int8",
        "weights_2_int4",
        "kv_cache_0_fp16",
        "kv_cache_1_int8",
        "kv_heads_0_32",
        "kv_heads_1_8",
        "gpu_0_generic_80gb",
        "tensor_parallel_0_1",
    ):
        assert expected in names
    assert len([name for name in names if name.startswith("use_")]) == 12
    by_name = {variable.name: variable for variable in program.problem.variables()}
    # neither is fixed beforehand
    assert (by_name["batch"].lowBound, by_name["batch"].upBound) == (1, 512)
    assert by_name["replicas"].lowBound == 1
    # one sequence at a time: 13 x (300 x 7.0415 ms + 44.9 ms) = 28.05
    assert by_name["replicas"].upBound == 29
    assert all(v.cat == pulp.LpInteger for v in program.problem.variables())


def test_rows_are_named_and_quote_the_case() -> None:
    limits = [f"limits.{limit}" for limit in ("most_gpus=9", "usd_per_hour=50", "least_replicas=2")]
    case = shipped_case("chat-7b", *limits)
    program = build(configurations(case))
    label = "0_generic_80gb_tp1"
    rows = {row.name for row in program.problem.constraints()}
    assert {
        f"memory_{label}",
        f"tpot_{label}",
        "limit_most_gpus",
        "limit_usd_per_hour",
        "choose_one",
    } <= rows
    assert any(row.startswith(f"capacity_{label}") for row in rows)
    assert program.quotes[f"ttft_{label}"] == "brief.ttft_target_s"
    assert program.quotes[f"memory_{label}"] == "hardware.gpus"
    assert program.quotes[f"tpot_{label}"] == "brief.tpot_target_ms"
    assert program.quotes["limit_most_gpus"] == "limits.most_gpus"
    assert program.quotes["limit_usd_per_hour"] == "limits.usd_per_hour"
    assert program.quotes[f"limit_least_replicas_{label}"] == "limits.least_replicas"
    slow = build(configurations(shipped_case("chat-7b", "brief.ttft_target_s=0.04")))
    assert slow.quotes[f"ttft_{label}"] == "brief.ttft_target_s"


def test_solved_variables_agree_with_each_other() -> None:
    """The lever choices, the batch and the replicas of a solution are those of its design."""
    for seed in range(24):
        case = draw_case(seed)
        program = build(configurations(case))
        solve = solver("cp-sat")
        if search(program, Run(solve)).status is not Status.OPTIMAL:
            continue
        values = solve(program.problem, Limits()).values
        _, design = program.answer(values)
        chosen = design.configuration
        assert values["batch"] == design.batch
        assert values["replicas"] == design.replicas
        for lever, value in (
            ("weights", chosen.weights),
            ("kv_cache", chosen.kv_cache),
            ("kv_heads", chosen.kv_heads),
            ("gpu", chosen.gpu.name),
            ("tensor_parallel", chosen.tensor_parallel),
        ):
            on = [n for n, v in values.items() if v and re.match(rf"{lever}_\d+_", n)]
            assert len(on) == 1
            assert on[0].endswith(f"_{value}")


def test_every_coefficient_is_whole() -> None:
    for seed in range(24):
        program = build(configurations(draw_case(seed)))
        for row in program.problem.constraints():
            assert all(coefficient == int(coefficient) for coefficient in row.values())
            assert row.constant == int(row.constant)


def test_header_says_which_line_of_the_case_a_row_stands_for(tmp_path: Path) -> None:
    case_file = tmp_path / "mine.yaml"
    text = (shipped("cases") / "chat-7b.yaml").read_text(encoding="utf-8")
    case_file.write_text(text.replace("limits: {}", "limits: {most_gpus: 9}"), encoding="utf-8")
    lines = case_file.read_text(encoding="utf-8").splitlines()
    path = saved(Case.load(case_file), tmp_path)
    header = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] == "\\"]

    def line_of(field: str) -> int:
        return next(i for i, line in enumerate(lines, 1) if field in line)

    for rows, field, key in (
        ("tpot", "brief.tpot_target_ms", "tpot_target_ms"),
        ("memory", "hardware.gpus", "gpus:"),
        ("capacity", "brief.requests_per_s", "requests_per_s"),
        ("limit_most_gpus", "limits.most_gpus", "most_gpus"),
    ):
        (line,) = [text for text in header if f"rows {rows}*" in text]
        assert field in line
        assert re.search(rf"mine\.yaml:{line_of(key)}\b", line)
    assert "chat-7b" in header[0]


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(configurations(shipped_case("chat-7b")))
    path = tmp_path / "program.lp"
    path.write_text("what was there", encoding="utf-8")

    def breaks(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pulp.LpProblem, "writeLP", breaks)
        with pytest.raises((InputError, OSError)):
            save_program(program, program.space.case, path)
    assert path.read_text(encoding="utf-8") == "what was there"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["program.lp"]
    save_program(program, program.space.case, path)
    assert optimum_of(path) is not None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["program.lp"]
    assert stat.S_ISREG(path.stat().st_mode)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    program = build(configurations(shipped_case("chat-7b")))
    with pytest.raises(InputError):
        save_program(program, program.space.case, tmp_path / "no-such-folder" / "program.lp")


def test_a_cut_is_added_once() -> None:
    space = configurations(shipped_case("chat-7b"))
    program = build(space)
    (need,) = space.needs
    n_rows = len(program.problem.constraints())
    for batch in range(1, 86):
        program.cut(need, [(0, batch)])
    # rows now hold every batch to its whole need: 13 x f(b), rounded up
    added = len(program.problem.constraints()) - n_rows
    assert 2 <= added < 85
    assert not program.cut(need, [(0, batch) for batch in range(1, 86)])
    names = [row.name for row in program.problem.constraints()]
    assert len(set(names)) == len(names)


def test_cost_is_held_to_the_nano_dollar() -> None:
    """Settled cost rows take the largest unit that prices share, rounded down."""
    program = build(configurations(shipped_case("chat-7b")))
    program.settle(5_999_999_999)  # just under three GPUs at two dollars
    assert search(program, Run(solver("cp-sat"))).status is Status.INFEASIBLE
    program = build(configurations(shipped_case("chat-7b")))
    program.settle(6_000_000_000)
    assert search(program, Run(solver("cp-sat"))).status is Status.OPTIMAL


SHARED_SLOPE: dict[str, object] = {
    "name": "shared-slope",
    "brief": {
        "requests_per_s": 10.6,
        "prompt_tokens": 183,
        "answer_tokens": 206,
        "ttft_target_s": 2.3,
        "tpot_target_ms": 12.6,
    },
    "model": {
        "name": "small",
        "params": 1.68e9,
        "layers": 34,
        "attention_heads": 8,
        "kv_heads": 2,
        "head_dim": 96,
    },
    "hardware": {
        "gpus": [
            {
                "name": "able",
                "bandwidth_gb_per_s": 397.0,
                "tflops": {"fp16": 31.3},
                "memory_bytes": 24739011624,
                "usd_per_hour": 0.285714286,
            }
        ]
    },
    "levers": {
        "weights": ["fp16", "fp32"],
        "kv_cache": ["fp16", "fp8", "int8"],
        "batch": {"most": 64},
    },
    "assumptions": {"efficiency": 0.7, "headroom": 1.0, "memory_reserve": 0.1},
}


def test_two_configurations_of_one_group_that_share_a_slope() -> None:
    """A line that one configuration asked for does not stand in for another's of the same slope."""
    outcome = plan(case_of(SHARED_SLOPE))
    best = oracle.cheapest(case_of(SHARED_SLOPE))
    assert isinstance(outcome, Planned)
    assert best is not None
    assert outcome.proof.objective_usd_per_hour == best.nano_usd / 1e9
    assert (outcome.design.batch, outcome.design.replicas) == (best.batch, best.replicas)
