# SPDX-License-Identifier: Apache-2.0
"""A backup's host whose nova-compute is not root, as that of a distribution's package."""

import pathlib
import subprocess

from cloud.hosts import services
from cloud.openstack import layout
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# A user without privileges that no other service uses.
_USER = 'nobody'
_HELPER = 'helper_command = '
# A directory of the host, which ends with the host.
_PLACE = pathlib.Path('/run/nova-user')
_SUDOERS = '/etc/sudoers.d'


class TestUser(life.LifeTestCase):
    """The nova-compute of the backup's host uses privsep for whatever needs root."""

    _process: 'subprocess.Popen[bytes] | None' = None

    def setUp(self) -> None:
        super().setUp()
        host = self.host(base.BACKUP)
        self._owned = [host.files.state / 'nova', host.files.instances,
                        host.files.etc / 'ceph']
        root = host.files.cloud.root
        self.addCleanup(root.chmod, root.stat().st_mode & 0o777)
        root.chmod(0o711)
        self._check_path(layout.BIN / 'nova-compute')
        host.stop(services.COMPUTE)
        before = self.drill.service(base.BACKUP)['updated_at']
        self._allow_privsep()
        for path in self._owned:
            host.run(['chown', '-R', _USER, str(path)])
        # A package puts the user into libvirt's group, and lets Open vSwitch's database listen
        # on TCP.
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

    def _check_path(self, program: pathlib.Path) -> None:
        """Skip the test if a directory above the program, such as root's home, is root's alone."""
        done = subprocess.run(self.host(base.BACKUP).argv([
            'setpriv', f'--reuid={_USER}', '--regid=nogroup', '--clear-groups', '--',
            'test', '-x', str(program)]), check=False, capture_output=True)
        if done.returncode:
            self.skipTest(f'user {_USER} cannot run {program}: use a clone of the project below '
                          f'directories that all users may enter')

    def _allow_privsep(self) -> None:
        """Let the user start the helper of privsep as root, and nothing else."""
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
        """End the user's nova-compute, so that the host starts its usual one."""
        if self._process is not None:
            host = self.host(base.BACKUP)
            host.run(['pkill', '-u', _USER, 'nova-compute'])
            self._process.wait()
            self._process = None
            for path in self._owned:
                host.run(['chown', '-R', 'root', str(path)])
        super().mend()

    def _user(self) -> str:
        return self.host(base.BACKUP).run(['ps', '-C', 'nova-compute', '-o', 'user=']).split()[0]

    def test_backup_is_aborted(self) -> None:
        self.assertEqual(_USER, self._user())
        self.check_abort()
        # libvirt and Ceph admit the user like root.
        self.assertNotIn('does not answer', self._log.read_text())

    def test_backup_is_promoted_adopted_and_merged(self) -> None:
        self.check_promotion()
        self.assertEqual(_USER, self._user())
