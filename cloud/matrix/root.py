# SPDX-License-Identifier: Apache-2.0
"""A platform's root directory: made, cached, given a checkout, and removed."""

from collections.abc import Sequence
import os
import pathlib
import shlex
import shutil

from cloud import commands
from cloud.matrix import jail
from cloud.matrix import platforms

PROJECT = pathlib.Path(__file__).resolve().parents[2]
CHECKOUT = '/opt/specreds'
# What ./run itself needs before it installs anything.
_PACKAGES = 'ca-certificates,git,iproute2,procps,python3,python3-venv'
_SETTINGS = {
    # Waiting for the disk and manuals are of no use: a root that is lost is made again.
    'etc/dpkg/dpkg.cfg.d/specreds': """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
""",
    # A snapshot of a release in development is signed, but not renewed.
    'etc/apt/apt.conf.d/90specreds': 'Acquire::Check-Valid-Until "false";\n',
}
# What debootstrap says if the archive does not answer, or does not have the release.
_NO_ARCHIVE = 'Failed getting release file'
_MINUTES = 60.0
_TIMEOUT = 30 * _MINUTES
# How many characters of a log go into an error message.
_QUOTED = 2000


class Root:
    """The root of one platform.

    :param directory: of all platforms
    :param cache: directory of the tarballs, by default one in that directory
    """

    def __init__(self, directory: pathlib.Path, platform: platforms.Platform,
                 cache: pathlib.Path | None = None) -> None:
        self.platform = platform
        base = directory.absolute()
        self.path = base / 'roots' / platform.name
        self.tarball = (cache or base / 'cache').absolute() / f'{platform.name}.tar.gz'
        self.logs = base / 'logs' / platform.name
        self.results = base / 'results' / f'{platform.name}.json'
        self._unfinished = self.path.with_suffix('.new')

    @property
    def exists(self) -> bool:
        """Whether it has been made."""
        return self.path.exists()

    @property
    def checkout(self) -> pathlib.Path:
        """The project's copy in it, as this machine sees it."""
        return self.path / CHECKOUT.lstrip('/')

    def make(self, mirror: str | None, progress: commands.Progress) -> None:
        """Make it if it is not there, from the cached tarball if there is one.

        :param mirror: address of the distribution's archive; None for the one that apt uses here
        :raises Unreachable: this machine cannot get the packages
        :raises CloudError: this is not root, or making the root failed
        """
        if os.geteuid():
            raise commands.CloudError('this needs root: it changes roots and mounts')
        for directory in (self.path.parent, self.tarball.parent, self.logs, self.results.parent):
            directory.mkdir(parents=True, exist_ok=True)
        if self.exists:
            return
        remove(self._unfinished)
        if not self.tarball.exists():
            self._bootstrap(mirror or platforms.mirror(self.platform), progress)
        else:
            progress(f'{self.platform.name}: unpacking {self.tarball}')
            self._unfinished.mkdir()
            commands.run(['tar', '-xzf', str(self.tarball), '-C', str(self._unfinished)],
                         _TIMEOUT)
        self._configure()
        self._unfinished.rename(self.path)

    def _bootstrap(self, mirror: str, progress: commands.Progress) -> None:
        keyring = self.platform.signed_by()
        progress(f'{self.platform.name}: making a root of the packages of {mirror}')
        suite = self.platform.suite
        # debootstrap knows Debian's releases by name; newer ones are made alike. It may leave
        # the root's /proc mounted: mounted in a namespace of its own, that ends with debootstrap.
        try:
            commands.run(['unshare', '--mount', '--propagation', 'private',
                          'debootstrap', '--variant=minbase', f'--keyring={keyring}',
                          f'--components={",".join(self.platform.components)}',
                          f'--include={_PACKAGES}', suite, str(self._unfinished), mirror,
                          *_script(suite)], _TIMEOUT)
        except commands.CloudError as exc:
            if _NO_ARCHIVE not in str(exc):
                raise
            raise platforms.Unreachable(
                f'{self.platform.name}: cannot reach {mirror}: {exc}') from exc
        partial = self.tarball.with_suffix('.new')
        progress(f'{self.platform.name}: keeping it as {self.tarball}')
        # The fastest compression: a sixth larger, in a third of the time.
        commands.run(['tar', '-c', '--use-compress-program', 'gzip -1', '-f', str(partial),
                      '-C', str(self._unfinished), '.'], _TIMEOUT)
        partial.rename(self.tarball)

    def _configure(self) -> None:
        """Have names, registries and certificates looked up as on this machine.

        Packages are installed without waiting for the disk, also packages of an old snapshot.
        """
        for name, text in _SETTINGS.items():
            (self._unfinished / name).write_text(text)
        for name in ('etc/hosts', 'etc/resolv.conf', 'etc/pip.conf'):
            if (source := pathlib.Path('/', name)).exists():
                shutil.copyfile(source, self._unfinished / name)
        certificates = 'usr/local/share/ca-certificates'
        if (source := pathlib.Path('/', certificates)).exists():
            shutil.copytree(source, self._unfinished / certificates, dirs_exist_ok=True)
        status = jail.run(self._unfinished, ['update-ca-certificates'], self.logs / 'up.log')
        if status:
            raise commands.CloudError(f'update-ca-certificates failed: see {self.logs}/up.log')

    def check_out(self, progress: commands.Progress) -> str:
        """Bring the project's copy in it up to this checkout's last commit, and return that.

        :raises CloudError: this is no checkout
        """
        commit = commands.run(['git', '-C', str(PROJECT), 'rev-parse', 'HEAD']).strip()
        if commands.run(['git', '-C', str(PROJECT), 'status', '--porcelain']):
            progress('what is not committed here is not tested there')
        if not self.checkout.exists():
            commands.run(['git', 'clone', '-q', '--no-hardlinks', str(PROJECT),
                          str(self.checkout)], _TIMEOUT)
        copy = ['git', '-C', str(self.checkout)]
        commands.run([*copy, 'fetch', '-q', str(PROJECT), 'HEAD'], _TIMEOUT)
        commands.run([*copy, 'checkout', '-q', '--force', '--detach', commit])
        progress(f'{self.platform.name}: {CHECKOUT} is commit {commit[:12]}')
        return commit

    def install(self, progress: commands.Progress) -> None:
        """Install in the root what its copy of the project needs.

        :raises CloudError: ./run setup fails there
        """
        log = self.logs / 'setup.log'
        progress(f'{self.platform.name}: ./run setup; its output is in {log}')
        log.unlink(missing_ok=True)
        if jail.run(self.path, in_checkout(['./run', 'setup']), log):
            raise commands.CloudError(f'{self.platform.name}: ./run setup failed: '
                                      f'{log.read_text(errors="replace")[-_QUOTED:]}')

    def wipe(self, cache: bool) -> None:
        """Remove it with all that is in it; keep results and logs.

        :param cache: the tarball, too
        :raises CloudError: something runs in it or is mounted in it
        """
        remove(self._unfinished)
        if self.exists:
            _require_unused(self.path)
            # What is left of it if this is interrupted does not pass for a root.
            self.path.rename(self._unfinished)
            remove(self._unfinished)
        if cache:
            self.tarball.unlink(missing_ok=True)


def in_checkout(argv: Sequence[str]) -> list[str]:
    """Return a command of the root that runs another one in its copy of the project."""
    return ['sh', '-c', f'cd {CHECKOUT} && exec {shlex.join(argv)}']


def remove(path: pathlib.Path) -> None:
    """Remove a root.

    :raises CloudError: something runs in it or is mounted in it
    """
    if not path.exists():
        return
    _require_unused(path)
    commands.run(['rm', '-rf', '--one-file-system', str(path)], _TIMEOUT)


def _require_unused(path: pathlib.Path) -> None:
    if used := jail.inhabitants(path):
        raise commands.CloudError(f'{path} is in use by processes {", ".join(map(str, used))}')
    if mounted := jail.mounts(path):
        raise commands.CloudError(f'unmount {", ".join(mounted)} first')


def _script(suite: str) -> list[str]:
    """Return debootstrap's script for a release that this debootstrap is too old to know."""
    scripts = pathlib.Path('/usr/share/debootstrap/scripts')
    if (scripts / suite).exists():
        return []
    return [str(scripts / ('gutsy' if suite == 'noble' else 'sid'))]
