# SPDX-License-Identifier: Apache-2.0
"""What Cinder, Nova and Neutron tell of the services that report to them."""

import dataclasses
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class Service:
    """What an API says of a service that reports to it."""

    binary: str
    host: str
    up: bool
    enabled: bool


class Api(Protocol):
    """An API that tells of services."""

    def services(self) -> list[Service]:
        """Return the services that have ever started."""


@dataclasses.dataclass(frozen=True)
class Worker:
    """A service without an API: it is asked through its queue, and reports to an API.

    :param name: under which supervisord runs it
    :param queue: on which it is asked to do something
    :param binary: what it calls itself where it reports, and `host` where it says to be
    :param owner: whose API it reports to; empty if it does not
    """

    name: str
    queue: str
    binary: str = ''
    host: str = ''
    owner: str = ''
