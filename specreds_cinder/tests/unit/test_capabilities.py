# SPDX-License-Identifier: Apache-2.0
"""Capabilities in Ceph: what is there stays, and what is missing is added."""

import io
import shlex
import sys
from typing import Any
from unittest import mock

import ddt
import testtools

from cloud import caps as cloud_caps
from specreds_cinder import capabilities
from specreds_cinder import superposition as sp
from specreds_cinder.cli import main

_DEVSTACK = {'mgr': 'allow rw', 'mon': 'allow r',
             'osd': 'allow class-read object_prefix rbd_children, allow rwx pool=volumes,'
                    'allow rwx pool=vms,allow rwx pool=images'}


@ddt.ddt
class CompleteTest(testtools.TestCase):

    def test_other_capabilities_stay(self) -> None:
        completed = capabilities.complete(_DEVSTACK, ['volumes'])
        self.assertEqual(_DEVSTACK['osd'], completed['osd'])
        self.assertEqual('allow rw', completed['mgr'])
        self.assertEqual(['allow r', *capabilities.MON_GRANTS],
                         capabilities.grants(completed['mon']))

    def test_another_pool_is_added(self) -> None:
        completed = capabilities.complete(_DEVSTACK, ['vms', 'fast'])
        self.assertEqual(f'{_DEVSTACK["osd"]}, profile rbd pool=fast', completed['osd'])

    def test_pool_that_can_only_be_read_is_added(self) -> None:
        caps = {'mon': capabilities.MON, 'osd': 'profile rbd-read-only pool=volumes'}
        self.assertEqual('profile rbd-read-only pool=volumes, profile rbd pool=volumes',
                         capabilities.complete(caps, ['volumes'])['osd'])

    def test_user_without_capabilities(self) -> None:
        self.assertEqual({'mon': capabilities.MON, 'osd': 'profile rbd pool=volumes'},
                         capabilities.complete({}, ['volumes']))

    @ddt.data({'mon': 'allow *', 'osd': 'allow *'}, cloud_caps.cinder(['volumes']),
              {'mon': capabilities.MON, 'osd': 'profile rbd'},
              {'mon': 'allow command "a,b", ' + capabilities.MON, 'osd': 'allow rwx'})
    def test_nothing_is_missing(self, caps: dict[str, str]) -> None:
        self.assertEqual(caps, capabilities.complete(caps, ['volumes']))

    def test_command_is_quoted_for_a_shell(self) -> None:
        caps = cloud_caps.cinder(['volumes'])
        self.assertEqual(['ceph', 'auth', 'caps', 'client.cinder', 'mon', caps['mon'],
                          'osd', caps['osd']],
                         shlex.split(capabilities.command('client.cinder', caps)))


class CommandTest(testtools.TestCase):

    def run_caps(self, answer: Any, *words: str) -> tuple[int, str, str]:
        stdout, stderr = io.StringIO(), io.StringIO()
        with mock.patch.object(sp.Cluster, 'mon', return_value=answer) as self.mon, \
                mock.patch.object(main.SuperApp, 'configure_logging'), \
                mock.patch.object(sys, 'stdout', stdout), \
                mock.patch.object(sys, 'stderr', stderr):
            status = main.main(['--conf', '/nonexistent', '--user', 'admin', 'caps', *words])
        return status, stdout.getvalue(), stderr.getvalue()

    def test_line_to_paste(self) -> None:
        status, out, _ = self.run_caps(
            [{'entity': 'client.nova', 'key': 'a2V5', 'caps': _DEVSTACK}], 'client.nova')
        self.assertEqual(0, status)
        self.assertEqual({'prefix': 'auth get', 'entity': 'client.nova'},
                         self.mon.call_args.args[0])
        words = shlex.split(out)
        self.assertEqual(['ceph', 'auth', 'caps', 'client.nova', 'mgr', 'allow rw', 'mon',
                          f'allow r, {capabilities.MON}', 'osd', _DEVSTACK['osd']], words)
        self.assertNotIn('a2V5', out)

    def test_line_for_a_sentinel(self) -> None:
        status, out, _ = self.run_caps([{'caps': {'mon': 'profile rbd-read-only'}}],
                                       'client.sentinel', '--sentinel', '--pool', 'volumes')
        self.assertEqual(0, status)
        self.assertEqual(['mon', 'profile rbd-read-only', 'osd',
                          'profile rbd-read-only pool=volumes, '
                          'allow rw pool=volumes namespace=specreds-sentinels'],
                         shlex.split(out)[4:])

    def test_sentinel_needs_the_pools(self) -> None:
        status, out, err = self.run_caps([{'caps': {'mon': 'allow r'}}], '--sentinel')
        self.assertEqual((1, ''), (status, out))
        self.assertIn('--pool', err)

    def test_nothing_to_do(self) -> None:
        status, out, err = self.run_caps([{'caps': cloud_caps.cinder(['volumes'])}])
        self.assertEqual((0, ''), (status, out))
        self.assertIn('client.cinder has all capabilities', err)

    def test_user_without_pools(self) -> None:
        status, out, err = self.run_caps([{'caps': {'mon': 'allow r'}}])
        self.assertEqual((1, ''), (status, out))
        self.assertIn('--pool', err)

    def test_unknown_user(self) -> None:
        status, _, err = self.run_caps([])
        self.assertEqual(1, status)
        self.assertIn('no user client.cinder', err)
