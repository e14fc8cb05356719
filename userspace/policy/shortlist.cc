// SPDX-License-Identifier: Apache-2.0
#include "policy/shortlist.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "policy/exclusion.h"
#include "policy/rank.h"
#include "policy/saturating.h"

namespace forestall::policy {
namespace {

constexpr Bytes kNever{std::numeric_limits<std::int64_t>::max()};

// The growth after which `behind` is evicted before `ahead` (rank.cc, kubelet's rules for memory).
// 0 if `behind` already comes first because its usage is unknown.
Bytes growth_to_pass(const RankKey& behind, const RankKey& ahead) {
  if (behind.preference != ahead.preference) {
    return behind.preference > ahead.preference ? Bytes{0} : kNever;
  }
  if (!behind.measured) return Bytes{0};
  if (!ahead.measured) return kNever;
  const Bytes by_size = subtract(Bytes{ahead.over_request}, Bytes{behind.over_request});
  const Bytes to_exceed = std::max(subtract(Bytes{0}, Bytes{behind.over_request}), Bytes{0});
  const auto priority_of = [](const RankKey& key) {
    return std::pair(key.priority_unknown, key.priority);
  };
  if (priority_of(behind) > priority_of(ahead)) return ahead.exceeds_request ? kNever : to_exceed;
  const bool same_class = behind.exceeds_request == ahead.exceeds_request;
  if (priority_of(behind) == priority_of(ahead)) return std::max(by_size, Bytes{0});
  return same_class ? Bytes{0} : to_exceed;
}

Bytes lead_of(const Candidate& ahead, std::span<const Candidate> rest) {
  Bytes lead = kNever;
  for (const Candidate& behind : rest) {
    lead = std::min(lead, growth_to_pass(behind.key, ahead.key));
  }
  return lead;
}

// A workload without processes may have some by then.
bool may_come(const Candidate& candidate) {
  return candidate.exclusion == Exclusion::none || candidate.exclusion == Exclusion::empty;
}

}  // namespace

Shortlist shortlist(const Config& config, const Observation& observation, const Subject& subject,
                    std::size_t count) {
  const RankBy by{Signal::memory_available, std::nullopt, config.compat, config.ranking};
  const Exclusions exclusions(*observation.workloads, observation.kills);
  std::vector<Candidate> candidates = rank(*observation.workloads, by, subject, exclusions);
  std::erase_if(candidates, [](const Candidate& each) { return !may_come(each); });
  std::ranges::stable_partition(
      candidates, [](const Candidate& each) { return each.exclusion == Exclusion::none; });
  const auto eligible = static_cast<std::size_t>(
      std::ranges::count(candidates, Exclusion::none, &Candidate::exclusion));
  const std::size_t listed = std::min(count, eligible);
  const auto rest = std::span<const Candidate>(candidates).subspan(listed);
  std::vector<Bytes> leads;
  for (std::size_t i = 0; i < listed; ++i) leads.push_back(lead_of(candidates[i], rest));
  candidates.resize(listed);
  return {std::move(candidates), std::move(leads)};
}

}  // namespace forestall::policy
