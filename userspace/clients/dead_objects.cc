// SPDX-License-Identifier: Apache-2.0
#include "clients/dead_objects.h"
#include "clients/kubelet_labels.h"

#include <dirent.h>

#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace forestall::clients {
namespace {

namespace cri = ::runtime::v1;

struct DirectoryDeleter {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

template <typename Object>
std::string label_of(const Object& object, const char* label) {
  const auto found = object.labels().find(label);
  return found == object.labels().end() ? "" : found->second;
}

// A container in state UNKNOWN may run.
bool may_run(cri::ContainerState state) {
  return state == cri::CONTAINER_RUNNING || state == cri::CONTAINER_UNKNOWN;
}

template <typename Object>
bool is_newer(const Object& a, const Object& b) {
  return std::tuple(a.created_at(), a.metadata().attempt()) >
         std::tuple(b.created_at(), b.metadata().attempt());
}

// Objects by the pod that they belong to. One without kubelet's label belongs to its sandbox, and
// is never part of a pod that is gone: only its creator decides whether it is needed.
class Pods {
 public:
  Pods(const cri::ListPodSandboxResponse& sandboxes, const cri::ListContainersResponse& containers,
       const std::optional<PodUids>& present)
      : present_(present) {
    for (const auto& sandbox : sandboxes.items()) {
      if (std::string uid = label_of(sandbox, kPodUidLabel); !uid.empty()) {
        uids_.emplace(sandbox.id(), std::move(uid));
      }
      if (sandbox.state() != cri::SANDBOX_READY) continue;
      active_.insert(of(sandbox));
      credible_ = credible_ || (present && present->contains(of(sandbox)));
    }
    for (const auto& container : containers.containers()) {
      if (may_run(container.state())) active_.insert(of(container));
    }
  }

  [[nodiscard]] std::string of(const cri::PodSandbox& sandbox) const {
    return of_sandbox(sandbox.id());
  }
  [[nodiscard]] std::string of(const cri::Container& container) const {
    std::string uid = label_of(container, kPodUidLabel);
    return uid.empty() ? of_sandbox(container.pod_sandbox_id()) : uid;
  }
  template <typename Object>
  [[nodiscard]] bool gone(const Object& object) const {
    const std::string uid = of(object);
    const bool of_kubelet = !label_of(object, kPodUidLabel).empty();
    return credible_ && of_kubelet && !present_->contains(uid) && !active_.contains(uid);
  }

 private:
  [[nodiscard]] std::string of_sandbox(const std::string& id) const {
    const auto found = uids_.find(id);
    return found == uids_.end() ? id : found->second;
  }

  const std::optional<PodUids>& present_;
  std::unordered_map<std::string, std::string> uids_;  // by sandbox
  std::unordered_set<std::string> active_;             // a sandbox is ready, or a container may run
  bool credible_ = false;
};

// The newest object of each key.
template <typename Key, typename Object>
class Newest {
 public:
  void add(const Key& key, const Object& object) {
    const Object*& kept = kept_[key];
    if (kept == nullptr || is_newer(object, *kept)) kept = &object;
  }
  [[nodiscard]] bool is(const Key& key, const Object& object) const {
    const auto found = kept_.find(key);
    return found != kept_.end() && found->second == &object;
  }

 private:
  std::map<Key, const Object*> kept_;
};

using Instance = std::pair<std::string, std::string>;  // pod and container name

Instance instance_of(const Pods& pods, const cri::Container& container) {
  std::string name = label_of(container, kContainerNameLabel);
  if (name.empty()) name = container.metadata().name();
  return {pods.of(container), std::move(name)};
}

}  // namespace

Result<std::optional<PodUids>> pods_with_directory(const std::string& pods_directory) {
  if (pods_directory.empty()) return std::optional<PodUids>();
  const std::unique_ptr<DIR, DirectoryDeleter> directory(::opendir(pods_directory.c_str()));
  if (directory == nullptr) return errno_error("opendir", pods_directory);
  PodUids uids;
  errno = 0;
  while (const dirent* entry = ::readdir(directory.get())) uids.emplace(entry->d_name);
  if (errno != 0) return errno_error("readdir", pods_directory);
  return std::optional<PodUids>(std::move(uids));
}

DeadObjects dead_objects(const cri::ListPodSandboxResponse& sandboxes,
                         const cri::ListContainersResponse& containers,
                         const std::optional<PodUids>& present) {
  const Pods pods(sandboxes, containers, present);
  Newest<Instance, cri::Container> newest_dead;
  for (const auto& container : containers.containers()) {
    if (container.state() != cri::CONTAINER_EXITED) continue;
    newest_dead.add(instance_of(pods, container), container);
  }
  DeadObjects dead;
  std::unordered_set<std::string> occupied;  // sandboxes with a container that stays
  for (const auto& container : containers.containers()) {
    const bool gone = pods.gone(container);
    const bool exited = container.state() == cri::CONTAINER_EXITED;
    if (exited && (gone || !newest_dead.is(instance_of(pods, container), container))) {
      dead.containers.push_back(container.id());
    } else if (!gone) {
      occupied.insert(container.pod_sandbox_id());
    }
  }
  Newest<std::string, cri::PodSandbox> newest;
  for (const auto& sandbox : sandboxes.items()) newest.add(pods.of(sandbox), sandbox);
  for (const auto& sandbox : sandboxes.items()) {
    if (sandbox.state() != cri::SANDBOX_NOTREADY || occupied.contains(sandbox.id())) continue;
    if (!pods.gone(sandbox) && newest.is(pods.of(sandbox), sandbox)) continue;
    dead.sandboxes.push_back(sandbox.id());
  }
  return dead;
}

}  // namespace forestall::clients
