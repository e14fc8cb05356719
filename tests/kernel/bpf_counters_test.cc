// SPDX-License-Identifier: Apache-2.0
#include "kernel/bpf_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

namespace forestall::kernel {
namespace {

using testing::Contains;
using testing::Field;
using testing::SizeIs;

// A struct of __u64 counters in which the i-th has the value i + 1.
template <typename Counters>
Counters numbered() {
  Counters counters{};
  std::array<__u64, sizeof(Counters) / sizeof(__u64)> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
  std::memcpy(&counters, words.data(), sizeof(counters));
  return counters;
}

template <typename Counters>
void expect_all_by_name() {
  std::vector<BpfCounter> all;
  append_counters("object", numbered<Counters>(), all);
  ASSERT_THAT(all, SizeIs(sizeof(Counters) / sizeof(__u64)));
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].object, "object");
    EXPECT_EQ(all[i].value, i + 1) << all[i].counter << ' ' << all[i].kind;
    names.emplace(all[i].counter, all[i].kind);
  }
  EXPECT_THAT(names, SizeIs(all.size())) << "two counters have the same name";
}

TEST(BpfCounters, EveryCounterOfTheAgentHasItsOwnName) {
  expect_all_by_name<abi_counters>();
}

TEST(BpfCounters, EveryCounterOfTheGuardHasItsOwnName) {
  expect_all_by_name<abi_guard_counts>();
}

TEST(BpfCounters, MarksLosses) {
  std::map<std::string_view, bool> losses{{"failures", true}};
#define INSERT_LOSS(name, loss) losses[#name] = (loss) != 0;
  ABI_EVENT_COUNTERS(INSERT_LOSS)
  ABI_TIMER_COUNTERS(INSERT_LOSS)
  ABI_GUARD_COUNTERS(INSERT_LOSS)
#undef INSERT_LOSS
  std::vector<BpfCounter> all;
  append_counters("agent", abi_counters{}, all);
  append_counters("guard", abi_guard_counts{}, all);
  for (const BpfCounter& each : all) {
    EXPECT_EQ(each.loss, losses.at(each.counter)) << each.object << ' ' << each.counter;
  }
}

TEST(BpfCounters, TheTracersFailuresHaveTheirNames) {
  abi_trace_totals totals{};
  totals.failures[ABI_TRACE_FAILURE_sum_full] = 4;
  std::vector<BpfCounter> all;
  append_failures("tracer", totals, all);
  EXPECT_THAT(all, SizeIs(ABI_TRACE_FAILURE_COUNT));
  EXPECT_THAT(all, Contains(testing::AllOf(Field(&BpfCounter::kind, "sum_full"),
                                           Field(&BpfCounter::value, 4U))));
}

TEST(BpfCounters, WithoutBpfThereAreNone) {
  const auto none = bpf_counters(nullptr, nullptr);
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(*none, testing::IsEmpty());
}

}  // namespace
}  // namespace forestall::kernel
