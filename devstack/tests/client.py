# SPDX-License-Identifier: Apache-2.0
"""The client's commands, on a cloud whose only superposition is a file with its state.

Run as ``python -m devstack.tests.client FILE COMMAND…``. A script that is tested with it fails as
on a real cloud, such as for a superposition that has ended.
"""

import pathlib
import sys
from typing import Any
from unittest import mock

import requests

from specreds_cinder.tests.unit.osc import cloud as osc_cloud

_PATH = f'/os-superpositions/{osc_cloud.ID}'


class Cloud(osc_cloud.Cloud):
    """A cloud that makes the superposition, and aborts it.

    :param state: file with the superposition's state, which exists as long as the superposition
    """

    def __init__(self, state: pathlib.Path) -> None:
        super().__init__()
        self._state = state

    def send(self, request: requests.PreparedRequest, *args: Any,
             **kwargs: Any) -> requests.Response:
        """Answer a request, and change the superposition as the request says."""
        self._answers.clear()
        self.answer('GET', f'/volumes/{osc_cloud.VOLUME}', {'volume': {
            'id': osc_cloud.VOLUME, 'name': 'specreds-grenade'}})
        if request.method == 'POST' and str(request.url).endswith('/os-superpositions'):
            self._state.write_text('superposed')
            self.answer('POST', '/os-superpositions', self._shown(), status=202)
        elif self._state.exists():
            self.answer('GET', _PATH, self._shown())
            self.answer('POST', f'{_PATH}/collapse', {'collapse': {
                'outcome': 'aborted', 'state': 'aborting', 'durations': {}}})
            self.answer('DELETE', _PATH, None, status=202)
        else:
            for method in ('GET', 'DELETE'):
                self.fault(method, _PATH, 404, 'no such superposition', 'itemNotFound')
        answer = super().send(request, *args, **kwargs)
        if request.method == 'DELETE' or str(request.url).endswith('/collapse'):
            self._state.unlink(missing_ok=True)
        return answer

    def _shown(self) -> dict[str, Any]:
        return {'superposition': {**osc_cloud.SUPERPOSITION, 'state': self._state.read_text()}}


def main(state: str, *words: str) -> int:
    """Run a command, and return its exit status."""
    with mock.patch('time.sleep'):
        return osc_cloud.shell(Cloud(pathlib.Path(state)), sys.stdout, sys.stderr).run(
            list(words))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
