// SPDX-License-Identifier: Apache-2.0
// What is counted, and its text, which the test parses line by line, as Prometheus does.
#include "exports/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "exports/metric_series.h"
#include "support/manual_clock.h"

namespace forestall::exports {
namespace {

using testing::Contains;
using testing::Ge;
using testing::Key;
using testing::Not;
using testing::Pair;

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
  record.outcome->left_behind = LeftBehind{mib(2), {}};
  return record;
}

Evidence amount(Signal signal, const std::string& subject, std::int64_t available) {
  Evidence evidence;
  evidence.threshold.signal = signal;
  evidence.subject = subject;
  evidence.available = available;
  return evidence;
}

void evaluate(Metrics& metrics, const Decision& decision, MonotonicTime next = {}) {
  Observation observation;
  observation.wake.source = WakeSource::charge;
  metrics.evaluated({observation, decision, next});
  Record record;
  record.observation = observation;
  metrics.passed({Config(), 0, PolicyState(), record});
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
  EXPECT_THAT(series, Contains(Pair("forestall_left_behind_bytes_total", 0)));
  EXPECT_THAT(series, Contains(Key("process_resident_memory_bytes")));
  EXPECT_GT(series.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(series.at("process_open_fds"), 2);
  EXPECT_GT(series.at("process_start_time_seconds"), 1.6e9);
  EXPECT_LT(series.size(), 250U);
}

TEST(Metrics, OnlyCombinationsThatCanOccurAreExported) {
  Metrics metrics("1", Tier::full);
  const char* const impossible = R"(forestall_decisions_total{action="inspect",reason="in-grace"})";
  auto series = series_of(metrics);
  for (const char* each :
       {impossible, R"(forestall_decisions_total{action="kill",reason="no-threshold-met"})",
        R"(forestall_decisions_total{action="none",reason="guard-shot"})",
        R"(forestall_kills_total{state="in-flight"})",
        R"(forestall_dry_run_kills_total{state="stuck"})",
        R"(forestall_kernel_oom_kills_total{constraint="cpuset",inaction="too-fast",)"
        R"(predicted="right"})",
        R"(forestall_kernel_oom_kills_total{constraint="none",inaction="warn-only",)"
        R"(predicted="none"})",
        R"(forestall_workload_kills_total{class="unknown"})"}) {
    EXPECT_THAT(series, Not(Contains(Key(each))));
  }
  for (const char* each :
       {R"(forestall_decisions_total{action="reclaim",reason="node-reclaim"})",
        R"(forestall_decisions_total{action="none",reason="node-reclaim"})",
        R"(forestall_decisions_total{action="inspect",reason="workloads-unread"})",
        R"(forestall_dry_run_kills_total{state="in-flight"})",
        R"(forestall_kernel_oom_kills_total{constraint="memcg",inaction="warn-only",)"
        R"(predicted="wrong"})"}) {
    EXPECT_THAT(series, Contains(Pair(each, 0)));
  }
  const auto expect_count = [&](std::string_view family, std::ptrdiff_t count) {
    const auto found = std::ranges::count_if(
        series, [&](const auto& each) { return each.first.starts_with(family); });
    EXPECT_EQ(found, count) << family;
  };
  expect_count("forestall_decisions_total", 25);
  expect_count("forestall_kills_total", 3);
  expect_count("forestall_dry_run_kills_total", 2);
  expect_count("forestall_kernel_oom_kills_total", 103);
  // Whatever was counted is exported.
  metrics.write(decided(Action::inspect, Reason::in_grace));
  series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(impossible, 1)));
}

TEST(Metrics, CountsVictimsByClassAndNotByName) {
  Metrics metrics("1", Tier::full);
  const auto kill = [&](const char* path, KillState state = KillState::released) {
    Record record = ended(state, WorkloadKind::cgroup);
    record.outcome->victim.path = path;
    metrics.write(record);
  };
  const auto kernel_kill = [&](const char* path) {
    Record record = decided(Action::none, Reason::no_threshold_met);
    record.oom_kill.emplace().event.path = path;
    metrics.write(record);
  };
  kill("/kubepods/pod1");
  kill("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice");
  kill("/system.slice/db.service");
  kill("/batch/tenant-1");
  kill("/batch/tenant-2", KillState::stuck);
  kill("/batch/tenant-2");  // the same kill: its memory came back after all
  kill("/batch/tenant-3", KillState::failed);
  kernel_kill("/kubepods/besteffort/pod1/c");
  kernel_kill("/system.slicer/x");
  kernel_kill("");
  const std::string text = metrics.text();
  const auto series = series_of(text);
  const auto expect = [&](const char* name, const char* of, double count) {
    const auto key = std::string(name) + "{class=\"" + of + "\"}";
    EXPECT_THAT(series, Contains(Pair(key, count)));
  };
  const char* const kills = "forestall_workload_kills_total";
  const char* const kernel_kills = "forestall_workload_kernel_oom_kills_total";
  expect(kills, "guaranteed", 1);
  expect(kills, "burstable", 1);
  expect(kills, "best-effort", 0);
  expect(kills, "system-service", 1);
  expect(kills, "other", 2);
  expect(kernel_kills, "best-effort", 1);
  expect(kernel_kills, "system-service", 0);
  expect(kernel_kills, "other", 1);
  expect(kernel_kills, "unknown", 1);
  EXPECT_EQ(text.find("tenant"), std::string::npos);
}

