"""Attempts to break what udtw reads and writes: mutated files, and processes killed at any moment."""
