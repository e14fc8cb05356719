# SPDX-License-Identifier: Apache-2.0
"""The parts of vmtests/bench.py, one question per module.

catalogue which agents, scenarios and pods there are: folders and small files
debian    the disk every guest boots from: Debian 12 and the peers' packages
payload   the disk with our own programs, the agents' folders and the pods
qemu      one machine: its command line, its monitor, saving and resuming it
runs      one run after the other, each from the same saved machine
runlog    what a guest sent, as values
figures   what one run comes to
summary   medians, spread and ratios over the repetitions
session   an output folder: results that can be added to, and their reports
table     all of it as text
page      all of it as HTML
plot      a picture of it; the one module that needs more than the standard library
"""
