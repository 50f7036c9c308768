#!/bin/bash
# shellcheck disable=SC1091,SC2034,SC2154  # as DevStack has it: globals, and files by name
# SPDX-License-Identifier: Apache-2.0
#
# Stands in for DevStack where there is no checkout of it: what its documentation of plug-ins
# promises, and the functions that this one calls. Configuration files are written for real.

STACK_USER=$(id -un)
DATA_DIR=$DEST/data
SYSTEMD_DIR=$ROOT/systemd
SYSTEMCTL="sudo systemctl"
REGION_NAME=RegionOne
SERVICE_PROTOCOL=http
SERVICE_TIMEOUT=60
SERVICE_PROJECT_NAME=service
SERVICE_DOMAIN_NAME=Default
KEYSTONE_SERVICE_URI=$SERVICE_PROTOCOL://$SERVICE_HOST/identity
SSL_BUNDLE_FILE=$DATA_DIR/ca-bundle.pem
MEMCACHE_SERVERS=localhost:11211
CELLSV2_SETUP=${CELLSV2_SETUP:-superconductor}
NOVA_CPU_CELL=1
ENABLE_DEBUG_LOG_LEVEL=True
LIBVIRT_GROUP=libvirt
VIRT_DRIVER=${VIRT_DRIVER:-libvirt}
TEMPEST_PLUGINS=${TEMPEST_PLUGINS:-0}
if [[ -z "$ENABLED_SERVICES" ]]; then
    ENABLED_SERVICES=key,n-api,n-cpu,n-cond,n-sch,n-novnc,n-api-meta,placement-api,g-api
    ENABLED_SERVICES+=,c-sch,c-api,c-vol,ovn-controller,ovn-northd,ovs-vswitchd,ovsdb-server
    ENABLED_SERVICES+=,q-svc,q-ovn-agent,rabbit,tempest,mysql
fi

# Services

function is_cinder_enabled {
    [[ ,$ENABLED_SERVICES =~ ,c- ]]
}

function is_service_enabled {
    local service
    for service in "$@"; do
        if [[ ,$ENABLED_SERVICES, == *,$service,* ]]; then
            return 0
        fi
        if type "is_${service}_enabled" >/dev/null 2>&1 && "is_${service}_enabled"; then
            return 0
        fi
    done
    return 1
}

function enable_service {
    local service
    for service in "$@"; do
        if [[ ,$ENABLED_SERVICES,$DISABLED_SERVICES, != *,$service,* ]]; then
            ENABLED_SERVICES+=,$service
        fi
    done
}

function disable_service {
    local service all
    for service in "$@"; do
        DISABLED_SERVICES+=,$service
        all=,$ENABLED_SERVICES,
        all=${all//,$service,/,}
        all=${all#,}
        ENABLED_SERVICES=${all%,}
    done
}

# Words

function trueorfalse {
    case "${!2:-$1}" in
    [Yy]es | [Tt]rue | TRUE | 1) echo True ;;
    *) echo False ;;
    esac
}

function echo_summary {
    echo "$@"
}

function die {
    shift
    echo "[ERROR] $*" >&2
    exit 1
}

# Files

# _standin_ini [-sudo] FILE SECTION OPTION VALUE... - Replace all values of an option
function _standin_ini {
    if [[ "$1" == "-sudo" ]]; then
        shift
    fi
    local file=$1 section=$2 option=$3
    shift 3
    local line here="" found="" lines=() result=()
    if [[ -e "$file" ]]; then
        mapfile -t lines <"$file"
    fi
    for line in "${lines[@]}"; do
        if [[ "$line" == "["* ]]; then
            here=$line
        elif [[ "$here" == "[$section]" && "$line" == "$option = "* ]]; then
            continue
        fi
        result+=("$line")
        if [[ "$line" == "[$section]" ]]; then
            found=$line
            result+=("${@/#/$option = }")
        fi
    done
    if [[ -z "$found" ]]; then
        result+=("" "[$section]" "${@/#/$option = }")
    fi
    printf '%s\n' "${result[@]}" >"$file"
}

function iniset {
    if [[ "$1" == "-sudo" ]]; then
        shift
    fi
    _standin_ini "$@"
}

function iniset_multiline {
    _standin_ini "$@"
}

function iniget {
    sed -n "/^\[$2\]/,/^\[.*\]/ s/^$3[ \t]*=[ \t]*//p" "$1"
}

function iniset_rpc_backend {
    iniset "$2" "${3:-DEFAULT}" transport_url \
        "rabbit://stackrabbit:$RABBIT_PASSWORD@$SERVICE_HOST:5672/$4"
}

function get_transport_url {
    echo "rabbit://stackrabbit:$RABBIT_PASSWORD@$SERVICE_HOST:5672/${1:-}"
}

