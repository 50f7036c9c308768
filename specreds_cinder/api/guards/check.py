# SPDX-License-Identifier: Apache-2.0
"""Refusing an operation on volumes that are in superposition."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import functools
import inspect
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from oslo_log import log as logging
from oslo_utils import uuidutils

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import rpcapi

LOG = logging.getLogger(__name__)

# Once the second version is the real one, a superposition ends by itself.
_PROMOTED = ('promoted', 'merging', 'merged')

_Method = Callable[..., Any]
# From the object of the API class and the arguments by name to the ids of the volumes.
_Affected = Callable[[Any, Mapping[str, Any]], Iterable[str]]


def guarded(method: _Method, done: str, affected: _Affected) -> _Method:
    """Make a method of an API class refuse what would break a superposition.

    :param done: what it does, as in "the volume cannot be DONE"
    :param affected: the volumes that it would do that to
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(self, *args, **kwargs).arguments
        ctxt: Any = call['context']
        with unsuperposed(ctxt, affected(self, call), done):
            return method(self, *args, **kwargs)
    return wrapper


@contextlib.contextmanager
def unsuperposed(ctxt: Any, volume_ids: Iterable[str], done: str) -> Iterator[None]:
    """Keep volumes out of superposition meanwhile.

    :raises VolumeSuperposed: one of them is in one
    :raises SuperpositionUnavailable: nobody knows whether one of them is in one
    """
    # Whatever else a caller names, Cinder will not find.
    meant = [volume_id for volume_id in volume_ids if uuidutils.is_uuid_like(volume_id)]
    with hints.lock(*meant):
        for volume_id in meant:
            _refuse_superposed(ctxt, volume_id, done)
        yield


def _refuse_superposed(ctxt: Any, volume_id: str, done: str) -> None:
    noted = hints.of(volume_id)
    if noted is None:
        return
    try:
        volume = objects.Volume.get_by_id(context.get_admin_context(), volume_id)
    except cinder_exception.VolumeNotFound:
        return
    try:
        state = rpcapi.SuperAPI().get(ctxt, rpcapi.backend(volume), noted)['state']
    except exception.SuperpositionNotFound:
        LOG.debug('the note on volume %s is stale', volume_id)
        return
    except exception.SuperpositionError as exc:
        raise exception.SuperpositionUnavailable(
            f'volume {volume_id} cannot be {done}: it may be in superposition {noted}, and its '
            f'volume service does not tell ({exc.msg})') from exc
    raise exception.VolumeSuperposed(
        f'volume {volume_id} cannot be {done} while it is in superposition {noted}, which is '
        f'{state}: {_way_out(volume_id, state)}', state=state)


def _way_out(volume_id: str, state: str) -> str:
    if state in _PROMOTED:
        return 'wait until the promoted version is merged into the volume'
    if state == 'aborting':
        return 'wait until it is gone'
    return f'end it first, by "openstack volume super collapse (--promote|--abort) {volume_id}"'
