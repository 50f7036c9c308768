# SPDX-License-Identifier: Apache-2.0
"""Cinder's own API with the extension, on a database in memory; only the back ends are fakes."""

import contextlib
import dataclasses
import functools
import inspect
import json
import re
from typing import Any
from unittest import mock
import warnings

from cinder import context
from cinder import objects
from cinder.api.middleware import auth
from cinder.api.middleware import fault
from cinder.api.v3 import router
from cinder.common import constants
from cinder.objects import base as objects_base
from cinder.tests.unit import test
from cinder.tests.unit import utils
from cinder.volume import rpcapi as volume_rpcapi
from oslo_config import cfg
import webob

from specreds_cinder.api import guards
from specreds_cinder.service import hints
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service

CONF = cfg.CONF

PROJECT = '5f3f3e5ac81a44f4a1d1b6a6f7dc2c55'
OTHER_PROJECT = '6f3f3e5ac81a44f4a1d1b6a6f7dc2c66'
USER = '7f3f3e5ac81a44f4a1d1b6a6f7dc2c77'
ID = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
OTHER_ID = 'c6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d11'
UNKNOWN_ID = 'd6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d12'
VOLUME = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
SECOND = '1f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d02'
SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
HOST = 'node1@rbd'
OTHER_HOST = 'node2@fast'
GIB = 1 << 30

BASE = '/os-superpositions'
MEMBER = f'{BASE}/{ID}'
HEADER = 'OpenStack-API-Version'


@dataclasses.dataclass
class Answer:
    """An answer of the API."""

    status: int
    body: Any
    headers: Any

    @property
    def message(self) -> str:
        """The text of an error."""
        (error,) = self.body.values()
        return str(error['message'])


def caller(role: str = 'admin', project_id: str = PROJECT) -> context.RequestContext:
    """Return the context of a caller; an admin is a member, and a member is a reader."""
    implied = {'admin': ['admin', 'member', 'reader'], 'member': ['member', 'reader']}
    return context.RequestContext(USER, project_id, roles=implied.get(role, [role]),
                                  is_admin=role == 'admin', auth_token=True)


def view(superposition_id: str = ID, volume_ids: tuple[str, ...] = (VOLUME,), *,
         host: str = HOST, **changes: Any) -> dict[str, Any]:
    """Return a superposition as a back end describes it."""
    superposition = {
        'id': superposition_id, 'state': 'superposed', 'outcome': None,
        'created_at': '2026-01-02T03:04:05Z', 'updated_at': '2026-01-02T03:04:06Z',
        'age_seconds': 61.5, 'reason': 'host gone', 'server_id': SERVER, 'project_id': PROJECT,
        'user_id': USER, 'request_id': 'req-1', 'members': [HOST], 'lead': HOST, 'host': host,
        'volumes': [{'id': volume_id, 'size_bytes': GIB, 'overlay_bytes': 1 << 20}
                    for volume_id in volume_ids],
        'overlay_bytes': len(volume_ids) << 20, 'dirty': None, 'dirty_object': None, 'fenced': 0,
    }
    return {**superposition, **changes}


_SUPER_API = rpcapi.SuperAPI
_RPC = mock.Mock(spec=['call', *service.METHODS])


def _call(ctxt: Any, host: str, method: str, **arguments: Any) -> Any:
    # The service takes these arguments.
    inspect.signature(service.METHODS[method]).bind(None, ctxt, **arguments)
    return getattr(_RPC, method)(ctxt, host, **arguments)


@functools.cache
def _application() -> Any:
    """Return the API, built once: compiling its routes takes longer than most tests."""
    overrides = {
        'osapi_volume_extension': ['cinder.api.contrib.standard_extensions',
                                   'specreds_cinder.api.extension.Superpositions'],
        'volume_api_class': 'specreds_cinder.api.guards.VolumeAPI',
        'backup_api_class': 'specreds_cinder.api.guards.BackupAPI',
    }
    with contextlib.ExitStack() as stack:
        for option, value in overrides.items():
            CONF.set_override(option, value)
            stack.callback(CONF.clear_override, option)
        stack.enter_context(mock.patch('cinder.transfer.API', guards.TransferAPI))
        stack.enter_context(mock.patch('cinder.group.API', guards.GroupAPI))
        return router.APIRouter()


