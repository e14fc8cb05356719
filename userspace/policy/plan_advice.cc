// SPDX-License-Identifier: Apache-2.0
#include "policy/plan_advice.h"

#include <algorithm>

#include "policy/quantity_sum.h"

namespace forestall::policy {
namespace {

std::string name(Signal signal) {
  return std::string(to_string(signal));
}

std::string threshold_text(const Threshold& threshold) {
  return name(threshold.signal) + "<" + limit_text(threshold.limit);
}

class Checks {
 public:
  Checks(const PlanInput& input, const Plan& plan) : input_(input), plan_(plan) {}

  std::vector<Advice> run() {
    missing();
    for (const PlannedThreshold& each : input_.thresholds) {
      against_capacity(each.threshold);
      if (!each.threshold.hard()) soft(each.threshold);
    }
    reservation();
    return std::move(advice_);
  }

 private:
  void warn(std::string topic, std::string text) {
    advice_.push_back({Severity::warning, std::move(topic), std::move(text)});
  }
  void note(std::string topic, std::string text) {
    advice_.push_back({Severity::note, std::move(topic), std::move(text)});
  }

  [[nodiscard]] const Threshold* hard_of(Signal signal) const {
    for (const PlannedThreshold& each : input_.thresholds) {
      if (each.threshold.signal == signal && each.threshold.hard()) return &each.threshold;
    }
    return nullptr;
  }

  [[nodiscard]] const ResourcePlan* resource(std::string_view wanted) const {
    for (const ResourcePlan& each : plan_.resources) {
      if (each.name == wanted) return &each;
    }
    return nullptr;
  }

  // The capacity to which the signal's percentages refer; nullopt if the input does not have it.
  [[nodiscard]] std::optional<std::int64_t> capacity_of(Signal signal) const {
    const auto value = [](const std::optional<Quantity>& quantity) {
      return quantity ? std::optional(quantity->value()) : std::nullopt;
    };
    const SignalRow& row = row_of(signal);
    if (row.subject == SubjectKind::pods_cgroup) {
      const ResourcePlan* memory = resource("memory");
      return memory != nullptr ? value(memory->pods_limit) : std::nullopt;
    }
    switch (row.resource) {
      case Resource::memory: return value(input_.capacity.memory);
      case Resource::pids: return value(input_.capacity.pids);
      case Resource::ephemeral_storage:
        if (row.filesystem == Filesystem::nodefs) return value(input_.capacity.ephemeral_storage);
        break;
      case Resource::inodes: break;
    }
    return std::nullopt;
  }

  // An amount of bytes of a signal, for people.
  static std::string amount(Signal signal, const Quantity& quantity) {
    return unit_of(signal) == Unit::bytes ? rounded({quantity.nanos, QuantityFormat::binary_si})
                                          : std::to_string(quantity.value());
  }

  // --- missing thresholds -----------------------------------------------------------------------

  void missing() {
    std::string dropped;
    for (const SignalRow& row : kSignalTable) {
      if (row.kubelet_default.limit.empty() || hard_of(row.signal) != nullptr) continue;
      dropped += (dropped.empty() ? "" : ", ") + name(row.signal);
    }
    if (input_.hard_given && !dropped.empty()) {
      warn("defaults-dropped",
           "evictionHard names some signals, which drops kubelet's defaults for all others: " +
               dropped +
               " have no hard threshold; name them, or set mergeDefaultEvictionSettings "
               "(kubelet 1.33 and later)");
    }
    if (hard_of(Signal::memory_available) == nullptr) {
      warn("no-memory-threshold",
           "no hard threshold on memory.available: if the node runs out of memory, only the "
           "kernel's OOM killer acts");
    }
    if (hard_of(Signal::pid_available) == nullptr) {
      warn("no-pid-threshold",
           "no hard threshold on pid.available, and kubelet has no default: a fork bomb in one pod "
           "can keep the whole node from starting processes; e.g. pid.available<10%");
    }
  }

  // --- one threshold ----------------------------------------------------------------------------

  void against_capacity(const Threshold& threshold) {
    const auto capacity = capacity_of(threshold.signal);
    if (threshold.limit.fraction && threshold.min_reclaim && threshold.min_reclaim->fraction &&
        *threshold.limit.fraction + *threshold.min_reclaim->fraction >= 1) {
      return reclaim_too_large(threshold, "100% of the capacity");
    }
    if (!capacity) return;
    const Quantity limit = threshold.limit.of(*capacity);
    const Quantity all{decimal(*capacity).nanos, limit.format};
    if (limit >= all) {
      return warn("always-met", threshold_text(threshold) + " is not below the capacity (" +
                                    amount(threshold.signal, all) +
                                    "): it is always met, and pods are evicted without end");
    }
    if (!threshold.min_reclaim) return;
    const Quantity target = sum(limit, threshold.min_reclaim->of(*capacity));
    const Quantity ceiling = reachable(threshold.signal, all);
    if (target >= ceiling) reclaim_too_large(threshold, amount(threshold.signal, ceiling));
  }

