// SPDX-License-Identifier: Apache-2.0
#include "picture/incident.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "agent/recorder.h"
#include "exports/log.h"
#include "policy/step.h"

namespace forestall::test {
namespace {

using namespace std::chrono_literals;

constexpr Bytes kNode = gib(16);
constexpr Bytes kHard = mib(512);
constexpr Bytes kSoft = mib(1536);
// 2026-03-14 09:26:53 UTC.
constexpr std::int64_t kWallOffset = 1'773'480'413'000'000'000;
constexpr double kBegin = 100;       // seconds since boot
constexpr double kLeakBegins = 700;  // it was quiet for ten minutes
constexpr double kEnd = 1120;

MonotonicTime second(double seconds) {
  return from_ns(static_cast<std::int64_t>(seconds * 1e9));
}

Bytes mib_of(double amount) {
  return {static_cast<std::int64_t>(amount * (1 << 20))};
}

const std::vector<std::string> kNames{"checkout",      "catalog",     "search",  "payments",
                                      "session-cache", "mailer",      "reports", "image-api",
                                      "recommend",     "log-shipper", "billing", "gateway"};

struct Pod {
  std::string name;
  std::string path;
  double request_mib = 0;
  double base_mib = 0;
  std::int32_t priority = 0;
  double phase = 0;
};

class Node {
 public:
  explicit Node(const Incident& incident) : incident_(incident) {
    const double share = 11000.0 / static_cast<double>(incident.workloads);
    for (std::size_t i = 0; i < incident.workloads; ++i) {
      Pod pod;
      pod.name = i < kNames.size() ? kNames[i] : fmt::format("{}-{}", kNames[i % 12], i / 12);
      if (incident.evil_names && i % 3 == 0) pod.name = "<script>alert(1)</script>";
      if (incident.evil_names && i % 3 == 1) pod.name = "</script><img src=x onerror=alert(2)>";
      pod.path = fmt::format("/kubepods/burstable/pod{:08x}-{}", 0x5eed00 + i * 7919, pod.name);
      const double weight = 0.35 + 1.3 * std::fmod(static_cast<double>(i) * 0.618, 1.0);
      pod.base_mib = share * weight;
      pod.request_mib = std::round(pod.base_mib * (i % 4 == 1 ? 0.8 : 1.15) / 16) * 16;
      pod.priority = i % 5 == 2 ? 1000 : 0;
      pod.phase = static_cast<double>(i) * 1.7;
      pods_.push_back(std::move(pod));
    }
  }

  // What the leaking workload (the second pod) has beyond its base.
  [[nodiscard]] double leak(double at) const {
    if (at < kLeakBegins || at >= killed_) return 0;
    return 22 * std::pow(at - kLeakBegins, 1.02);
  }
  [[nodiscard]] double used(std::size_t pod, double at) const {
    const Pod& each = pods_[pod];
    if (pod == 1 && at >= killed_) return at < restarted() ? 0 : each.base_mib * 0.4;
    const double wave = std::sin(at / 37 + each.phase) + 0.5 * std::sin(at / 11 + 2 * each.phase);
    return each.base_mib * (1 + 0.035 * wave) + (pod == 1 ? leak(at) : 0);
  }
  [[nodiscard]] double available(double at) const {
    double all = 900;
    for (std::size_t i = 0; i < pods_.size(); ++i) all += used(i, at);
    return kNode.mib() - all;
  }
  void kill(double at) { killed_ = at; }
  [[nodiscard]] bool is_killed() const { return killed_ < 1e9; }
  [[nodiscard]] std::vector<WorkloadSample> samples(double at) const {
    std::vector<WorkloadSample> all;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      WorkloadSample sample;
      Workload& workload = sample.workload;
      workload.cgroup = {1000 + i};
      workload.path = pods_[i].path;
      workload.kind = WorkloadKind::pod;
      workload.name = "shop/" + pods_[i].name;
      workload.pod_uid = fmt::format("uid-{}", i);
      workload.priority = pods_[i].priority;
      workload.memory_request = mib_of(pods_[i].request_mib);
      if (i == 2) workload.protection = Protection::declared;
      sample.usage = mib_of(used(i, at) * 1.08);
      sample.inactive_file = mib_of(used(i, at) * 0.08);
      sample.processes = i == 1 && at >= killed_ && at < restarted() ? 0 : 3 + i % 4;
      all.push_back(std::move(sample));
    }
    return all;
  }

