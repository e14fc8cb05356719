// SPDX-License-Identifier: Apache-2.0
// Converts core/v1 Pod to model/pod.h, key by key (staging/src/k8s.io/api/core/v1/types.go).
#include "intake/pod_list.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/parse.h"
#include "model/api_pod.h"
#include "text/json_value.h"
#include "text/list_splitter.h"

namespace forestall::intake {
namespace {

// pkg/kubelet/types/pod_update.go.
constexpr std::string_view kSourceAnnotation = "kubernetes.io/config.source";
constexpr std::string_view kMirrorAnnotation = "kubernetes.io/config.mirror";
constexpr std::string_view kHashAnnotation = "kubernetes.io/config.hash";
constexpr std::string_view kApiSource = "api";

constexpr std::string_view kProtectedAnnotation = "forestall.dev/protected";
constexpr std::string_view kPreferAnnotation = "forestall.dev/prefer";
constexpr std::string_view kAvoidAnnotation = "forestall.dev/avoid";

// The API server stores no object of more than 1.5 MiB.
constexpr std::size_t kObjectBytesMax = std::size_t{4} << 20;

// The string member `key`, which must exist and not be empty.
Result<std::string> required_text(const text::JsonValue& object, std::string_view key) {
  const text::JsonValue member = TRY(object.at(key));
  const std::string_view text = TRY(member.string());
  if (text.empty()) return member.wrong("must not be empty");
  return std::string(text);
}

// A null is 0, as in apimachinery's Quantity.UnmarshalJSON().
Result<Quantity> read_quantity(const text::JsonValue& value) {
  if (value.is_null()) return Quantity{};
  const std::string text = TRY(value.string_or_number());
  const Result<Quantity> quantity = parse_quantity(text);
  if (!quantity) return value.wrong(fmt::format("{}: '{}'", quantity.error().text(), text));
  if (quantity->nanos < 0) return value.wrong(fmt::format("must not be negative: '{}'", text));
  return *quantity;
}

// Overwrites the amounts in `list` that `amounts` contains.
Result<void> read_amounts(const text::JsonValue& amounts, ResourceList& list) {
  return amounts.each_member(
      [&](std::string_view name, const text::JsonValue& value) -> Result<void> {
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
Result<void> read_list(const text::JsonValue& object, std::string_view key, ResourceList& list) {
  const auto amounts = TRY(object.find(key));
  return amounts ? read_amounts(*amounts, list) : Result<void>();
}

Result<PodContainer> read_container(const text::JsonValue& object) {
  PodContainer container;
  container.name = TRY(required_text(object, "name"));
  container.restartable = TRY(object.text("restartPolicy")) == "Always";
  if (const auto resources = TRY(object.find("resources"))) {
    TRY(read_list(*resources, "requests", container.requests));
    TRY(read_list(*resources, "limits", container.limits));
  }
  return container;
}

Result<void> read_containers(const text::JsonValue& spec, std::string_view key,
                             std::vector<PodContainer>& containers) {
  return spec.each_in(key, [&](const text::JsonValue& item) -> Result<void> {
    PodContainer container = TRY(read_container(item));
    const bool twice =
        std::any_of(containers.begin(), containers.end(),
                    [&](const PodContainer& each) { return each.name == container.name; });
    if (twice) return item.wrong(fmt::format("duplicate container '{}'", container.name));
    containers.push_back(std::move(container));
    return {};
  });
}

Result<void> read_empty_dir(const text::JsonValue& source, PodVolume& volume) {
  volume.kind = VolumeKind::empty_dir;
  const std::string medium = TRY(source.text("medium"));
  volume.in_memory = medium == "Memory";
  volume.default_medium = medium.empty();
  if (const auto limit = TRY(source.find("sizeLimit"))) {
    volume.size_limit = TRY(read_quantity(*limit));
  }
  return {};
}

Result<PodVolume> read_volume(const text::JsonValue& object) {
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

Result<Toleration> read_toleration(const text::JsonValue& object) {
  Toleration toleration;
  toleration.key = TRY(object.text("key"));
  toleration.operator_ = TRY(object.text("operator"));
  toleration.value = TRY(object.text("value"));
  toleration.effect = TRY(object.text("effect"));
  return toleration;
}

// The head of a value is enough: no value that has a meaning is longer.
Result<std::optional<std::string>> read_own_annotation(const text::JsonValue& annotations,
                                                       std::string_view key) {
  const auto member = TRY(annotations.find(key));
  if (!member) return std::optional<std::string>();
  const std::string_view value = TRY(member->string());
  return std::optional(std::string(value.substr(0, PodAnnotations::kValueMax)));
}

// pkg/kubelet/types/pod_update.go: a pod whose source is not the API is static; its copy in the API
// is a mirror pod, whatever its source.
Result<void> read_annotations(const text::JsonValue& annotations, Pod& pod) {
  if (const auto source = TRY(annotations.find(kSourceAnnotation))) {
    const bool from_api = TRY(source->string()) == kApiSource;
    pod.origin = from_api ? PodOrigin::api : PodOrigin::static_file;
  }
  if (TRY(annotations.find(kMirrorAnnotation))) pod.origin = PodOrigin::mirror;
  std::string hash = TRY(annotations.text(kHashAnnotation));
  if (pod.origin != PodOrigin::api) pod.config_hash = std::move(hash);
  pod.annotations.is_protected = TRY(read_own_annotation(annotations, kProtectedAnnotation));
  pod.annotations.prefer = TRY(read_own_annotation(annotations, kPreferAnnotation));
  pod.annotations.avoid = TRY(read_own_annotation(annotations, kAvoidAnnotation));
  return {};
}

Result<void> read_metadata(const text::JsonValue& metadata, Pod& pod) {
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

Result<void> read_scalars(const text::JsonValue& spec, Pod& pod) {
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
Result<void> read_pod_resources(const text::JsonValue& resources, Pod& pod) {
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

Result<void> read_spec(const text::JsonValue& spec, ListedPod& listed) {
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
Result<void> read_statuses(const text::JsonValue& status, std::string_view key,
                           std::vector<PodContainer>& containers) {
  return status.each_in(key, [&](const text::JsonValue& item) -> Result<void> {
    const std::string name = TRY(required_text(item, "name"));
    const std::string id = TRY(item.text("containerID"));
    const auto found = std::find_if(containers.begin(), containers.end(),
                                    [&](const PodContainer& each) { return each.name == name; });
    if (found == containers.end()) return {};
    found->id = without_scheme(id);
    return read_list(item, "allocatedResources", found->requests);
  });
}

Result<void> read_status(const text::JsonValue& status, Pod& pod) {
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

Result<ListedPod> read_pod(const text::JsonValue& object) {
  ListedPod listed;
  const text::JsonValue metadata = TRY(object.at("metadata"));
  TRY(read_metadata(metadata, listed.pod));
  const auto spec = TRY(object.find("spec"));
  if (spec) TRY(read_spec(*spec, listed));
  const auto status = TRY(object.find("status"));
  if (status) TRY(read_status(*status, listed.pod));
  return listed;
}

// " (default/web-0)", as far as the object has these names.
std::string label_of(const text::JsonValue& object) {
  const auto metadata = object.find("metadata");
  if (!metadata || !*metadata) return "";
  const auto name = (*metadata)->text("name");
  const auto space = (*metadata)->text("namespace");
  if (!name || name->empty()) return "";
  if (!space || space->empty()) return fmt::format(" ({})", *name);
  return fmt::format(" ({}/{})", *space, *name);
}

// Collects pods in order and refuses duplicate UIDs. The kind of the list follows its items, so the
// first mistake of each sort is kept until the kind is known.
class Collector {
 public:
  explicit Collector(std::size_t pods_max) : pods_max_(pods_max) {}

  // Further items are skipped after a mistake.
  void add(const text::JsonValue& item, const std::string& place) {
    if (failure_) return;
    // Paths in messages start at the pod; its position in the list is prepended with its name.
    const text::JsonValue object = item.as_root();
    const std::string where = place + label_of(object);
    if (const auto checked = check_kind(object, where); !checked)
      return fail(checked.error(), where);
    Result<ListedPod> listed = read_pod(object);
    if (!listed) return fail(listed.error(), where);
    const auto [first, is_new] = places_.try_emplace(listed->pod.uid, where);
    if (!is_new) {
      return fail(
          error(fmt::format("metadata.uid: same UID as {}: {}", first->second, listed->pod.uid)),
          where);
    }
    pods_.push_back(std::move(*listed));
    if (pods_.size() > pods_max_) {
      failure_ =
          error(fmt::format("more than {} pods; list the pods of this node only", pods_max_));
    }
  }
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  void fail(const Error& problem, const std::string& where) {
    if (!failure_) failure_ = problem.in(where);
  }
  // Items of a PodList have no kind.
  Result<std::vector<ListedPod>> take(bool may_lack_kind) && {
    if (lacks_kind_ && !may_lack_kind) return *lacks_kind_;
    if (failure_) return *failure_;
    return std::move(pods_);
  }

 private:
  // Refuses an item that is not a pod.
  Result<void> check_kind(const text::JsonValue& item, const std::string& where) {
    const std::string kind = TRY(item.text("kind"));
    if (kind.empty() && !lacks_kind_) lacks_kind_ = item.wrong("'kind' is missing").in(where);
    if (kind.empty() || kind == "Pod") return {};
    return item.wrong(fmt::format("kind is {}, expected Pod", kind));
  }

  std::size_t pods_max_;
  std::vector<ListedPod> pods_;
  std::unordered_map<std::string, std::string> places_;  // by UID
  std::optional<Error> lacks_kind_;
  std::optional<Error> failure_;
};

std::string item_place(std::size_t index) {
  return fmt::format("items[{}]", index);
}

Result<void> check_version(const text::JsonValue& root) {
  const auto version = TRY(root.find("apiVersion"));
  if (!version) return {};
  const std::string_view text = TRY(version->string());
  if (text == "v1") return {};
  return version->wrong(fmt::format("expected v1, found '{}'", text));
}

// A list of the API server has mirror pods, one of the kubelet the static pods themselves, whose
// UIDs are not the server's.
std::vector<Pod> facts_of(std::vector<ListedPod> listed) {
  std::vector<Pod> pods;
  std::vector<Pod> mirrored;
  std::unordered_set<std::string> uids;
  pods.reserve(listed.size());
  for (ListedPod& each : listed) {
    if (is_api_uid(each.pod.uid)) {
      std::vector<Pod> facts = facts_of_api_pod(std::move(each.pod));
      if (facts.size() > 1) mirrored.push_back(std::move(facts.back()));
      pods.push_back(std::move(facts.front()));
    } else {
      pods.push_back(std::move(each.pod));
    }
    uids.insert(pods.back().uid);
  }
  // Several pods may claim to mirror the same one.
  for (Pod& each : mirrored) {
    if (uids.insert(each.uid).second) pods.push_back(std::move(each));
  }
  return pods;
}

// LINE:COLUMN of a message about an item, as positions in the whole text.
Error moved(const Error& problem, const text::ListItem& item) {
  std::string_view rest = problem.message;
  const auto line = parse_u64(next_field(rest, ':'));
  const auto column = parse_u64(next_field(rest, ':'));
  if (!line || !column) return problem;
  return error(fmt::format("{}:{}:{}", item.line + *line - 1,
                           *line == 1 ? item.column + *column - 1 : *column, rest));
}

}  // namespace

class PodListStream::Parser {
 public:
  explicit Parser(std::size_t pods_max)
      : pods_max_(pods_max),
        collector_(pods_max),
        splitter_(
            "items", kObjectBytesMax, [this] { collector_ = Collector(pods_max_); },
            [this](const text::ListItem& item) { return add(item); }) {}

  Result<void> add(std::string_view piece) { return splitter_.add(piece); }

  Result<std::vector<ListedPod>> finish() {
    TRY(splitter_.end());
    const text::JsonDocument document = TRY(text::JsonDocument::parse(splitter_.frame()));
    const text::JsonValue root = document.root();
    TRY(check_version(root));
    const std::string kind = TRY(root.text("kind"));
    if (kind.empty()) {
      return error("'kind' is missing: expected the output of `kubectl get pods -o json`");
    }
    if (kind == "Pod") {
      collector_ = Collector(pods_max_);
      collector_.add(root, "the Pod");
    } else if (kind == "List" || kind == "PodList") {
      TRY(add_rest(root));
    } else {
      return error(fmt::format("kind is {}, expected List, PodList or Pod", kind));
    }
    return std::move(collector_).take(kind == "PodList");
  }

 private:
  Result<void> add(const text::ListItem& item) {
    if (collector_.failed()) return {};
    const auto document = text::JsonDocument::parse(item.text);
    if (!document) return moved(document.error(), item);
    collector_.add(document->root(), item_place(item.index));
    return {};
  }

  // What is not an object is in the frame, and so is a list whose key has an escape. Some clients
  // print an empty list as null.
  Result<void> add_rest(const text::JsonValue& root) {
    std::size_t index = 0;
    return root.each_in("items", [&](const text::JsonValue& item) -> Result<void> {
      const std::string place = item_place(index++);
      const auto is_object = item.as_root().find("kind");
      if (!splitter_.found()) {
        collector_.add(item, place);
      } else if (!is_object) {
        collector_.fail(is_object.error(), place);
      }
      return {};
    });
  }

  std::size_t pods_max_;
  Collector collector_;
  text::ListSplitter splitter_;
};

PodListStream::PodListStream(std::size_t pods_max) : parser_(std::make_unique<Parser>(pods_max)) {}
PodListStream::~PodListStream() = default;

Result<void> PodListStream::add(std::string_view piece) {
  return parser_->add(piece);
}

Result<std::vector<ListedPod>> PodListStream::finish() {
  return parser_->finish();
}

Result<ListedPod> read_listed_pod(const text::JsonValue& object) {
  const std::string kind = TRY(object.text("kind"));
  if (!kind.empty() && kind != "Pod") {
    return object.wrong(fmt::format("kind is {}, expected Pod", kind));
  }
  return read_pod(object);
}

Result<std::vector<ListedPod>> parse_listed_pods(std::string_view json) {
  PodListStream stream(std::numeric_limits<std::size_t>::max());
  TRY(stream.add(json));
  return stream.finish();
}

Result<std::vector<Pod>> read_pod_list(const UniqueFd& file, const std::string& path,
                                       std::size_t pods_max) {
  PodListStream stream(pods_max);
  std::array<char, 1 << 16> piece{};
  for (;;) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("read", path);
    if (size == 0) break;
    TRY(stream.add({piece.data(), static_cast<std::size_t>(size)}));
  }
  std::vector<ListedPod> listed = TRY(stream.finish());
  return facts_of(std::move(listed));
}

Result<std::vector<Pod>> parse_pod_list(std::string_view json) {
  std::vector<ListedPod> listed = TRY(parse_listed_pods(json));
  return facts_of(std::move(listed));
}

}  // namespace forestall::intake
