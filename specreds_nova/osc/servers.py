# SPDX-License-Identifier: Apache-2.0
"""Look up servers by name, which only Nova can do."""

import argparse
from typing import Any
import uuid

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions


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
