# SPDX-License-Identifier: Apache-2.0
"""The base of the commands: the cloud to ask, and its errors in words."""

import argparse

from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from specreds_cinder.osc import client

DIRTY = 3


class SuperCommand(command.Command):
    """A command on superpositions.

    :ivar status: the exit status of a command that could be done
    """

    status = 0

    @property
    def client(self) -> client.Superpositions:
        """The superpositions of the cloud."""
        return client.Superpositions(self.app.client_manager.sdk_connection)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command.

        :raises CommandError: the API refused, and this is what it said
        """
        try:
            return super().run(parsed_args) or self.status
        except sdk_exceptions.SDKException as error:
            raise exceptions.CommandError(words(error)) from error


def words(error: sdk_exceptions.SDKException) -> str:
    """Give an error as the API put it; what an operator has to look into names the request."""
    if not isinstance(error, sdk_exceptions.HttpException):
        return str(error)
    text = str(error.details or error.message)
    if (error.status_code or 0) >= 500 and error.request_id:
        text += f' (HTTP {error.status_code}, request {error.request_id})'
    return text


def add_superposition(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the argument that names a superposition."""
    parser.add_argument(
        'superposition', metavar='VOLUME', nargs='+' if several else None,
        help='any of its volumes (name or ID), or the ID of the superposition')
