// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "intake/oomd_values.h"
#include "messages/yaml_message.h"
#include "rulesets/cgroup_pattern.h"

namespace forestall::intake {
namespace {

using rulesets::CgroupPatterns;
using rulesets::PluginArguments;
using rulesets::PressureResource;
using text::JsonMember;
using text::JsonNode;

// Arguments that oomd got after 0.5.0: their message names that, since they are no typing errors.
const std::vector<std::string> kLaterArguments = {

    "kernelkill",       "reap_memory",           "log_kmemalloc_prekill", "ruleset_cgroup",
    "biased_swap_kill", "swapout_bps_threshold", "machine_type"};

// The arguments of one plugin. Each reader consumes its key; finish() refuses the others.
class ArgumentReader {
 public:
  ArgumentReader(std::string plugin, text::Position at, const JsonNode* arguments,
                 JsonProblems& problems, std::vector<OomdDifference>& differences)
      : plugin_(std::move(plugin)), at_(at), problems_(problems), differences_(differences) {
    before_ = problems.count();
    if (arguments == nullptr) return;
    for (const JsonMember& each : arguments->members) {
      if (auto text = oomd_text(each.value)) {
        given_.push_back({each.key, std::move(*text), each.at, each.value.at});
      } else {
        // Used: it is no unknown or missing argument as well.
        given_.push_back({each.key, {}, each.at, each.value.at, true, true});
        problems_.error(
            each.value.at,
            fmt::format("'{}' of {}: expected a string, a number, true or false, found {}; oomd "
                        "would drop this and the arguments after it",
                        each.key, plugin_, text::describe(each.value)));
      }
    }
  }

  // An int of 32 bits, at least `least`.
  void integer(std::string_view key, std::int64_t& target, std::int64_t least = INT32_MIN) {
    const Given* given = find(key);
    if (given == nullptr) return;
    const auto number = parse_oomd_int(whole_text(given->text));
    if (!number) return wrong(*given, number.error().message);
    if (*number < least) {
      return wrong(*given, fmt::format("must be at least {}, found {}", least, *number));
    }
    target = *number;
  }

  void unsigned_integer(std::string_view key, std::optional<std::int64_t>& target) {
    if (find(key) == nullptr) return;
    std::int64_t number = 0;
    integer(key, number, 0);
    target = number;
  }

  // 64 bits; oomd accepts no unit and reads only the digits of one.
  void large_integer(std::string_view key, std::int64_t& target, std::int64_t least = INT64_MIN) {
    const Given* given = find(key);
    if (given == nullptr) return;
    const std::string text = whole_text(given->text);
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(text.c_str(), &end, 10);
    const bool has_digits = end != text.c_str();
    if (!has_digits || *end != '\0' || errno != 0) {
      return wrong(
          *given,
          fmt::format("expected a whole number without a unit, found '{}'{}", given->text,
                      has_digits && errno == 0 ? fmt::format("; oomd would read {}", number) : ""));
    }
    if (number < least) {
      return wrong(*given, fmt::format("must be at least {}, found {}", least, number));
    }
    target = number;
  }

  template <typename Real>
  void real(std::string_view key, Real& target) {
    const Given* given = find(key);
    if (given == nullptr) return;
    char* end = nullptr;
    const double number = std::strtod(given->text.c_str(), &end);
    if (end == given->text.c_str() || *end != '\0' || !std::isfinite(number)) {
      return wrong(*given, fmt::format("expected a number, found '{}'", given->text));
    }
    target = static_cast<Real>(number);
  }

  void flag(std::string_view key, bool& target) {
    const Given* given = find(key);
    if (given == nullptr) return;
    const std::string& text = given->text;
    const bool yes = text == "true" || text == "True" || text == "1";
    if (!yes && text != "false" && text != "False" && text != "0") {
      return wrong(*given, fmt::format("expected true or false, found '{}'", text));
    }
    target = yes;
  }

