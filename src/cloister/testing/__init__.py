"""Conformance suites and fakes that we ship."""
