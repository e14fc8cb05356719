#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh CCACHE COMPILER ARGUMENT…: compiles through a compiler cache.
#
# A precompiled header is built with -include of the header that it is made of, and GCC then reads
# the one of the last build. The cache would therefore look it up by that one's content, not by that
# of the headers, and return an outdated one after a change of a header.
#
# One of clang's has absolute paths in it, so that no other clone of the tree would find anything
# compiled with it in the cache. So the cache takes it for equal (CCACHE_PCH_EXTSUM) if the files it
# is made of, and the arguments, are equal.
pch='' dependencies=''
for argument in "$@"; do
  case $argument in
    *.gch) rm -f "$argument" ;;
    *.pch.d) dependencies=$argument ;;
  esac
  case $previous in -o) case $argument in *.pch) pch=$argument ;; esac ;; esac
  previous=$argument
done
if [ -z "$pch" ] || [ -z "$dependencies" ]; then exec "$@"; fi

"$@" || exit
{
  shift
  "$1" --version
  # The tree's own path is what may differ.
  echo "$@" | sed "s,$CCACHE_BASEDIR,,g"
  sed 's/^[^:]*://; s/\\$//' "$dependencies" | tr ' ' '\n' | sed '/^$/d' | xargs cat
} | sha256sum | cut -d' ' -f1 >"$pch.sum"
