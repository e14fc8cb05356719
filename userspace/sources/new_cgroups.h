// SPDX-License-Identifier: Apache-2.0
// Whether a cgroup that matches one of several globs may have come since the last listing, by
// inotify on the directories in which it could appear.
//
// The kernel queues the event before mkdir() returns, so a new workload is known before it has any
// memory, also on hosts without BPF. What inotify does not see: a cgroup made through the mount of
// another cgroup namespace, and directories beyond kWatchesMax or the user's
// limit of inotify watches (fs.inotify.max_user_watches). The caller therefore rescans now and then
// as well.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::sources {

// Thread rule: one thread.
class NewCgroups {
 public:
  // Starts anew for `globs` (cgroup_tree.h). Called right before the tree is listed: what comes
  // from here on is either listed or reported.
  void watch(const kernel::CgroupTree& tree, std::span<const std::string> globs);
  // Whether such a cgroup may have come since watch(), whether or not it still exists.
  [[nodiscard]] bool any();

 private:
  // A tenant may decide how many directories there are, and the limit of the user is shared with
  // systemd and kubelet.
  static constexpr std::size_t kWatchesMax = 1024;

  void watch_all(const kernel::CgroupTree& tree, const std::string& directories,
                 const std::string& part);
  void watch_directory(const std::string& directory, const std::string& part);
  [[nodiscard]] bool is_wanted(int directory, const char* name) const;

  UniqueFd inotify_;
  // Watch descriptor of a directory, and the part of a glob that its children are matched against.
  std::multimap<int, std::string> parts_;
  bool came_ = false;
};

}  // namespace forestall::sources
