// SPDX-License-Identifier: Apache-2.0
#include "top/host_source.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "daemon/rank_report.h"
#include "messages/convert.h"
#include "policy/rank.h"
#include "policy/step.h"
#include "sources/host_sample.h"
#include "top/order.h"

namespace forestall::top {
namespace {

constexpr std::size_t kDecisionsMax = 16;
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t wall_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

}  // namespace

Result<std::unique_ptr<HostSource>> HostSource::create(const kernel::CgroupTree& tree,
                                                       Config config) {
  auto observer = TRY(sources::Observer::create(tree, config));
  std::unique_ptr<HostSource> source(new HostSource(tree, std::move(config), std::move(observer)));
  auto log = sources::OomLog::open();
  if (log) source->log_ = std::move(log).value();
  return source;
}

HostSource::HostSource(const kernel::CgroupTree& tree, Config config,
                       std::unique_ptr<sources::Observer> observer)
    : tree_(tree),
      in_force_(config.ranking),
      config_(std::move(config)),
      observer_(std::move(observer)) {}

Result<void> HostSource::rank_as(const std::string& ranking) {
  const Ranking wanted = messages::parse_ranking(ranking).value_or(in_force_);
  if (wanted == Ranking::kernel && !processes_) {
    processes_ = TRY(cli::open_processes(tree_, config_.disabled));
    observer_->set_processes(processes_->source.get());
  }
  if (config_.ranking != wanted) {
    config_.ranking = wanted;
    observer_->configure(config_);
  }
  return {};
}

v1::StatusDecision& HostSource::add_decision(std::int64_t wall_time_ns) {
  if (decisions_.size() == kDecisionsMax) decisions_.erase(decisions_.begin());
  v1::StatusDecision& decision = decisions_.emplace_back();
  decision.mutable_wall_time()->set_seconds(wall_time_ns / kSecond);
  decision.mutable_wall_time()->set_nanos(static_cast<std::int32_t>(wall_time_ns % kSecond));
  return decision;
}

// Notes what an agent would have done.
void HostSource::note(const Decision& decision) {
  if (decision.reason == Reason::no_threshold_met) expected_.clear();
  const auto victim = decision.victim();
  if (!victim || decision.action != Action::kill) return;
  const std::string& name = decision.considered[*victim].sample.workload.name;
  if (name == expected_) return;
  expected_ = name;
  v1::StatusDecision& out = add_decision(wall_now());
  out.set_action(messages::to_proto(decision.action));
  out.set_reason(messages::to_proto(decision.reason));
  out.set_victim(messages::to_proto(decision.considered[*victim].sample.workload).name());
  out.set_dry_run(true);
  if (decision.driving) {
    out.set_subject(messages::to_proto(decision.evidence[*decision.driving]).subject());
  }
}

void HostSource::take_kernel_kills(MonotonicTime now) {
  if (!log_) return;
  std::vector<Wake> ignored;
  log_->drain(now, ignored);
  for (const OomKillEvent& kill : log_->take_kills()) {
    v1::StatusDecision& out = add_decision(wall_now() - (now - kill.at).count());
    out.set_by_kernel(true);
    OomKill reported;
    reported.event = kill;
    // The victim's name in the form of a record.
    out.set_victim(messages::to_proto(reported).event().name());
    if (!kill.domain_path.empty())
      out.set_subject(messages::to_proto(reported).event().domain_path());
  }
}

Result<void> HostSource::read(const std::string& ranking, internal::TopReport& report) {
  TRY(rank_as(ranking));
  Observation observation = TRY(sources::sample_host(*observer_));
  policy::Step step = policy::step(config_, state_, observation);
  state_ = std::move(step.state);
  // With another order than the configuration's, no agent would have acted.
  if (config_.ranking == in_force_) note(step.decision);
  take_kernel_kills(observation.at);
  policy::RankBy by{Signal::memory_available, observation.filesystems.layout, config_.compat,
                    config_.ranking};
  const policy::Exclusions exclusions(*observation.workloads, observation.kills);
  set_order(policy::rank(*observation.workloads, by, {}, exclusions), config_.ranking, report);
  report.set_ranking_in_force(std::string(messages::ranking_word(in_force_)));
  *report.mutable_signals() = daemon::signals_report(observation, step.decision.evidence);
  add_unknown(config_, observation, report);
  for (const v1::StatusDecision& each : decisions_) *report.add_decisions() = each;
  return {};
}

}  // namespace forestall::top
