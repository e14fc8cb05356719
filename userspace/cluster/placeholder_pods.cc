// SPDX-License-Identifier: Apache-2.0
#include "cluster/placeholder_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace forestall::cluster {
namespace {

bool is_done(int code) {
  return code >= 200 && code < 300;
}

// Whether the server did not do what was requested.
bool was_not_done(int code) {
  constexpr int kRequestTimeout = 408;
  return code >= 300 && code < 500 && code != kRequestTimeout;
}

std::string placeholder_problem(const kubernetes::ResponseHead& head, std::string_view body,
                                const std::optional<Error>& failure) {
  if (failure) return kubernetes::bounded_text(failure->text());
  return kubernetes::parse_api_status(head.code, body).text();
}

}  // namespace

std::string_view to_string(PlaceholderChange change) {
  switch (change) {
    case PlaceholderChange::created: return "created";
    case PlaceholderChange::held: return "held";
    case PlaceholderChange::failed: return "failed";
    case PlaceholderChange::removed: return "removed";
    case PlaceholderChange::lost: return "lost";
    case PlaceholderChange::left: return "left";
  }
  return "";
}

std::optional<ReservedRoom> PlaceholderPods::find(const std::string& pod_uid) const {
  const auto found = pods_.find(pod_uid);
  if (found == pods_.end()) return std::nullopt;
  const Placeholder& each = found->second;
  // It is removed, and can be created again afterwards.
  if (each.released && each.step != PlaceholderStep::hold) return ReservedRoom{};
  if (!each.refusal.empty()) return ReservedRoom{RoomState::refused, each.refusal};
  return ReservedRoom{each.step == PlaceholderStep::hold ? RoomState::held : RoomState::waiting,
                      ""};
}

void PlaceholderPods::begin(WantedRoom room, MonotonicTime now) {
  const std::string key = room.pod.uid;
  Placeholder each;
  each.name = placeholder_name(key);
  each.room = std::move(room);
  each.not_before = now;
  pods_.insert_or_assign(key, std::move(each));
}

void PlaceholderPods::expect_replacement(const std::string& pod_uid) {
  const auto found = pods_.find(pod_uid);
  if (found == pods_.end()) return;
  found->second.evicted = true;
  found->second.released = true;
}

void PlaceholderPods::release(const std::string& pod_uid, std::string_view why, MonotonicTime now) {
  const auto found = pods_.find(pod_uid);
  if (found == pods_.end()) return;
  found->second.released = true;
  remove(found->second, why, now);
  erase_ended();
}

void PlaceholderPods::release_all(std::string_view why, MonotonicTime now) {
  for (auto& [uid, each] : pods_) {
    each.released = true;
    remove(each, why, now);
  }
  erase_ended();
}

void PlaceholderPods::remove_leftovers(const rebalance::Snapshot& snapshot, MonotonicTime now) {
  std::unordered_set<std::string_view> names;
  for (const auto& [uid, each] : pods_) names.insert(each.name);
  for (const rebalance::ClusterPod& pod : snapshot.pods) {
    if (!is_placeholder(pod, options_.pod_namespace) || names.contains(pod.name)) continue;
    Placeholder each;
    each.room.pod = {std::string(pod.pod_namespace), std::string(pod.name), std::string(pod.uid)};
    each.room.node = pod.node;
    each.name = pod.name;
    each.uid = pod.uid;
    each.may_exist = true;
    each.leftover = true;
    each.released = true;
    remove(each, "no plan of this process needs it", now);
    pods_.insert_or_assign("leftover-" + each.uid, std::move(each));
  }
}

std::vector<std::string> PlaceholderPods::awaited() const {
  std::set<std::string> namespaces;
  for (const auto& [uid, each] : pods_) {
    if (each.step == PlaceholderStep::hold && each.evicted)
      namespaces.insert(each.room.pod.pod_namespace);
  }
  return {namespaces.begin(), namespaces.end()};
}

// A replacement that has a node has its room. If another pod has the room of a placeholder, the
// replacement waits as any other pod does.
void PlaceholderPods::observe(const rebalance::Snapshot& snapshot, MonotonicTime begun,
                              MonotonicTime now) {
  std::unordered_set<std::string_view> present;
  std::unordered_map<std::string_view, std::vector<const rebalance::ClusterPod*>> bound;
  for (const rebalance::ClusterPod& pod : snapshot.pods) {
    if (!rebalance::is_live(pod) || pod.terminating) continue;
    if (is_placeholder(pod, options_.pod_namespace)) present.insert(pod.uid);
    if (!pod.owners.empty() && !pod.node.empty()) bound[pod.owners.front().uid].push_back(&pod);
  }
  for (auto& [uid, each] : pods_) {
    if (each.step != PlaceholderStep::hold || !each.evicted || each.held_since >= begun) continue;
    for (const rebalance::ClusterPod* const pod : bound[each.room.owner]) {
      // A tenant may name any owner, in its namespace.
      if (pod->pod_namespace != each.room.pod.pod_namespace) continue;
      if (each.room.old.contains(pod->uid)) continue;
      remove(each, fmt::format("the replacement {} is on {}", pod->name, pod->node), now);
      for (auto& [other_uid, other] : pods_) {
        if (other.room.owner == each.room.owner) other.room.old.emplace(pod->uid);
      }
      break;
    }
    if (each.step != PlaceholderStep::hold || present.contains(each.uid)) continue;
    report(each, PlaceholderChange::lost, "another pod preempted it, or it ended");
    each.step = PlaceholderStep::refused;
  }
  erase_ended();
}

