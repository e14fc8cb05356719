// SPDX-License-Identifier: Apache-2.0
// The exact text for programs, and the result of reading it.
#include "messages/json.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "messages/convert.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using messages::JsonStyle;
using messages::to_json;

OomKill sample_oom_kill() {
  OomKill kill;
  kill.event.at = from_ns(1300);
  kill.event.victim = {4711, 99};
  kill.event.comm = {'l', 'e', 'a', 'k'};
  kill.event.path = "/batch.slice/leak";
  kill.event.memory = ProcessMemory{.file = 10, .anon = 12800, .page_tables = 30};
  kill.event.points = 12840;
  kill.event.total_pages = 16384;
  kill.event.constraint = Constraint::memcg;
  kill.event.domain = {5};
  kill.event.domain_path = "/batch.slice";
  kill.event.domain_limit = mib(64);
  kill.forecast = OomForecast{from_ns(1250), OomVerdict::kills, ProcessId{4711, 99}, true};
  kill.inaction = Inaction::too_fast;
  kill.since_crossing = Duration(400);
  return kill;
}

Record sample_record() {
  Workload leak{.cgroup = {77},
                .path = "/batch.slice/leak",
                .kind = WorkloadKind::cgroup,
                .name = "leak",
                .pod_uid = std::nullopt,
                .priority = -5,
                .memory_request = std::nullopt,
                .protection = Protection::none,
                .pod = nullptr};
  Record record;
  record.sequence = 3;
  record.wall_time_ns = 1'763'712'000'123'456'789;
  record.observation.at = from_ns(1000);
  record.observation.wake = {WakeSource::usage_eventfd, from_ns(900), CgroupId{5}, mib(60)};
  record.observation.node.capacity = gib(4);
  record.observation.workloads = {
      {leak, mib(50), std::nullopt, 2, std::nullopt, true, WorkloadBadness{{4711, 99}, 12840}}};
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.cgroup = "/batch.slice";
  threshold.limit = Limit::share(0.05F);
  record.decision.action = Action::kill;
  record.decision.reason = Reason::threshold_met;
  record.decision.evidence = {{threshold,
                               "/batch.slice",
                               {5},
                               mib(64).count,
                               mib(-1).count,
                               binary(mib(3).count),
                               0,
                               true,
                               from_ns(1000),
                               from_ns(990),
                               true}};
  record.decision.driving = 0;
  record.decision.considered = {{record.observation.workloads->front(),
                                 {true, true, -5, mib(50).count, 0, mib(50).count, 12840},
                                 Exclusion::none}};
  record.decision.evictions = {{.candidate = 0,
                                .grace = std::chrono::seconds(1),
                                .at_once = true,
                                .message = "The node was low on resource: memory. ",
                                .annotations = {{"starved_resource", "memory"}},
                                .disruption_target = true,
                                .metric_signal = "cgroupMemory.available"}};
  record.decision.conditions[0] = {Condition::memory_pressure, true, true, from_ns(1000)};
  record.stages = {from_ns(900), from_ns(950), from_ns(1000), from_ns(1100)};
  record.outcome = Outcome{.victim = leak,
                           .dry_run = false,
                           .state = KillState::stuck,
                           .attempts = {{Rung::verify, from_ns(1200), 0, std::nullopt},
                                        {Rung::sigkill, from_ns(1300), 1, Error{1, "pidfd"}}},
                           .processes = 1,
                           .usage_before = mib(50),
                           .freed = {0},
                           .began = from_ns(1150),
                           .signalled = from_ns(1300),
                           .exited = std::nullopt,
                           .released = std::nullopt};
  record.oom_kill = sample_oom_kill();
  return record;
}

TEST(Json, GoldenRecord) {
  EXPECT_EQ(to_json(messages::to_proto(sample_record()), JsonStyle::pretty),
            read_text(FORESTALL_TEST_DATA "/config/record.golden.json"));
}

TEST(Json, OneLine) {
  v1::CgroupSample sample;
  sample.set_cgroup_id(UINT64_MAX);
  sample.set_path("/a\"\\\n\t\x01\x7f\xc2\x9b/\xff€");
  sample.set_usage_bytes(INT64_MIN);
  EXPECT_EQ(to_json(sample, JsonStyle::line),
            R"({"cgroupId":18446744073709551615,"path":"/a\"\\\n\t\u0001\u007f\u009b/)"
            "\xef\xbf\xbd€"
            R"(","usageBytes":-9223372036854775808,"threshold":0})");
}

TEST(Json, EmptyMessagesAndLists) {
  EXPECT_EQ(to_json(v1::PodStatistics(), JsonStyle::pretty),
            "{\n  \"containers\": [],\n  \"volumes\": []\n}\n");
  EXPECT_NE(to_json(v1::Config(), JsonStyle::line).find(R"("evictionHard":{},)"),
            std::string::npos);
  EXPECT_EQ(to_json(v1::Limit(), JsonStyle::pretty), "{}\n");
}

