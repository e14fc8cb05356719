// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_services.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "messages/convert.h"
#include "text/utf8.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;

void put_pod_list(const PodListState& state, MonotonicTime now, v1::AgentStatus& status) {
  if (state.path.empty()) return;
  v1::PodListStatus& out = *status.mutable_pod_list();
  out.set_path(text::to_utf8(state.path));
  out.set_pods(state.pods);
  if (state.written) out.set_age_ns((now - *state.written).count());
  out.set_stale(state.stale);
  if (!state.problem.empty()) out.set_problem(text::to_utf8(state.problem));
}

void put_written_pods(const WrittenPodsState& state, MonotonicTime now, v1::AgentStatus& status) {
  v1::WrittenPods& out = *status.mutable_written_pods();
  out.set_pods(state.pods);
  if (state.confirmed) out.set_age_ns((now - *state.confirmed).count());
  out.set_written_ago_ns((now - state.written).count());
  if (!state.problem.empty()) out.set_problem(state.problem);
}

void put_managed_oom(const ManagedOomSourceState& state, std::string_view source, MonotonicTime now,
                     v1::AgentStatus& status) {
  v1::ManagedOomStatus& out = *status.mutable_managed_oom();
  out.set_source(std::string(source));
  out.set_problem(text::to_utf8(state.problem));
  if (state.read) out.set_read_ago_ns((now - *state.read).count());
  out.set_swap_used_limit(state.conf.swap_used_limit);
  out.set_pressure_limit(state.conf.pressure_limit);
  out.set_pressure_duration_us(state.conf.pressure_duration.count());
  for (const std::string& path : state.rules.swap) out.add_swap(text::to_utf8(path));
  for (const auto& [path, rule] : state.rules.pressure) {
    v1::ManagedOomStatus::Pressure& added = *out.add_pressure();
    added.set_cgroup(text::to_utf8(path));
    added.set_limit(rule.limit_permyriad);
    added.set_duration_us(rule.duration.count());
  }
}

template <typename Field, typename Value>
void put_if(const std::optional<Field>& field, Value value, v1::ManagedOomStatus::Reading& out) {
  if (field) (out.*value)(*field);
}

void put_managed_readings(const ManagedReadingsTaken& taken, MonotonicTime now,
                          v1::ManagedOomStatus& out) {
  using Reading = v1::ManagedOomStatus::Reading;
  out.set_readings_ago_ns((now - taken.at).count());
  const rulesets::Host& host = taken.host;
  if (host.mem_total && host.mem_available) {
    out.set_memory_total(*host.mem_total);
    out.set_memory_used(*host.mem_total - *host.mem_available);
  }
  if (host.swap_total && host.swap_free) {
    out.set_swap_total(*host.swap_total);
    out.set_swap_used(*host.swap_total - *host.swap_free);
  }
  for (const ManagedCgroupReading& each : taken.cgroups) {
    Reading& reading = *out.add_readings();
    reading.set_cgroup(text::to_utf8(each.cgroup));
    put_if(each.usage, &Reading::set_usage, reading);
    put_if(each.swap, &Reading::set_swap, reading);
    put_if(each.pgscan, &Reading::set_pgscan, reading);
    put_if(each.last_pgscan, &Reading::set_last_pgscan, reading);
    if (!each.pressure) continue;
    reading.set_avg10(each.pressure->avg10);
    reading.set_avg60(each.pressure->avg60);
    reading.set_avg300(each.pressure->avg300);
    put_if(each.pressure->total_us, &Reading::set_total_us, reading);
  }
}

// More would be a long answer on a node with hundreds of containers.
constexpr std::size_t kQosValuesMax = 1000;

// First what is not as planned, then what has an explanation.
int order_of(const MemoryQosValue* value) {
  const bool is_present =
      value->state == MemoryQosState::equal || value->state == MemoryQosState::written;
  if (!is_present) return 0;
  return value->reason.empty() ? 2 : 1;
}

void put_memory_qos(const MemoryQosReport& report, v1::AgentStatus& status) {
  v1::MemoryQosStatus& out = *status.mutable_memory_qos();
  out.set_mode(std::string(to_string(report.mode)));
  out.set_unknown_pods(report.unknown_pods);
  out.set_problem(report.problem);
  out.set_rewrites(report.rewrites);
  out.set_lifts(report.lifts);
  std::vector<const MemoryQosValue*> values;
  for (const MemoryQosValue& each : report.values) values.push_back(&each);
  std::ranges::stable_sort(values, std::ranges::less(), order_of);
  const std::size_t shown = std::min(values.size(), kQosValuesMax);
  out.set_values_left_out(values.size() - shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const MemoryQosValue& each = *values[i];
    v1::MemoryQosValue& value = *out.add_values();
    value.set_subject(text::to_utf8(each.subject));
    value.set_cgroup(text::to_utf8(each.path));
    value.set_file(to_string(each.file));
    if (!each.present.empty()) value.set_present(each.present);
    value.set_wanted(std::to_string(each.wanted));
    value.set_state(std::string(to_string(each.state)));
    value.set_reason(text::to_utf8(each.reason));
  }
}

