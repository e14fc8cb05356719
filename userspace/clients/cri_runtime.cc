// SPDX-License-Identifier: Apache-2.0
#include "clients/cri_runtime.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <utility>

#include "clients/dead_objects.h"
#include "clients/kubelet_labels.h"
#include "runtime/v1/api.pb.h"

namespace forestall::clients {
namespace {

namespace cri = ::runtime::v1;

constexpr std::string_view kRuntimeService = "RuntimeService";
constexpr std::string_view kImageService = "ImageService";
// Labels that kubelet sets (pkg/kubelet/types/labels.go).

// The errno that callers distinguish; 0 if the text is enough.
int errno_of(const wire::GrpcReply& reply) {
  if (reply.code != 0) return reply.code;
  switch (reply.status) {
    case wire::GrpcStatus::cancelled: return ECANCELED;
    case wire::GrpcStatus::deadline_exceeded: return ETIMEDOUT;
    case wire::GrpcStatus::not_found: return ENOENT;
    case wire::GrpcStatus::unimplemented: return ENOSYS;
    case wire::GrpcStatus::unavailable: return EAGAIN;
    case wire::GrpcStatus::permission_denied:
    case wire::GrpcStatus::unauthenticated: return EACCES;
    default: return 0;
  }
}

Error as_error(std::string_view method, const wire::GrpcReply& reply) {
  std::string text = "CRI " + std::string(method);
  // A failure of this client has an errno; a failure that the runtime reported has a gRPC status.
  if (reply.code == 0) text.append(": ").append(to_string(reply.status));
  if (!reply.message.empty()) text.append(": ").append(reply.message);
  return {errno_of(reply), std::move(text)};
}

std::int64_t signed_of(std::uint64_t value) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return value > static_cast<std::uint64_t>(kMost) ? kMost : static_cast<std::int64_t>(value);
}

DiskUsage usage_of(const cri::FilesystemUsage& filesystem) {
  DiskUsage usage;
  if (filesystem.has_used_bytes()) usage.used = Bytes{signed_of(filesystem.used_bytes().value())};
  if (filesystem.has_inodes_used()) usage.inodes = signed_of(filesystem.inodes_used().value());
  return usage;
}

RuntimeFilesystem filesystem_of(const cri::FilesystemUsage& filesystem) {
  return {filesystem.fs_id().mountpoint(), usage_of(filesystem)};
}

// Nothing for a container without kubelet's labels.
std::optional<ContainerUsage> container_usage(const cri::ContainerStats& stats) {
  const auto& labels = stats.attributes().labels();
  const auto uid = labels.find(kPodUidLabel);
  const auto name = labels.find(kContainerNameLabel);
  if (uid == labels.end() || name == labels.end()) return std::nullopt;
  ContainerUsage usage{stats.attributes().id(), uid->second, name->second, {}, {}};
  if (!stats.has_writable_layer()) return usage;
  usage.writable_layer = usage_of(stats.writable_layer());
  if (stats.writable_layer().timestamp() > 0) {
    usage.at.emplace(std::chrono::nanoseconds(stats.writable_layer().timestamp()));
  }
  return usage;
}

// The image of the sandboxes, from the configuration that the runtime reports; empty if it does
// not. containerd: info["config"] is JSON with the key sandboxImage (pkg/cri/config/config.go).
std::string configured_sandbox_image(const cri::StatusResponse& status) {
  const auto config = status.info().find("config");
  if (config == status.info().end()) return "";
  google::protobuf::Struct json;
  if (!google::protobuf::util::JsonStringToMessage(config->second, &json).ok()) return "";
  const auto image = json.fields().find("sandboxImage");
  return image == json.fields().end() ? "" : image->second.string_value();
}

}  // namespace

// A series of removals: enforces the budget, collects the failures, and decides when to stop.
class CriRuntime::Removing {
 public:
  Removing(const CriRuntime& runtime, RemovalFailures& failures)
      : runtime_(runtime),
        failures_(failures),
        until_(SystemClock().now() + runtime.options_.removal_budget) {}

