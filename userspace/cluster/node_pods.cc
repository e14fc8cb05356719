// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "intake/pod_list.h"
#include "kubernetes/api_status.h"
#include "messages/convert.h"
#include "model/api_pod.h"
#include "policy/pod_cgroup.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

std::string uid_of(const text::JsonValue& object) {
  const auto metadata = object.find("metadata");
  if (!metadata || !*metadata) return "";
  const auto uid = (*metadata)->text("uid");
  return uid ? *uid : "";
}

// The UID in a name that the kubelet gives to a cgroup: "pod<uid>" or, with systemd,
// "kubepods-burstable-pod<uid with '_' for '-'>.slice"; empty: none.
std::string uid_in_name(std::string_view name) {
  if (name.ends_with(".slice")) {
    name.remove_suffix(std::string_view(".slice").size());
    const std::size_t dash = name.rfind('-');
    if (dash == std::string_view::npos) return "";
    name.remove_prefix(dash + 1);
  }
  if (!name.starts_with("pod")) return "";
  std::string uid(name.substr(3));
  std::ranges::replace(uid, '_', '-');
  return uid;
}

// Whether `path` is at or below the cgroup of the pod, with either driver.
bool is_in_cgroup_of(const Pod& pod, std::string_view path, const std::string& root) {
  for (const CgroupDriver driver : {CgroupDriver::cgroupfs, CgroupDriver::systemd}) {
    const std::string own = policy::pod_cgroup(pod, {driver, root});
    if (path == own || path.starts_with(own + '/')) return true;
  }
  return false;
}

// Fills requests with at most NodePods::kRequestBytesMax bytes of pods each.
class RequestPacker {
 public:
  RequestPacker() : requests_(1) {}

  void add(const std::string& uid, const std::vector<Pod>& facts) {
    for (const Pod& pod : facts) {
      v1::Pod message = messages::to_proto(pod);
      make_room(message.ByteSizeLong());
      *requests_.back().add_pods() = std::move(message);
    }
    if (facts.empty()) remove(uid);
  }
  std::vector<v1::UpdatePodsRequest> take() && { return std::move(requests_); }

 private:
  void remove(const std::string& uid) {
    make_room(uid.size());
    requests_.back().add_removed(uid);
  }
  void make_room(std::size_t bytes) {
    if (bytes_ + bytes > NodePods::kRequestBytesMax) {
      requests_.emplace_back();
      bytes_ = 0;
    }
    bytes_ += bytes + 8;  // and its tag and length
  }