TEST(Metrics, AReloadIsReportedWithItsTime) {
  const auto now = [] {
    const auto time = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(time).count();
  };
  const char* const well = "forestall_config_last_reload_successful";
  const char* const at = "forestall_config_last_reload_timestamp_seconds";
  const double before = now();
  Metrics metrics("1", Tier::full);
  const auto at_start = series_of(metrics);
  EXPECT_THAT(at_start, Contains(Pair(well, 1)));
  // The text has six decimals.
  EXPECT_GE(at_start.at(at), before - 1e-3);
  EXPECT_LE(at_start.at(at), now() + 1e-3);
  const double again = now();
  metrics.record_reload(false);
  const auto after = series_of(metrics);
  EXPECT_THAT(after, Contains(Pair(well, 0)));
  EXPECT_GE(after.at(at), again - 1e-3);
  metrics.record_reload(true);
  EXPECT_THAT(series_of(metrics), Contains(Pair(well, 1)));
}

// As `promtool check metrics` demands.
TEST(Metrics, NamesHaveAPrefixAUnitAndTheirTypesSuffix) {
  Metrics metrics("1", Tier::full);
  Decision decision;
  decision.evidence = {amount(Signal::memory_available, "node", 1),
                       amount(Signal::nodefs_inodes_free, "node", 1),
                       amount(Signal::pid_available, "node", 1)};
  evaluate(metrics, decision);
  std::istringstream lines(metrics.text());
  std::size_t names = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      EXPECT_THAT(line, testing::MatchesRegex("# HELP [a-z_]+ [A-Z][^\n]+")) << line;
    }
    if (!line.starts_with("# TYPE ")) continue;
    ++names;
    const bool counter = line.ends_with(" counter");
    const auto name = line.substr(7, line.rfind(' ') - 7);
    EXPECT_THAT(name, testing::MatchesRegex("(forestall|process|kubelet)_[a-z_]+"));
    // The kubelet's own name has no suffix.
    EXPECT_EQ(counter, name.ends_with("_total") || name == "kubelet_evictions") << line;
    EXPECT_THAT(name, Not(testing::HasSubstr("milli")));
  }
  EXPECT_GT(names, 20U);
}

TEST(Metrics, CountsDecisionsAndEvaluations) {
  Metrics metrics("1", Tier::full);
  metrics.write(decided(Action::none, Reason::in_grace));
  metrics.write(decided(Action::none, Reason::in_grace));
  evaluate(metrics, Decision());
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_decisions_total{action="none",reason="in-grace"})", 2)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_evaluations_total{wake="charge"})", 1)));
}

TEST(Metrics, CountsAPodOnceThatWasStuckFirst) {
  Metrics metrics("1", Tier::full);
  metrics.write(ended(KillState::stuck));
  metrics.write(ended(KillState::released));
  metrics.write(ended(KillState::released));
  metrics.write(ended(KillState::released, WorkloadKind::cgroup));
  metrics.write(ended(KillState::failed));
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kills_total{state="released"})", 3)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kills_total{state="stuck"})", 1)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_kills_total{state="failed"})", 1)));
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="memory.available"})", 2)));
  EXPECT_THAT(series, Contains(Pair("forestall_freed_bytes_total", 3.0 * (3 << 20))));
  EXPECT_THAT(series, Contains(Pair("forestall_left_behind_bytes_total", 3.0 * (2 << 20))));
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

TEST(Metrics, ExportsTheReactionAsAHistogramOfItsOwn) {
  StageHistograms stages;
  const Metrics metrics("1", Tier::full, {&stages});
  stages.count(Stage::reaction, std::chrono::microseconds(900));
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair("forestall_crossing_to_signal_at_most_seconds_count", 1)));
  EXPECT_THAT(
      series,
      Contains(Pair(R"(forestall_crossing_to_signal_at_most_seconds_bucket{le="0.001"})", 1)));
  for (const auto& [name, count] : series) {
    EXPECT_EQ(name.find(R"(stage="reaction")"), std::string::npos) << name;
  }
}

