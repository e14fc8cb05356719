// SPDX-License-Identifier: Apache-2.0
#include "daemon/written_pods.h"

#include <sys/eventfd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "base/printable.h"
#include "messages/convert.h"
#include "text/utf8.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;

constexpr std::size_t kProblemMax = 512;
constexpr std::size_t kReplacedMax = 16;

// Before the message becomes a Pod: an empty part takes two bytes of a request, and hundreds here.
Result<void> check_parts(const v1::Pod& pod) {
  const std::initializer_list<std::pair<const char*, int>> parts = {
      {"containers", pod.containers_size()},
      {"init containers", pod.init_containers_size()},
      {"volumes", pod.volumes_size()},
      {"tolerations", pod.tolerations_size()}};
  for (const auto& [name, count] : parts) {
    if (static_cast<std::size_t>(count) <= WrittenPods::kPartsMax) continue;
    return Error{EINVAL, fmt::format("pod '{}': {} {}, the limit is {}", printable(pod.uid()),
                                     count, name, WrittenPods::kPartsMax)};
  }
  return {};
}

// The agent evicts a pod that uses more disk than it may (the kubelet does as well). That must
// not be the writer's decision.
void drop_disk_limits(Pod& pod) {
  if (pod.limits) pod.limits->ephemeral_storage.reset();
  for (auto* list : {&pod.containers, &pod.init_containers}) {
    for (PodContainer& each : *list) each.limits.ephemeral_storage.reset();
  }
  for (PodVolume& each : pod.volumes) each.size_limit.reset();
}

Result<KnownPods> read_written_pods(const v1::UpdatePodsRequest& request) {
  KnownPods pods;
  for (const v1::Pod& each : request.pods()) {
    TRY(check_parts(each));
    auto pod = messages::from_proto(each);
    if (!pod) return Error{EINVAL, "pod '" + each.uid() + "': " + pod.error().message};
    if (pod->uid.empty()) return Error{EINVAL, "a pod without a UID"};
    drop_disk_limits(*pod);
    pods.push_back(std::make_shared<const Pod>(*std::move(pod)));
  }
  return pods;
}

// Texts at their size, and parts at that of the object: rounded up, as small texts are in it.
std::size_t memory_of(const Pod& pod) {
  std::size_t all = sizeof(Pod) + pod.uid.size() + pod.name.size() + pod.pod_namespace.size() +
                    pod.config_hash.size() + pod.priority_class.size();
  for (const auto* list : {&pod.containers, &pod.init_containers}) {
    for (const PodContainer& each : *list) all += sizeof each + each.name.size() + each.id.size();
  }
  for (const PodVolume& each : pod.volumes) all += sizeof each + each.name.size();
  for (const Toleration& each : pod.tolerations) {
    all += sizeof each + each.key.size() + each.operator_.size() + each.value.size() +
           each.effect.size();
  }
  // The values of its annotations are too short for memory of their own, or nearly so.
  return all + 3 * PodAnnotations::kValueMax;
}

}  // namespace

Result<std::unique_ptr<WrittenPods>> WrittenPods::create(const Clock& clock, exports::Log& log) {
  UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready) return errno_error("eventfd", "for written pods");
  return std::unique_ptr<WrittenPods>(new WrittenPods(clock, log, std::move(ready)));
}

Result<std::size_t> WrittenPods::update(const v1::UpdatePodsRequest& request) {
  const KnownPods pods = TRY(read_written_pods(request));
  TRY(check(request, pods));
  if (request.begins_list()) replace_writer(request.writer());
  last_call_ = clock_.now();
  if (apply(request, pods)) offer();
  // A list that is not complete confirms no pod in force.
  if (!listed_) note(request);
  return pods_.by_uid.size();
}

