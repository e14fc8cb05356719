// SPDX-License-Identifier: Apache-2.0
#include "policy/kubelet_overlap.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "model/duration.h"
#include "policy/conflicting_writes.h"

namespace forestall::policy {
namespace {

std::string name_of(Signal signal) {
  return std::string(to_string(signal));
}

// "<500Mi", "<10% for 1m30s".
std::string short_text(const Threshold& threshold) {
  std::string text = "<" + limit_text(threshold.limit);
  if (!threshold.hard()) text += " for " + forestall::to_string(threshold.grace);
  return text;
}

std::string setting_of(const Threshold& threshold) {
  return threshold.hard() ? "evictionHard" : "evictionSoft";
}

// The order of two thresholds of one signal.
struct Order {
  std::strong_ordering limit = std::strong_ordering::equal;  // of the agent's to the kubelet's
  std::strong_ordering grace = std::strong_ordering::equal;

  [[nodiscard]] bool agent_never_later() const { return limit >= 0 && grace <= 0; }
  [[nodiscard]] bool kubelet_never_later() const { return limit <= 0 && grace >= 0; }
  [[nodiscard]] bool same() const { return limit == 0 && grace == 0; }
};

class Overlap {
 public:
  explicit Overlap(const OverlapInput& input) : input_(input) {}

  OverlapReport run() {
    if (input_.agent.dry_run) {
      note("agent-in-dry-run",
           "the agent is in dry run: it kills nothing, and the kubelet acts alone");
    }
    for (const Threshold& each : input_.kubelet.thresholds) {
      if (!is_copy(input_.kubelet, each)) compare(each);
    }
    for (const Threshold& each : input_.agent.thresholds) {
      if (is_of_agent_only(each)) {
        add_row(each.signal, &each, nullptr, ActsFirst::agent,
                "the kubelet has no threshold on this signal");
      }
    }
    summarize();
    for (Advice& each : conflicting_writes(input_)) report_.advice.push_back(std::move(each));
    std::ranges::stable_sort(report_.advice, [](const Advice& left, const Advice& right) {
      return left.severity > right.severity;
    });
    return std::move(report_);
  }

 private:
  void note(std::string topic, std::string text) {
    report_.advice.push_back({Severity::note, std::move(topic), std::move(text)});
  }
  void warn(std::string topic, std::string text) {
    report_.advice.push_back({Severity::warning, std::move(topic), std::move(text)});
  }

  void add_row(Signal signal, const Threshold* agent, const Threshold* kubelet, ActsFirst first,
               std::string reason) {
    ComparedThreshold row;
    row.signal = signal;
    row.first = first;
    row.reason = std::move(reason);
    if (agent != nullptr) row.agent = short_text(*agent);
    if (kubelet != nullptr) row.kubelet = short_text(*kubelet);
    if (input_.agent.dry_run && kubelet != nullptr) {
      row.first = ActsFirst::kubelet;
      row.reason = "the agent is in dry run";
    }
    report_.thresholds.push_back(std::move(row));
  }

  // Both programs copy a hard threshold of memory.available to allocatableMemory.available.
  static bool is_copy(const Config& config, const Threshold& threshold) {
    if (threshold.signal != Signal::allocatable_memory_available) return false;
    return std::ranges::any_of(config.thresholds, [&](const Threshold& each) {
      return each.signal == Signal::memory_available && each.hard() &&
             each.limit == threshold.limit;
    });
  }

  static bool evicts(const Threshold& threshold) { return threshold.response == Response::evict; }

  [[nodiscard]] bool is_of_agent_only(const Threshold& threshold) const {
    if (!is_kubelets(threshold.signal) || !evicts(threshold)) return false;
    if (is_copy(input_.agent, threshold)) return false;
    return std::ranges::none_of(input_.kubelet.thresholds, [&](const Threshold& each) {
      return each.signal == threshold.signal;
    });
  }

  // What percentages of the signal refer to.
  [[nodiscard]] std::optional<std::int64_t> capacity_of(Signal signal) const {
    const SignalRow& row = row_of(signal);
    if (row.subject != SubjectKind::node) return std::nullopt;
    const std::optional<Quantity>* capacity = nullptr;
    if (row.resource == Resource::memory) capacity = &input_.capacity.memory;
    if (row.resource == Resource::pids) capacity = &input_.capacity.pids;
    if (row.resource == Resource::ephemeral_storage && row.filesystem == Filesystem::nodefs) {
      capacity = &input_.capacity.ephemeral_storage;
    }
    if (capacity == nullptr || !*capacity) return std::nullopt;
    return (*capacity)->value();
  }

