#!/bin/bash
# shellcheck disable=SC1090,SC1091,SC2034,SC2154  # as DevStack has it: globals, and files by name
# SPDX-License-Identifier: Apache-2.0
#
# stack.sh ROOT DEVSTACK PHASE...
#
# Takes the plug-in in ROOT/opt/specreds through phases, as DevStack's stack.sh, unstack.sh and
# clean.sh do. DEVSTACK is a checkout of it, or empty: then there is the stand-in. ROOT/localrc is
# the user's part of local.conf. All that would be done outside ROOT is done by programs of
# ROOT/bin, which only write it down.

set -o errexit

export ROOT=$1
DEVSTACK=$2
shift 2
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
export PATH=$ROOT/bin:$PATH
HOST_IP=127.0.0.1
SERVICE_HOST=$HOST_IP

if [[ -n "$DEVSTACK" ]]; then
    TOP_DIR=$ROOT/devstack
    mkdir -p "$TOP_DIR"
    # Without those that would install Tempest.
    ln -sf "$DEVSTACK"/[!e]* "$TOP_DIR"
    cp "$ROOT/localrc" "$TOP_DIR/.localrc.auto"
    FILES=$TOP_DIR/files
    # Not what this machine has, but what DevStack runs on.
    os_VENDOR=Ubuntu os_RELEASE=24.04 os_CODENAME=noble os_PACKAGE=deb DISTRO=noble
    source "$TOP_DIR/stackrc"
    STACK_USER=$(id -un)
    SYSTEMD_DIR=$ROOT/systemd
    PYTHON=python3
    CURL_GET=curl
    source "$TOP_DIR/lib/database"
    source "$TOP_DIR/lib/rpc_backend"
    source "$TOP_DIR/lib/host"
    run_phase override_defaults
    for name in apache tls infra libraries keystone nova placement cinder neutron etcd3 tempest; do
        source "$TOP_DIR/lib/$name"
    done
    if initialize_database_backends; then
        define_database_baseurl
    fi
else
    function enable_plugin {
        true
    }
    source "$ROOT/localrc"
    source "$here/standin.sh"
    run_phase override_defaults
fi

APACHE_CONF_DIR=$ROOT/etc/apache
CINDER_CONF_DIR=$ROOT/etc/cinder
CINDER_CONF=$CINDER_CONF_DIR/cinder.conf
NOVA_CONF=$ROOT/etc/nova/nova.conf
NOVA_CPU_CONF=$ROOT/etc/nova/nova-cpu.conf
NOVA_STATE_PATH=$DATA_DIR/nova
NOVA_BIN_DIR=/opt/stack/data/venv/bin
TEMPEST_CONFIG=$ROOT/etc/tempest.conf
echo "phase: source" >>"$ROOT/record"
run_phase source

# configure_others - What DevStack, and its plug-in for Ceph, have written before
function configure_others {
    mkdir -p "$APACHE_CONF_DIR" "$CINDER_CONF_DIR" "$(dirname "$NOVA_CONF")" \
        "$(dirname "$CEPH_CONF_FILE")" "$DATA_DIR"
    if is_service_enabled cinder; then
        iniset "$CINDER_CONF" DEFAULT osapi_volume_extension \
            cinder.api.contrib.standard_extensions
        iniset "$CINDER_CONF" DEFAULT enabled_backends ceph,lvm
        iniset "$CINDER_CONF" lvm volume_driver cinder.volume.drivers.lvm.LVMVolumeDriver
        configure_cinder_backend_ceph ceph
        cp "$CINDER_CONF" "$CINDER_CONF.before"
    fi
    if is_service_enabled n-cpu; then
        iniset "$NOVA_CONF" DEFAULT compute_driver libvirt.LibvirtDriver
        cp "$NOVA_CONF" "$NOVA_CONF.before"
        printf '[global]\nfsid = 1\n[client.libvirt]\nlog file = x\n' >"$CEPH_CONF_FILE"
        cp "$CEPH_CONF_FILE" "$CEPH_CONF_FILE.before"
    fi
}

# configured - When DevStack goes on after post-config
function configured {
    if is_service_enabled n-cpu; then
        cp "$NOVA_CONF" "$NOVA_CPU_CONF"
    fi
}

for phase in "$@"; do
    echo "phase: $phase" >>"$ROOT/record"
    case $phase in
    post-config)
        configure_others
        run_phase stack post-config
        configured
        ;;
    unstack | clean)
        run_phase "$phase"
        ;;
    *)
        run_phase stack "$phase"
        ;;
    esac
done
printf '%s\n' "$ENABLED_SERVICES" "$Q_AGENT" "$Q_ML2_PLUGIN_MECHANISM_DRIVERS" \
    "$TEMPEST_PLUGINS" >"$ROOT/choices"
