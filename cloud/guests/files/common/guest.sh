# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Functions that the guests share.

# uptime: seconds since the kernel began.
uptime() {
    read -r seconds _ </proc/uptime
    echo "$seconds"
}

# announce LINE: on the console, and on every virtio-serial port that is not the guest agent's. In
# the background: a port that nobody listens on takes nothing.
announce() {
    echo "$*" >/dev/console
    for port in /sys/class/virtio-ports/vport*; do
        name=
        [ -f "$port/name" ] && read -r name <"$port/name"
        case $name in
        '' | org.qemu.guest_agent.*) ;;
        *) (echo "$*" >"/dev/${port##*/}") & ;;
        esac
    done
}

# wait_for PROCESS COMMAND…: until the command succeeds; false if that cannot be, because the process
# has ended or the command cannot be run. What lasts is reported on the console.
wait_for() {
    process=$1
    shift
    polls=0
    while :; do
        "$@" && return
        status=$?
        if [ $status = 126 ] || [ $status = 127 ] || ! kill -0 "$process" 2>/dev/null; then
            return 1
        fi
        polls=$((polls + 1))
        [ $((polls % 300)) != 0 ] || echo "still waiting for $1" >/dev/console
        usleep 100000
    done
}

# network: bring up the loopback and ask for an address for as long as it takes.
network() {
    ip link set lo up
    if [ -e /sys/class/net/eth0 ]; then
        ip link set eth0 up
        udhcpc -i eth0 -f -t 3 -T 1 -A 1 -s "$1" >/run/udhcpc.log 2>&1 &
    fi
}

# shell: a shell on the console, without a login, again and again.
shell() {
    while :; do
        setsid cttyhack sh </dev/ttyS0 >/dev/ttyS0 2>&1
        sleep 1
    done
}
