// SPDX-License-Identifier: Apache-2.0
#include "rebalance/fit_search.h"

#include <algorithm>
#include <utility>

#include "rebalance/node_fit.h"

namespace forestall::rebalance {
namespace {

constexpr std::size_t kFewNodes = 64;
constexpr std::size_t kSearchesKept = 64;

// Each resource of a request is compared, also one with an amount of 0: a node may be
// overcommitted.
bool needs_no_less(const Amounts& request, const Amounts& earlier) {
  return std::ranges::all_of(earlier, [&](const Amount& each) {
    const Amount* const mine = request.find(each.resource);
    return mine != nullptr && mine->nanos >= each.nanos;
  });
}

}  // namespace

bool FitSearch::fits_any_other(PodIndex pod) {
  const std::vector<NodeIndex>& eligible = eligible_.of(view_.pod(pod), {});
  const std::vector<NodeIndex>& nodes = rooms(pod, eligible);
  const PodNeed need(view_, pod);
  const RuleFit rules(view_, pod);
  const auto own = view_.origin_of(pod);
  const bool fits = std::ranges::any_of(
      nodes, [&](NodeIndex each) { return each != own && need.fits(each) && rules.fits(each); });
  if (!fits && &nodes == &eligible) remember(pod, eligible);
  return fits;
}

const std::vector<NodeIndex>& FitSearch::rooms(PodIndex pod, const std::vector<NodeIndex>& nodes) {
  if (std::exchange(changes_, view_.place_changes().size()) != view_.place_changes().size()) {
    searched_.clear();
  }
  const auto known = std::ranges::find_if(searched_, [&](const Searched& each) {
    return each.of == &nodes && needs_no_less(view_.pod(pod).request, each.request);
  });
  return known == searched_.end() ? nodes : known->with_room;
}

void FitSearch::remember(PodIndex pod, const std::vector<NodeIndex>& nodes) {
  const PodNeed need(view_, pod);
  Searched added{.request = view_.pod(pod).request, .of = &nodes, .with_room = {}};
  for (const NodeIndex each : nodes) {
    if (!need.fits(each)) continue;
    if (added.with_room.size() == kFewNodes) return;
    added.with_room.push_back(each);
  }
  if (searched_.size() == kSearchesKept) searched_.erase(searched_.begin());
  searched_.push_back(std::move(added));
}

}  // namespace forestall::rebalance
