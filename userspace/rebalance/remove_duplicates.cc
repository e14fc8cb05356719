// SPDX-License-Identifier: Apache-2.0
// RemoveDuplicates. Two pods of a node are duplicates if they have the same owners and the same
// images. The first one stays, whatever its priority.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rebalance/eligible_nodes.h"
#include "rebalance/plugins.h"

namespace forestall::rebalance {
namespace {

// Namespace, kind and name of an owner, and the sorted images of its pods.
using OwnerKey = std::tuple<std::string_view, std::string_view, std::string_view, std::string>;
using PodsByNode = std::map<NodeIndex, std::vector<PodIndex>>;

bool excluded_owner(const ClusterPod& pod, const RemoveDuplicatesArgs& args) {
  return std::any_of(pod.owners.begin(), pod.owners.end(), [&](const PodOwner& owner) {
    return std::find(args.exclude_owner_kinds.begin(), args.exclude_owner_kinds.end(),
                     owner.kind) != args.exclude_owner_kinds.end();
  });
}

std::vector<std::string_view> sorted_images(const ClusterPod& pod) {
  std::vector<std::string_view> images = pod.images;
  std::sort(images.begin(), images.end());
  return images;
}

std::vector<OwnerKey> owner_keys(const ClusterPod& pod) {
  std::string joined;  // an image may be missing, so each has its mark
  for (const std::string_view image : sorted_images(pod)) (joined += '#') += image;
  std::vector<OwnerKey> keys;
  for (const PodOwner& owner : pod.owners) {
    keys.emplace_back(pod.pod_namespace, owner.kind, owner.name, joined);
  }
  return keys;
}

// Each owner with each image: what makes two pods of a node equal.
std::vector<std::string> content_keys(const ClusterPod& pod) {
  std::vector<std::string> keys;
  for (const PodOwner& owner : pod.owners) {
    for (const std::string_view image : pod.images) {
      std::string key(pod.pod_namespace);
      for (const std::string_view part : {owner.kind, owner.name, image}) {
        key += '/';
        key += part;
      }
      keys.push_back(std::move(key));
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

struct Duplicates {
  std::map<OwnerKey, PodsByNode> pods;  // without the one that stays on each node
  std::map<OwnerKey, std::int64_t> occurrences;
};

void find_on_node(PluginSession& session, const RemoveDuplicatesArgs& args, NodeIndex node,
                  Duplicates& found) {
  std::set<std::vector<std::string>> seen;
  for (const PodIndex each : live_pods(session.view(), node)) {
    const ClusterPod& pod = session.view().pod(each);
    session.consider(each);
    if (!args.namespaces.accepts(pod.pod_namespace) || !session.evictor().filter(each) ||
        !session.evictor().pre_eviction_filter(each)) {
      continue;
    }
    if (pod.owners.empty() || pod.images.empty() || excluded_owner(pod, args)) continue;
    const std::vector<OwnerKey> keys = owner_keys(pod);
    for (const OwnerKey& key : keys) ++found.occurrences[key];
    if (seen.insert(content_keys(pod)).second) continue;
    for (const OwnerKey& key : keys) found.pods[key][node].push_back(each);
  }
}

// How many of the session's nodes some of the pods may land on. A pod with fewer than two such
// nodes adds none.
std::int64_t target_nodes(PluginSession& session, EligibleNodes& eligible, const PodsByNode& pods) {
  std::set<const std::vector<NodeIndex>*> lists;
  std::set<NodeIndex> targets;
  for (const auto& [node, on_node] : pods) {
    for (const PodIndex each : on_node) {
      const std::vector<NodeIndex>& nodes = eligible.of(session.view().pod(each), {});
      if (nodes.size() == session.nodes().size()) return static_cast<std::int64_t>(nodes.size());
      if (nodes.size() > 1 && lists.insert(&nodes).second) {
        targets.insert(nodes.begin(), nodes.end());
      }
    }
  }
  return static_cast<std::int64_t>(targets.size());
}

// False: the total limit is reached.
bool evict_from_node(PluginSession& session, const std::vector<PodIndex>& pods,
                     std::int64_t limit) {
  if (static_cast<std::int64_t>(pods.size()) + 1 <= limit) return true;
  const SharedText reason(std::to_string(pods.size() + 1) +
                          " pods of the same owner and images on the node, at most " +
                          std::to_string(limit) + " if spread evenly");
  for (auto i = static_cast<std::size_t>(limit - 1); i < pods.size(); ++i) {
    const EvictResult result = session.evict(pods[i], reason);
    if (result == EvictResult::total_limit) return false;
    if (result == EvictResult::node_limit) return true;
  }
  return true;
}

}  // namespace

void run_plugin(PluginSession& session, const RemoveDuplicatesArgs& args) {
  Duplicates found;
  for (const NodeIndex node : session.nodes()) find_on_node(session, args, node, found);
  EligibleNodes eligible(session.view(), session.nodes());
  for (const auto& [owner, by_node] : found.pods) {
    const std::int64_t targets = target_nodes(session, eligible, by_node);
    if (targets < 2) continue;
    const std::int64_t limit = (found.occurrences[owner] + targets - 1) / targets;
    for (const auto& [node, pods] : by_node) {
      if (!evict_from_node(session, pods, limit)) return;
    }
  }
}

}  // namespace forestall::rebalance
