# SPDX-License-Identifier: Apache-2.0
"""The page of timing: its values are the code's. Conditions between constants hold."""

import re
import types
from typing import Any

from oslo_config import cfg
import testtools

from specreds_cinder.superposition import settings
from specreds_nova import conf as nova_conf
from specreds_nova.beats import renewals
from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import timing
from specreds_nova.engine.recovery import settings as recovery
from specreds_nova.engine.suspicion import accrual
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import watch
from specreds_nova.tests.unit.packaging import base

# Of Ceph: osd_client_watch_timeout, the lifetime of a dead client's watch.
_WATCH_TIMEOUT = 30
# Of librbd: the lifetime of the blocklist entries that it makes.
_LIBRBD_EXPIRY = 3600
_PAGE = (base.ROOT / 'doc/source/timing.rst').read_text()
# A row of the table of constants, and the module or package that the row names.
_CONSTANT = re.compile(
    r'^``([A-Z_]+)`` +([\d.]+) .*(?:\n {20}.*)*?``(specreds_\w+/[\w/]+?)(?:\.py)?``', re.MULTILINE)
_BOUND = re.compile(r'^   \* - ``(.+)``\n     - ([\d.]+)$', re.MULTILINE)


def _defaults(*options: cfg.Opt) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{option.dest: option.default for option in options})


