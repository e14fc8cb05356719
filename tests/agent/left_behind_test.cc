// SPDX-License-Identifier: Apache-2.0
#include "agent/left_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace forestall::agent {
namespace {

using actuators::Reclaimed;
using exports::LogLevel;
using testing::ElementsAre;
using testing::IsEmpty;

Candidate candidate(const std::string& name, Bytes usage, Exclusion exclusion = Exclusion::empty) {
  Candidate made;
  made.sample.workload.name = name;
  made.sample.usage = usage;
  made.sample.inactive_file = Bytes{0};
  made.exclusion = exclusion;
  return made;
}

Decision decision(Signal driving) {
  Decision made;
  Evidence evidence;
  evidence.threshold.signal = driving;
  made.evidence = {evidence};
  made.driving = 0;
  made.considered = {candidate("small", mib(8)), candidate("large", mib(80)),
                     candidate("noise", mib(1)), candidate("busy", mib(90), Exclusion::none)};
  return made;
}

std::vector<std::string> names(const Decision& decision) {
  std::vector<std::string> names;
  for (const WorkloadSample* sample : left_behind(decision)) names.push_back(sample->workload.name);
  return names;
}

TEST(LeftBehind, TheLargestWithoutProcessesComesFirst) {
  EXPECT_THAT(names(decision(Signal::memory_available)), ElementsAre("large", "small"));
  EXPECT_THAT(names(decision(Signal::cgroup_memory_available)), ElementsAre("large", "small"));
  EXPECT_THAT(names(decision(Signal::memory_until_oom)), ElementsAre("large", "small"));
}

// Reclaim would fill the swap.
TEST(LeftBehind, NothingWhenSwapIsShort) {
  EXPECT_THAT(names(decision(Signal::swap_available)), IsEmpty());
}

TEST(LeftBehind, NothingForOtherResourcesOrWithoutAThresholdMet) {
  EXPECT_THAT(names(decision(Signal::nodefs_available)), IsEmpty());
  EXPECT_THAT(names(decision(Signal::pid_available)), IsEmpty());
  Decision calm = decision(Signal::memory_available);
  calm.driving.reset();
  EXPECT_THAT(names(calm), IsEmpty());
}

TEST(LeftBehind, OnlyFreedMemoryAndFailuresOfTheAgentAreLoggedByDefault) {
  const auto level = [](std::optional<Bytes> after, std::optional<int> failure) {
    Reclaimed reclaimed{"/tenant", mib(80), after, {}, {}};
    if (failure) reclaimed.failure = Error{*failure, "reclaim of /tenant"};
    return level_of(reclaimed);
  };
  EXPECT_EQ(level(mib(8), std::nullopt), LogLevel::info);
  EXPECT_EQ(level(mib(80), std::nullopt), LogLevel::debug) << "nothing was freed";
  EXPECT_EQ(level(std::nullopt, std::nullopt), LogLevel::debug) << "it is unknown";
  EXPECT_EQ(level(std::nullopt, ENOENT), LogLevel::debug) << "it was removed";
  EXPECT_EQ(level(std::nullopt, ENODEV), LogLevel::debug) << "it was removed";
  EXPECT_EQ(level(mib(80), EACCES), LogLevel::warning);
}

}  // namespace
}  // namespace forestall::agent
