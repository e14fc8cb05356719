// SPDX-License-Identifier: Apache-2.0
#include "rebalance/pod_rules.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "rebalance/cluster_view.h"

namespace forestall::rebalance {
namespace {

constexpr std::string_view kAllAddresses = "0.0.0.0";
// So few are all compared in advance, for example zones.
constexpr DomainId kExactDomains = 8;

bool is_all(std::string_view address) {
  return address.empty() || address == kAllAddresses;
}

bool conflict(const HostPort& a, const HostPort& b) {
  return a.port == b.port && a.protocol == b.protocol &&
         (is_all(a.address) || is_all(b.address) || a.address == b.address);
}

}  // namespace

void DomainCounts::add(DomainId domain, std::int32_t change) {
  total_ += change;
  for (std::uint32_t i = 0; i < few_size_; ++i) {
    if (few_[i].domain != domain) continue;
    few_[i].pods += change;
    if (few_[i].pods == 0) few_[i] = few_[--few_size_];
    return;
  }
  if (few_size_ < kFewDomains && (others_ == nullptr || others_->of(domain) == 0)) {
    few_[few_size_++] = {domain, change};
    return;
  }
  if (others_ == nullptr) others_ = std::make_unique<Others>();
  others_->add(domain, change);
}

void DomainCounts::Others::add(DomainId domain, std::int32_t change) {
  const auto known = pods.try_emplace(domain, 0).first;
  std::int32_t& count = known->second;
  const auto forget = sizes.find(count);
  if (count != 0 && --forget->second == 0) sizes.erase(forget);
  count += change;
  if (count == 0) {
    pods.erase(known);
  } else {
    ++sizes[count];
  }
}

std::int64_t DomainCounts::least(std::size_t domains, DomainId without) const {
  const std::int64_t own = of(without);
  std::size_t occupied = few_size_;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  if (others_ != nullptr && !others_->pods.empty()) {
    occupied += others_->pods.size();
    least = others_->sizes.begin()->first;
  }
  for (std::uint32_t i = 0; i < few_size_; ++i) {
    least = std::min<std::int64_t>(least, few_[i].pods);
  }
  if (occupied == 0 || occupied - (own == 1 ? 1 : 0) < domains) return 0;
  return own > 0 ? std::min(least, own - 1) : least;
}

std::uint64_t DomainCounts::bits_above(std::int64_t most) const {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  if (most < 0 || (others_ != nullptr && !others_->pods.empty())) return kAll;
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < few_size_; ++i) {
    bits |= few_[i].pods > most ? bit_of(few_[i].domain) : 0;
  }
  return bits;
}

void CountedPods::set_most(std::int64_t most) {
  most_others = most;
  is_exact = topology->count() <= kExactDomains;
  if (!is_exact) {
    full_bits = counts->bits_above(most);
    return;
  }
  for (DomainId domain = 0; domain < topology->count(); ++domain) {
    if (others_in(domain) > most) full_bits |= bit_of(domain);
  }
}

PlacementProblem PodRules::problem(std::size_t node) const {
  if (!has_ports(node)) return PlacementProblem::ports;
  if (!has_affinity(node)) return PlacementProblem::pod_affinity;
  return keep_spread(node) ? PlacementProblem::none : PlacementProblem::spread;
}

// satisfyPodAffinity(): the first pod of a series with affinity only to each other may go anywhere.
bool PodRules::has_pods_for_affinity(std::size_t node) const {
  bool found = true;
  std::int64_t others = 0;
  for (const CountedPods& each : affinity_) {
    const DomainId domain = each.topology->of(node);
    if (domain == kNoDomainId) return false;
    if (each.others_in(domain) <= 0) found = false;
    others += each.counts->total() - (each.own_domain != kNoDomainId ? 1 : 0);
  }
  return found || (others == 0 && affinity_.front().selects_itself);
}

bool PodRules::has_free_ports(std::size_t node) const {
  const auto taken = with_ports_->find(node);
  return taken == with_ports_->end() || std::ranges::none_of(taken->second, [&](std::size_t other) {
           return other != pod_ &&
                  std::ranges::any_of(view_->pod(pod_).host_ports, [&](const HostPort& want) {
                    return std::ranges::any_of(
                        view_->pod(other).host_ports,
                        [&](const HostPort& has) { return conflict(want, has); });
                  });
         });
}

}  // namespace forestall::rebalance
