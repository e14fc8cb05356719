// SPDX-License-Identifier: Apache-2.0
// `forestall replay` and `forestall diff` on recordings, from a user's view.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/json.h"
#include "cli/recorded_run.h"
#include "forestall/v1/replay.pb.h"
#include "recording/destination.h"
#include "recording/reader.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"
#include "tests/policy/world.h"

namespace forestall::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class RecordingCommand : public testing::Test {
 protected:
  RecordingCommand() {
    Config config = policy::config({policy::hard(Signal::memory_available, mib(500))});
    RecordedRun run({file_, false}, config);
    for (int i = 0; i <= 20; ++i) {
      Observation observation;
      observation.at = policy::second(100 + i);
      observation.node = policy::node(gib(4), mib(600 - 10 * i));
      observation.workloads = {policy::workload("/small", mib(100)),
                               policy::workload("/large", mib(200))};
      run.look(observation);
    }
    run.end();
    tree_.write("higher.yaml", "evictionHard:\n  memory.available: 550Mi\n");
  }

  TempTree tree_;
  const std::string file_ = tree_ / "recording";
  const std::string higher_ = tree_ / "higher.yaml";
};

TEST_F(RecordingCommand, ReplayMatchesTheRecording) {
  const Ran ran = run_forestall({"replay", file_});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("          time   number  decision\n"));
  EXPECT_THAT(ran.output, HasSubstr("          +11s       12  kill (threshold-met): "));
  EXPECT_THAT(ran.output, HasSubstr("evict large (/large), at once"));
  EXPECT_THAT(ran.output, EndsWith("recorded decisions: 21, all the same here, byte for byte\n"));
  EXPECT_EQ(ran.errors, "");
}

TEST_F(RecordingCommand, ReplayUnderAnotherConfigurationReportsChanges) {
  const Ran ran = run_forestall({"replay", file_, "-c", higher_});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("compared with the recording:\n"
                                    "           +6s  memory.available of node: 5s earlier\n"
                                    "                recorded (< 500Mi): large at +11s\n"
                                    "                here (< 550Mi): large at +6s\n"
                                    "crossings: 1, 1 earlier\n"));
  EXPECT_THAT(ran.output, HasSubstr("recorded decisions: 21, 5 act differently here\n"));
  // The recording does not show its end.
  EXPECT_THAT(ran.output, HasSubstr("repeated in 14 more evaluations, up to +20s: "));
}

