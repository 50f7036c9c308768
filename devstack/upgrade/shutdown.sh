#!/bin/bash
# shellcheck disable=SC1091,SC2034,SC2154  # variables of Grenade
# SPDX-License-Identifier: Apache-2.0
#
# Stop the services of the release to upgrade from. Backups and superpositions stay as they are:
# the engine of the target release continues with them.

set -o errexit

DEVSTACK=$BASE_DEVSTACK_DIR
source "$(dirname "$0")/common"
set -o xtrace

stop_specreds
ensure_services_stopped specreds-engine specreds-api specreds-sentinel
