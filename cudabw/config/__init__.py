"""Suites: TOML files that say what to measure, found, read and checked before anything is measured."""
