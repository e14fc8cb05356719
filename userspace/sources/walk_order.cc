// SPDX-License-Identifier: Apache-2.0
#include "sources/walk_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace forestall::sources {

bool take_walk_order(std::span<const pid_t> walk, std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which) {
  std::vector<std::pair<std::size_t, std::size_t>> places;  // in the walk, in the samples
  std::vector<std::uint64_t> values;
  for (const std::size_t index : which) {
    const auto found = std::ranges::find(walk, samples[index].id.pid);
    if (found == walk.end()) return false;
    places.emplace_back(found - walk.begin(), index);
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