TEST(Json, MapsAreSorted) {
  v1::Config config;
  for (const char* key : {"c", "a", "b"}) (*config.mutable_eviction_hard())[key] = "1";
  EXPECT_NE(to_json(config, JsonStyle::line).find(R"({"a":"1","b":"1","c":"1"})"),
            std::string::npos);
}

TEST(Json, FractionsReadBackExactly) {
  for (const float share : {0.05F, 0.1F, 1.0F / 3, 1e-30F, 2.5F}) {
    v1::Limit limit, back;
    limit.set_fraction(share);
    ASSERT_TRUE(messages::from_json(to_json(limit, JsonStyle::line), back).ok());
    EXPECT_EQ(back.fraction(), share);
  }
}

TEST(Json, ReadsBothItsOwnFormAndProtobufs) {
  const v1::Record record = messages::to_proto(sample_record());
  v1::Record back;
  ASSERT_TRUE(messages::from_json(to_json(record, JsonStyle::line), back).ok());
  EXPECT_EQ(back.SerializeAsString(), record.SerializeAsString());
  std::string canonical;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(record, &canonical).ok());
  const auto read = messages::from_json(canonical, back);
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(back.SerializeAsString(), record.SerializeAsString());
}

TEST(Json, RefusesUnknownFields) {
  v1::Observation message;
  for (const std::string_view bad : {"", "null", "[]", "{", R"({"atNs":"x"})", R"({"colour":1})",
                                     R"({"wake":{"source":"moon"}})", R"({"atNs":1} {"atNs":2})",
                                     R"({"atNs":9223372036854775808})"}) {
    EXPECT_FALSE(messages::from_json(bad, message).ok()) << bad;
  }
}

// Every log word is the word in JSON, for every enum value; except for rungs, whose log words are
// names of kernel files and calls.
template <typename Model>
void expect_words(const google::protobuf::EnumDescriptor& schema) {
  for (int i = 1; i < schema.value_count(); ++i) {
    EXPECT_EQ(schema.value(i)->number(), i) << schema.full_name();
    EXPECT_EQ(messages::enum_word(*schema.value(i)), to_string(static_cast<Model>(i - 1)))
        << schema.full_name();
  }
  EXPECT_TRUE(schema.value(0)->name().ends_with("_UNSPECIFIED")) << schema.full_name();
  // The next value of the model has no word, so the schema is complete.
  EXPECT_EQ(to_string(static_cast<Model>(schema.value_count() - 1)), "") << schema.full_name();
}

TEST(Json, WordsAreThoseOfTheModel) {
  expect_words<WakeSource>(*v1::Wake::Source_descriptor());
  expect_words<WorkloadKind>(*v1::Workload::Kind_descriptor());
  expect_words<Protection>(*v1::Workload::Protection_descriptor());
  expect_words<ReclaimState>(*v1::Observation::ReclaimState_descriptor());
  expect_words<ReclaimStep>(*v1::Decision::ReclaimStep_descriptor());
  expect_words<FilesystemLayout>(*v1::FilesystemSamples::Layout_descriptor());
  expect_words<KillState>(*v1::KillProgress::State_descriptor());
  expect_words<HookState>(*v1::HookProgress::State_descriptor());
  expect_words<RuleOutcome>(*v1::RulesetRun::Outcome_descriptor());
  expect_words<Action>(*v1::Decision::Action_descriptor());
  expect_words<Reason>(*v1::Decision::Reason_descriptor());
  expect_words<Exclusion>(*v1::Candidate::Exclusion_descriptor());
  expect_words<Unkillable>(*v1::ProcessSample::Unkillable_descriptor());
  expect_words<Constraint>(*v1::OomDomain::Constraint_descriptor());
  expect_words<OomVerdict>(*v1::OomPrediction::Verdict_descriptor());
  expect_words<Inaction>(*v1::OomKill::Inaction_descriptor());
  expect_words<FeatureState>(*v1::FeatureReport::State_descriptor());
  expect_words<Tier>(*v1::DoctorReport::Tier_descriptor());
}

TEST(Json, RungsAreInTheModelsOrder) {
  const auto& schema = *v1::Attempt::Rung_descriptor();
  EXPECT_EQ(to_string(static_cast<Rung>(schema.value_count() - 1)), "");
  EXPECT_EQ(v1::Attempt::VERIFY, static_cast<int>(Rung::verify) + 1);
  EXPECT_EQ(v1::Attempt::PIDFDS, static_cast<int>(Rung::pidfds) + 1);
  EXPECT_EQ(v1::Attempt::CGROUP_KILL, static_cast<int>(Rung::cgroup_kill) + 1);
  EXPECT_EQ(v1::Attempt::PIDFD_SIGKILL, static_cast<int>(Rung::sigkill) + 1);
  EXPECT_EQ(v1::Attempt::PROCESS_MRELEASE, static_cast<int>(Rung::mrelease) + 1);
  EXPECT_EQ(v1::Attempt::PIDFD_SIGTERM, static_cast<int>(Rung::sigterm) + 1);
}

}  // namespace
}  // namespace forestall::test
