// SPDX-License-Identifier: Apache-2.0
#include "intake/eviction_settings.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>

#include "intake/amounts.h"
#include "intake/cgroup_glob.h"
#include "intake/report.h"
#include "messages/yaml_message.h"
#include "model/duration.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> kubelet_signals() {
  std::vector<std::string> names;
  for (const SignalRow& row : kSignalTable) {
    if (is_kubelets(row.signal)) names.emplace_back(row.name);
  }
  return names;
}

class Intake {
 public:
  Intake(const KubeletSettings& settings, KubeletMinor minor, Config& config,
         std::vector<ThresholdOrigin>& origins, text::Findings& findings)
      : settings_(settings),
        minor_(minor),
        config_(config),
        origins_(origins),
        findings_(findings) {}

  void run() {
    enforcement();
    thresholds();
    check_thresholds();
    if (settings_.eviction_max_pod_grace_period) {
      config_.max_pod_grace_seconds = settings_.eviction_max_pod_grace_period->value;
    }
    transition_period();
    take(settings_.kernel_memcg_notification, config_.kernel_memcg_notification);
    take(settings_.local_storage_capacity_isolation, config_.local_storage_isolation);
    if (settings_.kube_reserved) reserve(*settings_.kube_reserved, config_.kube_reserved);
    if (settings_.system_reserved) reserve(*settings_.system_reserved, config_.system_reserved);
    cgroups();
    filesystems();
  }

 private:
  // --- thresholds ---------------------------------------------------------------------------

  struct WrittenLimit {
    Limit limit;
    const WrittenPair* pair;
  };
  using Reclaims = std::map<Signal, WrittenLimit>;
  using Graces = std::map<Signal, std::pair<Duration, const WrittenPair*>>;

  std::optional<Signal> signal_of(const WrittenPair& pair) {
    const std::optional<Signal> signal = parse_signal(pair.key);
    if (signal && is_kubelets(*signal)) return signal;
    std::string message = "unsupported eviction signal " + quoted_key(pair.key);
    if (signal) message += "; use '" + std::string(row_of(*signal).own_key) + "'";
    error(pair.key_at,
          message + messages::allowed_words(signal ? "" : pair.key, kubelet_signals()));
    return std::nullopt;
  }

  static std::string quoted_key(const std::string& key) { return "'" + key + "'"; }

  // evictionHard with kubelet's defaults: only the defaults if it was not given, or also the
  // missing ones if they are merged, which kubelet does for files only.
  WrittenPairs hard_pairs() const {
    WrittenPairs pairs;
    if (settings_.eviction_hard) pairs = settings_.eviction_hard->value;
    const auto& merge = settings_.merge_default_eviction_settings;
    const bool merged = merge && merge->value && !settings_.hard_by_flag;
    if (settings_.eviction_hard && !merged) return pairs;
    for (const SignalRow& row : kSignalTable) {
      const auto& [limit, since_minor] = row.kubelet_default;
      if (limit.empty()) continue;
      const bool named = std::any_of(pairs.begin(), pairs.end(),
                                     [&](const auto& pair) { return pair.key == row.name; });
      if (!named && (!minor_ || *minor_ >= since_minor)) {
        pairs.push_back({std::string(row.name), std::string(limit), {}, {}});
      }
    }
    return pairs;
  }

  void thresholds() {
    const WrittenPairs hard = hard_pairs();
    static const WrittenPairs kNone;
    const WrittenPairs& soft = settings_.eviction_soft ? settings_.eviction_soft->value : kNone;
    const auto reported = static_cast<std::ptrdiff_t>(findings_.errors.size());
    const Graces graces = read_graces();
    reclaims_ = read_reclaims();
    const auto early = static_cast<std::ptrdiff_t>(findings_.errors.size());
    for (const WrittenPair& pair : hard) add_threshold(pair, nullptr);
    for (const WrittenPair& pair : soft) add_threshold(pair, &graces);
    // In kubelet's order: hard, soft, grace periods, minimum reclaims. Kubelet reports only the
    // first error.
    const auto first = findings_.errors.begin();
    std::rotate(first + reported, first + early, findings_.errors.end());
    add_copies();
    warn_of_idle(graces);
  }

