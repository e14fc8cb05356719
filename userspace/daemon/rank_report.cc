// SPDX-License-Identifier: Apache-2.0
#include "daemon/rank_report.h"

#include <string>

#include "messages/convert.h"

namespace forestall::daemon {

v1::RankReport rank_report(const std::vector<Candidate>& order, const policy::RankBy& by,
                           std::string_view layout_from) {
  const Resource resource = resource_of(by.signal);
  v1::RankReport report;
  for (const Candidate& each : order) *report.add_order() = messages::to_proto(each);
  report.set_signal(std::string(to_string(by.signal)));
  report.set_resource(std::string(to_string(resource)));
  for (const auto& rule : policy::rules_for(resource, by.ranking))
    report.add_comparators(std::string(rule.name));
  report.set_fs_layout(std::string(to_string(by.layout.value_or(FilesystemLayout::single))));
  report.set_fs_layout_from(std::string(layout_from));
  return report;
}

v1::SignalsReport signals_report(Observation observation, const std::vector<Evidence>& signals) {
  observation.workloads.reset();
  v1::SignalsReport report;
  *report.mutable_observation() = messages::to_proto(observation);
  for (const Evidence& each : signals) *report.add_signals() = messages::to_proto(each);
  return report;
}

void keep_rankable(Signal signal, std::vector<WorkloadSample>& workloads) {
  if (!filesystem_of(signal)) return;
  std::erase_if(workloads,
                [](const WorkloadSample& each) { return each.workload.kind != WorkloadKind::pod; });
}

}  // namespace forestall::daemon
