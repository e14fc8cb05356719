// SPDX-License-Identifier: Apache-2.0
#include "service/record_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "messages/convert.h"
#include "messages/json.h"

namespace forestall::service {
namespace {

Record kill_record(bool at_once) {
  Record record;
  record.decision.action = Action::kill;
  Eviction eviction;
  eviction.at_once = at_once;
  eviction.grace = std::chrono::seconds(30);
  record.decision.evictions = {eviction};
  return record;
}

TEST(RecordStream, AKillWaitsForItsOutcomeUnlessItHasAGrace) {
  Record at_once = kill_record(true);
  EXPECT_FALSE(RecordStream::takes(at_once));
  at_once.outcome.emplace();
  EXPECT_TRUE(RecordStream::takes(at_once));
  EXPECT_TRUE(RecordStream::takes(kill_record(false)));
  EXPECT_TRUE(RecordStream::takes(Record()));
}

// The kernel killed between our decision and the next evaluation: it must be reported.
TEST(RecordStream, AlwaysWritesAKillByTheKernel) {
  Record record = kill_record(true);
  record.oom_kill.emplace();
  EXPECT_TRUE(RecordStream::takes(record));
}

Record large_record(std::uint64_t sequence) {
  Record record;
  record.sequence = sequence;
  record.decision.considered.resize(2000);
  for (Candidate& each : record.decision.considered) each.sample.workload.path = "/a/workload";
  return record;
}

TEST(RecordStream, AThreadWritesAllRecordsInOrder) {
  testing::internal::CaptureStdout();
  {
    exports::Log out(exports::Log::Stream::standard_output, false, exports::LogLevel::info);
    std::promise<void> release;
    RecordStream stream(out, [waits = release.get_future().share()] { waits.wait(); });
    for (std::uint64_t i = 1; i <= 20; ++i) stream.write(large_record(i));
    release.set_value();
  }
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::uint64_t next = 1;
  for (std::string line; std::getline(lines, line); ++next) {
    EXPECT_NE(line.find(fmt::format("\"sequence\":{},", next)), std::string::npos)
        << line.substr(0, 200);
  }
  EXPECT_EQ(next, 21U);
}

// None is lost, and the loop does not keep more and more of them.
TEST(RecordStream, WhatNoLongerFitsIsWrittenByTheCaller) {
  constexpr std::size_t kMore = 3;
  testing::internal::CaptureStdout();
  {
    exports::Log out(exports::Log::Stream::standard_output, false, exports::LogLevel::info);
    std::promise<void> release;
    RecordStream stream(out, [waits = release.get_future().share()] { waits.wait(); });
    for (std::size_t i = 0; i < RecordStream::kWaitingMax + kMore; ++i) stream.write(Record());
    release.set_value();
  }
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, '\n')),
            RecordStream::kWaitingMax + kMore);
}

}  // namespace
}  // namespace forestall::service
