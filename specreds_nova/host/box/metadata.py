# SPDX-License-Identifier: Apache-2.0
"""Answers of Nova's metadata service for one server, written to a file for the box's responder.

All answers are known before the guest asks, so the responder needs neither Nova nor a network, and
runs on while nova-compute restarts. What a guest posts (its password) is refused while the box is
shut.
"""

import base64
from collections.abc import Iterator
import json
import os
import pathlib
from typing import Any

from nova.api.metadata import base

_LATEST = 'latest'


def write(instance: Any, path: pathlib.Path) -> None:
    """Write the answers for a server to a file.

    :param instance: nova.objects.Instance
    """
    source = base.InstanceMetadata(instance)
    answers = {where: (kind, base64.b64encode(body).decode())
               for where, kind, body in answers_of(source)}
    temporary = path.with_suffix('.new')
    # The file contains user data.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, 'w') as file:
        json.dump(answers, file)
    temporary.replace(path)


def answers_of(source: Any) -> Iterator[tuple[str, str, bytes]]:
    """Yield path, media type and body of every answer.

    :param source: nova.api.metadata.base.InstanceMetadata
    """
    yield '/ec2', base.MIME_TYPE_TEXT_PLAIN, _text([*base.VERSIONS, _LATEST])
    for version in (*base.VERSIONS, _LATEST):
        yield from _tree(f'/ec2/{version}', source.get_ec2_metadata(version))
    versions = source.lookup('/openstack')
    yield '/openstack', base.MIME_TYPE_TEXT_PLAIN, _text(versions)
    for version in versions:
        for name in source.lookup(f'/openstack/{version}'):
            yield from _looked_up(source, f'/openstack/{version}/{name}')
        yield from _looked_up(source, f'/openstack/{version}')
    for key in source.content:
        yield from _looked_up(source, f'/openstack/{base.CONTENT_DIR}/{key}')


def _tree(path: str, data: Any) -> Iterator[tuple[str, str, bytes]]:
    yield path, base.MIME_TYPE_TEXT_PLAIN, _text(data)
    if isinstance(data, dict):
        for name, below in data.items():
            if name != '_name':
                yield from _tree(f'{path}/{name}', below)


def _looked_up(source: Any, path: str) -> Iterator[tuple[str, str, bytes]]:
    try:
        data = source.lookup(path)
    except base.InvalidMetadataPath:
        return
    if callable(data):
        # The only path with a handler is the password's.
        yield path, base.MIME_TYPE_TEXT_PLAIN, (source.password or '').encode()
        return
    yield path, source.get_mimetype(), _text(data)


def _text(data: Any) -> bytes:
    text = base.ec2_md_print(data)
    return text if isinstance(text, bytes) else str(text).encode()
