// SPDX-License-Identifier: Apache-2.0
// A replay of a recording: byte for byte with the recorded policy, whatever happened meanwhile; and
// next to it with another policy.
#include "replay/recording_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording/format.h"
#include "replay/recorded_run.h"
#include "support/temp_tree.h"
#include "tests/policy/any_world.h"

namespace forestall::test {
namespace {

using replay::RecordingInput;
using replay::RecordingReplay;
using namespace std::chrono_literals;

// The result of a replay of a file or a directory.
struct Replayed {
  std::uint64_t same = 0;
  std::uint64_t different = 0;
  std::uint64_t states_different = 0;
  std::uint64_t passed_over = 0;
  std::uint64_t lost = 0;
  std::vector<std::string> remarks;
  std::vector<replay::EpisodeDifference::Kind> kinds;
};

Replayed replay(const std::string& path, const replay::ReplayRules& rules = {}) {
  auto input = RecordingInput::open(path);
  EXPECT_TRUE(input) << input.error().text();
  if (!input) return {};
  RecordingReplay run(std::move(*input), rules);
  for (;;) {
    const auto step = run.next();
    EXPECT_TRUE(step) << step.error().text();
    if (!step || !*step) break;
  }
  Replayed replayed{run.same(),
                    run.different(),
                    run.states_different(),
                    run.input().counts().passed_over,
                    run.input().counts().lost,
                    run.input().remarks(),
                    {}};
  for (const auto& each : replay::compare(run.recorded(), run.replayed())) {
    replayed.kinds.push_back(each.kind);
  }
  return replayed;
}

class RecordingReplayTest : public testing::Test {
 protected:
  TempTree tree_;
  const std::string file_ = tree_ / "recording";
};

// Each world is another agent: with its own policy state and configuration, and evaluations between
// which anything may change.
TEST_F(RecordingReplayTest, AnyRunReplaysByteForByte) {
  std::uint64_t kills = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    policy::Dice dice(seed);
    const Config config = policy::any_config(dice);
    policy::State state;
    for (auto count = dice.below(3); count > 0; --count) {
      Observation before = policy::any_observation(dice, config);
      before.at -= std::chrono::seconds(10 * count);
      state = policy::step(config, state, before).state;
    }
    std::uint64_t evaluations = 0;
    {
      RecordedRun run({file_, true}, config, state);
      MonotonicTime at = policy::second(1000);
      for (int i = 0; i < 30; ++i) {
        Observation observation = policy::any_observation(dice, config);
        observation.at = at;
        at += std::chrono::milliseconds(1 + dice.below(9000));
        if (dice.one_in(10)) run.reload(policy::any_config(dice));
        if (dice.one_in(10))
          run.workload_sample(at, observation.workloads.value_or(std::vector<WorkloadSample>()));
        const Decision decision =
            dice.one_in(5) ? run.sample_subjects(observation) : run.evaluate(observation);
        kills += decision.action == Action::kill ? 1 : 0;
        ++evaluations;
      }
    }
    const Replayed replayed = replay(file_);
    ASSERT_EQ(replayed.different, 0U) << seed;
    ASSERT_THAT(replayed.remarks, testing::IsEmpty()) << seed;
    ASSERT_EQ(replayed.same, evaluations) << seed;
    ASSERT_EQ(replayed.states_different, 0U) << seed;
  }
  EXPECT_GT(kills, 500U) << "the worlds are too quiet to prove anything";
}

// An observation of 4 GiB with so much available and two workloads.
Observation node_with(double seconds, Bytes available, bool read = true) {
  Observation observation;
  observation.at = policy::second(seconds);
  observation.node = policy::node(gib(4), available);
  if (!read) return observation;
  observation.workloads = {policy::workload("/small", mib(100)),
                           policy::workload("/large", mib(200))};
  return observation;
}

Config hard_below(Bytes limit) {
  return policy::config({policy::hard(Signal::memory_available, limit)});
}

// The ring's first segment is gone: the replay starts in the middle of the policy's history.
TEST_F(RecordingReplayTest, ARingWithoutItsBeginningReplaysByteForByte) {
  const Config config =
      policy::config({policy::soft(policy::hard(Signal::memory_available, gib(1)), 10min)});
  const std::string ring = tree_ / "ring";
  std::uint64_t evaluations = 0;
  {
    RecordedRun run({ring, false, mib(1)}, config);
    policy::Dice dice(1);
    for (int i = 0; i < 3000; ++i) {
      Observation observation = node_with(i, mib(500 + dice.below(400)));
      // Data that cannot be compressed, so that the ring drops segments.
      for (int n = 0; n < 20; ++n) {
        observation.notes.push_back(
            {std::to_string(dice.below(INT64_MAX)), std::to_string(dice.below(INT64_MAX))});
      }
      run.evaluate(observation);
      ++evaluations;
    }
    EXPECT_GT(run.end().files, 8U);
  }
  const Replayed replayed = replay(ring);
  EXPECT_EQ(replayed.different, 0U);
  EXPECT_EQ(replayed.states_different, 0U);
  // How much is left depends on the times at which the writer's thread requests keys.
  EXPECT_GT(replayed.same, 300U);
  EXPECT_LT(replayed.same, evaluations);
  EXPECT_THAT(replayed.remarks, testing::IsEmpty());
}

TEST_F(RecordingReplayTest, SkipsDamageUpToTheNextKey) {
  {
    RecordedRun run({file_, false}, hard_below(mib(500)));
    policy::Dice dice(1);
    for (int i = 0; i < 20'000; ++i) {
      Observation observation = node_with(i, mib(400 + dice.below(400)));
      for (int n = 0; n < 5; ++n) {
        observation.notes.push_back(
            {std::to_string(dice.below(INT64_MAX)), std::to_string(dice.below(INT64_MAX))});
      }
      run.evaluate(observation);
    }
  }
  const Replayed whole = replay(file_);
  EXPECT_EQ(whole.different, 0U);
  std::string bytes = read_text(file_);
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 1000; ++i) bytes[i] = '\0';
  tree_.write("recording", bytes);
  const Replayed damaged = replay(file_);
  EXPECT_EQ(damaged.different, 0U);
  EXPECT_EQ(damaged.states_different, 0U);
  EXPECT_LT(damaged.same, whole.same);
  EXPECT_GT(damaged.same, whole.same / 2);
  // In one chunk, or across two.
  EXPECT_THAT(damaged.remarks, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(damaged.remarks, testing::Each(testing::HasSubstr("damaged at ")));
}

TEST_F(RecordingReplayTest, ADecisionThatIsNotThePolicysIsFound) {
  {
    RecordedRun run({file_, false}, hard_below(mib(500)));
    run.evaluate(node_with(1, gib(1)));
    Decision wrong;
    wrong.action = Action::none;
    wrong.reason = Reason::no_data;
    run.misrecord(node_with(2, mib(400)), wrong);
    run.evaluate(node_with(3, gib(1)));
  }
  auto input = RecordingInput::open(file_);
  ASSERT_TRUE(input);
  RecordingReplay run(std::move(*input), {});
  while (run.next().value()) {
  }
  EXPECT_EQ(run.same(), 2U);
  EXPECT_EQ(run.different(), 1U);
  ASSERT_TRUE(run.first_difference());
  EXPECT_EQ(run.first_difference()->evaluation, 2U);
  EXPECT_EQ(run.first_difference()->recorded.reason, Reason::no_data);
  EXPECT_EQ(run.first_difference()->replayed.reason, Reason::threshold_met);
}

// Memory falls by 1 MiB a second from 600; the recorded policy acts below 500 MiB.
void record_a_leak(const std::string& file, bool with_workload_samples) {
  RecordedRun run({file, true}, hard_below(mib(500)));
  for (int i = 0; i <= 110; ++i) {
    const Bytes available = mib(600 - i);
    // The workloads are read once the threshold is met.
    const Observation observation = node_with(i, available, available < mib(500));
    if (with_workload_samples && i % 7 == 0)
      run.workload_sample(observation.at, *node_with(i, available).workloads);
    run.evaluate(observation);
  }
}

std::vector<replay::EpisodeDifference> episodes(const std::string& file, const Config& config,
                                                std::unique_ptr<RecordingReplay>& run) {
  replay::ReplayRules rules;
  rules.config = config;
  run = std::make_unique<RecordingReplay>(std::move(RecordingInput::open(file).value()), rules);
  while (run->next().value()) {
  }
  return replay::compare(run->recorded(), run->replayed());
}

TEST_F(RecordingReplayTest, AHigherThresholdActsEarlierOnTheLastWorkloadSample) {
  record_a_leak(file_, /*with_workload_samples=*/true);
  std::unique_ptr<RecordingReplay> run;
  const auto differences = episodes(file_, hard_below(mib(550)), run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, replay::EpisodeDifference::Kind::earlier);
  EXPECT_EQ(differences[0].shift, -50s);
  const replay::Departure& victim = differences[0].after->victims.front();
  EXPECT_EQ(victim.path, "/large");
  EXPECT_EQ(victim.at, policy::second(51));
  EXPECT_EQ(victim.age, 2s);  // the workload_sample at 49 s
  EXPECT_EQ(differences[0].before->victims.front().age, std::nullopt);
}

// The agent samples workloads at the end of an evaluation.
TEST_F(RecordingReplayTest, AWorkloadSampleOfTheSameEvaluationIsFresh) {
  {
    RecordedRun run({file_, false}, hard_below(mib(500)));
    for (int i = 0; i <= 110; ++i) {
      const Observation observation = node_with(i, mib(600 - i), i > 100);
      run.evaluate(observation);
      if (i % 17 != 0) continue;
      run.workload_sample(observation.at + 1ms, *node_with(i, mib(600 - i)).workloads);
    }
  }
  std::unique_ptr<RecordingReplay> run;
  const auto differences = episodes(file_, hard_below(mib(550)), run);
  ASSERT_EQ(differences.size(), 1U);
  const replay::Departure& victim = differences[0].after->victims.front();
  EXPECT_EQ(victim.at, policy::second(51));
  EXPECT_EQ(victim.age, std::nullopt);
  EXPECT_EQ(differences[0].after->victims[1].age, 999ms);
}

// No workload could be killed, because there was none when the workloads were read.
TEST_F(RecordingReplayTest, ReportsTheAgeOfAnOldWorkloadSample) {
  {
    RecordedRun run({file_, false}, hard_below(mib(500)));
    std::vector<WorkloadSample> empty = *node_with(0, mib(600)).workloads;
    for (WorkloadSample& each : empty) each.processes = 0;
    run.evaluate(node_with(0, mib(600), false));
    run.workload_sample(policy::second(0), empty);
    run.evaluate(node_with(3, mib(540), false));
  }
  replay::ReplayRules rules;
  rules.config = hard_below(mib(550));
  RecordingReplay run(std::move(RecordingInput::open(file_).value()), rules);
  const auto calm = run.next().value();
  ASSERT_TRUE(calm);
  EXPECT_EQ(calm->age, std::nullopt);
  const auto held = run.next().value();
  ASSERT_TRUE(held);
  EXPECT_EQ(held->decision.reason, Reason::all_protected);
  EXPECT_EQ(held->age, 3s);
}

// The node crashed under pressure, and its agent continues the same ring after the boot.
TEST_F(RecordingReplayTest, CrossingsEndWithTheirBoot) {
  const std::string ring = tree_ / "ring";
  const Boot first;
  // Booted 60 s after its last evaluation at 100,110 s.
  const Boot second{"second", first.wall_offset + 100'110s + 60s - 20s};
  for (const auto& [boot, start] : {std::pair{first, 100'000}, std::pair{second, 20}}) {
    RecordedRun run({ring, false, mib(1)}, hard_below(mib(500)), {}, boot);
    for (int i = 0; i <= 110; ++i) run.evaluate(node_with(start + i, mib(600 - i)));
  }
  std::unique_ptr<RecordingReplay> run;
  const auto differences = episodes(ring, hard_below(mib(500)), run);
  ASSERT_EQ(differences.size(), 2U);
  for (const auto& each : differences) EXPECT_EQ(each.kind, replay::EpisodeDifference::Kind::same);
  EXPECT_EQ(differences[0].before->began, policy::second(100'101));
  EXPECT_EQ(differences[0].before->ended, policy::second(100'110));
  EXPECT_EQ(differences[1].before->began, policy::second(100'170 + 101));
  EXPECT_EQ(run->fold().counts().over, 220s);
}

// Of another version, for example: the entries after it can be read.
TEST_F(RecordingReplayTest, SkipsASegmentWithUnreadableFacts) {
  const recording::FileHeader strange{recording::kMajor, recording::kMinor, "\xff"};
  tree_.write("ring/segment-0000000001.rec", recording::encode(strange));
  const std::string ring = tree_ / "ring";
  EXPECT_FALSE(RecordingInput::open(ring));
  RecordedRun({ring, false, mib(1)}, hard_below(mib(500))).evaluate(node_with(1, gib(1)));
  const Replayed replayed = replay(ring);
  EXPECT_EQ(replayed.same, 1U);
  EXPECT_THAT(replayed.remarks, testing::ElementsAre(testing::HasSubstr("segment-0000000001")));
}

// The workloads are unknown; the time of the action is still known.
TEST_F(RecordingReplayTest, WithoutWorkloadSamplesAHigherThresholdActsOnceAWorkloadIsKnown) {
  record_a_leak(file_, /*with_workload_samples=*/false);
  std::unique_ptr<RecordingReplay> run;
  const auto differences = episodes(file_, hard_below(mib(550)), run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].after->began, policy::second(51));
  EXPECT_EQ(differences[0].after->victims.front().at, policy::second(101));
}

TEST_F(RecordingReplayTest, ALowerThresholdActsLaterOrNotAtAll) {
  record_a_leak(file_, true);
  std::unique_ptr<RecordingReplay> run;
  auto differences = episodes(file_, hard_below(mib(495)), run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, replay::EpisodeDifference::Kind::later);
  EXPECT_EQ(differences[0].shift, 5s);
  differences = episodes(file_, hard_below(mib(400)), run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, replay::EpisodeDifference::Kind::only_before);
}

TEST_F(RecordingReplayTest, ASoftThresholdIsInItsGrace) {
  record_a_leak(file_, true);
  std::unique_ptr<RecordingReplay> run;
  const Config soft =
      policy::config({policy::soft(policy::hard(Signal::memory_available, mib(500)), 1min)});
  const auto differences = episodes(file_, soft, run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, replay::EpisodeDifference::Kind::spared);
  EXPECT_TRUE(differences[0].after->in_grace);
}

// A configuration with one threshold more.
TEST_F(RecordingReplayTest, AWatchedCgroupIsEvaluatedUnderAnyConfiguration) {
  Config recorded = policy::config({policy::hard(Signal::cgroup_memory_available, mib(50))});
  recorded.thresholds[0].cgroup = "/jobs/*";
  {
    RecordedRun run({file_, false}, recorded);
    for (int i = 0; i <= 20; ++i) {
      Observation observation = node_with(i, mib(600));
      observation.workloads = {policy::workload("/jobs/a/w", mib(100))};
      observation.watched = {policy::cgroup("/jobs/a", mib(200), mib(60 - i), 0)};
      run.evaluate(observation);
    }
  }
  Config other = policy::config({policy::hard(Signal::memory_available, mib(100)),
                                 policy::hard(Signal::cgroup_memory_available, mib(55))});
  other.thresholds[1].cgroup = "/jobs/a";
  std::unique_ptr<RecordingReplay> run;
  const auto differences = episodes(file_, other, run);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].kind, replay::EpisodeDifference::Kind::earlier);
  EXPECT_EQ(differences[0].shift, -5s);
  other.thresholds[1].cgroup = "/jobs/b";
  EXPECT_EQ(episodes(file_, other, run)[0].kind, replay::EpisodeDifference::Kind::only_before);
}

TEST_F(RecordingReplayTest, AnotherRankingTakesAnotherVictim) {
  {
    RecordedRun run({file_, false}, hard_below(mib(500)));
    Observation observation = node_with(1, mib(400));
    (*observation.workloads)[0].scored = (*observation.workloads)[1].scored = true;
    (*observation.workloads)[0].badness = WorkloadBadness{{1, 1}, 9};
    (*observation.workloads)[1].badness = WorkloadBadness{{2, 1}, 5};
    run.evaluate(observation);
  }
  replay::ReplayRules rules;
  rules.ranking = Ranking::kernel;
  EXPECT_THAT(replay(file_, rules).kinds,
              testing::ElementsAre(replay::EpisodeDifference::Kind::other_victim));
  rules.ranking = Ranking::kubelet;
  EXPECT_THAT(replay(file_, rules).kinds,
              testing::ElementsAre(replay::EpisodeDifference::Kind::same));
}

}  // namespace
}  // namespace forestall::test
