// SPDX-License-Identifier: Apache-2.0
#include "sources/walk_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace forestall::sources {
namespace {

// By pid; positions of a duplicate pid ascend.
std::vector<std::pair<pid_t, std::size_t>> places_of(std::span<const pid_t> walk) {
  std::vector<std::pair<pid_t, std::size_t>> places;
  places.reserve(walk.size());
  for (std::size_t place = 0; place < walk.size(); ++place) places.emplace_back(walk[place], place);
  std::ranges::sort(places);
  return places;
}

}  // namespace

bool take_walk_order(std::span<const pid_t> walk, std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which) {
  // All may tie, and be as many as the walk is long.
  const auto known = places_of(walk);
  std::vector<std::pair<std::size_t, std::size_t>> places;  // in the walk, in the samples
  std::vector<std::uint64_t> values;
  for (const std::size_t index : which) {
    const auto pid = samples[index].id.pid;
    const auto found = std::ranges::lower_bound(known, std::pair{pid, std::size_t{0}});
    if (found == known.end() || found->first != pid) return false;
    places.emplace_back(found->second, index);
    values.push_back(samples[index].order);
  }
  std::ranges::sort(places);
  std::ranges::sort(values);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i > 0 && values[i] <= values[i - 1]) values[i] = values[i - 1] + 1;
    samples[places[i].second].order = values[i];
  }
  return true;
}

}  // namespace forestall::sources
