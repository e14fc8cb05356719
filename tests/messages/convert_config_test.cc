// SPDX-License-Identifier: Apache-2.0
// Effective configurations to messages and back; and what from_proto refuses.
#include <gtest/gtest.h>

#include "intake/config_file.h"
#include "messages/random_model.h"
#include "messages/round_trip.h"

namespace forestall::test {
namespace {

MemoryQosConfig random_memory_qos(Dice& dice) {
  MemoryQosConfig qos;
  qos.mode = dice.one_of<MemoryQosMode>(3);
  if (dice.coin()) qos.throttling_factor = 0.9;
  qos.reservation = dice.one_of<MemoryReservation>(2);
  qos.kubelet_reserves = dice.maybe([&] { return dice.coin(); });
  qos.kubelet_throttles = dice.maybe([&] { return dice.coin(); });
  qos.cgroups = dice.some([&] {
    return MemoryQosCgroup{dice.text(), dice.maybe([&] { return dice.bytes(); }),
                           dice.maybe([&] { return dice.bytes(); }),
                           dice.maybe([&] { return dice.bytes(); })};
  });
  return qos;
}

ContainerPressureConfig random_container_pressure(Dice& dice) {
  ContainerPressureConfig pressure;
  for (auto& threshold : pressure.rule.thresholds) threshold = dice.maybe([&] { return 0.5; });
  for (const PressureStage each : kPressureStages) {
    if (dice.coin()) pressure.rule.stages.insert(each);
  }
  pressure.rule.grace = Duration(dice.integer());
  pressure.rule.reclaim_time = Duration(dice.integer());
  pressure.rule.lift_time = Duration(dice.integer());
  pressure.rule.evict_time = Duration(dice.integer());
  pressure.rule.calm_time = Duration(dice.integer());
  pressure.enforces = dice.coin();
  pressure.cgroups = dice.some([&] { return dice.text(); });
  return pressure;
}

Config random_config(Dice& dice) {
  Config config;
  config.dry_run = dice.coin();
  config.thresholds = dice.some([&] { return random_threshold(dice); });
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
  config.ranking = dice.one_of<Ranking>(3);
  config.kill_limit = {Duration(dice.integer()),
                       dice.count(),
                       {dice.count(), dice.count(), dice.count(), dice.count()}};
  config.watched_cgroups_max = dice.maybe([&] { return dice.count(); });
  config.pod_list_max_age = Duration(dice.integer());
  config.metrics_address = dice.text();
  config.guard = dice.coin();
  config.guard_expiry = Duration(dice.integer());
  if (dice.coin()) config.api_pod_writers = {65532};
  config.compat.reclaim_must_clear_all = dice.coin();
  config.recording = dice.maybe([&] { return RecordingPlace{dice.text(), dice.bytes()}; });
  if (auto rules = dice.some([&] { return random_ruleset(dice); }); !rules.empty()) {
    config.rules = std::move(rules);
  }
  if (dice.coin()) config.memory_qos = random_memory_qos(dice);
  if (dice.coin()) config.container_pressure = random_container_pressure(dice);
  const auto texts = [&] { return dice.some([&] { return dice.text(); }); };
  config.pod_annotations = {texts(), texts(), texts()};
  if (auto hooks = dice.some([&] { return random_hook(dice); }); !hooks.empty()) {
    config.hooks = std::move(hooks);
  }
  return config;
}

TEST(RoundTrip, Configs) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    expect_round_trip(random_config(dice), seed);
  }
  expect_round_trip(intake::built_in_config(), 0);
}

TEST(RoundTrip, SwapThresholds) {
  Config config;
  Threshold threshold;
  threshold.signal = Signal::swap_available;
  threshold.limit = Limit::share(0.1F);
  threshold.min_reclaim = Limit::bytes(mib(64));
  config.thresholds = {threshold};
  expect_round_trip(config, 0);
  EXPECT_EQ(messages::to_proto(config).thresholds(0).signal(), "swap.available");
}

std::string config_refusal(std::string_view json) {
  v1::EffectiveConfig message;
  const auto read = messages::from_json(json, message);
  if (!read) return "JSON: " + read.error().text();
  const auto converted = messages::from_proto(message);
  return converted.ok() ? "accepted" : converted.error().text();
}

TEST(FromProto, RefusesBrokenConfigs) {
  EXPECT_EQ(
      config_refusal(messages::to_json(messages::to_proto(Config{}), messages::JsonStyle::line)),
      "accepted");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"x"}]})"),
            "thresholds[0]: signal: unknown 'x'");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"memory.available"}]})"),
            "thresholds[0]: limit: neither quantity nor fraction");
  EXPECT_EQ(config_refusal(R"({"thresholds":[{"signal":"cgroupMemory.available"}]})"),
            "thresholds[0]: cgroup: must be set exactly when the signal is cgroupMemory.available");
  EXPECT_EQ(config_refusal(
                R"({"thresholds":[{"signal":"memory.available","limit":{"quantity":"1"},
                    "minimumReclaim":{}}]})"),
            "thresholds[0]: minimumReclaim: neither quantity nor fraction");
  EXPECT_EQ(config_refusal(R"({"disableFeatures":["x"]})"), "disableFeatures: unknown 'x'");
  EXPECT_EQ(config_refusal(R"({"oomScoreAdj":"observe","ranking":"x"})"), "ranking: unknown 'x'");
}

}  // namespace
}  // namespace forestall::test
