# SPDX-License-Identifier: Apache-2.0
"""The page of timing formulas: its values are those of the code, and its formulas hold."""

import re
import types
from typing import Any

from oslo_config import cfg
import testtools

from specreds_cinder.superposition import settings
from specreds_nova import conf as nova_conf
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import timing
from specreds_nova.engine.detection import accrual
from specreds_nova.heartbeat import renewals
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import watch
from specreds_nova.tests.unit.packaging import base

# Of Ceph: osd_client_watch_timeout, the lifetime of a dead client's watch.
_WATCH_TIMEOUT = 30
_PAGE = (base.ROOT / 'doc/source/timing.rst').read_text()
# A row of the table of constants, and the module or package that the row names.
_CONSTANT = re.compile(
    r'^``([A-Z_]+)`` +([\d.]+) .*(?:\n {20}.*)*?``(specreds_\w+/[\w/]+?)(?:\.py)?``', re.MULTILINE)
_FORMULA = re.compile(r'^   \* - ``(.+)``$', re.MULTILINE)
# The formula of a row, and what checks it.
_ROW = re.compile(r'^   \* - ``(.+)``\n     - .*\n(?: {7}.*\n)*     - ((?:.*\n)(?: {7}.*\n)*)',
                  re.MULTILINE)
_BOUND = re.compile(r'^   \* - ``(.+)``\n     - ([\d.]+)$', re.MULTILINE)


def _defaults(*options: cfg.Opt) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{option.dest: option.default for option in options})


def _names(**options: float) -> dict[str, Any]:
    engine = _defaults(*engine_conf.OPTIONS)
    vars(engine).update(options)
    nova = _defaults(*nova_conf.OPTIONS, *sentinel_conf.OPTIONS)
    constants = {name: float(value)
                 for name, value in re.findall(r'^``([A-Z_]+)`` +([\d.]+) ', _PAGE, re.MULTILINE)}
    silence = nova.heartbeat_interval * (1 + constants['SIGMAS'] * engine.suspicion_floor)
    return {**constants, 'SILENCE': silence, 'engine': engine, 'nova': nova,
            'min': min, 'max': max}


def _constant(path: str, name: str) -> float:
    """Return a constant of a module that cannot be imported beside the others."""
    [value] = re.findall(rf'^{name} = ([\d.]+)$', _source(path), re.MULTILINE)
    return float(value)


def _source(path: str) -> str:
    """Return the source of a module, or those of all modules of a package."""
    place = base.ROOT / path
    modules = sorted(place.glob('*.py')) if place.is_dir() else [place.with_suffix('.py')]
    return '\n'.join(module.read_text() for module in modules)


