// SPDX-License-Identifier: Apache-2.0
// The processes of a cgroup by the kernel's own lists, without a path. Each path in a cgroup
// hierarchy takes kernfs locks, for which the loop may have to wait as long as a tenant's process
// that holds one is off the CPU.
#pragma once

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actuators/never_kill.h"
#include "base/result.h"
#include "kernel/memcg_scan.h"
#include "model/ids.h"

namespace forestall::actuators {

class ProcessLister {
 public:
  // Of the cgroup and its descendants, sorted by pid. An error: some may be missing.
  using List = std::function<Result<std::vector<kernel::ListedProcess>>(CgroupId cgroup)>;

  // Nothing can list them on this host: only files can.
  ProcessLister() = default;
  // `path`: where the cgroup is that was listed last; nullopt: not known. Null: where it was.
  using Path = std::function<std::optional<std::string>()>;
  explicit ProcessLister(List list, Path path = nullptr)
      : list_(std::move(list)), path_(std::move(path)) {}

  [[nodiscard]] bool exists() const { return list_ != nullptr; }
  // REQUIRES: exists().
  [[nodiscard]] Result<std::vector<kernel::ListedProcess>> list(CgroupId cgroup) const {
    auto listed = list_(cgroup);
    if (listed.ok() || listed.error().code != EAGAIN) return listed;
    return list_(cgroup);  // they changed meanwhile
  }
  // Whether a thread in another cgroup than the leader's may be in a protected group (members.h).
  [[nodiscard]] bool may_be_protected(const kernel::ListedProcess& process,
                                      const NeverKill& never_kill) const {
    const ProtectedGroups* groups = never_kill.protected_groups();
    return process.apart && groups != nullptr && !groups->all().empty();
  }
  // Whether the cgroup that was listed last has been renamed, and what it is now may be protected.
  [[nodiscard]] bool may_be_renamed_to_protected(const std::string& path,
                                                 const NeverKill& never_kill) const {
    const ProtectedGroups* groups = never_kill.protected_groups();
    if (path_ == nullptr || groups == nullptr) return false;
    const auto now = path_();
    return !now || (*now != path && groups->may_cover(*now));
  }

 private:
  List list_;
  Path path_;
};

}  // namespace forestall::actuators
