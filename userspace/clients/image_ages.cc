// SPDX-License-Identifier: Apache-2.0
#include "clients/image_ages.h"

#include <utility>

namespace forestall::clients {

void ImageAges::note(const std::vector<std::string>& ids, MonotonicTime now) {
  const std::lock_guard lock(mutex_);
  std::unordered_map<std::string, MonotonicTime> seen;
  for (const std::string& id : ids) {
    MonotonicTime since = first_seen_ ? now : now - kMinimum;
    if (first_seen_) {
      if (const auto known = first_seen_->find(id); known != first_seen_->end()) {
        since = known->second;
      }
    }
    seen.emplace(id, since);
  }
  first_seen_ = std::move(seen);
}

bool ImageAges::is_old(const std::string& id, MonotonicTime now) const {
  const std::lock_guard lock(mutex_);
  if (!first_seen_) return false;
  const auto known = first_seen_->find(id);
  return known != first_seen_->end() && now - known->second >= kMinimum;
}

}  // namespace forestall::clients
