# SPDX-License-Identifier: Apache-2.0
"""The plans of this host's boxes on disk, where a restarted service finds them."""

import pathlib
import shutil

from specreds_nova.host.box import plan as box_plan

_PLAN = 'plan.json'


class PlanStore:
    """A directory for each port that has a box, with its plan and what belongs to it.

    :param directory: made when the first plan is saved
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def path(self, port: str, name: str) -> pathlib.Path:
        """Return the path of a file that is kept with a port's plan."""
        return self._directory / port / name

    def save(self, plan: box_plan.Plan) -> None:
        """Store a plan atomically."""
        path = self.path(plan.port, _PLAN)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f'{_PLAN}.new')
        temporary.write_text(plan.to_json())
        temporary.replace(path)

    def get(self, port: str) -> box_plan.Plan | None:
        """Return the plan of a port; None if there is none that can be read."""
        try:
            return box_plan.Plan.from_json(self.path(port, _PLAN).read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def all(self) -> list[box_plan.Plan]:
        """Return all plans."""
        if not self._directory.exists():
            return []
        plans = [self.get(entry.name) for entry in sorted(self._directory.iterdir())]
        return [plan for plan in plans if plan]

    def of(self, backup_id: str) -> list[box_plan.Plan]:
        """Return the plans of a backup."""
        return [plan for plan in self.all() if plan.backup_id == backup_id]

    def forget(self, port: str) -> None:
        """Remove the plan of a port, and what is kept with it."""
        shutil.rmtree(self._directory / port, ignore_errors=True)
