#!/bin/bash
# shellcheck disable=SC1091,SC2034,SC2154  # variables of Grenade
# SPDX-License-Identifier: Apache-2.0
#
# Install the target release, bring the engine's database to its version, and start the services.
# Configuration files stay: what they have to get is in the release notes.

set -o errexit

DEVSTACK=$TARGET_DEVSTACK_DIR
source "$(dirname "$0")/common"
set -o xtrace

if [[ -d "$SPECREDS_CONF_DIR" && ! -d "$SAVE_DIR/etc.specreds" ]]; then
    cp -pr "$SPECREDS_CONF_DIR" "$SAVE_DIR/etc.specreds"
fi
install_specreds
if is_service_enabled specreds-engine specreds-api; then
    "$SPECREDS_BIN_DIR/specreds-engine-manage" --config-file "$SPECREDS_CONF" db sync
fi
start_specreds
ensure_services_started specreds-engine specreds-api specreds-sentinel
verify_specreds
