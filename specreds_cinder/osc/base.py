# SPDX-License-Identifier: Apache-2.0
"""The base of the commands: the connection to a cloud, and errors as text."""

import argparse
from collections.abc import Callable

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from specreds_cinder.osc import client

DIRTY = 3


class SuperCommand(command.Command):
    """A command on superpositions.

    :cvar arguments: functions that add the command's arguments to a parser
    :ivar status: the exit status of a command that succeeded
    """

    arguments: tuple[Callable[[argparse.ArgumentParser], object], ...] = ()
    status = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for add in self.arguments:
            add(parser)
        return parser

    @property
    def client(self) -> client.Superpositions:
        """Return the superpositions of the cloud."""
        return client.Superpositions(self.app.client_manager.sdk_connection)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command.

        :raises CommandError: the API refused; the message is the API's
        """
        try:
            return super().run(parsed_args) or self.status
        except sdk_exceptions.SDKException as exc:
            raise exceptions.CommandError(words(exc)) from exc


def words(error: sdk_exceptions.SDKException) -> str:
    """Return the API's message; for an internal error, also name the request."""
    if not isinstance(error, sdk_exceptions.HttpException):
        return str(error)
    text = str(error.details or error.message)
    if (error.status_code or 0) >= 500 and error.request_id:
        text += f' (HTTP {error.status_code}, request {error.request_id})'
    return text


def add_superposition(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the argument that names a superposition."""
    parser.add_argument(
        'superposition', metavar='<volume>', nargs='+' if several else None,
        help='ID of the superposition, or any of its volumes (name or ID)')
