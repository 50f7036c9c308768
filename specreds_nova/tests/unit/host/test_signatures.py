# SPDX-License-Identifier: Apache-2.0
"""Guards of Nova's methods, whose signatures differ between releases."""

import inspect
from typing import Any

import testtools

from specreds_nova.host import signatures


class Older:
    """A driver of one release of Nova."""

    def start(self, context: Any, instance: Any, disks: Any = 'all') -> Any:
        """Take three arguments."""
        return ('older', context, instance, disks)


class Newer:
    """A driver of the next release."""

    def start(self, context: Any, instance: Any, power_on: Any = True, disks: Any = 'all',
              share_info: Any = None) -> Any:
        """Take five arguments in another order."""
        return ('newer', context, instance, power_on, disks, share_info)


def ours(base: Any) -> Any:
    """Return a driver that records the servers that are started."""
    class Ours(base):
        def __init__(self) -> None:
            self.noted: list[tuple[Any, Any]] = []

        @signatures.before(base)
        def start(self, instance: Any, disks: Any) -> None:
            """Record the start."""
            self.noted.append((instance, disks))
    return Ours()


class BeforeTest(testtools.TestCase):

    def test_arguments_are_read_by_name_and_passed_on_unchanged(self) -> None:
        for base, args, kwargs, read, result in (
                (Older, ('context', 'server', 'one'), {}, ('server', 'one'),
                 ('older', 'context', 'server', 'one')),
                (Older, ('context',), {'instance': 'server'}, ('server', 'all'),
                 ('older', 'context', 'server', 'all')),
                (Newer, ('context', 'server', False, 'one', 'shares'), {}, ('server', 'one'),
                 ('newer', 'context', 'server', False, 'one', 'shares')),
                (Newer, ('context', 'server'), {'share_info': 'shares'}, ('server', 'all'),
                 ('newer', 'context', 'server', True, 'all', 'shares'))):
            driver = ours(base)
            self.assertEqual(result, driver.start(*args, **kwargs))
            self.assertEqual([read], driver.noted)

    def test_signature_is_that_of_the_release(self) -> None:
        for base in (Older, Newer):
            self.assertEqual(inspect.getfullargspec(base().start),
                             inspect.getfullargspec(ours(base).start))

    def test_unknown_argument_is_refused_before_the_guard_runs(self) -> None:
        driver = ours(Older)
        self.assertRaises(TypeError, driver.start, 'context', 'server', share_info='shares')
        self.assertEqual([], driver.noted)

    def test_missing_parameter_of_a_release_is_named(self) -> None:
        class Other:
            def start(self, context: Any) -> None:
                """Take one argument."""

        exc = self.assertRaises(TypeError, ours, Other)
        self.assertIn('start() has no argument instance, disks', str(exc))
