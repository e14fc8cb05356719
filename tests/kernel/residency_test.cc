// SPDX-License-Identifier: Apache-2.0
// Each call changes the process permanently, so each runs in a child.
#include "kernel/residency.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "support/child.h"
#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

// KiB in memory; `status` is inexact, because the kernel counts per CPU first.
long rollup_kib(const std::string& field) {
  std::istringstream lines(test::read_text("/proc/self/smaps_rollup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(field + ":")) return std::atol(line.c_str() + field.size() + 1);
  }
  return -1;
}

// Of files, without written pages.
long file_kib() {
  return rollup_kib("Rss") - rollup_kib("Anonymous");
}

void expect_resident_in_child(bool (*body)()) {
  test::Child child([&] { return body() ? 0 : 1; });
  ASSERT_TRUE(child.wait_exit());
  EXPECT_EQ(child.reap(), 0);
}

TEST(Residency, ReleasedCodeReturnsWhenItIsKept) {
  expect_resident_in_child([] {
    keep_own_code_resident();
    const long kept = file_kib();
    give_back_start_up_memory();
    const long given_back = file_kib();
    keep_own_code_resident();
    const long kept_again = file_kib();
    return given_back < kept && given_back < kept_again;
  });
}

// Relocated constants and variables are in files, too.
TEST(Residency, WrittenPagesAreNotReleased) {
  static std::vector<std::string> words{"one"};
  words.emplace_back("a second one, too long for the string itself");
  expect_resident_in_child([] {
    give_back_start_up_memory();
    return words.size() == 2 && words[1].ends_with("itself");
  });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have heaps of their own
TEST(Residency, FreeHeapIsGivenBackAndAReserveKept) {
  expect_resident_in_child([] {
    std::vector<std::string> pieces;
    for (int i = 0; i < 4096; ++i) pieces.emplace_back(std::size_t{4096}, 'x');
    const std::string above = std::move(pieces.back());  // otherwise the heap shrinks by itself
    pieces.clear();
    const long full = rollup_kib("Anonymous");
    give_back_start_up_memory();
    const long trimmed = rollup_kib("Anonymous");
    keep_heap_reserve();
    const long reserved = rollup_kib("Anonymous");
    // What fits into the reserve allocates no more.
    std::vector<char> within(256 * 1024, 'x');
    const bool fits = rollup_kib("Anonymous") <= reserved + 64 && within.back() == above.back();
    return full > trimmed + 8192 && reserved >= trimmed + 256 && fits;
  });
}
#endif

}  // namespace
}  // namespace forestall::kernel
