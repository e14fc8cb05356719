// SPDX-License-Identifier: Apache-2.0
#include "tables/rank_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/pod_requests.h"
#include "policy/protection.h"
#include "policy/rank.h"
#include "tables/table.h"

namespace forestall::tables {
namespace {

bool in_bytes(Resource resource) {
  return resource == Resource::memory || resource == Resource::ephemeral_storage;
}

std::string usage_heading(Resource resource) {
  switch (resource) {
    case Resource::memory: return "working set";
    case Resource::ephemeral_storage: return "disk usage";
    case Resource::inodes: return "inodes";
    case Resource::pids: return "processes";
  }
  return "";
}

// The kernel's points apply to memory only.
bool by_points(Resource resource, Ranking ranking) {
  return ranking == Ranking::kernel && resource == Resource::memory;
}

// Growth is shown even if it is not compared.
bool shows_growth(const std::vector<Candidate>& order, Resource resource, Ranking ranking) {
  if (resource != Resource::memory) return false;
  return ranking == Ranking::kubelet_growth ||
         std::any_of(order.begin(), order.end(),
                     [](const Candidate& each) { return each.sample.growth.has_value(); });
}

// The compared values, in column order.
std::vector<std::string> key_headings(Resource resource, Ranking ranking, bool with_growth) {
  if (resource == Resource::pids) return {"priority", usage_heading(resource)};
  std::vector<std::string> headings{usage_heading(resource), "request", "exceeds", "priority",
                                    "over request"};
  if (with_growth) headings.insert(headings.end() - 1, "growth");
  if (by_points(resource, ranking)) headings.insert(headings.begin(), {"points", "of pid"});
  return headings;
}

// The process the kernel would choose in this workload, and its points.
std::vector<std::string> points_cells(const WorkloadSample& sample) {
  if (!sample.scored) return {"unknown", "unknown"};
  if (!sample.badness) return {"none", "none"};
  return {fmt::format("{}", sample.badness->points),
          fmt::format("{}", sample.badness->process.pid)};
}

std::vector<std::string> key_cells(const Candidate& candidate, Resource resource,
                                   bool with_growth) {
  const RankKey& key = candidate.key;
  const auto known = [&](const std::string& text) { return key.measured ? text : "unknown"; };
  const std::string usage = known(amount_text(resource, key.usage));
  const auto declared = priority_of(candidate.sample.workload);
  const std::string unset = key.priority_unknown ? "unknown" : "none";
  const std::string priority = declared ? fmt::format("{}", *declared) : unset;
  if (resource == Resource::pids) return {priority, usage};
  const auto request = request_of(candidate, resource);
  std::vector<std::string> cells{usage, request ? human(*request) : "none",
                                 known(key.exceeds_request ? "yes" : "no"), priority,
                                 known(amount_text(resource, key.over_request))};
  const auto& growth = candidate.sample.growth;
  if (with_growth) cells.insert(cells.end() - 1, growth ? human(*growth) : "unknown");
  return cells;
}

// Why the workload is protected, or which value ranks it before the next one (null: it is the
// last).
std::string remark(const Candidate& each, const Candidate* next, Resource resource,
                   Ranking ranking) {
  if (each.exclusion == Exclusion::is_protected) {
    const std::string reason = protection_reason(each.sample.workload);
    return fmt::format("protected: {}", reason.empty() ? "it contains a protected workload, or "
                                                         "is part of one"
                                                       : reason);
  }
  if (each.exclusion != Exclusion::none) return std::string(to_string(each.exclusion));
  if (next == nullptr) return "";
  return fmt::format("before the next by {}",
                     policy::deciding_rule(each.key, next->key, resource, ranking));
}

}  // namespace

std::optional<std::int32_t> priority_of(const Workload& workload) {
  if (workload.priority || !workload.pod) return workload.priority;
  return workload.pod->priority;
}

std::optional<Bytes> request_of(const Candidate& candidate, Resource resource) {
  const Workload& workload = candidate.sample.workload;
  if (resource == Resource::memory && workload.memory_request) return workload.memory_request;
  if (resource == Resource::memory && workload.inferred) return workload.inferred->memory_request;
  if (!workload.pod) return std::nullopt;
  const auto amount =
      resource == Resource::memory ? &ResourceList::memory : &ResourceList::ephemeral_storage;
  const auto request = policy::pod_request(*workload.pod, amount);
  return request ? std::optional(request->bytes()) : std::nullopt;
}

std::string amount_text(Resource resource, std::int64_t amount) {
  return in_bytes(resource) ? human(Bytes{amount}) : fmt::format("{}", amount);
}

std::string order_text(const std::vector<Candidate>& order, Resource resource,
                       const std::vector<std::string>& headings,
                       std::vector<std::string> (*describe)(const Workload&), Ranking ranking,
                       OrderRows rows) {
  std::vector<std::string> row{"order"};
  row.insert(row.end(), headings.begin(), headings.end());
  const bool with_growth = shows_growth(order, resource, ranking);
  for (std::string& heading : key_headings(resource, ranking, with_growth))
    row.push_back(std::move(heading));
  row.emplace_back();
  Table table(std::move(row));
  // Numbers and remarks are about the rows that are shown: an empty workload is never the next.
  std::vector<const Candidate*> shown;
  for (const Candidate& each : order) {
    if (rows.with_empty || each.exclusion != Exclusion::empty) shown.push_back(&each);
  }
  for (std::size_t i = 0; i < std::min(shown.size(), rows.limit); ++i) {
    const Candidate& each = *shown[i];
    row = {fmt::format("{}", i + 1)};
    for (std::string& cell : describe(each.sample.workload)) row.push_back(std::move(cell));
    if (by_points(resource, ranking)) {
      for (std::string& cell : points_cells(each.sample)) row.push_back(std::move(cell));
    }
    for (std::string& cell : key_cells(each, resource, with_growth)) row.push_back(std::move(cell));
    row.push_back(remark(each, i + 1 < shown.size() ? shown[i + 1] : nullptr, resource, ranking));
    table.add(std::move(row));
  }
  return table.text();
}

std::string protection_reason(const Workload& workload) {
  const Protection protection = policy::protection_of(workload);
  switch (protection) {
    case Protection::none: return "";
    case Protection::critical:
      return fmt::format("critical (priority {})", priority_of(workload).value_or(0));
    case Protection::static_pod:
      if (!workload.pod) return "static pod";
      return workload.pod->origin == PodOrigin::mirror ? "static pod (mirror)" : "static pod";
    case Protection::may_be_critical:
      return "may be critical (priority unknown; see podList in forestall(8))";
    case Protection::annotated: return "annotation forestall.dev/protected";
    case Protection::declared:
    case Protection::own_cgroup:
    case Protection::init_cgroup: return std::string(to_string(protection));
  }
  return "";
}

}  // namespace forestall::tables
