// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon_services.h"

#include <chrono>
#include <utility>

#include "api/json.h"

namespace forestall::agent {
namespace {

using exports::LogLevel;
using exports::LogLine;

v1::AgentStatus status_of(DaemonParts& parts) {
  return api::to_proto(parts.facts, parts.board.status(), parts.stages, parts.drops,
                       parts.grpc_counts, parts.clock.now());
}

}  // namespace

void serve_status(DaemonParts& parts, const std::string& path, exports::Log& log) {
  auto server = exports::MetricsServer::start_local(
      path, [&parts](const exports::HttpRequest& request) -> exports::HttpAnswer {
        if (request.path != "/status") {
          return {404, "text/plain; charset=utf-8", "/status is served here\n"};
        }
        return {200, "application/json", api::to_json(status_of(parts), api::JsonStyle::pretty)};
      });
  if (server.ok()) {
    parts.status_server = std::move(server).value();
  } else {
    log.write(LogLevel::error, LogLine("no-status").field("problem", server.error().text()));
  }
}

void serve_api(DaemonParts& parts, const Host& host, const std::string& path, const Config& config,
               exports::Log& log) {
  if (path.empty()) return;
  AgentApiParts served;
  served.status = [&parts] { return status_of(parts); };
  served.config = [&parts] { return parts.board.status().config; };
  served.tree = &host.tree;
  served.feed = parts.feed.get();
  served.drops = &parts.drops;
  served.counts = &parts.grpc_counts;
  served.recorder = parts.session.recorder.get();
  served.recording_facts = [&host, origin = parts.facts.config_origin] {
    return recording_facts(host, api::Recorder::agent, origin);
  };
  auto api = AgentApi::serve(path, {config.api_uids, config.api_gids}, std::move(served));
  if (api) {
    parts.api = std::move(api).value();
  } else {
    log.write(LogLevel::error, LogLine("no-api").field("problem", api.error().text()));
  }
}

void record_on_disk(DaemonParts& parts, const Host& host, const Config& config, exports::Log& log) {
  if (!config.recording) return;
  const recording::Target ring{config.recording->directory, false, config.recording->max_size};
  const auto facts = recording_facts(host, api::Recorder::agent, parts.facts.config_origin);
  const auto started = parts.ring.recorder->start(ring, facts, std::chrono::seconds(10),
                                                  Recorder::Opening::by_thread);
  if (started) return;
  log.write(LogLevel::error, LogLine("no-recording").field("problem", started.error().text()));
}

void end_recording(Recorder& recorder, exports::Log& log) {
  if (!recorder.totals()) return;
  const auto totals = recorder.stop();
  LogLine line("recording");
  if (!totals) line.field("problem", totals.error().text());
  if (totals) {
    line.field("entries", totals->entries)
        .field("bytes", totals->file_bytes)
        .field("lost", totals->lost_entries);
  }
  log.write(totals ? LogLevel::info : LogLevel::error, line.field("state", "ended"));
}

}  // namespace forestall::agent
