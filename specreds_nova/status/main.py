# SPDX-License-Identifier: Apache-2.0
"""``specreds-status``: reports faults before an upgrade, or after an installation.

The program checks the configuration of the services on this host, the engine's database
and Ceph, and changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
import pathlib
import sys

from oslo_config import cfg
from oslo_upgradecheck import common_checks
from oslo_upgradecheck import upgradecheck

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine.store import connection
from specreds_nova.status import caches
from specreds_nova.status import ceph
from specreds_nova.status import cinder
from specreds_nova.status import engine
from specreds_nova.status import files
from specreds_nova.status import findings
from specreds_nova.status import neutron
from specreds_nova.status import nova

_CINDER = '/etc/cinder/cinder.conf'
_PROC = pathlib.Path('/proc')

_OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt('nova-conf', metavar='FILE',
               help='Configuration of nova-compute; by default all files that the nova-compute '
                    'of this host reads.'),
    cfg.StrOpt('cinder-conf', metavar='FILE',
               help=f"Configuration of Cinder's services; by default {_CINDER}, if it exists."),
]


class Checks(upgradecheck.UpgradeCommands):
    """The checks of all parts; a part that this host does not have succeeds with a note."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    # The name of each check, and a function of these checks.
    _upgrade_checks = (
        ('Engine: configuration', lambda self: self._of_engine(
            lambda: engine.settings(self._engine_files(), self._nova_files()))),
        ('Engine: database', lambda self: self._of_engine(lambda: engine.database(self._conf))),
        ('Engine: API', lambda self: self._of_engine(lambda: engine.answers(self._conf))),
        ('Engine: policies', lambda self: self._of_engine(lambda: engine.rules(self._conf))),
        ('Engine: format of the policies',
         lambda self: common_checks.check_policy_json(self, self._conf)),
        ('Cinder: configuration', lambda self: self._of_cinder(cinder.settings)),
        ('Cinder: capabilities in Ceph', lambda self: self._of_cinder(ceph.capabilities)),
        ('Nova: configuration', lambda self: self._of_nova(self._look_at_nova)),
        ('Nova: network agents',
         lambda self: self._of_nova(lambda config, _: neutron.agents(config))),
        ('Nova: caches of servers',
         lambda self: self._of_nova(lambda config, _: caches.running(config))),
    )

    def _of_engine(self, look: Callable[[], Iterator[findings.Finding]]) -> upgradecheck.Result:
        if not self._conf.config_file:
            return findings.result([], 'an engine is not on this host')
        try:
            return findings.result(look(), 'fine')
        except files.Unreadable as exc:
            return findings.result([findings.failure(str(exc))], '')
        except cfg.ConfigFileValueError as exc:
            return findings.result([findings.failure(f'the configuration: {exc}')], '')

    def _of_cinder(self, look: Callable[[files.Files], Iterator[findings.Finding]]
                   ) -> upgradecheck.Result:
        named: str | None = self._conf.cinder_conf
        path = named or (_CINDER if pathlib.Path(_CINDER).exists() else None)
        return self._of_files([path] if path else [], 'Cinder is not on this host',
                              cinder.in_use, '', look)

    def _of_nova(self, look: Callable[[files.Files, str], Iterator[findings.Finding]]
                 ) -> upgradecheck.Result:
        service = self._nova_service()
        python = service.python if service else ''
        return self._of_files(
            service.paths if service else [], 'nova-compute is not on this host', nova.named,
            ': servers of this host have no backups, and it can have none',
            lambda config: look(config, python))

    def _look_at_nova(self, config: files.Files, python: str) -> Iterator[findings.Finding]:
        other = self._engine_files() if self._conf.config_file else None
        return nova.settings(config, other, python)

    @staticmethod
    def _of_files(paths: Sequence[str], absent: str, in_use: Callable[[files.Files], bool],
                  unused: str, look: Callable[[files.Files], Iterator[findings.Finding]]
                  ) -> upgradecheck.Result:
        """Return the result of the checks of one service's files.

        :param absent: the text of the result if there is no file
        :param unused: added to the text of the result if the files do not use the plug-in
        """
        if not paths:
            return findings.result([], absent)
        try:
            config = files.read(paths)
            if not in_use(config):
                return findings.result([], f'{config} does not use the plug-in{unused}')
            return findings.result(look(config), 'fine')
        except files.Unreadable as exc:
            return findings.result([findings.failure(str(exc))], '')

    def _nova_service(self) -> files.Compute | None:
        named: str | None = self._conf.nova_conf
        return files.Compute([named]) if named else files.compute_of_host(_PROC)

    def _nova_files(self) -> files.Files | None:
        """Return the configuration of Nova on this host, if there is one and it can be read."""
        service = self._nova_service()
        try:
            return files.read(service.paths) if service else None
        except files.Unreadable:
            # The check of Nova says so.
            return None

    def _engine_files(self) -> files.Files:
        return files.read(self._conf.config_file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks; return the exit status: 0 success, 1 warning, 2 failure, 255 an error."""
    conf = cfg.ConfigOpts()
    conf.register_cli_opts(_OPTIONS)
    engine_conf.register(conf)
    connection.register(conf)
    checks = Checks(conf)
    return int(upgradecheck.main(
        conf, 'specreds', checks, list(sys.argv[1:] if argv is None else argv),
        cfg.find_config_files('specreds', 'specreds-engine')))


if __name__ == '__main__':
    sys.exit(main())
