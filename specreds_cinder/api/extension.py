# SPDX-License-Identifier: Apache-2.0
"""The extension that cinder-api loads, for the option ``osapi_volume_extension``."""

from typing import Any

from cinder import group
from cinder import transfer
from cinder.api import extensions
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils

from specreds_cinder.api import attachments
from specreds_cinder.api import controller
from specreds_cinder.api import guards
from specreds_cinder.api import policies
from specreds_cinder.api import views

CONF = cfg.CONF
LOG = logging.getLogger(__name__)


class Superpositions(extensions.ExtensionDescriptor):
    """Volumes with two versions, until one of them is observed."""

    name = 'Superpositions'
    alias = views.COLLECTION
    updated = '2026-11-21T00:00:00+00:00'

    def __init__(self, ext_mgr: Any) -> None:
        unguarded = _unguarded()
        if unguarded:
            # Without registration there are no routes, so that no volume is superposed unguarded.
            LOG.error('extension %s is disabled, because other operations could damage superposed '
                      'volumes: set %s in the configuration of cinder-api',
                      self.alias, ', '.join(f'{option} = {guards.__name__}.{name}'
                                            for option, name in unguarded.items()))
            return
        policies.register()
        super().__init__(ext_mgr)

    def get_resources(self) -> list[extensions.ResourceExtension]:
        """Return the REST resource."""
        return [extensions.ResourceExtension(
            views.COLLECTION, controller.SuperpositionsController(),
            # Copies, since Cinder adds to the dictionaries.
            collection_actions=dict(controller.COLLECTION_ACTIONS),
            member_actions=dict(controller.MEMBER_ACTIONS), custom_routes_fn=_own_version)]

    def get_controller_extensions(self) -> list[extensions.ControllerExtension]:
        """Return the controllers that change the answers of Cinder's own ones."""
        return [extensions.ControllerExtension(self, 'attachments',
                                               attachments.AttachmentsController())]


def _own_version(_mapper: Any, resource: Any) -> None:
    """Keep Cinder from refusing requests without a version of its own API."""
    resource.support_api_request_version = False


def _unguarded() -> dict[str, str]:
    """Return the name of the guard for each option that names no subclass of its guard."""
    used = {
        ('volume_api_class', 'VolumeAPI'): importutils.import_class(CONF.volume_api_class),
        ('backup_api_class', 'BackupAPI'): importutils.import_class(CONF.backup_api_class),
        # Cinder reads these options when its modules are imported.
        ('transfer_api_class', 'TransferAPI'): transfer.API,
        ('group_api_class', 'GroupAPI'): group.API,
    }
    return {option: guard for (option, guard), configured in used.items()
            if not issubclass(configured, getattr(guards, guard))}