  // Nullopt: unknown.
  [[nodiscard]] std::optional<Order> order(const Threshold& agent, const Threshold& kubelet) const {
    Order result;
    result.grace = agent.grace <=> kubelet.grace;
    const auto capacity = capacity_of(agent.signal);
    const bool same_unit = agent.limit.quantity.has_value() == kubelet.limit.quantity.has_value();
    if (agent.limit.quantity && kubelet.limit.quantity) {
      result.limit = *agent.limit.quantity <=> *kubelet.limit.quantity;
    } else if (capacity) {
      result.limit = agent.limit.of(*capacity) <=> kubelet.limit.of(*capacity);
    } else if (same_unit) {
      constexpr std::int64_t kAnyCapacity = INT64_C(1) << 40;
      result.limit = agent.limit.of(kAnyCapacity) <=> kubelet.limit.of(kAnyCapacity);
    } else {
      return std::nullopt;
    }
    return result;
  }

  // Compares a threshold of the kubelet with all of the agent on the same signal.
  void compare(const Threshold& kubelet) {
    const Threshold* shown = nullptr;  // the first one that the kubelet may act before
    std::optional<Order> order_of_shown;
    bool unknown = false;
    for (const Threshold& each : input_.agent.thresholds) {
      if (each.signal != kubelet.signal || !evicts(each)) continue;
      const auto found = order(each, kubelet);
      if (found && found->agent_never_later()) return agent_first(each, kubelet, *found);
      unknown = unknown || !found;
      const bool closer = order_of_shown && found && order_of_shown->kubelet_never_later() &&
                          !found->kubelet_never_later();
      if (shown != nullptr && !closer) continue;
      shown = &each;
      order_of_shown = found;
    }
    if (shown == nullptr) return kubelet_alone(kubelet);
    if (unknown || !order_of_shown) {
      add_row(kubelet.signal, shown, &kubelet, ActsFirst::unknown,
              "different units, and the capacity is unknown");
      return note("order-unknown",
                  name_of(kubelet.signal) + ": the agent's " + short_text(*shown) +
                      " and the kubelet's " + short_text(kubelet) +
                      " are in different units, and the capacity is unknown; use the same unit");
    }
    const bool kubelet_is_first = order_of_shown->kubelet_never_later();
    if (kubelet_is_first) return kubelet_first(*shown, kubelet, *order_of_shown);
    by_speed(*shown, kubelet, *order_of_shown);
  }

  void agent_first(const Threshold& agent, const Threshold& kubelet, const Order& order) {
    if (order.same()) return same(agent, kubelet);
    add_row(kubelet.signal, &agent, &kubelet, ActsFirst::agent,
            order.limit > 0 ? "the agent's threshold is met first"
                            : "same limit, and the agent's grace period is shorter");
  }

  void same(const Threshold& agent, const Threshold& kubelet) {
    const bool notified =
        input_.kubelet.kernel_memcg_notification && resource_of(kubelet.signal) == Resource::memory;
    if (!notified || input_.cgroup_v2.value_or(false)) {
      add_name(same_, kubelet.signal);
      const bool polled = row_of(kubelet.signal).watch == SignalWatch::capacity_poll;
      return add_row(kubelet.signal, &agent, &kubelet, ActsFirst::agent,
                     polled ? "same threshold: near it the agent reads every 10 ms, the kubelet "
                              "every 10 s"
                            : "same threshold: the kernel wakes the agent, and the kubelet reads "
                              "every 10 s");
    }
    const bool known = input_.cgroup_v2.has_value();
    add_row(kubelet.signal, &agent, &kubelet, known ? ActsFirst::either : ActsFirst::unknown,
            std::string("same threshold: with kernelMemcgNotification the kernel wakes both") +
                (known ? "" : " on cgroup v1"));
    warn("same-threshold-notified",
         name_of(kubelet.signal) + ": both have " + short_text(kubelet) +
             ", and the kubelet has kernelMemcgNotification: on cgroup v1 both may evict at the "
             "same crossing; set the kubelet's lower, or kernelMemcgNotification to false");
  }

