// SPDX-License-Identifier: Apache-2.0
#include "descheduler/evictor_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "model/duration.h"

namespace forestall::descheduler {
namespace {

using rebalance::PodProtection;

constexpr std::array kDefaultProtections{
    PodProtection::pods_with_local_storage, PodProtection::system_critical_pods,
    PodProtection::failed_bare_pods, PodProtection::daemon_set_pods};
constexpr std::array kExtraProtections{PodProtection::pods_with_pvc,
                                       PodProtection::pods_without_pdb,
                                       PodProtection::pods_with_resource_claims};

// A flag that the protections replaced: whether the protection holds if it is `protects`.
struct DeprecatedFlag {
  const char* key;
  PodProtection protection;
  bool protects;
};
constexpr std::array kDeprecatedFlags{
    DeprecatedFlag{"evictLocalStoragePods", PodProtection::pods_with_local_storage, false},
    DeprecatedFlag{"evictDaemonSetPods", PodProtection::daemon_set_pods, false},
    DeprecatedFlag{"evictSystemCriticalPods", PodProtection::system_critical_pods, false},
    DeprecatedFlag{"evictFailedBarePods", PodProtection::failed_bare_pods, false},
    DeprecatedFlag{"ignorePvcPods", PodProtection::pods_with_pvc, true},
    DeprecatedFlag{"ignorePodsWithoutPDB", PodProtection::pods_without_pdb, true}};

template <typename Allowed>
std::vector<PodProtection> read_protections(PolicyMap& map, const char* key,
                                            const Allowed& allowed) {
  std::vector<PodProtection> protections;
  for (const std::string& word : map.texts(key)) {
    const auto parsed = rebalance::parse_protection(word);
    const std::string name =
        key == std::string_view("extraEnabled") ? "ExtraEnabled" : "DefaultDisabled";
    if (!parsed || std::find(allowed.begin(), allowed.end(), *parsed) == allowed.end()) {
      std::vector<std::string_view> words;
      for (const PodProtection each : allowed) words.push_back(rebalance::to_string(each));
      map.error(key, fmt::format("invalid pod protection policy in {}: \"{}\". Valid options are: "
                                 "[{}]",
                                 name, word, fmt::join(words, " ")));
      continue;
    }
    if (std::find(protections.begin(), protections.end(), *parsed) != protections.end()) {
      map.error(key, fmt::format("PodProtections.{} contains duplicate entries", name));
      continue;
    }
    protections.push_back(*parsed);
  }
  return protections;
}

void read_storage_classes(PolicyMap& protections, rebalance::DefaultEvictorArgs& out) {
  PolicyMap config = protections.map("config");
  PolicyMap with_pvc = config.map("PodsWithPVC");
  std::size_t index = 0;
  for (const text::YamlNode& item : with_pvc.list("protectedStorageClasses")) {
    PolicyMap each(&item, with_pvc.errors(), "protectedStorageClasses.");
    const std::string name = each.text("name").value_or("");
    each.finish();
    if (name.empty()) {
      with_pvc.errors().refuse(
          item.at,
          fmt::format("PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[{}] name cannot "
                      "be empty",
                      index));
    }
    out.protected_storage_classes.insert(name);
    ++index;
  }
  with_pvc.finish();
  config.finish();
}

void read_all_protections(PolicyMap& args, rebalance::DefaultEvictorArgs& out) {
  PolicyMap map = args.map("podProtections");
  const auto disabled = read_protections(map, "defaultDisabled", kDefaultProtections);
  const auto extra = read_protections(map, "extraEnabled", kExtraProtections);
  read_storage_classes(map, out);
  map.finish();
  bool deprecated = false;
  out.protections.clear();
  for (const DeprecatedFlag& flag : kDeprecatedFlags) {
    const bool set = args.boolean(flag.key);
    deprecated |= set;
    if (set == flag.protects) out.protections.insert(flag.protection);
  }
  if (disabled.empty() && extra.empty()) return;
  if (deprecated) {
    args.error("podProtections",
               "cannot use Deprecated fields alongside PodProtections.ExtraEnabled or "
               "PodProtections.DefaultDisabled");
  }
  out.protections = {kDefaultProtections.begin(), kDefaultProtections.end()};
  for (const PodProtection each : disabled) out.protections.erase(each);
  out.protections.insert(extra.begin(), extra.end());
}

void read_threshold(PolicyMap& args, const std::vector<rebalance::PriorityClass>* classes,
                    rebalance::DefaultEvictorArgs& out) {
  PolicyMap map = args.map("priorityThreshold");
  const auto value = map.small_integer("value");
  const std::string name = map.text("name").value_or("");
  map.finish();
  if (value && !name.empty()) {
    args.error("priorityThreshold",
               "priority threshold misconfigured, only one of priorityThreshold fields can be set");
    return;
  }
  std::int64_t resolved = value.value_or(rebalance::kSystemCriticalPriority);
  if (!name.empty() && classes != nullptr) {
    const auto found = std::find_if(classes->begin(), classes->end(),
                                    [&](const auto& each) { return each.name == name; });
    if (found == classes->end()) {
      args.errors().add(args.at("priorityThreshold"),
                        fmt::format("unable to get priority value from the priority class: "
                                    "priorityclasses.scheduling.k8s.io \"{}\" not found",
                                    name));
      return;
    }
    resolved = found->value;
  }
  if (resolved > rebalance::kSystemCriticalPriority) {
    args.errors().add(args.at("priorityThreshold"),
                      fmt::format("priority threshold can't be greater than {}",
                                  rebalance::kSystemCriticalPriority));
    return;
  }
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
  out.priority_threshold = static_cast<std::int32_t>(std::max(resolved, kLeast));
}

}  // namespace

rebalance::DefaultEvictorArgs read_evictor_args(
    PolicyMap& args, const std::vector<rebalance::PriorityClass>* classes) {
  rebalance::DefaultEvictorArgs out;
  if (const auto text = args.text("nodeSelector")) {
    const auto parsed = rebalance::parse_selector(*text);
    if (parsed) out.node_selector = *parsed;
    if (!parsed) args.error("nodeSelector", parsed.error().message);
  }
  out.label_selector =
      args.selector("labelSelector", "could not get selector from label selector: ");
  out.namespace_selector = args.selector(
      "namespaceLabelSelector", "unable to convert namespaceLabelSelector to label selector: ");
  read_threshold(args, classes, out);
  out.node_fit = args.boolean("nodeFit");
  out.min_replicas = args.amount("minReplicas").value_or(0);
  if (const auto age = args.text("minPodAge")) {
    const auto parsed = parse_duration(*age);
    if (parsed) out.min_pod_age = *parsed;
    if (!parsed) args.error("minPodAge", parsed.error().message);
  }
  const std::string policy = args.text("noEvictionPolicy").value_or("");
  if (policy == "Mandatory") out.no_eviction = rebalance::NoEvictionPolicy::mandatory;
  if (!policy.empty() && policy != "Mandatory" && policy != "Preferred") {
    args.error("noEvictionPolicy",
               "noEvictionPolicy accepts only [\"Preferred\" \"Mandatory\"] values");
  }
  read_all_protections(args, out);
  return out;
}

}  // namespace forestall::descheduler
