// SPDX-License-Identifier: Apache-2.0
#include "intake/managed_oom_messages.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "base/parse.h"
#include "intake/json_members.h"
#include "text/json_number.h"

namespace forestall::intake {
namespace {

using rulesets::ManagedCandidate;
using rulesets::ManagedOomElement;
using rulesets::ManagedOomProperty;
using rulesets::ManagedPreference;
using text::JsonMember;
using text::JsonNode;

constexpr int kDurationSince = 257;
constexpr int kTextNumbersSince = 257;  // "limit": "5"

std::optional<std::uint64_t> whole_number(const JsonNode& node) {
  std::uint64_t number = 0;
  const bool read = node.kind == JsonNode::Kind::number && !text::read_integer(node.text, number);
  return read ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> element_number(const JsonNode& node, int systemd_version) {
  const bool is_text = node.kind == JsonNode::Kind::string && systemd_version >= kTextNumbersSince;
  return is_text ? parse_u64(node.text) : whole_number(node);
}

std::optional<std::string> string_of(const JsonNode& object, std::string_view key) {
  const JsonNode* node = object.find(key);
  if (node == nullptr || node->kind != JsonNode::Kind::string) return std::nullopt;
  return node->text;
}

// Why the element is malformed, or the element.
struct ElementOrProblem {
  std::optional<ManagedOomElement> element;
  std::string problem;
};

ElementOrProblem malformed(std::string problem) {
  return {std::nullopt, std::move(problem)};
}

std::string normal_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.empty() ? "/" : path;
}

ElementOrProblem read_element(const JsonNode& node, int systemd_version) {
  if (node.kind != JsonNode::Kind::object) return malformed("not an object");
  ManagedOomElement element;
  const auto mode = string_of(node, "mode");
  if (!mode || (*mode != "auto" && *mode != "kill")) {
    return malformed("'mode' must be auto or kill");
  }
  element.kill = *mode == "kill";
  const auto path = string_of(node, "path");
  if (!path) return malformed("'path' must be a string");
  if (!path->empty() && !path->starts_with('/')) return malformed("'path' must begin with '/'");
  element.path = normal_path(*path);
  const auto property = string_of(node, "property");
  if (property == "ManagedOOMMemoryPressure") {
    element.property = ManagedOomProperty::memory_pressure;
  } else if (property != "ManagedOOMSwap") {
    return malformed("'property' must be ManagedOOMSwap or ManagedOOMMemoryPressure");
  }
  if (const JsonNode* limit = node.find("limit")) {
    const auto number = element_number(*limit, systemd_version);
    if (!number || *number > std::numeric_limits<std::uint32_t>::max()) {
      return malformed("'limit' must be a number from 0 to 4294967295");
    }
    element.limit = static_cast<std::uint32_t>(*number);
  }
  if (const JsonNode* duration = node.find("duration")) {
    const auto us = element_number(*duration, systemd_version);
    if (!us) return malformed("'duration' must be a number of microseconds");
    // The largest number stands for the default.
    if (systemd_version >= kDurationSince && *us != std::numeric_limits<std::uint64_t>::max()) {
      constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      element.duration = std::chrono::microseconds(std::min(*us, kMax));
    }
  }
  return {element, {}};
}

class MessageReader {
 public:
  MessageReader(const std::string& file, int systemd_version, text::Findings& findings)
      : problems_(file, findings), systemd_version_(systemd_version), findings_(findings) {}

  std::optional<ManagedOomMessage> read(const JsonNode& root) {
    ManagedOomMessage message;
    message.line = root.at.line;
    if (root.kind != JsonNode::Kind::object) {
      problems_.expected(root, "an object");
      return std::nullopt;
    }
    const JsonNode* parameters = root.find("parameters");
    const JsonNode& holder = parameters != nullptr ? *parameters : root;
    for (const JsonMember& member : root.members) {
      const bool known = member.key == "uid" || member.key == "parameters" ||
                         member.key == "continues" ||
                         (parameters == nullptr && member.key == "cgroups");
      if (!known) problems_.unknown_key(member, {"uid", "parameters", "cgroups", "continues"});
    }
    sender(root, message);
    const JsonNode* cgroups =
        holder.kind == JsonNode::Kind::object ? holder.find("cgroups") : nullptr;
    if (cgroups == nullptr || cgroups->kind != JsonNode::Kind::list) {
      problems_.error(holder.at, "the message has no list 'cgroups'");
      return std::nullopt;
    }
    message.elements =
        read_managed_oom_elements(*cgroups, problems_.file(), systemd_version_, findings_);
    return message;
  }

 private:
  void sender(const JsonNode& root, ManagedOomMessage& message) {
    const JsonNode* uid = root.find("uid");
    if (uid == nullptr) return;
    const auto number = whole_number(*uid);
    if (number && *number <= std::numeric_limits<std::uint32_t>::max()) {
      message.uid = static_cast<std::uint32_t>(*number);
    } else {
      problems_.expected(*uid, "uid", "a user id");
    }
  }

