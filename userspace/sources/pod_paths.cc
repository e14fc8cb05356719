// SPDX-License-Identifier: Apache-2.0
#include "sources/pod_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/parse.h"
#include "model/api_pod.h"

namespace forestall::sources {
namespace {

constexpr std::string_view kSlice = ".slice";

// The last '-'-joined part of a slice's name ("kubepods-burstable-pod1_2.slice" → "pod1_2") with
// systemd's '_' converted back; a cgroupfs name unchanged.
struct Part {
  std::string name;
  std::string_view prefix;  // of a slice: the text before the part, without the '-'
};

Part last_part(std::string_view component) {
  if (!component.ends_with(kSlice)) return {std::string(component), {}};
  component.remove_suffix(kSlice.size());
  const auto dash = component.rfind('-');
  Part part;
  part.name = component.substr(dash == std::string_view::npos ? 0 : dash + 1);
  std::replace(part.name.begin(), part.name.end(), '_', '-');
  if (dash != std::string_view::npos) part.prefix = component.substr(0, dash);
  return part;
}

bool is_uid(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

// The UID in a component "pod<uid>" or "…-pod<uid_>.slice".
std::optional<std::string> uid_of(std::string_view component) {
  const auto part = last_part(component);
  if (!part.name.starts_with("pod")) return std::nullopt;
  auto uid = part.name.substr(3);
  if (!is_uid(uid)) return std::nullopt;
  return uid;
}

// The QoS class of the group that holds a pod: a QoS group, or the pods cgroup itself.
std::optional<QosClass> qos_of(std::string_view component) {
  const auto name = last_part(component).name;
  if (name == "burstable") return QosClass::burstable;
  if (name == "besteffort") return QosClass::best_effort;
  if (name == "kubepods") return QosClass::guaranteed;
  return std::nullopt;
}

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  auto rest = path.substr(1);
  while (!rest.empty()) parts.push_back(next_field(rest, '/'));
  return parts;
}

// The class of a pod whose parents are parts[0..count): a QoS group counts only inside "kubepods".
std::optional<QosClass> class_of_parents(const std::vector<std::string_view>& parts,
                                         std::size_t count) {
  if (count == 0) return std::nullopt;
  const auto qos = qos_of(parts[count - 1]);
  if (!qos || *qos == QosClass::guaranteed) return qos;
  if (count < 2 || qos_of(parts[count - 2]) != QosClass::guaranteed) return std::nullopt;
  return qos;
}

// `root` in the form of the systemd driver, followed by a slice for "kubepods".
std::string systemd_pods_cgroup(std::string_view root) {
  std::string path;
  std::string name;
  auto rest = root.substr(1);
  while (!rest.empty()) {
    std::string part = last_part(next_field(rest, '/')).name;
    std::replace(part.begin(), part.end(), '-', '_');
    name += name.empty() ? part : "-" + part;
    path += fmt::format("/{}{}", name, kSlice);
  }
  return fmt::format("{}/{}kubepods{}", path, name.empty() ? "" : name + "-", kSlice);
}

void append_pods(const std::string& group, const std::vector<std::string>& names, QosClass qos,
                 std::vector<PodPath>& pods) {
  for (const auto& name : names) {
    auto uid = uid_of(name);
    if (!uid) continue;
    const bool is_static = is_config_hash(*uid);
    pods.push_back({group + "/" + name, std::move(*uid), qos, is_static});
  }
}

}  // namespace

std::optional<PodPath> parse_pod_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  const auto parts = components(path);
  for (std::size_t i = parts.size(); i-- > 0;) {
    auto uid = uid_of(parts[i]);
    if (!uid) continue;
    const auto qos = class_of_parents(parts, i);
    if (!qos) continue;
    const auto* end = parts[i].data() + parts[i].size();
    PodPath pod;
    pod.cgroup = path.substr(0, static_cast<std::size_t>(end - path.data()));
    pod.static_pod = is_config_hash(*uid);
    pod.uid = std::move(*uid);
    pod.qos = *qos;
    return pod;
  }
  return std::nullopt;
}

Result<std::optional<std::string>> find_pods_cgroup(const kernel::CgroupTree& tree,
                                                    std::string_view cgroup_root) {
  while (cgroup_root.size() > 1 && cgroup_root.ends_with('/')) cgroup_root.remove_suffix(1);
  if (!cgroup_root.starts_with('/')) return std::optional<std::string>();
  const std::string candidates[] = {
      fmt::format("{}/kubepods", cgroup_root == "/" ? "" : cgroup_root),
      systemd_pods_cgroup(cgroup_root),
  };
  std::optional<std::string> empty_one;
  for (const auto& path : candidates) {
    std::vector<PodPath> pods;
    const auto listed = list_pods(tree, path, pods);
    if (!pods.empty()) return std::optional(path);
    if (!listed && kernel::is_removed(listed.error())) continue;
    if (!listed) return listed.error();
    if (!empty_one) empty_one = path;
  }
  return empty_one;
}

Result<void> list_pods(const kernel::CgroupTree& tree, const std::string& pods_cgroup,
                       std::vector<PodPath>& pods) {
  const auto top = TRY(tree.open(pods_cgroup));
  const auto names = TRY(top.children());
  append_pods(pods_cgroup, names, QosClass::guaranteed, pods);
  Result<void> result;
  for (const auto& name : names) {
    const auto qos = qos_of(name);
    if (!qos || *qos == QosClass::guaranteed) continue;
    const auto path = pods_cgroup + "/" + name;
    const auto group = tree.open(path);
    const auto children =
        group ? group->children() : Result<std::vector<std::string>>(group.error());
    if (children) append_pods(path, *children, *qos, pods);
    if (!children && !kernel::is_removed(children.error()) && result) result = children.error();
  }
  std::ranges::sort(pods, {}, &PodPath::cgroup);
  return result;
}

}  // namespace forestall::sources