TEST(Metrics, ExportsTheLoopsWork) {
  test::ManualClock clock;
  LoopWorkTally work(clock);
  const Metrics metrics("1", Tier::full, {nullptr, nullptr, nullptr, &work});
  work.begin(clock.now());
  clock.advance(std::chrono::milliseconds(250));
  {
    const LoopWorkScope kills(work, LoopWork::kill);
    clock.advance(std::chrono::milliseconds(500));
  }
  work.end();
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair("forestall_loop_longest_stretch_seconds", 0.75)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_loop_work_longest_seconds{work="kill"})", 0.5)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_loop_work_seconds_total{work="other"})", 0.25)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_loop_work_seconds_total{work="pin"})", 0)));
}

TEST(Metrics, ExportsLatePreparationsOfTheGuardsLists) {
  LoopCounts counts;
  const Metrics metrics("1", Tier::full, {.counts = &counts});
  EXPECT_THAT(series_of(metrics), Contains(Pair("forestall_guard_lists_preparation_seconds", 0)));
  counts.guard_lists_late = 2;
  counts.guard_lists_since_ns = to_ns(SystemClock().now() - std::chrono::seconds(5));
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair("forestall_guard_lists_late_total", 2)));
  EXPECT_THAT(series, Contains(Pair("forestall_guard_lists_preparation_seconds", Ge(5))));
}

TEST(Metrics, ADryRunCountsNoKillAndNoEviction) {
  Metrics metrics("1", Tier::full);
  Record record = ended(KillState::in_flight);
  record.outcome->dry_run = true;
  metrics.write(record);
  record.outcome->state = KillState::failed;
  metrics.write(record);
  const auto series = series_of(metrics);
  EXPECT_THAT(series, Contains(Pair(R"(forestall_dry_run_kills_total{state="in-flight"})", 1)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_dry_run_kills_total{state="failed"})", 1)));
  for (const auto& [name, count] : series) {
    if (name.starts_with("forestall_kills_total")) {
      EXPECT_EQ(count, 0) << name;
    }
  }
  EXPECT_THAT(series,
              Contains(Pair(R"(kubelet_evictions{eviction_signal="memory.available"})", 0)));
  EXPECT_THAT(series, Contains(Pair("forestall_freed_bytes_total", 0)));
}

TEST(Metrics, CountsTheKernelsKillsByPrediction) {
  Metrics metrics("1", Tier::full);
  Record record = decided(Action::kill, Reason::threshold_met);
  record.oom_kill.emplace().inaction = Inaction::dry_run;
  record.oom_kill->event.constraint = Constraint::memcg;
  record.oom_kill->forecast.emplace().right = true;
  metrics.write(record);
  record.oom_kill->forecast->right = false;
  record.oom_kill->event.constraint = std::nullopt;
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
  evaluate(metrics, decision);
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
  evaluate(metrics, Decision());
  series = series_of(metrics);
  EXPECT_THAT(series, Not(Contains(Key(testing::HasSubstr("forestall_signal_available")))));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_condition{type="MemoryPressure"})", 0)));
}

Evidence compared(const Threshold& threshold, std::int64_t available, std::int64_t seconds) {
  Evidence evidence = amount(threshold.signal, "node", available);
  evidence.threshold = threshold;
  evidence.limit = threshold.limit.of(0);
  evidence.capacity = gib(1).count;
  evidence.at = from_ns(0) + std::chrono::seconds(seconds);
  return evidence;
}

Threshold on_memory(Bytes limit, Duration grace = {}) {
  Threshold threshold;
  threshold.signal = Signal::memory_available;
  threshold.limit = Limit::bytes(limit);
  threshold.grace = grace;
  return threshold;
}

constexpr const char* kTime =
    R"(forestall_signal_time_to_threshold_seconds{kind="hard",signal="memory.available",)"
    R"(subject="node"})";

TEST(Metrics, ExportsEachThresholdWithItsHeadroom) {
  Metrics metrics("1", Tier::full);
  Threshold warning = on_memory(mib(300));
  warning.response = Response::warn;
  Decision decision;
  decision.evidence = {compared(on_memory(mib(100)), mib(250).count, 0),
                       compared(on_memory(mib(90)), mib(250).count, 0),
                       compared(on_memory(mib(200), std::chrono::minutes(1)), mib(250).count, 0),
                       compared(warning, mib(250).count, 0)};
  evaluate(metrics, decision);
  const auto series = series_of(metrics);
  const auto of = [](const char* name, const char* kind) {
    return std::string(name) + "{kind=\"" + kind + R"(",signal="memory.available",subject="node"})";
  };
  const auto threshold = "forestall_signal_threshold_bytes";
  const auto headroom = "forestall_signal_headroom_bytes";
  EXPECT_EQ(series.at(of(threshold, "hard")), mib(100).count);
  EXPECT_EQ(series.at(of(headroom, "hard")), mib(150).count);
  EXPECT_EQ(series.at(of(threshold, "soft")), mib(200).count);
  EXPECT_EQ(series.at(of(headroom, "soft")), mib(50).count);
  EXPECT_EQ(series.at(of(threshold, "warn")), mib(300).count);
  EXPECT_EQ(series.at(of(headroom, "warn")), -mib(50).count);
  EXPECT_EQ(series.at(R"(forestall_signal_capacity_bytes{signal="memory.available",)"
                      R"(subject="node"})"),
            gib(1).count);
}