TEST_F(RecordingCommand, ReplayAtATimeShowsTheRanking) {
  const Ran ran = run_forestall({"replay", file_, "--at", "11.5s"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("evaluation 12 at +11s, 2023-11-14T22:15:11.000Z, woken by "));
  EXPECT_THAT(ran.output, HasSubstr("kill (threshold-met)\n"));
  EXPECT_THAT(ran.output, HasSubstr("memory.available 490Mi < 500Mi, met, drives\n"));
  EXPECT_THAT(ran.output, HasSubstr("before the next by over-request"));
  const Ran wall = run_forestall({"replay", file_, "--at", "2023-11-14T22:15:11.5Z"});
  EXPECT_EQ(wall.output, ran.output);
  EXPECT_EQ(run_forestall({"replay", file_, "--at", "2023-11-14T22:00:00Z"}).errors,
            "forestall replay: no evaluation at or before that time\n");
  const Ran refused = run_forestall({"replay", file_, "--at", "yesterday"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              HasSubstr("--at: expected a time since the first evaluation like 12.5s"));
}

// Read from a key in the middle, the evaluation is the same as read from the start.
TEST_F(RecordingCommand, ReplayAtATimeDoesNotDependOnTheStart) {
  const std::string file = tree_ / "long";
  {
    RecordedRun run({file, false},
                    policy::config({policy::hard(Signal::memory_available, gib(1))}));
    for (int i = 0; i < 20'000; ++i) {
      Observation observation;
      observation.at = policy::second(100 + i);
      observation.node = policy::node(gib(4), mib(2000 - i % 1500));
      observation.notes.assign(5, {"note " + std::to_string(i), std::string(100, 'x')});
      observation.workloads = {policy::workload("/small", mib(100))};
      run.look(observation);
    }
    run.end();
  }
  auto reader = std::move(recording::Reader::open(file).value());
  const auto places = reader.places();
  std::size_t keys = 0;
  for (const recording::ChunkPlace& place : *places) keys += place.is_key() ? 1 : 0;
  ASSERT_GT(keys, 2U);
  const std::string all = run_forestall({"replay", file, "-o", "json"}).output;
  for (const std::size_t look : {1U, 2U, 10'000U, 19'999U, 20'000U}) {
    const Ran at =
        run_forestall({"replay", file, "--at", std::to_string(look - 1) + ".5s", "-o", "json"});
    ASSERT_EQ(at.exit_code, 0) << at.errors;
    const std::string line = at.output.substr(0, at.output.find('\n') + 1);
    EXPECT_THAT(line, testing::StartsWith("{\"line\":" + std::to_string(look) + ","));
    EXPECT_THAT(all, HasSubstr(line));
  }
}

// The kernel's clock restarts; the reader of a ring continues its own.
TEST_F(RecordingCommand, ReplayAtATimeCountsOnAcrossAReboot) {
  using namespace std::chrono_literals;
  const std::string ring = tree_ / "ring";
  const Boot first;
  // Its first evaluation is 60 s after the last one before.
  const Boot second{"second", first.wall_offset + 120s + 60s - 10s};
  for (const auto& [boot, start] : {std::pair{first, 100}, std::pair{second, 10}}) {
    RecordedRun run({ring, false, mib(1)}, {}, {}, boot);
    for (int i = 0; i <= 20; ++i) {
      Observation observation;
      observation.at = policy::second(start + i);
      run.look(observation);
    }
  }
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "15s"}).output,
              HasSubstr("evaluation 16 at +15s,"));
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "1m"}).output,
              HasSubstr("evaluation 21 at +20s,"));
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "85s"}).output,
              HasSubstr("evaluation 6 at +1m25s,"));
}

