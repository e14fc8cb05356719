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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"

namespace forestall::sources {

// Thread rule: one thread at a time.
class NewCgroups {
 public:
  // Starts anew for `globs` (cgroup_tree.h). Called right before the tree is listed: what comes
  // from here on is either listed or reported.
  void watch(const kernel::CgroupTree& tree, std::span<const std::string> globs);
  // Whether such a cgroup may have been created since watch(), whether or not it still exists.
  [[nodiscard]] bool any();
  // The paths of those that were created, each once. Another one may be inside each. Nullopt: some
  // are unknown, because not every directory is watched, or too many were created.
  [[nodiscard]] std::optional<std::span<const std::string>> created();

 private:
  // A tenant may decide how many directories there are, and the limit of the user is shared with
  // systemd and kubelet.
  static constexpr std::size_t kWatchesMax = 1024;
  static constexpr std::size_t kNamedMax = 64;

  // What the children of a watched directory are matched against.
  struct Part {
    std::string directory;  // its path in the hierarchy
    std::string part;       // of a glob
  };

  void watch_all(const kernel::CgroupTree& tree, const std::string& directories,
                 const std::string& part);
  void watch_directory(const kernel::CgroupTree& tree, const std::string& directory,
                       const std::string& part);
  void note(int watch, const char* name);

  UniqueFd inotify_;
  std::multimap<int, Part> parts_;  // by watch descriptor
  bool all_watched_ = false;        // every directory in which one could come
  bool lost_ = false;               // at least one came that is not in came_
  std::vector<std::string> came_;
};

}  // namespace forestall::sources
