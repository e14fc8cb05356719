// SPDX-License-Identifier: Apache-2.0
#include "policy/guard_list.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/until_oom.h"
#include "model/workload_class.h"
#include "policy/credit.h"
#include "policy/damage_limit.h"
#include "policy/exclusion.h"
#include "policy/rank.h"
#include "policy/saturating.h"
#include "policy/signals.h"
#include "policy/warning.h"

namespace forestall::policy {
namespace {

// The order for one threshold, and what the limit on the damage needs of it.
struct Listing {
  GuardOrder order;
  Evidence driving;
};

// How much more the subject can allocate until exhaustion.
Bytes until_exhausted(const Subject& subject, const SignalState& signal, const NodeSample& node) {
  const auto of_node = subject.is_node() ? until_oom(node) : std::nullopt;
  return of_node.value_or(Bytes{signal.available});
}

Bytes half(Bytes amount) {
  return {amount.count / 2};
}

// The order for one threshold, without victims yet; nullopt: not in its warning zone.
std::optional<Listing> order_for(const Threshold& threshold, const Subject& subject,
                                 const SignalState& signal, const NodeSample& node,
                                 const Credit& credit) {
  const MemoryLevel& level = *signal.level;
  const Bytes limit = threshold.limit.of(signal.capacity).bytes();
  const Bytes to_threshold = subtract({signal.available}, limit);
  if (!in_warning_zone(to_threshold, warning_margin(level.capacity))) return std::nullopt;
  const Bytes to_exhaustion = until_exhausted(subject, signal, node);
  // If the kernel's OOM killer would run before the threshold, half of the remaining amount.
  const bool kernel_first = to_exhaustion < to_threshold;
  const Bytes from = kernel_first ? Bytes{0} : to_threshold;
  const Bytes headroom = add(half(from), half(to_exhaustion));
  // Memory that is being released counts as available.
  if (credit.of(subject, level) > Bytes{0} && add(headroom, credit.of(subject, level)) > Bytes{0}) {
    return std::nullopt;
  }
  Listing listing;
  listing.driving.threshold = threshold;
  listing.driving.subject = std::string(subject.name());
  listing.driving.cgroup = subject.cgroup;
  listing.driving.capacity = signal.capacity;
  listing.driving.available = signal.available;
  listing.driving.limit = threshold.limit.of(signal.capacity);
  listing.driving.at = signal.at;
  GuardOrder& order = listing.order;
  order.cgroup = subject.cgroup;
  order.path = std::string(subject.path);
  order.signal = threshold.signal;
  order.headroom = headroom;
  order.line = add(level.used(), headroom);
  order.inactive_file = level.inactive_file;
  order.need = std::max(subtract(to_exhaustion, headroom), Bytes{1});
  return listing;
}

// Total growth, if the ranking uses growth.
Bytes total_growth(const std::vector<Candidate>& considered) {
  Bytes sum;
  for (const Candidate& each : considered) sum = add(sum, Bytes{each.key.growth.value_or(0)});
  return sum;
}

// The predicted memory of a victim at the line. Growing workloads are assumed to fill the remaining
// headroom in proportion to their growth so far. Otherwise a growing workload, still small when it
// is listed, would be grouped with a neighbour that does not grow.
Bytes held_at_line(const Candidate& candidate, Bytes expected, Bytes growth,
                   const GuardOrder& order) {
  if (growth <= Bytes{0} || order.headroom <= Bytes{0}) return expected;
  const double part =
      static_cast<double>(candidate.key.growth.value_or(0)) / static_cast<double>(growth.count);
  const double share = part * static_cast<double>(order.headroom.count);
  return add(expected, Bytes{static_cast<std::int64_t>(share)});
}

// The guard acts between two evaluations, so it lists only workloads that every evaluation until
// then would kill. A workload within its request is one of those only as the first victim of the
// node, as kubelet's is. The list ends before the first workload that the guard may not kill: it
// must not kill the next one in its place.
class GuardLimit {
 public:
  GuardLimit(const Config& config, const Observation& observation, const Listing& listing)
      : damage_(config, listing.driving, observation, listing.order.considered, {}),
        rate_(config, observation),
        excludes_within_request_(listing.order.cgroup != CgroupId{} || damage_.facts().kills > 0) {}

