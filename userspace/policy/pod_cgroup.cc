// SPDX-License-Identifier: Apache-2.0
// Cgroup names in two steps, as in kubelet: the parts, then their form for the driver.
#include "policy/pod_cgroup.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "policy/qos.h"

namespace forestall::policy {
namespace {

using Parts = std::vector<std::string>;
constexpr std::string_view kSlice = ".slice";

// "a-b_c.slice" is the slice of the part "b-c" within "a".
std::string part_of_slice(std::string_view slice) {
  slice.remove_suffix(kSlice.size());
  if (const auto dash = slice.rfind('-'); dash != std::string_view::npos) {
    slice.remove_prefix(dash + 1);
  }
  std::string part(slice);
  std::replace(part.begin(), part.end(), '_', '-');
  return part;
}

Parts root_parts(const CgroupNaming& naming) {
  Parts parts;
  std::string_view rest = naming.root;
  while (!rest.empty()) {
    const auto part = next_field(rest, '/');
    if (part.empty() || part == ".") continue;
    const bool slice = naming.driver == CgroupDriver::systemd && part.ends_with(kSlice);
    parts.push_back(slice ? part_of_slice(part) : std::string(part));
  }
  return parts;
}

Parts pods_parts(const CgroupNaming& naming) {
  Parts parts = root_parts(naming);
  parts.emplace_back("kubepods");
  return parts;
}

std::string spell(const Parts& parts, CgroupDriver driver) {
  std::string path;
  std::string name;
  for (std::string part : parts) {
    path += '/';
    if (driver == CgroupDriver::cgroupfs) {
      path += part;
      continue;
    }
    std::replace(part.begin(), part.end(), '-', '_');
    if (!name.empty()) name += '-';
    name += part;
    path += name;
    path += kSlice;
  }
  return path;
}

}  // namespace

std::string pods_cgroup(const CgroupNaming& naming) {
  return spell(pods_parts(naming), naming.driver);
}

std::string pod_cgroup(const Pod& pod, const CgroupNaming& naming) {
  Parts parts = pods_parts(naming);
  switch (qos_class(pod)) {
    case QosClass::guaranteed: break;
    case QosClass::burstable: parts.emplace_back("burstable"); break;
    case QosClass::best_effort: parts.emplace_back("besteffort"); break;
  }
  parts.push_back("pod" + (pod.config_hash.empty() ? pod.uid : pod.config_hash));
  return spell(parts, naming.driver);
}

std::string container_cgroup(const Pod& pod, const PodContainer& container,
                             const CgroupNaming& naming) {
  if (container.id.empty()) return "";
  std::string path = pod_cgroup(pod, naming);
  path += '/';
  if (naming.driver == CgroupDriver::cgroupfs) return path + container.id;
  return path + naming.scope_prefix + container.id + ".scope";
}

}  // namespace forestall::policy
