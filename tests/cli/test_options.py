"""Options: overrides, wrong uses, and where results go."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.running import CASES, CHAT, WEIGHTS, edited, optimise, refused, written

CHAT_CASE = CASES / "chat-7b.yaml"

WRONG_USES = [
    (("--format", "xml"), "'xml' is not one of 'text', 'json', 'markdown'"),
    (("--solver", "gurobi"), "'gurobi' is not one of 'cp-sat', 'highs', 'cbc'"),
    (("--time-limit", "0"), "0.0 is not in the range x>0"),
    (("--time-limit", "-1"), "-1.0 is not in the range x>0"),
    (("--time-limit", "nan"), "nan is not a number of seconds"),
    (("--time-limit", "inf"), "inf is not a number of seconds"),
    (("--time-limit", "soon"), "'soon' is not a valid float range"),
    (("--workers", "0"), "0 is not in the range 1<=x<=256"),
    (("--workers", "1.5"), "'1.5' is not a valid integer range"),
    (("--zap",), "No such option '--zap'"),
    (("--set",), "Option '--set' requires an argument"),
    (("--sovler", "cbc"), "--solver"),
    (("another.yaml",), "Got unexpected extra argument (another.yaml)"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_USES)
def test_wrong_use_of_an_option(arguments: tuple[str, ...], message: str) -> None:
    ran = optimise(CHAT_CASE, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "optimise plan" in ran.err or arguments == ("--set",)
    assert message in ran.err
    if arguments[0] != "--format":
        as_json = optimise(CHAT_CASE, "--format=json", *arguments)
        assert (as_json.code, as_json.err) == (2, ran.err)
        (error,) = as_json.data["errors"]
        assert as_json.data["status"] == "error"
        assert message in error["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan",), "Missing argument 'CASE'"),
        (("check", CHAT_CASE), "Missing option '--gpu'"),
        (("new",), "Missing argument 'NAME'"),
        (("schema", "extra"), "Got unexpected extra argument (extra)"),
        (("--sovler", "cbc"), "No such option '--sovler'"),
    ],
)
def test_wrong_use_of_a_command(arguments: tuple[object, ...], message: str) -> None:
    ran = optimise(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("chek", CHAT_CASE, "--gpu", "l4"), "check"),
        (("pla", CHAT_CASE), "plan"),
        (("nwe", "chat"), "new"),
        (("shcema",), "schema"),
    ],
)
def test_a_mistyped_command_names_the_nearest(arguments: tuple[object, ...], meant: str) -> None:
    ran = optimise(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert f"no command or case {arguments[0]!r} (did you mean {meant}" in ran.err


def test_a_case_may_be_named_like_a_mistyped_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, CHAT, "chek")
    monkeypatch.chdir(tmp_path)
    assert optimise("chek", "--no-levers").code == 0


@pytest.mark.parametrize(
    "name",
    [
        "chat-7b",
        "chat-7b.yaml",
        "cases/chat-7b.yaml",
        "cases/chat-7b",
        "llama-3.1-8b",
        "chat-7b-open",
    ],
)
def test_shipped_cases_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = optimise(name, "--format", "json", "--no-levers")
    assert ran.code == 0
    assert ran.data["case"] == name.removeprefix("cases/").removesuffix(".yaml")


@pytest.mark.parametrize("name", ["elsewhere/cases/chat-7b.yaml", "../chat-7b.yaml", "x/chat-7b"])
def test_a_path_elsewhere_is_not_taken_for_a_shipped_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = optimise(name)
    assert ran.code == 1
    assert f"error: {name}: no such file" in ran.err


def test_a_file_here_comes_before_a_shipped_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, CHAT.replace("name: chat-7b", "name: mine"), "chat-7b.yaml")
    monkeypatch.chdir(tmp_path)
    assert optimise("chat-7b.yaml", "--format", "json", "--no-levers").data["case"] == "mine"


class TestSet:
    """`--set FIELD=VALUE`."""

    def planned(self, *settings: str) -> dict[str, object]:
        arguments = [part for setting in settings for part in ("--set", setting)]
        ran = optimise(CHAT_CASE, "--no-levers", "--format", "json", *arguments)
        assert ran.code == 0, ran.err
        return ran.data

    def test_it_overrides_the_file(self) -> None:
        # 11 GPUs at 50 requests/s: the page's own figure
        assert self.planned("brief.requests_per_s=50")["design"]["gpus"] == 11

    def test_the_last_of_one_field_wins(self) -> None:
        planned = self.planned("brief.requests_per_s=9000", "brief.requests_per_s=50")
        assert planned["design"]["gpus"] == 11

    def test_fields_add_up(self) -> None:
        # golden variant: 8 KV heads and int4 weights, batch 402
        design = self.planned("levers.kv_heads=8", "levers.weights=int4")["design"]
        assert (design["kv_heads"], design["weights"], design["batch"]) == (8, "int4", 402)

    def test_values_are_yaml(self) -> None:
        assert self.planned("levers.kv_heads=[32, 8]")["design"]["kv_heads"] == 8
        assert self.planned("levers={kv_heads: 8}")["design"]["kv_heads"] == 8
        assert self.planned("name='a: b'")["case"] == "a: b"
        assert self.planned("name=a=b")["case"] == "a=b"

    @pytest.mark.parametrize("nothing", ["null", "~", "", "  "])
    def test_null_removes_a_field(self, nothing: str) -> None:
        planned = self.planned(f"levers.batch={nothing}")
        assert planned["defaults"] == ["levers.batch.most: 1024"]
        assert self.planned(f"hardware.usd_per_gpu_hour={nothing}", "hardware.gpus=[l4]")

    def test_removing_a_required_field_is_a_mistake_of_the_option(self) -> None:
        ran = optimise(CHAT_CASE, "--set", "brief.prompt_tokens=null")
        assert ran.err == "error: --set brief.prompt_tokens=null: brief.prompt_tokens: missing\n"

    def test_removing_what_is_not_there_is_fine(self) -> None:
        assert self.planned("limits.most_gpus=null")["design"]["gpus"] == 3

    def test_it_makes_a_section_that_the_file_leaves_out(self, tmp_path: Path) -> None:
        path = written(tmp_path, CHAT.replace("limits: {}\n", ""))
        ran = optimise(path, "--set", "limits.most_gpus=2", "--format", "json")
        assert ran.code == 3
        # without the memory requirement a batch of 143 takes the step to 50 ms, and 2 GPUs do
        assert ran.data["conflict"]["requirements"] == [
            "limits.most_gpus",
            "brief.requests_per_s",
            "hardware.gpus",
        ]

    def test_it_repairs_a_wrong_value(self, tmp_path: Path) -> None:
        path = written(tmp_path, edited(3, "  requests_per_s: lots"))
        assert optimise(path, "--set", "brief.requests_per_s=10", "--no-levers").code == 0

    def test_traffic_can_be_switched(self) -> None:
        planned = self.planned("brief.requests_per_s=null", "brief.concurrent_users=200")
        assert planned["verdict"][4]["requirement"] == "brief.concurrent_users"

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("brief", ": expected path.to.field=value"),
            ("brief.requests_per_s", ": expected path.to.field=value"),
            ("=1", ": expected path.to.field=value"),
            ("brief..x=1", ": expected path.to.field=value"),
            (".brief=1", ": expected path.to.field=value"),
            ("brief.x.=1", ": expected path.to.field=value"),
            (
                "brief.request_per_s=1",
                ": brief.request_per_s: unknown key (did you mean requests_per_s?)",
            ),
            ("bref.requests_per_s=1", ": bref: unknown key (did you mean brief?)"),
            ("name=\udcff", ": not UTF-8 text"),
            ("na\udcffme=1", ": expected path.to.field=value"),
            ("name.x=1", ": name.x: name is not a section, so it has no field x"),
            ("name.x.y=1", ": name.x.y: name is not a section, so it has no field x"),
            (
                "hardware.gpus.0=l4",
                ": hardware.gpus.0: hardware.gpus is not a section, so it has no field 0",
            ),
            ("brief.ttft_target_s=[1", ": not valid YAML: did not find expected ',' or ']'"),
            ("brief={a: 1, a: 2}", ": a: duplicate key, first given on line 1"),
            ("brief.ttft_target_s=-1", ": brief.ttft_target_s: found -1, expected greater than 0"),
            ('brief.ttft_target_s="1"', ": brief.ttft_target_s: found '1', expected a number"),
            (
                "levers.weights=fp61",
                ": levers.weights: unknown weight format 'fp61', expected one of "
                f"{WEIGHTS} (did you mean fp16?)",
            ),
            (
                "levers.tensor_parallel=3",
                ": levers.tensor_parallel: 3 does not divide 32 attention heads; legal: 1, 2, 4, 8",
            ),
        ],
    )
    def test_mistakes_cite_the_option(self, setting: str, message: str) -> None:
        ran = optimise(CHAT_CASE, "--set", setting)
        assert ran.err == f"error: --set {setting}{message}\n"
        assert (ran.code, ran.out) == (1, "")

    def test_mistakes_of_several_options_and_the_file_come_together(self, tmp_path: Path) -> None:
        path = written(tmp_path, edited(19, "  efficiency: 7"))
        ran = optimise(path, "--set", "brief.ttft_target_s=0", "--set", "levers.kv_heads=x")
        assert ran.err.splitlines() == [
            "error: --set brief.ttft_target_s=0: brief.ttft_target_s: found 0, expected "
            "greater than 0",
            "error: --set levers.kv_heads=x: levers.kv_heads[0]: found 'x', expected a whole "
            "number",
            f"error: {path}:19: assumptions.efficiency: found 7, expected less than or equal to 1",
        ]

    def test_malformed_options_come_together(self) -> None:
        ran = optimise(CHAT_CASE, "--set", "a", "--set", "b=[", "--set", "c..d=1")
        assert [line.split(":")[1] for line in ran.err.splitlines()] == [
            " --set a",
            " --set b=[",
            " --set c..d=1",
        ]


class TestOutput:
    """`-o FILE` and `--save-lp FILE`."""

    @pytest.mark.parametrize("format_name", ["text", "json", "markdown"])
    def test_the_file_holds_what_would_be_printed(self, tmp_path: Path, format_name: str) -> None:
        out = tmp_path / "review"
        printed = optimise(CHAT_CASE, "--format", format_name)
        silent = optimise(CHAT_CASE, "--format", format_name, "-o", out)
        assert (silent.code, silent.out, silent.err) == (0, "", "")
        mask = _without_seconds
        assert mask(out.read_text(encoding="utf-8")) == mask(printed.out)
        assert stat.S_IMODE(out.stat().st_mode) & 0o600 == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["review"]

    def test_the_exit_code_stays(self, tmp_path: Path) -> None:
        out = tmp_path / "review.json"
        setting = ("--set", "brief.tpot_target_ms=7", "--format", "json")
        assert optimise(CHAT_CASE, *setting, "-o", out).code == 3
        assert json.loads(out.read_text())["status"] == "infeasible"

    def test_a_file_there_is_replaced_and_a_link_followed(self, tmp_path: Path) -> None:
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_text("old")
        link.symlink_to(target)
        assert optimise(CHAT_CASE, "-o", link, "--no-levers").code == 0
        assert link.is_symlink()
        assert target.read_text().startswith("chat-7b")

    def test_a_device_is_written_to_and_kept(self) -> None:
        assert optimise(CHAT_CASE, "-o", "/dev/null", "--no-levers").code == 0
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)

    @pytest.mark.parametrize("option", ["-o", "--output", "--save-lp"])
    def test_a_directory_or_a_missing_folder(self, tmp_path: Path, option: str) -> None:
        for place, why in (
            (tmp_path, "is a directory"),
            (tmp_path / "no" / "file", "No such file or directory"),
        ):
            ran = optimise(CHAT_CASE, option, place, "--no-levers", "--format", "json")
            assert ran.code == 1
            assert ran.err == f"error: {place}: cannot be written: {why}\n"
            assert ran.data["errors"][0]["where"] == str(place)
        assert list(tmp_path.iterdir()) == []

    def test_a_failed_plan_leaves_no_file(self, tmp_path: Path) -> None:
        out = tmp_path / "review"
        assert optimise(CHAT_CASE, "-o", out, "--set", "name=").code == 1
        assert list(tmp_path.iterdir()) == []

    def test_the_saved_program_names_its_rows_and_the_case(self, tmp_path: Path) -> None:
        lp = tmp_path / "cost.lp"
        assert optimise(CHAT_CASE, "--save-lp", lp, "--no-levers").code == 0
        text = lp.read_text()
        assert text.startswith("\\ cost program of chat-7b: the optimum is dollars per hour\n")
        for row, field, line in (
            ("memory", "hardware.gpus", 12),
            ("tpot", "brief.tpot_target_ms", 9),
            ("capacity", "brief.requests_per_s", 5),
        ):
            assert f"\\ rows {row}*: {field} ({CHAT_CASE}:{line})" in text
            assert f"\n{row}" in text

    def test_no_levers_leaves_the_ranking_out(self) -> None:
        assert optimise(CHAT_CASE, "--no-levers", "--format", "json").data["levers"] == []
        assert "Levers" not in optimise(CHAT_CASE, "--no-levers").out

    @pytest.mark.parametrize("name", ["cp-sat", "highs", "cbc"])
    def test_every_solver_and_its_cross_check(self, name: str) -> None:
        ran = optimise(
            CHAT_CASE, "--solver", name, "--cross-check", "--no-levers", "--format", "json"
        )
        proof = ran.data["proof"]
        assert ran.code == 0
        assert proof["solver"] == name
        assert proof["cross_check"] not in (None, name)
        assert (proof["objective_usd_per_hour"], proof["gap_frac"]) == (6.0, 0)


def _without_seconds(text: str) -> str:
    return "\n".join(
        line.split('"seconds":')[0]
        if '"seconds":' in line
        else line.rsplit(", ", 1)[0]
        if "configuration, " in line
        else line
        for line in text.splitlines()
    )


def test_a_case_error_is_one_json_object_with_every_option(tmp_path: Path) -> None:
    path = written(tmp_path, edited(3, "  requests_per_s: 0"))
    refused(path, "3: brief.requests_per_s: found 0, expected greater than 0")
    out = tmp_path / "out.json"
    ran = optimise(path, "--format", "json", "-o", out)
    assert ran.data["status"] == "error"
    assert not out.exists()


def test_a_fleet_is_cross_checked_and_takes_any_solver() -> None:
    roofline = ("--set=assumptions.latency=ideal", "--set=assumptions.efficiency=0.7")
    quick = ("fleet-azure", *roofline, "--no-levers", "--format=json")
    ran = optimise(*quick, "--cross-check")
    assert (ran.code, ran.data["proof"]["solver"]) == (0, "fleet")
    assert ran.data["proof"]["cross_check"] == "highs"
    other = optimise(*quick, "--solver=cp-sat")
    assert (other.code, other.data["proof"]["solver"]) == (0, "cp-sat")
    assert other.data["figures"]["usd_per_hour"] == ran.data["figures"]["usd_per_hour"]
    assert other.data["design"] == ran.data["design"]


def test_a_model_without_kv_heads_is_planned_with_its_levers() -> None:
    ran = optimise("llama-3.1-8b", "--set", "model=mamba-2.8b", "--format=json")
    assert (ran.code, ran.data["design"]["kv_heads"]) == (0, 0)
    refused = optimise("llama-3.1-8b", "--set", "model=mamba-2.8b", "--set", "levers.kv_heads=1")
    assert refused.code == 1
    assert "levers.kv_heads: mamba-2.8b has no KV heads" in refused.err


def test_a_brief_beyond_the_longest_context_is_told() -> None:
    ran = optimise("chat-7b", "--set", "brief.prompt_tokens=8000", "--format=json")
    assert ran.code == 0
    assert "8,300 tokens, beyond the longest context of llama-2-7b, 4,096" in ran.err
    assert any("beyond the longest context" in line for line in ran.data["assumptions"])


def test_whole_fields_work_at_whole_values() -> None:
    ran = optimise("chat-7b", "--set", "limits.most_gpus=2", "--format=json")
    nearest = {near["requirement"]: near for near in ran.data["conflict"]["nearest"]}
    assert repr(nearest["limits.most_gpus"]["works_at"]) == "3"
