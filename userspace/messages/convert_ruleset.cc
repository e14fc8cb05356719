// SPDX-License-Identifier: Apache-2.0
// Rulesets of the configuration in force, in the words of the configuration.
#include <charconv>
#include <utility>

#include "base/parse.h"
#include "messages/convert.h"
#include "messages/convert_fields.h"
#include "model/duration.h"
#include "text/utf8.h"

namespace forestall::messages {
namespace {

using rulesets::KillBy;
using rulesets::Plugin;
using rulesets::PluginArguments;
using rulesets::PressureOver;

// The words of an enumeration, in its order.
constexpr std::string_view kResourceWords[] = {"memory", "io", "cpu"};
constexpr std::string_view kKillByWords[] = {"sizeOrGrowth", "swap", "pressure", "ioCost", "scans"};
constexpr std::string_view kPreferenceWords[] = {"none", "oomd", "systemd"};
constexpr std::string_view kAverageWords[] = {"10s", "60s", "300s"};

template <typename Enum, std::size_t N>
std::string word_of(const std::string_view (&words)[N], Enum value) {
  return std::string(words[static_cast<std::size_t>(value)]);
}

template <typename Enum, std::size_t N>
Result<Enum> rule_word(const std::string_view (&words)[N], bool given, const std::string& text,
                       std::string_view key, Enum unset) {
  if (!given) return unset;
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == text) return static_cast<Enum>(i);
  }
  return error(std::string(key) + ": unknown '" + text + "'");
}

template <typename Number>
std::string number_text(Number number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

template <typename Number>
Result<Number> number_of(std::string_view text, std::string_view key) {
  Number number{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return error(std::string(key) + ": no number: '" + std::string(text) + "'");
  }
  return number;
}

std::string seconds_text(std::int64_t seconds) {
  return number_text(seconds) + "s";
}

Result<std::int64_t> seconds_from(std::string_view text, std::string_view key) {
  if (!text.ends_with('s'))
    return error(std::string(key) + ": no seconds: '" + std::string(text) + "'");
  return number_of<std::int64_t>(text.substr(0, text.size() - 1), key);
}

std::string size_words(const rulesets::SizeOrPercent& size) {
  return number_text(size.value) + (size.is_percent ? "%" : "");
}

Result<rulesets::SizeOrPercent> size_from(std::string_view text, std::string_view key) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  return rulesets::SizeOrPercent{is_percent, TRY(number_of<std::int64_t>(text, key))};
}

template <typename Message>
void put_cgroups(const rulesets::CgroupPatterns& patterns, Message& out) {
  for (const rulesets::CgroupPattern& each : patterns) {
    std::string path;
    for (const std::string& component : each.components) path += "/" + component;
    out.Add(text::to_utf8(path.empty() ? "/" : path));
  }
}

template <typename Message>
rulesets::CgroupPatterns cgroups_from(const Message& paths) {
  rulesets::CgroupPatterns patterns;
  for (const std::string& path : paths) {
    rulesets::CgroupPattern& pattern = patterns.emplace_back();
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::string_view component = next_field(rest, '/');
      if (!component.empty()) pattern.components.emplace_back(component);
    }
  }
  return patterns;
}

// ---- to messages ----

struct DetectorMessage {
  v1::RuleDetector& out;

  void operator()(const PressureOver& each) const {
    v1::PressureDetector& to = *out.mutable_pressure();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_resource(word_of(kResourceWords, each.resource));
    to.set_stalled(each.some ? "some" : "full");
    if (each.measure == PressureOver::Average::window) {
      to.set_window(seconds_text(each.window));
    } else {
      to.set_average(word_of(kAverageWords, each.measure));
    }
    to.set_above(number_text(each.threshold) + "%");
    to.set_for_(seconds_text(each.duration));
    if (each.falling_at_most_to) to.set_falling_at_most_to(number_text(*each.falling_at_most_to));
    to.set_worst_by(each.weighted ? "weighted" : "value");
  }

