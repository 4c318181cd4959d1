"""Faults on the real host, and what must be true after each."""

import pytest

pytest.register_assert_rewrite("tests.chaos.account", "tests.chaos.footprint", "tests.chaos.watched")
