// SPDX-License-Identifier: Apache-2.0
// Which of the cgroups that a threshold's glob matches are watched. Each costs descriptors and a
// slot of the BPF programs, and an unprivileged user may be allowed to create any number of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/cgroup_tree.h"
#include "model/config.h"
#include "model/observation.h"

namespace forestall::sources {

struct MatchedCgroup {
  std::string path;
  std::string share;        // share_of()
  std::uint64_t inode = 0;  // kernfs numbers cgroups in the order of their creation
};

// The part of `path` up to the first component that `glob` leaves open: "/tenants/a" for
// "/tenants/a/job7" and "/tenants/*/*". A tenant that creates cgroups inside stays within one
// share.
[[nodiscard]] std::string share_of(std::string_view glob, std::string_view path);

// Sorted paths of at most `max` of them: the oldest of each share, then the second oldest of each,
// and so on. So a new cgroup never displaces an older one of the same share, and a share never
// displaces the oldest cgroups of another one.
[[nodiscard]] std::vector<std::string> fair_choice(std::vector<MatchedCgroup> matched,
                                                   std::size_t max);

// How many cgroups may be watched: within the present limit of open files and the configured one.
[[nodiscard]] std::size_t watched_cgroups_max(std::optional<std::uint32_t> configured = {});

// Reduces `paths`, which each threshold of `config` matches, to what may be watched, and notes how
// many are not.
void bound_watched(const kernel::CgroupTree& tree, const Config& config,
                   std::vector<std::vector<std::string>>& paths, std::vector<SourceNote>& notes);

}  // namespace forestall::sources
