// SPDX-License-Identifier: Apache-2.0
#include "policy/shortlist.h"

#include <optional>

#include "policy/exclusion.h"
#include "policy/rank.h"

namespace forestall::policy {

std::vector<Candidate> shortlist(const Config& config, const Observation& observation,
                                 const Subject& subject, std::size_t count) {
  const RankBy by{Signal::memory_available, std::nullopt, config.compat, config.ranking};
  const Exclusions exclusions(*observation.workloads, observation.kills);
  std::vector<Candidate> candidates = rank(*observation.workloads, by, subject, exclusions);
  std::erase_if(candidates,
                [](const Candidate& each) { return each.exclusion != Exclusion::none; });
  if (candidates.size() > count) candidates.resize(count);
  return candidates;
}

}  // namespace forestall::policy
