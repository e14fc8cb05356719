// SPDX-License-Identifier: Apache-2.0
#include "sources/drain_paths.h"

#include <algorithm>

namespace forestall::sources {

std::string DrainPaths::find(CgroupId id) {
  if (id.inode == 0) return {};
  const auto known = std::ranges::find(found_, id, &std::pair<CgroupId, std::string>::first);
  if (known != found_.end()) return known->second;
  if (found_.size() >= kLookupsMax) return {};
  return found_.emplace_back(id, lookup_(id)).second;
}

}  // namespace forestall::sources
