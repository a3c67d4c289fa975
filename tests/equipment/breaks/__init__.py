"""Seeded breaks: faults in a copy of the package, one at a time, to see which tests fail. `make mutants` runs them."""
