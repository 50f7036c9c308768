# SPDX-License-Identifier: Apache-2.0
"""Protection: whether a server may be given a backup when its host fails."""

from collections.abc import Iterator
import contextlib
import contextvars
from typing import Any

from nova import exception as nova_exception
import nova.conf

from specreds_nova import conf
from specreds_nova import protected as rule

CONF = nova.conf.CONF
conf.register(CONF)

_applies: contextvars.ContextVar[bool] = contextvars.ContextVar('specreds_protected',
                                                                default=False)


def protected(instance: Any) -> bool:
    """Return whether a server is protected.

    :param instance: a nova.objects.Instance
    """
    return rule.by_metadata(metadata(instance), CONF.specreds.protect_by_default)


def metadata(instance: Any) -> dict[str, str]:
    """Return the metadata of a server; none if they cannot be read."""
    if not instance.obj_attr_is_set('metadata'):
        try:
            instance.obj_load_attr('metadata')
        except nova_exception.NovaException:
            return {}
    return dict(instance.metadata or {})


@contextlib.contextmanager
def of(instance: Any) -> Iterator[None]:
    """Configure disks, within the context, for a server, protected or not."""
    token = _applies.set(protected(instance))
    try:
        yield
    finally:
        _applies.reset(token)


def applies() -> bool:
    """Return whether the disk that is being configured is a protected server's."""
    return _applies.get()
