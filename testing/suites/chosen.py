# SPDX-License-Identifier: Apache-2.0
"""A process that runs the tests of some modules that match, and writes subunit's format.

It loads only these modules, where a search for tests would load all of a suite.
"""

import re
import sys
import unittest

from subunit import run as subunit_run
import testtools


def main(regex: str, modules: list[str]) -> int:
    """Return the exit status: 1 if a test failed.

    :param regex: regular expression; the tests run whose name it matches
    :param modules: names of modules
    """
    wanted = re.compile(regex)
    loaded = unittest.defaultTestLoader.loadTestsFromNames(modules)
    # A module that cannot be imported is one test, which fails.
    tests = [test for test in testtools.iterate_tests(loaded)
             if wanted.search(test.id()) or test.id().startswith('unittest.loader.')]
    result = subunit_run.SubunitTestRunner(stream=sys.stdout).run(unittest.TestSuite(tests))
    return 0 if result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
