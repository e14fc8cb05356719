// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall events`.
#include <fmt/format.h>

#include "base/printable.h"
#include "cluster/kubectl_command.h"
#include "cluster/reported_event.h"
#include "kubernetes/url.h"
#include "tables/table.h"

namespace forestall::cluster {

Result<KubectlReport> report_events(ApiReader& api, const KubectlOptions& options) {
  const std::string where =
      options.all_namespaces ? ""
                             : "/namespaces/" + kubernetes::percent_encoded(options.pod_namespace);
  const auto events = TRY(
      read_events(api, fmt::format("/api/v1{}/events?fieldSelector=source%3Dforestall", where)));
  KubectlReport report;
  if (auto note = unreadable_note(events)) report.notes.push_back(*std::move(note));
  if (options.json) {
    auto list = text::JsonOutput::list();
    for (const ReportedEvent& each : events.list) list.add(to_json(each));
    auto out = text::JsonOutput::object();
    out.set("events", std::move(list));
    report.text = out.pretty();
    return report;
  }
  if (events.list.empty()) {
    report.text = fmt::format(
        "no Events of Forestall in {}; the API server keeps Events for an hour by default\n",
        options.all_namespaces ? "any namespace" : "namespace " + options.pod_namespace);
    return report;
  }
  tables::Table table({"last", "count", "reason", "object", "node", "message"});
  for (const ReportedEvent& each : events.list) {
    table.add({each.last, std::to_string(each.count), each.reason, subject_text(each), each.node,
               escaped(each.message)});
  }
  report.text = table.text();
  return report;
}

}  // namespace forestall::cluster
