# SPDX-License-Identifier: Apache-2.0
"""Errors of Ceph's bindings become errors of this package."""

import errno
import json
import threading
from typing import Any
from unittest import mock

import ddt
import rados
import rbd
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import librados

POOL = {'pool_id': 7, 'pool_name': 'volumes', 'pg_num': 32, 'type': 1, 'tiers': [],
        'tier_of': -1, 'read_tier': -1, 'write_tier': -1, 'application_metadata': {'rbd': {}},
        'last_pg_merge_meta': {'source_pgid': '0.0', 'ready_epoch': 0}, 'object_hash': 2}


@ddt.ddt
class AnsweringTest(testtools.TestCase):

    def fail_with(self, exc: Exception, what: str = 'do it') -> None:
        """Raise an error inside of ``answering``."""
        with ceph.answering(what):
            raise exc

    @ddt.data(rados.TimedOut('late'), rbd.OSError('late', errno.ETIMEDOUT),
              rbd.Timeout('late'), rados.OSError('late', errno.ETIMEDOUT))
    def test_timeout_becomes_a_cluster_timeout(self, exc: Exception) -> None:
        error = self.assertRaises(errors.ClusterTimeout, self.fail_with, exc)
        self.assertIn('could not do it', str(error))

    @ddt.data(rados.OSError('gone', errno.ESHUTDOWN), rbd.OSError('gone', errno.ENOTCONN))
    def test_lost_connection_hints_at_the_blocklist(self, exc: Exception) -> None:
        error = self.assertRaises(errors.ClusterError, self.fail_with, exc)
        self.assertNotIsInstance(error, errors.ClusterTimeout)
        self.assertIn('blocklisted', str(error))

    @ddt.data(rados.PermissionError('no'), rbd.InvalidArgument('no'), rados.IOError('no'))
    def test_other_error_becomes_a_cluster_error(self, exc: Exception) -> None:
        error = self.assertRaises(errors.ClusterError, self.fail_with, exc)
        self.assertIn('no', str(error))
        self.assertIs(exc, error.__cause__)

    @ddt.data(rados.ObjectNotFound('x'), rados.ObjectExists('x'), rbd.ImageNotFound('x'),
              rbd.ImageExists('x'), rbd.ImageBusy('x'), ValueError('x'))
    def test_error_that_callers_handle_passes(self, exc: Exception) -> None:
        self.assertRaises(type(exc), self.fail_with, exc)

    @ddt.data('open pool volumes', 'connect to the cluster of /etc/ceph/ceph.conf')
    def test_missing_pool_or_configuration_is_named(self, what: str) -> None:
        error = self.assertRaises(errors.ClusterError, self.fail_with,
                                  rados.ObjectNotFound('x'), what)
        self.assertIn(what, str(error))


@ddt.ddt
class MonitorTest(testtools.TestCase):

    def ask(self, code: int = 0, out: bytes = b'', status: str = '',
            timeout: float = 3) -> tuple[Any, mock.Mock]:
        """Send a command to a monitor with a given answer."""
        cluster = ceph.Cluster(timeout=timeout, user='cinder')
        handle = mock.Mock(**{'mon_command.return_value': (code, out, status)})
        cluster._rados = handle
        return cluster.mon({'prefix': 'osd dump', 'word': 1}), handle

    def test_command_is_sent_as_json(self) -> None:
        _answer, handle = self.ask()
        (text, data), words = handle.mon_command.call_args
        self.assertEqual({'prefix': 'osd dump', 'word': 1, 'format': 'json'}, json.loads(text))
        self.assertEqual((b'', {'timeout': 3}), (data, words))

    @ddt.data((10.0, 10), (2.1, 3), (0.2, 1))
    @ddt.unpack
    def test_timeout_is_a_whole_number_of_seconds(self, timeout: float, seconds: int) -> None:
        _answer, handle = self.ask(timeout=timeout)
        passed = handle.mon_command.call_args.kwargs['timeout']
        self.assertIsInstance(passed, int)
        self.assertEqual(seconds, passed)

    @ddt.data((b'{"a": 1}\n', {'a': 1}), (b'\n[1, 2]', [1, 2]), (b'', None), (b'text', None),
              (b'[{"addr": "x"}]listed 1 entries', [{'addr': 'x'}]))
    @ddt.unpack
    def test_answer_is_parsed(self, out: bytes, answer: object) -> None:
        self.assertEqual(answer, self.ask(out=out)[0])

    def test_timeout_names_the_command(self) -> None:
        error = self.assertRaises(errors.ClusterTimeout, self.ask, -errno.ETIMEDOUT)
        self.assertIn('osd dump', str(error))
        self.assertIn('3 s', str(error))

    def test_permission_error_names_the_user_and_the_mend(self) -> None:
        error = self.assertRaises(errors.NotAllowed, self.ask, -errno.EACCES)
        self.assertIn('"specreds-super --user admin caps client.cinder"', str(error))

    def test_refusal_has_the_text_of_the_monitor(self) -> None:
        error = self.assertRaises(errors.ClusterError, self.ask, -errno.EINVAL, b'', 'nonsense')
        self.assertEqual('osd dump: nonsense', str(error))

    def test_pools_are_read_from_the_monitor(self) -> None:
        cluster = ceph.Cluster()
        with mock.patch.object(cluster, 'mon', return_value=[POOL]):
            pool = cluster.pools()[7]
        self.assertEqual(('volumes', 32, False, False, True),
                         (pool.name, pool.pg_num, pool.erasure, pool.cache_tier, pool.rbd))
        self.assertIn('source_pgid', pool.merges)
        self.assertTrue(pool.rjenkins)

    def test_other_hash_of_names_is_recognized(self) -> None:
        cluster = ceph.Cluster()
        with mock.patch.object(cluster, 'mon', return_value=[{**POOL, 'object_hash': 1}]):
            self.assertFalse(cluster.pools()[7].rjenkins)

    @ddt.data(({'tiers': [3]}, True), ({'tier_of': 0}, True), ({'read_tier': 2}, True),
              ({'write_tier': 2}, True), ({'type': 3}, False))
    @ddt.unpack
    def test_cache_tier_is_recognized(self, changes: dict[str, Any], tier: bool) -> None:
        cluster = ceph.Cluster()
        with mock.patch.object(cluster, 'mon', return_value=[{**POOL, **changes}]):
            pool = cluster.pools()[7]
        self.assertEqual((tier, not tier), (pool.cache_tier, pool.erasure))


