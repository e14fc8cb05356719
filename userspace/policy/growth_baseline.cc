// SPDX-License-Identifier: Apache-2.0
// Working sets of one evaluation, and the growth since then.
#include "policy/growth_baseline.h"

#include <algorithm>

#include "base/parse.h"
#include "policy/saturating.h"

namespace forestall::policy {

bool GrowthBaseline::Figures::covers(std::string_view path) const {
  return std::any_of(scopes.begin(), scopes.end(), [path](const std::string& scope) {
    return scope.empty() || path_is_within(path, scope);
  });
}

void GrowthBaseline::Figures::add(const std::vector<WorkloadSample>& samples,
                                  std::string_view scope) {
  entries.reserve(entries.size() + samples.size());
  for (const WorkloadSample& each : samples) {
    if (covers(each.workload.path)) continue;
    entries.push_back({each.workload.cgroup, each.working_set()});
  }
  scopes.emplace_back(scope);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.cgroup < b.cgroup; });
}

std::optional<Bytes> GrowthBaseline::Figures::growth_of(const WorkloadSample& sample) const {
  const std::optional<Bytes> now = sample.working_set();
  if (!at || !now) return std::nullopt;
  const CgroupId cgroup = sample.workload.cgroup;
  const auto before =
      std::lower_bound(entries.begin(), entries.end(), cgroup,
                       [](const Entry& entry, CgroupId id) { return entry.cgroup < id; });
  if (before == entries.end() || before->cgroup != cgroup) {
    // No workload of the baseline has this inode: the cgroup is newer.
    return covers(sample.workload.path) ? now : std::nullopt;
  }
  if (!before->working_set) return std::nullopt;
  return std::max(subtract(*now, *before->working_set), Bytes{0});
}

void GrowthBaseline::take(const std::vector<WorkloadSample>& samples, MonotonicTime at,
                          std::string_view scope) {
  const bool is_reported = scope.empty() ? std::find(warning_.scopes.begin(), warning_.scopes.end(),
                                                     "") != warning_.scopes.end()
                                         : warning_.covers(scope);
  if (is_reported) return;
  if (!warning_.at) warning_.at = at;
  warning_.add(samples, scope);
}

void GrowthBaseline::take_before_warning(const std::vector<WorkloadSample>& samples,
                                         MonotonicTime at) {
  before_warning_ = {};
  before_warning_.at = at;
  before_warning_.add(samples, {});
}

void GrowthBaseline::forget() {
  warning_ = {};
}

void GrowthBaseline::apply(std::vector<WorkloadSample>& samples) const {
  const Figures& figures = in_force();
  for (WorkloadSample& each : samples) each.growth = figures.growth_of(each);
}

std::optional<MonotonicTime> GrowthBaseline::taken_at() const {
  return in_force().at;
}

}  // namespace forestall::policy