v1::KeptGuard::State to_proto(GuardKeeping keeping) {
  switch (keeping) {
    case GuardKeeping::kept: return v1::KeptGuard::KEPT;
    case GuardKeeping::not_kept: return v1::KeptGuard::NOT_KEPT;
    case GuardKeeping::unknown: break;
  }
  return v1::KeptGuard::UNKNOWN;
}

void put_kept_guard(const GuardKeepingState& state, v1::AgentStatus& status) {
  v1::KeptGuard& out = *status.mutable_kept_guard();
  out.set_state(to_proto(state.keeping));
  out.set_reason(text::to_utf8(state.reason));
}

v1::AgentStatus status_of(DaemonParts& parts) {
  v1::AgentStatus status =
      service::to_proto(parts.facts, parts.board.status(), parts.stages, *parts.counts, parts.drops,
                        parts.grpc_counts, parts.clock.now());
  if (const auto qos = parts.memory_qos->report()) put_memory_qos(*qos, status);
  if (const auto pressure = parts.container_pressure->report()) {
    *status.mutable_container_pressure() = messages::to_proto(*pressure, kQosValuesMax);
  }
  if (parts.kept_guard) put_kept_guard(parts.kept_guard->state(), status);
  if (parts.managed_oom) {
    const auto managed = parts.managed_oom->state();
    if (managed) {
      put_managed_oom(*managed, parts.managed_oom->source(), parts.clock.now(), status);
    }
    const auto readings = parts.managed_readings.last();
    if (managed && readings) {
      put_managed_readings(*readings, parts.clock.now(), *status.mutable_managed_oom());
    }
    const auto problem = parts.killed_signals ? parts.killed_signals->problem() : std::nullopt;
    if (managed && problem) status.mutable_managed_oom()->set_killed_signal_problem(*problem);
  }
  if (parts.pod_list) put_pod_list(parts.pod_list->state(), parts.clock.now(), status);
  if (!parts.written_pods) return status;
  if (const auto written = parts.written_pods->state()) {
    put_written_pods(*written, parts.clock.now(), status);
  }
  return status;
}

}  // namespace

void serve_api(DaemonParts& parts, const agent::ProbedHost& host, const std::string& path,
               const Config& config, exports::Log& log) {
  if (path.empty()) return;
  AgentApiParts served;
  served.status = [&parts] { return status_of(parts); };
  served.config = [&parts] { return parts.board.status().config; };
  served.tree = &host.tree;
  served.broadcast = parts.broadcast.get();
  served.drops = &parts.drops;
  served.counts = &parts.grpc_counts;
  served.recorder = parts.session.recorder.get();
  served.recording_facts = [&host, origin = parts.facts.config_origin] {
    return agent::recording_facts(host, messages::RecordedBy::agent, origin);
  };
  served.pods = parts.written_pods.get();
  served.pod_writers = config.api_pod_writers;
  wire::LocalUsers users{config.api_uids, config.api_gids};
  users.uids.insert(users.uids.end(), config.api_pod_writers.begin(), config.api_pod_writers.end());
  auto api = AgentApi::serve(path, users, std::move(served));
  if (api) {
    parts.api = std::move(api).value();
  } else {
    log.write(LogLevel::error, LogLine("no-api").field("problem", api.error().text()));
  }
}

void record_on_disk(DaemonParts& parts, const agent::ProbedHost& host, const Config& config,
                    exports::Log& log) {
  if (!config.recording) return;
  const recording::Target ring{config.recording->directory, false, config.recording->max_size};
  const auto facts =
      agent::recording_facts(host, messages::RecordedBy::agent, parts.facts.config_origin);
  const auto started = parts.ring.recorder->start(ring, facts, agent::Recorder::kInterval,
                                                  agent::Recorder::Opening::by_thread);
  if (started) return;
  log.write(LogLevel::error, LogLine("no-recording").field("problem", started.error().text()));
}

void end_recording(agent::Recorder& recorder, exports::Log& log) {
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

}  // namespace forestall::daemon
