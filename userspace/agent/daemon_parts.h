// SPDX-License-Identifier: Apache-2.0
// Everything that lives as long as the agent runs, built in order of dependence.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actuators/brakes.h"
#include "agent/agent_api.h"
#include "agent/drop_watch.h"
#include "agent/host.h"
#include "agent/live_picture.h"
#include "agent/parts.h"
#include "agent/recorder.h"
#include "api/convert_status.h"
#include "exports/drop_counts.h"
#include "exports/feed.h"
#include "exports/grpc_counts.h"
#include "exports/live_streams.h"
#include "exports/metrics.h"
#include "exports/metrics_server.h"
#include "exports/stage_histograms.h"
#include "exports/status_board.h"
#include "sources/pressure_reader.h"

namespace forestall::agent {

// A recorder with its own reader of the kernel's pressure counters, opened when a recording needs
// it.
struct RecorderWithPressure {
  std::optional<sources::PressureReader> pressure;
  std::unique_ptr<Recorder> recorder;
};

// Members in order of dependence. Null: the agent runs without it.
struct DaemonParts {
  SystemClock clock;
  api::AgentFacts facts;
  std::unique_ptr<sources::Observer> observer;
  std::unique_ptr<actuators::Ladder> ladder;
  std::unique_ptr<actuators::NodeReclaim> node_reclaim;  // null: no runtime is configured
  std::unique_ptr<ReclaimController> reclaim;
  std::unique_ptr<actuators::Brakes> brakes;  // null: no threshold throttles, or it cannot
  std::unique_ptr<Throttle> throttle;
  Sources sources;
  std::unique_ptr<sources::ProcessSource> processes;  // the observer's; null: it needs none
  std::unique_ptr<sources::OomSightings> oom_events;
  std::unique_ptr<Watchdog> watchdog;
  std::unique_ptr<Foresight> foresight;
  std::unique_ptr<KernelGuard> guard;
  exports::DropCounts drops;
  exports::StageHistograms stages;
  exports::StatusBoard board;
  exports::GrpcCounts grpc_counts;
  std::unique_ptr<exports::Feed> feed;
  std::unique_ptr<DropWatch> drop_watch;
  std::unique_ptr<exports::Metrics> metrics;  // null: not configured
  RecorderWithPressure ring;                  // the agent's own, on disk
  RecorderWithPressure session;               // while a client wants one
  std::vector<std::unique_ptr<exports::RecordSink>> sinks;
  std::unique_ptr<LivePicture> picture;  // null: there is no status page
  // Last: their threads read the above, and each the one before.
  std::unique_ptr<exports::LiveStreams> live;
  std::unique_ptr<exports::MetricsServer> metrics_server;
  std::unique_ptr<exports::MetricsServer> status_server;
  std::unique_ptr<AgentApi> api;  // null: gRPC is not served
};

// Builds all but the watchdog and the servers of the API. `records`: where records go as JSON;
// null: nowhere. An error keeps the agent from starting; what it can run without is logged.
[[nodiscard]] Result<void> build_parts(DaemonParts& parts, Host& host, const Config& config,
                                       exports::Log& log, exports::Log* records);
// What a core works with. REQUIRES: the watchdog is there.
[[nodiscard]] Parts core_parts(DaemonParts& parts, const Host& host, exports::Log& log);

[[nodiscard]] actuators::LadderOptions ladder_options(const Host& host, const Config& config);
// Whether a threshold throttles.
[[nodiscard]] bool throttles(const Config& config);

}  // namespace forestall::agent
