// SPDX-License-Identifier: Apache-2.0
#include "actuators/pinned_victims.h"

#include <algorithm>
#include <utility>

#include "kernel/scheduling.h"

namespace forestall::actuators {

Result<std::unique_ptr<PinnedVictims>> PinnedVictims::create(const kernel::CgroupTree& tree) {
  std::unique_ptr<PinnedVictims> made(new PinnedVictims(tree));
  made->thread_ = TRY(base::JobThread::create("pins", [victims = made.get()] { victims->run(); }));
  return made;
}

void PinnedVictims::pin(std::vector<Workload> workloads, const NeverKill& never_kill) {
  Request request{std::move(workloads), never_kill, {}};
  if (running_) {
    waiting_ = std::move(request);
  } else {
    start(std::move(request));
  }
}

void PinnedVictims::start(Request request) {
  request.pins = pins_;
  dropped_ = false;
  running_ = std::move(request);
  static_cast<void>(thread_->start());  // idle: nothing was running
}

// The loop frees what this thread allocated. A thread of ordinary priority that is preempted with
// the allocator's lock would make it wait.
void PinnedVictims::run() {
  kernel::use_service_priority();
  Request& request = *running_;
  Pins pinned;
  std::size_t processes = 0;
  for (const Workload& workload : request.workloads) {
    auto pins = find(request.pins, workload.cgroup);
    if (pins == nullptr || !pins->is_current()) {
      const std::size_t room = kProcessesMax - std::min(kProcessesMax, processes);
      auto taken = PinnedProcesses::take(tree_, request.never_kill, workload,
                                         std::min(room, PinnedProcesses::kProcessesMax));
      pins = taken.ok() ? std::move(*taken) : nullptr;
    }
    if (pins == nullptr) continue;
    processes += pins->processes().size();
    pinned.push_back(std::move(pins));
  }
  request.pins.swap(pinned);
}

void PinnedVictims::release() {
  pins_.clear();
  waiting_.reset();
  dropped_ = true;
}

std::shared_ptr<const PinnedProcesses> PinnedVictims::find(const Pins& pins, CgroupId cgroup) {
  const auto found = std::ranges::find(pins, cgroup, &PinnedProcesses::cgroup);
  return found == pins.end() ? nullptr : *found;
}

std::shared_ptr<const PinnedProcesses> PinnedVictims::of(CgroupId cgroup) const {
  return find(pins_, cgroup);
}

bool PinnedVictims::collect() {
  if (!thread_->finish()) return false;
  Request done = *std::exchange(running_, std::nullopt);
  const bool taken = !dropped_;
  if (taken) pins_ = std::move(done.pins);
  if (waiting_) start(*std::exchange(waiting_, std::nullopt));
  return taken;
}

}  // namespace forestall::actuators
