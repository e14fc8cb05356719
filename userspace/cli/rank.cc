// SPDX-License-Identifier: Apache-2.0
// `forestall rank`: the workloads in the order they would be evicted, with every value compared.
#include <fmt/format.h>

#include "api/convert.h"
#include "api/json.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/look.h"
#include "cli/table.h"
#include "forestall/v1/report.pb.h"
#include "policy/rank.h"

namespace forestall::cli {
namespace {

std::string amount(const std::optional<Bytes>& bytes) {
  return bytes ? human(*bytes) : "unknown";
}

// Why this one may not be killed, or what put it before the next one.
std::string remark(const std::vector<Candidate>& order, std::size_t i) {
  const Candidate& each = order[i];
  if (each.exclusion == Exclusion::is_protected) {
    return fmt::format("protected: {}", to_string(each.sample.workload.protection));
  }
  if (each.exclusion != Exclusion::none) return std::string(to_string(each.exclusion));
  if (i + 1 == order.size()) return "";
  return fmt::format("before the next by {}", policy::deciding_rule(each.key, order[i + 1].key));
}

void print_text(const std::vector<Candidate>& order) {
  if (order.empty()) {
    fmt::print("no workloads: no pod was found, and no cgroup matches a workload rule\n");
    return;
  }
  Table table({"order", "workload", "cgroup", "working set", "request", "exceeds", "priority",
               "over request", ""});
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Candidate& each = order[i];
    const Workload& workload = each.sample.workload;
    table.add({fmt::format("{}", i + 1), workload.name, workload.path,
               amount(each.sample.working_set()),
               workload.memory_request ? human(*workload.memory_request) : "none",
               each.key.exceeds_request ? "yes" : "no",
               workload.priority ? fmt::format("{}", *workload.priority) : "none",
               each.key.measured ? human(each.key.over_request) : "unknown", remark(order, i)});
  }
  table.print();
}

policy::Subject subject_of(const std::string& cgroup, const Look& look) {
  if (cgroup.empty()) return {};
  // Any identity but the node's: ranking goes by the path.
  policy::Subject subject{CgroupId{UINT64_MAX}, cgroup};
  for (const CgroupSample& each : look.observation.watched) {
    if (each.path == cgroup) subject.cgroup = each.id;
  }
  return subject;
}

}  // namespace

int run_rank(const Options& options, const std::string& cgroup) {
  if (!cgroup.empty() && (cgroup.front() != '/' || (cgroup.size() > 1 && cgroup.back() == '/'))) {
    fmt::print(stderr,
               "forestall rank: --cgroup {}: give an absolute path of the memory hierarchy, "
               "without a slash at its end\n",
               cgroup);
    return kExitUsage;
  }
  auto looked = look_at_host(options);
  if (const auto* failure = std::get_if<LookFailure>(&looked)) {
    return report_failure("rank", *failure);
  }
  const Look& look = std::get<Look>(looked);
  for (const std::string& warning : look.warnings) fmt::print(stderr, "{}\n", warning);
  const auto& workloads = *look.observation.workloads;
  const policy::Exclusions exclusions(workloads, look.observation.kills);
  const auto order = policy::rank(workloads, subject_of(cgroup, look), exclusions);
  if (options.output == OutputFormat::json) {
    v1::RankReport report;
    for (const Candidate& each : order) *report.add_order() = api::to_proto(each);
    fmt::print("{}", api::to_json(report, api::JsonStyle::pretty));
  } else {
    print_text(order);
  }
  return kExitOk;
}

}  // namespace forestall::cli
