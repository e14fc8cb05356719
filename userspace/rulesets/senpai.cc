// SPDX-License-Identifier: Apache-2.0
#include "rulesets/senpai.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/saturating.h"
#include "rulesets/cgroup_pattern.h"

namespace forestall::rulesets {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kHighTmpTimeoutUs = 20'000'000;

std::int64_t added(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

// Rounded toward zero, or the nearest representable number.
std::int64_t truncated(double number) {
  if (number >= 9.2e18) return std::numeric_limits<std::int64_t>::max();
  if (number <= -9.2e18) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(number);
}

std::int64_t page_aligned(std::int64_t bytes) {
  return bytes & ~(kPage - 1);
}

std::optional<std::int64_t> some_total(const Cgroup& cgroup) {
  const bool known = cgroup.memory_pressure && cgroup.memory_pressure->some;
  return known ? cgroup.memory_pressure->some->total_us : std::nullopt;
}

double squared_up_to(double error, double coefficient, double most) {
  const double part = error / coefficient;
  return std::min(part * part * most, most);
}

// One cgroup at one evaluation. Members that return false lack a reading.
class SenpaiRun {
 public:
  SenpaiRun(const Senpai& arguments, const Cgroup& cgroup, const RuleObservation& observed,
            std::vector<RuleWrite>& writes)
      : arguments_(arguments), cgroup_(cgroup), observed_(observed), writes_(writes) {}

  bool begin(SenpaiCgroup& state) {
    const auto total = some_total(cgroup_);
    if (!total) return false;
    state = {0, *total, 0, arguments_.interval};
    if (arguments_.immediate_backoff) return true;
    if (!limit() || !cgroup_.current) return false;
    state.limit = *cgroup_.current;
    write_limit(state.limit);
    return true;
  }

  bool adjust(SenpaiCgroup& state) {
    if (limit() != state.limit) return begin(state);
    const auto total = some_total(cgroup_);
    if (!total) return false;
    state.cumulative = added(state.cumulative, *total - state.last_total);
    state.last_total = *total;
    const std::int64_t pressure = arguments_.pressure_ms * 1000;
    if (state.cumulative >= pressure) {
      const std::int64_t error = state.cumulative / pressure;
      return change(state, squared_up_to(static_cast<double>(error), arguments_.coeff_backoff,
                                         arguments_.max_backoff));
    }
    if (state.ticks != 0) {
      --state.ticks;
      return true;
    }
    const std::int64_t error = pressure / std::max<std::int64_t>(state.cumulative, 1);
    return change(state, -squared_up_to(static_cast<double>(error), arguments_.coeff_probe,
                                        arguments_.max_probe));
  }

  bool reclaim(SenpaiCgroup& state) {
    if (state.ticks != 0) {
      --state.ticks;
      return true;
    }
    const auto low_pressure = pressure_is_low();
    if (!low_pressure) return false;
    const auto may_swap = !*low_pressure || !arguments_.swap_validation ? true : swap_is_left();
    if (!may_swap) return false;
    if (!*low_pressure || !*may_swap) return true;
    const auto least = lower_bound();
    if (!least) return false;
    if (*cgroup_.current <= *least) return true;
    const double share =
        static_cast<double>(saturating_subtract(*cgroup_.current, *least)) * arguments_.max_probe;
    if (!reclaim_bytes(page_aligned(truncated(share)))) return false;
    state.ticks = arguments_.interval;
    return true;
  }

 private:
  // memory.high.tmp where it exists.
  [[nodiscard]] std::optional<std::int64_t> limit() const {
    return cgroup_.high_tmp ? cgroup_.high_tmp : cgroup_.high;
  }

  void write_limit(std::int64_t value) {
    if (cgroup_.high_tmp) {
      const std::int64_t timeout = value == kNoLimit ? 0 : kHighTmpTimeoutUs;
      writes_.push_back({cgroup_.path, "memory.high.tmp", value, timeout});
    } else {
      writes_.push_back({cgroup_.path, "memory.high", value, std::nullopt});
    }
  }

  bool change(SenpaiCgroup& state, double factor) {
    const auto least = lower_bound();
    const auto most = upper_bound();
    if (!least || !most) return false;
    const auto before = static_cast<double>(state.limit);
    const std::int64_t wanted = truncated(before + before * factor);
    state.limit = page_aligned(std::max(*least, std::min(*most, wanted)));
    state.ticks = arguments_.interval;
    state.cumulative = 0;
    write_limit(state.limit);
    return true;
  }

  // What cannot be reclaimed, and the configured rest.
  [[nodiscard]] std::optional<std::int64_t> lower_bound() const {
    const auto reclaimable = reclaimable_bytes();
    if (!cgroup_.current || !cgroup_.min || !reclaimable) return std::nullopt;
    return std::max(*cgroup_.min,
                    added(arguments_.limit_min_bytes, *cgroup_.current - *reclaimable));
  }

  [[nodiscard]] std::optional<std::int64_t> upper_bound() const {
    const auto& total = observed_.host.mem_total;
    if (!total || !cgroup_.current || !cgroup_.max) return std::nullopt;
    std::int64_t most = std::min(*total, added(*cgroup_.current, arguments_.limit_max_bytes));
    // memory.high.tmp would override a lower memory.high.
    if (cgroup_.high_tmp) {
      if (!cgroup_.high) return std::nullopt;
      most = std::min(most, *cgroup_.high);
    }
    return std::min(most, *cgroup_.max);
  }

  [[nodiscard]] bool host_swaps() const {
    return observed_.host.total_swap().value_or(0) > 0 && observed_.host.swappiness.value_or(0) > 0;
  }

  [[nodiscard]] std::optional<std::int64_t> reclaimable_bytes() const {
    const auto& stat = cgroup_.stat;
    if (!stat || !stat->active_file || !stat->inactive_file) return std::nullopt;
    const std::int64_t files = *stat->active_file + *stat->inactive_file;
    if (!host_swaps()) return files;
    const auto free = effective_swap_free();
    if (!free) return std::nullopt;
    if (*free <= 0) return files;
    if (!stat->active_anon || !stat->inactive_anon) return std::nullopt;
    return files + std::min(*free, *stat->active_anon + *stat->inactive_anon);
  }

  // Calls visit(swap.max, swap.current) for the cgroup and its ancestors below the root. False if a
  // reading is missing.
  template <typename Visit>
  bool each_level(Visit visit) const {
    for (const Cgroup* each = &cgroup_; each != nullptr && !is_root(*each);
         each = observed_.parent(*each)) {
      if (!each->swap_max || !each->swap_current) return false;
      visit(*each->swap_max, *each->swap_current);
    }
    return true;
  }

  [[nodiscard]] std::optional<std::int64_t> effective_swap_free() const {
    const auto total = observed_.host.total_swap();
    const auto used = observed_.host.used_swap();
    if (!total || !used) return std::nullopt;
    std::int64_t free = *total - *used;
    const bool known = each_level([&free](std::int64_t most, std::int64_t used_here) {
      free = std::min(free, most - used_here);
    });
    return known ? std::optional(free) : std::nullopt;
  }

  // 0 to 1; of the level that is closest to its limit. A level without swap counts 0 and hides
  // those above it: getEffectiveSwapUtilPct() of oomd's CgroupContext.cpp.
  [[nodiscard]] std::optional<double> swap_utilization() const {
    double highest = 0;
    for (const Cgroup* each = &cgroup_; each != nullptr && !is_root(*each);
         each = observed_.parent(*each)) {
      if (!each->swap_max) return std::nullopt;
      if (*each->swap_max == 0) return highest;
      if (!each->swap_current) return std::nullopt;
      highest = std::max(
          highest, static_cast<double>(*each->swap_current) / static_cast<double>(*each->swap_max));
    }
    const auto total = observed_.host.total_swap();
    const auto used = observed_.host.used_swap();
    if (!total || !used) return std::nullopt;
    if (*total == 0) return highest;
    return std::max(highest, static_cast<double>(*used) / static_cast<double>(*total));
  }

  // Where swapping is impossible there is nothing to run out of.
  [[nodiscard]] std::optional<bool> swap_is_left() const {
    if (!host_swaps()) return true;
    bool forbidden = false;
    const bool known = each_level(
        [&forbidden](std::int64_t most, std::int64_t) { forbidden = forbidden || most == 0; });
    if (!known) return std::nullopt;
    if (forbidden) return true;
    const auto utilization = swap_utilization();
    if (!utilization) return std::nullopt;
    return *utilization < arguments_.swap_threshold;
  }

  [[nodiscard]] std::optional<bool> pressure_is_low() const {
    if (!cgroup_.memory_pressure || !cgroup_.memory_pressure->some) return std::nullopt;
    if (!cgroup_.io_pressure || !cgroup_.io_pressure->some) return std::nullopt;
    const PressureLine& memory = *cgroup_.memory_pressure->some;
    const PressureLine& io = *cgroup_.io_pressure->some;
    return static_cast<double>(std::max(memory.avg10, memory.avg60)) < arguments_.pressure_pct &&
           static_cast<double>(std::max(io.avg10, io.avg60)) < arguments_.io_pressure_pct;
  }

  [[nodiscard]] std::optional<std::int64_t> modulated_swappiness() const {
    const auto& original = observed_.host.swappiness;
    const auto utilization = swap_utilization();
    if (!original || !utilization) return std::nullopt;
    const double bps = std::max(observed_.host.swapout_bps60.value_or(0),
                                observed_.host.swapout_bps300.value_or(0));
    const auto left = [](double used, double threshold) {
      return threshold <= 0 || used >= threshold ? 0.0 : 1 - used / threshold;
    };
    const double factor = std::min(left(bps, static_cast<double>(arguments_.swapout_bps_threshold)),
                                   left(*utilization, arguments_.swap_threshold));
    return truncated(static_cast<double>(*original) * factor);
  }

  bool reclaim_bytes(std::int64_t bytes) {
    std::optional<std::int64_t> swappiness;
    if (arguments_.modulate_swappiness) swappiness = modulated_swappiness();
    const auto set_swappiness = [&](std::int64_t value) {
      if (swappiness) writes_.push_back({"", "vm.swappiness", value, std::nullopt});
    };
    if (!cgroup_.has_reclaim && !limit()) return false;
    set_swappiness(swappiness.value_or(0));
    if (cgroup_.has_reclaim) {
      writes_.push_back({cgroup_.path, "memory.reclaim", bytes, std::nullopt});
    } else {
      write_limit(saturating_subtract(*cgroup_.current, bytes));
      write_limit(kNoLimit);
    }
    set_swappiness(observed_.host.swappiness.value_or(0));
    return true;
  }

  const Senpai& arguments_;
  const Cgroup& cgroup_;
  const RuleObservation& observed_;
  std::vector<RuleWrite>& writes_;
};

}  // namespace

PluginResult senpai(const Senpai& arguments, const RuleObservation& observed, PluginState& state,
                    std::vector<RuleWrite>& writes) {
  std::map<std::uint64_t, SenpaiCgroup> followed;
  for (const Cgroup* each : matching(arguments.cgroups, observed)) {
    SenpaiRun run(arguments, *each, observed, writes);
    const auto known = state.senpai.find(each->id);
    SenpaiCgroup cgroup;
    bool is_readable = false;
    if (known == state.senpai.end()) {
      is_readable = run.begin(cgroup);
    } else {
      cgroup = known->second;
      is_readable = arguments.immediate_backoff ? run.reclaim(cgroup) : run.adjust(cgroup);
    }
    // A cgroup with a missing reading begins anew.
    if (is_readable) followed[each->id] = cgroup;
  }
  state.senpai = std::move(followed);
  return PluginResult::proceed;
}

}  // namespace forestall::rulesets
