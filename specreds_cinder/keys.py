# SPDX-License-Identifier: Apache-2.0
"""Credentials for the key manager where no request of the key's owner is at hand."""

from typing import Any

from castellan.common import exception as castellan_exception
from castellan.common import utils
from oslo_config import cfg


def credentials(conf: cfg.ConfigOpts, context: Any) -> Any:
    """Return what the key manager is asked with.

    :param conf: configuration of the service; its section ``key_manager`` may have credentials,
        which must be allowed to read the keys of all projects
    :param context: used if it has none
    """
    try:
        return utils.credential_factory(conf=conf)
    except castellan_exception.AuthTypeInvalidError:
        return context
