// SPDX-License-Identifier: Apache-2.0
#include "sources/own_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "kernel/memory_files.h"
#include "sources/pod_paths.h"

namespace forestall::sources {
namespace {

// Minimum time between two refreshes, as a multiple of the duration of one.
constexpr int kBudget = 50;

bool was_removed(const Error& error) {
  return error.code == ENOENT || error.code == ENODEV;
}

bool sees_crossing(const Wake& wake) {
  return wake.usage.has_value() || wake.source == WakeSource::high_tripwire;
}

}  // namespace

WorkloadClass workload_class(const Workload& workload) {
  const auto pod =
      workload.kind == WorkloadKind::pod ? parse_pod_path(workload.path) : std::nullopt;
  if (!pod) return WorkloadClass::other;
  switch (pod->qos) {
    case QosClass::guaranteed: return WorkloadClass::guaranteed;
    case QosClass::burstable: return WorkloadClass::burstable;
    case QosClass::best_effort: return WorkloadClass::best_effort;
  }
  return WorkloadClass::other;
}

// Nullopt: it has no limit, no memory controller, or was removed.
Result<std::optional<OwnLimits::Found>> OwnLimits::evaluate_at(const std::string& path,
                                                               std::size_t threshold) const {
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  const auto nothing = [](const Error& error) -> Result<std::optional<Found>> {
    return was_removed(error) ? Result(std::optional<Found>()) : error;
  };
  const auto cgroup = tree_.open(path);
  if (!cgroup) return nothing(cgroup.error());
  const auto limit_text = cgroup->read(v1 ? "memory.limit_in_bytes" : "memory.max");
  if (!limit_text) return nothing(limit_text.error());
  const auto limit = TRY(kernel::parse_amount(*limit_text));
  if (!limit || *limit >= kNoLimitOfV1) return std::optional<Found>();
  const auto usage_text = cgroup->read(v1 ? "memory.usage_in_bytes" : "memory.current");
  if (!usage_text) return nothing(usage_text.error());
  const auto usage = TRY(kernel::parse_amount(*usage_text));
  if (!usage) return std::optional<Found>();
  const Bytes margin = thresholds_[threshold].limit.of(limit->count).bytes();
  return std::optional(Found{path, threshold, *limit, *limit - std::min(margin, *limit), *usage});
}

void OwnLimits::find(const Workload& workload, std::size_t threshold, Listing& listing) const {
  auto whole = evaluate_at(workload.path, threshold);
  if (!whole) listing.add_unread(workload.path, whole.error());
  for (const std::string& child : children_of(workload, listing)) {
    const std::string path = workload.path + "/" + child;
    auto part = evaluate_at(path, threshold);
    if (!part || !whole) {
      listing.add_unread(path, part ? whole.error() : part.error());
    } else if (*part && (!*whole || (*part)->limit < (*whole)->limit)) {
      listing.found.push_back(std::move(**part));
    }
  }
  if (whole && *whole) listing.found.push_back(std::move(**whole));
}

// Of a pod: its containers.
std::vector<std::string> OwnLimits::children_of(const Workload& workload, Listing& listing) const {
  if (workload.kind != WorkloadKind::pod) return {};
  const auto cgroup = tree_.open(workload.path);
  auto children = cgroup ? cgroup->children() : Result<std::vector<std::string>>(cgroup.error());
  if (children) return std::move(children).value();
  if (!was_removed(children.error())) {
    listing.unlisted.insert(workload.path);
    listing.add_unread(workload.path, children.error());
  }
  return {};
}

// A watched cgroup that could not be read now, for example because the agent is out of descriptors,
// stays with the limit it had.
void OwnLimits::keep_unread(Listing& listing) const {
  for (const Held& held : held_) {
    const kernel::CgroupDir& cgroup = held.reader.cgroup();
    const std::string& path = cgroup.path();
    const bool unread =
        listing.unread.contains(path) || listing.unlisted.contains(path.substr(0, path.rfind('/')));
    if (!unread || !cgroup.still_at_path(tree_.memory_fd())) continue;
    const bool known = held.last && held.last->usage;
    const Bytes usage = known ? *held.last->usage : held.line;
    listing.found.push_back({path, held.threshold, held.limit, held.line, usage});
  }
}

void OwnLimits::refresh(const Config& config, const std::vector<const Workload*>& workloads,
                        std::size_t slots, MonotonicTime now, const std::atomic<bool>& stop,
                        std::vector<SourceNote>& notes) {
  const SystemClock clock;
  const MonotonicTime began = clock.now();
  complete_ = true;
  if (thresholds_ == config.thresholds && now < due_) return;
  listed_at_ = now;
  if (thresholds_ != config.thresholds) held_.clear();  // they store thresholds by index
  thresholds_ = config.thresholds;
  std::map<WorkloadClass, std::size_t> wanted;
  for (std::size_t i = 0; i < thresholds_.size(); ++i) {
    if (thresholds_[i].own_limits_of) wanted.emplace(*thresholds_[i].own_limits_of, i);
  }
  if (wanted.empty()) return;
  Listing listing;
  for (const Workload* workload : workloads) {
    if (stop) {
      complete_ = false;
      return;
    }
    const auto rule = wanted.find(workload_class(*workload));
    if (rule != wanted.end()) find(*workload, rule->second, listing);
  }
  keep_unread(listing);
  complete_ = !listing.failure;
  std::vector<Found>& found = listing.found;
  if (listing.failure) {
    notes.push_back({"ownLimit", fmt::format("the limits of {} cgroups could not be read; those "
                                             "watched before stay watched: {}",
                                             listing.unread.size(), listing.failure->text())});
  }
  if (found.size() > slots) {
    const auto nearer = [](const Found& a, const Found& b) {
      return a.line - a.usage < b.line - b.usage;
    };
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(slots),
                      found.end(), nearer);
    notes.push_back(
        {"ownLimit", fmt::format("{} cgroups have a limit of their own, of which the {} "
                                 "nearest to it are watched",
                                 found.size(), slots)});
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(slots), found.end());
  }
  watch(std::move(found), notes);
  due_ = now + (clock.now() - began) * kBudget;
}

