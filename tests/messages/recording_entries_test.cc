// SPDX-License-Identifier: Apache-2.0
// Entries of a recording, encoded and decoded.
#include "messages/recording_entries.h"

#include <gtest/gtest.h>

#include "messages/convert.h"
#include "messages/random_model.h"

namespace forestall::test {
namespace {

using messages::EntryDecoder;
using messages::EntryEncoder;

// The given entries, as a file would keep them.
std::vector<std::string> kept(const EntryEncoder::Entries& entries) {
  return {entries.begin(), entries.end()};
}

// The last of them; those before it must be workloads.
messages::RecordingEntry decoded(EntryDecoder& decoder, const std::vector<std::string>& entries) {
  for (std::size_t i = 0; i + 1 < entries.size(); ++i) {
    const auto entry = decoder.decode(entries[i]);
    EXPECT_TRUE(entry && std::holds_alternative<messages::SubjectEntry>(*entry));
  }
  auto last = decoder.decode(entries.back());
  EXPECT_TRUE(last.ok()) << last.error().text();
  return last ? std::move(*last) : messages::RecordingEntry();
}

PolicyState random_state(Dice& dice) {
  PolicyState state;
  state.at = dice.maybe_time();
  state.layout = dice.maybe([&] { return dice.one_of<FilesystemLayout>(3); });
  if (dice.coin()) {
    state.derived = std::make_shared<const std::vector<DerivedThreshold>>(dice.some([&] {
      return DerivedThreshold{dice.below(100), dice.coin(), random_threshold(dice)};
    }));
  }
  const auto id = [&] { return ThresholdId{dice.below(100), CgroupId{dice.inode()}}; };
  state.met = dice.some([&] { return PolicyState::Met{id(), dice.time()}; });
  state.driving = dice.some(id);
  for (auto& at : state.read.node) at = dice.maybe_time();
  state.read.watched = dice.some([&] {
    return ReadingTimes::Watched{CgroupId{dice.inode()}, dice.time()};
  });
  for (auto& each : state.conditions) each = {dice.maybe_time(), dice.coin()};
  state.reclaim = dice.maybe([&] { return PolicyState::Reclaim{id(), dice.coin()}; });
  const auto series = [&] { return PolicyState::Series{id(), dice.time(), dice.bytes()}; };
  const auto holdings = [&] {
    std::vector<PolicyState::Holdings::Held> held;
    for (std::uint64_t i = dice.below(4); i > 0; --i) {
      held.push_back({CgroupId{dice.inode()}, dice.bytes()});
    }
    std::ranges::sort(held, {}, &PolicyState::Holdings::Held::cgroup);
    return PolicyState::Holdings{
        id(), dice.time(), dice.bytes(),
        std::make_shared<const std::vector<PolicyState::Holdings::Held>>(std::move(held))};
  };
  state.series = dice.some(series);
  state.holdings = dice.some(holdings);
  state.decided = dice.maybe([&] {
    return PolicyState::Decided{CgroupId{dice.inode()}, dice.maybe(series), dice.maybe(holdings)};
  });
  state.held_until = dice.maybe_time();
  state.cleanup_until = dice.maybe_time();
  if (dice.coin()) state.rules = random_rule_state(dice);
  state.rule_kill = dice.maybe([&] {
    return PolicyState::UnconfirmedRuleKill{CgroupId{dice.inode()}, dice.inode(), dice.time()};
  });
  return state;
}

// A record as the policy makes them: most candidates are workloads of the observation.
Record random_evaluation(Dice& dice) {
  Record record = random_record(dice);
  record.sequence = 0;
  record.outcome.reset();
  record.oom_kill.reset();
  record.crossing.reset();  // is in the RecordEntry of the kill, as the next one
  record.begun.reset();
  if (record.observation.workloads && dice.coin()) {
    for (const WorkloadSample& sample : *record.observation.workloads) {
      record.decision.considered.push_back({sample, {}, Exclusion::none});
    }
  }
  return record;
}

TEST(RecordingEntries, FactsComeBack) {
  messages::RecordingFacts facts;
  facts.version = "1.2";
  facts.recorder = messages::RecordedBy::session;
  facts.pid = 7;
  facts.node = "node-1";
  facts.kernel = "6.1.0";
  facts.boot_id = "b";
  facts.began = from_ns(5);
  facts.began_wall_ns = 1'700'000'000'000'000'001;
  facts.tier = Tier::tracepoint;
  facts.features = {{Feature::bpf, FeatureState::in_use, "loaded"}};
  facts.config_origin = "built in";
  facts.interval = std::chrono::seconds(1);
  const auto read = messages::decode_facts(messages::encode(facts));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(*read, facts);
  EXPECT_FALSE(messages::decode_facts("\xff"));
}

TEST(RecordingEntries, StatesComeBack) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const PolicyState state = random_state(dice);
    const auto read = messages::from_proto(messages::to_proto(state));
    ASSERT_TRUE(read) << read.error().text();
    ASSERT_EQ(*read, state) << seed;
  }
  EXPECT_EQ(*messages::from_proto(messages::to_proto(PolicyState{})), PolicyState{});
}

