#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: enter.sh ROOT COMMAND…
# Run a command with ROOT as /. To be started in a mount and a process namespace of its own: what is
# mounted here is gone with its last process. ROOT becomes a mount point, and the root of the
# namespace, because programs that make further namespaces change how / is shared.
set -eu

root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
for name in sys dev; do
    mount --rbind "/$name" "$root/$name"
done
mount -t tmpfs -o mode=755 tmpfs "$root/run"
cd "$root"
pivot_root . .
# The old root is on top of the new one, at the same place.
umount -l .
cd /
# Not with exec: this shell is the first process of the namespace, to which the kernel hands orphans,
# and it removes them once they have ended, which other programs do not.
status=0
"$@" || status=$?
exit "$status"