  void operator()(const rulesets::AvailableBelow& each) const {
    v1::AvailableDetector& to = *out.mutable_available();
    to.set_resource(each.swap ? "swap" : "memory");
    to.set_below(size_words(each.threshold));
    to.set_for_(seconds_text(each.duration));
  }

  void operator()(const rulesets::MemoryAbove& each) const {
    v1::UsageDetector& to = *out.mutable_usage();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_of(each.anon ? "anon" : each.swap ? "swap" : "memory");
    to.set_above(size_words(each.threshold));
    to.set_for_(seconds_text(each.duration));
  }

  void operator()(const rulesets::RateAbove& each) const {
    using Of = rulesets::RateAbove::Of;
    v1::RateDetector& to = each.of == Of::usage   ? *out.mutable_growth()
                           : each.of == Of::scans ? *out.mutable_scans()
                                                  : *out.mutable_refaults();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_above(number_text(each.threshold));
    to.set_over(seconds_text(each.over));
  }

  void operator()(const rulesets::MemoryReclaim& each) const {
    v1::ReclaimDetector& to = *out.mutable_reclaim();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_within(seconds_text(each.duration));
  }

  void operator()(const rulesets::DyingDescendants& each) const {
    v1::DyingDetector& to = *out.mutable_dying_descendants();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    const auto count = static_cast<std::uint32_t>(each.count);
    each.at_most ? to.set_at_most(count) : to.set_above(count);
  }

  void operator()(const rulesets::Exists& each) const {
    put_cgroups(each.cgroups, each.negate ? *out.mutable_absent() : *out.mutable_exists());
  }

  void operator()(const rulesets::Always& each) const { out.set_always(each.proceed); }

  template <typename Other>
  void operator()(const Other& /*unused*/) const {
    out.set_always(false);
  }
};

struct ActionMessage {
  v1::RuleAction& out;

  void operator()(const rulesets::Kill& each) const {
    v1::KillAction& to = *out.mutable_kill();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_by(word_of(kKillByWords, each.by));
    to.set_descend(each.recursive);
    to.set_preference(word_of(kPreferenceWords, each.preference));
    to.set_then_continue(each.always_continue);
    if (each.post_action_delay) to.set_pause(seconds_text(*each.post_action_delay));
    to.set_dry_run(each.dry);
    if (each.by == KillBy::memory_size_or_growth) {
      to.set_size_share(number_text(each.size_threshold) + "%");
      to.set_growth_percentile(static_cast<std::uint32_t>(each.growing_size_percentile));
      to.set_growth_ratio(number_text(each.min_growth_ratio));
    }
    if (each.by == KillBy::swap_usage) to.set_swap_at_least(size_words(each.swap_threshold));
    if (each.by == KillBy::pressure) to.set_resource(word_of(kResourceWords, each.resource));
  }

  void operator()(const rulesets::ReclaimMemory& each) const {
    v1::ReclaimAction& to = *out.mutable_reclaim();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_amount(size_words(each.amount));
    to.set_dry_run(each.dry);
  }

  void operator()(const rulesets::ProactiveReclaim& each) const {
    v1::ProactiveReclaim& to = *out.mutable_proactive_reclaim();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_pressure(number_text(each.pressure) + "%");
    to.set_every(seconds_text(each.every));
    to.set_step(number_text(each.step) + "%");
    to.set_write_max(number_text(each.write_max));
    to.set_floor(number_text(each.floor));
    to.set_back_off(seconds_text(each.back_off));
    to.set_node_pressure(number_text(each.node_pressure) + "%");
    to.set_swap_used_max(number_text(each.swap_used_max) + "%");
    to.set_dry_run(each.dry);
  }

  void operator()(const rulesets::Throttle& each) const {
    v1::ThrottleAction& to = *out.mutable_throttle();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_high(size_words(each.high));
    to.set_for_(seconds_text(each.duration));
    to.set_dry_run(each.dry);
  }

  void operator()(const rulesets::Freeze& each) const {
    v1::FreezeAction& to = *out.mutable_freeze();
    put_cgroups(each.cgroups, *to.mutable_cgroups());
    to.set_for_(seconds_text(each.duration));
    to.set_dry_run(each.dry);
  }