function setup_logging {
    iniset "$1" DEFAULT logging_exception_prefix 'ERROR %(name)s'
}

function database_connection_url {
    echo "mysql+pymysql://root:$DATABASE_PASSWORD@127.0.0.1/$1?charset=utf8"
}

function configure_keystoneauth {
    iniset "$1" "$3" auth_type password
    iniset "$1" "$3" interface public
    iniset "$1" "$3" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$3" username "$2"
    iniset "$1" "$3" password "$SERVICE_PASSWORD"
    iniset "$1" "$3" user_domain_name "$SERVICE_DOMAIN_NAME"
    iniset "$1" "$3" project_name "$SERVICE_PROJECT_NAME"
    iniset "$1" "$3" project_domain_name "$SERVICE_DOMAIN_NAME"
}

function configure_keystone_authtoken_middleware {
    configure_keystoneauth "$1" "$2" "${3:-keystone_authtoken}"
    iniset "$1" "${3:-keystone_authtoken}" www_authenticate_uri "$KEYSTONE_SERVICE_URI"
    iniset "$1" "${3:-keystone_authtoken}" cafile "$SSL_BUNDLE_FILE"
    iniset "$1" "${3:-keystone_authtoken}" memcached_servers "$MEMCACHE_SERVERS"
}

function configure_cinder_access {
    iniset "$NOVA_CONF" cinder os_region_name "$REGION_NAME"
    configure_keystoneauth "$NOVA_CONF" nova cinder
}

function configure_cinder_backend_ceph {
    iniset "$CINDER_CONF" "$1" volume_backend_name "$1"
    iniset "$CINDER_CONF" "$1" volume_driver cinder.volume.drivers.rbd.RBDDriver
    iniset "$CINDER_CONF" "$1" rbd_ceph_conf "$CEPH_CONF_FILE"
    iniset "$CINDER_CONF" "$1" rbd_pool "$CINDER_CEPH_POOL"
    iniset "$CINDER_CONF" "$1" rbd_user "$CINDER_CEPH_USER"
    iniset "$CINDER_CONF" "$1" rbd_secret_uuid "$CINDER_CEPH_UUID"
}

# Everything else, through the same programs as DevStack's

function get_python_exec_prefix {
    echo /usr/local/bin
}

function setup_develop {
    "$DATA_DIR/venv/bin/pip" install -e "$1"
}

function recreate_database {
    mysql -e "DROP DATABASE IF EXISTS $1;"
    mysql -e "CREATE DATABASE $1 CHARACTER SET utf8;"
}

function create_service_user {
    openstack user create "$1" --password "$SERVICE_PASSWORD"
    openstack role add service --user "$1" --project "$SERVICE_PROJECT_NAME"
    if [[ -n "$2" ]]; then
        openstack role add "$2" --user "$1" --project "$SERVICE_PROJECT_NAME"
    fi
}

function get_or_create_role {
    openstack role create "$1"
}

function get_or_create_service {
    openstack service create "$2" --name "$1" --description="$3"
}

function get_or_create_endpoint {
    openstack endpoint create "$1" public "$3" --region "$2"
}

function apache_site_config_for {
    echo "$APACHE_CONF_DIR/$1.conf"
}

function write_uwsgi_config {
    iniset "$1" uwsgi module "$2"
    echo "ProxyPass \"$3\" \"unix:/var/run/uwsgi/$5.socket|uwsgi://uwsgi-uds-$5\"" |
        sudo tee -a "$(apache_site_config_for "$5")"
    sudo a2ensite "$5"
}

function remove_uwsgi_config {
    rm -f "$1"
    sudo a2dissite "$2"
}

function run_process {
    if is_service_enabled "$1"; then
        mkdir -p "$SYSTEMD_DIR"
        iniset -sudo "$SYSTEMD_DIR/devstack@$1.service" Service ExecStart "$2"
        if [[ -n "$3" ]]; then
            iniset -sudo "$SYSTEMD_DIR/devstack@$1.service" Service Group "$3"
        fi
        $SYSTEMCTL start "devstack@$1.service"
    fi
}

function stop_process {
    if is_service_enabled "$1"; then
        $SYSTEMCTL stop "devstack@$1.service"
    fi
}

function wait_for_service {
    curl "$2"
}

# Plug-ins

function define_plugin {
    :
}

function plugin_requires {
    :
}

function run_phase {
    case $1 in
    override_defaults) source "$DEST/specreds/devstack/override-defaults" ;;
    source) source "$DEST/specreds/devstack/settings" ;;
    *) source "$DEST/specreds/devstack/plugin.sh" "$@" ;;
    esac
}
