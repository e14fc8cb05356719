// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "intake/json_members.h"
#include "intake/oomd_values.h"

namespace forestall::intake {
namespace {

using rulesets::DetectorGroup;
using rulesets::Plugin;
using rulesets::Ruleset;
using text::JsonMember;
using text::JsonNode;

constexpr text::JsonDialect kOomdDialect{.comments = true, .trailing_commas = true};

const std::vector<std::string> kTopKeys = {"rulesets", "prekill_hooks"};
const std::vector<std::string> kRulesetKeys = {
    "name",      "silence-logs", "post_action_delay", "prekill_hook_timeout", "drop-in",
    "detectors", "actions"};

class OomdFileReader {
 public:
  OomdFileReader(JsonProblems& problems, std::vector<OomdDifference>& differences)
      : problems_(problems), differences_(differences) {}

  // A ruleset with the position of its name.
  struct Read {
    Ruleset ruleset;
    text::Position name_at;
    std::optional<text::Position> detectors_at;
    std::optional<text::Position> actions_at;
  };

  void read(const JsonNode& root, std::vector<Read>& rulesets,
            std::vector<rulesets::PrekillHook>& hooks) {
    if (root.kind != JsonNode::Kind::object) return problems_.expected(root, "an object");
    for (const JsonMember& member : root.members) {
      if (member.key == "rulesets") {
        each_item(member, [&](const JsonNode& item) {
          if (auto read = read_ruleset(item)) rulesets.push_back(std::move(*read));
        });
      } else if (member.key == "prekill_hooks") {
        each_item(member, [&](const JsonNode& item) {
          if (auto hook = read_oomd_hook(item, problems_)) hooks.push_back(std::move(*hook));
        });
      } else {
        unknown(member, kTopKeys);
      }
    }
  }

 private:
  template <typename Visit>
  void each_item(const JsonMember& member, Visit visit) {
    if (member.value.kind != JsonNode::Kind::list) {
      return problems_.expected(member.value, member.key, "a list");
    }
    for (const JsonNode& item : member.value.items) visit(item);
  }

  void unknown(const JsonMember& member, const std::vector<std::string>& keys) {
    problems_.unknown_key(member, keys);
  }

  std::optional<Read> read_ruleset(const JsonNode& node) {
    if (node.kind != JsonNode::Kind::object) {
      problems_.expected(node, "a ruleset: {\"name\": .., \"detectors\": [..], \"actions\": [..]}");
      return std::nullopt;
    }
    Read read;
    read.name_at = node.at;
    for (const JsonMember& member : node.members) read_member(member, read);
    if (node.find("name") == nullptr) problems_.error(node.at, "'name' of the ruleset is missing");
    return read;
  }

  void read_member(const JsonMember& member, Read& read) {
    Ruleset& ruleset = read.ruleset;
    if (member.key == "name") {
      read.name_at = member.value.at;
      const auto name = oomd_text(member.value);
      if (name && !name->empty()) {
        ruleset.name = *name;
      } else {
        problems_.expected(member.value, member.key, "the name of the ruleset");
      }
    } else if (member.key == "silence-logs") {
      read_silenced(member, ruleset);
    } else if (member.key == "post_action_delay") {
      read_seconds(member, ruleset.post_action_delay);
    } else if (member.key == "prekill_hook_timeout") {
      read_seconds(member, ruleset.prekill_hook_timeout);
    } else if (member.key == "drop-in") {
      read_drop_in(member, ruleset);
    } else if (member.key == "detectors") {
      read.detectors_at = member.at;
      each_item(member, [&](const JsonNode& item) { read_group(item, ruleset); });
    } else if (member.key == "actions") {
      read.actions_at = member.at;
      each_item(member, [&](const JsonNode& item) {
        if (auto plugin = read_oomd_plugin(item, problems_, differences_)) {
          ruleset.actions.push_back(std::move(*plugin));
        }
      });
    } else if (member.key == "cgroup" || member.key == "xattr_filter") {
      problems_.error(member.at, fmt::format("'{}' is of an oomd later than 0.5.0, which would "
                                             "ignore it; remove it",
                                             member.key));
    } else {
      unknown(member, kRulesetKeys);
    }
  }

  // Null and the empty text stand for the default.
  void read_seconds(const JsonMember& member, std::int64_t& target) {
    if (member.value.kind == JsonNode::Kind::null) return;
    auto text = oomd_text(member.value);
    if (!text) return problems_.expected(member.value, member.key, "seconds");
    if (text->empty()) return;
    if (text->ends_with(".0")) text->resize(text->size() - 2);
    const auto seconds = parse_oomd_int(*text);
    if (!seconds) {
      problems_.error(member.value.at,
                      fmt::format("'{}': {}", member.key, seconds.error().message));
    } else if (*seconds < 0) {
      problems_.error(member.value.at, fmt::format("'{}' must not be negative", member.key));
    } else {
      target = *seconds;
    }
  }

  void read_silenced(const JsonMember& member, Ruleset& ruleset) {
    if (member.value.kind == JsonNode::Kind::null) return;
    const auto list = json_string(member, problems_);
    if (!list) return;
    std::string_view rest = *list;
    while (!rest.empty()) {
      const std::string_view word = trim(next_field(rest, ','));
      if (word == "engine") {
        ruleset.silence_engine = true;
      } else if (word == "plugins") {
        ruleset.silence_plugins = true;
      } else if (!word.empty()) {
        problems_.error(
            member.value.at,
            fmt::format("'silence-logs': unknown word '{}'; use engine or plugins", word));
      }
    }
  }

