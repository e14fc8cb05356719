// SPDX-License-Identifier: Apache-2.0
// Copies of thresholds, and when they start to count.
#include "policy/containerfs.h"

#include <utility>

namespace forestall::policy {
namespace {

// Index of the last configured hard (or soft) threshold on `signal`.
std::optional<std::size_t> last_of(const std::vector<Threshold>& configured, Signal signal,
                                   bool hard) {
  for (std::size_t i = configured.size(); i-- > 0;) {
    if (configured[i].signal == signal && configured[i].hard() == hard) return i;
  }
  return std::nullopt;
}

}  // namespace

std::vector<DerivedThreshold> containerfs_thresholds(const std::vector<Threshold>& configured,
                                                     FilesystemLayout layout) {
  const bool with_images = layout == FilesystemLayout::imagefs;
  const std::pair<Signal, Signal> copies[] = {
      {with_images ? Signal::imagefs_available : Signal::nodefs_available,
       Signal::containerfs_available},
      {with_images ? Signal::imagefs_inodes_free : Signal::nodefs_inodes_free,
       Signal::containerfs_inodes_free}};
  std::vector<DerivedThreshold> derived;
  std::size_t next = configured.size();
  for (const auto& [original, copy] : copies) {
    for (const bool hard : {true, false}) {
      const auto from = last_of(configured, original, hard);
      if (!from) continue;
      const auto replaced = last_of(configured, copy, hard);
      DerivedThreshold one{replaced ? *replaced : next++, replaced.has_value(), configured[*from]};
      one.threshold.signal = copy;
      derived.push_back(std::move(one));
    }
  }
  return derived;
}

InForce in_force(const Config& config, const State& state, const Observation& observation) {
  if (state.derived) return {state.layout, state.derived, false};
  const std::optional<FilesystemLayout>& layout = observation.filesystems.layout;
  if (!layout) return {};
  return {layout,
          std::make_shared<const std::vector<DerivedThreshold>>(
              containerfs_thresholds(config.thresholds, *layout)),
          config.compat.containerfs_from_second_pass};
}

}  // namespace forestall::policy
