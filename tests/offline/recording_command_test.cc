// SPDX-License-Identifier: Apache-2.0
// `forestall replay` and `forestall diff` on recordings, from a user's view.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "forestall/internal/picture.pb.h"
#include "forestall/internal/replay.pb.h"
#include "messages/json.h"
#include "recording/destination.h"
#include "recording/reader.h"
#include "replay/recorded_run.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"
#include "tests/policy/world.h"

namespace forestall::test::recording_command_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

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
      run.evaluate(observation);
    }
    run.end();
    tree_.write("higher.yaml", "evictionHard:\n  memory.available: 550Mi\n");
  }

  // 4,000 evaluations in many chunks, with several keys.
  void record_long() {
    RecordedRun run({long_, false},
                    policy::config({policy::hard(Signal::memory_available, gib(1))}));
    for (int i = 0; i < 4000; ++i) {
      Observation observation;
      observation.at = policy::second(100 + i);
      observation.node = policy::node(gib(4), mib(2000 - i % 1500));
      observation.notes.assign(5, {"note " + std::to_string(i), std::string(100, 'x')});
      observation.workloads = {policy::workload("/small", mib(100))};
      run.evaluate(observation);
    }
    run.end();
  }

  TempTree tree_;
  const std::string file_ = tree_ / "recording";
  const std::string long_ = tree_ / "long";
  const std::string higher_ = tree_ / "higher.yaml";
};

TEST_F(RecordingCommand, ReplayMatchesTheRecording) {
  const Ran ran = run_forestall({"replay", file_});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("          time   number  decision\n"));
  EXPECT_THAT(ran.output, HasSubstr("      +11.000s       12  kill (threshold-met): "));
  EXPECT_THAT(ran.output, HasSubstr("evict large (/large), at once"));
  EXPECT_THAT(ran.output, EndsWith("recorded decisions: 21, all the same here, byte for byte\n"));
  EXPECT_EQ(ran.errors, "");
}

TEST_F(RecordingCommand, ReplayUnderAnotherConfigurationReportsChanges) {
  const Ran ran = run_forestall({"replay", file_, "-c", higher_});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("compared with the recording:\n"
                                    "       +6.000s  memory.available of node: 5s earlier\n"
                                    "                recorded (< 500Mi): large at +11.000s\n"
                                    "                here (< 550Mi): large at +6.000s\n"
                                    "crossings: 1, 1 earlier\n"));
  EXPECT_THAT(ran.output, HasSubstr("recorded decisions: 21, 5 act differently here\n"));
  // The recording does not show its end.
  EXPECT_THAT(ran.output, HasSubstr("repeated in 14 more evaluations, up to +20.000s: "));
}

TEST_F(RecordingCommand, ReplayAtATimeShowsTheRanking) {
  const Ran ran = run_forestall({"replay", file_, "--at", "11.5s"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output,
              HasSubstr("evaluation 12 at +11.000s, 2023-11-14T22:15:11.000Z, woken by "));
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
  record_long();
  auto reader = std::move(recording::Reader::open(long_).value());
  const auto places = reader.places();
  std::size_t keys = 0;
  for (const recording::ChunkPlace& place : *places) keys += place.is_key() ? 1 : 0;
  ASSERT_GT(keys, 2U);
  const std::string all = run_forestall({"replay", long_, "-o", "json"}).output;
  for (const std::size_t evaluation : {1U, 2U, 2000U, 3999U, 4000U}) {
    const Ran at = run_forestall(
        {"replay", long_, "--at", std::to_string(evaluation - 1) + ".5s", "-o", "json"});
    ASSERT_EQ(at.exit_code, 0) << at.errors;
    const std::string line = at.output.substr(0, at.output.find('\n') + 1);
    EXPECT_THAT(line, testing::StartsWith("{\"line\":" + std::to_string(evaluation) + ","));
    EXPECT_THAT(all, HasSubstr(line));
  }
}

// The kernel's clock restarts; the reader of a ring continues its own.
TEST_F(RecordingCommand, ReplayAtATimeCountsOnAcrossAReboot) {
  const std::string ring = tree_ / "ring";
  record_ring_across_a_reboot(ring);
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "15s"}).output,
              HasSubstr("evaluation 16 at +15.000s,"));
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "1m"}).output,
              HasSubstr("evaluation 21 at +20.000s,"));
  EXPECT_THAT(run_forestall({"replay", ring, "--at", "85s"}).output,
              HasSubstr("evaluation 27 at +1m25.000s,"));
}

