#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh CCACHE COMPILER ARGUMENT…: compiles through a compiler cache.
#
# A precompiled header is built with -include of the header that it is made of, and GCC then reads
# the one of the last build. The cache would therefore look it up by that one's content, not by that
# of the headers, and return an outdated one after a change of a header.
for argument in "$@"; do
  case $argument in *.gch) rm -f "$argument" ;; esac
done
exec "$@"
