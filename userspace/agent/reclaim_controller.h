// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim as the evaluation uses it: whether the policy may request it, and its result.
#pragma once

#include <optional>

#include "actuators/node_reclaim.h"
#include "base/clock.h"
#include "exports/log.h"
#include "model/config.h"
#include "model/decision.h"
#include "policy/state.h"

namespace forestall::agent {

// Base: no container runtime is configured. Thread rule: the loop's thread only.
class ReclaimController {
 public:
  ReclaimController() = default;
  ReclaimController(const ReclaimController&) = delete;
  ReclaimController& operator=(const ReclaimController&) = delete;
  virtual ~ReclaimController() = default;

  // For the next observation.
  [[nodiscard]] virtual ReclaimState state(const Config&, const policy::State&) const {
    return ReclaimState::unavailable;
  }
  // The policy has decided on an observation with the present state().
  virtual void observed() {}
  // Begins what the policy requests; false when it cannot.
  virtual bool start(const Decision&) { return false; }
  // Polls readable when reclaim is over; -1: never.
  [[nodiscard]] virtual int fd() const { return -1; }
  // Logs a result. False when there is none.
  virtual bool finish(exports::Log&) { return false; }
};

// Reclaims through a container runtime.
class RuntimeReclaimController final : public ReclaimController {
 public:
  // Both outlive it.
  RuntimeReclaimController(actuators::NodeReclaim& reclaim, const Clock& clock)
      : reclaim_(reclaim), clock_(clock) {}

  [[nodiscard]] ReclaimState state(const Config& config, const policy::State& state) const override;
  void observed() override { over_ = false; }
  bool start(const Decision& decision) override { return reclaim_.start(decision.node_reclaim); }
  [[nodiscard]] int fd() const override { return reclaim_.fd(); }
  bool finish(exports::Log& log) override;

 private:
  actuators::NodeReclaim& reclaim_;
  const Clock& clock_;
  std::optional<MonotonicTime> ended_at_;
  bool over_ = false;  // since the last decision
};

}  // namespace forestall::agent