Result<void> WrittenPods::check(const v1::UpdatePodsRequest& request, const KnownPods& pods) const {
  const bool same_writer = writer_ && *writer_ == request.writer();
  if (!request.begins_list() && !same_writer) {
    return Error{EAGAIN, "no list of this writer began; list all pods again"};
  }
  if (!same_writer && was_replaced(request.writer())) {
    return Error{EAGAIN, "a later process writes the pods of this node; end one of the two"};
  }
  const bool ends = request.ends_list();
  if (ends && !request.begins_list() && !listed_) {
    return Error{EAGAIN, "no list began that could end; list all pods again"};
  }
  static const PodsByUid kNone;
  const PodsByUid& target = request.begins_list() ? kNone : listed_ ? *listed_ : pods_;
  if (target.by_uid.size() + pods.size() > kPodsMax) {
    return Error{EINVAL, "too many pods for one node"};
  }
  std::size_t memory = target.memory;
  for (const auto& pod : pods) memory += memory_of(*pod);
  for (const auto& pod : pods) {
    const auto before = target.by_uid.find(pod->uid);
    if (before != target.by_uid.end()) memory -= std::min(memory, before->second.memory);
  }
  if (memory > kMemoryMax) {
    return Error{EINVAL, fmt::format("the pods take more than {} MiB", kMemoryMax >> 20)};
  }
  return {};
}

bool WrittenPods::was_replaced(std::uint64_t writer) const {
  return clock_.now() - last_call_ < kSilence &&
         std::ranges::find(replaced_, writer) != replaced_.end();
}

void WrittenPods::replace_writer(std::uint64_t writer) {
  if (writer_ && *writer_ != writer) {
    std::erase(replaced_, writer);
    replaced_.push_back(*writer_);
    if (replaced_.size() > kReplacedMax) replaced_.pop_front();
    log_.write(LogLevel::info, LogLine("written-pods").field("writer", "another process"));
  }
  writer_ = writer;
}

bool WrittenPods::apply(const v1::UpdatePodsRequest& request, const KnownPods& pods) {
  if (request.begins_list()) {
    listed_ = PodsByUid{};
  }
  PodsByUid& target = listed_ ? *listed_ : pods_;
  bool changed = false;
  for (const auto& pod : pods) {
    WrittenPod& place = target.by_uid[pod->uid];
    changed = changed || !place.facts || *place.facts != *pod;
    target.memory -= place.memory;
    place = {pod, memory_of(*pod)};
    target.memory += place.memory;
  }
  for (const std::string& uid : request.removed()) {
    const auto gone = target.by_uid.find(uid);
    if (gone == target.by_uid.end()) continue;
    target.memory -= gone->second.memory;
    target.by_uid.erase(gone);
    changed = true;
  }
  if (!listed_) return changed;
  if (!request.ends_list()) return false;
  pods_ = *std::exchange(listed_, std::nullopt);
  return true;
}

void WrittenPods::note(const v1::UpdatePodsRequest& request) {
  const MonotonicTime now = clock_.now();
  std::string problem = text::to_utf8(request.problem().substr(0, kProblemMax));
  bool differs = false;
  {
    const std::lock_guard lock(mutex_);
    if (!state_) return;  // the first list is not complete
    state_->written = now;
    state_->confirmed.reset();
    if (request.has_age_ns() && request.age_ns() >= 0) {
      state_->confirmed = now - Duration(request.age_ns());
    }
    differs = state_->problem != problem;
    state_->problem = problem;
  }
  if (!differs) return;
  LogLine line("written-pods");
  if (!problem.empty()) line.field("problem", problem).field("in_force", "the last known pods");
  log_.write(problem.empty() ? LogLevel::info : LogLevel::warning, line);
}

void WrittenPods::offer() {
  KnownPods all;
  for (const auto& [uid, pod] : pods_.by_uid) all.push_back(pod.facts);
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !state_;
    if (first) state_.emplace();
    state_->pods = all.size();
    waiting_ = std::move(all);
  }
  // Fails only if the counter is full: then it is readable already.
  (void)eventfd_write(ready_.get(), 1);
  if (first) log_.write(LogLevel::info, LogLine("written-pods").field("pods", pods_.by_uid.size()));
}

std::optional<KnownPods> WrittenPods::take() {
  eventfd_t count = 0;
  (void)eventfd_read(ready_.get(), &count);
  std::optional<KnownPods> pods;
  {
    const std::lock_guard lock(mutex_);
    pods = std::exchange(waiting_, std::nullopt);
  }
  if (pods) taken_ = pods;
  return pods;
}

std::optional<WrittenPodsState> WrittenPods::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

}  // namespace forestall::daemon
