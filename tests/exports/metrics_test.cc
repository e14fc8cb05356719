// SPDX-License-Identifier: Apache-2.0
// What is counted, and its text, which the test parses line by line, as Prometheus does.
#include "exports/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <sstream>
#include <thread>

namespace forestall::exports {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

// Every series with its value; fails on any line that is neither a series nor a comment.
std::map<std::string, double> series_of(const std::string& text) {
  std::map<std::string, double> series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    const auto blank = line.rfind(' ');
    EXPECT_NE(blank, std::string::npos) << line;
    if (blank == std::string::npos) continue;
    const auto [entry, fresh] =
        series.emplace(line.substr(0, blank), std::stod(line.substr(blank + 1)));
    EXPECT_TRUE(fresh) << "exported twice: " << line;
  }
  return series;
}

std::map<std::string, double> series_of(const Metrics& metrics) {
  return series_of(metrics.text());
}

Record decided(Action action, Reason reason) {
  Record record;
  record.decision.action = action;
  record.decision.reason = reason;
  return record;
}

Record ended(KillState state, WorkloadKind kind = WorkloadKind::pod) {
  Record record = decided(Action::kill, Reason::threshold_met);
  record.sequence = 7;
  record.decision.evictions.emplace_back().metric_signal = "memory.available";
  record.outcome.emplace();
  record.outcome->victim.kind = kind;
  record.outcome->state = state;
  record.outcome->freed = mib(3);
  return record;
}

Evidence amount(Signal signal, const std::string& subject, std::int64_t available) {
  Evidence evidence;
  evidence.threshold.signal = signal;
  evidence.subject = subject;
  evidence.available = available;
  return evidence;
}

void look(Metrics& metrics, const Decision& decision, MonotonicTime next = {}) {
  Observation observation;
  observation.wake.source = WakeSource::charge;
  metrics.looked({observation, decision, next});
}

TEST(Metrics, EverySeriesIsThereBeforeAnythingHappened) {
  const Metrics metrics("1.2.3", Tier::tracepoint);
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_build_info{tier="tracepoint",version="1.2.3"})", 1)));
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="memory.available"})", 0)));
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="emptydirfs.limit"})", 0)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kernel_oom_kills_total{constraint="memcg",)"
                                    R"(inaction="too-fast",predicted="right"})",
                                    0)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_condition{type="DiskPressure"})", 0)));
  EXPECT_THAT(series, Contains(Pair("forestall_freed_bytes_total", 0)));
  EXPECT_THAT(series, Contains(Key("process_resident_memory_bytes")));
  EXPECT_GT(series.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(series.at("process_open_fds"), 2);
  EXPECT_GT(series.at("process_start_time_seconds"), 1.6e9);
  EXPECT_LT(series.size(), 400U);
}

TEST(Metrics, CountsDecisionsAndEvaluations) {
  Metrics metrics("1", Tier::full);
  metrics.write(decided(Action::none, Reason::in_grace));
  metrics.write(decided(Action::none, Reason::in_grace));
  look(metrics, Decision());
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_decisions_total{action="none",reason="in-grace"})", 2)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_looks_total{wake="charge"})", 1)));
}

TEST(Metrics, CountsAPodOnceThatWasStuckFirst) {
  Metrics metrics("1", Tier::full);
  metrics.write(ended(KillState::stuck));
  metrics.write(ended(KillState::released));
  metrics.write(ended(KillState::released));
  metrics.write(ended(KillState::released, WorkloadKind::cgroup));
  metrics.write(ended(KillState::failed));
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_kills_total{dry_run="false",state="released"})", 3)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kills_total{dry_run="false",state="stuck"})", 1)));
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_kills_total{dry_run="false",state="failed"})", 1)));
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="memory.available"})", 2)));
  EXPECT_THAT(series, Contains(Pair("forestall_freed_bytes_total", 3.0 * (3 << 20))));
}

TEST(Metrics, ExportsStageHistogramsAndLosses) {
  StageHistograms stages;
  DropCounts drops;
  const Metrics metrics("1", Tier::full, {&stages, &drops});
  stages.count(Stage::signal, std::chrono::microseconds(150));
  stages.count(Stage::signal, std::chrono::seconds(20));
  const std::vector<BpfCounter> counters{{"agent", "dropped", "charge", true, 3},
                                         {"guard", "crossings", {}, false, 2}};
  drops.bpf.set(counters);
  drops.recording_entries = 5;
  const auto series = series_of(metrics);
  const auto bucket = [](const char* bound) {
    return std::string(R"(forestall_stage_duration_seconds_bucket{stage="signal",le=")") + bound +
           "\"}";
  };
  EXPECT_THAT(series, Contains(Pair(bucket("0.0001"), 0)));
  EXPECT_THAT(series, Contains(Pair(bucket("0.0002"), 1)));
  EXPECT_THAT(series, Contains(Pair(bucket("10"), 1)));
  EXPECT_THAT(series, Contains(Pair(bucket("+Inf"), 2)));
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_stage_duration_seconds_count{stage="signal"})", 2)));
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_stage_duration_seconds_count{stage="freed"})", 0)));
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_bpf_events_total{object="agent",counter="dropped",)"
                            R"(kind="charge"})",
                            3)));
  EXPECT_THAT(series, Contains(Pair(
                          R"(forestall_bpf_events_total{object="guard",counter="crossings"})", 2)));
  EXPECT_THAT(series, Contains(Pair("forestall_bpf_counter_read_errors_total", 0)));
  EXPECT_THAT(series, Contains(Pair("forestall_recording_entries_lost_total", 5)));
  EXPECT_THAT(series, Contains(Pair("forestall_log_lines_dropped_total", 0)));
}

