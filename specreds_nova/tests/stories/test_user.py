# SPDX-License-Identifier: Apache-2.0
"""A host whose nova-compute is no root, as where it comes from a distribution's package."""

import pathlib
import subprocess

from cloud.hosts import services
from cloud.openstack import layout
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# Somebody who is nobody else here, and may do nothing.
_USER = 'nobody'
_HELPER = 'helper_command = '
# Of the host: nothing of it outlives it.
_PLACE = pathlib.Path('/run/nova-user')
_SUDOERS = '/etc/sudoers.d'


class TestUser(life.LifeTestCase):
    """The host of the backups: what its nova-compute needs of root it has from privsep."""

    _process: 'subprocess.Popen[bytes] | None' = None

    def setUp(self) -> None:
        super().setUp()
        host = self.host(base.BACKUP)
        self._theirs = [host.files.state / 'nova', host.files.instances,
                        host.files.etc / 'ceph']
        root = host.files.cloud.root
        self.addCleanup(root.chmod, root.stat().st_mode & 0o777)
        root.chmod(0o711)
        host.stop(services.COMPUTE)
        before = self.drill.service(base.BACKUP)['updated_at']
        self._furnish()
        for path in self._theirs:
            host.run(['chown', '-R', _USER, str(path)])
        # Elsewhere it is in libvirt's group, and Open vSwitch's database listens on TCP.
        for socket in (services.LIBVIRT_SOCKET, services.DATABASE_SOCKET):
            host.run(['chmod', '0777', str(socket)])
        self._log = self.scratch() / 'nova-compute.out'
        with self._log.open('wb') as log:
            self._process = host.popen(
                ['setpriv', f'--reuid={_USER}', '--regid=nogroup', '--clear-groups', '--',
                 str(layout.BIN / 'nova-compute'), '--config-file', str(_PLACE / 'nova.conf')],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait('nova-compute to be up', lambda: (
            self.drill.service(base.BACKUP)['updated_at'] != before
            and self.drill.compute_up(base.BACKUP)))

    def _furnish(self) -> None:
        """Let the user start privileged helpers, and nothing else."""
        host = self.host(base.BACKUP)
        helper = layout.BIN / 'privsep-helper'
        conf = host.files.nova_conf.read_text().replace(_HELPER, f'{_HELPER}sudo ')
        conf += (f'\n[specreds_privileged]\n{_HELPER}sudo {helper} --config-file '
                 f'{_PLACE / "nova.conf"}\n')
        place = host.path(_PLACE)
        (place / 'sudoers.d').mkdir(parents=True)
        (place / 'nova.conf').write_text(conf)
        (place / 'nova.conf').chmod(0o400)
        rule = place / 'sudoers.d' / 'nova'
        rule.write_text(f'{_USER} ALL = (root) NOPASSWD: {helper} *\n')
        rule.chmod(0o440)
        host.run(['chown', _USER, str(_PLACE / 'nova.conf')])
        host.run(['mount', '--bind', str(_PLACE / 'sudoers.d'), _SUDOERS])
        self.addCleanup(host.run, ['rm', '-r', str(_PLACE)])
        self.addCleanup(host.run, ['umount', _SUDOERS])

    def mend(self) -> None:
        """The same, after nova-compute's end; the host starts it as it always does."""
        if self._process is not None:
            host = self.host(base.BACKUP)
            host.run(['pkill', '-u', _USER, 'nova-compute'])
            self._process.wait()
            self._process = None
            for path in self._theirs:
                host.run(['chown', '-R', 'root', str(path)])
        super().mend()

    def _who(self) -> str:
        return self.host(base.BACKUP).run(['ps', '-C', 'nova-compute', '-o', 'user=']).split()[0]

    def test_abort(self) -> None:
        self.assertEqual(_USER, self._who())
        self.see_abort()
        # Neither libvirt nor Ceph lets it in less than root.
        self.assertNotIn('does not answer', self._log.read_text())

    def test_promote_adopt_and_merge(self) -> None:
        self.see_promotion()
        self.assertEqual(_USER, self._who())
