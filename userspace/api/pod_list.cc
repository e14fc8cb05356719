// SPDX-License-Identifier: Apache-2.0
// Converts core/v1 Pod to model/pod.h, key by key (staging/src/k8s.io/api/core/v1/types.go).
#include "api/pod_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "api/json_value.h"

namespace forestall::api {
namespace {

// pkg/kubelet/types/pod_update.go.
constexpr std::string_view kSourceAnnotation = "kubernetes.io/config.source";
constexpr std::string_view kMirrorAnnotation = "kubernetes.io/config.mirror";
constexpr std::string_view kHashAnnotation = "kubernetes.io/config.hash";
constexpr std::string_view kApiSource = "api";

// The string member `key`, which must exist and not be empty.
Result<std::string> required_text(const JsonValue& object, std::string_view key) {
  const JsonValue member = TRY(object.at(key));
  const std::string_view text = TRY(member.string());
  if (text.empty()) return member.wrong("must not be empty");
  return std::string(text);
}

// A null is 0, as in apimachinery's Quantity.UnmarshalJSON().
Result<Quantity> read_quantity(const JsonValue& value) {
  if (value.is_null()) return Quantity{};
  const std::string text = TRY(value.string_or_number());
  const Result<Quantity> quantity = parse_quantity(text);
  if (!quantity) return value.wrong(fmt::format("{}: '{}'", quantity.error().text(), text));
  if (quantity->nanos < 0) return value.wrong(fmt::format("must not be negative: '{}'", text));
  return *quantity;
}

// Overwrites the amounts in `list` that `amounts` contains.
Result<void> read_amounts(const JsonValue& amounts, ResourceList& list) {
  return amounts.each_member([&](std::string_view name, const JsonValue& value) -> Result<void> {
    if (name == "cpu") {
      list.cpu = TRY(read_quantity(value));
    } else if (name == "memory") {
      list.memory = TRY(read_quantity(value));
    } else if (name == "ephemeral-storage") {
      list.ephemeral_storage = TRY(read_quantity(value));
    }
    return {};
  });
}

// Reads the resource list `key` of `object`, if it exists.
Result<void> read_list(const JsonValue& object, std::string_view key, ResourceList& list) {
  const auto amounts = TRY(object.find(key));
  return amounts ? read_amounts(*amounts, list) : Result<void>();
}

Result<PodContainer> read_container(const JsonValue& object) {
  PodContainer container;
  container.name = TRY(required_text(object, "name"));
  container.restartable = TRY(object.text("restartPolicy")) == "Always";
  if (const auto resources = TRY(object.find("resources"))) {
    TRY(read_list(*resources, "requests", container.requests));
    TRY(read_list(*resources, "limits", container.limits));
  }
  return container;
}

Result<void> read_containers(const JsonValue& spec, std::string_view key,
                             std::vector<PodContainer>& containers) {
  return spec.each_in(key, [&](const JsonValue& item) -> Result<void> {
    PodContainer container = TRY(read_container(item));
    const bool twice =
        std::any_of(containers.begin(), containers.end(),
                    [&](const PodContainer& each) { return each.name == container.name; });
    if (twice) return item.wrong(fmt::format("duplicate container '{}'", container.name));
    containers.push_back(std::move(container));
    return {};
  });
}

Result<void> read_empty_dir(const JsonValue& source, PodVolume& volume) {
  volume.kind = VolumeKind::empty_dir;
  const std::string medium = TRY(source.text("medium"));
  volume.in_memory = medium == "Memory";
  volume.default_medium = medium.empty();
  if (const auto limit = TRY(source.find("sizeLimit"))) {
    volume.size_limit = TRY(read_quantity(*limit));
  }
  return {};
}

Result<PodVolume> read_volume(const JsonValue& object) {
  PodVolume volume;
  volume.name = TRY(required_text(object, "name"));
  if (const auto source = TRY(object.find("emptyDir"))) {
    TRY(read_empty_dir(*source, volume));
  } else if (TRY(object.find("hostPath"))) {
    volume.kind = VolumeKind::host_path;
  } else if (TRY(object.find("configMap"))) {
    volume.kind = VolumeKind::config_map;
  } else if (TRY(object.find("gitRepo"))) {
    volume.kind = VolumeKind::git_repo;
  }
  return volume;
}

Result<Toleration> read_toleration(const JsonValue& object) {
  Toleration toleration;
  toleration.key = TRY(object.text("key"));
  toleration.operator_ = TRY(object.text("operator"));
  toleration.value = TRY(object.text("value"));
  toleration.effect = TRY(object.text("effect"));
  return toleration;
}

// pkg/kubelet/types/pod_update.go: a pod whose source is not the API is static; its copy in the API
// is a mirror pod, whatever its source.
Result<void> read_annotations(const JsonValue& annotations, Pod& pod) {
  if (const auto source = TRY(annotations.find(kSourceAnnotation))) {
    const bool from_api = TRY(source->string()) == kApiSource;
    pod.origin = from_api ? PodOrigin::api : PodOrigin::static_file;
  }
  if (TRY(annotations.find(kMirrorAnnotation))) pod.origin = PodOrigin::mirror;
  std::string hash = TRY(annotations.text(kHashAnnotation));
  if (pod.origin != PodOrigin::api) pod.config_hash = std::move(hash);
  return {};
}

Result<void> read_metadata(const JsonValue& metadata, Pod& pod) {
  pod.uid = TRY(required_text(metadata, "uid"));
  pod.name = TRY(required_text(metadata, "name"));
  pod.pod_namespace = TRY(metadata.text("namespace"));
  pod.terminating = TRY(metadata.find("deletionTimestamp")).has_value();
  const auto annotations = TRY(metadata.find("annotations"));
  return annotations ? read_annotations(*annotations, pod) : Result<void>();
}

// Seconds beyond the range of a Duration (292 years) are practically unlimited.
Duration bounded_seconds(std::int64_t seconds) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max() / 1'000'000'000;
  return std::chrono::seconds(std::clamp(seconds, -kMax, kMax));
}

Result<void> read_scalars(const JsonValue& spec, Pod& pod) {
  if (const auto priority = TRY(spec.find("priority"))) {
    const std::int64_t value = TRY(priority->integer());
    if (value != static_cast<std::int32_t>(value)) {
      return priority->wrong(fmt::format("does not fit into 32 bits: {}", value));
    }
    pod.priority = static_cast<std::int32_t>(value);
  }
  pod.priority_class = TRY(spec.text("priorityClassName"));
  if (const auto grace = TRY(spec.find("terminationGracePeriodSeconds"))) {
    pod.termination_grace = bounded_seconds(TRY(grace->integer()));
  }
  return {};
}

// spec.resources.
Result<void> read_pod_resources(const JsonValue& resources, Pod& pod) {
  if (const auto requests = TRY(resources.find("requests"))) {
    pod.requests.emplace();
    if (auto read = read_amounts(*requests, *pod.requests); !read) return read;
  }
  if (const auto limits = TRY(resources.find("limits"))) {
    pod.limits.emplace();
    if (auto read = read_amounts(*limits, *pod.limits); !read) return read;
  }
  return {};
}

Result<void> read_spec(const JsonValue& spec, ListedPod& listed) {
  Pod& pod = listed.pod;
  listed.node = TRY(spec.text("nodeName"));
  TRY(read_scalars(spec, pod));
  const auto resources = TRY(spec.find("resources"));
  if (resources) TRY(read_pod_resources(*resources, pod));
  TRY(read_list(spec, "overhead", pod.overhead));
  TRY(read_containers(spec, "initContainers", pod.init_containers));
  TRY(read_containers(spec, "containers", pod.containers));
  TRY(spec.append_all("volumes", read_volume, pod.volumes));
  return spec.append_all("tolerations", read_toleration, pod.tolerations);
}

PodPhase phase_of(std::string_view text) {
  if (text == "Pending") return PodPhase::pending;
  if (text == "Running") return PodPhase::running;
  if (text == "Succeeded") return PodPhase::succeeded;
  if (text == "Failed") return PodPhase::failed;
  return PodPhase::unknown;
}

// "containerd://4f2e…" without the runtime.
std::string_view without_scheme(std::string_view id) {
  const std::size_t scheme = id.find("://");
  return scheme == std::string_view::npos ? id : id.substr(scheme + 3);
}

// Sets what the statuses contain about `containers`, by name. Ignores a status without a container,
// which belongs to an older revision of the pod.
Result<void> read_statuses(const JsonValue& status, std::string_view key,
                           std::vector<PodContainer>& containers) {
  return status.each_in(key, [&](const JsonValue& item) -> Result<void> {
    const std::string name = TRY(required_text(item, "name"));
    const std::string id = TRY(item.text("containerID"));
    const auto found = std::find_if(containers.begin(), containers.end(),
                                    [&](const PodContainer& each) { return each.name == name; });
    if (found == containers.end()) return {};
    found->id = without_scheme(id);
    return read_list(item, "allocatedResources", found->requests);
  });
}

Result<void> read_status(const JsonValue& status, Pod& pod) {
  pod.phase = phase_of(TRY(status.text("phase")));
  if (const auto qos = TRY(status.find("qosClass"))) {
    const std::string_view text = TRY(qos->string());
    pod.status_qos = parse_qos_class(text);
    if (!pod.status_qos && !text.empty()) {
      return qos->wrong(
          fmt::format("expected Guaranteed, Burstable or BestEffort, found '{}'", text));
    }
  }
  TRY(read_statuses(status, "initContainerStatuses", pod.init_containers));
  return read_statuses(status, "containerStatuses", pod.containers);
}

Result<ListedPod> read_pod(const JsonValue& object) {
  ListedPod listed;
  const JsonValue metadata = TRY(object.at("metadata"));
  TRY(read_metadata(metadata, listed.pod));
  const auto spec = TRY(object.find("spec"));
  if (spec) TRY(read_spec(*spec, listed));
  const auto status = TRY(object.find("status"));
  if (status) TRY(read_status(*status, listed.pod));
  return listed;
}

// " (default/web-0)", as far as the object has these names.
std::string label_of(const JsonValue& object) {
  const auto metadata = object.find("metadata");
  if (!metadata || !*metadata) return "";
  const auto name = (*metadata)->text("name");
  const auto space = (*metadata)->text("namespace");
  if (!name || name->empty()) return "";
  if (!space || space->empty()) return fmt::format(" ({})", *name);
  return fmt::format(" ({}/{})", *space, *name);
}

// Refuses an item that is not a pod. Items of a PodList have no kind.
Result<void> check_item_kind(const JsonValue& item, bool may_lack_kind) {
  const std::string kind = TRY(item.text("kind"));
  if (kind == "Pod" || (kind.empty() && may_lack_kind)) return {};
  if (kind.empty()) return item.wrong("'kind' is missing");
  return item.wrong(fmt::format("kind is {}, expected Pod", kind));
}

// Collects pods in order and refuses duplicate UIDs.
class Collector {
 public:
  Result<void> add(const JsonValue& item, std::string_view place, bool may_lack_kind) {
    // Paths in messages start at the pod; its position in the list is prepended with its name.
    const JsonValue object = item.as_root();
    const std::string where = fmt::format("{}{}", place, label_of(object));
    if (auto checked = check_item_kind(object, may_lack_kind); !checked) {
      return checked.error().in(where);
    }
    Result<ListedPod> listed = read_pod(object);
    if (!listed) return listed.error().in(where);
    const auto [first, is_new] = places_.try_emplace(listed->pod.uid, where);
    if (!is_new) {
      return error(fmt::format("{}: metadata.uid: same UID as {}: {}", where, first->second,
                               listed->pod.uid));
    }
    pods_.push_back(std::move(*listed));
    return {};
  }

