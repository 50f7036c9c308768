# SPDX-License-Identifier: Apache-2.0
"""Nova's own scheduler: the hosts to which Nova would evacuate a server.

The request spec, with which Nova has placed the server, is in Nova's API database. Conductors read
it for the engine, as they do for nova-compute; the engine needs no access to the database.
"""

from collections.abc import Collection, MutableMapping, Sequence
import json
import threading
import time
from typing import Any
import weakref

import cachetools
from nova import context as nova_context
from nova import exception as nova_exception
from nova import objects
from nova import rpc as nova_rpc
from nova.objects import base as objects_base
from oslo_log import log as logging
import oslo_messaging as messaging
from oslo_versionedobjects import base as versioned

from specreds_nova.engine import exception
from specreds_nova.engine import model

LOG = logging.getLogger(__name__)

_EXCHANGE = 'nova'
# The oldest versions with the methods that are called.
_CONDUCTOR = {'topic': 'conductor', 'version': '3.0'}
_SCHEDULER = {'topic': 'scheduler', 'version': '4.5'}
# Seconds for which a request spec is not read again; it changes when a server is rebuilt.
_SPEC_VALID = 3600.0
# Seconds for which a scheduler that has not answered is not asked again.
_REST = 30.0
# Fields by which the request specs of two equal servers differ.
_OWN = ('id', 'instance_uuid', 'num_instances')


class NovaScheduler:
    """Questions to Nova's scheduler. May be used by several threads.

    Nothing is claimed: the scheduler claims only for servers that it is given by their UUIDs.

    :param transport: to the broker of Nova's scheduler and of conductors with the API database,
        made with ``rpcapi.ALLOWED_EXMODS``
    :param timeout: seconds that each of them may take to answer
    """

    def __init__(self, transport: messaging.Transport, timeout: float) -> None:
        objects.register_all()
        serializer = nova_rpc.RequestContextSerializer(objects_base.NovaObjectSerializer())
        self._conductor, self._scheduler = (
            messaging.get_rpc_client(transport, messaging.Target(exchange=_EXCHANGE, **target),
                                     timeout=timeout, serializer=serializer)
            for target in (_CONDUCTOR, _SCHEDULER))
        self._lock = threading.Lock()
        # By server: the flavor that its spec was read for, and the spec, which equal servers
        # share.
        self._specs: MutableMapping[str, tuple[str, Any]] = cachetools.TTLCache(
            float('inf'), _SPEC_VALID, time.monotonic)
        self._shared: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._rests_until = float('-inf')

    def spec(self, server: model.Server) -> Any:
        """Return the request spec of a server, restricted to the server's cell.

        Servers that Nova would place in the same way have the same object.

        :raises exception.Unreachable: Nova does not answer, or has no request spec
        """
        flavor = json.dumps(server.flavor, sort_keys=True, default=str)
        with self._lock:
            known = self._specs.get(server.id)
        if known is not None and known[0] == flavor:
            return known[1]
        spec = self._call(self._read, server)
        primitive = spec.obj_to_primitive()
        for field in _OWN:
            primitive['nova_object.data'].pop(field, None)
        key = json.dumps(primitive, sort_keys=True, default=str)
        with self._lock:
            spec = self._shared.setdefault(key, spec)
            self._specs[server.id] = flavor, spec
        return spec

    def select(self, server: model.Server, ignore: Collection[str],
               group_hosts: Sequence[str]) -> list[str]:
        """Return the hosts that Nova's scheduler would choose for a server, the best first.

        They are as many as Nova's option ``[scheduler] max_attempts``, or fewer.

        :param ignore: hosts that are not chosen
        :param group_hosts: hosts of members of the server's group, to which an affinity binds it
        :raises exception.Unreachable: Nova does not answer
        """
        spec = self.spec(server).obj_clone()
        spec.ignore_hosts = sorted(ignore)
        if spec.instance_group is not None:
            spec.instance_group.hosts = list(group_hosts)
        return self._select(server, spec)

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether Nova's scheduler would place a server on a host, its group aside.

        :raises exception.Unreachable: Nova does not answer
        """
        spec = self.spec(server).obj_clone()
        spec.ignore_hosts = None
        spec.instance_group = None
        spec.requested_destination.host = host
        return self._select(server, spec) == [host]

    def _select(self, server: model.Server, spec: Any) -> list[str]:
        spec.instance_uuid = server.id
        try:
            # Without UUIDs of servers the scheduler claims nothing.
            [selections] = self._call(lambda context: self._scheduler.call(
                context, 'select_destinations', spec_obj=spec, instance_uuids=None,
                return_objects=True, return_alternates=True))
        except nova_exception.NoValidHost:
            return []
        return [selection.service_host for selection in selections]

    def _read(self, context: Any, server: model.Server) -> Any:
        """Return a request spec as Nova's conductor prepares it for an evacuation."""
        spec = self._object(context, 'RequestSpec', server.id)
        mapping = self._object(context, 'InstanceMapping', server.id)
        spec.requested_destination = objects.Destination(cell=mapping.cell_mapping)
        spec.reset_forced_destinations()
        spec.num_instances = 1
        spec.retry = None
        # Servers with ports that need resources have no backups.
        spec.requested_resources = []
        spec.request_level_params = objects.RequestLevelParams()
        if 'is_bfv' not in spec:
            spec.is_bfv = server.boots_from_volume
        return spec

    def _object(self, context: Any, name: str, server_id: str) -> Any:
        return self._conductor.call(
            context, 'object_class_action_versions', objname=name,
            objmethod='get_by_instance_uuid',
            object_versions=versioned.obj_tree_get_versions(name), args=(server_id,), kwargs={})

    def _call(self, ask: Any, *arguments: Any) -> Any:
        """Return an answer of Nova.

        :raises nova_exception.NoValidHost: the scheduler has no host
        :raises exception.Unreachable: there is no answer; none is waited for in the next seconds
        """
        if time.monotonic() < self._rests_until:
            raise exception.Unreachable("Nova's scheduler has not answered a moment ago")
        try:
            return ask(nova_context.get_admin_context(), *arguments)
        except nova_exception.NoValidHost:
            raise
        except nova_exception.NovaException as exc:
            raise exception.Unreachable(f"Nova's scheduler cannot be asked: {exc}") from exc
        except Exception as exc:
            self._rests_until = time.monotonic() + _REST
            LOG.warning("Nova's scheduler cannot be asked, so that destinations are chosen by "
                        'Placement for %g s: %s', _REST, exc)
            raise exception.Unreachable(f"Nova's scheduler cannot be asked: {exc}") from exc
