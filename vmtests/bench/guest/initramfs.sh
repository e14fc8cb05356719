#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PID 1 before systemd: mounts a tmpfs over the read-only root, so that no disk changes and a
# snapshot of RAM contains the whole state of a machine.
export PATH=/bin

lose() {
  echo "bench: $*"
  poweroff -f
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
  insmod "/modules/$module" || echo "bench: $module cannot be loaded"
done </modules/order
mount -t ext4 -o ro,noload /dev/vda /lower || lose "no root"
mount -t tmpfs -o size=256m tmpfs /overlay
mkdir /overlay/upper /overlay/work
mount -t overlay -o lowerdir=/lower,upperdir=/overlay/upper,workdir=/overlay/work overlay /root ||
  lose "no overlay"
mkdir -p /root/forestall /root/srv/bench
mount -t ext4 -o ro,noload /dev/vdb /root/forestall || lose "no early disk"
mount -t ext4 -o ro,noload /dev/vdc /root/srv/bench || lose "no data"
cp /root/forestall/units/* /root/etc/systemd/system/
mkdir -p /root/etc/systemd/system/multi-user.target.wants
ln -s ../bench.service /root/etc/systemd/system/multi-user.target.wants/bench.service
umount /proc /sys
mount -o move /dev /root/dev
exec switch_root /root /sbin/init
