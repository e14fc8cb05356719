// SPDX-License-Identifier: Apache-2.0
// Everything that lives as long as the agent runs, built in order of dependence.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actuators/hook_runner.h"
#include "actuators/managed_oom_marks.h"
#include "actuators/memory_high_throttle.h"
#include "actuators/rule_settings.h"
#include "actuators/unit_restarter.h"
#include "agent/host.h"
#include "agent/loss_collector.h"
#include "agent/parts.h"
#include "agent/recorder.h"
#include "agent/rule_sampler.h"
#include "agent/tree_scanner.h"
#include "daemon/agent_api.h"
#include "daemon/kept_guard.h"
#include "daemon/killed_signals.h"
#include "daemon/live_picture.h"
#include "daemon/managed_oom_watch.h"
#include "daemon/managed_readings.h"
#include "daemon/pod_list_watch.h"
#include "daemon/written_pods.h"
#include "exports/drop_counts.h"
#include "exports/event_broadcast.h"
#include "exports/live_streams.h"
#include "exports/metrics.h"
#include "exports/metrics_server.h"
#include "exports/stage_histograms.h"
#include "exports/status_board.h"
#include "service/convert_status.h"
#include "sources/pressure_reader.h"
#include "wire/grpc_counts.h"

namespace forestall::daemon {

// A recorder with its own reader of the kernel's pressure counters, opened when a recording needs
// it.
struct RecorderWithPressure {
  std::optional<sources::PressureReader> pressure;
  std::unique_ptr<agent::Recorder> recorder;
};

// Members in order of dependence. Null: the agent runs without it.
struct DaemonParts {
  SystemClock clock;
  service::AgentFacts facts;
  // First, so destroyed last: the owner of a killed cgroup can make that wait.
  std::unique_ptr<actuators::ManagedOomMarker> marker =
      std::make_unique<actuators::ManagedOomMarker>();
  std::unique_ptr<sources::Observer> observer;
  std::unique_ptr<actuators::Ladder> ladder;
  std::unique_ptr<actuators::NodeReclaim> node_reclaim;  // null: no runtime is configured
  std::unique_ptr<agent::ReclaimController> reclaim;
  std::unique_ptr<actuators::LoopThrottle> throttle;
  agent::Sources sources;
  std::unique_ptr<sources::ProcessSource> processes;  // the observer's; null: it needs none
  std::unique_ptr<sources::OomEventCorrelator> oom_events;
  std::unique_ptr<agent::Watchdog> watchdog;
  std::unique_ptr<agent::TreeScanner> scanner;
  std::unique_ptr<agent::RuleSamplerThread> rules;
  std::unique_ptr<actuators::RuleSettings> rule_settings;
  std::unique_ptr<actuators::UnitRestarter> restarter;
  std::unique_ptr<actuators::HookRunner> hooks;
  std::unique_ptr<agent::LoopMemoryQos> memory_qos;
  std::unique_ptr<agent::LoopContainerPressure> container_pressure;
  std::unique_ptr<agent::OomPredictor> forecast;
  std::unique_ptr<KeptGuard> kept_guard;  // null: the guard is not in use
  std::unique_ptr<agent::LoopGuard> guard;
  std::unique_ptr<PodListWatch> pod_list;     // null: its thread could not be started
  std::unique_ptr<WrittenPods> written_pods;  // null: no descriptor was left for it
  // Null: managedOOM was off at the start, or this host cannot have it.
  std::unique_ptr<ManagedOomWatch> managed_oom;
  std::unique_ptr<KilledSignals> killed_signals;  // null with managed_oom, or without its thread
  std::unique_ptr<SignallingMarker> signalling_marker;  // null without killed_signals
  ManagedReadings managed_readings{[this]() -> std::shared_ptr<const std::vector<std::string>> {
    return managed_oom ? managed_oom->monitored() : nullptr;
  }};
  std::shared_ptr<exports::LoopCounts> counts = std::make_shared<exports::LoopCounts>();
  exports::DropCounts drops;
  exports::StageHistograms stages;
  exports::StatusBoard board;
  wire::GrpcCounts grpc_counts;
  std::unique_ptr<exports::EventBroadcast> broadcast;
  std::unique_ptr<agent::LossCollector> loss_collector;
  std::unique_ptr<exports::Metrics> metrics;  // null: not configured
  RecorderWithPressure ring;                  // the agent's own, on disk
  RecorderWithPressure session;               // while a client requests one
  std::vector<std::unique_ptr<exports::RecordSink>> sinks;
  std::unique_ptr<LivePicture> picture;  // null: there is no status page
  // Last: their threads read the above, and each the one before.
  std::unique_ptr<exports::LiveStreams> live;
  std::unique_ptr<exports::MetricsServer> metrics_server;
  std::unique_ptr<AgentApi> api;  // null: gRPC is not served
};

// Builds all but the watchdog and the servers of the API. `records`: where records go as JSON;
// null: nowhere. An error keeps the agent from starting; what it can run without is logged.
[[nodiscard]] Result<void> build_parts(DaemonParts& parts, agent::ProbedHost& host,
                                       const Config& config, exports::Log& log,
                                       exports::Log* records);
// What a core works with. REQUIRES: the watchdog is there.
[[nodiscard]] agent::Parts core_parts(DaemonParts& parts, const agent::ProbedHost& host,
                                      exports::Log& log);

[[nodiscard]] actuators::LadderOptions ladder_options(const agent::ProbedHost& host,
                                                      const Config& config);
// Whether a threshold throttles.
[[nodiscard]] bool throttles(const Config& config);

}  // namespace forestall::daemon
