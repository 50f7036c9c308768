# SPDX-License-Identifier: Apache-2.0
"""Which hosts must not be fenced, and which may lose writes anyway, because of librbd's cache."""

import pathlib

import ddt
import fixtures
import testtools

from specreds_nova import cache_policy
from specreds_nova import deployment


@ddt.ddt
class CachePolicyTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.conf = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'ceph.conf'

    def refusal(self, *modes: str) -> str | None:
        return cache_policy.refusal(modes, str(self.conf))

    def warning(self, *modes: str) -> str | None:
        return cache_policy.warning(modes, str(self.conf))

    @ddt.data('writeback', 'writethrough', 'unsafe', 'default')
    def test_cache_with_the_default_policy_is_refused(self, mode: str) -> None:
        for text in (None, '[client]\n', '[client]\nrbd cache policy = writearound\n'):
            if text is not None:
                self.conf.write_text(text)
            refusal = self.refusal('file=none', f' network={mode}')
            self.assertIn(f'network={mode}', str(refusal))
            self.assertIn(f'set rbd_cache_policy = writethrough in section client of {self.conf}',
                          str(refusal))

    @ddt.data((), ('file=writeback', 'block=writeback'), ('network=none',),
              ('network=directsync',))
    def test_host_without_the_cache_is_not_refused(self, modes: tuple[str, ...]) -> None:
        self.assertIsNone(self.refusal(*modes))

    @ddt.data('rbd_cache_policy = writeback', 'rbd cache policy = writethrough')
    def test_other_policies_are_not_refused(self, line: str) -> None:
        self.conf.write_text(f'[global]\nfsid = 1\n[client]\n{line}\n')
        self.assertIsNone(self.refusal('network=writeback'))

    def test_file_that_cannot_be_read_is_refused(self) -> None:
        self.conf.mkdir()
        self.assertIn(f'{self.conf} cannot be read', str(self.refusal('network=writeback')))

    def test_policy_that_may_lose_writes_anyway_is_a_warning(self) -> None:
        self.conf.write_text('[client]\nrbd cache policy = writeback\n')
        warning = str(self.warning('network=writeback'))
        self.assertIn('rbd_cache_policy = writeback, librbd may lose', warning)
        self.assertIn(f'set rbd_cache_policy = writethrough in section client of {self.conf}',
                      warning)
        self.assertIsNone(self.warning('network=none'))

    @ddt.data('writearound', 'writethrough')
    def test_other_policies_are_no_warning(self, policy: str) -> None:
        self.conf.write_text(f'[client]\nrbd_cache_policy = {policy}\n')
        self.assertIsNone(self.warning('network=writeback'))

    def test_file_that_cannot_be_read_is_a_warning(self) -> None:
        self.conf.mkdir()
        self.assertIn(f'{self.conf} cannot be read', str(self.warning('network=writeback')))

    def test_deployed_hosts_are_neither_refused_nor_warned_of(self) -> None:
        [(section, options)] = deployment.clients().items()
        lines = '\n'.join(f'{name} = {value}' for name, value in options.items())
        self.conf.write_text(f'[{section}]\n{lines}\n')
        self.assertIsNone(self.refusal('network=writeback'))
        self.assertIsNone(self.warning('network=writeback'))