  // Whether `object` does not exist any more: it was removed, or was missing already.
  template <typename Question>
  bool gone(std::string_view service, std::string_view method, const Question& question,
            const std::string& object) {
    if (over_) return false;
    const Duration left = until_ - SystemClock().now();
    if (left <= Duration::zero()) {
      return stop(
          {ETIMEDOUT, "the time for removals is over: " + object + " and all later ones are kept"});
    }
    const wire::GrpcReply reply = runtime_.call(service, method, question.SerializeAsString(),
                                                std::min(left, runtime_.options_.removal_deadline));
    if (reply.ok() || reply.status == wire::GrpcStatus::not_found) return true;
    const Error failure = as_error(method, reply).in(object);
    if (failure.code == ECANCELED) return stop(failure);
    failures_.add(failure);
    return false;
  }

 private:
  bool stop(Error why) {
    over_ = true;
    failures_.add(std::move(why));
    return false;
  }

  const CriRuntime& runtime_;
  RemovalFailures& failures_;
  const MonotonicTime until_;
  bool over_ = false;
};

CriRuntime::CriRuntime(std::string socket, RuntimeOptions options)
    : options_(std::move(options)),
      target_{std::move(socket), options_.max_reply_bytes, options_.cancel_fd} {}

wire::GrpcReply CriRuntime::call(std::string_view service, std::string_view method,
                                 const std::string& question, Duration patience) const {
  std::string path("/runtime.v1.");
  path.append(service).append("/").append(method);
  return wire::grpc_call(target_, path, question, patience);
}

template <typename Answer, typename Question>
Result<Answer> CriRuntime::call_runtime(std::string_view service, std::string_view method,
                                        const Question& question) const {
  const wire::GrpcReply reply =
      call(service, method, question.SerializeAsString(), options_.deadline);
  if (!reply.ok()) return as_error(method, reply);
  Answer answer;
  if (!answer.ParseFromString(reply.body)) {
    return Error{EPROTO, "CRI " + std::string(method) + ": the answer cannot be parsed"};
  }
  return answer;
}

Result<RuntimeIdentity> CriRuntime::identity() {
  const auto answer =
      TRY(call_runtime<cri::VersionResponse>(kRuntimeService, "Version", cri::VersionRequest()));
  return RuntimeIdentity{answer.runtime_name(), answer.runtime_version()};
}

Result<RuntimeFilesystems> CriRuntime::filesystems() {
  const auto answer = TRY(call_runtime<cri::ImageFsInfoResponse>(kImageService, "ImageFsInfo",
                                                                 cri::ImageFsInfoRequest()));
  if (answer.image_filesystems().empty()) {
    return forestall::error("CRI ImageFsInfo: the runtime reports no image filesystem");
  }
  RuntimeFilesystems found;
  found.imagefs = filesystem_of(answer.image_filesystems(0));
  found.containerfs = answer.container_filesystems().empty()
                          ? found.imagefs
                          : filesystem_of(answer.container_filesystems(0));
  return found;
}

Result<std::vector<ContainerUsage>> CriRuntime::container_stats() {
  const auto answer = TRY(call_runtime<cri::ListContainerStatsResponse>(
      kRuntimeService, "ListContainerStats", cri::ListContainerStatsRequest()));
  struct LatestAttempt {
    std::size_t index = 0;
    std::uint32_t attempt = 0;
  };
  std::map<std::pair<std::string, std::string>, LatestAttempt> places;  // by pod and name
  std::vector<ContainerUsage> usages;
  for (const auto& stats : answer.stats()) {
    auto usage = container_usage(stats);
    if (!usage) continue;
    const std::uint32_t attempt = stats.attributes().metadata().attempt();
    const auto [place, first] = places.try_emplace({usage->pod_uid, usage->container},
                                                   LatestAttempt{usages.size(), attempt});
    if (first) {
      usages.push_back(*std::move(usage));
    } else if (attempt > place->second.attempt) {
      place->second.attempt = attempt;
      usages[place->second.index] = *std::move(usage);
    }
  }
  return usages;
}

