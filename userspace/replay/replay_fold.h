// SPDX-License-Identifier: Apache-2.0
// Runs the policy over a sequence of observations and counts the results.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/condition.h"
#include "model/config.h"
#include "model/decision.h"
#include "model/observation.h"
#include "policy/state.h"
#include "replay/kubelet_evictions.h"

namespace forestall::replay {

class ReplayFold {
 public:
  struct ConditionCount {
    std::uint64_t changes = 0;
    bool status = false;  // last reported
  };

  struct Counts {
    std::uint64_t observations = 0;
    std::uint64_t prepared = 0;  // of them: decided on a pre-ranked list
    std::optional<MonotonicTime> first;
    std::optional<MonotonicTime> last;
    Duration over{0};  // from the first to the last, without the time between two boots
    std::map<std::pair<Action, Reason>, std::uint64_t> decisions;
    KubeletEvictions kubelet_evictions;
    std::array<ConditionCount, kConditions.size()> conditions;  // in the order of kConditions
  };

  explicit ReplayFold(Config config);

  // Continues from the state of an agent: its configuration and policy state.
  void begin(Config config, const policy::State& state);
  // Changes the configuration, as a reload of the agent does.
  void reconfigure(Config config);
  // Adds the pods that only the configuration lists. begin() and reconfigure() remove them, because
  // the observations of a recording already contain the pods known to the agent.
  void add_configured_pods();
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const policy::State& state() const { return state_; }

  // Decides on the next observation as the agent would, with the pods of the configuration
  // (known_pods). The effect of a decision on the node is not simulated: later observations are as
  // recorded. REQUIRES: time does not decrease.
  //
  // `supply` is called if the policy requests the workloads. If it returns true, it added them, and
  // the policy runs again.
  using Supply = std::function<bool(Observation&)>;
  [[nodiscard]] Decision take(Observation& observation, const Supply& supply = nullptr);
  // Decides without changing the state: for evaluations of the pre-ranked victims, which the agent
  // makes between its iterations.
  [[nodiscard]] Decision sample_subjects(Observation& observation);

  // Conditions whose status changed in the last take(). A condition that was never reported counts
  // as false.
  [[nodiscard]] const std::vector<ConditionStatus>& changed() const { return changed_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  void fill_in_pods(Observation& observation) const;
  void count(const Observation& observation, const Decision& decision);
  void count_conditions(const Decision& decision);

  Config config_;
  std::map<std::string, std::shared_ptr<const Pod>, std::less<>> known_pods_;  // by UID
  policy::State state_;
  std::vector<ConditionStatus> changed_;
  Counts counts_;
};

}  // namespace forestall::replay
