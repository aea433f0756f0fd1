"""Tests of CPython's that cannot hold for translated functions, and why."""

import re

# File, pattern of the test's id behind the file's name, oldest and first later minor version, reason.
EXCLUDED = []


def reason_for(name, test, minor):
    """Why a test is left out, if it is."""
    prefix = f"test.{name}."
    test = test[len(prefix):] if test.startswith(prefix) else test
    for file, pattern, since, until, reason in EXCLUDED:
        if file == name and since <= minor < until and re.search(pattern, test):
            return reason
    return None