  void read_drop_in(const JsonMember& member, Ruleset& ruleset) {
    if (member.value.kind == JsonNode::Kind::null || !json_object(member, problems_)) return;
    for (const JsonMember& each : member.value.members) {
      bool* target = nullptr;
      if (each.key == "disable-on-drop-in") target = &ruleset.disable_on_drop_in;
      if (each.key == "detectors") target = &ruleset.drop_in_detectors;
      if (each.key == "actions") target = &ruleset.drop_in_actions;
      if (target == nullptr) {
        unknown(each, {"disable-on-drop-in", "detectors", "actions"});
      } else if (each.value.kind != JsonNode::Kind::null) {
        if (const auto flag = json_flag(each, problems_)) *target = *flag;
      }
    }
  }

  void read_group(const JsonNode& node, Ruleset& ruleset) {
    constexpr std::string_view kForm = "a group: [\"name\", {\"name\": ..}, ..]";
    if (node.kind != JsonNode::Kind::list) return problems_.expected(node, kForm);
    const bool has_name = !node.items.empty() &&
                          node.items.front().kind == JsonNode::Kind::string &&
                          !node.items.front().text.empty();
    if (!has_name) {
      return problems_.error(node.at, "the first item of a group of detectors must be its name");
    }
    DetectorGroup group;
    group.name = node.items.front().text;
    if (node.items.size() == 1) {
      problems_.error(node.at, fmt::format("group '{}' has no detectors", group.name));
    }
    for (std::size_t i = 1; i < node.items.size(); ++i) {
      if (auto plugin = read_oomd_plugin(node.items[i], problems_, differences_)) {
        group.plugins.push_back(std::move(*plugin));
      }
    }
    ruleset.groups.push_back(std::move(group));
  }

  JsonProblems& problems_;
  std::vector<OomdDifference>& differences_;
};

std::optional<JsonNode> tree_of(const std::string& file, std::string_view text,
                                text::Findings& findings) {
  std::vector<text::Diagnostic> problems;
  auto root = text::parse_json(text, kOomdDialect, 1, problems);
  findings.add_errors(file, problems);
  return root;
}

}  // namespace

std::optional<OomdConfig> parse_oomd_config(const std::string& file, std::string_view text,
                                            text::Findings& findings) {
  const auto root = tree_of(file, text, findings);
  if (!root) return std::nullopt;
  JsonProblems problems(file, findings);
  const std::size_t before = problems.count();
  OomdConfig config;
  std::vector<OomdFileReader::Read> read;
  OomdFileReader(problems, config.differences).read(*root, read, config.hooks);
  for (OomdFileReader::Read& each : read) {
    const auto missing = [&](std::string_view what, bool is_empty) {
      if (!is_empty || problems.count() > before) return;
      problems.error(each.name_at, fmt::format("ruleset '{}' has no {}", each.ruleset.name, what));
    };
    missing("detectors", each.ruleset.groups.empty());
    missing("actions", each.ruleset.actions.empty());
    config.rulesets.push_back(std::move(each.ruleset));
  }
  if (problems.count() > before) return std::nullopt;
  return config;
}

std::optional<OomdDropIn> parse_oomd_drop_in(const std::string& file, const std::string& name,
                                             std::string_view text,
                                             const std::vector<rulesets::Ruleset>& base,
                                             text::Findings& findings) {
  const auto root = tree_of(file, text, findings);
  if (!root) return std::nullopt;
  JsonProblems problems(file, findings);
  const std::size_t before = problems.count();
  OomdDropIn drop_in;
  drop_in.file.file = name;
  std::vector<OomdFileReader::Read> read;
  OomdFileReader(problems, drop_in.differences).read(*root, read, drop_in.file.hooks);
  for (OomdFileReader::Read& each : read) {
    const auto target = std::find_if(base.begin(), base.end(), [&each](const Ruleset& candidate) {
      return candidate.name == each.ruleset.name;
    });
    if (target == base.end()) {
      problems.error(each.name_at,
                     fmt::format("no ruleset '{}' to drop this into", each.ruleset.name));
      continue;
    }
    rulesets::DropInRuleset merged{static_cast<std::size_t>(target - base.begin()), *target};
    const auto replace = [&](std::string_view what, bool allowed,
                             const std::optional<text::Position>& at) {
      if (allowed) return true;
      problems.error(at.value_or(each.name_at),
                     fmt::format("ruleset '{}' does not let drop-ins replace its {}: set {} in its "
                                 "'drop-in'",
                                 each.ruleset.name, what, what));
      return false;
    };
    if (!each.ruleset.groups.empty() &&
        replace("detectors", target->drop_in_detectors, each.detectors_at)) {
      merged.merged.groups = std::move(each.ruleset.groups);
    }
    if (!each.ruleset.actions.empty() &&
        replace("actions", target->drop_in_actions, each.actions_at)) {
      merged.merged.actions = std::move(each.ruleset.actions);
    }
    drop_in.file.rulesets.push_back(std::move(merged));
  }
  if (problems.count() > before) return std::nullopt;
  return drop_in;
}

}  // namespace forestall::intake