  Graces read_graces() {
    Graces graces;
    if (!settings_.eviction_soft_grace_period) return graces;
    for (const WrittenPair& pair : settings_.eviction_soft_grace_period->value) {
      const auto signal = signal_of(pair);
      if (!signal) continue;
      const Result<Duration> grace = parse_duration(pair.value);
      if (!grace) {
        error(pair.value_at, quoted_key(pair.key) + ": " + grace.error().message +
                                 "; write one like 90s or 1m30s");
      } else if (*grace < Duration::zero()) {
        error(pair.value_at, quoted_key(pair.key) + ": invalid eviction grace period specified: " +
                                 pair.value + ", must be a positive value");
      } else {
        graces.emplace(*signal, std::pair(*grace, &pair));
      }
    }
    return graces;
  }

  Reclaims read_reclaims() {
    Reclaims reclaims;
    if (!settings_.eviction_minimum_reclaim) return reclaims;
    for (const WrittenPair& pair : settings_.eviction_minimum_reclaim->value) {
      const auto signal = signal_of(pair);
      if (!signal) continue;
      const Result<Limit> limit = parse_minimum_reclaim(pair.value);
      if (limit) {
        reclaims.emplace(*signal, WrittenLimit{*limit, &pair});
      } else {
        error(pair.value_at, about(pair.key, limit.error().message));
      }
      doubt(pair);
    }
    return reclaims;
  }

  // Adds a hard threshold, or with `graces` a soft one.
  void add_threshold(const WrittenPair& pair, const Graces* graces) {
    const auto signal = signal_of(pair);
    if (!signal) return;
    const auto limit = parse_threshold_limit(pair.value);
    if (!limit) return error(pair.value_at, about(pair.key, limit.error().message));
    doubt(pair);
    if (!*limit) return;  // "0%" or "100%" remove the threshold; then no grace period is needed
    Threshold threshold;
    threshold.signal = *signal;
    threshold.limit = **limit;
    if (graces != nullptr) {
      const auto grace = graces->find(*signal);
      if (grace == graces->end()) return missing_grace(pair);
      threshold.grace = grace->second.first;
    }
    ThresholdOrigin origin{pair.value,    std::nullopt,      pair.key_at,
                           pair.value_at, graces == nullptr, false};
    const auto reclaim = reclaims_.find(*signal);
    if (reclaim != reclaims_.end()) {
      origin.minimum_reclaim = reclaim->second.pair->value;
      // A reclaim of 0 has no effect.
      if (reclaim->second.limit != Limit::bytes(Bytes{0})) {
        threshold.min_reclaim = reclaim->second.limit;
      }
    }
    config_.thresholds.push_back(threshold);
    origins_.push_back(origin);
  }

  // An invalid grace period was already reported, or may be what an error in a file is about.
  void missing_grace(const WrittenPair& pair) {
    if (settings_.incomplete) return;
    const auto& given = settings_.eviction_soft_grace_period;
    if (given && std::any_of(given->value.begin(), given->value.end(),
                             [&](const WrittenPair& each) { return each.key == pair.key; })) {
      return;
    }
    error(pair.key_at, "grace period must be specified for the soft eviction threshold " +
                           pair.key + "; add it to 'evictionSoftGracePeriod'");
  }

