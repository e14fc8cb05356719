// SPDX-License-Identifier: Apache-2.0
#include "sources/task_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/manual_clock.h"
#include "support/temp_tree.h"

namespace forestall::sources {
namespace {

using ::testing::IsEmpty;

TEST(ParseTaskTotal, TheFourthFieldsSecondNumber) {
  EXPECT_EQ(parse_task_total("0.00 0.01 0.05 2/3518 4711\n"), 3518);
  EXPECT_EQ(parse_task_total("0.00 0.01 0.05 1/1 1"), 1);
  for (const char* broken : {"", "0.00", "0.00 0.01 0.05", "0 0 0 3518", "0 0 0 2/", "0 0 0 /5",
                             "0 0 0 2/x 1", "0 0 0 -1/5 1", "0 0 0 6/5 1", "0 0 0 1/2/3 1"}) {
    EXPECT_EQ(parse_task_total(broken), std::nullopt) << broken;
  }
}

struct Seen {
  TaskSample sample;
  std::size_t notes = 0;
};

Seen evaluate(const test::TempTree& proc) {
  std::vector<SourceNote> notes;
  const auto sample = TaskReader(proc.path()).read(test::ManualClock().now(), notes);
  return {sample, notes.size()};
}

TEST(TaskReader, TheLowerCeilingCounts) {
  test::TempTree proc{{"loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                      {"sys/kernel/pid_max", "32768\n"},
                      {"sys/kernel/threads-max", "31000\n"}};
  auto seen = evaluate(proc);
  EXPECT_EQ(seen.sample.capacity, 31000);
  EXPECT_EQ(seen.sample.running, 3518);
  EXPECT_EQ(seen.sample.at, test::ManualClock().now());
  EXPECT_EQ(seen.notes, 0u);
  proc.write("sys/kernel/pid_max", "20000\n");
  EXPECT_EQ(evaluate(proc).sample.capacity, 20000);
}

TEST(TaskReader, OneCeilingIsEnoughAndNoneIsUnknown) {
  test::TempTree proc{{"loadavg", "0.00 0.01 0.05 2/3518 4711\n"},
                      {"sys/kernel/pid_max", "32768\n"}};
  auto seen = evaluate(proc);
  EXPECT_EQ(seen.sample.capacity, 32768);
  EXPECT_EQ(seen.notes, 1u);
  proc.write("sys/kernel/pid_max", "many\n");
  seen = evaluate(proc);
  EXPECT_EQ(seen.sample.capacity, std::nullopt);
  EXPECT_EQ(seen.notes, 2u);
}

TEST(TaskReader, WithoutLoadavgItUsesSysinfo) {
  test::TempTree proc{{"sys/kernel/pid_max", "32768\n"}, {"sys/kernel/threads-max", "32768\n"}};
  EXPECT_GT(evaluate(proc).sample.running.value_or(0), 0);
  proc.write("loadavg", "not what it was\n");
  EXPECT_GT(evaluate(proc).sample.running.value_or(0), 0);
}

TEST(TaskReader, FreshInEachEvaluation) {
  test::TempTree proc{{"loadavg", "0.00 0.01 0.05 2/10 1\n"},
                      {"sys/kernel/pid_max", "32768\n"},
                      {"sys/kernel/threads-max", "32768\n"}};
  const TaskReader reader(proc.path());
  std::vector<SourceNote> notes;
  EXPECT_EQ(reader.read({}, notes).running, 10);
  proc.write("loadavg", "0.00 0.01 0.05 2/11 1\n");
  EXPECT_EQ(reader.read({}, notes).running, 11);
  EXPECT_THAT(notes, IsEmpty());
}

TEST(TaskReader, ReadsThisMachine) {
  std::vector<SourceNote> notes;
  const auto sample = TaskReader("/proc").read({}, notes);
  EXPECT_GT(sample.running.value_or(0), 0);
  EXPECT_GT(sample.capacity.value_or(0), *sample.running);
  EXPECT_THAT(notes, IsEmpty());
}

}  // namespace
}  // namespace forestall::sources
