// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_report.h"

#include "base/printable.h"
#include "intake/managed_oom_messages.h"
#include "text/json_tree.h"

namespace forestall::intake {
namespace {

using text::JsonNode;

// A systemd without durations sends none.
constexpr int kVersionOfAllFields = 257;
constexpr std::string_view kReport = "io.systemd.oom.ReportManagedOOMCGroups";

}  // namespace

Result<ManagedOomReport> read_managed_oom_report(std::string_view text) {
  std::vector<text::Diagnostic> problems;
  const auto root = text::parse_json(text, {}, 1, problems);
  if (!root) {
    return error(problems.empty() ? "invalid JSON" : printable(problems.front().message));
  }
  if (root->kind != JsonNode::Kind::object) return error("the call is not an object");
  const JsonNode* method = root->find("method");
  if (method == nullptr || method->kind != JsonNode::Kind::string || method->text != kReport) {
    return error("the call is not ReportManagedOOMCGroups");
  }
  const JsonNode* parameters = root->find("parameters");
  const JsonNode* cgroups = parameters != nullptr && parameters->kind == JsonNode::Kind::object
                                ? parameters->find("cgroups")
                                : nullptr;
  if (cgroups == nullptr || cgroups->kind != JsonNode::Kind::list) {
    return error("the call has no list 'cgroups'");
  }
  ManagedOomReport report;
  const JsonNode* oneway = root->find("oneway");
  report.oneway = oneway != nullptr && oneway->kind == JsonNode::Kind::boolean && oneway->flag;
  text::Findings ignored;  // as systemd-oomd does
  report.elements = read_managed_oom_elements(*cgroups, "", kVersionOfAllFields, ignored);
  return report;
}

}  // namespace forestall::intake
