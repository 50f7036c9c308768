# SPDX-License-Identifier: Apache-2.0
"""SpecREDS' tests for Tempest, for any cloud with the plug-ins."""

import pathlib
import unittest

# Directories of the tests for Tempest; those in "tests" test the plug-in, and need no cloud.
SUITES = ('api', 'rbac', 'scenario')


def load_tests(loader: unittest.TestLoader, standard_tests: unittest.TestSuite,
               pattern: str | None) -> unittest.TestSuite:
    """Return what Tempest runs when it discovers tests in this package."""
    here = pathlib.Path(__file__).resolve().parent
    for name in SUITES:
        standard_tests.addTests(loader.discover(
            str(here / name), pattern=pattern or 'test*.py', top_level_dir=str(here.parent)))
    return standard_tests