TEST(RecordingEntries, HoldingsThatDoNotFitTogetherAreRefused) {
  v1::PolicyState state;
  v1::PolicyState::Holdings& holdings = *state.add_holdings();
  holdings.add_cgroup_ids(2);
  EXPECT_FALSE(messages::from_proto(state)) << "a cgroup without a working set";
  holdings.add_working_set_bytes(1);
  EXPECT_TRUE(messages::from_proto(state));
  holdings.add_cgroup_ids(1);
  holdings.add_working_set_bytes(1);
  EXPECT_FALSE(messages::from_proto(state)) << "not ascending";
}

TEST(RecordingEntries, KeysComeBack) {
  Config config;
  config.thresholds = {Threshold{}};
  config.thresholds[0].limit = Limit::bytes(mib(100));
  PolicyState state;
  state.at = from_ns(3);
  EntryEncoder encoder;
  EntryDecoder decoder;
  const auto entry = decoded(decoder, kept(encoder.key(from_ns(9), 17, config, state)));
  const auto& key = std::get<messages::KeyEntry>(entry);
  EXPECT_EQ(key.at, from_ns(9));
  EXPECT_EQ(key.wall_time_ns, 17);
  EXPECT_EQ(key.config, config);
  EXPECT_EQ(key.state, state);
}

// One encoder and one decoder for all: entries refer to workloads that were described before.
TEST(RecordingEntries, EvaluationsSurviveTheRoundTrip) {
  EntryEncoder encoder;
  EntryDecoder decoder;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const Record record = random_evaluation(dice);
    if (seed % 50 == 0) (void)decoded(decoder, kept(encoder.key({}, 0, {}, {})));
    const auto entries = kept(encoder.evaluation(record));
    auto entry = decoded(decoder, entries);
    auto& evaluation = std::get<messages::EvaluationEntry>(entry);
    ASSERT_EQ(evaluation.number, seed + 1);
    std::string bytes;
    messages::encode_decision(record.decision, record.observation, bytes);
    ASSERT_EQ(evaluation.decision, bytes) << seed;
    const auto decision = messages::decode_decision(evaluation);
    ASSERT_TRUE(decision) << decision.error().text();
    evaluation.evaluated.decision = *decision;
    ASSERT_EQ(evaluation.evaluated, record) << seed;
  }
}

TEST(RecordingEntries, AWorkloadIsDescribedOnceUntilItChanges) {
  Record record;
  WorkloadSample sample;
  sample.workload.cgroup = {7};
  sample.workload.path = "/a";
  sample.usage = mib(1);
  record.observation.workloads = {sample};
  EntryEncoder encoder;
  EXPECT_EQ(encoder.evaluation(record).size(), 2U);
  (*record.observation.workloads)[0].usage = mib(2);
  EXPECT_EQ(encoder.evaluation(record).size(), 1U);
  (*record.observation.workloads)[0].workload.priority = 5;
  EXPECT_EQ(encoder.evaluation(record).size(), 2U);
  (void)encoder.key({}, 0, {}, {});
  EXPECT_EQ(encoder.evaluation(record).size(), 2U);
}

TEST(RecordingEntries, ARecordRefersToItsEvaluation) {
  Dice dice(4);
  Record record = random_evaluation(dice);
  record.decision.action = Action::kill;
  EntryEncoder encoder;
  EntryDecoder decoder;
  (void)decoded(decoder, kept(encoder.evaluation(record)));
  Record on_record = record;
  on_record.sequence = 12;
  on_record.outcome = Outcome{};
  on_record.decision.evictions = {Eviction{}};
  on_record.decision.evictions[0].message = "it was the largest";
  const auto entry = decoded(decoder, kept(encoder.record(on_record)));
  const auto& read = std::get<messages::RecordedEntry>(entry);
  EXPECT_EQ(read.evaluation, 1U);
  EXPECT_EQ(read.record.sequence, 12U);
  EXPECT_EQ(read.record.outcome, on_record.outcome);
  EXPECT_EQ(read.record.stages, on_record.stages);
  EXPECT_EQ(read.record.decision.evictions, on_record.decision.evictions);
  EXPECT_TRUE(read.record.decision.considered.empty());
}

