# SPDX-License-Identifier: Apache-2.0
# Target rules shared by every folder: warnings, sanitizers, one static library
# per layer, one test executable per layer.

# Usage requirements of all our code: include root, warnings, sanitizers.
add_library(forestall_flags INTERFACE)
target_include_directories(forestall_flags INTERFACE
  "${CMAKE_SOURCE_DIR}/userspace" "${CMAKE_SOURCE_DIR}")
target_compile_options(forestall_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang warns about missing fields in libbpf's LIBBPF_OPTS(); g++ does not.
  target_compile_options(forestall_flags INTERFACE -Wno-missing-designated-field-initializers)
endif()
target_compile_definitions(forestall_flags INTERFACE
  FORESTALL_VERSION="${PROJECT_VERSION}")
if(FORESTALL_SANITIZE)
  target_compile_options(forestall_flags INTERFACE
    "-fsanitize=${FORESTALL_SANITIZE}" -fno-sanitize-recover=all)
  if(FORESTALL_SANITIZE MATCHES undefined)
    # UBSan opens a pipe to check whether it may read an object's vtable, and reports a bad object
    # if there is no descriptor left. The tests run with few descriptors (one left, in
    # BpfProgramsTest), so this check would give false reports for each class that it checks first.
    # ASan finds calls on destroyed objects without it, and the product casts down no class
    # hierarchy.
    target_compile_options(forestall_flags INTERFACE -fno-sanitize=vptr)
    # Only the product is instrumented by UBSan: in GoogleTest's macros it costs a third of the
    # build.
    target_compile_options(forestall_flags INTERFACE
      $<$<BOOL:$<TARGET_PROPERTY:FORESTALL_TEST>>:-fno-sanitize=undefined>)
  endif()
  if(FORESTALL_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # TSan does not model fences. Ours order stores for a BPF program, which TSan does not see.
    target_compile_options(forestall_flags INTERFACE -Wno-tsan)
  endif()
  if(FORESTALL_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_definitions(forestall_flags INTERFACE __SANITIZE_ADDRESS__) # as g++ has it
  endif()
  if(FORESTALL_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_definitions(forestall_flags INTERFACE __SANITIZE_THREAD__) # as g++ has it
  endif()
  target_link_options(forestall_flags INTERFACE "-fsanitize=${FORESTALL_SANITIZE}")
  # Tests run once: optimizing them takes longer than they do.
  target_compile_options(forestall_flags INTERFACE
    $<$<BOOL:$<TARGET_PROPERTY:FORESTALL_TEST>>:-O0>)
  # Reports name lines only, and debug types take a tenth of the build.
  target_compile_options(forestall_flags INTERFACE -g1)
else()
  # As above. Guests are emulated, and without any optimization their tests would take longer.
  target_compile_options(forestall_flags INTERFACE
    $<$<AND:$<CONFIG:RelWithDebInfo>,$<BOOL:$<TARGET_PROPERTY:FORESTALL_TEST>>>:-O1>)
endif()

# Headers that most files parse are compiled once for each kind of target. The kinds:
#   std        the standard library and fmt
#   messages   std, and the generated headers of forestall.v1
#   test       std and GoogleTest
# Files still include what they use; configure with -DFORESTALL_PRECOMPILE=OFF to check it.
option(FORESTALL_PRECOMPILE "Use precompiled headers" ON)
set(std_headers <algorithm> <array> <charconv> <chrono> <cstdint> <deque> <functional> <map>
  <memory> <optional> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
  <fmt/format.h>)
set(precompile_std_headers ${std_headers})
set(precompile_std_depends fmt::fmt)
set(precompile_messages_headers ${std_headers} <forestall/v1/decision.pb.h>
  <forestall/v1/observation.pb.h> <forestall/v1/record.pb.h> <google/protobuf/message.h>)
set(precompile_messages_depends fmt::fmt forestall_proto)
set(precompile_test_headers ${std_headers} <gmock/gmock.h> <gtest/gtest.h>)
set(precompile_test_depends fmt::fmt GTest::gmock GTest::gtest)

# forestall_precompile(TARGET KIND) lets TARGET use the precompiled headers of KIND. TARGET must link
# (directly or not) what precompile_KIND_depends lists: the compiler refuses headers that were
# precompiled under other macros.
function(forestall_precompile target kind)
  if(NOT FORESTALL_PRECOMPILE)
    return()
  endif()
  set(owner forestall_precompiled_${kind})
  if(NOT TARGET ${owner})
    file(WRITE "${CMAKE_BINARY_DIR}/precompiled/${kind}.cc" "")
    add_library(${owner} OBJECT "${CMAKE_BINARY_DIR}/precompiled/${kind}.cc")
    target_link_libraries(${owner} PRIVATE forestall_flags ${precompile_${kind}_depends})
    target_precompile_headers(${owner} PRIVATE ${precompile_${kind}_headers})
    if(kind STREQUAL test)
      set_target_properties(${owner} PROPERTIES FORESTALL_TEST ON)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# Compiles many files of a layer at a time, which parses each header less often: a whole build
# takes a third of the time, and a build after a small change takes longer.
option(FORESTALL_UNITY "Compile several source files at once" OFF)
function(forestall_unity target files)
  if(NOT FORESTALL_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  # A class that is private to its file may have members of the file's own types.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# The same for code that protoc made: each file has two static arrays of the same names, which get the
# file's own. Protobuf has members of these names, so its headers are parsed first.
function(forestall_unity_messages target files)
  forestall_unity(${target} ${files})
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_UNIQUE_ID FORESTALL_FILE
    UNITY_BUILD_CODE_BEFORE_INCLUDE "#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/message.h>
#undef schemas
#undef file_default_instances
#define FORESTALL_JOINED(a, b) a##b
#define FORESTALL_JOIN(a, b) FORESTALL_JOINED(a, b)
#define schemas FORESTALL_JOIN(schemas_, FORESTALL_FILE)
#define file_default_instances FORESTALL_JOIN(file_default_instances_, FORESTALL_FILE)"
    UNITY_BUILD_CODE_AFTER_INCLUDE "#undef FORESTALL_JOIN
#undef FORESTALL_JOINED")
endfunction()

# The layers with code between a wake and a kill, in the order in which they are linked first
# (userspace/cli). The loop also encodes recordings, by messages and recording.
set(forestall_resident_layers base model kernel sources policy actuators exports agent)
set(forestall_loop_layers ${forestall_resident_layers} messages recording)
# Compiled like them: rebalance computes plans of large clusters.
set(forestall_fast_layers ${forestall_loop_layers} rebalance)

# All other code waits for disks, terminals and people. -O1 compiles in four fifths of the time of
# -O2 (generated messages: two thirds), which is a minute of a first build on two cores.
function(forestall_optimize_less target)
  if(NOT FORESTALL_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
endfunction()

# For code that protoc made. UBSan would take three quarters of its compile time, and its code is not
# ours.
function(forestall_generated target)
  forestall_optimize_less(${target})
  if(FORESTALL_SANITIZE)
    string(REPLACE ",undefined" "" sanitize "${FORESTALL_SANITIZE}")
    target_compile_options(${target} PRIVATE "-fsanitize=${sanitize}" -O0)
  endif()
endfunction()

# forestall_companion(NAME) is for a program that `forestall` executes (cli/companion_program.h): in a
# build tree it is in the same folder as forestall, and it has only the functions that it calls.
function(forestall_companion name)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/userspace/cli")
  target_link_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:LINKER:--gc-sections>)
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/forestall")
endfunction()

# forestall_layer(NAME SOURCES file... [DEPENDS target...] [PRIVATE_DEPENDS target...]
#                 [PRECOMPILE kind])
# defines the static library forestall_NAME from the files of this folder.
function(forestall_layer name)
  cmake_parse_arguments(arg "" "PRECOMPILE" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(NOT arg_PRECOMPILE)
    set(arg_PRECOMPILE std)
  endif()
  add_library(forestall_${name} STATIC ${arg_SOURCES})
  target_link_libraries(forestall_${name}
    PUBLIC forestall_flags ${arg_DEPENDS}
    PRIVATE ${arg_PRIVATE_DEPENDS})
  forestall_precompile(forestall_${name} ${arg_PRECOMPILE})
  if(NOT name IN_LIST forestall_fast_layers)
    forestall_optimize_less(forestall_${name})
  endif()
  forestall_unity(forestall_${name} 26)
endfunction()

# All tests labelled `threads`: the stage `tsan` builds only these. All labelled `unit`: for a quick
# test of a change.
add_custom_target(forestall_thread_tests)
add_custom_target(unit_tests)
option(FORESTALL_UNIT_TESTS "Build unit tests with the target `all`" ON)

# forestall_test(NAME [UNITY] [SOURCES file...] [DEPENDS target...] [LABELS label...]
#                [BESIDE_ALL suite...] [LOCKED suite...])
# defines the GoogleTest executable NAME and registers its suites, as `unit` unless labelled
# otherwise. Unit tests labelled `optimized` as well have cases that no sanitizer allows, so `all`
# always builds them. `ctest -j` runs unit tests beside all others. Tests labelled `integration` share the
# machine's counters, memory and CPUs, so each suite of them is in one of three groups:
#   BESIDE_ALL  uses its own cgroups, files and processes only: runs beside any test
#   LOCKED      loads the machine, or reads what another of them changes: one of them at a time
#   (others)    compares counters of the whole machine or measures short times: runs alone
function(forestall_test name)
  cmake_parse_arguments(arg "UNITY" "" "SOURCES;DEPENDS;LABELS;BESIDE_ALL;LOCKED" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES FORESTALL_TEST ON)
  forestall_precompile(${name} test)
  if(arg_UNITY) # the names in its files' anonymous namespaces are distinct
    forestall_unity(${name} 10)
  endif()
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(forestall_thread_tests ${name})
  endif()
  if("unit" IN_LIST arg_LABELS)
    add_dependencies(unit_tests ${name})
    if(NOT FORESTALL_UNIT_TESTS AND NOT "optimized" IN_LIST arg_LABELS)
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endif()
  # One word for ctest, whose -L takes a regular expression; a list would be split on the way.
  string(JOIN "-" label ${arg_LABELS})
  # Quoted: otherwise CMake would read a caller's variable of that name.
  if(NOT "integration" IN_LIST arg_LABELS)
    forestall_register(${name} all * LABELS ${label})
    return()
  endif()
  list(TRANSFORM arg_BESIDE_ALL APPEND ".*")
  list(TRANSFORM arg_LOCKED APPEND ".*")
  list(JOIN arg_BESIDE_ALL ":" beside_all)
  list(JOIN arg_LOCKED ":" locked)
  if(beside_all)
    forestall_register(${name} beside_all ${beside_all} LABELS ${label})
  endif()
  if(locked)
    # First, so that unit tests run beside them on the other CPUs.
    forestall_register(${name} locked ${locked} LABELS ${label} RESOURCE_LOCK machine COST 10)
  endif()
  forestall_register(${name} alone "-${beside_all}:${locked}" LABELS ${label} RUN_SERIAL ON)
endfunction()

# Registers the suites of the executable that match the filter of GoogleTest, each as one ctest test.
# sum_results.py counts their cases.
function(forestall_register name group filter)
  set(tests "${CMAKE_CURRENT_BINARY_DIR}/${name}_${group}_tests.cmake")
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -D "executable=$<TARGET_FILE:${name}>" -D "filter=${filter}"
            -D "output=${tests}" -D "properties=${ARGN}"
            -P "${PROJECT_SOURCE_DIR}/scripts/cmake/discover_suites.cmake"
    BYPRODUCTS "${tests}" VERBATIM)
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${name}_${group}_include.cmake")
  list(JOIN ARGN " " properties)
  file(WRITE "${include}" "if(EXISTS \"${tests}\")
  include(\"${tests}\")
else()
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
  set_tests_properties(${name}_NOT_BUILT PROPERTIES ${properties})
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()
