// SPDX-License-Identifier: Apache-2.0
#include "agent/workload_reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/workload_example.h"
#include "policy/protection.h"

namespace forestall::agent {

void WorkloadReporter::report(const Workloads& workloads, const std::vector<SourceNote>& notes) {
  std::vector<std::string> problems;
  for (const SourceNote& note : notes) problems.push_back(ProblemLog::text_of(note));
  problems_.report(std::move(problems));
  count_pod_facts(workloads);
  report_candidates(workloads);
}

// Logs when inference begins and when it ends, not for every pod that comes.
void WorkloadReporter::count_pod_facts(const Workloads& workloads) {
  exports::PodFactCounts counts;
  for (const Workload* workload : workloads) {
    if (workload->kind != WorkloadKind::pod) continue;
    ++(policy::priority_unknown(*workload) ? counts.inferred : counts.known);
    if (policy::protection_of(*workload) == Protection::may_be_critical) {
      ++counts.may_be_critical;
    }
  }
  const auto before = std::exchange(pod_facts_, counts);
  if ((before.inferred > 0) == (counts.inferred > 0)) return;
  exports::LogLine line("pod-facts");
  line.field("known", counts.known)
      .field("inferred", counts.inferred)
      .field("protected_may_be_critical", counts.may_be_critical);
  if (counts.inferred > 0) {
    line.field("problem",
               "the priority of some pods is unknown: a system-cluster-critical pod cannot be "
               "distinguished from others")
        .field("remedy", "set podList or manifest");
  }
  log_.write(counts.inferred > 0 ? exports::LogLevel::warning : exports::LogLevel::info, line);
}

// An agent that may kill nothing logs so at its start, and logs when that first changes: workloads
// that come and go later are ordinary.
void WorkloadReporter::report_candidates(const Workloads& workloads) {
  if (had_candidates_ == true) return;
  const bool any = std::ranges::any_of(workloads, [](const Workload* each) {
    return policy::protection_of(*each) == Protection::none;
  });
  const auto before = std::exchange(had_candidates_, any);
  if (any) {
    if (!before) return;
    log_.write(exports::LogLevel::info,
               exports::LogLine("candidates").field("workloads", workloads.size()));
    return;
  }
  if (before) return;
  exports::LogLine line("no-candidates");
  line.field("protected", workloads.size()).field("problem", kNoCandidates);
  // Where all are protected, as on a control-plane node, that may well be intended.
  if (!workloads.empty()) return log_.write(exports::LogLevel::warning, line);
  // For people: whole lines without a time or quotes, to be pasted as they are.
  if (log_.format() == exports::LogFormat::text) {
    line.sentence(fmt::format("{}; add lines such as these to the configuration:\n{}",
                              kNoCandidates, fmt::join(kWorkloadExample, "\n")));
    return log_.write(exports::LogLevel::warning, line);
  }
  line.field("remedy", "add lines such as the following to the configuration");
  log_.write(exports::LogLevel::warning, line);
  for (const std::string_view each : kWorkloadExample) {
    log_.write(exports::LogLevel::warning, exports::LogLine("example").field("line", each));
  }
}

}  // namespace forestall::agent
