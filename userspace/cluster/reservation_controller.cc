// SPDX-License-Identifier: Apache-2.0
#include "cluster/reservation_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "kubernetes/url.h"

namespace forestall::cluster {
namespace {

std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}", device());
}

}  // namespace

void drop_placeholders(rebalance::Snapshot& snapshot,
                       const rebalance::PlaceholderSettings& settings) {
  std::erase_if(snapshot.pods, [&](const rebalance::ClusterPod& pod) {
    return is_placeholder(pod, settings.pod_namespace);
  });
}

Result<WantedRoom> room_of(const PlannedEviction& eviction,
                           const rebalance::PlaceholderSettings& settings,
                           const rebalance::Snapshot& snapshot, std::string plan) {
  const auto pod = std::ranges::find(snapshot.pods, eviction.pod.uid, &rebalance::ClusterPod::uid);
  if (pod == snapshot.pods.end()) return error("the pod is not in the state of the plan");
  const auto index = static_cast<std::size_t>(pod - snapshot.pods.begin());
  return wanted_room(settings, snapshot, index, eviction.destination, std::move(plan));
}

ReservationController::ReservationController(rebalance::PlaceholderSettings settings,
                                             kubernetes::HttpClient& client, const Clock& clock,
                                             std::function<bool()> may_create,
                                             Duration answer_longest, const Chance& chance)
    : settings_(std::move(settings)),
      clock_(clock),
      run_(random_name()),
      placeholders_({.pod_namespace = settings_.pod_namespace,
                     .holds = std::chrono::seconds(settings_.seconds),
                     .answer_longest = answer_longest},
                    std::move(may_create), chance),
      lister_(chance),
      sender_(client, placeholders_, clock, kRequestsMax, PlaceholderPods::kAnswerBytesMax),
      list_sender_(client, lister_, clock, 1, SnapshotLister::kPageBytesMax) {}

Result<void> ReservationController::begin_plan(rebalance::Snapshot& snapshot) {
  ++plans_;
  placeholders_.remove_leftovers(snapshot, clock_.now());
  drop_placeholders(snapshot, settings_);
  TRY(placeholder_priority(settings_, snapshot));
  return {};
}

ReservedRoom ReservationController::reserve(const PlannedEviction& eviction,
                                            const rebalance::Snapshot& snapshot) {
  if (eviction.destination.empty()) return {RoomState::held, ""};
  if (auto known = placeholders_.find(eviction.pod.uid)) return *std::move(known);
  auto room = room_of(eviction, settings_, snapshot, fmt::format("{}-{}", run_, plans_));
  if (!room) return {RoomState::refused, room.error().text()};
  placeholders_.begin(*std::move(room), clock_.now());
  return {};
}

void ReservationController::ended(const PlanEvictions::Ended& ended) {
  const std::string& uid = ended.eviction.pod.uid;
  if (may_be_evicted(ended.end)) {
    return placeholders_.expect_replacement(uid);
  }
  placeholders_.release(uid, "the pod was not evicted", clock_.now());
}

void ReservationController::advance() {
  sender_.advance();
  list_sender_.advance();
  poll();
}

void ReservationController::poll() {
  if (polls_ && lister_.done()) {
    polls_ = false;
    problem_ = lister_.failure();
    if (problem_.empty()) {
      const MonotonicTime begun = lister_.begun();
      placeholders_.observe(lister_.take(0), begun, clock_.now());
    }
  }
  if (polls_ || clock_.now() < next_poll_) return;
  const std::vector<std::string> awaited = placeholders_.awaited();
  if (awaited.empty()) return;
  const auto pods_in = [](const std::string& pod_namespace) {
    return ListedKind{.path = fmt::format("/api/v1/namespaces/{}/pods",
                                          kubernetes::percent_encoded(pod_namespace))};
  };
  std::vector<ListedKind> kinds{pods_in(settings_.pod_namespace)};
  for (const std::string& each : awaited) kinds.push_back(pods_in(each));
  polls_ = true;
  next_poll_ = clock_.now() + kPollInterval;
  lister_.begin(std::move(kinds), clock_.now());
}

std::optional<MonotonicTime> ReservationController::due() const {
  std::optional<MonotonicTime> first;
  const auto poll =
      polls_ || placeholders_.awaited().empty() ? std::nullopt : std::optional(next_poll_);
  for (const auto& each : {sender_.due(), list_sender_.due(), poll}) {
    if (each && (!first || *each < *first)) first = each;
  }
  return first;
}

}  // namespace forestall::cluster
