# SPDX-License-Identifier: Apache-2.0
"""Credentials for requests to the key manager that no request of the key's owner has caused."""

from typing import Any

from castellan.common import exception as castellan_exception
from castellan.common import utils
from oslo_config import cfg


def credentials(conf: cfg.ConfigOpts, context: Any) -> Any:
    """Return the credentials for requests to the key manager.

    :param conf: configuration of the service; its section ``key_manager`` may have credentials,
        which must be allowed to read the keys of all projects
    :param context: returned where that section has no credentials
    """
    try:
        return utils.credential_factory(conf=conf)
    except castellan_exception.AuthTypeInvalidError:
        return context