  // addAllocatableThresholds: if pods are enforced, kubelet copies each hard memory.available
  // threshold, with its minimum reclaim, to allocatableMemory.available, in addition to a given
  // one. Hard means without a grace period, under whichever key. A copy equal to a given threshold
  // is left out. These two signals are named because the rule is about this one pair.
  void add_copies() {
    if (!pods_enforced()) return;
    const std::size_t own = config_.thresholds.size();
    for (std::size_t i = 0; i < own; ++i) {
      if (config_.thresholds[i].signal != Signal::memory_available) continue;
      if (!config_.thresholds[i].hard()) continue;
      Threshold copy = config_.thresholds[i];
      copy.signal = Signal::allocatable_memory_available;
      if (std::find(config_.thresholds.begin(), config_.thresholds.end(), copy) !=
          config_.thresholds.end()) {
        continue;
      }
      ThresholdOrigin origin = origins_[i];
      origin.copied = true;
      config_.thresholds.push_back(std::move(copy));
      origins_.push_back(std::move(origin));
    }
  }

  [[nodiscard]] bool pods_enforced() const {
    return config_.pods && std::find(config_.enforced.begin(), config_.enforced.end(),
                                     Enforcement::pods) != config_.enforced.end();
  }

  [[nodiscard]] bool has_threshold(Signal signal, bool soft_only) const {
    for (std::size_t i = 0; i < config_.thresholds.size(); ++i) {
      if (origins_[i].copied || (soft_only && origins_[i].from_hard)) continue;
      if (config_.thresholds[i].signal == signal) return true;
    }
    return false;
  }

  // Warns about settings that kubelet ignores silently.
  void warn_of_idle(const Graces& graces) {
    for (const auto& [signal, grace] : graces) {
      if (has_threshold(signal, true)) continue;
      warn(grace.second->key_at, "grace period of " + quoted_key(grace.second->key) +
                                     " has no effect: 'evictionSoft' has no threshold for it");
    }
    const bool copied = pods_enforced() && has_threshold(Signal::memory_available, false);
    for (const auto& [signal, reclaim] : reclaims_) {
      if (has_threshold(signal, false)) continue;
      if (reclaim.limit == Limit::bytes(Bytes{0})) continue;
      const bool of_copy = row_of(signal).subject == SubjectKind::pods_cgroup && copied;
      warn(reclaim.pair->key_at, "minimum reclaim of " + quoted_key(reclaim.pair->key) +
                                     " has no effect: " +
                                     (of_copy ? "the copy of the 'memory.available' threshold uses "
                                                "that threshold's minimum reclaim"
                                              : "there is no threshold for it"));
    }
  }

  void check_thresholds() {
    for (std::size_t i = 0; i < config_.thresholds.size(); ++i) {
      const Signal signal = config_.thresholds[i].signal;
      const std::string name = quoted_key(std::string(to_string(signal)));
      if (filesystem_of(signal) == Filesystem::containerfs) {
        warn(origins_[i].key,
             name +
                 " is overwritten in the first pass, as in kubelet: thresholds of the "
                 "containerfs are copies of those of the nodefs or imagefs");
      }
      const bool of_pods = row_of(signal).subject == SubjectKind::pods_cgroup;
      if (of_pods && !config_.pods && !origins_[i].copied) {
        error(origins_[i].key, name + " watches the pods cgroup, but 'pods.enabled' is false");
      }
    }
  }

  // --- everything around them -----------------------------------------------------------------

  void transition_period() {
    const auto& given = settings_.eviction_pressure_transition_period;
    if (!given) return;
    const Result<Duration> period = parse_duration(given->value.text);
    if (!period) {
      return error(given->at, "'evictionPressureTransitionPeriod': " + period.error().message +
                                  "; write one like 30s or 5m0s");
    }
    if (*period < Duration::zero()) {
      warn(given->at,
           "'evictionPressureTransitionPeriod' is negative: no condition is ever "
           "reported");
    }
    // SetDefaults_KubeletConfiguration() treats 0 as not given.
    config_.pressure_transition = *period == Duration::zero() ? Duration(5min) : *period;
  }

