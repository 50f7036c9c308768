# SPDX-License-Identifier: Apache-2.0
"""Selection of the versions of the APIs that a class of tests uses, as Tempest selects them."""

from typing import Any

import fixtures
from tempest import config
from tempest.lib.common import api_version_utils
import tempest.test

from tempest_plugin.services import base

CONF = config.CONF

# The project's own APIs, by their names in the header of versions.
APIS = ('superposition', 'speculative')


class MicroversionFixture(fixtures.Fixture):
    """Clients request versions of the project's own APIs until the fixture is cleaned up.

    :param versions: versions by the name of the API; None for a request without a version
    """

    def __init__(self, **versions: str | None) -> None:
        super().__init__()
        self._versions = versions

    def _setUp(self) -> None:  # noqa: N802 - the name is of fixtures
        former = {api: base.MICROVERSIONS.get(api) for api in self._versions}
        base.MICROVERSIONS.update(self._versions)
        self.addCleanup(base.MICROVERSIONS.update, former)


class MicroversionTest(api_version_utils.BaseMicroversionTest, tempest.test.BaseTestCase):
    """A test whose requests have the lowest versions that the class and the configuration permit.

    The class is skipped if the configured range of versions lacks those that the class needs.
    """

    superposition_min_microversion: str | None = '1.0'
    superposition_max_microversion = api_version_utils.LATEST_MICROVERSION
    speculative_min_microversion: str | None = '1.0'
    speculative_max_microversion = api_version_utils.LATEST_MICROVERSION

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if the cloud lacks a version that they need."""
        super().skip_checks()
        api_version_utils.check_skip_with_microversion(
            cls.volume_min_microversion, cls.volume_max_microversion,
            CONF.volume.min_microversion, CONF.volume.max_microversion)
        for api in APIS:
            api_version_utils.check_skip_with_microversion(
                getattr(cls, f'{api}_min_microversion'), getattr(cls, f'{api}_max_microversion'),
                CONF.specreds[f'{api}_min_microversion'],
                CONF.specreds[f'{api}_max_microversion'])

    @classmethod
    def resource_setup(cls) -> None:
        """Select the versions."""
        super().resource_setup()
        cls.setup_api_microversion_fixture(
            volume_microversion=api_version_utils.select_request_microversion(
                cls.volume_min_microversion, CONF.volume.min_microversion))
        fixture = MicroversionFixture(**{api: cls.request_microversion(api) for api in APIS})
        fixture.setUp()
        cls.addClassResourceCleanup(fixture.cleanUp)

    @classmethod
    def request_microversion(cls, api: str) -> str | None:
        """Return the version of one of the project's own APIs that requests have."""
        selected: Any = api_version_utils.select_request_microversion(
            getattr(cls, f'{api}_min_microversion'), CONF.specreds[f'{api}_min_microversion'])
        return None if selected is None else str(selected)