TEST(Metrics, TheTimeToAThresholdNeedsGrowth) {
  Metrics metrics("1", Tier::full);
  const auto at = [&](std::int64_t seconds, Bytes available, Bytes pending = {}) {
    Decision decision;
    decision.evidence = {compared(on_memory(mib(100)), available.count, seconds)};
    decision.evidence.front().pending_release = pending.count;
    evaluate(metrics, decision);
    return series_of(metrics);
  };
  EXPECT_THAT(at(0, mib(500)), Not(Contains(Key(kTime)))) << "one reading has no growth";
  EXPECT_THAT(at(10, mib(500)), Not(Contains(Key(kTime)))) << "no growth";
  EXPECT_THAT(at(20, mib(400)), Contains(Pair(kTime, 300 / 5.0)));
  EXPECT_THAT(at(30, mib(200)), Contains(Pair(kTime, 100 / 10.0)));
  EXPECT_THAT(at(40, mib(99)), Contains(Pair(kTime, 0))) << "below the threshold";
  EXPECT_THAT(at(41, mib(150), mib(200)), Not(Contains(Key(kTime)))) << "memory is being released";
  EXPECT_THAT(at(42, mib(600)), Not(Contains(Key(kTime)))) << "the first reading after a kill";
  EXPECT_THAT(at(52, mib(700)), Not(Contains(Key(kTime)))) << "falling usage";
  EXPECT_THAT(at(112, mib(640)), Contains(Pair(kTime, 540.0))) << "readings at long intervals";
}

TEST(Metrics, AnotherCapacityOrAGapBeginsTheGrowthAgain) {
  Metrics metrics("1", Tier::full);
  const auto at = [&](std::int64_t seconds, Bytes available, Bytes capacity) {
    Decision decision;
    decision.evidence = {compared(on_memory(mib(100)), available.count, seconds)};
    decision.evidence.front().capacity = capacity.count;
    evaluate(metrics, decision);
    return series_of(metrics);
  };
  EXPECT_THAT(at(0, mib(500), gib(1)), Not(Contains(Key(kTime))));
  EXPECT_THAT(at(10, mib(300), mib(800)), Not(Contains(Key(kTime)))) << "the limit was lowered";
  EXPECT_THAT(at(11, mib(290), mib(800)), Contains(Pair(kTime, 19.0)));
  evaluate(metrics, Decision());
  EXPECT_THAT(at(20, mib(200), mib(800)), Not(Contains(Key(kTime)))) << "it was not read between";
}

TEST(Metrics, SubjectsAreBounded) {
  Metrics metrics("1", Tier::full);
  Decision decision;
  for (std::size_t i = 0; i < Metrics::kSubjectsMax + 5; ++i) {
    decision.evidence.push_back(
        amount(Signal::cgroup_memory_available, "/" + std::to_string(i), 1));
    decision.evidence.back().cgroup.inode = i + 1;
  }
  evaluate(metrics, decision);
  const auto series = series_of(metrics);
  const auto reported = std::ranges::count_if(series, [](const auto& each) {
    return each.first.starts_with("forestall_signal_available_bytes");
  });
  EXPECT_EQ(static_cast<std::size_t>(reported), Metrics::kSubjectsMax);
  EXPECT_THAT(series, Contains(Pair("forestall_signal_subjects_left_out", 5)));
}

TEST(Metrics, IsAliveWhileTheLoopKeepsItsWord) {
  Metrics metrics("1", Tier::full);
  const MonotonicTime next = from_ns(1'000'000'000'000);
  EXPECT_FALSE(metrics.alive(next));  // no evaluation yet
  evaluate(metrics, Decision(), next);
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
  constexpr int kEvaluations = 2000;
  for (int i = 0; i < kEvaluations; ++i) {
    decision.evidence.assign(static_cast<std::size_t>(i % 5),
                             amount(Signal::memory_available, std::string(64, 'x'), i));
    evaluate(metrics, decision);
    metrics.write(decided(Action::none, Reason::in_grace));
  }
  over = true;
  for (std::thread& each : readers) each.join();
  const auto series = series_of(metrics);
  EXPECT_THAT(series,
              Contains(Pair(R"(forestall_evaluations_total{wake="charge"})", kEvaluations)));
  EXPECT_THAT(series, Contains(Pair(R"(forestall_decisions_total{action="none",reason="in-grace"})",
                                    kEvaluations)));
}

}  // namespace
}  // namespace forestall::exports