  void enforcement() {
    const auto& given = settings_.enforce_node_allocatable;
    if (!given) return;
    config_.enforced.clear();
    std::vector<std::string> allowed{"none"};
    for (const Enforcement each : kEnforcements) allowed.emplace_back(to_string(each));
    for (const std::string& word : given->value) {
      const auto enforcement = parse_enforcement(word);
      if (word == "none") {
        if (given->value.size() == 1) return;
        error(given->at,
              "'enforceNodeAllocatable' may not contain additional enforcements when "
              "\"none\" is specified");
      } else if (!enforcement) {
        error(given->at, "option \"" + word + "\" specified for 'enforceNodeAllocatable'" +
                             messages::allowed_words(word, allowed));
      } else if (std::find(config_.enforced.begin(), config_.enforced.end(), *enforcement) ==
                 config_.enforced.end()) {
        config_.enforced.push_back(*enforcement);
      }
    }
  }

  // cmd/kubelet/app/server.go parseResourceList().
  void reserve(const Written<WrittenPairs>& given, Reserved& out) {
    static const std::vector<std::string> kResources{"cpu", "memory", "ephemeral-storage", "pid"};
    const std::array<std::optional<Quantity>*, 4> amounts{&out.cpu, &out.memory,
                                                          &out.ephemeral_storage, &out.pids};
    for (const WrittenPair& pair : given.value) {
      const auto known = std::find(kResources.begin(), kResources.end(), pair.key);
      if (known == kResources.end()) {
        error(pair.key_at, "cannot reserve \"" + pair.key + "\" resource" +
                               messages::allowed_words(pair.key, kResources));
        continue;
      }
      const Result<Quantity> amount = parse_amount(pair.value);
      if (!amount) {
        error(pair.value_at, about(pair.key, amount.error().message));
      } else if (amount->nanos < 0) {
        error(pair.value_at,
              "resource quantity for \"" + pair.key + "\" cannot be negative: " + pair.value);
      } else {
        *amounts[static_cast<std::size_t>(known - kResources.begin())] = *amount;
      }
    }
  }

  void cgroups() {
    if (const auto& driver = settings_.cgroup_driver) {
      config_.cgroup_driver = parse_cgroup_driver(driver->value);
      if (!config_.cgroup_driver) {
        error(driver->at,
              "'cgroupDriver' must be cgroupfs or systemd, found '" + driver->value + "'");
      }
    }
    if (const auto& root = settings_.cgroup_root) {
      config_.cgroup_root = root->value;
      const Result<void> checked = check_cgroup_path(root->value);
      if (!checked) error(root->at, "'cgroupRoot' " + checked.error().message);
    }
  }

  void filesystems() {
    if (settings_.pod_logs_dir) config_.filesystems.pod_logs = settings_.pod_logs_dir->value;
    // The image service, if it is separate, serves the images' filesystem.
    const auto& runtime = settings_.image_service_endpoint ? settings_.image_service_endpoint
                                                           : settings_.container_runtime_endpoint;
    if (runtime) config_.filesystems.runtime = runtime->value;
  }

  // --- findings -------------------------------------------------------------------------------

  static void take(const std::optional<Written<bool>>& given, bool& out) {
    if (given) out = given->value;
  }
  void error(const text::Origin& at, std::string message) {
    findings_.errors.push_back({at, std::move(message)});
  }
  void warn(const text::Origin& at, std::string message) {
    findings_.warnings.push_back({at, std::move(message)});
  }
  void doubt(const WrittenPair& pair) {
    if (const auto doubt = doubt_amount(pair.value)) warn(pair.value_at, *doubt);
  }

  const KubeletSettings& settings_;
  KubeletMinor minor_;
  Config& config_;
  std::vector<ThresholdOrigin>& origins_;
  text::Findings& findings_;
  Reclaims reclaims_;
};

}  // namespace

void apply_settings(const KubeletSettings& settings, KubeletMinor minor, Config& config,
                    std::vector<ThresholdOrigin>& origins, text::Findings& findings) {
  Intake(settings, minor, config, origins, findings).run();
}

}  // namespace forestall::intake