TEST_F(RecordingCommand, ReplayAtAHugeTimeShowsTheLastEvaluation) {
  const Ran ran = run_forestall({"replay", file_, "--at", "9999-12-31T23:59:59Z"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("evaluation 21 at +20.000s,"));
  const std::string remark =
      "forestall replay: --at is after the last evaluation, which is at +20.000s\n";
  EXPECT_EQ(ran.errors, remark);
  EXPECT_EQ(run_forestall({"replay", file_, "--at", "1m"}).errors, remark);
  EXPECT_EQ(run_forestall({"replay", file_, "--at", "20s"}).errors, "");
  EXPECT_EQ(run_forestall({"replay", file_, "--at", "19.5s"}).errors, "");
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
  record_long();
  const std::string bytes = read_text(long_);
  tree_.write("long", bytes.substr(0, bytes.size() - 200));
  const Ran ran = run_forestall({"replay", long_});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_THAT(ran.errors, HasSubstr(long_ + ": truncated within a chunk"));
  tree_.write("long", bytes.substr(0, 10));
  const Ran nothing = run_forestall({"replay", long_});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("the file ends within its header"));
}

// Lines of standard output, one object each.
std::vector<std::string> lines_of(const std::string& output) {
  std::vector<std::string> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

Observation node_at(double seconds, Bytes available) {
  Observation observation;
  observation.at = policy::second(seconds);
  observation.node = policy::node(gib(4), available);
  observation.workloads = {policy::workload("/small", mib(100)),
                           policy::workload("/large", mib(200))};
  for (WorkloadSample& each : *observation.workloads) each.workload.kind = WorkloadKind::pod;
  return observation;
}

// Almost every kill of an agent is one of a pre-ranked victim.
TEST_F(RecordingCommand, ReplayCountsKillsOfPreRankedVictims) {
  const std::string file = tree_ / "prepared";
  {
    RecordedRun run({file, false},
                    policy::config({policy::hard(Signal::memory_available, mib(500))}));
    run.evaluate(node_at(1, mib(600)));
    run.sample_subjects(node_at(2, mib(400)));
    run.evaluate(node_at(3, mib(600)));
  }
  const Ran ran = run_forestall({"replay", file});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("\nobservations: 3 over 2s"));
  EXPECT_THAT(ran.output, HasSubstr("\n  kill (threshold-met): 1\n"));
  EXPECT_THAT(ran.output,
              HasSubstr("\n  kubelet_evictions{eviction_signal=\"memory.available\"} 1\n"));
  EXPECT_THAT(ran.output, EndsWith("recorded decisions: 3 (1 on a pre-ranked list), all the same "
                                   "here, byte for byte\n"));
  const auto lines = lines_of(run_forestall({"replay", file, "-o", "json"}).output);
  ASSERT_EQ(lines.size(), 4U);
  internal::ReplayEnd end;
  ASSERT_TRUE(messages::from_json(lines.back(), end).ok()) << lines.back();
  EXPECT_EQ(end.summary().observations(), 3U);
  EXPECT_EQ(end.summary().prepared(), 1U);
  ASSERT_EQ(end.summary().kubelet_evictions_size(), 1);
  EXPECT_EQ(end.summary().kubelet_evictions(0).count(), 1U);
}

