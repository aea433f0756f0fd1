"""Runs `python -m sot`."""

from sot._command import main

main()
