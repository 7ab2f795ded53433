"""Settings that every test shares."""

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.cli.running", "tests.oracle", "tests.strategies")

settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