  std::vector<ListedPod> take() && { return std::move(pods_); }

 private:
  std::vector<ListedPod> pods_;
  std::unordered_map<std::string, std::string> places_;  // by UID
};

Result<void> check_version(const JsonValue& root) {
  const auto version = TRY(root.find("apiVersion"));
  if (!version) return {};
  const std::string_view text = TRY(version->string());
  if (text == "v1") return {};
  return version->wrong(fmt::format("expected v1, found '{}'", text));
}

}  // namespace

Result<std::vector<ListedPod>> parse_listed_pods(std::string_view json) {
  const JsonDocument document = TRY(JsonDocument::parse(json));
  const JsonValue root = document.root();
  TRY(check_version(root));
  const std::string kind = TRY(root.text("kind"));
  if (kind.empty()) {
    return error("'kind' is missing: expected the output of `kubectl get pods -o json`");
  }
  Collector collector;
  std::size_t index = 0;
  const auto add_item = [&](const JsonValue& item) {
    return collector.add(item, fmt::format("items[{}]", index++), kind == "PodList");
  };
  if (kind == "Pod") {
    TRY(collector.add(root, "the Pod", false));
  } else if (kind == "List" || kind == "PodList") {
    // Some clients print an empty list as null.
    TRY(root.each_in("items", add_item));
  } else {
    return error(fmt::format("kind is {}, expected List, PodList or Pod", kind));
  }
  return std::move(collector).take();
}

Result<std::vector<Pod>> parse_pod_list(std::string_view json) {
  std::vector<ListedPod> listed = TRY(parse_listed_pods(json));
  std::vector<Pod> pods;
  pods.reserve(listed.size());
  for (ListedPod& each : listed) pods.push_back(std::move(each.pod));
  return pods;
}

}  // namespace forestall::api
