"""The tour that `cloister demo` gives: real programs, real workers, a real `kill -9`. No key, no network."""