class APITestCase(test.TestCase):
    """Sends requests to the API.

    :ivar rpc: stand-in for the volume services: by method, a function of the context, the host
        and the arguments
    """

    def setUp(self) -> None:
        super().setUp()
        # Cinder's own warnings are not about these tests.
        warnings.filterwarnings('ignore', category=DeprecationWarning, module='cinder')
        self.rpc = _RPC
        self.rpc.reset_mock(return_value=True, side_effect=True)
        self.rpc.call.side_effect = _call
        self.patch('specreds_cinder.service.rpcapi.SuperAPI', return_value=self.rpc)
        self.admin = context.get_admin_context()
        self.application = _application()

    def volume(self, volume_id: str = VOLUME, *, host: str = HOST, project_id: str = PROJECT,
               superposition: str | None = None, **values: Any) -> objects.Volume:
        """Create a volume, with a note if a superposition is named."""
        made = utils.create_volume(caller(project_id=project_id), id=volume_id,
                                   host=f'{host}#pool', volume_type_id=self.vt['id'],
                                   availability_zone='nova', **values)
        if superposition is not None:
            hints.put([volume_id], superposition)
        return made

    def service(self, host: str = HOST, **values: Any) -> None:
        """Create a volume service that is up."""
        utils.create_service(self.admin, {
            'host': host, 'topic': constants.VOLUME_TOPIC, 'binary': constants.VOLUME_BINARY,
            'rpc_current_version': volume_rpcapi.VolumeAPI.RPC_API_VERSION,
            'object_current_version': objects_base.OBJ_VERSIONS.get_current(), **values})

    def messages(self, method: str) -> mock.Mock:
        """Make a method of ``rpc`` send messages, and return the stand-in for their sender."""
        with mock.patch('cinder.rpc.get_client') as sender:
            sending = _SUPER_API()
        getattr(self.rpc, method).side_effect = lambda ctxt, host, **arguments: sending.call(
            ctxt, host, method, **arguments)
        client: mock.Mock = sender.return_value
        return client

    def superposed(self, **changes: Any) -> None:
        """Create a superposed volume, on a back end that says so."""
        self.service()
        self.volume(superposition=ID)
        self.rpc.get.return_value = view(**changes)
        self.rpc.list.return_value = [view(**changes)]

    def attach(self, volume_id: str = VOLUME, server_id: str = SERVER,
               **values: Any) -> objects.VolumeAttachment:
        """Attach a volume to a server."""
        made = objects.VolumeAttachment(
            self.admin, volume_id=volume_id, instance_uuid=server_id,
            **{'attach_status': 'attached', 'attach_mode': 'rw', **values})
        made.create()
        return made

    def ask(self, method: str, path: str, body: Any = None, *,
            ctxt: context.RequestContext | None = None, version: str | None = None) -> Answer:
        """Send a request to the API, below the caller's project.

        :param version: value of the header, with the service type
        """
        ctxt = ctxt or caller()
        request = webob.Request.blank(f'/v3/{ctxt.project_id}{path}', method=method,
                                      headers={HEADER: version} if version else {})
        # The routing by versions removes the first part of the path.
        request.path_info_pop()
        if body is not None:
            request.content_type = 'application/json'
            request.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        answered = request.get_response(
            fault.FaultWrapper(auth.InjectContext(ctxt, self.application)))
        text = answered.body.decode()
        return Answer(answered.status_int,
                      json.loads(text) if text.startswith('{') else text, answered.headers)

    def routes(self, collection: str) -> set[tuple[str, str]]:
        """Return method and path, below a project, of each route of a collection.

        Cinder also makes routes for actions that a controller does not have: those return 404.
        """
        return {(method, path) for route in self.application.map.matchlist
                for path in re.findall(rf'^/{{project_id:[^/]+(/{collection}\b[^.]*)$',
                                       route.routepath)
                if hasattr(route.defaults['controller'].controller, route.defaults['action'])
                for method in route.conditions['method']}

    def refused(self, status: int, *request: Any, **how: Any) -> str:
        """Send a request that the API refuses, and return the reason."""
        answer = self.ask(*request, **how)
        self.assertEqual(status, answer.status, answer.body)
        return answer.message

    def done(self, status: int, *request: Any, **how: Any) -> Any:
        """Send a request that succeeds, and return the body of the answer."""
        answer = self.ask(*request, **how)
        self.assertEqual(status, answer.status, answer.body)
        self.assertEqual('superposition 1.0', answer.headers[HEADER])
        self.assertEqual(HEADER, answer.headers['Vary'])
        return answer.body
