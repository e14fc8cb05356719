// SPDX-License-Identifier: Apache-2.0
// What the core works with. The caller owns all of it and outlives the core.
#pragma once

#include <memory>
#include <vector>

#include "actuators/hook_runner.h"
#include "actuators/ladder.h"
#include "actuators/managed_oom_marks.h"
#include "actuators/memory_high_throttle.h"
#include "actuators/rule_settings.h"
#include "actuators/unit_restarter.h"
#include "agent/container_pressure.h"
#include "agent/guard_controller.h"
#include "agent/memory_qos.h"
#include "agent/oom_predictor.h"
#include "agent/reclaim_controller.h"
#include "agent/rule_sampler.h"
#include "agent/tree_scanner.h"
#include "agent/watchdog.h"
#include "base/clock.h"
#include "exports/log.h"
#include "exports/loop_counts.h"
#include "exports/sink.h"
#include "kernel/cgroup_tree.h"
#include "sources/observer.h"
#include "sources/oom_event_correlator.h"
#include "sources/source.h"

namespace forestall::agent {

// The null object of a part: its base class, which does nothing and keeps nothing.
template <class Part>
Part& none() {
  static Part absent;
  return absent;
}

struct Parts {
  const Clock& clock;
  const kernel::CgroupTree& tree;
  sources::Observer& observer;
  actuators::Ladder& ladder;
  exports::Log& log;
  std::vector<sources::Source*> sources = {};
  std::vector<exports::RecordSink*> sinks = {};
  std::vector<exports::EvaluationListener*> evaluation_listeners = {};
  std::vector<exports::PassListener*> pass_listeners = {};
  std::shared_ptr<exports::LoopCounts> counts = std::make_shared<exports::LoopCounts>();
  // The agent also runs without each of these.
  ReclaimController& reclaim = none<ReclaimController>();
  LoopGuard& guard = none<LoopGuard>();
  LoopWatchdog& watchdog = none<LoopWatchdog>();
  TreeScanner& scanner = none<TreeScanner>();
  RuleSampler& rules = none<RuleSampler>();
  actuators::RuleSettings& rule_settings = none<actuators::RuleSettings>();
  actuators::UnitRestarter& restarter = none<actuators::UnitRestarter>();
  actuators::ManagedOomMarker& marker = none<actuators::ManagedOomMarker>();
  actuators::HookRunner& hooks = none<actuators::HookRunner>();
  LoopMemoryQos& memory_qos = none<LoopMemoryQos>();
  LoopContainerPressure& container_pressure = none<LoopContainerPressure>();
  LoopPredictor& forecast = none<LoopPredictor>();
  actuators::LoopThrottle& throttle = none<actuators::LoopThrottle>();
  sources::OomEventCorrelator& oom_events = none<sources::OomEventCorrelator>();
  // A source reports new cgroups. Without one, the tree is rescanned when candidates are needed.
  bool has_cgroup_events = false;
  // Feature::bpf_timer is in use: while the source that has it could arm every line, nothing is
  // polled but what it does not cover (Source::covers()). REQUIRES: it comes before those that
  // poll.
  bool has_usage_events = false;
};

}  // namespace forestall::agent
