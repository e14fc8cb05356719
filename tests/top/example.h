// SPDX-License-Identifier: Apache-2.0
// A made-up node: 16 GiB, a hard and a soft threshold, and any number of workloads.
#pragma once

#include <string>
#include <vector>

#include "forestall/internal/top.pb.h"
#include "top/draw.h"

namespace forestall::test {

inline constexpr std::int64_t kMib = 1 << 20;
inline constexpr std::int64_t kSecondNs = 1'000'000'000;

// Available on the node: above the warning line, between the soft and the hard threshold, or under
// it.
inline constexpr std::int64_t kCalm = 9000 * kMib;
inline constexpr std::int64_t kSoftMet = 1200 * kMib;
inline constexpr std::int64_t kHardMet = 60 * kMib;

inline v1::Evidence& add_threshold(internal::TopReport& report, const std::string& signal,
                                   std::int64_t limit, std::int64_t available,
                                   std::int64_t grace_ns = 0) {
  v1::Evidence& each = *report.mutable_signals()->add_signals();
  each.mutable_threshold()->set_signal(signal);
  each.mutable_threshold()->set_grace_ns(grace_ns);
  each.set_subject("node");
  each.set_capacity(16384 * kMib);
  each.set_limit(limit);
  each.set_available(available);
  each.set_met(available < limit);
  each.set_driving(each.met() && grace_ns == 0);
  if (each.met()) each.set_first_met_ns(report.at_ns() - 12 * kSecondNs);
  return each;
}

// The i-th workload: each uses less than the one before.
inline void add_workload(internal::TopReport& report, int i, int count) {
  internal::TopWorkload& each = *report.add_workloads();
  v1::Candidate& candidate = *each.mutable_candidate();
  v1::Workload& workload = *candidate.mutable_sample()->mutable_workload();
  workload.set_name(i == 0 ? "leak" : "worker-" + std::to_string(i));
  workload.set_path("/kubepods/pod" + std::to_string(i));
  workload.set_cgroup_id(static_cast<std::uint64_t>(100 + i));
  candidate.mutable_sample()->set_processes(static_cast<std::uint64_t>(3 + i % 7));
  v1::RankKey& key = *candidate.mutable_key();
  key.set_measured(true);
  key.set_usage((count - i) * 16 * kMib);
  key.set_request(i % 3 == 0 ? 0 : 64 * kMib);
  key.set_over_request(key.usage() - key.request());
  key.set_exceeds_request(key.over_request() > 0);
  key.set_priority(i % 5 == 4 ? 1000 : 0);
  each.set_stall_ns_per_second(i == 0 ? 250'000'000 : i * 100'000);
  candidate.set_exclusion(i == 1 ? v1::Candidate::PROTECTED : v1::Candidate::NONE);
  if (i == 1) each.set_protection_reason("static pod");
  if (i + 1 < count) each.set_decided_by("over-request");
}

inline internal::TopReport example_report(int workloads, std::int64_t available = kCalm) {
  internal::TopReport report;
  report.mutable_read_at()->set_seconds(1'700'000'000);  // 22:13:20 UTC
  report.set_at_ns(100 * kSecondNs);
  report.set_node("worker-3");
  report.set_kernel("6.12.0");
  report.set_ranking("kubelet");
  report.set_ranking_in_force("kubelet");
  report.mutable_agent()->set_version("0.1.0");
  report.mutable_agent()->set_pid(812);
  report.mutable_agent()->set_uptime_ns(7300 * kSecondNs);
  v1::NodeSample& node = *report.mutable_signals()->mutable_observation()->mutable_node();
  node.set_capacity_bytes(16384 * kMib);
  node.set_inactive_file_bytes(1500 * kMib);
  node.set_usage_bytes(16384 * kMib - available + 1500 * kMib);
  add_threshold(report, "memory.available", 100 * kMib, available);
  add_threshold(report, "memory.available", 1536 * kMib, available, 30 * kSecondNs);
  add_threshold(report, "nodefs.available", 1000 * kMib, 5000 * kMib);
  for (const char* rule : {"missing-statistics", "exceeds-request", "priority", "over-request"}) {
    report.add_comparators(rule);
  }
  for (int i = 0; i < workloads; ++i) add_workload(report, i, workloads);
  if (workloads > 0) report.set_next_victim(0);
  for (const char* resource : {"memory", "io", "cpu"}) {
    internal::PressureShare& share = *report.add_pressure();
    share.set_resource(resource);
    share.set_some(available == kCalm ? 0.01 : 0.36);
    share.set_full(available == kCalm ? 0.0 : 0.16);
  }
  return report;
}

// Opens the i-th workload, with this number of processes of 1 MiB and more.
inline internal::TopProcesses& add_processes(internal::TopReport& report, int i, int count) {
  internal::TopProcesses& list = *report.mutable_processes();
  list.set_path("/kubepods/pod" + std::to_string(i));
  list.set_count(static_cast<std::uint64_t>(count));
  list.set_rss_bytes(count * kMib);
  for (int at = 0; at < count; ++at) {
    internal::TopProcess& each = *list.add_processes();
    each.set_pid(1000 + at);
    each.set_command("task-" + std::to_string(at));
    each.set_rss_bytes((count - at) * kMib);
    each.set_threads(2);
    each.set_points((count - at) * 256);
  }
  return list;
}

inline v1::StatusDecision& add_decision(internal::TopReport& report, const std::string& victim,
                                        bool by_kernel = false) {
  v1::StatusDecision& each = *report.add_decisions();
  each.mutable_wall_time()->set_seconds(1'699'999'990);
  each.set_action(v1::Decision::KILL);
  each.set_reason(v1::Decision::THRESHOLD_MET);
  each.set_by_kernel(by_kernel);
  each.set_subject("node");
  each.set_victim(victim);
  if (by_kernel) return each;
  each.set_state(v1::KillProgress::RELEASED);
  each.set_freed_bytes(512 * kMib);
  return each;
}

// Draws with all data.
struct Drawing {
  internal::TopReport report;
  top::View view = {};
  top::History history = {};
  bool ascii = false;

  explicit Drawing(internal::TopReport shown) : report(std::move(shown)) { history.add(report); }

  [[nodiscard]] top::Drawn draw(int width, int height) const {
    return top::draw({report, history, view, ascii ? top::ascii_glyphs() : top::unicode_glyphs()},
                     {width, height});
  }
};

inline std::string text_of(const top::Screen& screen) {
  std::string text;
  for (int y = 0; y < screen.size().height; ++y) text += screen.line(y) + "\n";
  return text;
}

}  // namespace forestall::test
