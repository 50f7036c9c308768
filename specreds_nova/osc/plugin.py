# SPDX-License-Identifier: Apache-2.0
"""The entry point through which OpenStackClient finds the commands and their API."""

import argparse
from typing import Any

from osc_lib import utils

from specreds_nova.osc import client

API_NAME = 'speculative'
API_VERSION_OPTION = 'os_speculative_api_version'
DEFAULT_API_VERSION = '1'
API_VERSIONS = ('1', '1.0')


def make_client(instance: Any) -> client.Client:
    """Return a client of the API of the cloud that OpenStackClient is logged in to."""
    return client.Client(instance.session, interface=instance.interface,
                         region_name=instance.region_name)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the option of the API version."""
    parser.add_argument(
        '--os-speculative-api-version', metavar='<speculative-api-version>',
        default=utils.env('OS_SPECULATIVE_API_VERSION'),
        help=f'Version of the API of speculative recovery, default={DEFAULT_API_VERSION} '
             '(Env: OS_SPECULATIVE_API_VERSION)')
    return parser