  void operator()(const rulesets::RestartUnit& each) const {
    v1::RestartAction& to = *out.mutable_restart();
    to.set_unit(text::to_utf8(each.service));
    to.set_pause(seconds_text(each.post_action_delay));
    to.set_dry_run(each.dry);
  }

  void operator()(const rulesets::LogAction& each) const { out.set_log(text::to_utf8(each.text)); }

  void operator()(const rulesets::Always& each) const {
    out.set_chain(each.proceed ? "continue" : "stop");
  }

  template <typename Other>
  void operator()(const Other& /*unused*/) const {
    out.set_chain("stop");
  }
};

// ---- from messages ----

Result<PluginArguments> pressure_from(const v1::PressureDetector& from) {
  PressureOver to;
  to.cgroups = cgroups_from(from.cgroups());
  to.resource = TRY(rule_word(kResourceWords, from.has_resource(), from.resource(), "resource",
                              rulesets::PressureResource::memory));
  to.some = from.stalled() == "some";
  to.measure = TRY(rule_word(kAverageWords, from.has_average(), from.average(), "average",
                             PressureOver::Average::avg10));
  if (from.has_window()) {
    to.measure = PressureOver::Average::window;
    to.window = TRY(seconds_from(from.window(), "window"));
  }
  std::string_view above = from.above();
  if (!above.ends_with('%')) return error("above: no percentage");
  above.remove_suffix(1);
  to.threshold = TRY(number_of<double>(above, "above"));
  if (from.has_for_()) to.duration = TRY(seconds_from(from.for_(), "for"));
  if (from.has_falling_at_most_to()) {
    to.falling_at_most_to = TRY(number_of<float>(from.falling_at_most_to(), "fallingAtMostTo"));
  }
  to.weighted = from.worst_by() == "weighted";
  return PluginArguments(to);
}

Result<PluginArguments> rate_from(const v1::RateDetector& from, rulesets::RateAbove::Of of) {
  rulesets::RateAbove to;
  to.of = of;
  to.cgroups = cgroups_from(from.cgroups());
  to.threshold = TRY(number_of<std::int64_t>(from.above(), "above"));
  if (from.has_over()) to.over = TRY(seconds_from(from.over(), "over"));
  return PluginArguments(to);
}

Result<PluginArguments> available_from(const v1::AvailableDetector& from) {
  rulesets::AvailableBelow to;
  to.swap = from.resource() == "swap";
  to.threshold = TRY(size_from(from.below(), "below"));
  if (from.has_for_()) to.duration = TRY(seconds_from(from.for_(), "for"));
  return PluginArguments(to);
}

Result<PluginArguments> usage_from(const v1::UsageDetector& from) {
  rulesets::MemoryAbove to;
  to.cgroups = cgroups_from(from.cgroups());
  to.anon = from.of() == "anon";
  to.swap = from.of() == "swap";
  to.threshold = TRY(size_from(from.above(), "above"));
  if (from.has_for_()) to.duration = TRY(seconds_from(from.for_(), "for"));
  return PluginArguments(to);
}

Result<PluginArguments> reclaim_from(const v1::ReclaimDetector& from) {
  return PluginArguments(rulesets::MemoryReclaim{cgroups_from(from.cgroups()),
                                                 TRY(seconds_from(from.within(), "within"))});
}