std::size_t PlaceholderPods::held() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pods_, [](const auto& each) { return each.second.step == PlaceholderStep::hold; }));
}

std::vector<PlaceholderPods::Changed> PlaceholderPods::take_changes() {
  return std::exchange(changes_, {});
}

void PlaceholderPods::report(const Placeholder& of, PlaceholderChange change, std::string why) {
  changes_.push_back({of.room.pod, of.room.node, change, std::move(why)});
}

void PlaceholderPods::refuse(Placeholder& of, std::string problem, MonotonicTime now) {
  if (of.step == PlaceholderStep::remove) return;
  report(of, PlaceholderChange::failed, problem);
  of.refusal = std::move(problem);
  remove(of, "it held no room", now);
}

void PlaceholderPods::remove(Placeholder& of, std::string_view why, MonotonicTime now) {
  if (of.step == PlaceholderStep::remove) return;
  of.step = of.may_exist ? PlaceholderStep::remove : PlaceholderStep::refused;
  of.why = why;
  of.removed_since = now;
  of.not_before = now;
  of.backoff.reset();
}

void PlaceholderPods::erase_ended() {
  std::erase_if(pods_, [](const auto& each) {
    return each.second.step == PlaceholderStep::refused && each.second.released;
  });
}

// Rooms of an earlier process may be the ones that the plan uses, and have the names of its own.
std::optional<MonotonicTime> PlaceholderPods::blocked_since(const std::string& node) const {
  std::optional<MonotonicTime> first;
  for (const auto& [uid, other] : pods_) {
    if (other.step != PlaceholderStep::remove) continue;
    if (!other.leftover && other.room.node != node) continue;
    if (!first || other.removed_since < *first) first = other.removed_since;
  }
  return first;
}

void PlaceholderPods::expire(MonotonicTime now) {
  for (auto& [uid, each] : pods_) {
    if (each.step == PlaceholderStep::bind && each.sent == Sent::nothing &&
        now >= each.bound_until) {
      refuse(each, "the scheduler has not bound the placeholder to " + each.room.node, now);
    }
    if (each.step != PlaceholderStep::hold || now < each.held_since + options_.holds) continue;
    if (!each.evicted) refuse(each, "the time of the placeholder is over", now);
    remove(each, "its time is over", now);
  }
}

KeyedRequest PlaceholderPods::send(const std::string& key, Placeholder& of, Sent what) {
  of.sent = what;
  const PodTarget target{options_.pod_namespace, of.name, of.uid};
  kubernetes::OutgoingRequest request;
  if (what == Sent::creation) {
    request = creation_request(options_.pod_namespace, of.room.manifest);
  } else {
    request = what == Sent::removal ? deletion_request(target) : pod_request(target);
  }
  request.longest = options_.answer_longest;
  return {key, std::move(request)};
}

std::optional<KeyedRequest> PlaceholderPods::next(MonotonicTime now) {
  expire(now);
  for (auto& [key, each] : pods_) {
    if (each.sent != Sent::nothing || now < each.not_before) continue;
    if (each.step == PlaceholderStep::remove) {
      const bool reads = each.uid.empty() || each.terminates;
      return send(key, each, reads ? Sent::reading : Sent::removal);
    }
    if (each.step == PlaceholderStep::bind) return send(key, each, Sent::reading);
    if (each.step != PlaceholderStep::create) continue;
    if (const auto since = blocked_since(each.room.node)) {
      if (now < *since + kRemovalLongest) continue;
      refuse(each, "a placeholder that cannot be removed has its room or its name", now);
      continue;
    }
    if (!may_create_()) {
      refuse(each, "another process may lead", now);
      continue;
    }
    each.may_exist = true;
    return send(key, each, Sent::creation);
  }
  return std::nullopt;
}

void PlaceholderPods::answered(std::string_view key, const kubernetes::ResponseHead& head,
                               std::string_view body, const std::optional<Error>& failure,
                               MonotonicTime now) {
  const auto found = pods_.find(key);
  if (found == pods_.end()) return;
  Placeholder& each = found->second;
  switch (std::exchange(each.sent, Sent::nothing)) {
    case Sent::nothing: return;
    case Sent::creation: created(each, head, body, failure, now); break;
    case Sent::reading: read(each, head, body, failure, now); break;
    case Sent::removal: removed(each, head, body, failure, now); break;
  }
  erase_ended();
}

