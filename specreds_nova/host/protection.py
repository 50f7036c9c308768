# SPDX-License-Identifier: Apache-2.0
"""Protection: whether a server may be given a backup when its host fails."""

from collections.abc import Iterator
import contextlib
import contextvars
import pathlib
from typing import Any

from nova import exception as nova_exception
import nova.conf

from specreds_nova import protected as rules

CONF = nova.conf.CONF

_applies: contextvars.ContextVar[bool] = contextvars.ContextVar('specreds_protected',
                                                                default=False)


def protected(instance: Any) -> bool:
    """Return whether a server is protected.

    :param instance: a nova.objects.Instance
    """
    word = _word()
    by_engines = ([{'name': '', 'metadata': {rules.PROTECT: word == rules.ALL}}]
                  if word in (rules.ALL, rules.NONE) else [])
    return rules.Rules(_extra_specs(instance), by_engines, metadata(instance)).protects(
        word != rules.OPT_IN)


def _word() -> str:
    """Return what engines have told this host about its servers."""
    try:
        return pathlib.Path(CONF.state_path, rules.FILE).read_text()
    except OSError:
        return rules.OPT_OUT


def _extra_specs(instance: Any) -> dict[str, Any]:
    """Return the extra specs of a server's flavor; none if they cannot be read."""
    try:
        return dict(instance.flavor.extra_specs or {})
    except (nova_exception.NovaException, NotImplementedError):
        return {}


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
