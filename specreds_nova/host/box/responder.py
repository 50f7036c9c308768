# SPDX-License-Identifier: Apache-2.0
"""A box's metadata service: it answers GET requests from one file, and does nothing else.

It runs in the box's network namespace, with the file's path as argument, and with the name of the
network device, if it serves over IPv6, too. As soon as it accepts
connections, it goes to the background and drops root. It imports the standard library only: it
starts in a few hundredths of a second, and there is one for each port.
"""

import base64
import http
import http.server
import json
import os
import pathlib
import posixpath
import socket
import sys
import threading
from typing import Any, NamedTuple
import urllib.parse

ADDRESS = ('169.254.169.254', 80)
ADDRESS_IPV6 = ('fe80::a9fe:a9fe', 80)
_NOBODY = 65534
# At most so many at a time; further ones are closed.
_CONNECTIONS = 16


class Answer(NamedTuple):
    """One answer.

    :param kind: media type
    """

    kind: str
    body: bytes


def load(path: pathlib.Path) -> dict[str, Answer]:
    """Return the answers by path."""
    return {where: Answer(kind, base64.b64decode(body))
            for where, (kind, body) in json.loads(path.read_text()).items()}


def canonical(path: str) -> str:
    """Return the key of a request's path: Nova serves EC2's paths with and without ``/ec2``."""
    path = urllib.parse.unquote(path.partition('?')[0])
    path = posixpath.normpath('/' + path.lstrip('/'))
    first = path.split('/')[1]
    return path if first in ('ec2', 'openstack') else posixpath.normpath('/ec2' + path)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``answers``."""

    protocol_version = 'HTTP/1.1'
    server_version = 'specreds'
    sys_version = ''
    # Time until an idle connection is closed, in seconds.
    timeout = 30
    answers: dict[str, Answer] = {}

    def do_GET(self) -> None:
        answer = self.answers.get(canonical(self.path))
        if answer is None:
            self.send_error(http.HTTPStatus.NOT_FOUND)
            return
        self.send_response(http.HTTPStatus.OK)
        self.send_header('Content-Type', answer.kind)
        self.send_header('Content-Length', str(len(answer.body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class Server(http.server.ThreadingHTTPServer):
    """Serves in a few threads, as a guest may leave a connection open."""

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread was started that would release it.
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        # HTTPServer's own method resolves the host's name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = ADDRESS


class ServerIPv6(Server):
    """Serves over IPv6."""

    address_family = socket.AF_INET6


def main(path: str, device: str | None = None) -> None:
    """Serve until the process is killed.

    :param device: network device with the address of IPv6, which is link-local
    """
    Handler.answers = load(pathlib.Path(path))
    servers = [Server(ADDRESS, Handler)]
    if device is not None:
        scope = socket.if_nametoindex(device)
        servers.append(ServerIPv6((*ADDRESS_IPV6, 0, scope), Handler))
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    for server in servers[1:]:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == '__main__':
    main(*sys.argv[1:])