  bool admit(const Candidate& candidate) {
    if (damage_.reason(candidate)) return false;
    if (excludes_within_request_ && is_within_request(candidate.key)) return false;
    const WorkloadClass of = workload_class_at(candidate.sample.workload.path);
    if (rate_.is_reached(of)) return false;
    rate_.add(of);
    excludes_within_request_ = true;
    return true;
  }

 private:
  DamageLimit damage_;
  KillRate rate_;  // with the victims that are listed
  bool excludes_within_request_;
};

// Fills in the victims, first groups first: each as large as the need, or all there are.
void list_victims(const Config& config, const Observation& observation,
                  const Exclusions& exclusions, Listing& listing) {
  GuardOrder& order = listing.order;
  const RankBy by{order.signal, std::nullopt, config.compat, config.ranking};
  const Subject subject =
      order.cgroup == CgroupId{} ? Subject{} : Subject{order.cgroup, order.path};
  order.considered = rank(*observation.workloads, by, subject, exclusions);
  GuardLimit limit(config, observation, listing);
  const Bytes growth = total_growth(order.considered);
  std::uint32_t group = 0;
  Bytes sum;
  for (std::size_t i = 0; i < order.considered.size(); ++i) {
    if (order.victims.size() == kGuardVictimsMax) return;
    const Candidate& candidate = order.considered[i];
    const std::optional<Bytes> expected = candidate.sample.working_set();
    if (candidate.exclusion != Exclusion::none || !expected || expected->count <= 0) continue;
    if (!limit.admit(candidate)) return;
    order.victims.push_back({i, group, *expected});
    sum = add(sum, held_at_line(candidate, *expected, growth, order));
    if (sum < order.need) continue;
    ++group;
    sum = Bytes{0};
  }
}

CgroupId subject_of(const Listing& listing) {
  return listing.order.cgroup;
}

// The node's order is always kept: it has its own slot.
void keep_nearest(std::vector<Listing>& orders) {
  const bool node = std::ranges::find(orders, CgroupId{}, subject_of) != orders.end();
  const std::size_t room = node ? kGuardSubjectsMax : kGuardSubjectsMax - 1;
  if (orders.size() <= room) return;
  const auto key = [](const Listing& listing) {
    return std::pair(subject_of(listing) != CgroupId{}, listing.order.headroom);
  };
  std::ranges::stable_sort(orders, {}, key);
  orders.erase(orders.begin() + static_cast<std::ptrdiff_t>(room), orders.end());
}

// Of several thresholds of a subject, the first to be critical.
void keep_first(std::vector<Listing>& orders, Listing listing) {
  const auto same = std::ranges::find(orders, subject_of(listing), subject_of);
  if (same == orders.end()) {
    orders.push_back(std::move(listing));
  } else if (listing.order.headroom < same->order.headroom) {
    *same = std::move(listing);
  }
}

// Without victims.
std::vector<Listing> listings_of(const Config& config, const Observation& observation) {
  std::vector<Listing> listings;
  const Credit credit(observation.kills);
  for_each_subject(config, observation,
                   [&](std::size_t, const Threshold& threshold, const Subject& subject,
                       const std::optional<SignalState>& signal) {
                     // Nothing may be killed in the grace period of a soft threshold, and some
                     // thresholds never evict.
                     const bool kills = threshold.hard() && threshold.response == Response::evict;
                     if (!kills || !signal || !signal->level) return;
                     auto near = order_for(threshold, subject, *signal, observation.node, credit);
                     if (near) keep_first(listings, std::move(*near));
                   });
  keep_nearest(listings);
  return listings;
}

}  // namespace

std::vector<std::string> guard_subjects(const Config& config, const Observation& observation) {
  std::vector<std::string> paths;
  for (Listing& each : listings_of(config, observation)) {
    paths.push_back(std::move(each.order.path));
  }
  return paths;
}

std::vector<GuardOrder> guard_orders(const Config& config, const Observation& observation) {
  std::vector<Listing> listings = listings_of(config, observation);
  std::vector<GuardOrder> orders;
  if (listings.empty()) return orders;
  if (observation.workloads) {
    const Exclusions exclusions(*observation.workloads, observation.kills, Terminating::candidate);
    for (Listing& each : listings) list_victims(config, observation, exclusions, each);
  }
  for (Listing& each : listings) orders.push_back(std::move(each.order));
  return orders;
}

}  // namespace forestall::policy
