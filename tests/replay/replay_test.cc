// SPDX-License-Identifier: Apache-2.0
// `forestall replay`: scenarios in tests/data/replay with their expected output, and all errors of
// a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "forestall/internal/replay.pb.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHardGibibyte = "evictionHard:\n  memory.available: 1Gi\n";

// A scenario is NAME.jsonl with NAME.yaml; its expected output is NAME.txt. To see changes:
// forestall replay NAME.jsonl -c NAME.yaml | diff NAME.txt -
class ReplayStory : public testing::TestWithParam<const char*> {};

TEST_P(ReplayStory, MatchesTheGoldenFile) {
  const std::string name = std::string(FORESTALL_TEST_DATA "/replay/") + GetParam();
  const Ran ran = run_forestall({"replay", name + ".jsonl", "-c", name + ".yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_EQ(ran.output, read_text(name + ".txt"));
}

INSTANTIATE_TEST_SUITE_P(Data, ReplayStory,
                         testing::Values("control-loop", "soft-grace", "oscillation",
                                         "minimum-reclaim", "hard-during-soft", "disk-single",
                                         "disk-imagefs", "disk-split", "swap"),
                         [](const auto& story) {
                           std::string name = story.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// One evaluation of a node of 4 GiB at this time with so much available.
std::string evaluate(std::int64_t seconds, Bytes available) {
  Observation observation;
  observation.at = from_ns(seconds * 1'000'000'000);
  observation.node.capacity = gib(4);
  observation.node.usage = gib(4) - available;
  observation.node.inactive_file = Bytes{0};
  return messages::to_json(messages::to_proto(observation), messages::JsonStyle::line) + "\n";
}

class Replay : public testing::Test {
 protected:
  Ran run(const std::string& lines, std::vector<std::string> more = {}) {
    tree_.write("evaluation.jsonl", lines);
    tree_.write("config.yaml", kHardGibibyte);
    std::vector<std::string> arguments{"replay", file_, "-c", tree_ / "config.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_forestall(arguments);
  }

  TempTree tree_;
  const std::string file_ = tree_ / "evaluation.jsonl";
};

TEST_F(Replay, ABrokenLineEndsItWhereItIs) {
  const Ran ran = run(evaluate(1, mib(500)) + "\n" + R"({"atNs":2000000000,"colour":1})" + "\n" +
                      evaluate(3, mib(500)));
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 1 over 0s"));
  EXPECT_THAT(ran.output, HasSubstr("condition MemoryPressure is True"));
  EXPECT_THAT(ran.output, HasSubstr("Stopped before the end: " + file_ + ":3:20: "));
  EXPECT_THAT(ran.errors, testing::StartsWith(file_ + ":3:20: unknown key 'colour'"));
}

TEST_F(Replay, NamesTheFieldOfAnInvalidObservation) {
  const Ran ran = run(R"({"wake":{}})"
                      "\n");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.errors, file_ + ":1: atNs: missing\n");
}

TEST_F(Replay, EndsIfTimeGoesBack) {
  const Ran ran =
      run(evaluate(5, gib(2)) + evaluate(5, gib(2)) + evaluate(3, gib(2)) + evaluate(9, gib(2)));
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.errors, file_ + ":3: time goes back by 2s\n");
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 2 over"));
}

TEST_F(Replay, ALineThatIsCutOffIsLeftOut) {
  const std::string last = evaluate(2, mib(500));
  const Ran ran = run(evaluate(1, gib(2)) + last.substr(0, last.size() / 2));
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.errors, file_ + ":2: the file ends within this line; the line is ignored\n");
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 1 over"));
  // Only the final newline is missing: it is complete.
  const Ran whole = run(evaluate(1, gib(2)) + last.substr(0, last.size() - 1));
  EXPECT_EQ(whole.errors, "");
  EXPECT_THAT(whole.output, HasSubstr("\nobservations: 2 over"));
}

TEST_F(Replay, BlankLinesAndLineEndsOfOtherSystems) {
  std::string first = evaluate(1, gib(2));
  first.insert(first.size() - 1, "\r");
  const Ran ran = run("\n  \t\r\n" + first + "\n\n" + evaluate(2, gib(2)) + "\n");
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 2 over"));
}

TEST_F(Replay, RefusesAnEmptyFile) {
  for (const std::string& nothing : {std::string(), std::string("\n \n")}) {
    for (const char* output : {"text", "json"}) {
      const Ran ran = run(nothing, {"-o", output});
      EXPECT_EQ(ran.exit_code, 2);
      EXPECT_EQ(ran.output, "");
      EXPECT_EQ(ran.errors, "forestall replay: " + file_ + ": contains no observation\n");
    }
  }
}

TEST_F(Replay, AMissingFileIsNamed) {
  const Ran ran = run_forestall({"replay", "/nonexistent/x.jsonl"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nonexistent/x.jsonl: No such file or directory"));
}

TEST_F(Replay, CountsEqualDecisionsUnlessAllAreRequested) {
  const std::string lines = evaluate(1, gib(2)) + evaluate(2, gib(2)) + evaluate(3, gib(2));
  EXPECT_THAT(run(lines).output, HasSubstr("none (no-threshold-met), 3 times\n"));
  const std::string all = run(lines, {"--all"}).output;
  EXPECT_THAT(all, HasSubstr("+0.000s        1  none (no-threshold-met)\n"));
  EXPECT_THAT(all, HasSubstr("+2.000s        3  none (no-threshold-met)\n"));
}

std::string record(std::uint64_t sequence, const std::string& observed) {
  Record record;
  record.sequence = sequence;
  v1::Record message = messages::to_proto(record);
  EXPECT_TRUE(messages::from_json(observed, *message.mutable_observation()).ok());
  return messages::to_json(message, messages::JsonStyle::line) + "\n";
}

// The agent reports a kill when it is complete, later than decisions made meanwhile, and again when
// a stuck victim is gone.
TEST_F(Replay, RecordsOfAnAgentAreOrderedAndCountOnce) {
  const Ran ran = run(record(2, evaluate(7, gib(2))) + record(1, evaluate(5, mib(500))) +
                      record(3, evaluate(9, gib(3))) + record(1, evaluate(5, mib(500))));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 3 over 4s, from 5.000 s"));
  EXPECT_THAT(ran.output, HasSubstr("+0.000s        2  condition MemoryPressure is True"));
}

TEST_F(Replay, JsonIsOneObjectALine) {
  const Ran ran = run(evaluate(1, mib(500)) + evaluate(11, gib(2)), {"-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::vector<std::string> lines;
  std::istringstream text(ran.output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3);
  internal::ReplayStep step;
  ASSERT_TRUE(messages::from_json(lines[0], step).ok());
  EXPECT_EQ(step.line(), 1);
  EXPECT_EQ(step.decision().reason(), v1::Decision::WORKLOADS_UNREAD);
  EXPECT_EQ(step.decision().conditions(0).reason(), "KubeletHasInsufficientMemory");
  ASSERT_TRUE(messages::from_json(lines[1], step).ok());
  EXPECT_EQ(step.since_first_ns(), 10'000'000'000);
  internal::ReplayEnd end;
  ASSERT_TRUE(messages::from_json(lines[2], end).ok());
  EXPECT_EQ(end.summary().observations(), 2);
  EXPECT_EQ(end.summary().condition_changes(0).type(), "MemoryPressure");
}

TEST_F(Replay, AConfigWithErrorsIsRefused) {
  tree_.write("bad.yaml", "evictionHard: 5\n");
  tree_.write("evaluation.jsonl", evaluate(1, gib(2)));
  const Ran ran = run_forestall({"replay", file_, "-c", tree_ / "bad.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("bad.yaml:1"));
}

}  // namespace
}  // namespace forestall::test