  void resource(PressureResource& target) {
    const Given* given = find("resource");
    if (given == nullptr) return;
    if (given->text != "io" && given->text != "memory") {
      return wrong(*given, fmt::format("expected io or memory, found '{}'", given->text));
    }
    target = given->text == "io" ? PressureResource::io : PressureResource::memory;
  }

  void cgroups(CgroupPatterns& target) {
    if (const Given* given = find("cgroup")) {
      target = rulesets::parse_cgroup_patterns(given->text);
    }
  }

  bool size(std::string_view key, rulesets::SizeOrPercent& target) {
    const Given* given = find(key);
    if (given == nullptr) return false;
    const auto size = parse_oomd_size(given->text);
    if (size) {
      target = *size;
    } else {
      wrong(*given, size.error().message);
    }
    return true;
  }

  void text(std::string_view key, std::string& target) {
    if (const Given* given = find(key)) target = given->text;
  }

  [[nodiscard]] bool has(std::string_view key) const {
    return std::any_of(given_.begin(), given_.end(),
                       [key](const Given& each) { return each.key == key; });
  }
  void require(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      known_.emplace_back(key);
      if (!has(key)) problems_.error(at_, fmt::format("{} needs the argument '{}'", plugin_, key));
    }
  }

  // An argument that is accepted and changes nothing that is decided.
  void accept(std::string_view key) { find(key); }

  void wrong_value(std::string_view key, const std::string& problem) {
    if (const Given* given = find(key)) wrong(*given, problem);
  }

  // At the key if it is given, else at the plugin.
  void differs(std::string_view key, std::string original, std::string forestall) {
    text::Position at = at_;
    for (const Given& each : given_) {
      if (each.key == key) at = each.key_at;
    }
    differences_.push_back({{problems_.file(), at}, std::move(original), std::move(forestall)});
  }

  // Whether all went well.
  bool finish() {
    for (const Given& each : given_) {
      if (each.used) continue;
      const bool later = std::find(kLaterArguments.begin(), kLaterArguments.end(), each.key) !=
                         kLaterArguments.end();
      const auto near = messages::nearest_word(each.key, known_);
      problems_.error(each.key_at,
                      fmt::format("{} has no argument '{}'{}{}", plugin_, each.key,
                                  later ? " (it is of an oomd later than 0.5.0)" : "",
                                  near ? fmt::format("; did you mean '{}'?", *near) : ""));
    }
    return problems_.count() == before_;
  }

 private:
  struct Given {
    std::string key;
    std::string text;
    text::Position key_at;
    text::Position at;
    bool used = false;
    bool malformed = false;
  };

  Given* find(std::string_view key) {
    known_.emplace_back(key);
    for (Given& each : given_) {
      if (each.key != key) continue;
      if (each.malformed) return nullptr;
      each.used = true;
      return &each;
    }
    return nullptr;
  }

  void wrong(const Given& given, const std::string& problem) {
    problems_.error(given.at, fmt::format("'{}' of {}: {}", given.key, plugin_, problem));
  }

  // A JSON number such as 7.0 is whole.
  static std::string whole_text(const std::string& text) {
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  }