  std::vector<v1::UpdatePodsRequest> requests_;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<std::string> NodePods::read(const text::JsonValue& object, std::vector<Pod>& facts) {
  auto listed = intake::read_listed_pod(object);
  if (!listed) {
    std::string uid = uid_of(object);
    if (uid.empty()) return listed.error();
    note_unreadable(uid, listed.error().text());
    return uid;
  }
  std::string uid = listed->pod.uid;
  if (listed->node != node_) return uid;
  const Fit fitted = fit(listed->pod);
  if (fitted == Fit::too_large) {
    note_unreadable(uid, "its names are too long");
    return uid;
  }
  if (fitted == Fit::shortened) {
    shortened_ = kubernetes::bounded_text(listed->pod.pod_namespace + '/' + listed->pod.name);
  }
  facts = facts_of_api_pod(std::move(listed->pod));
  return uid;
}

// The agent infers the facts.
void NodePods::note_unreadable(const std::string& uid, const std::string& why) {
  ++unreadable_;
  unreadable_why_ = kubernetes::bounded_text(fmt::format("pod {}: {}", uid, why));
}

const Pod* NodePods::of_cgroup(std::string_view path, const std::string& root) const {
  for (std::string_view rest = path; !rest.empty();) {
    const auto found = pods_.find(uid_in_name(next_field(rest, '/')));
    if (found == pods_.end()) continue;
    const Pod& pod = found->second.front();
    if (is_in_cgroup_of(pod, path, root)) return &pod;
  }
  return nullptr;
}

const Pod* NodePods::named(std::string_view name) const {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return nullptr;
  const auto found = std::ranges::find_if(pods_, [&](const auto& each) {
    const Pod& pod = each.second.front();
    return pod.pod_namespace == name.substr(0, slash) && pod.name == name.substr(slash + 1);
  });
  return found == pods_.end() ? nullptr : &found->second.front();
}

Result<void> NodePods::listed(const text::JsonValue& object) {
  std::vector<Pod> facts;
  std::string uid = TRY(read(object, facts));
  if (facts.empty()) return {};
  if (!listed_.emplace(std::move(uid), std::move(facts)).second) {
    return error("two pods of the list have the same UID");
  }
  if (listed_.size() > kPodsMax) return error(fmt::format("more than {} pods", kPodsMax));
  return {};
}

void NodePods::list_ends() {
  for (const auto& [uid, facts] : listed_) {
    const auto before = pods_.find(uid);
    if (before == pods_.end() || before->second != facts) changed_.insert(uid);
  }
  for (const auto& [uid, facts] : pods_) {
    if (!listed_.contains(uid)) changed_.insert(uid);
  }
  // A static pod that is gone from the list is known under its hash too.
  for (const auto& [uid, facts] : pods_) {
    if (listed_.contains(uid)) continue;
    for (const Pod& pod : facts) changed_.insert(pod.uid);
  }
  for (const auto& [uid, facts] : pods_) {
    if (!listed_.contains(uid)) on_gone_(uid);
  }
  for (const auto& [uid, facts] : listed_) {
    if (facts.front().terminating) on_gone_(uid);
  }
  pods_ = std::exchange(listed_, {});
  complete_ = true;
  node_exists_ = node_exists_ || !pods_.empty();
}

Result<void> NodePods::changed(kubernetes::ChangeType type, const text::JsonValue& object) {
  std::vector<Pod> facts;
  std::string uid = TRY(read(object, facts));
  if (type == kubernetes::ChangeType::deleted) facts.clear();
  const bool terminating = !facts.empty() && facts.front().terminating;
  if (type == kubernetes::ChangeType::deleted || terminating) on_gone_(uid);
  const auto before = pods_.find(uid);
  if (before != pods_.end()) {
    if (before->second == facts) return {};
    for (const Pod& pod : before->second) changed_.insert(pod.uid);
    pods_.erase(before);
  }
  if (!facts.empty()) {
    if (pods_.size() >= kPodsMax) return error(fmt::format("more than {} pods", kPodsMax));
    changed_.insert(uid);
    pods_.emplace(std::move(uid), std::move(facts));
    node_exists_ = true;
  }
  return {};
}

std::vector<v1::UpdatePodsRequest> NodePods::take_list() {
  changed_.clear();
  RequestPacker packer;
  for (const auto& [uid, facts] : pods_) packer.add(uid, facts);
  std::vector<v1::UpdatePodsRequest> requests = std::move(packer).take();
  requests.front().set_begins_list(true);
  requests.back().set_ends_list(true);
  return requests;
}

std::vector<v1::UpdatePodsRequest> NodePods::take_changes() {
  if (changed_.empty()) return {};
  RequestPacker packer;
  auto gone = changed_;
  for (const auto& [uid, facts] : pods_) {
    const bool affected =
        std::ranges::any_of(facts, [this](const Pod& pod) { return changed_.contains(pod.uid); });
    if (!affected) continue;
    packer.add(uid, facts);
    // Two pods may claim to mirror the same static pod, and one of them be gone.
    for (const Pod& pod : facts) gone.erase(pod.uid);
  }
  static const std::vector<Pod> kGone;
  for (const std::string& uid : gone) packer.add(uid, kGone);
  changed_.clear();
  return std::move(packer).take();
}

}  // namespace forestall::cluster
