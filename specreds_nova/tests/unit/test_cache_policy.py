# SPDX-License-Identifier: Apache-2.0
"""Which hosts may lose what guests have flushed, because of librbd's cache."""

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

    def warning(self, *modes: str) -> str | None:
        return cache_policy.warning(modes, str(self.conf))

    @ddt.data('writeback', 'writethrough', 'unsafe', 'default')
    def test_cache_with_the_default_policy_may_lose_writes_at_a_fence(self, mode: str) -> None:
        for text in (None, '[client]\n', '[client]\nrbd cache policy = writearound\n'):
            if text is not None:
                self.conf.write_text(text)
            warning = str(self.warning('file=none', f' network={mode}'))
            self.assertIn(f'network={mode} and rbd_cache_policy = writearound', warning)
            self.assertIn('hangs, and wakes', warning)
            self.assertIn('rbd config pool set POOL rbd_cache_policy writethrough', warning)

    @ddt.data((), ('file=writeback', 'block=writeback'), ('network=none',),
              ('network=directsync',))
    def test_host_without_the_cache_loses_nothing(self, modes: tuple[str, ...]) -> None:
        self.assertIsNone(self.warning(*modes))

    def test_policy_that_writes_through_loses_nothing(self) -> None:
        self.conf.write_text('[global]\nfsid = 1\n[client]\nrbd cache policy = writethrough\n')
        self.assertIsNone(self.warning('network=writeback'))

    def test_policy_may_lose_writes_without_a_fence(self) -> None:
        self.conf.write_text('[client]\nrbd cache policy = writeback\n')
        self.assertIn('also without a recovery', str(self.warning('network=writeback')))

    def test_file_that_cannot_be_read_is_a_warning(self) -> None:
        self.conf.mkdir()
        self.assertIn(f'{self.conf} cannot be read', str(self.warning('network=writeback')))

    def test_deployed_hosts_lose_nothing(self) -> None:
        [(section, options)] = deployment.clients().items()
        lines = '\n'.join(f'{name} = {value}' for name, value in options.items())
        self.conf.write_text(f'[{section}]\n{lines}\n')
        self.assertIsNone(self.warning('network=writeback'))