TEST(Metrics, ADryRunCountsNoEviction) {
  Metrics metrics("1", Tier::full);
  Record record = ended(KillState::released);
  record.outcome->dry_run = true;
  metrics.write(record);
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_kills_total{dry_run="true",state="released"})", 1)));
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="memory.available"})", 0)));
  EXPECT_THAT(series, Contains(Pair("forestall_freed_bytes_total", 0)));
}

TEST(Metrics, CountsTheKernelsKillsByPrediction) {
  Metrics metrics("1", Tier::full);
  Record record = decided(Action::kill, Reason::threshold_met);
  record.oom_kill.emplace().inaction = Inaction::dry_run;
  record.oom_kill->sighting.constraint = Constraint::memcg;
  record.oom_kill->foresight.emplace().right = true;
  metrics.write(record);
  record.oom_kill->foresight->right = false;
  record.oom_kill->sighting.constraint = std::nullopt;
  metrics.write(record);
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kernel_oom_kills_total{constraint="memcg",)"
                                    R"(inaction="dry-run",predicted="right"})",
                                    1)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kernel_oom_kills_total{constraint="unknown",)"
                                    R"(inaction="dry-run",predicted="wrong"})",
                                    1)));
  // It is not a decision of the agent.
  EXPECT_THAT(
      series,
      Contains(Pair(R"(forestall_decisions_total{action="kill",reason="threshold-met"})", 0)));
}

TEST(Metrics, ExportsAmountsInTheUnitOfTheirSignal) {
  Metrics metrics("1", Tier::full);
  Decision decision;
  decision.conditions[0].status = true;
  decision.evidence = {amount(Signal::memory_available, "node", -4096),
                       amount(Signal::memory_available, "node", -4096),
                       amount(Signal::nodefs_inodes_free, "node", 17),
                       amount(Signal::pid_available, "node", 5),
                       amount(Signal::cgroup_memory_available, "/a \"b\"\\c\n\xff", 1)};
  look(metrics, decision);
  auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(R"(forestall_signal_available_bytes{signal="memory.available",)"
                                    R"(subject="node"})",
                                    -4096)));
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_signal_available_inodes{signal="nodefs.inodesFree",)"
                            R"(subject="node"})",
                            17)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_signal_available_processes{)"
                                    R"(signal="pid.available",subject="node"})",
                                    5)));
  // A cgroup's name may be any bytes, and need not be UTF-8.
  EXPECT_THAT(series, Contains(Pair(R"(forestall_signal_available_bytes{)"
                                    R"(signal="cgroupMemory.available",)"
                                    R"(subject="/a \"b\"\\c\\x0a\\xff"})",
                                    1)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_condition{type="MemoryPressure"})", 1)));
  look(metrics, Decision());
  series = series_of(metrics);
  EXPECT_THAT(series, Not(Contains(Key(testing::HasSubstr("forestall_signal_available")))));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_condition{type="MemoryPressure"})", 0)));
}

TEST(Metrics, SubjectsAreBounded) {
  Metrics metrics("1", Tier::full);
  Decision decision;
  for (std::size_t i = 0; i < Metrics::kSubjectsMax + 5; ++i) {
    decision.evidence.push_back(
        amount(Signal::cgroup_memory_available, "/" + std::to_string(i), 1));
  }
  look(metrics, decision);
  const auto series = series_of(metrics);
  const auto told = std::ranges::count_if(series, [](const auto& each) {
    return each.first.starts_with("forestall_signal_available_bytes");
  });
  EXPECT_EQ(static_cast<std::size_t>(told), Metrics::kSubjectsMax);
  EXPECT_THAT(series, Contains(Pair("forestall_signal_subjects_left_out", 5)));
}

TEST(Metrics, IsAliveWhileTheLoopKeepsItsWord) {
  Metrics metrics("1", Tier::full);
  const MonotonicTime next = from_ns(1'000'000'000'000);
  EXPECT_FALSE(metrics.alive(next));  // no evaluation yet
  look(metrics, Decision(), next);
  EXPECT_TRUE(metrics.alive(next));
  EXPECT_TRUE(metrics.alive(next + Metrics::kSlack));
  EXPECT_FALSE(metrics.alive(next + Metrics::kSlack + Duration(1)));
}

// Readers while the loop counts, for TSan. Every text is complete, and the last one has everything.
TEST(Metrics, AreReadWhileTheyAreCounted) {
  Metrics metrics("1", Tier::full);
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!over) EXPECT_THAT(series_of(metrics), Contains(Key("forestall_freed_bytes_total")));
    });
  }
  Decision decision;
  constexpr int kLooks = 2000;
  for (int i = 0; i < kLooks; ++i) {
    decision.evidence.assign(static_cast<std::size_t>(i % 5),
                             amount(Signal::memory_available, std::string(64, 'x'), i));
    look(metrics, decision);
    metrics.write(decided(Action::none, Reason::in_grace));
  }
  over = true;
  for (std::thread& each : readers) each.join();
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(R"(forestall_looks_total{wake="charge"})", kLooks)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_decisions_total{action="none",reason="in-grace"})",
                                    kLooks)));
}

}  // namespace
}  // namespace forestall::exports
