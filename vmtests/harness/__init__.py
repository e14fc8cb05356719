# SPDX-License-Identifier: Apache-2.0
"""The parts of vmtests/run.py, one question per module.

mirrors   where this machine gets Debian packages from
kernels   which kernel packages there are, fetched and unpacked into a cache
modules   which kernel modules a guest loads, and in what order
bzimage   the bare vmlinux inside a vmlinuz, which boots faster
libraries which shared libraries a program needs
cpio      the archive format the kernel unpacks at boot
image     the initramfs of one boot
guest     one QEMU process: start, follow, bound, kill
gtest     what a GoogleTest program prints, turned into verdicts
campaign  all cases of one environment, over as many boots as that takes
report    what the person and the program reading along get to see

Everything here is the standard library: the harness has to run on a machine
on which nothing but QEMU has been prepared.
"""
