# SPDX-License-Identifier: Apache-2.0
"""The settings of the monitor."""

from collections.abc import Mapping
import dataclasses

from specreds_nova.beats import listening
from specreds_nova.beats import message
from specreds_nova.engine.suspicion import accrual

# Seconds to ignore the silence of a host after a clean stop of its nova-compute, as for an
# upgrade: its servers go on.
RESTART_S = 3600.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the monitor.

    :ivar interval: seconds between beats of a host before its first beat
    :ivar clear_beats: number of consecutive beats that clear a suspicion
    :ivar doubt: intervals of silence from which a host counts for the gate of too many
    :ivar together: seconds within which hosts count as having fallen silent at once
    :ivar graces: seconds for which silence means nothing after a goodbye, by its kind
    :ivar power_up_grace: seconds that hosts have to boot after the site was powered up
    """

    detector: accrual.Settings = dataclasses.field(default_factory=accrual.Settings)
    link: listening.Settings = dataclasses.field(default_factory=listening.Settings)
    interval: float = 0.2
    clear_beats: int = 3
    libvirt_patience: float = 10.0
    storage_patience: float = 5.0
    evidence_lifetime: float = 60.0
    flap_period: float = 900.0
    doubt: float = 2.2
    together: float = 30.0
    graces: Mapping[str, float] = dataclasses.field(
        default_factory=lambda: {message.SERVICE: RESTART_S, message.SYSTEM: 300.0})
    power_up_grace: float = 300.0