class ConnectionTest(testtools.TestCase):

    def test_timeout_must_be_positive(self) -> None:
        for timeout in (0, -1.0, float('nan')):
            self.assertRaises(errors.InvalidInput, ceph.Cluster, timeout=timeout)

    def test_every_call_has_a_timeout(self) -> None:
        with mock.patch.object(rados, 'Rados') as handle:
            ceph.Cluster(timeout=2.5).rados  # noqa: B018  it connects
        options = handle.call_args.kwargs['conf']
        for name in ('rados_osd_op_timeout', 'rados_mon_op_timeout', 'client_mount_timeout'):
            self.assertEqual('3', options[name])

    def test_addresses_change_with_the_connection(self) -> None:
        handles = [mock.Mock(**{'get_addrs.return_value': f'[v2:10.0.0.1:0/{number}]'})
                   for number in (1, 2)]
        with mock.patch.object(rados, 'Rados', side_effect=handles):
            cluster = ceph.Cluster()
            self.assertEqual({'10.0.0.1:0/1'}, cluster.addresses)
            cluster.close()
            handles[0].shutdown.assert_called_once_with()
            self.assertEqual({'10.0.0.1:0/2'}, cluster.addresses)

    def test_failed_connection_is_shut_down(self) -> None:
        with mock.patch.object(rados, 'Rados') as handle:
            handle.return_value.connect.side_effect = rados.TimedOut('late')
            self.assertRaises(errors.ClusterTimeout, ceph.Cluster().__enter__)
            handle.return_value.shutdown.assert_called_once_with()


class NotificationTest(testtools.TestCase):

    def test_message_that_waits_behind_hung_clients_is_never_sent(self) -> None:
        cluster, sent = ceph.Cluster(), list[bytes]()
        begun, ends = threading.Event(), threading.Event()
        self.addCleanup(ends.set)

        def send(name: bytes, _message: bytes, _patience_s: float) -> list[bytes]:
            sent.append(name)
            begun.set()
            ends.wait()
            return [b'answer']
        cluster._aio = mock.Mock(**{'ioctx.return_value.notify.side_effect': send})
        self.patch(ceph, '_NOTIFICATIONS', 1)
        first = threading.Thread(target=cluster.notify, args=(7, '', 'first', b'', 60.0))
        first.start()
        begun.wait()
        self.assertIsNone(cluster.notify(7, '', 'second', b'', 0.0))
        ends.set()
        first.join()
        self.assertEqual([b'answer'], cluster.notify(7, '', 'third', b'', 60.0))
        cluster.close()
        self.assertEqual([b'first', b'third'], sent)


class ReadPolicyTest(testtools.TestCase):
    """The primary OSD is asked whatever ceph.conf says; an old Ceph asks it anyway."""

    OPTION, VALUE = 'rados_replica_read_policy', 'default'

    def client(self, answer: int) -> mock.Mock:
        """Connect by the C library, which answers the option with an error number."""
        library = mock.Mock(**dict.fromkeys(
            ('rados_create2.return_value', 'rados_conf_read_file.return_value',
             'rados_connect.return_value'), 0))
        library.rados_conf_set.side_effect = lambda _handle, option, _value: (
            answer if option == self.OPTION.encode() else 0)
        with mock.patch.object(librados._ffi, 'dlopen', return_value=library):
            ceph.Cluster().aio  # noqa: B018  it connects
        return library

    def test_library_reads_from_the_primary_osd(self) -> None:
        for answer in (0, -errno.ENOENT):
            library = self.client(answer)
            library.rados_conf_set.assert_any_call(
                mock.ANY, self.OPTION.encode(), self.VALUE.encode())
            library.rados_connect.assert_called_once()

    def test_library_that_refuses_the_option_is_an_error(self) -> None:
        self.assertRaises(errors.ClusterError, self.client, -errno.EINVAL)

    def test_python_handle_reads_from_the_primary_osd(self) -> None:
        for error in (None, rados.ObjectNotFound('no such option')):
            with mock.patch.object(rados, 'Rados') as handle:
                handle.return_value.conf_set.side_effect = error
                ceph.Cluster().rados  # noqa: B018  it connects
            handle.return_value.conf_set.assert_called_once_with(self.OPTION, self.VALUE)
            handle.return_value.connect.assert_called_once()
