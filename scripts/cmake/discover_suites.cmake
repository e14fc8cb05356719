# SPDX-License-Identifier: Apache-2.0
# Writes the ctest tests of a GoogleTest executable: one test for each suite, because starting the
# executable takes longer than most cases do, above all under ASan.
#   cmake -D executable=FILE -D filter=FILTER -D output=FILE -D "properties=NAME;VALUE…" -P THIS
execute_process(COMMAND "${executable}" --gtest_list_tests "--gtest_filter=${filter}"
  OUTPUT_VARIABLE listed RESULT_VARIABLE status TIMEOUT 60)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${executable} --gtest_list_tests: ${status}")
endif()
list(JOIN properties " " properties)
set(script "")
# Parameters are printed after "#", and may have the characters of a list.
string(REGEX REPLACE "[ ]+#[^\n]*" "" listed "${listed}")
string(REPLACE "\n" ";" lines "${listed}")
foreach(line IN LISTS lines)
  if(line MATCHES "^  (.*DISABLED_.*)")
    # sum_results.py counts it as failed.
    string(APPEND script "add_test(\"${suite}.${CMAKE_MATCH_1}\" \"${executable}\")\n"
      "set_tests_properties(\"${suite}.${CMAKE_MATCH_1}\" PROPERTIES DISABLED ON ${properties})\n")
  elseif(line MATCHES "^([^ ]+)\\.$")
    set(suite "${CMAKE_MATCH_1}")
    string(APPEND script "add_test(\"${suite}\" \"${executable}\" \"--gtest_filter=${suite}.*\")\n"
      "set_tests_properties(\"${suite}\" PROPERTIES ${properties})\n")
  endif()
endforeach()
file(WRITE "${output}" "${script}")
