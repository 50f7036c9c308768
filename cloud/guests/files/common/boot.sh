# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# What the first program of every guest begins with.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

# scsi: whether there is a virtio device of that kind. To load what such disks need takes a while.
scsi() {
    for device in /sys/bus/virtio/devices/*/device; do
        [ -f "$device" ] && read -r id <"$device" && [ "$id" = 0x0008 ] && return 0
    done
    return 1
}

# Parameters of modules stand on the kernel's command line as MODULE.PARAMETER=VALUE; insmod has
# to be told.
read -r cmdline </proc/cmdline
while read -r module; do
    case $module in
    scsi_* | virtio_scsi.* | sd_mod.*) scsi || continue ;;
    esac
    parameters=
    for word in $cmdline; do
        case $word in
        "${module%.ko}".*) parameters="$parameters ${word#*.}" ;;
        esac
    done
    # shellcheck disable=SC2086  # words
    insmod "/modules/$module" $parameters
done </modules/order