// Kills of the watchdog and the guard belong to no evaluation of the loop.
TEST(RecordingEntries, ARecordWithoutAnEvaluationIsComplete) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const Record record = random_record(dice);
    EntryEncoder encoder;
    EntryDecoder decoder;
    const auto entry = decoded(decoder, kept(encoder.record(record)));
    const auto& read = std::get<messages::RecordedEntry>(entry);
    ASSERT_EQ(read.evaluation, 0U);
    ASSERT_EQ(read.record, record) << seed;
  }
}

TEST(RecordingEntries, WorkloadSamplesComeBack) {
  Dice dice(2);
  std::vector<WorkloadSample> samples;
  while (samples.empty()) samples = random_observation(dice).workloads.value_or(samples);
  EntryEncoder encoder;
  EntryDecoder decoder;
  const auto entry = decoded(decoder, kept(encoder.workload_sample(from_ns(4), samples)));
  const auto& workload_sample = std::get<messages::WorkloadSampleEntry>(entry);
  EXPECT_EQ(workload_sample.at, from_ns(4));
  EXPECT_EQ(workload_sample.samples, samples);
}

TEST(RecordingEntries, PressureSurvivesTheRoundTripAndUnknownStaysUnknown) {
  EntryEncoder encoder;
  EntryDecoder decoder;
  for (const MemoryPressure& pressure :
       {MemoryPressure{from_ns(4), Duration(1), Duration(0), 3, 2, 1},
        MemoryPressure{from_ns(5), {}, {}, {}, {}, {}}}) {
    const auto entry = decoded(decoder, kept(encoder.pressure(pressure)));
    EXPECT_EQ(std::get<messages::PressureEntry>(entry).pressure, pressure);
  }
}

TEST(RecordingEntries, RejectsDanglingReferences) {
  Record record;
  WorkloadSample sample;
  sample.workload.cgroup = {7};
  record.observation.workloads = {sample};
  EntryEncoder encoder;
  const auto first = kept(encoder.evaluation(record));
  const auto second = kept(encoder.evaluation(record));
  EntryDecoder decoder;
  EXPECT_EQ(decoder.decode(second.back()).error().message,
            "evaluation: subjects: 0 was not described");
  EXPECT_TRUE(decoder.decode(first[0]));
  EXPECT_TRUE(decoder.decode(second.back()));
  decoder.forget();
  EXPECT_FALSE(decoder.decode(second.back()));
  EXPECT_FALSE(decoder.decode("\xff\xff"));
}

// A few hundred bytes of a file must not become gigabytes of memory.
TEST(RecordingEntries, RejectsTooManyReferences) {
  Record record;
  WorkloadSample sample;
  sample.workload.cgroup = {7};
  sample.workload.path = "/" + std::string(1 << 20, 'x');
  record.observation.workloads = {sample};
  EntryEncoder encoder;
  const auto entries = kept(encoder.evaluation(record));
  forestall::v1::RecordingEntry evaluation;
  ASSERT_TRUE(evaluation.ParseFromString(entries[1]));
  for (int i = 0; i < 300; ++i) {
    evaluation.mutable_evaluation()->add_subjects(0);
    evaluation.mutable_evaluation()->mutable_observation()->add_workloads();
  }
  EntryDecoder decoder;
  EXPECT_TRUE(decoder.decode(entries[0]));
  EXPECT_TRUE(decoder.decode(entries[1]));
  EXPECT_EQ(decoder.decode(evaluation.SerializeAsString()).error().message,
            "evaluation: subjects: the samples exceed the limit of 256 MiB");
}

// A few kilobytes that unpack to long paths must not either.
TEST(RecordingEntries, WorkloadsThatAreTooLargeAreRefusedUpToTheNextKey) {
  forestall::v1::RecordingEntry subject;
  subject.mutable_subject()->mutable_workload()->set_path("/" + std::string(30 << 20, 'x'));
  EntryDecoder decoder;
  for (std::uint32_t i = 0; i < 2; ++i) {
    subject.mutable_subject()->set_number(i);
    EXPECT_TRUE(decoder.decode(subject.SerializeAsString()));
  }
  subject.mutable_subject()->set_number(2);
  EXPECT_EQ(decoder.decode(subject.SerializeAsString()).error().message,
            "subject: the subjects exceed their limit");
  decoder.forget();
  subject.mutable_subject()->set_number(0);
  EXPECT_TRUE(decoder.decode(subject.SerializeAsString()));
}

TEST(RecordingEntries, AKindOfALaterVersionIsKnownForOne) {
  EntryDecoder decoder;
  const std::string later("\xfa\x06\x03xyz", 6);  // field 111, three bytes
  const auto entry = decoder.decode(later);
  ASSERT_TRUE(entry);
  EXPECT_TRUE(std::holds_alternative<messages::UnknownEntry>(*entry));
}

}  // namespace
}  // namespace forestall::test
