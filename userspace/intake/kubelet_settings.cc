// SPDX-License-Identifier: Apache-2.0
#include "intake/kubelet_settings.h"

namespace forestall::intake {

void put_over(KubeletSettings& under, const KubeletSettings& over,
              std::vector<text::Finding>* warnings) {
  for_each_setting([&](const char* key, auto member) {
    const auto& above = over.*member;
    if (!above) return;
    auto& below = under.*member;
    if (below && warnings != nullptr) {
      warnings->push_back({above->key, "'" + std::string(key) +
                                           "' takes precedence here; the value at " +
                                           to_string(below->key) + " is ignored"});
    }
    below = above;
  });
  if (over.eviction_hard) under.hard_by_flag = over.hard_by_flag;
}

std::string cgroup_root_path(const std::string& given) {
  std::string path = given.starts_with('/') ? given : "/" + given;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace forestall::intake
