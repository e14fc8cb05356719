// SPDX-License-Identifier: Apache-2.0
#include "actuators/grip.h"

#include <algorithm>
#include <cerrno>

#include "actuators/roll_call.h"

namespace forestall::actuators {

Result<std::shared_ptr<const Grip>> Grip::take(const kernel::CgroupTree& tree,
                                               const Untouchables& untouchables,
                                               const Workload& workload,
                                               std::size_t processes_max) {
  if (workload.path == "/") return Error{EPERM, "the root cgroup holds the whole system"};
  auto directory = TRY(tree.open(workload.path));
  if (directory.id() != workload.cgroup) {
    return Error{ESTALE,
                 "cgroup " + workload.path + " was removed and created again since it was ranked"};
  }
  std::shared_ptr<Grip> grip(new Grip);
  grip->directory_ = std::make_shared<const kernel::CgroupDir>(std::move(directory));
  if (auto meter = UsageMeter::open(*grip->directory_, tree.version()); meter.ok()) {
    grip->meter_ = std::make_shared<const UsageMeter>(std::move(*meter));
  }
  grip->present_ = TRY(sorted_processes(*grip->directory_));
  for (const pid_t pid : grip->present_) {
    if (grip->processes_.size() >= processes_max) break;
    auto process = kernel::ProcessRef::open(pid);
    if (!process.ok()) continue;
    if (untouchables.why_not(process->id(), process->kernel_thread()).empty()) {
      grip->processes_.push_back(std::move(*process));
    } else {
      grip->has_untouchable_ = true;
    }
  }
  return std::shared_ptr<const Grip>(std::move(grip));
}

bool Grip::is_current() const {
  const auto present = sorted_processes(*directory_);
  if (!present.ok() || *present != present_) return false;
  return std::ranges::none_of(processes_, &kernel::ProcessRef::exited);
}

}  // namespace forestall::actuators