  void kubelet_first(const Threshold& agent, const Threshold& kubelet, const Order& order) {
    const bool by_limit = order.limit < 0;
    add_row(kubelet.signal, &agent, &kubelet, ActsFirst::kubelet,
            by_limit ? "the kubelet's threshold is met first"
                     : "same limit, and the kubelet's grace period is shorter");
    std::string text = name_of(kubelet.signal) + ": the kubelet has " + short_text(kubelet) +
                       " and evicts before the agent, which has " + short_text(agent) + "; ";
    text += "set " + limit_text(kubelet.limit) + (by_limit ? " or more" : "") + " in the agent's " +
            setting_of(kubelet);
    if (!kubelet.hard()) {
      text += " with a grace period of at most " + forestall::to_string(kubelet.grace);
    }
    if (by_limit) {
      text +=
          ", or at most " + limit_text(agent.limit) + " in the kubelet's " + setting_of(kubelet);
    }
    warn("kubelet-first", std::move(text));
  }

  void by_speed(const Threshold& agent, const Threshold& kubelet, const Order& order) {
    const bool agent_waits = order.limit > 0;
    const Threshold& waits = agent_waits ? agent : kubelet;
    const std::string first = agent_waits ? "agent" : "kubelet";
    const std::string other = agent_waits ? "kubelet" : "agent";
    const std::string grace = forestall::to_string(waits.grace);
    add_row(kubelet.signal, &agent, &kubelet, ActsFirst::either,
            "the " + first + "'s is met first and waits " + grace + "; the " + other +
                " acts before if its own is met in that time");
    note("order-by-speed",
         name_of(kubelet.signal) + ": the agent has " + short_text(agent) + ", the kubelet " +
             short_text(kubelet) + ": which acts first depends on how fast the amount falls; for " +
             "the agent to act first in any case, set " + limit_text(kubelet.limit) +
             " or more in the agent's " + setting_of(kubelet) +
             (kubelet.hard()
                  ? ""
                  : " with a grace period of at most " + forestall::to_string(kubelet.grace)));
  }

  void kubelet_alone(const Threshold& kubelet) {
    const auto backstop = std::ranges::find_if(input_.agent.thresholds, [](const Threshold& each) {
      return each.signal == Signal::memory_until_oom && evicts(each);
    });
    if (kubelet.signal == Signal::memory_available && backstop != input_.agent.thresholds.end()) {
      add_row(kubelet.signal, nullptr, &kubelet, ActsFirst::unknown,
              "the agent has only memory.untilOom" + short_text(*backstop) +
                  ", which measures other memory");
    } else {
      add_row(kubelet.signal, nullptr, &kubelet, ActsFirst::kubelet,
              "the agent has no threshold on this signal");
    }
    add_name(alone_, kubelet.signal);
  }

  // Adds the name once: a signal may have a hard and a soft threshold.
  static void add_name(std::vector<std::string>& names, Signal signal) {
    std::string name = name_of(signal);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }

  static std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& each : names) text += (text.empty() ? "" : ", ") + each;
    return text;
  }

  void summarize() {
    if (!same_.empty()) {
      note("same-threshold",
           joined(same_) +
               ": both have the same threshold: the agent acts first, unless the kubelet reads "
               "while the agent's victim still holds its memory; to rule out a second victim, set "
               "the kubelet's lower or the agent's higher");
    }
    if (!alone_.empty()) {
      note("kubelet-alone",
           joined(alone_) +
               ": only the kubelet has a threshold; for the agent to act first, set one "
               "in its evictionHard");
    }
  }

  const OverlapInput& input_;
  OverlapReport report_;
  std::vector<std::string> same_;   // names of signals
  std::vector<std::string> alone_;  // the same
};

}  // namespace

std::string_view to_string(ActsFirst first) {
  switch (first) {
    case ActsFirst::agent: return "agent";
    case ActsFirst::kubelet: return "kubelet";
    case ActsFirst::either: return "either";
    case ActsFirst::unknown: break;
  }
  return "unknown";
}

OverlapReport kubelet_overlap(const OverlapInput& input) {
  return Overlap(input).run();
}

}  // namespace forestall::policy
