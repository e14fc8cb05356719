// SPDX-License-Identifier: Apache-2.0
#include "agent/standing_guard.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "agent/sampling_turn.h"
#include "exports/log_line.h"

namespace forestall::agent {
namespace {

constexpr Duration kListInterval = std::chrono::seconds(10);
// After workloads have come or gone.
constexpr Duration kChangedInterval = std::chrono::seconds(1);
// A preparation is followed by so many times its length without one.
constexpr int kPreparationRest = 500;

// As Observer::add_some_workloads() takes it.
std::string_view scope_of(const policy::StandingSubject& subject) {
  return subject.cgroup == CgroupId{} ? std::string_view() : std::string_view(subject.path);
}

bool same_subject(const std::optional<policy::StandingSubject>& a,
                  const policy::StandingSubject& b) {
  return a && a->cgroup == b.cgroup && a->path == b.path;
}

__u64 as_amount(std::optional<Bytes> bytes) {
  return static_cast<__u64>(std::max<std::int64_t>(bytes.value_or(Bytes{0}).count, 0));
}

}  // namespace

void StandingGuard::evaluated(const Config& config, const Record& record) {
  auto subject = policy::standing_subject(config, record.observation);
  if (!subject) return withdraw();
  if (!same_subject(subject_, *subject)) withdraw();
  subject_ = std::move(subject);
  kills_ = record.observation.kills;
  if (prepared_) publish(config, record, *subject_);
}

void StandingGuard::short_of_memory(const std::vector<KillProgress>& kills) {
  subject_.reset();
  preparation_.reset();
  prepared_.reset();
  postpone();
  const bool killing = std::ranges::any_of(kills, [](const KillProgress& kill) {
    return kill.state == KillState::in_flight || kill.state == KillState::terminating;
  });
  if (killing) withdraw();
}

void StandingGuard::postpone() {
  parts_.guard.postpone_standing(parts_.clock.now() + kPostponed);
}

void StandingGuard::withdraw() {
  subject_.reset();
  preparation_.reset();
  prepared_.reset();
  if (!std::exchange(published_, std::nullopt)) return;
  parts_.guard.withdraw_standing();
  reported_ = false;
  due_ = rested_at_;
}

std::optional<MonotonicTime> StandingGuard::preparation_due() const {
  if (!subject_ || prepared_) return std::nullopt;
  if (preparation_) return preparation_->began;
  const bool changed = changes_ != parts_.observer.workload_changes();
  return changed ? std::min(rested_at_, due_) : due_;
}

std::optional<MonotonicTime> StandingGuard::evaluation_due() const {
  return prepared_ ? std::optional(prepared_->began) : std::nullopt;
}

void StandingGuard::work(const Config& config) {
  const MonotonicTime began = parts_.clock.now();
  const std::uint64_t changes = parts_.observer.workload_changes();
  if (!preparation_ || preparation_->changes != changes) {
    const Duration took = preparation_ ? preparation_->took : Duration::zero();
    preparation_.emplace();
    preparation_->began = began;
    preparation_->changes = changes;
    preparation_->took = took;
  }
  work_for_a_turn(config, *preparation_);
  const MonotonicTime ended = parts_.clock.now();
  preparation_->took += ended - began;
  const bool more =
      !preparation_->sampled || preparation_->next_workload < preparation_->order.workloads.size();
  if (more) return;
  const Duration rest = preparation_->took * kPreparationRest;
  due_ = ended + std::max(kListInterval, rest);
  rested_at_ = ended + std::max(kChangedInterval, rest);
  changes_ = preparation_->changes;
  prepared_ = std::exchange(preparation_, std::nullopt);
}

void StandingGuard::work_for_a_turn(const Config& config, Preparation& preparation) {
  if (preparation.sampled) return approve_next(preparation);
  if (sample_for_a_turn(parts_.clock, parts_.observer, preparation.read, scope_of(*subject_),
                        preparation.next_sample)) {
    return;
  }
  preparation.sampled = true;
  preparation.changes = parts_.observer.workload_changes();  // its last turn dropped what is gone
  preparation.read.kills = kills_;
  preparation.order = policy::standing_order(config, *subject_, preparation.read);
  auto& workloads = preparation.order.workloads;
  if (workloads.size() > ABI_STANDING_WORKLOADS) workloads.resize(ABI_STANDING_WORKLOADS);
}

void StandingGuard::approve_next(Preparation& preparation) {
  if (preparation.next_workload == preparation.order.workloads.size()) return;
  const policy::StandingWorkload& listed = preparation.order.workloads[preparation.next_workload++];
  const Candidate& candidate = preparation.order.considered[listed.candidate];
  const Workload& workload = candidate.sample.workload;
  const auto directory = parts_.tree.open(workload.path);
  if (!directory.ok() || directory->id() != workload.cgroup) return;
  const auto memcg = parts_.guard.memcg_of(directory->fd(), workload.cgroup);
  if (!memcg.ok()) return;
  kernel::StandingGuardList& list = preparation.list;
  abi_standing_workload entry{};
  entry.memcg = *memcg;
  entry.cgroup = workload.cgroup.inode;
  entry.working_set = as_amount(candidate.sample.working_set());
  entry.inactive_file = as_amount(candidate.sample.inactive_file);
  entry.request = as_amount(Bytes{candidate.key.request});
  entry.priority = candidate.key.priority;
  entry.first = static_cast<__u16>(list.processes.size());
  const std::size_t room =
      std::min<std::size_t>(list.processes.size() + ABI_GUARD_VICTIMS, ABI_STANDING_PROCESSES);
  // Without an approved process it is listed, so that none is killed in its place.
  if (listed.killable) {
    const auto group = static_cast<std::uint32_t>(list.workloads.size());
    static_cast<void>(approval_.add_processes(workload, group, *candidate.sample.working_set(),
                                              room, list.processes));
  }
  entry.count = static_cast<__u16>(list.processes.size() - entry.first);
  list.workloads.push_back(entry);
}

// The programs count the node's memory themselves, so its lines are relative to their counts.
// False: they could not be read.
bool StandingGuard::place(const policy::StandingSubject& subject,
                          kernel::StandingGuardList& list) const {
  list.usage = subject.used;
  if (subject.cgroup == CgroupId{}) {
    const auto node = parts_.guard.usage(CgroupId{});
    if (!node.ok()) return false;
    list.usage = node->usage;
    list.available = node->available;
    if (subject.headroom_left) list.available_line = node->available - *subject.headroom_left;
    // A line that is not reached, for a signal that is no working set.
    if (!subject.headroom) list.line = Bytes{std::numeric_limits<std::int64_t>::max()};
  }
  if (subject.headroom) list.line = list.usage + *subject.headroom;
  return true;
}

void StandingGuard::publish(const Config& config, const Record& record,
                            const policy::StandingSubject& subject) {
  Preparation prepared = *std::exchange(prepared_, std::nullopt);
  kernel::StandingGuardList& list = prepared.list;
  std::optional<kernel::CgroupDir> directory;
  if (subject.cgroup != CgroupId{}) {
    auto opened = parts_.tree.open(subject.path);
    if (!opened.ok() || opened->id() != subject.cgroup) return withdraw();
    list.subject_fd = directory.emplace(std::move(*opened)).fd();
  }
  list.subject = subject.cgroup;
  list.inactive_file = subject.inactive_file;
  list.expires = parts_.clock.now() + kExpiry;
  list.by_growth = config.ranking == Ranking::kubelet_growth;
  if (list.workloads.empty() || !place(subject, list)) return withdraw();
  if (const auto stood = parts_.guard.stand(list); !stood.ok()) {
    parts_.log.write(exports::LogLevel::warning,
                     exports::LogLine("guard").field("problem", stood.error().text()));
    return withdraw();
  }
  Published published;
  published.order.cgroup = subject.cgroup;
  published.order.path = subject.path;
  published.order.signal = subject.signal;
  published.order.considered = std::move(prepared.order.considered);
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
                       .field("workloads", list.workloads.size())
                       .field("processes", list.processes.size()));
}

}  // namespace forestall::agent
