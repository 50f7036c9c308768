# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative drill``."""

import argparse
import time

from osc_lib import exceptions
from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import server
from specreds_nova.osc import shown

# Seconds between two looks at a drill, and for which its begin is waited for.
_LOOK = 1.0
_BEGIN = 60.0


class Drill(base.SpeculativeCommand, command.ShowOne):
    """Start a sealed backup of a server that is well, wait until it is ready, and drop it.

    The server stays as it is, and may write: the backup boots from its volumes as they are when
    the drill begins. Meanwhile no volume can be attached to the server. There is one drill at a
    time, and none while a recovery is under way: a drill gives way to whatever begins. The steps
    show how long each takes; "openstack speculative recovery list" keeps them. The exit status is
    3 if the backup did not become ready, and the error says why.
    """

    arguments = (server.add_argument,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        drill = self.client.drill(server.find(self.app.client_manager, parsed_args.server))
        began = time.monotonic()
        while drill['state'] != model.ENDED:
            if drill['state'] == model.QUEUED and time.monotonic() - began > _BEGIN:
                self.client.abort(drill['id'])
                raise exceptions.CommandError(
                    f'no engine has begun drill {drill["id"]} in {_BEGIN:g} s: it is aborted')
            time.sleep(_LOOK)
            drill = self.client.recovery(drill['id'])
        self.status = 0 if drill['outcome'] == model.PRIMARY else base.NO
        return shown.one(drill, shown.RECOVERY)
