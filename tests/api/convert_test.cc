// SPDX-License-Identifier: Apache-2.0
// from_proto(to_proto(x)) == x for observations and configurations made at random, through JSON
// and through the wire format; and what from_proto refuses.
#include "api/convert.h"

#include <gtest/gtest.h>

#include <random>

#include "api/config_file.h"
#include "api/json.h"

namespace forestall::test {
namespace {

// Random values, the special ones often: zero, the ends of the range, absent.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  std::int64_t integer() {
    static constexpr std::int64_t kSpecial[] = {0, 1, -1, INT64_MAX, INT64_MIN};
    return coin() ? kSpecial[below(5)] : static_cast<std::int64_t>(random_());
  }
  std::int32_t small() { return static_cast<std::int32_t>(random_()); }
  Bytes bytes() { return {integer()}; }
  MonotonicTime time() { return from_ns(integer()); }
  std::string text() {
    static const std::string kSpecial[] = {"",    "/",        "a b",
                                           "é€𝄞", "\"\\\n\t", std::string("\0x", 2)};
    return coin() ? kSpecial[below(6)] : "/s" + std::to_string(random_());
  }
  template <typename Enum>
  Enum one_of(int count) {
    return static_cast<Enum>(below(static_cast<std::uint64_t>(count)));
  }
  template <typename Make>
  auto maybe(Make make) -> std::optional<decltype(make())> {
    return coin() ? std::optional(make()) : std::nullopt;
  }
  template <typename Make>
  auto some(Make make) -> std::vector<decltype(make())> {
    std::vector<decltype(make())> list(below(4));
    for (auto& item : list) item = make();
    return list;
  }

 private:
  std::mt19937_64 random_;
};

WorkloadSample random_workload(Dice& dice) {
  WorkloadSample sample;
  sample.workload.cgroup.inode = static_cast<std::uint64_t>(dice.integer());
  sample.workload.path = dice.text();
  sample.workload.kind = dice.one_of<WorkloadKind>(v1::Workload::Kind_MAX);
  sample.workload.name = dice.text();
  sample.workload.pod_uid = dice.maybe([&] { return dice.text(); });
  sample.workload.priority = dice.maybe([&] { return dice.small(); });
  sample.workload.memory_request = dice.maybe([&] { return dice.bytes(); });
  sample.workload.protection = dice.one_of<Protection>(v1::Workload::Protection_MAX);
  sample.usage = dice.maybe([&] { return dice.bytes(); });
  sample.inactive_file = dice.maybe([&] { return dice.bytes(); });
  sample.processes = dice.maybe([&] { return static_cast<std::uint64_t>(dice.integer()); });
  return sample;
}

CgroupSample random_cgroup(Dice& dice) {
  CgroupSample sample;
  sample.id.inode = static_cast<std::uint64_t>(dice.integer());
  sample.path = dice.text();
  sample.usage = dice.maybe([&] { return dice.bytes(); });
  sample.inactive_file = dice.maybe([&] { return dice.bytes(); });
  sample.limit = dice.maybe([&] { return dice.bytes(); });
  sample.threshold = dice.below(1000);
  return sample;
}

Observation random_observation(Dice& dice) {
  Observation observation;
  observation.at = dice.time();
  observation.wake.source = dice.one_of<WakeSource>(v1::Wake::Source_MAX);
  observation.wake.at = dice.time();
  observation.wake.cgroup = dice.maybe([&] { return CgroupId{dice.below(UINT64_MAX)}; });
  observation.wake.usage = dice.maybe([&] { return dice.bytes(); });
  observation.node.capacity = dice.maybe([&] { return dice.bytes(); });
  observation.node.usage = dice.maybe([&] { return dice.bytes(); });
  observation.node.inactive_file = dice.maybe([&] { return dice.bytes(); });
  observation.node.kernel_available = dice.maybe([&] { return dice.bytes(); });
  observation.node.swap_total = dice.maybe([&] { return dice.bytes(); });
  observation.node.swap_free = dice.maybe([&] { return dice.bytes(); });
  observation.pods = dice.maybe([&] { return random_cgroup(dice); });
  observation.watched = dice.some([&] { return random_cgroup(dice); });
  observation.workloads =
      dice.maybe([&] { return dice.some([&] { return random_workload(dice); }); });
  observation.kills = dice.some([&] {
    return KillProgress{CgroupId{dice.below(UINT64_MAX)}, dice.text(),
                        dice.one_of<KillState>(v1::KillProgress::State_MAX), dice.time(),
                        dice.bytes()};
  });
  observation.notes = dice.some([&] { return SourceNote{dice.text(), dice.text()}; });
  return observation;
}

