# SPDX-License-Identifier: Apache-2.0
"""Cinder's own tests of its RBD driver, on this project's driver with nothing superposed."""

from collections.abc import Mapping
import inspect
from typing import Any
import unittest
from unittest import mock

from cinder.interface import util
from cinder.interface import volume_driver
from cinder.tests.unit.volume.drivers import test_rbd
import testtools

from specreds_cinder import driver
from specreds_cinder import exception


class _Nothing(int):
    """Zero, also where a test subtracts it from a sentinel."""

    def __floordiv__(self, _other: Any) -> '_Nothing':
        return self

    def __rsub__(self, other: Any) -> Any:
        return other


def _answer(_ctxt: Any, method: str, **_arguments: Any) -> Any:
    if method == 'monitors':
        # The driver then queries the monitors as Cinder does.
        raise exception.SuperpositionUnavailable('no answer')
    return {'ping': None, 'find': None, 'image_id': None, 'list': [],
            'provisioned': _Nothing(), 'count_fenced': 0}[method]


class _NothingSuperposed:
    """Replaces the worker by one without superpositions."""

    def setUp(self: Any) -> None:
        patch = mock.patch.object(driver.SuperRBDDriver, 'worker', mock.Mock(call=_answer))
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()  # type: ignore[misc]


class RBDTestCase(_NothingSuperposed, test_rbd.RBDTestCase):

    def setUp(self) -> None:
        super().setUp()
        # Cinder's class itself stays: its tests patch methods that are inherited.
        self.driver = driver.SuperRBDDriver(execute=mock.Mock(return_value=('', '')),
                                            configuration=self.cfg)
        self.driver.set_initialized()

    @staticmethod
    def _make_drv(conf_in: Mapping[str, Any]) -> driver.SuperRBDDriver:
        made = driver.SuperRBDDriver(
            execute=mock.Mock(return_value=('', '')), rbd=mock.MagicMock(),
            configuration=test_rbd.RBDTestCase._make_configuration(conf_in))
        made.set_initialized()
        return made

    def assertDictEqual(self, expected: Mapping[str, Any], actual: Mapping[str, Any],
                        *message: Any) -> None:
        """Compare without the fields that the driver adds to a back end's statistics."""
        if 'storage_protocol' in actual:
            added = {'superposition': True, 'fenced_clients': 0}
            self.assertLessEqual(added.items(), actual.items())
            actual = {name: value for name, value in actual.items() if name not in added}
        super().assertDictEqual(expected, actual, *message)


class ManagedRBDTestCase(_NothingSuperposed, test_rbd.ManagedRBDTestCase):

    driver_name = 'specreds_cinder.driver.SuperRBDDriver'

    def setUp(self) -> None:
        super().setUp()
        self.assertIs(driver.SuperRBDDriver, type(self.volume.driver))


class ComplianceTest(testtools.TestCase):
    """Cinder's requirements of a driver."""

    def test_driver_is_registered(self) -> None:
        self.assertIn(driver.SuperRBDDriver,
                      {registered.cls for registered in util.get_volume_drivers()})

    def test_driver_is_a_volume_driver(self) -> None:
        # Cinder's own test of compliance checks this alone.
        self.assertTrue(issubclass(driver.SuperRBDDriver, volume_driver.VolumeDriverCore))

    def test_overridden_methods_keep_their_signatures(self) -> None:
        ours, theirs = driver.SuperRBDDriver, test_rbd.driver.RBDDriver
        overridden = [name for name, member in vars(ours).items()
                      if inspect.isfunction(member) and hasattr(theirs, name)
                      and name != '__init__']
        self.assertIn('initialize_connection', overridden)
        for name in overridden:
            expected = list(inspect.signature(getattr(theirs, name)).parameters)
            for arguments, keywords in ((expected, {}),
                                        (expected[:1], dict.fromkeys(expected[1:]))):
                # Raises TypeError where it cannot be called as theirs.
                inspect.signature(getattr(ours, name)).bind(*arguments, **keywords)


class CountTest(testtools.TestCase):

    def test_all_tests_of_cinder_run(self) -> None:
        names = unittest.TestLoader().getTestCaseNames
        theirs = {name: names(case) for name, case in inspect.getmembers(test_rbd, inspect.isclass)
                  if issubclass(case, unittest.TestCase) and case.__module__ == test_rbd.__name__}
        ours = {case.__name__: names(case) for case in (RBDTestCase, ManagedRBDTestCase)}
        self.assertEqual(theirs, ours)
        self.assertGreater(sum(map(len, ours.values())), 150)
