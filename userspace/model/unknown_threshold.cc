// SPDX-License-Identifier: Apache-2.0
#include "model/unknown_threshold.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace forestall {
namespace {

std::string noted(const Observation& observation, const std::string& subject) {
  const auto note = std::ranges::find(observation.notes, subject, &SourceNote::subject);
  return note == observation.notes.end() ? "" : ": " + note->problem;
}

std::string of_place(const std::string& path, const std::string& setting,
                     const Observation& observation) {
  const std::string why = noted(observation, path);
  if (!why.empty()) return path + why;
  return path + " does not exist or cannot be read; set filesystems." + setting +
         " if it is elsewhere";
}

std::string of_filesystem(const Config& config, const SignalRow& row,
                          const Observation& observation) {
  const FilesystemPlaces& places = config.filesystems;
  const FilesystemSamples& samples = observation.filesystems;
  const Filesystem filesystem = *row.filesystem;
  if (filesystem == Filesystem::containerfs && samples.layout) {
    return "thresholds of the filesystem with the writable layers apply instead";
  }
  const auto& sample = filesystem == Filesystem::nodefs    ? samples.nodefs
                       : filesystem == Filesystem::imagefs ? samples.imagefs
                                                           : samples.containerfs;
  if (sample && row.unit == Unit::inodes) return "the filesystem has no fixed number of inodes";
  if (filesystem == Filesystem::containerfs && !places.containerfs.empty()) {
    return of_place(places.containerfs, "containerfs", observation);
  }
  if (filesystem != Filesystem::nodefs && !places.imagefs.empty()) {
    return of_place(places.imagefs, "imagefs", observation);
  }
  if (filesystem != Filesystem::nodefs && !places.runtime.empty()) {
    return "only the agent queries the container runtime for the place of images (" +
           places.runtime + ")";
  }
  return of_place(places.nodefs, "nodefs", observation);
}

std::string of_pods(const Observation& observation) {
  if (!observation.pods) return "there is no pods cgroup below cgroupRoot";
  return observation.pods->path + " has no limit" + noted(observation, observation.pods->path);
}

std::string of_watched(const Threshold& threshold, std::size_t index,
                       const Observation& observation) {
  if (threshold.own_limits_of) return "no workload is near its own limit";
  const auto found = std::ranges::find(observation.watched, index, &CgroupSample::threshold);
  if (found == observation.watched.end()) {
    return "no cgroup matches" + noted(observation, threshold.cgroup);
  }
  return found->path + " has no limit, and the threshold has no capacity" +
         noted(observation, found->path);
}

std::string reason_of(const Config& config, std::size_t index, const Observation& observation) {
  const Threshold& threshold = config.thresholds[index];
  const SignalRow& row = row_of(threshold.signal);
  switch (row.subject) {
    case SubjectKind::pods_cgroup: return of_pods(observation);
    case SubjectKind::watched_cgroup: return of_watched(threshold, index, observation);
    case SubjectKind::node: break;
  }
  if (row.filesystem) return of_filesystem(config, row, observation);
  if (auto missing = swap_missing(threshold.signal, observation.node)) return std::move(*missing);
  return row.measure == Measure::tasks ? "the number of tasks could not be read"
                                       : "the node's memory could not be read";
}

std::string subject_of(const Threshold& threshold, const Observation& observation) {
  switch (row_of(threshold.signal).subject) {
    case SubjectKind::node: return "node";
    case SubjectKind::pods_cgroup: return observation.pods ? observation.pods->path : "pods";
    case SubjectKind::watched_cgroup: break;
  }
  if (!threshold.own_limits_of) return threshold.cgroup;
  return "ownLimit " + std::string(to_string(*threshold.own_limits_of));
}

}  // namespace

SourceNote to_note(const UnknownThreshold& unknown) {
  return {std::string(to_string(unknown.threshold.signal)), "unknown: " + unknown.reason};
}

std::optional<std::string> swap_missing(Signal signal, const NodeSample& node) {
  if (row_of(signal).measure != Measure::swap || node.swap_total != Bytes{0}) return std::nullopt;
  return "this node has no swap, so the threshold is never met";
}

std::vector<UnknownThreshold> unknown_thresholds(const Config& config,
                                                 const Observation& observation,
                                                 std::span<const Evidence> evidence) {
  std::vector<UnknownThreshold> unknown;
  for (std::size_t i = 0; i < config.thresholds.size(); ++i) {
    const Threshold& threshold = config.thresholds[i];
    if (std::ranges::find(evidence, threshold, &Evidence::threshold) != evidence.end()) continue;
    unknown.push_back(
        {threshold, subject_of(threshold, observation), reason_of(config, i, observation)});
  }
  return unknown;
}

}  // namespace forestall
