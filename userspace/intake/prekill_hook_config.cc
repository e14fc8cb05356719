// SPDX-License-Identifier: Apache-2.0
#include "intake/prekill_hook_config.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "intake/ruleset_values.h"

namespace forestall::intake {
namespace {

constexpr int kHooksMax = 64;
constexpr int kArgumentsMax = 64;
constexpr std::size_t kTextMax = 4096;
// sizeof(sockaddr_un::sun_path), with its end.
constexpr std::size_t kHookSocketPathMax = 107;

// The agent opens it as root: without components that lead elsewhere.
bool is_plain_path(std::string_view path) {
  return path.starts_with('/') && !path.ends_with('/') && path.find("//") == path.npos &&
         (std::string(path) + "/").find("/../") == path.npos &&
         (std::string(path) + "/").find("/./") == path.npos && path.find('\0') == path.npos &&
         path.size() <= kTextMax;
}

void check_path(bool given, const std::string& path, const std::string& key, const std::string& at,
                Report& report) {
  if (!given || is_plain_path(path)) return;
  report.error(at + "." + key,
               fmt::format("'{}' must be an absolute path without '.', '..' and empty components, "
                           "found '{}'",
                           key, path));
}

// rulesets/cgroup_pattern.h hook_matches() compares whole components.
void check_components(const rulesets::CgroupPatterns& patterns, const std::string& at,
                      Report& report) {
  for (const rulesets::CgroupPattern& pattern : patterns) {
    for (const std::string& each : pattern.components) {
      if (each == "*" || each.find_first_of("*?[") == std::string::npos) continue;
      report.error(at + ".cgroups",
                   fmt::format("'cgroups' of a hook compares whole components: write a name or *, "
                               "found '{}'",
                               each));
    }
  }
}

void check_kind(const v1::PrekillHook& given, const std::string& at, Report& report) {
  const int kinds = int{given.has_program()} + int{given.has_socket()} + int{given.has_log()};
  if (kinds == 0) {
    report.missing(at, "program", "each hook needs exactly one of: program, socket, log");
  } else if (kinds > 1) {
    report.error(at, "'program', 'socket' and 'log' exclude each other: write each as a hook");
  }
  if (given.arguments_size() > 0 && !given.has_program()) {
    report.error(at + ".arguments", "'arguments' has no effect without 'program'");
  }
}

void check_texts(const v1::PrekillHook& given, const std::string& at, Report& report) {
  check_path(given.has_program(), given.program(), "program", at, report);
  check_path(given.has_socket(), given.socket(), "socket", at, report);
  if (given.socket().size() > kHookSocketPathMax) {
    report.error(at + ".socket",
                 fmt::format("'socket' is longer than {} bytes", kHookSocketPathMax));
  }
  if (given.arguments_size() > kArgumentsMax) {
    report.error(at + ".arguments",
                 fmt::format("'arguments' has more than {} items", kArgumentsMax));
  }
  for (int i = 0; i < given.arguments_size(); ++i) {
    const std::string& text = given.arguments(i);
    if (text.size() <= kTextMax && text.find('\0') == std::string::npos) continue;
    report.error(fmt::format("{}.arguments[{}]", at, i),
                 fmt::format("an argument must have at most {} bytes, none of them 0", kTextMax));
  }
  if (given.has_log() && (given.log().empty() || given.log().size() > kTextMax)) {
    report.error(at + ".log", fmt::format("'log' must be a text of 1 to {} bytes", kTextMax));
  }
}

void check_hook_name(const v1::PrekillHook& given, const std::string& at,
                     std::map<std::string, std::string>& seen, Report& report) {
  if (!given.has_name()) {
    return report.missing(at, "name", "set it to a name for logs and records");
  }
  if (given.name().empty()) return report.error(at + ".name", "'name' must not be empty");
  const auto [first, fresh] = seen.emplace(given.name(), at);
  if (fresh) return;
  report.error(at + ".name", fmt::format("the name '{}' is already used in line {}", given.name(),
                                         report.line(first->second + ".name")));
}

}  // namespace

std::vector<rulesets::PrekillHook> check_prekill_hooks(const v1::Config& given, Report& report) {
  std::vector<rulesets::PrekillHook> out;
  if (given.prekill_hooks_size() > kHooksMax) {
    report.error("prekillHooks", fmt::format("'prekillHooks' has more than {} items", kHooksMax));
    return out;
  }
  std::map<std::string, std::string> names;
  for (int i = 0; i < given.prekill_hooks_size(); ++i) {
    const v1::PrekillHook& hook = given.prekill_hooks(i);
    const std::string at = fmt::format("prekillHooks[{}]", i);
    check_hook_name(hook, at, names, report);
    check_kind(hook, at, report);
    check_texts(hook, at, report);
    rulesets::PrekillHook& made = out.emplace_back();
    made.name = hook.name();
    made.program = hook.program();
    made.arguments.assign(hook.arguments().begin(), hook.arguments().end());
    made.socket = hook.socket();
    made.log = hook.log();
    if (report.has(at + ".cgroups") && hook.cgroups().empty()) {
      report.error(at + ".cgroups", "'cgroups' is empty; leave it out for a hook of all victims");
    } else if (report.has(at + ".cgroups")) {
      RuleValues(at, report).cgroups(hook.cgroups(), made.cgroups);
      check_components(made.cgroups, at, report);
    } else {
      made.cgroups = {{}};
    }
  }
  return out;
}

}  // namespace forestall::intake