class TimingTest(testtools.TestCase):

    def evaluate(self, formula: str, **options: float) -> float:
        value: float = eval(formula, {'__builtins__': {}}, _names(**options))
        return value

    def test_constants_are_those_of_the_code(self) -> None:
        constants = {name: (value, path) for name, value, path in _CONSTANT.findall(_PAGE)
                     if name != 'SIGMAS'}
        self.assertGreater(len(constants), 5)
        for name, (value, path) in constants.items():
            values = re.findall(rf'^_?{name} = ([\d.]+)$', _source(path), re.MULTILINE)
            self.assertEqual([float(value)], [float(each) for each in values], name)

    def test_silence_is_that_of_the_detector(self) -> None:
        names = _names()
        detector = accrual.Accrual(accrual.Settings(), 0.0, names['nova'].heartbeat_interval)
        self.assertAlmostEqual(names['SILENCE'], detector.deadline, 3)

    def test_conditions_hold_with_the_defaults(self) -> None:
        conditions = [formula for formula in _FORMULA.findall(_PAGE)
                      if re.search('[<>=]', formula)]
        self.assertGreater(len(conditions), 10)
        for formula in conditions:
            self.assertIs(True, self.evaluate(formula), formula)

    def test_formulas_that_the_engine_checks_are_those_of_the_page(self) -> None:
        on_page = {formula for formula, checked in _ROW.findall(_PAGE)
                   if '``specreds-engine`` warns' in checked}
        self.assertEqual({condition.formula for condition in timing.CONDITIONS}, on_page)

    def test_engine_and_page_agree_on_each_formula(self) -> None:
        for condition in timing.CONDITIONS:
            option = re.findall(r'engine\.(\w+)', condition.formula)[0]
            results = set()
            for value in (0.1, 0.3, 0.7, 1.5, 4.9, 5.1, 9.0, 11.0, 200.0, 400.0):
                names = _names(**{option: value})
                times = timing.Times(names['engine'], names['nova'].heartbeat_interval)
                holds = self.evaluate(condition.formula, **{option: value})
                self.assertIs(holds, condition.holds(times),
                              f'{condition.formula}, {value}')
                results.add(holds)
            self.assertEqual({True, False}, results, condition.formula)

    def test_options_to_correct_are_those_of_the_formula(self) -> None:
        for condition in timing.CONDITIONS:
            of_formula = re.findall(r'engine\.(\w+)', condition.formula)
            if 'SILENCE' in condition.formula:
                of_formula.append('suspicion_floor')
            names = [option.removeprefix('[engine] ') for option in condition.options]
            self.assertLessEqual(set(names), set(of_formula))

    def test_volume_services_keep_fences_and_resume_steps_in_time(self) -> None:
        ceph = _constant('specreds_cinder/driver', '_TIMEOUT_S')
        defaults = settings.Settings()
        self.assertGreater(defaults.stale_after_s, ceph)
        cinder = _constant('specreds_nova/virt/cinder_api', '_TIMEOUT_S')
        self.assertGreater(min(_names()['engine'].collapse_timeout, cinder), ceph)
        self.assertGreater(_constant('specreds_cinder/volume/housekeeping', '_MERGE_DELAY_S'),
                           cinder)
        # No entry expires between two looks, even if one of them fails.
        self.assertGreaterEqual(
            defaults.fence_expiry_s / 4,
            max(_constant('specreds_cinder/manager', '_PASS_S'),
                _constant('specreds_cinder/superposition/protocol', '_LOOK_S')))

    def test_sentinel_tells_a_fence_from_an_entry_of_librbd(self) -> None:
        longest = watch.Settings().fenced_for_good_s
        self.assertGreater(settings.Settings().fence_expiry_s / 2, longest)
        self.assertGreater(longest, _names()['LIBRBD_EXPIRY'])

    def test_sentinel_is_patient_with_ceph(self) -> None:
        look = _constant('specreds_nova/sentinel/main', '_INTERVAL_S')
        # One slow call does not end the lease of a host that no engine answers.
        self.assertGreater(renewals.LEASE_S,
                           sentinel_conf.TIMEOUT_S + look + sentinel_conf.AGAIN_S)
        self.assertGreater(_constant('specreds_nova/sentinel/main', '_HUNG'),
                           sentinel_conf.TIMEOUT_S)
        # Clients of a domain are seen before the watch of a client that hangs expires.
        self.assertGreater(_WATCH_TIMEOUT, watch.Settings().learn_s)
        self.assertGreater(_constant('specreds_nova/sentinel/memory', '_LINGER_S'), _WATCH_TIMEOUT)

    def test_hosts_answer_often_enough_and_wait_long_enough(self) -> None:
        probe = _constant('specreds_nova/virt/liveness/probes', '_INTERVAL_S')
        engine = _names()['engine']
        self.assertGreater(_constant('specreds_nova/engine/detection/suspects', '_STALL'), probe)
        self.assertGreater(min(engine.libvirt_patience, engine.storage_patience) / 2, probe)
        self.assertEqual(engine.ready_timeout,
                         _constant('specreds_nova/virt/ready/conditions', 'READY_TIMEOUT_S'))
        # Cinder can merge what a dead host had open.
        settle = 'specreds_nova/virt/unmerged/settling'
        self.assertGreater(_constant(settle, 'PATIENCE_S'),
                           _WATCH_TIMEOUT + _constant(settle, '_AGAIN_S'))
        self.assertGreater(engine.adopt_timeout, _constant(settle, 'PATIENCE_S'))

    def test_bounds_are_what_the_page_says(self) -> None:
        bounds = _BOUND.findall(_PAGE)
        self.assertGreater(len(bounds), 5)
        for formula, value in bounds:
            self.assertAlmostEqual(float(value), self.evaluate(formula), 6, formula)
