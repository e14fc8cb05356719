// SPDX-License-Identifier: Apache-2.0
#include "agent/standing_guard.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/sampling_turn.h"
#include "bpf/abi/watch.h"
#include "exports/log_line.h"

namespace forestall::agent {
namespace {

constexpr Duration kListInterval = std::chrono::seconds(10);
// After workloads have come or gone.
constexpr Duration kChangedInterval = std::chrono::seconds(1);
// Memory is used between the reading of the node's file and that of the programs.
constexpr Bytes kAvailableSlack = mib(64);
// A balloon seldom changes, and what it hides from the programs stays hidden until it does.
constexpr Duration kNodeLeftOut = std::chrono::minutes(10);
// The limit may only have changed since it was read.
constexpr Duration kCgroupLeftOut = std::chrono::minutes(1);
constexpr std::size_t kLeftOutMax = 1024;
// A preparation is followed by so many times its length without one.
constexpr int kPreparationRest = 500;
constexpr Duration kRestMax = std::chrono::seconds(30);
// The same after one that was abandoned.
constexpr Duration kAbandonedRestMax = std::chrono::seconds(10);
// What was read longer ago is not published: the agent may have been stopped.
constexpr Duration kPreparationAge = std::chrono::seconds(5);
// Differences in a row after which the node has no list for a time.
constexpr int kNodeDiffersMax = 3;

// As Observer::add_some_workloads() takes it.
std::string_view scope_of(const policy::StandingSubject& subject) {
  return subject.cgroup == CgroupId{} ? std::string_view() : std::string_view(subject.path);
}

Duration rest_after(Duration took, Duration at_least, Duration at_most = kRestMax) {
  return std::max(at_least, std::min(took * kPreparationRest, at_most));
}

}  // namespace

void StandingGuard::evaluated(const Config& config, const Record& record) {
  auto subject = policy::standing_subject(config, record.observation, left_out());
  if (!subject) return withdraw();
  if (in_force() && published_->order.cgroup != subject->cgroup) withdraw();
  if (subject_ && subject_->cgroup != subject->cgroup) drop_preparations();
  subject_ = std::move(subject);
  kills_ = record.observation.kills;
  if (prepared_) publish(config, record, *subject_);
}

void StandingGuard::short_of_memory(const std::vector<KillProgress>& kills) {
  subject_.reset();
  drop_preparations();
  postpone();
  const bool killing = std::ranges::any_of(kills, [](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating;
  });
  if (killing) withdraw();
}

void StandingGuard::drop_preparations() {
  if (preparation_ && preparation_->job) preparation_->job->cancel();
  preparation_.reset();
  prepared_.reset();
}

void StandingGuard::postpone() {
  parts_.guard.decide_until(parts_.clock.now() + kPostponed);
}

bool StandingGuard::claim() {
  postpone();
  withdraw();
  return !parts_.guard.standing_has_fired();
}

void StandingGuard::withdraw() {
  subject_.reset();
  drop_preparations();
  if (!in_force()) return;
  published_->in_force = false;
  parts_.guard.withdraw_standing();
  reported_ = false;
  due_ = rested_at_;
}

std::optional<MonotonicTime> StandingGuard::preparation_due() const {
  if (!subject_ || prepared_) return std::nullopt;
  if (preparation_) return preparation_->job ? std::nullopt : std::optional(preparation_->turn_due);
  const bool changed = changes_ != parts_.observer.workload_changes();
  return changed ? std::min(rested_at_, due_) : due_;
}

std::optional<MonotonicTime> StandingGuard::evaluation_due() const {
  return prepared_ ? std::optional(prepared_->began) : std::nullopt;
}

void StandingGuard::work(const std::shared_ptr<const Config>& config,
                         const std::shared_ptr<const actuators::NeverKill>& never_kill) {
  const MonotonicTime began = parts_.clock.now();
  if (abandon_if_void(began)) return;
  if (!preparation_) {
    preparation_.emplace(Preparation{});
    preparation_->began = began;
    preparation_->changes = parts_.observer.workload_changes();
  }
  Preparation& preparation = *preparation_;
  const bool more = sample_for_a_turn(parts_.clock, parts_.observer, preparation.read,
                                      scope_of(*subject_), preparation.next_sample);
  preparation.turn_due = parts_.clock.now();
  preparation.took += preparation.turn_due - began;
  if (more) return;
  preparation.used = used_by(*subject_).value_or(Bytes{0});
  preparation.changes = parts_.observer.workload_changes();  // its last turn dropped what is gone
  preparation.read.kills = kills_;
  preparation.job = std::make_shared<StandingListJob>(
      parts_.guard, parts_.tree, parts_.clock,
      StandingListSource{config, never_kill, *subject_, std::exchange(preparation.read, {})});
  thread_.start(preparation.job);
}

void StandingGuard::take_job() {
  if (!preparation_ || !preparation_->job || !preparation_->job->done()) return;
  const MonotonicTime now = parts_.clock.now();
  preparation_->took += preparation_->job->took;
  if (abandon_if_void(now)) return;
  due_ = now + rest_after(preparation_->took, kListInterval);
  rested_at_ = now + rest_after(preparation_->took, kChangedInterval);
  changes_ = preparation_->changes;
  abandoned_ = false;
  prepared_ = std::exchange(preparation_, std::nullopt);
}

// Workloads have come or gone since it began, or it took too long.
bool StandingGuard::abandon_if_void(MonotonicTime now) {
  if (!preparation_) return false;
  const bool changed = preparation_->changes != parts_.observer.workload_changes() && !abandoned_;
  if (changed) abandoned_ = true;
  if (!changed && now - preparation_->began <= kPreparationAge) return false;
  due_ = rested_at_ = now + rest_after(preparation_->took, kChangedInterval, kAbandonedRestMax);
  preparation_.reset();
  return true;
}

// As the list counts it: of a cgroup at the last evaluation, of the node now. Nullopt: the programs
// cannot count it.
std::optional<Bytes> StandingGuard::used_by(const policy::StandingSubject& subject) const {
  if (subject.cgroup != CgroupId{}) return subject.capacity - subject.available;
  const auto usage = parts_.guard.usage(CgroupId{});
  return usage.ok() ? usage->taken : std::nullopt;
}

// False: the programs cannot count the node's memory, or find another MemAvailable than its file.
bool StandingGuard::place(const policy::StandingSubject& subject, const NodeSample& node,
                          Preparation& prepared) {
  kernel::StandingGuardList& list = prepared.job->list;
  const auto used = used_by(subject);
  // The smaller one: growth while the workloads were approved is theirs alone.
  list.usage = std::min(used.value_or(Bytes{0}), prepared.used);
  if (subject.cgroup != CgroupId{}) {
    list.line = subject.capacity - subject.line;
    list.limit = subject.capacity;
    list.inactive_file = subject.inactive_file;
    return true;
  }
  const Bytes origin{static_cast<std::int64_t>(abi_node_taken(0))};
  const bool counts =
      used && node.kernel_available &&
      std::abs((origin - *used - *node.kernel_available).count) <= kAvailableSlack.count;
  node_differs_ = counts ? 0 : node_differs_ + 1;
  list.line = origin - subject.line;
  return counts;
}

std::vector<CgroupId> StandingGuard::left_out() {
  const MonotonicTime now = parts_.clock.now();
  std::erase_if(left_out_, [&](const auto& entry) { return entry.second <= now; });
  std::vector<CgroupId> subjects;
  for (const auto& [subject, until] : left_out_) subjects.push_back(subject);
  return subjects;
}

void StandingGuard::leave_out(CgroupId subject, Duration time) {
  if (left_out_.size() >= kLeftOutMax) return;
  left_out_[subject] = parts_.clock.now() + time;
  due_ = rested_at_;  // for the next subject
}

// What cannot be published leaves the list in force as it is: it was right when it was made.
void StandingGuard::publish(const Config& config, const Record& record,
                            const policy::StandingSubject& subject) {
  Preparation prepared = *std::exchange(prepared_, std::nullopt);
  const MonotonicTime now = parts_.clock.now();
  if (now - prepared.began > kPreparationAge) return;
  if (prepared.job->subject_gone) return withdraw();
  kernel::StandingGuardList& list = prepared.job->list;
  list.subject = subject.cgroup;
  list.expires = now + config.guard_expiry;
  list.by_growth = config.ranking == Ranking::kubelet_growth;
  if (list.workloads.empty()) return withdraw();
  if (!place(subject, record.observation.node, prepared)) {
    if (node_differs_ < kNodeDiffersMax) return;
    leave_out(subject.cgroup, kNodeLeftOut);
    return withdraw();
  }
  const auto stood = parts_.guard.stand(list);
  if (stood.ok()) return keep(std::move(prepared), record, subject);
  if (stood.error().code == EBUSY) return;  // its report is about to be taken
  if (stood.error().code == EAGAIN || stood.error().code == ENOENT) {
    leave_out(subject.cgroup, kCgroupLeftOut);
    return withdraw();
  }
  parts_.log.write(exports::LogLevel::warning,
                   exports::LogLine("guard").field("problem", stood.error().text()));
  withdraw();
}

void StandingGuard::keep(Preparation prepared, const Record& record,
                         const policy::StandingSubject& subject) {
  Published published;
  published.order.cgroup = subject.cgroup;
  published.order.path = subject.path;
  published.order.signal = subject.signal;
  published.order.considered = std::move(prepared.job->order.considered);
  published.made_from.observation = record.observation;
  published.made_from.observation.workloads.reset();
  published.made_from.decision = record.decision;
  published.made_from.stages = record.stages;
  published_ = std::move(published);
  if (std::exchange(reported_, true)) return;
  parts_.log.write(exports::LogLevel::info,
                   exports::LogLine("guard")
                       .field("what", "standing")
                       .field("subject", subject.cgroup == CgroupId{} ? "node" : subject.path)
                       .field("workloads", prepared.job->list.workloads.size())
                       .field("processes", prepared.job->list.processes.size()));
}

}  // namespace forestall::agent
