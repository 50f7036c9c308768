# SPDX-License-Identifier: Apache-2.0
"""A primary in a process of its own: it has images open as a guest's QEMU, and takes requests.

Run with a configuration file, a user, the policy of librbd's cache or an empty text for no cache,
the path of a socket to listen on, and images. Each line
sent to the socket is a request as JSON; the answer is a line of JSON with ``code``: 0, or the
negative number of librbd's error.
"""

import json
import os
import socketserver
import sys
from typing import Any

import rados
import rbd


class Disks:
    """The images, each with a connection of its own as each disk of a QEMU has."""

    def __init__(self, conf: str, user: str, policy: str, places: list[str]) -> None:
        self.clients: list[str] = []
        self._images = []
        self._kept = []
        for place in places:
            client = rados.Rados(conffile=conf, name=f'client.{user}', conf={
                'rbd_cache': 'true' if policy else 'false',
                **({'rbd_cache_policy': policy} if policy else {})})
            client.connect()
            pool, *namespace, image = place.split('/')
            io = client.open_ioctx(pool)
            io.set_namespace('/'.join(namespace))
            self._images.append(rbd.Image(io, image))
            self._kept.append((client, io))
            self.clients.append(client.get_addrs().removeprefix('v1:'))

    def obey(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request on one disk."""
        image, offset, length = (self._images[request.get('disk', 0)], request.get('offset', 0),
                                 request.get('length', 4096))
        work = {
            'clients': lambda: None,
            'write': lambda: image.write(bytes([request['byte']]) * length, offset),
            'discard': lambda: image.discard(offset, length),
            'read': lambda: image.read(offset, length),
            'flush': image.flush,
            'resize': lambda: image.resize(length),
            'close': self.close,
        }[request['do']]
        try:
            data = work()
        except rbd.Error as exc:
            return {'code': -abs(getattr(exc, 'errno', None) or 5)}
        return {'code': 0, 'clients': self.clients,
                'data': data.hex() if isinstance(data, bytes) else None}

    def close(self) -> None:
        """Close the images: librbd releases their locks and watches."""
        for image in self._images:
            image.close()
        for client, io in self._kept:
            io.close()
            client.shutdown()


class Handler(socketserver.StreamRequestHandler):
    """One connection; any number of requests."""

    def handle(self) -> None:
        """Answer requests until the connection is closed."""
        for line in self.rfile:
            request = json.loads(line)
            self.wfile.write(json.dumps(DISKS.obey(request)).encode() + b'\n')
            if request['do'] == 'close':
                os._exit(0)


if __name__ == '__main__':
    DISKS = Disks(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[5:])
    with socketserver.ThreadingUnixStreamServer(sys.argv[4], Handler) as server:
        server.daemon_threads = True
        server.serve_forever()
