# SPDX-License-Identifier: Apache-2.0
# Target rules shared by every folder: warnings, sanitizers, one static library
# per layer, one test executable per layer.

# Usage requirements of all code that is ours: include root, warnings, sanitizers.
add_library(forestall_flags INTERFACE)
target_include_directories(forestall_flags INTERFACE
  "${CMAKE_SOURCE_DIR}/userspace" "${CMAKE_SOURCE_DIR}")
target_compile_options(forestall_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror -fno-omit-frame-pointer)
target_compile_definitions(forestall_flags INTERFACE
  FORESTALL_VERSION="${PROJECT_VERSION}")
if(FORESTALL_SANITIZE)
  target_compile_options(forestall_flags INTERFACE
    "-fsanitize=${FORESTALL_SANITIZE}" -fno-sanitize-recover=all)
  target_link_options(forestall_flags INTERFACE "-fsanitize=${FORESTALL_SANITIZE}")
endif()

# forestall_layer(NAME SOURCES file... [DEPENDS target...] [PRIVATE_DEPENDS target...])
# defines the static library forestall_NAME from the files of this folder.
function(forestall_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(forestall_${name} STATIC ${arg_SOURCES})
  target_link_libraries(forestall_${name}
    PUBLIC forestall_flags ${arg_DEPENDS}
    PRIVATE ${arg_PRIVATE_DEPENDS})
endfunction()

# forestall_test(NAME [SOURCES file...] [DEPENDS target...] [LABELS label...])
# defines the GoogleTest executable NAME and registers each of its tests, as `unit` unless
# labelled otherwise.
function(forestall_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  include(GoogleTest)
  # One word for ctest, whose -L takes a regular expression: a list would not survive the way there.
  string(JOIN "-" label ${arg_LABELS})
  gtest_discover_tests(${name} PROPERTIES LABELS ${label} DISCOVERY_TIMEOUT 60)
endfunction()
