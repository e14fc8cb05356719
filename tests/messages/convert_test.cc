// SPDX-License-Identifier: Apache-2.0
// from_proto(to_proto(x)) == x for random values, through JSON and through the wire format; and how
// from_proto handles invalid and missing fields.
#include "messages/convert.h"

#include <gtest/gtest.h>

#include "messages/json.h"
#include "messages/random_model.h"
#include "messages/round_trip.h"

namespace forestall::test {
namespace {

TEST(RoundTrip, Observations) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_observation(dice), seed);
  }
}

TEST(RoundTrip, Decisions) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_decision(dice), seed);
  }
  expect_round_trip(Decision{}, 0);
}

TEST(RoundTrip, Records) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_record(dice), seed);
  }
  expect_round_trip(Record{}, 0);
}

TEST(RoundTrip, Pods) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_pod(dice), seed);
  }
}

TEST(RoundTrip, WhatTheOomKillerReads) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_process(dice), seed);
    expect_round_trip(random_scene(dice), seed);
    expect_round_trip(random_prediction(dice), seed);
    expect_round_trip(random_oom_kill(dice), seed);
  }
  expect_round_trip(ProcessSample{}, 0);
  expect_round_trip(OomScene{}, 0);
  expect_round_trip(OomPrediction{}, 0);
  expect_round_trip(OomKill{}, 0);
}

// Absent and zero, unread and none: each is preserved.
TEST(RoundTrip, AbsentIsNotZero) {
  Observation observation;
  EXPECT_FALSE(messages::from_proto(messages::to_proto(observation))->workloads.has_value());
  observation.workloads.emplace();
  EXPECT_TRUE(messages::from_proto(messages::to_proto(observation))->workloads.has_value());
  observation.node.usage = Bytes{0};
  EXPECT_EQ(messages::from_proto(messages::to_proto(observation))->node.usage, Bytes{0});
}

std::string refusal(std::string_view json) {
  v1::Observation message;
  const auto read = messages::from_json(json, message);
  if (!read) return "JSON: " + read.error().text();
  const auto converted = messages::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenObservations) {
  EXPECT_EQ(refusal(R"({"atNs":1})"), "accepted");
  EXPECT_EQ(refusal("{}"), "atNs: missing");
  EXPECT_EQ(refusal(R"({"atNs":1,"wake":{"source":99}})"), "wake: source: unknown value 99");
  EXPECT_EQ(refusal(R"({"atNs":1,"wake":{"source":-3}})"), "wake: source: unknown value -3");
  EXPECT_EQ(refusal(R"({"atNs":1,"workloadsRead":false,"workloads":[{}]})"),
            "workloads: present, although workloadsRead is false");
  EXPECT_EQ(refusal(R"({"atNs":1,"workloads":[{}]})"), "workloads[0]: workload: missing");
  EXPECT_EQ(refusal(R"({"atNs":1,"workloads":[{"workload":{}},{"workload":{"pod":
                        {"containers":[{"requests":{"memory":"1 Mi"}}]}}}]})"),
            "workloads[1]: workload: pod: containers[0]: requests: memory: '1 Mi': quantities must "
            "match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
  EXPECT_EQ(refusal(R"({"atNs":1,"workloads":[{"workload":{"pod":{"statusQos":"x"}}}]})"),
            "workloads[0]: workload: pod: statusQos: unknown 'x'");
  EXPECT_EQ(refusal(R"({"atNs":1,"kills":[{"path":"/a","state":77}]})"),
            "kills[0]: state: unknown value 77");
  EXPECT_EQ(refusal(R"({"atNs":1,"workloads":[{"workload":{},"scored":false,"badness":{}}]})"),
            "workloads[0]: badness: present, although scored is false");
  EXPECT_EQ(refusal(R"({"atNs":1,"reclaim":9})"), "reclaim: unknown value 9");
  EXPECT_EQ(refusal(R"({"atNs":1,"filesystems":{"layout":9}})"),
            "filesystems: layout: unknown value 9");
}

template <typename Message>
std::string refusal_of(std::string_view json) {
  Message message;
  const auto read = messages::from_json(json, message);
  if (!read) return "JSON: " + read.error().text();
  const auto converted = messages::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenScenes) {
  EXPECT_EQ(refusal_of<v1::OomScene>(R"({"cgroups":[{},{"parent":0}],"processes":[{}]})"),
            "accepted");
  EXPECT_EQ(refusal_of<v1::OomScene>(R"({"cgroups":[{},{"parent":1}]})"),
            "cgroups[1]: parent: 1 is not a preceding cgroup");
  EXPECT_EQ(refusal_of<v1::OomScene>(R"({"domain":{"constraint":9}})"),
            "domain: constraint: unknown value 9");
  EXPECT_EQ(refusal_of<v1::OomScene>(R"({"processes":[{"unkillable":9}]})"),
            "processes[0]: unkillable: unknown value 9");
  EXPECT_EQ(refusal_of<v1::OomPrediction>("{}"), "verdict: unspecified");
  EXPECT_EQ(refusal_of<v1::OomKill>("{}"), "inaction: unspecified");
  EXPECT_EQ(refusal_of<v1::OomKill>(R"({"inaction":"ours","forecast":{"verdict":8}})"),
            "forecast: verdict: unknown value 8");
  EXPECT_EQ(refusal_of<v1::OomKill>(R"({"inaction":"ours","event":{"constraint":8}})"),
            "event: constraint: unknown value 8");
}

