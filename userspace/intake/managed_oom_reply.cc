// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_reply.h"

#include <fmt/format.h>

#include <utility>

#include "base/printable.h"
#include "intake/managed_oom_messages.h"
#include "text/json_tree.h"

namespace forestall::intake {
namespace {

using text::JsonNode;

// A systemd without durations sends none.
constexpr int kVersionWithAllFields = 257;
constexpr std::size_t kShownMax = 200;
constexpr std::size_t kSkippedMax = 16;

// What an operator can do about the refusal.
std::string_view advice_on(std::string_view refusal) {
  if (refusal.ends_with(".PermissionDenied")) {
    return ": PID 1 accepts systemd-oomd.service only; set managedOOM.source to dbus";
  }
  if (refusal.ends_with(".SubscriptionTaken")) return ": another process is subscribed";
  return "";
}

Error refusal_of(const JsonNode& name) {
  if (name.kind != JsonNode::Kind::string) return error("the reply's 'error' is not a string");
  return error(fmt::format("refused with {}{}", printable(name.text.substr(0, kShownMax)),
                           advice_on(name.text)));
}

}  // namespace

Result<ManagedOomReply> read_managed_oom_reply(std::string_view text) {
  std::vector<text::Diagnostic> problems;
  const auto root = text::parse_json(text, {}, 1, problems);
  if (!root) {
    return error(problems.empty() ? "invalid JSON" : printable(problems.front().message));
  }
  if (root->kind != JsonNode::Kind::object) return error("the reply is not an object");
  const JsonNode* refusal = root->find("error");
  if (refusal != nullptr && refusal->kind != JsonNode::Kind::null) return refusal_of(*refusal);
  const JsonNode* parameters = root->find("parameters");
  const JsonNode* cgroups = parameters != nullptr && parameters->kind == JsonNode::Kind::object
                                ? parameters->find("cgroups")
                                : nullptr;
  if (cgroups == nullptr || cgroups->kind != JsonNode::Kind::list) {
    return error("the reply has no list 'cgroups'");
  }
  ManagedOomReply reply;
  const JsonNode* continues = root->find("continues");
  reply.continues =
      continues != nullptr && continues->kind == JsonNode::Kind::boolean && continues->flag;
  text::Findings findings;
  reply.elements = read_managed_oom_elements(*cgroups, "", kVersionWithAllFields, findings);
  for (const text::Finding& each : findings.warnings) {
    if (reply.skipped.size() == kSkippedMax) break;
    reply.skipped.push_back(printable(each.message.substr(0, kShownMax)));
  }
  return reply;
}

}  // namespace forestall::intake