Result<Plugin> plugin_from(const v1::RuleDetector& from) {
  using Of = rulesets::RateAbove::Of;
  if (from.has_pressure()) return Plugin{"pressure", TRY(pressure_from(from.pressure()))};
  if (from.has_available()) return Plugin{"available", TRY(available_from(from.available()))};
  if (from.has_usage()) return Plugin{"usage", TRY(usage_from(from.usage()))};
  if (from.has_growth()) return Plugin{"growth", TRY(rate_from(from.growth(), Of::usage))};
  if (from.has_scans()) return Plugin{"scans", TRY(rate_from(from.scans(), Of::scans))};
  if (from.has_refaults()) return Plugin{"refaults", TRY(rate_from(from.refaults(), Of::refaults))};
  if (from.has_reclaim()) return Plugin{"reclaim", TRY(reclaim_from(from.reclaim()))};
  if (from.has_dying_descendants()) {
    const v1::DyingDetector& dying = from.dying_descendants();
    return Plugin{"dyingDescendants",
                  rulesets::DyingDescendants{cgroups_from(dying.cgroups()),
                                             dying.has_at_most() ? dying.at_most() : dying.above(),
                                             dying.has_at_most()}};
  }
  if (from.exists_size() > 0) {
    return Plugin{"exists", rulesets::Exists{cgroups_from(from.exists()), false}};
  }
  if (from.absent_size() > 0) {
    return Plugin{"absent", rulesets::Exists{cgroups_from(from.absent()), true}};
  }
  if (from.has_always()) return Plugin{"always", rulesets::Always{from.always()}};
  return error("a detector without a key");
}

Result<PluginArguments> kill_from(const v1::KillAction& from) {
  rulesets::Kill to;
  to.cgroups = cgroups_from(from.cgroups());
  to.by =
      TRY(rule_word(kKillByWords, from.has_by(), from.by(), "by", KillBy::memory_size_or_growth));
  to.recursive = from.descend();
  to.preference = TRY(rule_word(kPreferenceWords, from.has_preference(), from.preference(),
                                "preference", rulesets::PreferenceSource::none));
  to.always_continue = from.then_continue();
  if (from.has_pause()) to.post_action_delay = TRY(seconds_from(from.pause(), "pause"));
  to.dry = from.dry_run();
  if (from.has_size_share()) {
    to.size_threshold = TRY(size_from(from.size_share(), "sizeShare")).value;
  }
  if (from.has_growth_percentile()) to.growing_size_percentile = from.growth_percentile();
  if (from.has_growth_ratio()) {
    to.min_growth_ratio = TRY(number_of<double>(from.growth_ratio(), "growthRatio"));
  }
  if (from.has_swap_at_least()) {
    to.swap_threshold = TRY(size_from(from.swap_at_least(), "swapAtLeast"));
  }
  to.resource = TRY(rule_word(kResourceWords, from.has_resource(), from.resource(), "resource",
                              rulesets::PressureResource::memory));
  return PluginArguments(to);
}

Result<double> percent_from(std::string_view text, std::string_view key) {
  if (!text.ends_with('%')) {
    return error(std::string(key) + ": no percentage: '" + std::string(text) + "'");
  }
  return number_of<double>(text.substr(0, text.size() - 1), key);
}

// As to_proto() writes it: all fields are set.
Result<PluginArguments> proactive_reclaim_from(const v1::ProactiveReclaim& from) {
  rulesets::ProactiveReclaim to;
  to.cgroups = cgroups_from(from.cgroups());
  to.pressure = TRY(percent_from(from.pressure(), "pressure"));
  to.every = TRY(seconds_from(from.every(), "every"));
  to.step = TRY(percent_from(from.step(), "step"));
  to.write_max = TRY(number_of<std::int64_t>(from.write_max(), "writeMax"));
  to.floor = TRY(number_of<std::int64_t>(from.floor(), "floor"));
  to.back_off = TRY(seconds_from(from.back_off(), "backOff"));
  to.node_pressure = TRY(percent_from(from.node_pressure(), "nodePressure"));
  to.swap_used_max = TRY(percent_from(from.swap_used_max(), "swapUsedMax"));
  to.dry = from.dry_run();
  return PluginArguments(to);
}

