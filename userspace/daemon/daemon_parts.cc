// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_parts.h"

#include <algorithm>
#include <utility>

#include "agent/release_wait.h"
#include "clients/unit_restart.h"
#include "exports/record_log.h"
#include "kernel/cgroup_path.h"
#include "kernel/guard_succession.h"
#include "kernel/scheduling.h"
#include "service/record_stream.h"
#include "sources/capacity_source.h"
#include "sources/disk_usage_source.h"
#include "sources/runtime_source.h"

namespace forestall::daemon {
namespace {

using exports::LogLevel;
using exports::LogLine;

Result<void> build_sources(DaemonParts& parts, agent::ProbedHost& host, const Config& config) {
  parts.sources = agent::make_sources(host);
  auto& all = parts.sources.all;
  parts.reclaim = std::make_unique<agent::ReclaimController>();
  if (const std::string& runtime = config.filesystems.runtime; !runtime.empty()) {
    clients::RuntimeOptions options;
    options.pods_directory = config.filesystems.nodefs + "/pods";
    options.image_ages = std::make_shared<clients::ImageAges>();
    parts.node_reclaim = TRY(actuators::NodeReclaim::create(runtime, options));
    parts.reclaim =
        std::make_unique<agent::RuntimeReclaimController>(*parts.node_reclaim, parts.clock);
    all.push_back(TRY(sources::RuntimeSource::create(runtime, options, *parts.observer)));
  }
  all.push_back(
      TRY(sources::CapacitySource::create(parts.observer->filesystems(), parts.observer->tasks())));
  all.push_back(std::make_unique<sources::DiskUsageSource>(parts.observer->disk_walker()));
  return {};
}

// Workloads that cannot be throttled are warned about.
void build_throttle(DaemonParts& parts, const agent::ProbedHost& host, const Config& config,
                    exports::Log& log) {
  parts.throttle = std::make_unique<actuators::LoopThrottle>();
  if (!throttles(config) || has(config.disabled, Feature::memory_high)) return;
  auto throttle = actuators::MemoryHighThrottle::create(host.tree, host.high_records);
  if (throttle) {
    parts.throttle = std::move(throttle).value();
  } else {
    log.write(LogLevel::warning, LogLine("own-limit")
                                     .field("problem", throttle.error().text())
                                     .field("instead", "workloads near a limit are warned about"));
  }
}

void build_rule_effects(DaemonParts& parts, const agent::ProbedHost& host) {
  if (clients::systemd_is_running()) {
    parts.restarter = std::make_unique<actuators::UnitRestarterThread>();
  } else {
    parts.restarter = std::make_unique<actuators::UnitRestarter>();
  }
  if (host.tree.version() != kernel::CgroupVersion::v2) {
    parts.rule_settings = std::make_unique<actuators::RuleSettings>();
    return;
  }
  parts.rule_settings = std::make_unique<actuators::RuleSettingsThread>(
      host.tree, actuators::RuleSettingsThread::Records{host.high_records, host.frozen_records});
}

Result<void> build_oom_parts(DaemonParts& parts, agent::ProbedHost& host, const Config& config) {
  parts.oom_events =
      std::make_unique<sources::OomEventCorrelator>(parts.sources.bpf_oom, parts.sources.oom_log);
  auto scanned = TRY(agent::make_process_source(host));
  parts.forecast = TRY(agent::OomPredictor::create(host.tree, std::move(scanned), parts.clock));
  if (config.ranking != Ranking::kernel) return {};
  parts.processes = TRY(agent::make_process_source(host));
  parts.observer->set_processes(parts.processes.get());
  return {};
}

// Without its thread the loop rescans the tree.
void build_scanner(DaemonParts& parts, exports::Log& log) {
  auto scanner = agent::TreeScannerThread::create();
  if (!scanner.ok()) {
    parts.scanner = std::make_unique<agent::TreeScanner>();
    log.write(LogLevel::warning, LogLine("no-tree-scanner")
                                     .field("problem", scanner.error().text())
                                     .field("instead", "the loop lists the cgroup tree"));
    return;
  }
  parts.scanner = std::move(*scanner);
  parts.observer->make_standby_tree();
}

// This agent has no guard, and decides itself: one that a former agent left must not kill as well.
// After a kill that it has no report of, it waits for the memory.
void end_former_guards(DaemonParts& parts, kernel::GuardStore* store, exports::Log& log) {
  if (store == nullptr) return;
  const auto ended = kernel::drop_former_guards(*store);
  const MonotonicTime now = parts.clock.now();
  if (!ended) {
    log.write(LogLevel::error, LogLine("guard").field("problem", ended.error().text()));
  } else if (ended->objects > 0) {
    log.write(LogLevel::info,
              LogLine("guard").field("what", "removed").field("objects", ended->objects));
  }
  const auto killed = ended ? ended->killed : std::optional(now);
  if (!killed || now - *killed >= kernel::GuardSuccession::kRelease) return;
  const MonotonicTime until = *killed + kernel::GuardSuccession::kRelease;
  log.write(LogLevel::warning, LogLine("guard")
                                   .field("what", "awaits-release")
                                   .field("problem", "a former guard may have killed a workload")
                                   .field("for", until - now));
  parts.guard = std::make_unique<agent::ReleaseWait>(parts.clock, until);
}

Result<void> build_guard(DaemonParts& parts, agent::ProbedHost& host, const Config& config,
                         exports::Log& log) {
  parts.guard = std::make_unique<agent::LoopGuard>();
  if (!config.guard) {
    end_former_guards(parts, host.guard_store.get(), log);
    return {};
  }
  agent::load_guard(host, config.disabled, host.guard_store.get());
  if (!host.guard) {
    const auto& report = host.reports[static_cast<std::size_t>(Feature::guard)];
    log.write(LogLevel::error, LogLine("no-guard").field("problem", report.evidence));
    end_former_guards(parts, host.guard_store.get(), log);
    return {};
  }
  if (!host.guard->store_problem().empty()) {
    log.write(LogLevel::error, LogLine("guard").field("problem", host.guard->store_problem()));
  }
  if (const auto until = host.guard->held_until()) {
    log.write(LogLevel::warning, LogLine("guard")
                                     .field("problem", host.guard->hold_reason())
                                     .field("for", *until - parts.clock.now()));
  }
  parts.kept_guard = KeptGuard::of(*host.guard, host.guard_store.get(), log);
  parts.guard =
      TRY(agent::GuardController::create({.guard = *host.guard,
                                          .tree = host.tree,
                                          .observer = *parts.observer,
                                          .clock = parts.clock,
                                          .log = log,
                                          .counts = *parts.counts,
                                          .store_refused = &parts.kept_guard->refused()}));
  return {};
}

// The page served beside the metrics, for a browser on this host. Null: there is none.
exports::HttpPages build_status_page(DaemonParts& parts, const agent::ProbedHost& host,
                                     exports::Log& log) {
  parts.picture = std::make_unique<LivePicture>(host.tree, parts.clock, parts.facts);
  auto live = exports::LiveStreams::create(*parts.picture, parts.drops.live_viewers);
  if (!live) {
    parts.picture.reset();
    log.write(LogLevel::error, LogLine("no-status-page").field("problem", live.error().text()));
    return nullptr;
  }
  parts.live = std::move(live).value();
  return status_pages(*parts.picture, *parts.live);
}

// Any process may hold a port above 1024: a taken port must not leave the node without its agent.
void build_metrics(DaemonParts& parts, const agent::ProbedHost& host, const Config& config,
                   exports::Log& log) {
  if (config.metrics_address.empty()) return;
  parts.metrics = std::make_unique<exports::Metrics>(
      FORESTALL_VERSION, host.tier(),
      exports::Metrics::Recorders{&parts.stages, &parts.drops, &parts.grpc_counts,
                                  &parts.counts->work, &parts.board, parts.counts.get(),
                                  [&parts] { return parts.memory_qos->report(); },
                                  [&parts] { return parts.container_pressure->report(); }});
  const auto pages = build_status_page(parts, host, log);
  auto server = exports::MetricsServer::start(config.metrics_address, *parts.metrics, pages);
  if (server.ok()) {
    parts.metrics_server = std::move(server).value();
    return;
  }
  parts.metrics.reset();
  parts.live.reset();
  parts.picture.reset();
  log.write(LogLevel::error, LogLine("no-metrics").field("problem", server.error().text()));
}

void build_recorder(RecorderWithPressure& recording, exports::Log& log,
                    exports::DropCounts& drops) {
  const auto read_pressure = [&recording](MonotonicTime now) {
    if (!recording.pressure) recording.pressure.emplace();
    return recording.pressure->read(now);
  };
  recording.recorder = std::make_unique<agent::Recorder>(log, drops, read_pressure);
}

void build_sinks(DaemonParts& parts, const agent::ProbedHost& host, exports::Log& log,
                 exports::Log* records) {
  build_recorder(parts.ring, log, parts.drops);
  build_recorder(parts.session, log, parts.drops);
  parts.sinks.push_back(std::make_unique<exports::RecordLog>(log));
  parts.drops.logs = {&log};
  if (records != nullptr) {
    parts.sinks.push_back(
        std::make_unique<service::RecordStream>(*records, kernel::use_service_priority));
    parts.drops.logs.push_back(records);
  }
  parts.loss_collector = std::make_unique<agent::LossCollector>(
      host.in_use(Feature::bpf) ? host.bpf.get() : nullptr, host.guard.get(), *parts.oom_events,
      *parts.observer, parts.drops);
}

actuators::ManagedOomMarker& marker_of(DaemonParts& parts) {
  if (parts.signalling_marker) return *parts.signalling_marker;
  return *parts.marker;
}

}  // namespace

Result<void> build_parts(DaemonParts& parts, agent::ProbedHost& host, const Config& config,
                         exports::Log& log, exports::Log* records) {
  parts.observer = TRY(sources::Observer::create(host.tree, config));
  parts.observer->set_memcgs(host.memcgs.get());
  parts.ladder =
      TRY(actuators::Ladder::create(host.tree, parts.clock, ladder_options(host, config)));
  parts.ladder->take_cgroups_from(
      [observer = parts.observer.get()](CgroupId cgroup) { return observer->held(cgroup); });
  if (host.memcgs) {
    actuators::ProcessLister::Path listed_path;
    if (host.tree.version() == kernel::CgroupVersion::v1) {
      // In a part of the hierarchy the kernel's path is not the workload's: the ordinary way
      // verifies that.
      listed_path = [memcgs = host.memcgs.get(), whole = kernel::is_mounted_whole(host.tree)] {
        return whole ? memcgs->listed_path() : std::nullopt;
      };
    }
    parts.ladder->list_processes_by(actuators::ProcessLister(
        [memcgs = host.memcgs.get(), version = host.tree.version()](CgroupId cgroup) {
          return memcgs->processes_in(cgroup, version);
        },
        std::move(listed_path)));
  }
  TRY(build_sources(parts, host, config));
  build_scanner(parts, log);
  parts.rules = TRY(agent::RuleSamplerThread::create(host.tree, parts.clock));
  TRY(parts.rules->prepare(config));
  build_throttle(parts, host, config, log);
  build_rule_effects(parts, host);
  parts.hooks = TRY(actuators::HookRunnerThread::create(host.prekill_program));
  parts.memory_qos = TRY(agent::MemoryQosThread::create(
      host.tree,
      agent::MemoryQosThread::Records{host.min_records, host.low_records, host.high_records}, log));
  parts.container_pressure =
      TRY(agent::ContainerPressureThread::create(host.tree, host.high_records, log));
  TRY(build_oom_parts(parts, host, config));
  parts.broadcast = TRY(exports::EventBroadcast::create());
  TRY(build_guard(parts, host, config, log));
  build_sinks(parts, host, log, records);  // after the guard: its counters are read once at start
  build_metrics(parts, host, config, log);
  return {};
}

agent::Parts core_parts(DaemonParts& parts, const agent::ProbedHost& host, exports::Log& log) {
  agent::Parts core{.clock = parts.clock,
                    .tree = host.tree,
                    .observer = *parts.observer,
                    .ladder = *parts.ladder,
                    .log = log,
                    .counts = parts.counts,
                    .reclaim = *parts.reclaim,
                    .guard = *parts.guard,
                    .watchdog = *parts.watchdog,
                    .scanner = *parts.scanner,
                    .rules = *parts.rules,
                    .rule_settings = *parts.rule_settings,
                    .restarter = *parts.restarter,
                    .marker = marker_of(parts),
                    .hooks = *parts.hooks,
                    .memory_qos = *parts.memory_qos,
                    .container_pressure = *parts.container_pressure,
                    .forecast = *parts.forecast,
                    .throttle = *parts.throttle,
                    .oom_events = *parts.oom_events,
                    .has_cgroup_events = host.in_use(Feature::bpf_cgroups),
                    .has_usage_events = host.in_use(Feature::bpf_timer)};
  for (const auto& source : parts.sources.all) core.sources.push_back(source.get());
  for (const auto& sink : parts.sinks) core.sinks.push_back(sink.get());
  for (const auto& each : {parts.ring.recorder.get(), parts.session.recorder.get()}) {
    core.sinks.push_back(each);
    core.pass_listeners.push_back(each);
  }
  core.sinks.push_back(&parts.stages);
  core.evaluation_listeners.push_back(parts.loss_collector.get());
  if (parts.managed_oom) core.evaluation_listeners.push_back(&parts.managed_readings);
  const auto add = [&core](auto* receiver) {
    core.sinks.push_back(receiver);
    core.evaluation_listeners.push_back(receiver);
  };
  add(&parts.board);
  add(parts.broadcast.get());
  if (parts.metrics) {
    add(parts.metrics.get());
    core.pass_listeners.push_back(parts.metrics.get());
  }
  if (parts.picture) {
    core.sinks.push_back(parts.picture.get());
    core.pass_listeners.push_back(parts.picture.get());
  }
  return core;
}

actuators::LadderOptions ladder_options(const agent::ProbedHost& host, const Config& config) {
  actuators::LadderOptions options;
  options.dry_run = config.dry_run;
  options.usable = host.usable();
  options.release_timeout = config.release_timeout;
  return options;
}

bool throttles(const Config& config) {
  return std::ranges::any_of(config.thresholds, [](const Threshold& threshold) {
    return threshold.response == Response::slow;
  });
}

}  // namespace forestall::daemon
