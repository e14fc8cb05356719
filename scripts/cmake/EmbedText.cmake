# SPDX-License-Identifier: Apache-2.0
# Text files as constants of a C++ source, each with its SHA-256 in base64, as a content security
# policy names scripts. Run as a script, so that it runs when a file has changed:
#   cmake -DOUT=embedded.cc -DNAMESPACE=forestall::page -DHEADER=page/embedded.h
#         "-DPARTS=kPageJs=/path/page.js|kPageCss=/path/page.css" -P EmbedText.cmake
# g++ 12 has no #embed, every compiler accepts an array of bytes, and CMake needs no other program.
string(ASCII 10 newline)

# The digits of `hex`, which are 64, in base64 (RFC 4648): six bits for each character.
function(base64_of_hex hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(text "")
  # 64 digits are 21 groups of three, two characters each, and one digit that is left.
  foreach(group RANGE 0 20)
    math(EXPR at "${group} * 3")
    string(SUBSTRING "${hex}" ${at} 3 digits)
    math(EXPR high "(0x${digits}) >> 6")
    math(EXPR low "(0x${digits}) & 63")
    string(SUBSTRING "${alphabet}" ${high} 1 first)
    string(SUBSTRING "${alphabet}" ${low} 1 second)
    string(APPEND text "${first}${second}")
  endforeach()
  string(SUBSTRING "${hex}" 63 1 digit)
  math(EXPR last "(0x${digit}) << 2")
  string(SUBSTRING "${alphabet}" ${last} 1 character)
  set(${out} "${text}${character}=" PARENT_SCOPE)
endfunction()

set(source "// Made by scripts/cmake/EmbedText.cmake.${newline}#include \"${HEADER}\"${newline}")
string(APPEND source "namespace ${NAMESPACE} {${newline}")
string(REPLACE "|" ";" PARTS "${PARTS}")
foreach(part ${PARTS})
  string(REGEX MATCH "^([A-Za-z]+)=(.+)$" matched "${part}")
  set(name "${CMAKE_MATCH_1}")
  set(path "${CMAKE_MATCH_2}")
  file(READ "${path}" hex HEX)
  file(SHA256 "${path}" sum)
  base64_of_hex("${sum}" base64)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND source "static constexpr unsigned char ${name}Bytes[] = {${bytes}};${newline}"
    "extern const Embedded ${name};${newline}"
    "const Embedded ${name}{{reinterpret_cast<const char*>(${name}Bytes), sizeof(${name}Bytes)},"
    " \"${base64}\"};${newline}")
endforeach()
string(APPEND source "}  // namespace ${NAMESPACE}${newline}")
file(WRITE "${OUT}" "${source}")
