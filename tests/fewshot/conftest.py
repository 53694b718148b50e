"""Models here are tiny."""

import pytest


@pytest.fixture(autouse=True)
def _always_one_thread(one_thread):
    return one_thread
