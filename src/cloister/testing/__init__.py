"""What we ship for tests: conformance suites that every implementation of a port passes. May import everything."""
