// SPDX-License-Identifier: Apache-2.0
#include "picture/workload_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace forestall::picture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

WorkloadSample sample(const std::string& path, std::int64_t bytes) {
  WorkloadSample sample;
  sample.workload.path = path;
  sample.workload.name = path.substr(1);
  sample.usage = Bytes{bytes + 10};
  sample.inactive_file = Bytes{10};
  return sample;
}

std::vector<std::string> lines(const internal::Picture& picture) {
  std::vector<std::string> names;
  for (const internal::Line& line : picture.workloads().lines()) names.push_back(line.name());
  return names;
}

// The value of a line at a row, or nothing.
std::optional<std::int64_t> at(const internal::Picture& picture, int line, std::uint32_t row) {
  for (const internal::Run& run : picture.workloads().lines(line).runs()) {
    const auto size = static_cast<std::uint32_t>(run.values_size());
    if (row >= run.first() && row < run.first() + size) {
      return run.values(static_cast<int>(row - run.first()));
    }
  }
  return std::nullopt;
}

internal::Picture reported(const WorkloadHistory& history, std::size_t drawn) {
  internal::Picture out;
  history.put(out, drawn, std::numeric_limits<std::int64_t>::min());
  return out;
}

TEST(WorkloadHistoryTest, TheLargestByThemselvesTheRestAsTheirSum) {
  WorkloadHistory history(100, 1000, 0s);
  history.replace(0, {sample("/a", 5), sample("/b", 1), sample("/c", 3), sample("/d", 2)});
  history.replace(10, {sample("/a", 5), sample("/b", 40), sample("/c", 3), sample("/d", 2)});
  const internal::Picture out = reported(history, 2);
  EXPECT_THAT(lines(out), ElementsAre("/b", "/a", "others"));
  EXPECT_THAT(out.workload_names(), ElementsAre("b", "a"));
  EXPECT_EQ(out.workloads_left_out(), 2U);
  EXPECT_EQ(at(out, 0, 0), 1);
  EXPECT_EQ(at(out, 0, 1), 40);
  EXPECT_EQ(at(out, 2, 1), 5);
}

TEST(WorkloadHistoryTest, ASubjectsRowsKeepTheOthersUnchanged) {
  WorkloadHistory history(100, 1000, 0s);
  history.replace(0, {sample("/a", 5), sample("/b", 1)});
  history.note(10, {sample("/b", 2)});
  history.note(10 + WorkloadHistory::kAgeMaxUs, {sample("/b", 3)});
  const internal::Picture out = reported(history, 2);
  ASSERT_THAT(lines(out), ElementsAre("/a", "/b"));
  EXPECT_EQ(at(out, 0, 1), 5);
  EXPECT_EQ(at(out, 0, 2), std::nullopt) << "five minutes old";
  EXPECT_EQ(at(out, 1, 2), 3);
}

TEST(WorkloadHistoryTest, ARemovedWorkloadIsUnknownAndReturnsOnItsLine) {
  WorkloadHistory history(100, 1000, 0s);
  history.replace(0, {sample("/a", 5)});
  history.replace(10, {});
  history.replace(20, {sample("/a", 7)});
  const internal::Picture out = reported(history, 4);
  ASSERT_THAT(lines(out), ElementsAre("/a"));
  EXPECT_EQ(at(out, 0, 0), 5);
  EXPECT_EQ(at(out, 0, 1), std::nullopt);
  EXPECT_EQ(at(out, 0, 2), 7);
}

TEST(WorkloadHistoryTest, AKilledWorkloadUsesNothingAfterwards) {
  WorkloadHistory history(100, 1000, 10us);
  history.replace(100, {sample("/a", 5), sample("/b", 3)});
  EXPECT_EQ(history.remove(103, "/a"), 110);  // too soon for another row
  EXPECT_EQ(history.remove(104, "/unknown"), 104);
  const internal::Picture out = reported(history, 2);
  ASSERT_EQ(out.workloads().lines_size(), 2);
  EXPECT_EQ(at(out, 0, 0), 5);
  EXPECT_EQ(at(out, 0, 1), std::nullopt);
  EXPECT_EQ(at(out, 1, 1), 3);
  EXPECT_EQ(at(out, 1, 2), std::nullopt);
}

TEST(WorkloadHistoryTest, ShowsTheLargestOfTooMany) {
  WorkloadHistory history(4, 1000, 0s);
  std::vector<WorkloadSample> all;
  for (int i = 0; i < 50; ++i) all.push_back(sample(fmt::format("/w{:02}", i), 100 + i));
  history.replace(0, all);
  all.push_back(sample("/late", 10'000));
  history.replace(10, all);
  const internal::Picture out = reported(history, 12);
  EXPECT_THAT(lines(out), ElementsAre("/late", "/w49", "/w48", "/w47", "others"));
  // Nothing is lost: the sum is that of all.
  std::int64_t sum = 0;
  for (int line = 0; line < 5; ++line) sum += at(out, line, 1).value_or(0);
  EXPECT_EQ(sum, 50 * 100 + 49 * 50 / 2 + 10'000);
  EXPECT_EQ(out.workloads_left_out(), 47U);
}

TEST(WorkloadHistoryTest, MergesRowsThatComeTooFast) {
  WorkloadHistory history(4, 1000, 2ms);
  history.replace(0, {sample("/a", 1)});
  history.note(500, {sample("/a", 2)});
  history.note(2500, {sample("/a", 3)});
  const internal::Picture out = reported(history, 4);
  EXPECT_THAT(out.workloads().at_us(), ElementsAre(0, 2500));
  EXPECT_EQ(at(out, 0, 0), 2);
}

}  // namespace
}  // namespace forestall::picture
