// SPDX-License-Identifier: Apache-2.0
#include "daemon/written_pods.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "messages/convert.h"
#include "text/utf8.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;

constexpr std::size_t kProblemMax = 512;

Result<KnownPods> read_written_pods(const v1::UpdatePodsRequest& request) {
  KnownPods pods;
  for (const v1::Pod& each : request.pods()) {
    auto pod = messages::from_proto(each);
    if (!pod) return Error{EINVAL, "pod '" + each.uid() + "': " + pod.error().message};
    if (pod->uid.empty()) return Error{EINVAL, "a pod without a UID"};
    pods.push_back(std::make_shared<const Pod>(*std::move(pod)));
  }
  return pods;
}

}  // namespace

Result<std::unique_ptr<WrittenPods>> WrittenPods::create(const Clock& clock, exports::Log& log) {
  UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready) return errno_error("eventfd", "for written pods");
  return std::unique_ptr<WrittenPods>(new WrittenPods(clock, log, std::move(ready)));
}

Result<std::size_t> WrittenPods::update(const v1::UpdatePodsRequest& request) {
  const KnownPods pods = TRY(read_written_pods(request));
  const bool same_writer = writer_ && *writer_ == request.writer();
  if (!request.begins_list() && !same_writer) {
    return Error{EAGAIN, "no list of this writer began; list all pods again"};
  }
  const bool ends = request.ends_list();
  if (ends && !request.begins_list() && !listed_) {
    return Error{EAGAIN, "no list began that could end; list all pods again"};
  }
  const PodsByUid& target = listed_ ? *listed_ : pods_;
  const std::size_t before = request.begins_list() ? 0 : target.size();
  if (before + pods.size() > kPodsMax) return Error{EINVAL, "too many pods for one node"};
  if (apply(request, pods)) offer();
  note(request);
  return pods_.size();
}

bool WrittenPods::apply(const v1::UpdatePodsRequest& request, const KnownPods& pods) {
  if (request.begins_list()) {
    writer_ = request.writer();
    listed_.emplace();
  }
  PodsByUid& target = listed_ ? *listed_ : pods_;
  bool changed = false;
  for (const auto& pod : pods) {
    auto& place = target[pod->uid];
    changed = changed || !place || *place != *pod;
    place = pod;
  }
  for (const std::string& uid : request.removed()) changed = target.erase(uid) > 0 || changed;
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
  for (const auto& [uid, pod] : pods_) all.push_back(pod);
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
  if (first) log_.write(LogLevel::info, LogLine("written-pods").field("pods", pods_.size()));
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