// Each agent numbers its evaluations from 1.
TEST_F(RecordingCommand, ReplayNumbersTheEvaluationsOfAllRuns) {
  using namespace std::chrono_literals;
  const std::string ring = tree_ / "runs";
  const Boot first;
  const Boot second{"second", first.wall_offset};
  for (const auto& [boot, start] : {std::pair{first, 100}, std::pair{second, 130}}) {
    RecordedRun run({ring, false, mib(1)}, {}, {}, boot);
    for (int i = 0; i < 3; ++i) run.evaluate(node_at(start + i, gib(1)));
  }
  const Ran ran = run_forestall({"replay", ring, "--all"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("+2.000s        3  none (no-data)\n"
                                    "      +30.000s           the agent was restarted; 28s "
                                    "without an evaluation\n"
                                    "      +30.000s        4  none (no-data)\n"));
  const auto lines = lines_of(run_forestall({"replay", ring, "-o", "json"}).output);
  ASSERT_EQ(lines.size(), 7U);
  for (std::size_t i = 0; i < 6; ++i) {
    internal::ReplayStep step;
    ASSERT_TRUE(messages::from_json(lines[i], step).ok()) << lines[i];
    EXPECT_EQ(step.line(), i + 1);
    EXPECT_EQ(step.restarted(), i == 3);
  }
}

// A recording of an agent that watches one cgroup.
std::string record_a_watched_cgroup(const TempTree& tree) {
  const std::string file = tree / "watched";
  Config config = policy::config({policy::hard(Signal::memory_available, mib(100)),
                                  policy::hard(Signal::cgroup_memory_available, mib(50))});
  config.thresholds[1].cgroup = "/watched";
  config.enforced.clear();
  RecordedRun run({file, false}, config);
  for (int i = 0; i <= 20; ++i) {
    Observation observation = node_at(i, mib(600 - 10 * i));
    observation.workloads = {policy::workload("/watched/w", mib(100))};
    observation.watched = {policy::cgroup("/watched", mib(200), mib(60 - i), 1)};
    run.evaluate(observation);
  }
  return file;
}

TEST_F(RecordingCommand, FlagsOverrideSingleKeysOfTheRecordedConfiguration) {
  const std::string file = record_a_watched_cgroup(tree_);
  const Ran ran = run_forestall({"replay", file, "--eviction-hard", "memory.available<590Mi"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, Not(HasSubstr("no-data")));
  EXPECT_THAT(ran.output, HasSubstr("crossings: 2, 1 same, 1 only-after\n"));
  EXPECT_THAT(ran.output, HasSubstr("memory.available of node: evicts now\n"
                                    "                recorded: not crossed\n"
                                    "                here (< 590Mi): "));
  // Nothing changes under the recorded value.
  const Ran same = run_forestall({"replay", file, "--eviction-hard", "memory.available<100Mi"});
  EXPECT_THAT(same.output, HasSubstr("recorded decisions: 21, all the same here, byte for byte\n"));
  EXPECT_THAT(same.output, HasSubstr("crossings: 1, 1 same\n"));
}

TEST_F(RecordingCommand, AKubeletConfigurationOverridesSingleKeysAsWell) {
  const std::string file = record_a_watched_cgroup(tree_);
  tree_.write("kubelet.yaml",
              "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
              "evictionHard: {memory.available: 590Mi}\n");
  const Ran ran = run_forestall({"replay", file, "--kubelet-config", tree_ / "kubelet.yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("memory.available of node: evicts now\n"));
  EXPECT_THAT(ran.output, HasSubstr("crossings: 2, 1 same, 1 only-after\n"));
  const Ran flag = run_forestall({"replay", file, "--kubelet-config", tree_ / "kubelet.yaml",
                                  "--eviction-hard", "memory.available<100Mi"});
  EXPECT_THAT(flag.output, HasSubstr("crossings: 1, 1 same\n")) << "flags precede the file";
  EXPECT_EQ(run_forestall({"replay", file, "--kubelet-config", "/nonexistent"}).exit_code, 2);
}

TEST_F(RecordingCommand, AnOverrideThatDoesNotFitTheRecordingIsRefused) {
  const Ran syntax = run_forestall({"replay", file_, "--eviction-hard", "memory.available<1MB"});
  EXPECT_EQ(syntax.exit_code, 2);
  EXPECT_EQ(syntax.output, "");
  EXPECT_THAT(syntax.errors, testing::StartsWith("--eviction-hard: "));
  const Ran soft = run_forestall({"replay", file_, "--eviction-soft", "memory.available<1Gi"});
  EXPECT_EQ(soft.exit_code, 2);
  EXPECT_EQ(soft.output, "");
  EXPECT_THAT(soft.errors, HasSubstr("grace period must be specified"));
}

TEST_F(RecordingCommand, AConfigurationFileReplacesTheRecordedOne) {
  const std::string file = record_a_watched_cgroup(tree_);
  const Ran ran = run_forestall({"replay", file, "-c", higher_});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("cgroupMemory.available of /watched: no longer evicts\n"));
}

TEST_F(RecordingCommand, ARecordingWithoutAnEvaluationIsAnError) {
  const std::string file = tree_ / "none";
  { RecordedRun run({file, false}, {}); }
  const Ran ran = run_forestall({"replay", file});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.output, "");
  EXPECT_EQ(ran.errors, "forestall replay: " + file + ": contains no evaluation\n");
  EXPECT_EQ(run_forestall({"replay", file, "--at", "1s"}).exit_code, 2);
}

TEST_F(RecordingCommand, JsonMarksRecordedDecisions) {
  const Ran ran = run_forestall({"replay", file_, "-c", higher_, "-o", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  std::istringstream lines(ran.output);
  std::string line;
  std::size_t same = 0;
  for (int i = 0; i < 21; ++i) {
    std::getline(lines, line);
    internal::ReplayStep step;
    ASSERT_TRUE(messages::from_json(line, step)) << line;
    EXPECT_EQ(step.line(), static_cast<std::uint64_t>(i + 1));
    EXPECT_EQ(step.as_recorded(), !step.has_recorded());
    same += step.as_recorded() ? 1 : 0;
  }
  EXPECT_EQ(same, 0U) << "every decision names the threshold's limit";
  std::getline(lines, line);
  internal::ReplayEnd end;
  ASSERT_TRUE(messages::from_json(line, end)) << line;
  EXPECT_EQ(end.comparison().different(), 21U);
  EXPECT_EQ(end.comparison().act_otherwise(), 5U);
  ASSERT_EQ(end.comparison().episodes_size(), 1);
  EXPECT_EQ(end.comparison().episodes(0).kind(), internal::EpisodeDifference::EARLIER);
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
  const std::string other = tree_ / "other.jsonl";
  EXPECT_THAT(
      ran.output,
      testing::StartsWith("       +6.000s  memory.available of node: 5s earlier\n"
                          "                " +
                          file_ + " (< 500Mi): large at +11.000s\n" + "                " + other +
                          " (< 550Mi): large at +6.000s\n"
                          "crossings: 1, 1 earlier\n"
                          "\n"
                          "decisions: 0 equal, 21 different (5 act differently), 0 in only "
                          "one\n"
                          "the first that acts differently is at +6.000s:\n"
                          "  " +
                          file_ + ": none (no-threshold-met)\n" + "  " + other +
                          ": kill (threshold-met): memory.available 540Mi < 550Mi; evict "
                          "large (/large)\n"));
  EXPECT_THAT(ran.output, HasSubstr("\n    action: NONE -> KILL\n"));
  EXPECT_LT(ran.output.size(), 2000U) << ran.output;
  EXPECT_THAT(ran.output, Not(HasSubstr("{")));
}

TEST_F(RecordingCommand, DiffRemarksThatNoEvaluationsAreAtTheSameTime) {
  RecordedRun later({tree_ / "later", false}, {});
  Observation observation;
  observation.at = policy::second(500);
  later.evaluate(observation);
  later.end();
  const std::string remark = file_ + " and " + (tree_ / "later") +
                             " have no evaluation at the same time: they are of different "
                             "observations, and only their episodes can be compared";
  const Ran text = run_forestall({"diff", file_, tree_ / "later"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.errors, "forestall diff: " + remark + "\n");
  const Ran json = run_forestall({"diff", file_, tree_ / "later", "-o", "json"});
  internal::ReplayComparison comparison;
  ASSERT_TRUE(messages::from_json(json.output, comparison)) << json.output;
  ASSERT_EQ(comparison.remarks_size(), 1);
  EXPECT_EQ(comparison.remarks(0), remark);
}

// What only one of them could cross is no difference of the policies.
TEST_F(RecordingCommand, DiffShowsWhereOneHasNoEvaluation) {
  const std::string shorter = tree_ / "shorter";
  RecordedRun run({shorter, false},
                  policy::config({policy::hard(Signal::memory_available, mib(500))}));
  Observation observation;
  observation.at = policy::second(100);
  observation.node = policy::node(gib(4), mib(600));
  run.evaluate(observation);
  run.end();
  const Ran ran = run_forestall({"diff", shorter, file_});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.output, HasSubstr(shorter + ": no evaluation at that time\n"));
  EXPECT_THAT(ran.output, HasSubstr(shorter + " has evaluations from +0.000s to +0.000s\n" + file_ +
                                    " has evaluations from +0.000s to +20.000s\n"));
}

TEST_F(RecordingCommand, DiffOfAFileWithoutDecisionsIsAnError) {
  tree_.write("empty", "");
  for (const auto& arguments : {std::vector<std::string>{"diff", tree_ / "empty", file_},
                                std::vector<std::string>{"diff", file_, tree_ / "empty"}}) {
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.output, "");
    EXPECT_EQ(ran.errors, "forestall diff: " + (tree_ / "empty") + ": contains no decision\n");
  }
}

TEST_F(RecordingCommand, DiffReportsErrorsOfAFile) {
  record_long();
  const std::string bytes = read_text(long_);
  tree_.write("cut", bytes.substr(0, bytes.size() - 200));
  const Ran ran = run_forestall({"diff", long_, tree_ / "cut"});
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

TEST_F(RecordingCommand, ReportPrintsJsonAsOtherSubcommandsDo) {
  for (const auto& json :
       {std::vector<std::string>{"-o", "json"}, {"--output", "json"}, {"--format", "json"}}) {
    std::vector<std::string> arguments{"report", file_};
    arguments.insert(arguments.end(), json.begin(), json.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    internal::Picture picture;
    ASSERT_TRUE(messages::from_json(ran.output, picture).ok()) << json[0];
    EXPECT_EQ(picture.summary().evaluations(), 21) << json[0];
  }
  EXPECT_NE(::access("json", F_OK), 0) << "no file has the name of the format";
  const Ran both = run_forestall({"report", file_, "-o", "json", "--format", "md"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.errors, HasSubstr("-o json and --format md contradict each other"));
}

TEST_F(RecordingCommand, AFormatIsNoFileName) {
  const Ran record = run_forestall({"record", "-o", "json", "--duration", "1ms"});
  EXPECT_EQ(record.exit_code, 2);
  EXPECT_THAT(record.errors, HasSubstr("set the format with --output json, or write ./json"));
  const Ran report = run_forestall({"report", file_, "-o", "text"});
  EXPECT_EQ(report.exit_code, 2);
  EXPECT_THAT(report.errors, HasSubstr("use one of: html, md, png, json"));
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
}  // namespace forestall::test::recording_command_test
