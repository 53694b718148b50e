"""Checks that take longer than a test suite: what they do and how to run them is in docs/reliability.md."""
