// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall top nodes`: the objects of the nodes, and the last report of each
// (scripts/deploy/kubernetes/crd/node-reports.yaml), if reports are published.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "base/parse.h"
#include "cluster/kubectl_command.h"
#include "cluster/node_guard.h"
#include "tables/table.h"
#include "text/json_output.h"
#include "text/json_value.h"

namespace forestall::cluster {
namespace {

constexpr const char* kNodeReports = "/apis/forestall.dev/v1alpha1/nodereports";

// Values as the API has them; empty: unknown.
struct LastNodeReport {
  std::string time;
  std::string working_set;
  std::string capacity;
  std::string full_stall;
  std::string evictions;
  std::string oom_kills;
};

using LastReports = std::map<std::string, LastNodeReport, std::less<>>;  // by node

Result<std::string> value_in(const text::JsonValue& status, std::string_view object,
                             std::string_view key) {
  const auto parent = TRY(status.find(object));
  if (!parent) return std::string();
  const auto value = TRY(parent->find(key));
  return value ? value->string_or_number() : Result<std::string>("");
}

Result<void> add_report(const text::JsonValue& object, LastReports& reports) {
  const text::JsonValue metadata = TRY(object.at("metadata"));
  const text::JsonValue status = TRY(object.at("status"));
  LastNodeReport report;
  report.time = TRY(status.text("time"));
  report.working_set = TRY(value_in(status, "memory", "workingSet"));
  report.capacity = TRY(value_in(status, "memory", "capacity"));
  report.full_stall = TRY(value_in(status, "memoryStallPercent", "full"));
  report.evictions = TRY(value_in(status, "lastHour", "evictions"));
  report.oom_kills = TRY(value_in(status, "lastHour", "oomKills"));
  reports[TRY(metadata.text("name"))] = std::move(report);
  return {};
}

// Without reports the nodes are shown all the same.
LastReports read_reports(ApiReader& api, std::vector<std::string>& notes) {
  LastReports reports;
  const auto listed = api.each(kNodeReports, [&reports](const text::JsonValue& object) {
    return add_report(object, reports);
  });
  if (!listed) {
    notes.push_back("memory and evictions are unknown: " + listed.error().text());
  } else if (!*listed) {
    notes.emplace_back(
        "memory and evictions are unknown: the API server has no kind NodeReport of "
        "forestall.dev/v1alpha1");
  } else if (reports.empty()) {
    notes.emplace_back("memory and evictions are unknown: no NodeReport is published");
  }
  return reports;
}

struct NodeRow {
  std::string name;
  std::string guarded;
  std::string pressure;   // empty: no current condition
  std::string heartbeat;  // of the condition
  bool is_tainted = false;
  LastNodeReport report;
};

Result<NodeRow> read_row(const text::JsonValue& object, std::int64_t wall_seconds) {
  const text::JsonValue metadata = TRY(object.at("metadata"));
  const NodeObject node = TRY(read_node(object));
  NodeRow row;
  row.name = TRY(metadata.text("name"));
  row.guarded = guarded_word(node, wall_seconds);
  row.pressure = current_pressure(node, wall_seconds);
  row.heartbeat = node.condition_heartbeat;
  row.is_tainted = !node.our_taints.empty();
  return row;
}

// Nothing writes the condition of a node whose `forestall cluster` has ended.
void note_old_conditions(const std::vector<NodeRow>& rows, std::vector<std::string>& notes) {
  constexpr std::size_t kListed = 5;
  std::size_t count = 0;
  std::string list;
  for (const NodeRow& each : rows) {
    if (!each.pressure.empty() || each.heartbeat.empty() || each.guarded == "no") continue;
    if (++count > kListed) continue;
    list += fmt::format("{}{} ({})", count == 1 ? "" : ", ", each.name, each.heartbeat);
  }
  if (count == 0) return;
  notes.push_back(fmt::format(
      "the guard of {} node{} is unknown: the condition {} was last written more than {} min ago: "
      "{}{}",
      count, count == 1 ? "" : "s", kPressureCondition,
      std::chrono::duration_cast<std::chrono::minutes>(kConditionAgeMax).count(), list,
      count > kListed ? ", ..." : ""));
}

std::string or_dash(std::string_view value) {
  return value.empty() ? "-" : std::string(value);
}

// "8.0 GiB" of a number of bytes; quantities with a suffix stay as they are.
std::string amount_or_dash(const std::string& value) {
  const auto bytes = parse_u64(value);
  if (!bytes || *bytes > INT64_MAX) return or_dash(value);
  return tables::human(Bytes{static_cast<std::int64_t>(*bytes)});
}

std::string table_of(const std::vector<NodeRow>& rows) {
  tables::Table table({"node", "guarded", "pressure", "taint", "working set", "capacity",
                       "full stall %", "evictions/h", "oom kills/h", "reported"});
  for (const NodeRow& row : rows) {
    table.add({row.name, row.guarded, or_dash(row.pressure), row.is_tainted ? "yes" : "no",
               amount_or_dash(row.report.working_set), amount_or_dash(row.report.capacity),
               or_dash(row.report.full_stall), or_dash(row.report.evictions),
               or_dash(row.report.oom_kills), or_dash(row.report.time)});
  }
  return table.text();
}

void set_if_known(text::JsonOutput& out, const char* key, const std::string& value) {
  if (!value.empty()) out.set(key, value);
}

std::string json_of(const std::vector<NodeRow>& rows) {
  auto list = text::JsonOutput::list();
  for (const NodeRow& row : rows) {
    auto node = text::JsonOutput::object();
    node.set("name", row.name);
    node.set("guarded", row.guarded);
    set_if_known(node, "pressure", row.pressure);
    set_if_known(node, "lastHeartbeatTime", row.heartbeat);
    node.set("tainted", row.is_tainted);
    if (!row.report.time.empty()) {
      auto report = text::JsonOutput::object();
      report.set("time", row.report.time);
      set_if_known(report, "workingSet", row.report.working_set);
      set_if_known(report, "capacity", row.report.capacity);
      set_if_known(report, "fullStallPercent", row.report.full_stall);
      set_if_known(report, "evictionsLastHour", row.report.evictions);
      set_if_known(report, "oomKillsLastHour", row.report.oom_kills);
      node.set("report", std::move(report));
    }
    list.add(std::move(node));
  }
  auto out = text::JsonOutput::object();
  out.set("nodes", std::move(list));
  return out.pretty();
}

}  // namespace

Result<KubectlReport> report_nodes(ApiReader& api, const KubectlOptions& options) {
  std::vector<NodeRow> rows;
  const auto visit = [&](const text::JsonValue& object) -> Result<void> {
    rows.push_back(TRY(read_row(object, options.wall_seconds)));
    return {};
  };
  if (!TRY(api.each("/api/v1/nodes", visit))) return error("the API server has no nodes");
  KubectlReport report;
  note_old_conditions(rows, report.notes);
  const LastReports reports = read_reports(api, report.notes);
  for (NodeRow& row : rows) {
    if (const auto found = reports.find(row.name); found != reports.end()) {
      row.report = found->second;
    }
  }
  report.text = options.json ? json_of(rows) : table_of(rows);
  return report;
}

}  // namespace forestall::cluster