void PlaceholderPods::created(Placeholder& of, const kubernetes::ResponseHead& head,
                              std::string_view body, const std::optional<Error>& failure,
                              MonotonicTime now) {
  if (!failure && was_not_done(head.code)) {
    // A placeholder of that name is a leftover, which the next plan removes.
    of.may_exist = false;
    if (of.step == PlaceholderStep::remove) return gone(of);
    return refuse(of, "the placeholder was refused: " + placeholder_problem(head, body, failure),
                  now);
  }
  const auto status =
      failure || !is_done(head.code)
          ? Result<PlaceholderStatus>(error(placeholder_problem(head, body, failure)))
          : read_placeholder(body);
  if (!status) {
    return refuse(of,
                  "the answer to the creation of the placeholder was lost: " +
                      kubernetes::bounded_text(status.error().text()),
                  now);
  }
  of.uid = status->uid;
  report(of, PlaceholderChange::created);
  if (of.step == PlaceholderStep::remove) return;
  of.step = PlaceholderStep::bind;
  of.not_before = now + kReadInterval;
  of.bound_until = now + kBindLongest;
}

void PlaceholderPods::read(Placeholder& of, const kubernetes::ResponseHead& head,
                           std::string_view body, const std::optional<Error>& failure,
                           MonotonicTime now) {
  if (!failure && is_without(of, kubernetes::parse_api_status(head.code, body))) {
    if (of.step == PlaceholderStep::remove) return gone(of);
    of.may_exist = false;
    return refuse(of, "another pod preempted the placeholder", now);
  }
  const auto status =
      failure || !is_done(head.code)
          ? Result<PlaceholderStatus>(error(placeholder_problem(head, body, failure)))
          : read_placeholder(body);
  if (of.step == PlaceholderStep::remove) {
    if (of.terminates) return await_end(of, status, now);
    if (!status) return remove_later(of, status.error().text(), now);
    if (of.uid.empty() && status->plan != of.room.plan) return gone(of);
    of.uid = status->uid;
    return;
  }
  of.not_before = now + std::min<Duration>(of.backoff.next(chance_()), 4 * kReadInterval);
  if (!status) return;  // until kBindLongest is over
  if (!status->problem.empty()) {
    return refuse(of, "the placeholder holds no room: " + status->problem, now);
  }
  if (status->node.empty()) return;
  if (status->node != of.room.node) {
    return refuse(of, "the placeholder was bound to " + status->node, now);
  }
  of.step = PlaceholderStep::hold;
  of.held_since = now;
  report(of, PlaceholderChange::held);
}

void PlaceholderPods::removed(Placeholder& of, const kubernetes::ResponseHead& head,
                              std::string_view body, const std::optional<Error>& failure,
                              MonotonicTime now) {
  const kubernetes::ApiStatus refusal = kubernetes::parse_api_status(head.code, body);
  if (!failure && (is_without(of, refusal) || is_of_other_pod(refusal))) return gone(of);
  if (failure || !is_done(head.code) || !kubernetes::check_accepted(body)) {
    return remove_later(of, placeholder_problem(head, body, failure), now);
  }
  const auto status = read_placeholder(body);
  if (!status || !status->terminates) return gone(of);
  of.terminates = true;
  of.gone_at = now + kTerminatesLongest;
  of.backoff.reset();
  await_end(of, status, now);
}

void PlaceholderPods::await_end(Placeholder& of, const Result<PlaceholderStatus>& status,
                                MonotonicTime now) {
  if (now >= of.gone_at || (status && status->uid != of.uid)) return gone(of);
  of.not_before = now + std::min<Duration>(of.backoff.next(chance_()), 4 * kReadInterval);
}

bool PlaceholderPods::is_without(const Placeholder& of, const kubernetes::ApiStatus& status) const {
  return is_of_no_pod(status, options_.pod_namespace, of.name);
}

void PlaceholderPods::remove_later(Placeholder& of, const std::string& problem, MonotonicTime now) {
  if (++of.removals >= kRemovalsMax) {
    report(of, PlaceholderChange::left, kubernetes::bounded_text(problem));
    of.step = PlaceholderStep::refused;
    of.may_exist = false;
    return;
  }
  of.not_before = now + of.backoff.next(chance_());
}

void PlaceholderPods::gone(Placeholder& of) {
  if (of.may_exist) report(of, PlaceholderChange::removed, of.why);
  of.may_exist = false;
  of.step = PlaceholderStep::refused;
}

std::optional<MonotonicTime> PlaceholderPods::due() const {
  std::optional<MonotonicTime> first;
  for (const auto& [uid, each] : pods_) {
    if (each.sent != Sent::nothing || each.step == PlaceholderStep::refused) continue;
    MonotonicTime at =
        each.step == PlaceholderStep::hold ? each.held_since + options_.holds : each.not_before;
    if (each.step == PlaceholderStep::create) {
      if (const auto since = blocked_since(each.room.node)) at = *since + kRemovalLongest;
    }
    if (!first || at < *first) first = at;
  }
  return first;
}

}  // namespace forestall::cluster