 private:
  [[nodiscard]] double restarted() const { return killed_ + 40; }

  Incident incident_;
  std::vector<Pod> pods_;
  double killed_ = 1e18;
};

Config config_of(const Incident& incident) {
  Config config;
  config.dry_run = incident.dry_run;
  Threshold hard;
  hard.limit = Limit::bytes(kHard);
  Threshold soft;
  soft.limit = Limit::bytes(kSoft);
  soft.grace = 90s;
  config.thresholds = {hard, soft};
  return config;
}

// The part of the loop that its sinks see.
class Agent {
 public:
  Agent(const std::string& path, const Incident& incident)
      : incident_(incident),
        config_(config_of(incident)),
        node_(incident),
        log_(exports::Log::Stream::standard_error, /*stamped=*/false, exports::LogLevel::error),
        recorder_(log_, drops_, [this](MonotonicTime now) { return pressure(now); }) {
    messages::RecordingFacts facts;
    facts.version = FORESTALL_VERSION;
    facts.recorder = messages::RecordedBy::agent;
    facts.pid = 4711;
    facts.node = "worker-3.example.net";
    facts.kernel = "6.12.43";
    facts.boot_id = "a-boot";
    facts.tier = Tier::full;
    facts.config_origin = "/etc/forestall/config.yaml";
    facts.began = second(kBegin);
    facts.began_wall_ns = kWallOffset + to_ns(second(kBegin));
    const auto started = recorder_.start({path, true}, facts, 0s);
    EXPECT_TRUE(started) << started.error().text();
  }

  void run() {
    const double end = incident_.calm ? kLeakBegins - 60 : kEnd;
    double next_rest = kBegin;
    double next_workload_sample = kBegin;
    for (double at = kBegin; at < end; at += step(at)) {
      const bool rest = at >= next_rest;
      const bool near = node_.available(at) < kSoft.mib();
      if (!rest && !near) continue;
      // The writer's thread is slower than this test, which records an hour in a second: wait for
      // it.
      while (recorder_.totals()->queued_bytes > (1U << 19)) std::this_thread::yield();
      evaluate(at, rest ? WakeSource::recheck : WakeSource::usage_timer);
      next_rest = at + 5;
      if (at >= next_workload_sample) {
        recorder_.sampled({second(at + 0.001), Duration(40us), node_.samples(at)});
        next_workload_sample = at + 5;
      }
      if (at > kLeakBegins + 200 && !kernel_killed_) kernel_kill(at + 0.25);
    }
    const auto totals = recorder_.stop();
    EXPECT_TRUE(totals) << totals.error().text();
    EXPECT_EQ(totals ? totals->lost_entries : 0, 0U);
  }