  // The highest possible available amount: everything that is not reserved.
  [[nodiscard]] Quantity reachable(Signal signal, const Quantity& all) const {
    const ResourcePlan* of = nullptr;
    const SignalRow& row = row_of(signal);
    if (row.subject == SubjectKind::node && row.resource == Resource::memory) {
      of = resource("memory");
    }
    if (row.resource == Resource::ephemeral_storage && row.filesystem == Filesystem::nodefs) {
      of = resource("ephemeral-storage");
    }
    if (of == nullptr) return all;
    return sum(of->allocatable, of->eviction);
  }

  void reclaim_too_large(const Threshold& threshold, const std::string& ceiling) {
    warn("minimum-reclaim-too-large", "the minimum reclaim of " + threshold_text(threshold) + " (" +
                                          limit_text(*threshold.min_reclaim) +
                                          ") is more than the capacity without the reservations (" +
                                          ceiling +
                                          "): once met, eviction continues until no pod is left");
  }

  // --- soft against hard ------------------------------------------------------------------------

  void soft(const Threshold& soft) {
    if (input_.max_pod_grace_seconds <= 0 && !logged_grace_) {
      logged_grace_ = true;
      warn("soft-kills-at-once", "evictionMaxPodGracePeriod is " +
                                     std::to_string(input_.max_pod_grace_seconds) +
                                     ": a soft threshold evicts pods without a grace period");
    }
    const Threshold* hard = hard_of(soft.signal);
    if (hard == nullptr) {
      return note("soft-without-hard",
                  threshold_text(soft) +
                      " has no matching hard threshold: there is no eviction if "
                      "the shortage is faster than its grace period");
    }
    const bool mixed = soft.limit.quantity.has_value() != hard->limit.quantity.has_value();
    const auto capacity = capacity_of(soft.signal);
    if (mixed && !capacity) {
      return note("percent-against-bytes",
                  "soft " + threshold_text(soft) + " and hard " + threshold_text(*hard) +
                      " are in different units: which is reached first depends on the capacity");
    }
    const std::int64_t of =
        capacity.value_or(INT64_C(1) << 40);  // any capacity works for equal units
    const Quantity soft_limit = soft.limit.of(of);
    const Quantity hard_limit = hard->limit.of(of);
    if (soft_limit > hard_limit) {
      if (mixed) mixed_units(soft, *hard, soft_limit, hard_limit);
      return;
    }
    warn(mixed ? "percent-against-bytes" : "soft-below-hard",
         "soft " + with_amount(soft, soft_limit) + " is not above hard " +
             with_amount(*hard, hard_limit) + (mixed ? " at this capacity" : "") +
             ": the hard threshold is reached first, so the soft one has no effect");
  }

  static std::string with_amount(const Threshold& threshold, const Quantity& limit) {
    if (threshold.limit.quantity) return threshold_text(threshold);
    return threshold_text(threshold) + " (" + amount(threshold.signal, limit) + ")";
  }

  void mixed_units(const Threshold& soft, const Threshold& hard, const Quantity& soft_limit,
                   const Quantity& hard_limit) {
    note("percent-against-bytes",
         "soft " + with_amount(soft, soft_limit) + " and hard " + with_amount(hard, hard_limit) +
             " are in different units: the order is right at this capacity "
             "but reversed on other nodes");
  }

  // --- reservations -----------------------------------------------------------------------------

  void reservation() {
    const ResourcePlan* memory = resource("memory");
    if (!input_.pods_enforced) {
      note("pods-not-enforced",
           "\"pods\" is not enforced: the pods cgroup has no limit, and there is no threshold on "
           "allocatableMemory.available");
    }
    if (memory == nullptr) return;
    const Quantity kept = sum(memory->kube_reserved, memory->system_reserved);
    if (kept.nanos == 0) {
      warn("nothing-reserved",
           "no memory is reserved for the system and Kubernetes' daemons: they use memory that "
           "the scheduler gives to pods");
    } else if (kept < memory->eviction) {
      warn("threshold-outside-reservation",
           "kube-reserved and system-reserved together (" + written(kept) +
               ") are less than the memory.available threshold keeps free (" +
               rounded(memory->eviction) +
               "): the reservation should include it and the needs of the daemons");
    } else if (memory->eviction.nanos > 0) {
      const Quantity rest{kept.nanos - memory->eviction.nanos, QuantityFormat::binary_si};
      note("threshold-inside-reservation",
           "of the " + written(kept) + " reserved, " + rounded(memory->eviction) +
               " are kept free by the memory.available threshold: the daemons can use " +
               rounded(rest) + " before pods within their requests are evicted because of them");
    }
    if (input_.pods_enforced && kept.nanos == 0 && memory->eviction.nanos > 0) {
      warn(
          "allocatable-never-first",
          "allocatableMemory.available is never met before memory.available: with nothing reserved "
          "both begin at the same amount, and memory.available includes the daemons");
    }
  }

  const PlanInput& input_;
  const Plan& plan_;
  std::vector<Advice> advice_;
  bool logged_grace_ = false;
};

}  // namespace

std::vector<Advice> plan_advice(const PlanInput& input, const Plan& plan) {
  return Checks(input, plan).run();
}

}  // namespace forestall::policy