void OwnLimits::watch(std::vector<Found> found, std::vector<SourceNote>& notes) {
  std::map<std::string, Held> old;
  for (Held& held : std::exchange(held_, {})) {
    if (!held.reader.cgroup().still_at_path(tree_.memory_fd())) continue;
    const std::string path = held.reader.cgroup().path();
    old.emplace(path, std::move(held));
  }
  for (Found& each : found) {
    if (auto kept = old.extract(each.path)) {
      Held& held = kept.mapped();
      if (held.limit != each.limit) held.last.reset();
      held.threshold = each.threshold;
      held.limit = each.limit;
      held.line = each.line;
      held_.push_back(std::move(held));
      continue;
    }
    auto reader = CgroupReader::open(tree_, each.path);
    if (reader) {
      held_.push_back(
          {std::move(reader).value(), each.threshold, each.limit, each.line, std::nullopt});
    } else if (tree_.open(each.path)) {
      notes.push_back({each.path, reader.error().text()});
    }
  }
}

void OwnLimits::continue_from(OwnLimits& before) {
  // A refresh before its time lists nothing: then the other's list may be the newer one.
  if (thresholds_ == before.thresholds_ && listed_at_ < before.listed_at_) {
    std::swap(held_, before.held_);
    std::swap(due_, before.due_);
    std::swap(listed_at_, before.listed_at_);
    return;
  }
  // The next one is most likely the same.
  auto known = before.held_.begin();
  for (Held& held : held_) {
    const auto is_it = [&](const Held& each) {
      return each.reader.cgroup().id() == held.reader.cgroup().id();
    };
    if (known == before.held_.end() || !is_it(*known)) {
      known = std::find_if(before.held_.begin(), before.held_.end(), is_it);
    }
    held.last.reset();
    if (known == before.held_.end()) continue;
    if (known->limit == held.limit && known->threshold == held.threshold) {
      held.last = std::move(known->last);
    }
    ++known;
  }
}

// False if the cgroup was removed.
bool OwnLimits::read_one(Held& held, MonotonicTime now, std::vector<SourceNote>& notes) {
  auto reading = held.reader.read_usage(buffer_, notes);
  if (!reading.removed && reading.usage && *reading.usage > held.line) {
    reading = held.reader.read(buffer_, notes);
  }
  if (reading.removed) return false;
  CgroupSample sample;
  sample.id = held.reader.cgroup().id();
  sample.path = held.reader.cgroup().path();
  sample.usage = reading.usage;
  sample.inactive_file = reading.inactive_file;
  sample.limit = held.limit;
  sample.at = now;
  sample.threshold = held.threshold;
  held.last = std::move(sample);
  return true;
}

void OwnLimits::read(const Wake& wake, MonotonicTime now, std::vector<CgroupSample>& samples,
                     std::vector<SourceNote>& notes) {
  const bool crossing = sees_crossing(wake);
  std::erase_if(held_, [&](Held& held) {
    const bool elsewhere = crossing && wake.cgroup != held.reader.cgroup().id();
    if ((!elsewhere || !held.last) && !read_one(held, now, notes)) return true;
    samples.push_back(*held.last);
    return false;
  });
}

void OwnLimits::read_some(std::span<const CgroupId> cgroups, MonotonicTime now,
                          std::vector<CgroupSample>& samples, std::vector<SourceNote>& notes) {
  std::erase_if(held_, [&](Held& held) {
    const CgroupId id = held.reader.cgroup().id();
    if (std::find(cgroups.begin(), cgroups.end(), id) == cgroups.end()) return false;
    if (!read_one(held, now, notes)) return true;
    samples.push_back(*held.last);
    return false;
  });
}

}  // namespace forestall::sources