  const std::string plugin_;
  const text::Position at_;
  JsonProblems& problems_;
  std::vector<OomdDifference>& differences_;
  std::size_t before_ = 0;
  std::vector<Given> given_;
  std::vector<std::string> known_;
};

rulesets::PressureAbove read_pressure(ArgumentReader& in) {
  rulesets::PressureAbove out;
  in.require({"cgroup", "resource", "threshold", "duration"});
  in.cgroups(out.cgroups);
  in.resource(out.resource);
  in.integer("threshold", out.threshold);
  in.integer("duration", out.duration);
  return out;
}

PluginArguments read_pressure_above(ArgumentReader& in) {
  return read_pressure(in);
}
PluginArguments read_pressure_rising(ArgumentReader& in) {
  rulesets::PressureAbove out = read_pressure(in);
  out.fast_fall_ratio = 0.85F;
  in.real("fast_fall_ratio", *out.fast_fall_ratio);
  return out;
}

void accept_meminfo(ArgumentReader& in) {
  if (!in.has("meminfo_location")) return;
  in.accept("meminfo_location");
  in.differs("meminfo_location", "reads the totals from this file, once",
             "uses the totals of the host, at each evaluation");
}

PluginArguments read_memory_above(ArgumentReader& in) {
  rulesets::MemoryAbove out;
  in.require({"cgroup", "duration"});
  in.cgroups(out.cgroups);
  in.integer("duration", out.duration);
  out.anon = in.size("threshold_anon", out.threshold);
  if (out.anon) {
    in.accept("threshold");  // unread, as in oomd
  } else if (!in.size("threshold", out.threshold)) {
    in.require({"threshold"});
  }
  in.flag("debug", out.debug);
  accept_meminfo(in);
  return out;
}

PluginArguments read_memory_reclaim(ArgumentReader& in) {
  rulesets::MemoryReclaim out;
  in.require({"cgroup", "duration"});
  in.cgroups(out.cgroups);
  in.integer("duration", out.duration);
  in.differs("",
             "fires at its first evaluation if the cgroups ever scanned a page, and while the "
             "machine has not been up for longer than the duration",
             "fires only if the cgroups scan pages between two evaluations");
  return out;
}

PluginArguments read_swap_free(ArgumentReader& in) {
  rulesets::SwapFree out;
  in.require({"threshold_pct"});
  in.integer("threshold_pct", out.percent);
  if (out.percent < 0) {
    in.differs("threshold_pct", "takes a negative percentage as one far above 100: always fires",
               "never fires");
  }
  return out;
}

PluginArguments read_exists(ArgumentReader& in) {
  rulesets::Exists out;
  in.require({"cgroup"});
  in.cgroups(out.cgroups);
  in.flag("negate", out.negate);
  in.flag("debug", out.debug);
  return out;
}

PluginArguments read_dying(ArgumentReader& in) {
  rulesets::DyingDescendants out;
  in.require({"cgroup", "count"});
  in.cgroups(out.cgroups);
  in.integer("count", out.count, 0);
  in.flag("lte", out.at_most);
  in.flag("debug", out.debug);
  return out;
}

PluginArguments read_overview(ArgumentReader& in) {
  rulesets::CgroupOverview out;
  in.require({"cgroup"});
  in.cgroups(out.cgroups);
  in.flag("always", out.always);
  return out;
}

rulesets::Kill read_kill(ArgumentReader& in, rulesets::KillBy by) {
  rulesets::Kill out;
  out.by = by;
  in.require({"cgroup"});
  in.cgroups(out.cgroups);
  in.flag("recursive", out.recursive);
  in.unsigned_integer("post_action_delay", out.post_action_delay);
  in.flag("dry", out.dry);
  in.flag("always_continue", out.always_continue);
  in.flag("debug", out.debug);
  if (out.post_action_delay) {
    in.differs("post_action_delay",
               "a chain that waited for a hook or for a sample uses the ruleset's delay, unless a "
               "group fires at the evaluation at which it kills",
               "this delay applies to every kill of the action");
  }
  return out;
}

PluginArguments read_kill_by_size(ArgumentReader& in) {
  rulesets::Kill out = read_kill(in, rulesets::KillBy::memory_size_or_growth);
  in.integer("size_threshold", out.size_threshold, 0);
  in.integer("growing_size_percentile", out.growing_size_percentile, 0);
  in.real("min_growth_ratio", out.min_growth_ratio);
  if (out.growing_size_percentile >= 100) {
    in.wrong_value("growing_size_percentile",
                   "must be below 100; oomd's behaviour is undefined from 100 on");
  }
  if (out.min_growth_ratio < 0) in.wrong_value("min_growth_ratio", "must not be negative");
  if (out.min_growth_ratio != std::trunc(out.min_growth_ratio) && in.has("min_growth_ratio")) {
    in.differs("min_growth_ratio",
               fmt::format("drops the fraction and uses {}", std::trunc(out.min_growth_ratio)),
               fmt::format("uses {}", out.min_growth_ratio));
  }
  return out;
}

PluginArguments read_kill_by_swap(ArgumentReader& in) {
  rulesets::Kill out = read_kill(in, rulesets::KillBy::swap_usage);
  in.size("threshold", out.swap_threshold);
  accept_meminfo(in);
  if (out.swap_threshold.is_percent) {
    in.differs("threshold", "holds SwapTotal in 32 bits: wrong from 2 GiB of swap on",
               "computes the percentage exactly");
  }
  return out;
}

PluginArguments read_kill_by_pressure(ArgumentReader& in) {
  rulesets::Kill out = read_kill(in, rulesets::KillBy::pressure);
  in.require({"resource"});
  in.resource(out.resource);
  return out;
}

PluginArguments read_kill_by_io(ArgumentReader& in) {
  return read_kill(in, rulesets::KillBy::io_cost);
}

PluginArguments read_kill_by_pg_scan(ArgumentReader& in) {
  return read_kill(in, rulesets::KillBy::pg_scan);
}

PluginArguments read_restart(ArgumentReader& in) {
  rulesets::RestartUnit out;
  in.require({"service"});
  in.text("service", out.service);
  if (in.has("service") && out.service.empty()) in.wrong_value("service", "must not be empty");
  in.integer("post_action_delay", out.post_action_delay, 0);
  in.flag("dry", out.dry);
  in.differs("post_action_delay", "sleeps for this delay, and evaluates no ruleset meanwhile",
             "only this ruleset pauses: for this delay and then for its own");
  return out;
}

PluginArguments read_senpai(ArgumentReader& in) {
  rulesets::Senpai out;
  in.require({"cgroup"});
  in.cgroups(out.cgroups);
  in.large_integer("limit_min_bytes", out.limit_min_bytes);
  in.large_integer("limit_max_bytes", out.limit_max_bytes);
  in.large_integer("interval", out.interval, 0);
  // oomd divides by it; in microseconds it must fit 64 bits.
  in.large_integer("pressure_ms", out.pressure_ms, 1);
  if (out.pressure_ms > INT32_MAX) in.wrong_value("pressure_ms", "must be below 2^31");
  in.real("pressure_pct", out.pressure_pct);
  in.real("io_pressure_pct", out.io_pressure_pct);
  in.real("max_probe", out.max_probe);
  in.real("max_backoff", out.max_backoff);
  in.real("coeff_probe", out.coeff_probe);
  in.real("coeff_backoff", out.coeff_backoff);
  in.flag("immediate_backoff", out.immediate_backoff);
  in.large_integer("memory_high_timeout_ms", out.memory_high_timeout_ms);
  in.real("swap_threshold", out.swap_threshold);
  in.large_integer("swapout_bps_threshold", out.swapout_bps_threshold);
  in.flag("swap_validation", out.swap_validation);
  in.flag("modulate_swappiness", out.modulate_swappiness);
  in.large_integer("log_interval", out.log_interval);
  if (out.coeff_probe == 0) in.wrong_value("coeff_probe", "must not be 0");
  if (out.coeff_backoff == 0) in.wrong_value("coeff_backoff", "must not be 0");
  if (out.swap_validation) {
    in.differs("swap_validation", "reclaims only while swap is used above swap_threshold",
               "reclaims only while swap is used below swap_threshold");
  }
  if (out.immediate_backoff) {
    in.differs("immediate_backoff",
               "if memory.reclaim freed less than was requested, begins anew with the cgroup",
               "counts it as a reclaim, and waits for the interval");
  }
  return out;
}

PluginArguments read_continue(ArgumentReader& in) {
  static_cast<void>(in);
  return rulesets::Always{true};
}

PluginArguments read_stop(ArgumentReader& in) {
  static_cast<void>(in);
  return rulesets::Always{false};
}

struct PluginRow {
  std::string_view name;
  PluginArguments (*read)(ArgumentReader&);
};

constexpr PluginRow kPlugins[] = {{"continue", read_continue},
                                  {"dump_cgroup_overview", read_overview},
                                  {"exists", read_exists},
                                  {"kill_by_io_cost", read_kill_by_io},
                                  {"kill_by_memory_size_or_growth", read_kill_by_size},
                                  {"kill_by_pg_scan", read_kill_by_pg_scan},
                                  {"kill_by_pressure", read_kill_by_pressure},
                                  {"kill_by_swap_usage", read_kill_by_swap},
                                  {"memory_above", read_memory_above},
                                  {"memory_reclaim", read_memory_reclaim},
                                  {"nr_dying_descendants", read_dying},
                                  {"pressure_above", read_pressure_above},
                                  {"pressure_rising_beyond", read_pressure_rising},
                                  {"senpai", read_senpai},
                                  {"stop", read_stop},
                                  {"swap_free", read_swap_free},
                                  {"systemd_restart", read_restart}};

// The name and arguments of a plugin or hook.
struct NamedArguments {
  std::string name;
  const JsonNode* arguments = nullptr;  // null: none
};

std::optional<NamedArguments> named(const JsonNode& node, std::string_view what,
                                    JsonProblems& problems) {
  if (node.kind != JsonNode::Kind::object) {
    problems.expected(node, what);
    return std::nullopt;
  }
  NamedArguments out;
  bool well_formed = true;
  for (const JsonMember& each : node.members) {
    if (each.key == "name") {
      if (const auto name = json_string(each, problems)) out.name = *name;
      well_formed = well_formed && each.value.kind == JsonNode::Kind::string;
    } else if (each.key == "args") {
      if (each.value.kind == JsonNode::Kind::null) continue;
      well_formed = json_object(each, problems) && well_formed;
      out.arguments = &each.value;
    } else {
      problems.unknown_key(each, {"name", "args"});
      well_formed = false;
    }
  }
  if (node.find("name") == nullptr) {
    problems.error(node.at, fmt::format("'name' is missing in {}", what));
    well_formed = false;
  }
  return well_formed ? std::optional(out) : std::nullopt;
}

}  // namespace