Limit random_limit(Dice& dice) {
  if (dice.coin()) return Limit::bytes(dice.bytes());
  return Limit::share(static_cast<float>(dice.below(1'000'000)) / 999'983);
}

Config random_config(Dice& dice) {
  Config config;
  config.dry_run = dice.coin();
  config.thresholds = dice.some([&] {
    Threshold threshold;
    threshold.signal = kSignals[dice.below(kSignals.size())];
    if (threshold.signal == Signal::cgroup_memory_available) threshold.cgroup = dice.text();
    threshold.limit = random_limit(dice);
    threshold.grace = Duration(dice.integer());
    threshold.min_reclaim = dice.maybe([&] { return random_limit(dice); });
    threshold.capacity = dice.maybe([&] { return dice.bytes(); });
    threshold.tune = dice.coin();
    return threshold;
  });
  config.pods = dice.coin();
  config.cgroup_root = dice.text();
  config.workloads = dice.some([&] {
    return WorkloadRule{dice.text(), dice.maybe([&] { return dice.text(); }),
                        dice.maybe([&] { return dice.small(); }),
                        dice.maybe([&] { return dice.bytes(); }), dice.coin()};
  });
  config.pod_rules = dice.some([&] {
    return PodRule{dice.text(), dice.maybe([&] { return dice.text(); }),
                   dice.maybe([&] { return dice.small(); }),
                   dice.maybe([&] { return dice.bytes(); }), dice.coin()};
  });
  config.disabled = FeatureSet(dice.below(1ULL << kFeatureCount));
  config.release_timeout = Duration(dice.integer());
  config.recheck_interval = Duration(dice.integer());
  return config;
}

template <typename Model>
void expect_round_trip(const Model& model, std::uint32_t seed) {
  const auto message = api::to_proto(model);
  const auto direct = api::from_proto(message);
  ASSERT_TRUE(direct.ok()) << direct.error().text();
  ASSERT_EQ(*direct, model) << "seed " << seed;

  auto read = message;
  const std::string json = api::to_json(message, api::JsonStyle::line);
  const auto parsed = api::from_json(json, read);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text() << "\n" << json;
  ASSERT_EQ(*api::from_proto(read), model) << "seed " << seed << "\n" << json;
  ASSERT_EQ(api::to_json(read, api::JsonStyle::line), json);

  ASSERT_TRUE(read.ParseFromString(message.SerializeAsString()));
  ASSERT_EQ(*api::from_proto(read), model) << "seed " << seed;
}

TEST(RoundTrip, Observations) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_observation(dice), seed);
  }
}

TEST(RoundTrip, Configs) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_config(dice), seed);
  }
  expect_round_trip(api::built_in_config(), 0);
}

// Nothing and zero, not read and none: each comes back as what it was.
TEST(RoundTrip, AbsentIsNotZero) {
  Observation observation;
  EXPECT_FALSE(api::from_proto(api::to_proto(observation))->workloads.has_value());
  observation.workloads.emplace();
  EXPECT_TRUE(api::from_proto(api::to_proto(observation))->workloads.has_value());
  observation.node.usage = Bytes{0};
  EXPECT_EQ(api::from_proto(api::to_proto(observation))->node.usage, Bytes{0});
}

std::string refusal(std::string_view json) {
  v1::Observation message;
  const auto read = api::from_json(json, message);
  if (!read) return "JSON: " + read.error().text();
  const auto converted = api::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenObservations) {
  EXPECT_EQ(refusal(R"({"wake":{"source":"poll"}})"), "accepted");
  EXPECT_EQ(refusal("{}"), "wake: missing");
  EXPECT_EQ(refusal(R"({"wake":{}})"), "wake: source: unspecified");
  EXPECT_EQ(refusal(R"({"wake":{"source":99}})"), "wake: source: unknown value 99");
  EXPECT_EQ(refusal(R"({"wake":{"source":-3}})"), "wake: source: unknown value -3");
  EXPECT_EQ(refusal(R"({"wake":{"source":"poll"},"workloads":[{}]})"),
            "workloads: present, although workloadsRead is false");
  EXPECT_EQ(refusal(R"({"wake":{"source":"poll"},"workloadsRead":true,"workloads":[{}]})"),
            "workloads[0]: workload: missing");
  EXPECT_EQ(refusal(R"({"wake":{"source":"poll"},"workloadsRead":true,"workloads":[
                        {"workload":{"kind":"pod","protection":"none"}},
                        {"workload":{"kind":"pod"}}]})"),
            "workloads[1]: workload: protection: unspecified");
  EXPECT_EQ(refusal(R"({"wake":{"source":"poll"},"kills":[{"path":"/a"}]})"),
            "kills[0]: state: unspecified");
}

std::string config_refusal(std::string_view json) {
  v1::EffectiveConfig message;
  const auto read = api::from_json(json, message);
  if (!read) return "JSON: " + read.error().text();
  const auto converted = api::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenConfigs) {
  EXPECT_EQ(config_refusal("{}"), "accepted");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"x"}]})"),
            "thresholds[0]: signal: unknown 'x'");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"memory.available"}]})"),
            "thresholds[0]: limit: neither bytes nor fraction");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"cgroupMemory.available"}]})"),
            "thresholds[0]: cgroup: must be set exactly when the signal is cgroupMemory.available");
  EXPECT_EQ(config_refusal(
                R"({"thresholds":[{"signal":"memory.available","limit":{"bytes":1},
                    "minimumReclaim":{}}]})"),
            "thresholds[0]: minimumReclaim: neither bytes nor fraction");
  EXPECT_EQ(config_refusal(R"({"disableFeatures":["x"]})"), "disableFeatures: unknown 'x'");
}

TEST(ToProto, KeepsWhatCannotBeUtf8Readable) {
  Observation observation;
  observation.notes.push_back({"/a\xff", "x"});
  const v1::Observation message = api::to_proto(observation);
  EXPECT_EQ(message.notes(0).subject(), "/a\xef\xbf\xbd");
}

TEST(ToProto, FeatureReport) {
  const auto message =
      api::to_proto(FeatureReport{Feature::psi_trigger, FeatureState::refused, "open: EPERM"});
  EXPECT_EQ(api::to_json(message, api::JsonStyle::line),
            R"({"feature":"psi-trigger","state":"refused","evidence":"open: EPERM"})");
  EXPECT_EQ(api::to_proto(Tier::files), v1::DoctorReport::FILES);
}

}  // namespace
}  // namespace forestall::test
