# SPDX-License-Identifier: Apache-2.0
"""The check that keeps an operation off superposed volumes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from specreds_cinder.service import hints
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)

_Method = Callable[..., Any]
# Takes the API class's object and the arguments by name, and returns the ids of the volumes.
_Affected = Callable[[Any, Mapping[str, Any]], Iterable[str]]


def guarded(method: _Method, done: str, affected: _Affected) -> _Method:
    """Return a method of an API class that refuses superposed volumes.

    :param done: the participle of the operation, as in "the volume cannot be DONE"
    :param affected: returns the volumes that the operation affects
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
def unsuperposed(ctxt: Any, volume_ids: Iterable[str], done: str, *,
                 allowed: Collection[str] = ()) -> Iterator[None]:
    """Keep volumes out of superposition while the context lasts.

    :param allowed: states of a superposition in which the operation is allowed nevertheless
    :raises VolumeSuperposed: a volume is in a superposition
    :raises SuperpositionUnavailable: a volume may be in one, but its volume service is silent
    """
    # Cinder itself reports ids that are malformed.
    meant = [volume_id for volume_id in volume_ids if uuidutils.is_uuid_like(volume_id)]
    with hints.lock(*meant):
        for volume_id in meant:
            _refuse_superposed(ctxt, volume_id, done, allowed)
        yield


def _refuse_superposed(ctxt: Any, volume_id: str, done: str, allowed: Collection[str]) -> None:
    noted = hints.of(volume_id)
    if noted is None:
        return
    try:
        volume = objects.Volume.get_by_id(context.get_admin_context(), volume_id)
    except cinder_exception.VolumeNotFound:
        return
    try:
        state = rpcapi.SuperAPI().call(ctxt, rpcapi.backend(volume), 'get',
                                       superposition_id=noted, brief=True)['state']
    except exception.SuperpositionNotFound:
        LOG.debug('superposition %s does not exist: the note on volume %s is stale', noted,
                  volume_id)
        return
    except exception.SuperpositionError as exc:
        raise exception.SuperpositionUnavailable(
            f'volume {volume_id} cannot be {done}: it may be in superposition {noted}, whose '
            f'state is unknown ({exc.msg})') from exc
    if state in allowed:
        return
    raise exception.VolumeSuperposed(
        f'volume {volume_id} cannot be {done} while it is in superposition {noted}, which is '
        f'{state}: {_way_out(volume_id, state)}', state=state)


def _way_out(volume_id: str, state: str) -> str:
    if state in states.DECIDED:
        return 'wait until the promoted version is merged into the volume'
    if state == states.ABORTING:
        return 'wait until the superposition has ended'
    return ('end the superposition first, with "openstack volume super collapse '
            f'(--promote|--abort) {volume_id}"')