  JsonProblems problems_;
  const int systemd_version_;
  text::Findings& findings_;
};

std::optional<JsonNode> parse_file(std::string_view text, const std::string& file,
                                   text::Findings& findings) {
  std::vector<text::Diagnostic> diagnostics;
  auto root = text::parse_json(text, {}, 1, diagnostics);
  findings.add_errors(file, diagnostics);
  return root;
}

// Whether the whole text is one JSON value; only then it may span several lines.
bool is_one_value(std::string_view text) {
  std::vector<text::Diagnostic> ignored;
  return text::parse_json(text, {}, 1, ignored).has_value();
}

void candidate_member(const JsonMember& member, ManagedCandidate& candidate,
                      JsonProblems& problems) {
  const std::array<std::pair<std::string_view, std::uint64_t*>, 4> fields{
      {{"swap_current", &candidate.swap},
       {"pgscan", &candidate.pgscan},
       {"last_pgscan", &candidate.last_pgscan},
       {"current", &candidate.usage}}};
  for (const auto& [key, field] : fields) {
    if (member.key != key) continue;
    const auto number = whole_number(member.value);
    if (!number) return problems.expected(member.value, member.key, "a number from 0");
    *field = *number;
    return;
  }
  if (member.key != "preference") {
    return problems.unknown_key(member,
                                {"swap_current", "pgscan", "last_pgscan", "current", "preference"});
  }
  if (member.value.kind == JsonNode::Kind::null) return;
  const auto word = json_word(member, {"none", "avoid", "omit"}, problems);
  if (word) candidate.preference = static_cast<ManagedPreference>(*word);
}

}  // namespace

std::vector<ManagedOomElement> read_managed_oom_elements(const JsonNode& list,
                                                         const std::string& file,
                                                         int systemd_version,
                                                         text::Findings& findings) {
  std::vector<ManagedOomElement> elements;
  for (const JsonNode& each : list.items) {
    ElementOrProblem read = read_element(each, systemd_version);
    if (read.element) {
      elements.push_back(*std::move(read.element));
    } else {
      findings.warnings.push_back({{file, each.at}, "malformed element, skipped: " + read.problem});
    }
  }
  return elements;
}

std::vector<ManagedOomMessage> read_managed_oom_messages(std::string_view text,
                                                         const std::string& file,
                                                         int systemd_version,
                                                         text::Findings& findings) {
  std::vector<ManagedOomMessage> messages;
  MessageReader reader(file, systemd_version, findings);
  const auto add = [&](std::string_view part, std::uint32_t line) {
    std::vector<text::Diagnostic> diagnostics;
    const auto root = text::parse_json(part, {}, line, diagnostics);
    findings.add_errors(file, diagnostics);
    if (!root) return;
    if (auto message = reader.read(*root)) messages.push_back(*std::move(message));
  };
  if (is_one_value(text)) {
    add(text, 1);
    return messages;
  }
  std::uint32_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::string_view part = next_field(text, '\n');
    if (!trim(part).empty()) add(part, line);
  }
  return messages;
}

CgroupOwners read_cgroup_owners(std::string_view text, const std::string& file,
                                text::Findings& findings) {
  const auto root = parse_file(text, file, findings);
  CgroupOwners owners;
  if (!root) return owners;
  JsonProblems problems(file, findings);
  if (root->kind != JsonNode::Kind::object) {
    problems.expected(*root, "an object of paths and user ids");
    return owners;
  }
  for (const JsonMember& member : root->members) {
    std::optional<std::uint32_t> owner;
    if (member.value.kind != JsonNode::Kind::null) {
      const auto number = whole_number(member.value);
      if (!number || *number > std::numeric_limits<std::uint32_t>::max()) {
        problems.expected(member.value, member.key, "a user id");
        continue;
      }
      owner = static_cast<std::uint32_t>(*number);
    }
    owners.emplace(normal_path(member.key), owner);
  }
  return owners;
}

std::vector<std::string> apply_managed_oom(const ManagedOomMessage& message,
                                           const rulesets::OomdConf& conf,
                                           const CgroupOwners& owners,
                                           rulesets::ManagedOomRules& rules) {
  std::vector<std::string> refused;
  for (const ManagedOomElement& element : message.elements) {
    if (message.uid != 0) {
      const auto known = owners.find(element.path);
      const auto owner = known == owners.end() ? std::optional<std::uint32_t>(0) : known->second;
      if (!owner) {
        refused.push_back(fmt::format("{}: skipped, its owner is unreadable", element.path));
        continue;
      }
      if (*owner != message.uid) {
        refused.push_back(
            fmt::format("{}: owned by uid {}, not by the sender, uid {}; the rest of the message "
                        "is refused",
                        element.path, *owner, message.uid));
        break;
      }
    }
    rules.apply(element, conf);
  }
  return refused;
}

std::vector<ManagedCandidate> read_managed_candidates(std::string_view text,
                                                      const std::string& file,
                                                      text::Findings& findings) {
  const auto root = parse_file(text, file, findings);
  std::vector<ManagedCandidate> candidates;
  if (!root) return candidates;
  JsonProblems problems(file, findings);
  if (root->kind != JsonNode::Kind::object) {
    problems.expected(*root, "an object of paths and readings");
    return candidates;
  }
  for (const JsonMember& member : root->members) {
    if (!json_object(member, problems)) continue;
    ManagedCandidate& candidate = candidates.emplace_back();
    candidate.cgroup = member.key;
    for (const JsonMember& each : member.value.members) {
      candidate_member(each, candidate, problems);
    }
  }
  return candidates;
}

}  // namespace forestall::intake