TEST_F(RecordingCommand, ReplayAtAHugeTimeShowsTheLastEvaluation) {
  const Ran ran = run_forestall({"replay", file_, "--at", "9999-12-31T23:59:59Z"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("evaluation 21 at +20s,"));
}

TEST_F(RecordingCommand, ReplayRefusesAnUnknownRanking) {
  const Ran ran = run_forestall({"replay", file_, "--ranking", "mine"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.errors, "--ranking: expected kubelet, kernel or kubelet+growth, found 'mine'\n");
}

TEST_F(RecordingCommand, ReplayReportsADirectoryWithoutRecordings) {
  tree_.write("ring/notes.txt", "");
  const Ran ran = run_forestall({"replay", tree_ / "ring"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("ring: contains no recording"));
  EXPECT_EQ(run_forestall({"diff", file_, tree_ / "ring"}).exit_code, 2);
}

TEST_F(RecordingCommand, ReplayReportsWhereAFileIsTruncated) {
  const std::string bytes = read_text(file_);
  tree_.write("recording", bytes.substr(0, bytes.size() - 200));
  const Ran ran = run_forestall({"replay", file_});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.errors, HasSubstr(file_ + ": "));
  tree_.write("recording", bytes.substr(0, 10));
  const Ran nothing = run_forestall({"replay", file_});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("the file ends within its header"));
}

TEST_F(RecordingCommand, JsonMarksRecordedDecisions) {
  const Ran ran = run_forestall({"replay", file_, "-c", higher_, "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::istringstream lines(ran.output);
  std::string line;
  std::size_t same = 0;
  for (int i = 0; i < 21; ++i) {
    std::getline(lines, line);
    v1::ReplayStep step;
    ASSERT_TRUE(api::from_json(line, step)) << line;
    EXPECT_EQ(step.line(), static_cast<std::uint64_t>(i + 1));
    EXPECT_EQ(step.as_recorded(), !step.has_recorded());
    same += step.as_recorded() ? 1 : 0;
  }
  EXPECT_EQ(same, 0U) << "every decision names the threshold's limit";
  std::getline(lines, line);
  v1::ReplayEnd end;
  ASSERT_TRUE(api::from_json(line, end)) << line;
  EXPECT_EQ(end.comparison().different(), 21U);
  EXPECT_EQ(end.comparison().act_otherwise(), 5U);
  ASSERT_EQ(end.comparison().episodes_size(), 1);
  EXPECT_EQ(end.comparison().episodes(0).kind(), v1::EpisodeDifference::EARLIER);
  EXPECT_EQ(end.comparison().episodes(0).shift_ns(), -5'000'000'000);
}

TEST_F(RecordingCommand, DiffIsSilentAboutTheSame) {
  const Ran same = run_forestall({"diff", file_, file_});
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_EQ(same.output + same.errors, "");
  tree_.write("same.jsonl", run_forestall({"replay", file_, "-o", "json"}).output);
  const Ran replayed = run_forestall({"diff", file_, tree_ / "same.jsonl"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.output << replayed.errors;
}

TEST_F(RecordingCommand, DiffReportsDifferences) {
  tree_.write("other.jsonl", run_forestall({"replay", file_, "-c", higher_, "-o", "json"}).output);
  const Ran ran = run_forestall({"diff", file_, tree_ / "other.jsonl"});
  EXPECT_EQ(ran.exit_code, 1) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("decisions: 0 equal, 21 different, 0 in only one\n"));
  EXPECT_THAT(ran.output, HasSubstr("memory.available of node: 5s earlier\n"));
  EXPECT_THAT(ran.output, HasSubstr("crossings: 1, 1 earlier\n"));
}

TEST_F(RecordingCommand, DiffReportsErrorsOfAFile) {
  const std::string bytes = read_text(file_);
  tree_.write("cut", bytes.substr(0, bytes.size() - 200));
  const Ran ran = run_forestall({"diff", file_, tree_ / "cut"});
  EXPECT_LT(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, testing::StartsWith(tree_ / "cut" + ": "));
}

TEST_F(RecordingCommand, DiffDistinguishesErrorsFromDifferences) {
  EXPECT_EQ(run_forestall({"diff", file_, tree_ / "none"}).exit_code, 2);
  tree_.write("text", "not a replay\n");
  const Ran ran = run_forestall({"diff", file_, tree_ / "text"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr(tree_ / "text" + ":1: "));
}

// The writer accepts everything that the configuration accepts.
TEST_F(RecordingCommand, TheLeastRingIsTheSameForBoth) {
  const auto checked = [&](std::int64_t bytes) {
    tree_.write("ring.yaml", "recording: {directory: /var/lib/forestall, maxSize: " +
                                 std::to_string(bytes) + "}\n");
    return run_forestall({"check-config", "-c", tree_ / "ring.yaml"});
  };
  EXPECT_EQ(checked(recording::kSizeMin.count).exit_code, 0);
  EXPECT_THAT(checked(recording::kSizeMin.count - 1).errors, HasSubstr("at least 1Mi"));
}

TEST_F(RecordingCommand, RecordOverwritesOnlyOnRequest) {
  const Ran ran = run_forestall({"record", "-o", file_, "--duration", "1ms"});
  EXPECT_EQ(ran.exit_code, 2) << ran.errors;
  EXPECT_THAT(ran.errors, HasSubstr(file_ + " exists; --force overwrites it\n"));
  const Ran refused = run_forestall({"record", "-o", tree_ / "new", "--duration", "soon"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--duration"));
  const Ran glob = run_forestall({"record", "-o", tree_ / "new", "--cgroup", "relative"});
  EXPECT_EQ(glob.exit_code, 2);
  EXPECT_THAT(glob.errors, HasSubstr("--cgroup 'relative' "));
}

}  // namespace
}  // namespace forestall::test
