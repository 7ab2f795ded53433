"""Solvers: one module each, one protocol, imported when asked for."""
