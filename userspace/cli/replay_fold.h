// SPDX-License-Identifier: Apache-2.0
// The policy over a sequence of observations, and what it came to.
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

namespace forestall::cli {

class ReplayFold {
 public:
  struct ConditionCount {
    std::uint64_t changes = 0;
    bool status = false;  // reported last
  };

  struct Counts {
    std::uint64_t observations = 0;
    std::optional<MonotonicTime> first;
    std::optional<MonotonicTime> last;
    Duration over{0};  // from the first to the last, less what lies between two boots
    std::map<std::pair<Action, Reason>, std::uint64_t> decisions;
    std::map<std::string, std::uint64_t> evictions;             // by eviction_signal
    std::array<ConditionCount, kConditions.size()> conditions;  // in the order of kConditions
  };

  explicit ReplayFold(Config config);

  // In the middle of what an agent did: its configuration and what its policy remembered.
  void begin(Config config, const policy::State& state);
  // Another configuration from here on, as an agent takes it on a reload.
  void reconfigure(Config config);
  // From here on pods that only the configuration knows are known as well: begin() and
  // reconfigure() forget them, because a recording's observations know what its agent knew.
  void know_configured_pods();
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const policy::State& state() const { return state_; }

  // Decides on the next observation, as the agent would have: pods that Kubernetes has told of (the
  // configuration's known pods) are known here too. What the decision changes of the node is for
  // the next observation to show; none is made up. REQUIRES: time does not go back.
  //
  // `supply` is called when the policy asks for the workloads; true: it added them, and the policy
  // is asked again.
  using Supply = std::function<bool(Observation&)>;
  [[nodiscard]] Decision take(Observation& observation, const Supply& supply = nullptr);
  // Decides, but remembers and counts nothing: for a look at what was made ready, which the agent
  // asks about beside its passes.
  [[nodiscard]] Decision glance(Observation& observation);

  // Conditions whose status is not what it was before the last take(). One that was never reported
  // does not change by not being reported.
  [[nodiscard]] const std::vector<ConditionStatus>& changed() const { return changed_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  void know_pods(Observation& observation) const;
  void count(const Observation& observation, const Decision& decision);

  Config config_;
  std::map<std::string, std::shared_ptr<const Pod>, std::less<>> known_pods_;  // by UID
  policy::State state_;
  std::vector<ConditionStatus> changed_;
  Counts counts_;
};

}  // namespace forestall::cli
