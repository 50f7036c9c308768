#!/bin/bash
# shellcheck disable=SC1091,SC2154  # variables of Grenade
# SPDX-License-Identifier: Apache-2.0
#
# resources.sh create|verify|verify_noapi|destroy [SIDE]
# What an upgrade has to preserve: a volume in superposition.

set -o errexit

source "$GRENADE_DIR/grenaderc"
source "$GRENADE_DIR/functions"
source "$TOP_DIR/openrc" admin admin
set -o xtrace

function create {
    local volume superposition
    volume=$(openstack volume create --size 1 -f value -c id specreds-grenade)
    resource_save specreds volume "$volume"
    while [[ "$(openstack volume show -f value -c status "$volume")" != "available" ]]; do
        sleep 1
    done
    superposition=$(openstack volume super create -f value -c id "$volume")
    resource_save specreds superposition "$superposition"
}

function verify {
    local state
    state=$(openstack volume super show -f value -c state "$(resource_get specreds superposition)")
    if [[ "$state" != "superposed" ]]; then
        die $LINENO "the superposition is $state after the upgrade"
    fi
}

function destroy {
    local superposition
    superposition=$(resource_get specreds superposition)
    # It is gone once it is aborted.
    openstack volume super collapse --abort --wait "$superposition"
    openstack volume delete "$(resource_get specreds volume)"
}

case $1 in
create | verify | destroy) "$1" ;;
# Superpositions are seen by the API alone.
verify_noapi) ;;
esac
