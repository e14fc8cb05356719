// SPDX-License-Identifier: Apache-2.0
// Metrics of what threads of their own report: memory QoS, and pressure of containers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "exports/metric_series.h"
#include "exports/metrics.h"

namespace forestall::exports {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(Metrics, ContainersUnderPressureAreCountedByCauseAndStage) {
  std::shared_ptr<ContainerPressureReport> report;
  Metrics::Recorders recorders;
  recorders.container_pressure = [&] { return report; };
  const Metrics metrics("1", Tier::files, recorders);
  EXPECT_THAT(series_of(metrics), Not(Contains(Key("forestall_container_pressure_watched"))));
  report = std::make_shared<ContainerPressureReport>();
  report->watched = 7;
  report->reclaimed = Bytes{4096};
  report->lifts = 3;
  report->restores = 2;
  report->pressed = {{"a", "/a", PressureStage::lift, PressureCause::own_limit, {}, {}, Bytes{1}},
                     {"b", "/b", PressureStage::none, PressureCause::node, {}, {}},
                     {"c", "/c", PressureStage::none, PressureCause::node, {}, {}}};
  const auto series = series_of(metrics);
  const auto pressed = [](const char* cause, const char* stage) {
    return fmt::format("forestall_container_pressure_containers{{cause=\"{}\",stage=\"{}\"}}",
                       cause, stage);
  };
  EXPECT_THAT(series, Contains(Pair(pressed("own-limit", "lift"), 1)));
  EXPECT_THAT(series, Contains(Pair(pressed("node", "none"), 2)));
  EXPECT_THAT(series, Contains(Pair(pressed("own-limit", "none"), 0)));
  EXPECT_THAT(series, Contains(Pair("forestall_container_pressure_lifted", 1)));
  EXPECT_THAT(series, Contains(Pair("forestall_container_pressure_watched", 7)));
  EXPECT_THAT(series, Contains(Pair("forestall_container_pressure_reclaimed_bytes_total", 4096)));
  EXPECT_THAT(series, Contains(Pair("forestall_container_pressure_lifts_total", 3)));
  EXPECT_THAT(series, Contains(Pair("forestall_container_pressure_restores_total", 2)));
}

TEST(Metrics, MemoryQosIsCountedByFileAndStateWhileItIsOn) {
  std::shared_ptr<MemoryQosReport> report;
  Metrics::Recorders recorders;
  recorders.memory_qos = [&] { return report; };
  const Metrics metrics("1", Tier::files, recorders);
  EXPECT_THAT(series_of(metrics), Not(Contains(Key("forestall_memory_qos_unknown_pods"))));
  report = std::make_shared<MemoryQosReport>();
  report->unknown_pods = 2;
  report->values = {{"a", "/a", MemoryQosFile::low, "0", 1, MemoryQosState::would_write},
                    {"b", "/b", MemoryQosFile::low, "0", 1, MemoryQosState::would_write},
                    {"b", "/b", MemoryQosFile::high, "max", 1, MemoryQosState::left, "kubelet"},
                    {"c", "/c", MemoryQosFile::high, "2", 1, MemoryQosState::lifted, "stalled"}};
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair("forestall_memory_qos_unknown_pods", 2)));
  const auto count = [&](const char* file, const char* state) {
    return series.at(
        fmt::format("forestall_memory_qos_values{{file=\"{}\",state=\"{}\"}}", file, state));
  };
  EXPECT_EQ(count("memory.low", "would-write"), 2);
  EXPECT_EQ(count("memory.high", "left"), 1);
  EXPECT_EQ(count("memory.high", "lifted"), 1);
  EXPECT_EQ(count("memory.min", "equal"), 0);
  EXPECT_THAT(series, Not(Contains(Key("forestall_memory_qos_rewrites_total"))));
  report->mode = MemoryQosMode::enforce;
  report->rewrites = 3;
  report->lifts = 5;
  EXPECT_THAT(series_of(metrics), Contains(Pair("forestall_memory_qos_rewrites_total", 3)));
  EXPECT_THAT(series_of(metrics), Contains(Pair("forestall_memory_qos_lifts_total", 5)));
}

}  // namespace
}  // namespace forestall::exports
