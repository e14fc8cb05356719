// SPDX-License-Identifier: Apache-2.0
#include "rulesets/proactive_reclaim.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "rulesets/cgroup_pattern.h"
#include "rulesets/rule_amounts.h"

namespace forestall::rulesets {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kReclaimPage = 4096;
// senpai's coeff_probe: with this part of the allowed stall time the whole step is reclaimed.
constexpr double kProbeCoefficient = 10;
// An evaluation that is early by this much counts as on time: they are a second apart.
constexpr nanoseconds kEarly = std::chrono::milliseconds(500);
// For this long after the last second without a write, the node counts as measured.
constexpr nanoseconds kNodeMeasured = std::chrono::seconds(3);

double microseconds(nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

std::optional<std::int64_t> stall_total(const std::optional<PressureLine>& line) {
  return line ? line->total_us : std::nullopt;
}

class ProactiveReclaimRun {
 public:
  ProactiveReclaimRun(const ProactiveReclaim& arguments, RuleScope& scope, PluginRun& run)
      : arguments_(arguments), scope_(scope), run_(run), now_(scope.observed.time) {}

  void evaluate() {
    PluginState& state = *run_.state;
    if (!state.last_run || *state.last_run + 1 != scope_.state.evaluations) {
      state.reclaimed.clear();
      state.node_stall.reset();
      state.values.clear();
    }
    state.last_run = scope_.state.evaluations;
    measure_node();
    std::map<std::uint64_t, ReclaimedCgroup> followed;
    for (const Cgroup* each : matching(arguments_.cgroups, scope_.observed)) {
      const auto& pressure = each->memory_pressure;
      const auto total = pressure ? stall_total(pressure->some) : std::nullopt;
      if (is_root(*each) || !total) continue;
      followed[each->id] = next(*each, {now_, *total});
    }
    state.reclaimed = std::move(followed);
  }

 private:
  // `values` has the node's stall time at both ends of the last window without a write.
  void measure_node() {
    PluginState& state = *run_.state;
    const auto before = std::exchange(state.node_stall, std::nullopt);
    const Cgroup* root = scope_.observed.find("/");
    const auto total = root != nullptr && root->memory_pressure
                           ? stall_total(root->memory_pressure->full)
                           : std::nullopt;
    if (!total) return state.values.clear();
    state.node_stall = TimedValue{now_, *total};
    const bool is_window = before && before->time < now_ && before->value <= *total;
    if (is_window && (!scope_.last_write || *scope_.last_write < before->time)) {
      state.values = {{root->id, {*before, *state.node_stall}}};
    }
    const auto window = state.values.find(root->id);
    if (window != state.values.end() && window->second.size() == 2) {
      compare_node(window->second[0], window->second[1]);
    }
  }

  void compare_node(const TimedValue& first, const TimedValue& last) {
    node_is_measured_ = now_ - last.time < kNodeMeasured;
    const auto stalled = static_cast<double>(last.value - first.value);
    node_stalls_ = node_is_measured_ &&
                   stalled * 100 > arguments_.node_pressure * microseconds(last.time - first.time);
  }

  ReclaimedCgroup next(const Cgroup& cgroup, TimedValue stall) {
    const auto known = run_.state->reclaimed.find(cgroup.id);
    const bool begins = known == run_.state->reclaimed.end() ||
                        stall.value < known->second.last.value ||
                        stall.time <= known->second.last.time;
    if (begins) return {stall, stall, now_ + seconds_of(arguments_.every), std::nullopt};
    ReclaimedCgroup reclaimed = known->second;
    reclaimed.last = stall;
    const auto stalled = static_cast<double>(stall.value - reclaimed.start.value);
    const double allowed = allowed_stall(now_ - reclaimed.start.time);
    if (node_stalls_ || stalled > allowed) {
      back_off(cgroup, reclaimed);
    } else if (node_is_measured_ && now_ + kEarly >= reclaimed.due) {
      reclaimed.backs_off_until.reset();
      reclaim(cgroup, allowed / std::max(stalled, 1.0), reclaimed);
    }
    return reclaimed;
  }

  // Microseconds of a window that has lasted for this long.
  [[nodiscard]] double allowed_stall(nanoseconds elapsed) const {
    return arguments_.pressure / 100 *
           microseconds(std::max(elapsed, seconds_of(arguments_.every)));
  }

  void back_off(const Cgroup& cgroup, ReclaimedCgroup& reclaimed) {
    if (!reclaimed.backs_off_until) {
      report(cgroup, node_stalls_ ? AttemptOutcome::node_stalls : AttemptOutcome::backed_off, 0);
    }
    reclaimed.start = reclaimed.last;
    reclaimed.due = now_ + seconds_of(arguments_.back_off);
    reclaimed.backs_off_until = reclaimed.due;
  }

  // `margin`: how often the stall time of the window would fit into what is allowed.
  void reclaim(const Cgroup& cgroup, double margin, ReclaimedCgroup& reclaimed) {
    reclaimed.start = reclaimed.last;
    reclaimed.due = now_ + seconds_of(arguments_.every);
    if (!cgroup.has_reclaim || !cgroup.current || !cgroup.min || !cgroup.low) return;
    if (!may_swap()) return;
    const double part = margin / kProbeCoefficient;
    const double share = std::min(part * part, 1.0) * arguments_.step / 100;
    const std::int64_t least = std::max({arguments_.floor, *cgroup.min, *cgroup.low});
    const auto wanted = static_cast<std::int64_t>(static_cast<double>(*cgroup.current) * share);
    const std::int64_t bytes = std::min({wanted, arguments_.write_max, *cgroup.current - least});
    if (bytes < kReclaimPage) return;
    const bool dry = arguments_.dry || scope_.config.dry_run;
    const std::int64_t pages = bytes / kReclaimPage * kReclaimPage;
    report(cgroup, dry ? AttemptOutcome::dry : AttemptOutcome::written, pages);
    if (!dry) {
      run_.state->since = now_;
      scope_.decision.writes.push_back(
          {cgroup.path, std::string(kReclaimFile), pages, std::nullopt});
    }
  }

  // Swap that is needed when memory runs short is left free.
  [[nodiscard]] bool may_swap() const {
    const auto total = scope_.observed.host.total_swap();
    const auto used = scope_.observed.host.used_swap();
    if (!total || !used) return false;
    return static_cast<double>(*used) * 100 <=
           static_cast<double>(*total) * arguments_.swap_used_max;
  }

  void report(const Cgroup& cgroup, AttemptOutcome outcome, std::int64_t bytes) {
    run_.report->attempts.push_back({cgroup.path, outcome, kReclaimFile, bytes});
  }

  const ProactiveReclaim& arguments_;
  RuleScope& scope_;
  PluginRun& run_;
  const nanoseconds now_;
  bool node_is_measured_ = false;
  bool node_stalls_ = false;
};

}  // namespace

std::optional<nanoseconds> last_proactive_write(const RuleScope& scope) {
  std::optional<nanoseconds> last;
  for (const RulesetInstance& each : scope.config.program.order()) {
    const auto known = scope.state.rulesets.find(each.id);
    if (known == scope.state.rulesets.end()) continue;
    const auto& actions = known->second.actions;
    for (std::size_t a = 0; a < std::min(actions.size(), each.ruleset->actions.size()); ++a) {
      if (std::holds_alternative<ProactiveReclaim>(each.ruleset->actions[a].arguments)) {
        last = std::max(last, actions[a].since);  // nothing is less than any time
      }
    }
  }
  return last;
}

PluginResult proactive_reclaim(const ProactiveReclaim& arguments, RuleScope& scope,
                               PluginRun& run) {
  ProactiveReclaimRun(arguments, scope, run).evaluate();
  return PluginResult::proceed;
}

}  // namespace forestall::rulesets
