// SPDX-License-Identifier: Apache-2.0
// The pods of one node as the API server reports them, and what of it the agent has not received.
//
// Tenants write pods, so nothing that a tenant may set makes another pod's facts, or a static pod:
// see facts_of_api_pod().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/fitted_pod.h"
#include "forestall/v1/service.pb.h"
#include "kubernetes/list_watch.h"
#include "model/pod.h"

namespace forestall::cluster {

class NodePods final : public kubernetes::ObjectSink {
 public:
  // A hundred times kubelet's default.
  static constexpr std::size_t kPodsMax = 11'000;
  // Of one request to the agent, which accepts 16 KiB.
  static constexpr std::size_t kRequestBytesMax = kPodBytesMax;

  // Ignores pods of other nodes.
  explicit NodePods(std::string node) : node_(std::move(node)) {}
  // Called with the UID of each pod that is deleted or terminating.
  void set_on_gone(std::function<void(std::string_view)> on_gone) { on_gone_ = std::move(on_gone); }

  void list_begins() override { listed_.clear(); }
  [[nodiscard]] Result<void> listed(const text::JsonValue& object) override;
  void list_ends() override;
  [[nodiscard]] Result<void> changed(kubernetes::ChangeType type,
                                     const text::JsonValue& object) override;

  // Whether a list was complete that is of this node.
  [[nodiscard]] bool complete() const { return complete_ && node_exists_; }
  // Whether the first list was empty: that of a node that does not exist is empty too.
  [[nodiscard]] bool needs_node() const { return complete_ && !node_exists_; }
  // The API server has the node.
  void confirm_node() { node_exists_ = true; }
  [[nodiscard]] std::size_t size() const { return pods_.size(); }
  // The pod whose cgroup is at or above `path`; null: none that is known, or a static pod, which
  // any tenant's pod may claim to mirror. `root`: the kubelet's cgroupRoot. Only the kubelet names
  // cgroups where the pods' cgroups are; users and tenants may use the same names anywhere else.
  [[nodiscard]] const Pod* of_cgroup(std::string_view path, const std::string& root) const;
  // The pod "namespace/name"; null: none that is known.
  [[nodiscard]] const Pod* named(std::string_view name) const;
  // Whether take_changes() has some.
  [[nodiscard]] bool has_changes() const { return !changed_.empty(); }
  // Pods that could not be read; the agent infers their facts.
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }
  // What one of them lacks; empty: none.
  [[nodiscard]] const std::string& unreadable_why() const { return unreadable_why_; }
  // The last pod of which tolerations, volumes or single containers were left out; empty: none.
  [[nodiscard]] const std::string& shortened() const { return shortened_; }

  // All pods, as calls of UpdatePods. REQUIRES: complete().
  [[nodiscard]] std::vector<v1::UpdatePodsRequest> take_list();
  // What changed since the last take; empty: nothing. REQUIRES: complete().
  [[nodiscard]] std::vector<v1::UpdatePodsRequest> take_changes();

 private:
  using Pods = std::map<std::string, std::vector<Pod>, std::less<>>;  // by metadata.uid

  // The UID of the object, and its facts; none: of another node, or unreadable.
  [[nodiscard]] Result<std::string> read(const text::JsonValue& object, std::vector<Pod>& facts);
  void note_unreadable(const std::string& uid, const std::string& why);

  const std::string node_;
  std::function<void(std::string_view)> on_gone_ = [](std::string_view) {};
  Pods pods_;
  Pods listed_;
  std::set<std::string, std::less<>> changed_;  // UIDs of facts that the agent has not received
  bool complete_ = false;
  bool node_exists_ = false;
  std::uint64_t unreadable_ = 0;
  std::string unreadable_why_;
  std::string shortened_;
};

}  // namespace forestall::cluster