const std::vector<std::string>& oomd_plugin_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const PluginRow& row : kPlugins) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

std::optional<rulesets::Plugin> read_oomd_plugin(const JsonNode& node, JsonProblems& problems,
                                                 std::vector<OomdDifference>& differences) {
  const auto found = named(node, "a plugin: {\"name\": .., \"args\": {..}}", problems);
  if (!found) return std::nullopt;
  for (const PluginRow& row : kPlugins) {
    if (row.name != found->name) continue;
    const std::size_t before = differences.size();
    const bool ignores_arguments = row.name == "continue" || row.name == "stop";
    ArgumentReader reader(found->name, node.at, ignores_arguments ? nullptr : found->arguments,
                          problems, differences);
    rulesets::Plugin plugin{found->name, row.read(reader)};
    if (reader.finish()) return plugin;
    differences.resize(before);
    return std::nullopt;
  }
  const auto near = messages::nearest_word(found->name, oomd_plugin_names());
  problems.error(
      node.find("name")->at,
      fmt::format("unknown plugin '{}'{}{}", found->name,
                  found->name == "kernel_panic" ? " (of an oomd later than 0.5.0)" : "",
                  near ? fmt::format("; did you mean '{}'?", *near)
                       : fmt::format("; use one of: {}", fmt::join(oomd_plugin_names(), ", "))));
  return std::nullopt;
}

std::optional<rulesets::PrekillHook> read_oomd_hook(const JsonNode& node, JsonProblems& problems) {
  const auto found = named(node, "a hook: {\"name\": .., \"args\": {..}}", problems);
  if (!found) return std::nullopt;
  if (found->name != "dummy_prekill_hook") {
    problems.error(node.find("name")->at,
                   fmt::format("unknown prekill hook '{}'; use dummy_prekill_hook", found->name));
    return std::nullopt;
  }
  std::vector<OomdDifference> differences;
  ArgumentReader reader(found->name, node.at, found->arguments, problems, differences);
  rulesets::PrekillHook hook;
  hook.name = found->name;
  reader.require({"cgroup"});
  reader.cgroups(hook.cgroups);
  if (!reader.finish()) return std::nullopt;
  return hook;
}

}  // namespace forestall::intake