 private:
  // Counters that rise faster the less is available.
  MemoryPressure pressure(MonotonicTime now) {
    const double at = static_cast<double>(to_ns(now)) / 1e9;
    const double passed = std::max(at - counted_at_, 0.0);
    const double shortage = std::max(0.0, 1 - node_.available(at) / 1900);
    counted_at_ = at;
    waited_ += passed * (0.0005 + 0.7 * shortage * shortage);
    scanned_ += passed * (20 + 90'000 * shortage * shortage);
    const auto pages = [](double count) { return static_cast<std::uint64_t>(count); };
    return {now,
            Duration(static_cast<std::int64_t>(waited_ * 1e9)),
            Duration(static_cast<std::int64_t>(waited_ * 0.55e9)),
            pages(scanned_),
            pages(scanned_ * 0.78),
            pages(scanned_ / 400)};
  }

  [[nodiscard]] double step(double at) const {
    const double available = node_.available(at);
    if (available < kHard.mib() + 20) return 0.01;
    if (available < kSoft.mib()) return 0.1;
    return 1;
  }

  void evaluate(double at, WakeSource source) {
    Record record;
    Observation& observation = record.observation;
    observation.at = second(at);
    observation.wake.source = source;
    observation.wake.at = second(at - 0.00002);
    const double available = node_.available(at);
    observation.node.capacity = kNode;
    observation.node.usage = mib_of(kNode.mib() - available + 300);
    observation.node.inactive_file = mib(300);
    if (kill_ends_ > at) observation.kills = {progress(at)};
    auto answer = policy::step(config_, state_, observation);
    if (answer.decision.action == Action::inspect) {
      observation.workloads = node_.samples(at);
      answer = policy::step(config_, state_, observation);
    }
    const policy::State before = std::exchange(state_, std::move(answer.state));
    record.decision = std::move(answer.decision);
    record.wall_time_ns = kWallOffset + to_ns(second(at + 0.0004));
    record.stages = {observation.wake.at, second(at - 0.00001), second(at + 0.0002),
                     second(at + 0.00021)};
    recorder_.passed({config_, 0, before, record});
    if (record.decision.action == Action::kill) {
      kill(at, std::move(record));
    } else if (record.decision.reason != last_reason_) {
      last_reason_ = record.decision.reason;
      record.sequence = ++sequence_;
      recorder_.write(record);
    }
  }

  [[nodiscard]] KillProgress progress(double at) const {
    KillProgress kill;
    kill.cgroup = victim_.cgroup;
    kill.path = victim_.path;
    kill.state = incident_.dry_run ? KillState::released : KillState::in_flight;
    kill.started = second(at - 0.01);
    kill.remaining = incident_.dry_run ? mib(0) : mib(3000);
    return kill;
  }

  void kill(double at, Record record) {
    if (incident_.dry_run && at < kill_ends_) return;
    record.sequence = ++sequence_;
    const Candidate& chosen = record.decision.considered[*record.decision.victim()];
    victim_ = chosen.sample.workload;
    recorder_.write(record);
    Outcome outcome;
    outcome.victim = victim_;
    outcome.dry_run = incident_.dry_run;
    outcome.state = KillState::released;
    outcome.processes = 4;
    outcome.usage_before = *chosen.sample.usage;
    outcome.freed = incident_.dry_run ? Bytes{0} : outcome.usage_before - mib(3);
    outcome.began = second(at + 0.00022);
    outcome.attempts = {{Rung::verify, second(at + 0.00024), 0, {}},
                        {Rung::pidfds, second(at + 0.0003), 4, {}},
                        {Rung::sigkill, second(at + 0.00034), 4, {}},
                        {Rung::mrelease, second(at + 0.021), 4, {}}};
    outcome.signalled = second(at + 0.00034);
    outcome.exited = second(at + 0.034);
    outcome.released = second(at + 0.041);
    record.outcome = outcome;
    recorder_.write(record);
    kill_ends_ = incident_.dry_run ? at + 30 : at + 0.04;
    if (!incident_.dry_run) node_.kill(at + 0.02);
  }

  void kernel_kill(double at) {
    kernel_killed_ = true;
    OomKill kill;
    kill.event.at = second(at);
    kill.event.victim = {31337, 99};
    const std::string name = incident_.evil_names ? "<b>x</b>" : "convert";
    name.copy(kill.event.comm.data(), kill.event.comm.size() - 1);
    kill.event.path = "/system.slice/thumbnails.service";
    kill.event.domain_path = kill.event.path;
    kill.event.domain = {77};
    kill.event.domain_usage = mib(256);
    kill.event.domain_limit = mib(256);
    kill.event.constraint = Constraint::memcg;
    kill.event.points = 64210;
    kill.event.memory = ProcessMemory{310, 63100, 0, 0, 140};
    kill.inaction = Inaction::not_watched;
    Record record;
    record.observation.at = second(at);
    record.observation.node.capacity = kNode;
    record.decision.reason = Reason::no_threshold_met;
    record.sequence = ++sequence_;
    record.wall_time_ns = kWallOffset + to_ns(second(at));
    record.oom_kill = kill;
    recorder_.write(record);
  }

  Incident incident_;
  Config config_;
  Node node_;
  exports::Log log_;
  exports::DropCounts drops_;
  agent::Recorder recorder_;
  policy::State state_;
  std::uint64_t sequence_ = 0;
  Reason last_reason_ = Reason::no_threshold_met;
  Workload victim_;
  double kill_ends_ = 0;
  bool kernel_killed_ = false;
  double counted_at_ = kBegin;
  double waited_ = 0;
  double scanned_ = 0;
};

}  // namespace

void write_incident(const std::string& path, const Incident& incident) {
  Agent(path, incident).run();
}

}  // namespace forestall::test
