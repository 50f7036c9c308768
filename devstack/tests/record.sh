#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Is in the place of every program that would change something outside the directory of a test:
# writes down how it was called, and answers what a caller wants to hear.

name=$(basename "$0")
printf -v words '%q ' "$name" "$@"
printf '%s\n' "${words% }" >>"$ROOT/record"

case "$name $*" in
sudo\ *)
    while [[ "$1" == -* || "$1" == *=* ]]; do
        shift
    done
    program=$(basename "$1")
    if [[ -e "$ROOT/bin/$program" ]]; then
        shift
        exec "$ROOT/bin/$program" "$@"
    fi
    # Files are written, but not those of the system.
    if [[ ! "$program" =~ ^(cp|grep|install|mkdir|rm|sed|tee|touch)$ ]]; then
        exit 0
    fi
    for word in "$@"; do
        if [[ "$word" =~ ^/(etc|opt|run|usr|var)/ && "$word" != "$ROOT"/* ]]; then
            if [[ "$1" == tee ]]; then
                cat >/dev/null
            fi
            exit 0
        fi
    done
    exec "$@"
    ;;
openstack\ *service\ show\ *)
    exit 1
    ;;
openstack\ *create\ *)
    echo 8f2d
    ;;
ceph\ *auth\ get\ *)
    echo '[{"entity": "client.cinder", "key": "a2V5", "caps": {"mgr": "allow rw",' \
        '"mon": "allow r", "osd": "allow rwx pool=volumes, allow rwx pool=vms"}}]'
    ;;
ip\ netns\ list)
    printf '%s\n' 'qdhcp-8f2d (id: 1)' 'specreds-8f2d (id: 0)'
    ;;
ip\ netns\ pids\ *)
    echo 4711
    ;;
ovs-vsctl\ *\ list-br)
    printf '%s\n' br-int sb8f2d
    ;;
ovs-vsctl\ *\ br-get-external-id\ sb*\ specreds-port)
    echo 8f2d
    ;;
curl\ *)
    printf 200
    ;;
specreds-engine-manage\ *\ key\ host\ *)
    echo "key of ${*: -1}"
    ;;
specreds-status\ *)
    # A test says with what the first calls end, a line each.
    if [[ -s "$ROOT/statuses" ]]; then
        status=$(head -n 1 "$ROOT/statuses")
        sed -i 1d "$ROOT/statuses"
        exit "$status"
    fi
    ;;
esac