def _names() -> dict[str, Any]:
    constants = {name: float(value)
                 for name, value in re.findall(r'^``([A-Z_]+)`` +([\d.]+) ', _PAGE, re.MULTILINE)}
    return {**constants, 'engine': _defaults(*engine_conf.OPTIONS),
            'nova': _defaults(*nova_conf.OPTIONS), 'recovery': recovery.Settings}


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

    def evaluate(self, formula: str) -> float:
        value: float = eval(formula, {'__builtins__': {}}, _names())
        return value

    def test_constants_are_those_of_the_code(self) -> None:
        constants = {name: (value, path) for name, value, path in _CONSTANT.findall(_PAGE)
                     if name not in ('SIGMAS', 'LONGEST')}
        self.assertGreater(len(constants), 2)
        for name, (value, path) in constants.items():
            values = re.findall(rf'^_?{name} = ([\d.]+)$', _source(path), re.MULTILINE)
            self.assertEqual([float(value)], [float(each) for each in values], name)

    def test_detector_is_as_patient_as_the_page_says(self) -> None:
        names, detector = _names(), accrual.Settings()
        self.assertAlmostEqual(names['SIGMAS'], detector.sigmas, 2)
        self.assertEqual(names['LONGEST'], detector.longest)
        interval = names['nova'].heartbeat_interval
        silence = interval * (1 + names['SIGMAS'] * detector.floor)
        self.assertAlmostEqual(
            silence, accrual.Accrual(detector, 0.0, interval).deadline, 3)
        self.assertAlmostEqual(silence + 3 * interval, timing.cleared(interval), 3)

    def test_detector_tells_failures_from_pauses(self) -> None:
        interval = _names()['nova'].heartbeat_interval
        detector, monitor = accrual.Settings(), monitoring.Settings()
        silence = accrual.Accrual(detector, 0.0, interval).deadline
        # The loss of two beats suspects nobody.
        self.assertGreater(silence, 3 * interval)
        # The limit for uneven hosts does not apply to even ones, and flapping ones wait longer.
        self.assertGreater(gates.FLAPPING_S, detector.longest)
        self.assertGreater(detector.longest, silence)
        # An echo may be late without a pause, and not every pause is an outage.
        self.assertGreaterEqual(monitor.link.pause, 2.5 * monitor.link.echo)
        self.assertGreater(monitor.link.outage, monitor.link.pause)
        # Nova's word on a host is repeated before the engine forgets it.
        self.assertGreater(monitor.evidence_lifetime, timing.ASK_NOVA)
        votes = 'specreds_nova/engine/suspicion/votes'
        self.assertGreater(_constant(votes, '_?STALE'), 3 * _constant(votes, '_?REPEAT'))

    def test_one_crash_makes_one_recovery(self) -> None:
        self.assertGreater(_constant('specreds_nova/engine/recovery/dispatch', '_?TOLD'),
                           _constant('specreds_nova/beats/message', '_?REPEATED'))

    def test_race_is_patient_with_hosts(self) -> None:
        names = _names()
        settings = names['recovery']
        self.assertGreater(settings.destination_timeout,
                           accrual.Accrual(accrual.Settings(), 0.0,
                                           names['nova'].heartbeat_interval).deadline)
        self.assertGreaterEqual(settings.abort_timeout, names['CALL_S'])
        self.assertGreaterEqual(settings.ready_timeout_max, settings.ready_timeout)

    def test_lease_is_renewed_in_time_and_outwaited(self) -> None:
        names = _names()
        margin = names['recovery'].network_lease_margin
        self.assertGreater(margin, 2 * names['LEASE_STEP_S'])
        # Each answer finds a heartbeat that was not answered before.
        self.assertGreater(names['LEASE_S'] / 4, 2 * names['nova'].heartbeat_interval)
        self.assertGreater(names['ACTS_S'],
                           names['FRESH'] + names['HEEDED_S'] + names['SENTINEL_S'])
        # A decision by a first frame does not wait for the lease, after all engines have voted.
        self.assertGreaterEqual(names['NOT_BEFORE'], names['LEASE_S'] + margin)
        # Evacuations do not wait for the lease.
        self.assertGreater(names['engine'].evacuate_after / 2, names['LEASE_S'] + margin)

    def test_volume_services_keep_fences_and_resume_steps_in_time(self) -> None:
        ceph = _constant('specreds_cinder/driver', '_TIMEOUT_S')
        defaults = settings.Settings()
        self.assertGreater(defaults.stale_after_s, ceph)
        cinder = _constant('specreds_nova/host/cinder_api', '_TIMEOUT_S')
        self.assertGreater(min(_constant('specreds_nova/engine/clients/volumes', 'PATIENCE_S'),
                               cinder), ceph)
        self.assertGreater(_constant('specreds_cinder/service/housekeeping', '_MERGE_DELAY_S'),
                           cinder)
        # No entry expires between two looks, even if one of them fails.
        self.assertGreaterEqual(
            defaults.fence_expiry_s / 4,
            max(_constant('specreds_cinder/manager', '_PASS_S'),
                _constant('specreds_cinder/superposition/steps', '_LOOK_S')))

    def test_sentinel_tells_a_fence_from_an_entry_of_librbd(self) -> None:
        longest = watch.Settings().fenced_for_good_s
        self.assertGreater(settings.Settings().fence_expiry_s / 2, longest)
        self.assertGreater(longest, _LIBRBD_EXPIRY)

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
        probe = _constant('specreds_nova/beats/probes', '_INTERVAL_S')
        self.assertGreater(_constant('specreds_nova/engine/suspicion/suspects', '_STALL'), probe)
        self.assertGreater(min(monitoring.Settings.libvirt_patience,
                               monitoring.Settings.storage_patience) / 2, probe)
        self.assertEqual(recovery.Settings.ready_timeout,
                         _constant('specreds_nova/host/ready/conditions', 'READY_TIMEOUT_S'))
        # Cinder can merge what a dead host had open.
        settle = 'specreds_nova/host/unmerged/settling'
        self.assertGreater(_constant(settle, 'PATIENCE_S'),
                           _WATCH_TIMEOUT + _constant(settle, '_AGAIN_S'))
        self.assertGreater(recovery.Settings.adopt_timeout, _constant(settle, 'PATIENCE_S'))

    def test_bounds_are_what_the_page_says(self) -> None:
        bounds = _BOUND.findall(_PAGE)
        self.assertGreater(len(bounds), 5)
        for formula, value in bounds:
            self.assertAlmostEqual(float(value), self.evaluate(formula), 6, formula)
