// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace forestall::kernel {
namespace {

TEST(AddWords, AddsTheValuesOfAllCpusWordByWord) {
  const std::array<std::uint64_t, 6> cpus{1, 10, 2, 20, 3, 30};
  std::array<std::uint64_t, 2> sum{100, 1000};
  add_words(cpus, sum);
  EXPECT_THAT(sum, testing::ElementsAre(106, 1060));
}

TEST(PossibleCpus, IsAtLeastOne) {
  const auto cpus = possible_cpus();
  ASSERT_TRUE(cpus.ok()) << cpus.error().text();
  EXPECT_GE(*cpus, 1U);
}

// Exits with 0 if the call fails as it should. libbpf caches the number, so this needs a process in
// which nothing has requested before.
[[noreturn]] void probe_without_descriptors() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto cpus = possible_cpus();
  std::_Exit(!cpus.ok() && cpus.error().code == EMFILE ? 0 : 1);
}

TEST(PossibleCpusDeathTest, IsAnErrorWithoutAFreeDescriptor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(probe_without_descriptors(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace forestall::kernel
