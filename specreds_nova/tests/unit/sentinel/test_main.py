# SPDX-License-Identifier: Apache-2.0
"""The sentinel's daemon: start, watchdog and end."""

import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
from typing import Any
from unittest import mock

import fixtures
from oslo_log import log as logging
import testtools

from specreds_cinder import removed_options
from specreds_nova.beats import message
from specreds_nova.beats import renewals
from specreds_nova.beats import speaker
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import main
from specreds_nova.sentinel import pings
from specreds_nova.sentinel import privileges
from specreds_nova.sentinel import status
from specreds_nova.sentinel import watch
from specreds_nova.sentinel import witness

# Seconds by which a host has heard Ceph after all that a test does.
_LATER = 1000.0


class _Replaced(Exception):
    """Stands for the end of the process that execv replaces."""


class MainTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        # The looking thread may outlive a test for a moment and write its status.
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        conf = self.root / 'nova.conf'
        conf.write_text(f'[DEFAULT]\nstate_path = {self.root}\n'
                        '[libvirt]\nrbd_user = cinder\n')
        self.argv = ['--config-file', str(conf)]
        self.look = mock.Mock()
        self.stopping: dict[int, Any] = {}
        for target, name, new in (
                (watch.HostWatch, 'look', self.look), (main, '_STEP_S', 0.01),
                (domains.Hypervisor, 'unpaused', lambda _: frozenset({'s1'})),
                (main, '_LEASE_STEP_S', 0.001), (main, '_INTERVAL_S', 0.1), (main, '_HUNG', 10),
                (main, '_STATUS_S', 0),
                (signal, 'signal', self.stopping.__setitem__),
                (logging, 'setup', mock.Mock())):
            patcher = mock.patch.object(target, name, new)
            self.addCleanup(patcher.stop)
            patcher.start()

    def _stop(self) -> None:
        self.stopping[signal.SIGTERM](signal.SIGTERM, None)

    def test_sentinel_looks_until_sigterm(self) -> None:
        def stop() -> None:
            if self.look.call_count >= 3:
                self._stop()
        self.look.side_effect = stop
        self.assertEqual(0, main.main(self.argv))
        status = json.loads((self.root / 'specreds/sentinel.json').read_text())
        self.assertEqual(os.getpid(), status['pid'])

    def test_systemd_is_told_that_the_sentinel_is_ready_alive_and_stopping(self) -> None:
        path = self.root / 'notify'
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind(str(path))
            notified.settimeout(30.0)
            self.useFixture(fixtures.EnvironmentVariable('NOTIFY_SOCKET', str(path)))
            running = threading.Thread(target=main.main, args=(self.argv,), daemon=True)
            running.start()
            messages = [notified.recv(1024), notified.recv(1024)]
            self._stop()
            while messages[-1] != b'STOPPING=1':
                messages.append(notified.recv(1024))
            running.join(30.0)
        self.assertEqual([b'READY=1', b'WATCHDOG=1\nSTATUS=ok'], messages[:2])

    def test_objects_of_this_host_are_watched(self) -> None:
        with mock.patch.object(watch.HostWatch, 'places', lambda _: {('cinder', 'volumes')}), \
                mock.patch.object(witness.Witness, 'watch') as watching, \
                mock.patch.object(witness.Witness, 'close') as closing:
            watching.side_effect = lambda *_: self._stop()
            main.main(self.argv)
        self.assertEqual(('cinder', 'volumes'), watching.call_args.args[::2])
        # Nobody asks a sentinel that is stopped in good order.
        closing.assert_called_once_with()

    def test_servers_are_known_while_a_look_waits_for_a_pool(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        self.look.side_effect = release.wait
        answers = []

        def watch_pools(bearing: witness.Witness, *_: object) -> None:
            answers.append(bearing._running())
            if answers[-1] is not None or len(answers) == 50:
                self._stop()
        with mock.patch.object(watch.HostWatch, 'places', lambda _: {('cinder', 'volumes')}), \
                mock.patch.object(pings, 'Pings'), mock.patch.object(os, 'execv'), \
                mock.patch.object(witness.Witness, 'watch', watch_pools):
            main.main(self.argv)
        self.assertEqual(frozenset({'s1'}), answers[-1])

    def test_hanging_lease_restarts_the_sentinel(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        with mock.patch.object(lease.Lease, 'look', lambda *_: release.wait()), \
                mock.patch.object(os, 'execv', side_effect=_Replaced) as execv:
            self.assertRaises(_Replaced, main.main, self.argv)
        self._stop()
        self.assertEqual(1, execv.call_count)

    def test_missing_capabilities_are_logged_at_start(self) -> None:
        self.look.side_effect = self._stop
        for missing, times in ((['CAP_KILL', 'CAP_NET_ADMIN'], 1), ([], 0)):
            with mock.patch.object(privileges, 'missing', return_value=missing), \
                    mock.patch.object(main.LOG, 'error') as error:
                main.main(self.argv)
            self.assertEqual(times, error.call_count)
            if missing:
                self.assertIn('CAP_KILL and CAP_NET_ADMIN', error.call_args.args)

    def test_removed_options_are_named_at_start(self) -> None:
        self.look.side_effect = self._stop
        with (self.root / 'nova.conf').open('a') as file:
            file.write('[specreds]\nsentinel_watchdog = 9\nsentinel_clients = a:b\n')
        with mock.patch.object(removed_options.LOG, 'warning') as warning:
            self.assertEqual(0, main.main(self.argv))
        [call] = warning.call_args_list
        self.assertIn('sentinel_watchdog', call.args)

    def test_ceph_is_asked_beside_the_looks(self) -> None:
        questions = self.useFixture(fixtures.MockPatchObject(pings, 'Pings')).mock

        def stop() -> None:
            if questions().look.called:
                self._stop()
        self.look.side_effect = stop
        main.main(self.argv)
        questions().stop.assert_called_once_with()

    def test_status_tells_when_the_sentinel_has_looked_and_whether_it_has_a_lease(self) -> None:
        def stop() -> None:
            if self.look.call_count % 3 == 0:
                self._stop()
        self.look.side_effect = stop
        (self.root / 'specreds').mkdir()
        for hides, held in ((None, message.UNLEASED), (False, message.SHOWS),
                            (True, message.LEASED)):
            if hides is not None:
                lease.Lease(4.0, self.root / 'specreds/sentinel-taps.json',
                            mock.Mock()).renewed(renewals.now(), hides)
            before = renewals.now()
            main.main(self.argv)
            written = status.read(self.root / 'specreds/sentinel.json')
            self.assertEqual(held, written.lease)
            self.assertTrue(before <= written.looked <= renewals.now())

    def test_host_has_no_lease_before_its_sentinel_could_read_all_of_its_records(self) -> None:
        (self.root / 'specreds').mkdir()
        lease.Lease(4.0, self.root / 'specreds/sentinel-taps.json', mock.Mock()).renewed(
            renewals.now(), True)
        places = {('cinder', 'volumes'), ('nova', 'vms')}
        self.useFixture(fixtures.MockPatchObject(watch.HostWatch, 'places', lambda _: places))
        self.useFixture(fixtures.MockPatchObject(witness.Witness, 'watch'))
        self.useFixture(fixtures.MockPatchObject(pings, 'Pings'))
        reported = []
        for answered in ((), ('cinder', 'volumes'), ('nova', 'vms'), ()):
            def look(watching: watch.HostWatch, answered: tuple[str, ...] = answered) -> None:
                watching.status.looks += 1
                if answered:
                    watching.answers[answered[0], answered[1]] = None
                if watching.status.looks == 3:
                    self._stop()
            with mock.patch.object(watch.HostWatch, 'look', look):
                main.main(self.argv)
            reported.append(status.read(self.root / 'specreds/sentinel.json').lease)
        # What was read is remembered.
        self.assertEqual([message.UNLEASED] * 2 + [message.LEASED] * 2, reported)

    def test_ceph_that_was_never_heard_is_late_since_its_server_was_seen(self) -> None:
        guests = [lease.Guest('s2', (), heard=renewals.now() + _LATER)]
        speaking = self.useFixture(fixtures.MockPatchObject(speaker, 'Speaker')).mock
        speaking.return_value.renewed.return_value = None
        # When it is now, and the age.
        ages: list[tuple[float, float | None]] = []

        def look() -> None:
            age = speaking.call_args.args[3]()[1]
            ages.append((renewals.now(), age))
            if self.look.call_count == 3:
                guests.append(lease.Guest('s1', ()))
            if self.look.call_count == 50 or (age or 0.0) > 0.2:
                self._stop()
        self.look.side_effect = look
        with mock.patch.object(watch.HostWatch, 'guests', lambda _: guests):
            main.main(self.argv)
        (seen, _), (now, age) = ages[2], ages[-1]
        assert age is not None
        self.assertTrue(0.2 < age <= now - seen)

    def test_failed_look_is_repeated(self) -> None:
        def look() -> None:
            if self.look.call_count >= 3:
                self._stop()
            raise ValueError('whatever')
        self.look.side_effect = look
        self.assertEqual(0, main.main(self.argv))

    def test_hanging_look_restarts_the_sentinel(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)
        self.look.side_effect = release.wait
        with mock.patch.object(os, 'execv', side_effect=_Replaced) as execv:
            self.assertRaises(_Replaced, main.main, self.argv)
        # Otherwise its thread would continue to look during the next tests.
        self._stop()
        # No module beside the script is imported, whichever way it was started.
        execv.assert_called_once_with(sys.executable, [sys.executable, '-P', *sys.argv])

    def test_second_sentinel_refuses_to_start(self) -> None:
        def second() -> None:
            self.assertEqual(1, main.main(self.argv))
            self._stop()
        self.look.side_effect = second
        self.assertEqual(0, main.main(self.argv))
