# SPDX-License-Identifier: Apache-2.0
"""Servers by their names, which only Nova knows."""

from typing import Any
import uuid

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions


def find(manager: Any, text: str) -> str:
    """Turn the name of a server into its id; an id is taken as it is.

    :param manager: OpenStackClient's
    :raises osc_lib.exceptions.CommandError: there is no such server, or more than one
    """
    if _is_uuid(text):
        return text
    try:
        found: Any = manager.sdk_connection.compute.find_server(text, ignore_missing=True)
    except (sdk_exceptions.SDKException, auth_exceptions.ClientException) as error:
        raise exceptions.CommandError(f'{error}; give the ID of the server') from error
    if found is None:
        raise exceptions.CommandError(
            f'there is no server "{text}" in your project; those of others are named by ID')
    return str(found.id)


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