Result<DeadRemoval> CriRuntime::remove_dead_containers() {
  // Sandboxes first: a container that starts between the two answers then keeps its sandbox.
  const auto sandboxes = TRY(call_runtime<cri::ListPodSandboxResponse>(
      kRuntimeService, "ListPodSandbox", cri::ListPodSandboxRequest()));
  const auto containers = TRY(call_runtime<cri::ListContainersResponse>(
      kRuntimeService, "ListContainers", cri::ListContainersRequest()));
  const auto dead =
      dead_objects(sandboxes, containers, TRY(pods_with_directory(options_.pods_directory)));
  DeadRemoval removal;
  Removing removing(*this, removal.failures);
  for (const std::string& id : dead.containers) {
    cri::RemoveContainerRequest request;
    request.set_container_id(id);
    if (removing.gone(kRuntimeService, "RemoveContainer", request, "container " + id)) {
      ++removal.containers;
    }
  }
  for (const std::string& id : dead.sandboxes) {
    // Stopping releases the sandbox's network; removing it without that would leak an address.
    cri::StopPodSandboxRequest stop;
    stop.set_pod_sandbox_id(id);
    cri::RemovePodSandboxRequest remove;
    remove.set_pod_sandbox_id(id);
    const std::string object = "sandbox " + id;
    if (removing.gone(kRuntimeService, "StopPodSandbox", stop, object) &&
        removing.gone(kRuntimeService, "RemovePodSandbox", remove, object)) {
      ++removal.sandboxes;
    }
  }
  return removal;
}

Result<std::vector<StoredImage>> CriRuntime::stored_images() const {
  const auto answer = TRY(
      call_runtime<cri::ListImagesResponse>(kImageService, "ListImages", cri::ListImagesRequest()));
  std::vector<StoredImage> images;
  images.reserve(static_cast<std::size_t>(answer.images_size()));
  for (const auto& image : answer.images()) {
    StoredImage stored{image.id(), {}, {signed_of(image.size())}, image.pinned()};
    stored.names.assign(image.repo_tags().begin(), image.repo_tags().end());
    stored.names.insert(stored.names.end(), image.repo_digests().begin(),
                        image.repo_digests().end());
    images.push_back(std::move(stored));
  }
  if (options_.image_ages) {
    std::vector<std::string> ids;
    ids.reserve(images.size());
    for (const StoredImage& image : images) ids.push_back(image.id);
    options_.image_ages->note(ids, SystemClock().now());
  }
  return images;
}

Result<ImageReferences> CriRuntime::container_references() const {
  const auto answer = TRY(call_runtime<cri::ListContainersResponse>(
      kRuntimeService, "ListContainers", cri::ListContainersRequest()));
  ImageReferences references;
  for (const auto& container : answer.containers()) {
    references.add(container.image().image());
    references.add(container.image().user_specified_image());
    references.add(container.image().image_ref());
    references.add(container.image_ref());
    references.add(container.image_id());
  }
  return references;
}

Result<ImageReferences> CriRuntime::sandbox_references() const {
  ImageReferences references;
  references.add(options_.sandbox_image);
  if (!options_.sandbox_image.empty()) return references;
  cri::StatusRequest request;
  request.set_verbose(true);
  references.add(configured_sandbox_image(
      TRY(call_runtime<cri::StatusResponse>(kRuntimeService, "Status", request))));
  return references;
}

Result<void> CriRuntime::note_images() {
  TRY(stored_images());
  return {};
}

Result<ImageRemoval> CriRuntime::remove_unused_images() {
  // Images first: a container created between the two answers keeps its image.
  auto images = TRY(stored_images());
  const ImageReferences sandboxes = TRY(sandbox_references());
  const ImageReferences containers = TRY(container_references());
  const MonotonicTime now = SystemClock().now();
  std::sort(images.begin(), images.end(), &goes_before);
  ImageRemoval removal;
  Removing removing(*this, removal.failures);
  for (const auto& image : images) {
    if (image.pinned || sandboxes.covers(image)) {
      ++removal.pinned;
    } else if (containers.covers(image)) {
      ++removal.in_use;
    } else if (options_.image_ages && !options_.image_ages->is_old(image.id, now)) {
      ++removal.young;
    } else {
      cri::RemoveImageRequest request;
      request.mutable_image()->set_image(image.id);
      if (!removing.gone(kImageService, "RemoveImage", request, "image " + image.id)) continue;
      ++removal.images;
      removal.freed += image.size;
    }
  }
  return removal;
}

}  // namespace forestall::clients