Result<Plugin> plugin_from(const v1::RuleAction& from) {
  if (from.has_kill()) return Plugin{"kill", TRY(kill_from(from.kill()))};
  if (from.has_reclaim()) {
    return Plugin{"reclaim",
                  rulesets::ReclaimMemory{cgroups_from(from.reclaim().cgroups()),
                                          TRY(size_from(from.reclaim().amount(), "amount")),
                                          from.reclaim().dry_run()}};
  }
  if (from.has_proactive_reclaim()) {
    return Plugin{std::string(rulesets::kProactiveReclaim),
                  TRY(proactive_reclaim_from(from.proactive_reclaim()))};
  }
  if (from.has_throttle()) {
    const v1::ThrottleAction& throttle = from.throttle();
    return Plugin{"throttle", rulesets::Throttle{cgroups_from(throttle.cgroups()),
                                                 TRY(size_from(throttle.high(), "high")),
                                                 TRY(seconds_from(throttle.for_(), "for")),
                                                 throttle.dry_run()}};
  }
  if (from.has_freeze()) {
    return Plugin{"freeze", rulesets::Freeze{cgroups_from(from.freeze().cgroups()),
                                             TRY(seconds_from(from.freeze().for_(), "for")),
                                             from.freeze().dry_run()}};
  }
  if (from.has_restart()) {
    rulesets::RestartUnit to{from.restart().unit()};
    if (from.restart().has_pause()) {
      to.post_action_delay = TRY(seconds_from(from.restart().pause(), "pause"));
    }
    to.dry = from.restart().dry_run();
    return Plugin{"restart", to};
  }
  if (from.has_log()) return Plugin{"log", rulesets::LogAction{from.log()}};
  if (from.has_chain()) return Plugin{"chain", rulesets::Always{from.chain() == "continue"}};
  return error("an action without a key");
}

}  // namespace

v1::Ruleset to_proto(const rulesets::Ruleset& ruleset) {
  v1::Ruleset out;
  out.set_name(text::to_utf8(ruleset.name));
  out.set_pause(seconds_text(ruleset.post_action_delay));
  out.set_prekill_hook_timeout(seconds_text(ruleset.prekill_hook_timeout));
  for (const rulesets::DetectorGroup& group : ruleset.groups) {
    v1::DetectorGroup& added = *out.add_detectors();
    added.set_name(text::to_utf8(group.name));
    for (const Plugin& each : group.plugins) {
      std::visit(DetectorMessage{*added.add_all()}, each.arguments);
    }
  }
  for (const Plugin& each : ruleset.actions) {
    std::visit(ActionMessage{*out.add_actions()}, each.arguments);
  }
  return out;
}

Result<rulesets::Ruleset> from_proto(const v1::Ruleset& message) {
  rulesets::Ruleset ruleset;
  ruleset.name = message.name();
  if (message.has_pause()) ruleset.post_action_delay = TRY(seconds_from(message.pause(), "pause"));
  if (message.has_prekill_hook_timeout()) {
    ruleset.prekill_hook_timeout =
        TRY(seconds_from(message.prekill_hook_timeout(), "prekillHookTimeout"));
  }
  for (const v1::DetectorGroup& group : message.detectors()) {
    rulesets::DetectorGroup& added = ruleset.groups.emplace_back();
    added.name = group.name();
    TRY(read_each(group.all(), added.plugins, "all",
                  [](const v1::RuleDetector& each) { return plugin_from(each); }));
  }
  TRY(read_each(message.actions(), ruleset.actions, "actions",
                [](const v1::RuleAction& each) { return plugin_from(each); }));
  return ruleset;
}

v1::PrekillHook to_proto(const rulesets::PrekillHook& hook) {
  v1::PrekillHook out;
  out.set_name(text::to_utf8(hook.name));
  put_cgroups(hook.cgroups, *out.mutable_cgroups());
  if (hook.only_logs()) out.set_log(text::to_utf8(hook.log));
  if (!hook.socket.empty()) out.set_socket(text::to_utf8(hook.socket));
  if (hook.program.empty()) return out;
  out.set_program(text::to_utf8(hook.program));
  for (const std::string& each : hook.arguments) out.add_arguments(text::to_utf8(each));
  return out;
}

rulesets::PrekillHook from_proto(const v1::PrekillHook& message) {
  return {message.name(),    cgroups_from(message.cgroups()),
          message.program(), {message.arguments().begin(), message.arguments().end()},
          message.socket(),  message.log()};
}

}  // namespace forestall::messages