// Names have at most 15 bytes in the kernel and are cut between characters.
TEST(FromProto, CutsNames) {
  v1::ProcessSample message;
  const auto name = [&](const std::string& text) {
    message.set_name(text);
    return std::string(messages::from_proto(message)->name());
  };
  EXPECT_EQ(name("kworker/u8:3-ev"), "kworker/u8:3-ev");
  EXPECT_EQ(name("kworker/u8:3-events"), "kworker/u8:3-ev");
  EXPECT_EQ(name("12345678901234€"), "12345678901234");
}

std::string decision_refusal(const v1::Decision& message) {
  const auto converted = messages::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenDecisions) {
  v1::Decision good = messages::to_proto(Decision{});
  good.add_considered()->mutable_sample()->mutable_workload();
  good.add_evictions();
  good.set_victim(0);
  EXPECT_EQ(decision_refusal(good), "accepted");
  v1::Decision bad = good;
  bad.set_victim(1);
  EXPECT_EQ(decision_refusal(bad), "victim: is not the candidate of the first eviction");
  bad = good;
  bad.set_driving(0);
  EXPECT_EQ(decision_refusal(bad), "driving: there is no evidence[0]");
  bad = good;
  bad.add_evictions()->set_candidate(1);
  EXPECT_EQ(decision_refusal(bad), "evictions[1]: candidate: there is no considered[1]");
  bad = good;
  bad.mutable_evictions(0)->set_cause("hunger");
  EXPECT_EQ(decision_refusal(bad), "evictions[0]: cause: unknown 'hunger'");
  bad = good;
  bad.add_conditions()->set_type("MemoryPressure");
  EXPECT_EQ(decision_refusal(bad), "conditions: 'MemoryPressure' twice");
  bad = good;
  bad.add_conditions()->set_type("Ready");
  EXPECT_EQ(decision_refusal(bad), "conditions: unknown 'Ready'");
  bad = good;
  bad.clear_action();
  EXPECT_EQ(decision_refusal(bad), "action: unspecified");
  bad = good;
  bad.add_node_reclaim(v1::Decision::RECLAIM_STEP_UNSPECIFIED);
  EXPECT_EQ(decision_refusal(bad), "nodeReclaim: unspecified");
}

Observation observed(std::string_view json) {
  v1::Observation message;
  const auto read = messages::from_json(json, message);
  EXPECT_TRUE(read.ok()) << read.error().text();
  const auto observation = messages::from_proto(message);
  EXPECT_TRUE(observation.ok()) << observation.error().text();
  return observation.ok() ? *observation : Observation{};
}

// The default of each optional field.
TEST(FromProto, ObservationsByHandMayBeShort) {
  const Observation bare = observed(R"({"atNs":7})");
  EXPECT_EQ(bare.wake, (Wake{WakeSource::recheck, from_ns(7), {}, {}}));
  EXPECT_FALSE(bare.workloads.has_value());
  EXPECT_FALSE(bare.disk_usage_read);
  EXPECT_EQ(bare.reclaim, ReclaimState::unavailable);
  EXPECT_EQ(bare.filesystems.layout, std::nullopt);

  EXPECT_TRUE(observed(R"({"atNs":7,"workloadsRead":true})").workloads->empty());

  const Observation some = observed(R"({"atNs":7,"pods":{"path":"/kubepods.slice"},"workloads":[
      {"workload":{"path":"/batch.slice/job"}},
      {"workload":{"podUid":"u-1"}},
      {"workload":{"pod":{"uid":"u-2","name":"web"}},"statistics":{}}],
      "kills":[{"path":"/batch.slice/job"}]})");
  ASSERT_EQ(some.workloads->size(), 3);
  const Workload& job = (*some.workloads)[0].workload;
  EXPECT_EQ(job.kind, WorkloadKind::cgroup);
  EXPECT_EQ(job.name, "job");
  EXPECT_EQ(job.protection, Protection::none);
  EXPECT_EQ(some.kills[0].cgroup, job.cgroup);
  EXPECT_EQ(some.kills[0].state, KillState::in_flight);
  EXPECT_EQ(some.kills[0].started, some.at);
  const Workload& by_uid = (*some.workloads)[1].workload;
  EXPECT_EQ(by_uid.kind, WorkloadKind::pod);
  EXPECT_EQ(by_uid.path, "/kubepods.slice/podu-1");
  EXPECT_EQ(by_uid.name, "podu-1");
  EXPECT_NE(by_uid.cgroup, job.cgroup);
  EXPECT_NE(by_uid.cgroup, CgroupId{});
  const Workload& known = (*some.workloads)[2].workload;
  EXPECT_EQ(known.kind, WorkloadKind::pod);
  EXPECT_EQ(known.name, "web");
  EXPECT_EQ(known.pod_uid, "u-2");
  EXPECT_TRUE(some.disk_usage_read);
}

TEST(ToProto, KeepsWhatCannotBeUtf8Readable) {
  Observation observation;
  observation.notes.push_back({"/a\xff", "x"});
  const v1::Observation message = messages::to_proto(observation);
  EXPECT_EQ(message.notes(0).subject(), "/a\xef\xbf\xbd");
}

TEST(ToProto, FeatureReport) {
  const auto message =
      messages::to_proto(FeatureReport{Feature::psi_trigger, FeatureState::refused, "open: EPERM"});
  EXPECT_EQ(messages::to_json(message, messages::JsonStyle::line),
            R"({"feature":"psi-trigger","state":"refused","evidence":"open: EPERM"})");
  EXPECT_EQ(messages::to_proto(Tier::files), v1::DoctorReport::FILES);
}

}  // namespace
}  // namespace forestall::test
