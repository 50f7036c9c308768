# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative server check``, and what commands on one server share."""

import argparse
from typing import Any
import uuid

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from specreds_nova.osc import base
from specreds_nova.osc import shown


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``server``, which :func:`find` looks up."""
    parser.add_argument('server', metavar='<server>',
                        help='its name or ID; servers of other projects need their ID')


def find(manager: Any, text: str) -> str:
    """Return the id of a server; an id is returned unchecked.

    :param manager: the client manager of OpenStackClient
    :raises osc_lib.exceptions.CommandError: no server has this name, or several have
    """
    if _is_uuid(text):
        return text
    try:
        server: Any = manager.sdk_connection.compute.find_server(text, ignore_missing=True)
    except (sdk_exceptions.SDKException, auth_exceptions.ClientException) as exc:
        raise exceptions.CommandError(f'{exc}; specify the ID of the server') from exc
    if server is None:
        raise exceptions.CommandError(
            f'there is no server "{text}" in your project; servers of others need their ID')
    return str(server.id)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


class Check(base.SpeculativeCommand, command.ShowOne):
    """Report whether a server would get a backup if its host failed, and if not, why not.

    Nothing is changed. The exit status is 3 if the server would not get a backup.
    """

    arguments = (add_argument,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        answer = self.client.protection(find(self.app.client_manager, parsed_args.server))
        self.status = 0 if answer['protected'] else base.NO
        return shown.one(answer, shown.PROTECTION)
