#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# purity_test.sh NM ARCHIVE: fails if ARCHIVE (libforestall_policy.a) needs anything except our pure
# layers, memory, strings and arithmetic (rounding included). The list names what is allowed, so
# that an unexpected system call fails as well.
set -eu

nm=$1
archive=$2

# Without the "archive[member]:" headings.
undefined=$("$nm" --undefined-only --format=posix "$archive" |
  grep -v ':$' | cut -d' ' -f1 | sort -u)
[ -n "$undefined" ] || { echo "purity: nm shows no undefined symbol in $archive"; exit 1; }

# Besides base, model and policy: operator new and delete, std::allocator (out of line in debug
# builds), std::string, the library's exceptions, unwinding, mem* and the stack protector; numbers
# of 128 bits; the flag by which std::shared_ptr counts without atomics in a single
# thread, and the type information that it compares; std::to_chars, which ignores locales; the
# balancing of std::map; the hashing of std::unordered_map; the base of std::bad_variant_access;
# fnmatch(3), which depends on the locale, and we set none.
allow() {
  grep -E -v \
    -e '^_ZN?[KRO]*9forestall' \
    -e '^_Z(nw|na|dl|da)' \
    -e '^_ZNK?SaI' \
    -e '^_ZNK?St7__cxx1112basic_string' \
    -e '^_ZSt[0-9]+__throw_' \
    -e '^_ZSt(9terminatev|7nothrow)$' \
    -e '^(_Unwind_Resume|__gxx_personality_v0|DW\.ref\.__gxx_personality_v0|__cxa_[a-z_]+)$' \
    -e '^(__u?(div|mod)ti3|__u?divmodti4|__float(un)?tidf|__fix(uns)?dfti)$' \
    -e '^__libc_single_threaded$' \
    -e '^_ZTVN10__cxxabiv1' \
    -e '^_ZSt8to_chars' \
    -e '^_ZSt[0-9]+_Rb_tree_' \
    -e '^(_ZNKSt8__detail20_Prime_rehash_policy|_ZSt11_Hash_bytes)' \
    -e '^_Z(NSt9exceptionD2Ev|TISt9exception)$' \
    -e '^(strlen|strcmp|round|llround|floor|sin|cos|sincos|fnmatch)$' \
    -e '^(memcmp|memcpy|memmove|memset|memchr|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$'
}
foreign=$(
  printf '%s\n' "$undefined" | allow || true
  printf '%s\n' "$undefined" |
    grep -E '^_ZN?[KRO]*9forestall[0-9]+(kernel|clients|sources|actuators|exports|api|agent|cli)' ||
    true
)
if [ -n "$foreign" ]; then
  echo "purity: $(basename "$archive") reaches outside of itself:"
  printf '%s\n' "$foreign" | sed 's/^/  /'
  exit 1
fi
echo "purity: $(printf '%s\n' "$undefined" | wc -l) undefined symbols, all pure"
