# SPDX-License-Identifier: Apache-2.0
"""The base of the commands: arguments, output of a backup, and errors in one line."""

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar
import uuid

from cliff import columns
from cliff import command
from cliff import show
from oslo_config import cfg
import oslo_messaging as messaging

from specreds_nova import exception
from specreds_nova import rpcapi

FIELDS = ('backup_id', 'instance_uuid', 'superposition_id', 'host', 'phase', 'ready',
          'ready_detail', 'domain', 'merge', 'timings_ms', 'error')
_TITLES = {'backup_id': 'backup', 'instance_uuid': 'server',
           'superposition_id': 'superposition', 'timings_ms': 'timings (ms)'}


class Pairs(columns.FormattableColumn[Mapping[str, Any] | None]):
    """A small mapping; for people, one entry per line."""

    def human_readable(self) -> str:
        """Return one line per entry."""
        return '\n'.join(f'{key}: {value}' for key, value in sorted((self._value or {}).items()))


class BackupCommand(command.Command):
    """A command that calls a compute host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the host."""
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST', help='compute host that runs the backup')
        return parser

    @property
    def backups(self) -> rpcapi.BackupsAPI:
        """Return the client of all hosts' backups."""
        app: Any = self.app
        api: rpcapi.BackupsAPI = app.backups
        return api

    def run(self, parsed_args: Any) -> int:
        """Run the command; print an error as one line, and return 1."""
        try:
            return int(super().run(parsed_args) or 0)
        except messaging.MessagingTimeout:
            words = (f'{parsed_args.host} has not answered in time: does its nova-compute run, '
                     f'with compute_driver = specreds.SpeculativeLibvirtDriver? The request may '
                     f'still be carried out')
        except (exception.BackupError, cfg.Error, messaging.MessagingException) as exc:
            words = str(exc)
        self.app.stderr.write(f'error: {words}\n')
        return 1


class OneBackupCommand(BackupCommand):
    """A command about one backup of a host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the backup."""
        parser = super().get_parser(prog_name)
        parser.add_argument('backup', metavar='BACKUP', type=identifier,
                            help='ID of the backup, as "start" shows it')
        return parser


class StepCommand(OneBackupCommand, show.ShowOne):
    """A command that takes a step of a backup, and shows its status after that.

    :cvar step: the method of the RPC API
    """

    step: ClassVar[str]

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Take the step."""
        call = getattr(self.backups, self.step)
        return titles(FIELDS), row(call({}, parsed_args.host, parsed_args.backup))


def identifier(text: str) -> str:
    """Return an argument that must be a UUID.

    :raises argparse.ArgumentTypeError: it is no UUID
    """
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f'{text!r} is not a UUID') from None


def titles(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the titles of fields."""
    return tuple(_TITLES.get(field, field.replace('_', ' ')) for field in fields)


def row(status: Mapping[str, Any], fields: tuple[str, ...] = FIELDS) -> tuple[Any, ...]:
    """Return the values of fields of a status."""
    return tuple(Pairs(status[field]) if isinstance(status[field], dict) else status[field]
                 for field in fields)
