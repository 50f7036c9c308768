# shellcheck shell=bash disable=SC2154  # DevStack sets what is not set here
# SPDX-License-Identifier: Apache-2.0
#
# plugin.sh MODE [PHASE]: what DevStack calls; the work is done in lib/specreds.

# shellcheck source=devstack/lib/specreds
source "$SPECREDS_DIR/devstack/lib/specreds"

# "disable_service specreds" in local.conf leaves all of it out.
if ! is_service_enabled specreds; then
    :

elif [[ "$1" == "stack" && "$2" == "pre-install" ]]; then
    echo_summary "Checking what SpecREDS needs"
    check_specreds_requirements

elif [[ "$1" == "stack" && "$2" == "install" ]]; then
    echo_summary "Installing SpecREDS"
    install_specreds

elif [[ "$1" == "stack" && "$2" == "post-config" ]]; then
    echo_summary "Configuring SpecREDS"
    configure_specreds
    create_specreds_accounts
    init_specreds

elif [[ "$1" == "stack" && "$2" == "extra" ]]; then
    echo_summary "Starting SpecREDS"
    start_specreds
    verify_specreds

elif [[ "$1" == "stack" && "$2" == "test-config" ]]; then
    echo_summary "Configuring Tempest for SpecREDS"
    configure_specreds_tempest

elif [[ "$1" == "unstack" ]]; then
    stop_specreds
    remove_specreds_boxes

elif [[ "$1" == "clean" ]]; then
    cleanup_specreds
fi
