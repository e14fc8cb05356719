// SPDX-License-Identifier: Apache-2.0
#include "cluster/kill_report.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "exports/record_sentence.h"
#include "messages/convert.h"

namespace forestall::cluster {
namespace {

// Its processes were signalled. A record of an agent that does not report how a kill began is none
// of these before its outcome is known: the kill may be one of a dry run.
bool was_signalled(const v1::BegunKill& begun) {
  const bool still_running = begun.dry_run() || begun.state() == v1::KillProgress::FAILED ||
                             begun.state() == v1::KillProgress::STATE_UNSPECIFIED;
  return !still_running;
}

const v1::Workload* victim_of(const v1::Record& record) {
  if (record.has_outcome()) {
    const v1::Outcome& outcome = record.outcome();
    const bool signalled = !outcome.dry_run() && outcome.has_signalled_ns();
    return signalled ? &outcome.victim() : nullptr;
  }
  const v1::Decision& decision = record.decision();
  if (!record.has_begun() || !was_signalled(record.begun()) || decision.evictions_size() != 1) {
    return nullptr;
  }
  const std::uint32_t candidate = decision.evictions(0).candidate();
  if (candidate >= static_cast<std::uint32_t>(decision.considered_size())) return nullptr;
  return &decision.considered(static_cast<int>(candidate)).sample().workload();
}

// The containers start again after their processes have exited, which a grace period may delay.
std::optional<MonotonicTime> killed_at(const v1::Record& record) {
  const v1::Outcome& outcome = record.outcome();
  if (outcome.has_exited_ns()) return from_ns(outcome.exited_ns());
  if (outcome.has_signalled_ns()) return from_ns(outcome.signalled_ns());
  if (record.stages().decided_ns() == 0) return std::nullopt;
  return from_ns(record.stages().decided_ns());
}

const v1::Eviction* eviction_of(const v1::Record& record, const std::string& uid) {
  const v1::Decision& decision = record.decision();
  for (const v1::Eviction& each : decision.evictions()) {
    if (each.candidate() >= static_cast<std::uint32_t>(decision.considered_size())) continue;
    const int index = static_cast<int>(each.candidate());
    if (decision.considered(index).sample().workload().pod().uid() == uid) return &each;
  }
  return nullptr;
}

}  // namespace

std::optional<KilledPod> killed_pod(const v1::Record& record) {
  const v1::Workload* victim = victim_of(record);
  // The facts of a pod that is not known have no name; a static pod has no use for an eviction.
  if (victim == nullptr || !victim->has_pod() || victim->pod().origin() != v1::Pod::API) {
    return std::nullopt;
  }
  KilledPod pod{victim->pod().uid(), victim->pod().namespace_(), victim->pod().name()};
  pod.kill = fmt::format("{} {}.{:09}", record.sequence(), record.wall_time().seconds(),
                         record.wall_time().nanos());
  pod.at = killed_at(record);
  pod.repeats = record.decision().reason() == v1::Decision::POD_RUNS_AGAIN;
  if (const v1::Eviction* eviction = eviction_of(record, pod.uid)) {
    pod.message = eviction->message();
    for (const v1::Eviction::Annotation& each : eviction->annotations()) {
      pod.annotations.emplace_back(each.name(), each.value());
    }
  }
  return pod;
}

std::optional<KernelKill> kernel_kill(const v1::Record& record) {
  if (!record.has_oom_kill()) return std::nullopt;
  Record kill;
  auto read = messages::from_proto(record.oom_kill());
  if (!read) return std::nullopt;
  kill.oom_kill = *std::move(read);
  return KernelKill{kill.oom_kill->event.path, exports::oom_kill_sentence(kill)};
}

}  // namespace forestall::cluster
