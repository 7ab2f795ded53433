"""The public surface, and the shared small things."""

import tomllib
from pathlib import Path

import pytest

import optimiser
from optimiser import units
from optimiser.errors import InputError, Mistake, OptimiseError, SolverError, VerificationError
from optimiser.names import nearest
from tests.cli.running import CHAT


def test_the_public_surface_is_exact() -> None:
    assert optimiser.__all__ == ["Case", "Infeasible", "Planned", "Undecided", "plan"]
    for name in optimiser.__all__:
        assert getattr(optimiser, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'optimiser' has no attribute 'Plan'"):
        _ = optimiser.Plan


def test_the_version_is_the_project_s() -> None:
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    data = tomllib.loads(project.read_text(encoding="utf-8"))
    assert data["project"]["version"] == optimiser.__version__


def test_the_api_in_three_lines() -> None:
    case = optimiser.Case.of_text(CHAT)
    planned = optimiser.plan(case)
    assert isinstance(planned, optimiser.Planned)
    assert (planned.status, planned.design.gpus, planned.design.batch) == ("optimal", 3, 85)


def test_a_case_from_text_tells_its_mistakes_with_lines() -> None:
    with pytest.raises(InputError, match=r"^mine:3: brief\.requests_per_s: found 0"):
        optimiser.Case.of_text(CHAT.replace("requests_per_s: 10", "requests_per_s: 0"), "mine")
    with pytest.raises(InputError, match=r"^case:1: not valid YAML"):
        optimiser.Case.of_text("[")


def test_a_changed_case_is_checked_again() -> None:
    case = optimiser.Case.of_text(CHAT)
    changed = case.changed({"levers.kv_heads": 8, "limits.most_gpus": 2, "levers.batch": None})
    assert (changed.kv_heads, changed.limits.most_gpus, changed.levers.batch.most) == (
        (8,),
        2,
        1024,
    )
    assert (case.kv_heads, case.limits.most_gpus) == ((32,), None)
    assert changed.where("brief.requests_per_s") == "case:3"
    with pytest.raises(InputError, match="5 does not divide"):
        case.changed({"levers.kv_heads": 5})


def test_units_convert_both_ways() -> None:
    assert units.gb(units.bytes_of_gb(80)) == 80
    assert units.bytes_of_gb(1) == 1e9
    assert units.gib(2**30) == 1
    assert units.ms(0.05) == 50
    assert units.s_of_ms(50) == 0.05
    assert units.flops_of_tflops(300) == 3e14
    assert units.nano_usd(2.95) == 2_950_000_000
    assert units.usd(units.nano_usd(0.123456789)) == 0.123456789
    assert units.usd_per_month(2.0) == 1460


@pytest.mark.parametrize(
    ("actual", "limit", "most", "least"),
    [
        (1.0, 1.0, True, True),
        (1 + 5e-10, 1.0, True, True),
        (1 - 5e-10, 1.0, True, True),
        (1 + 2e-9, 1.0, False, True),
        (1 - 2e-9, 1.0, True, False),
    ],
)
def test_boundaries_are_inclusive(actual: float, limit: float, most: bool, least: bool) -> None:
    assert units.at_most(actual, limit) is most
    assert units.at_least(actual, limit) is least


def test_nearest_names() -> None:
    valid = ["h100-sxm", "h100-pcie", "l4"]
    assert nearest("h10-sxm", valid)[0] == "h100-sxm"
    assert nearest("H100-SXM", valid)[0] == "h100-sxm"
    assert nearest("zzz", valid) == ()
    assert len(nearest("h100", [f"h100-{i}" for i in range(9)])) == 3


def test_mistakes_read_as_one_line() -> None:
    assert str(Mistake("f:1", "a.b", "wrong", ("x", "y"))) == (
        "f:1: a.b: wrong (did you mean x or y?)"
    )
    assert str(Mistake("f", "", "wrong")) == "f: wrong"
    assert str(InputError([Mistake("f", "", "one"), Mistake("f", "", "two")])) == "f: one\nf: two"


def test_exit_codes_of_faults() -> None:
    assert (OptimiseError.exit_code, SolverError.exit_code) == (1, 1)
    assert VerificationError.exit_code == 5
