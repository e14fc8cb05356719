// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.h"

#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "agent/core.h"
#include "agent/loop.h"
#include "daemon/daemon_log.h"
#include "daemon/daemon_parts.h"
#include "daemon/daemon_reload.h"
#include "daemon/daemon_services.h"
#include "daemon/dbus_managed_oom.h"
#include "daemon/managed_oom_watch.h"
#include "daemon/managed_rules.h"
#include "daemon/varlink_managed_oom.h"
#include "kernel/amount_setting.h"
#include "kernel/cgroup_freeze.h"
#include "kernel/residency.h"
#include "kernel/scheduling.h"
#include "service/record_stream.h"

namespace forestall::daemon {
namespace {

// While the memory of the watchdog's victim comes back, the guard's standing list does not fire.
constexpr Duration kAfterWatchdog = std::chrono::seconds(10);

using exports::LogLevel;
using exports::LogLine;

// Kills a child once, from start to end, and makes a record: the pages of that path stay in memory.
void warm_up(DaemonParts& parts, exports::Log& log, const exports::Log* records) {
  if (records != nullptr) service::RecordStream::warm_up();
  const auto warmed = parts.ladder->warm_up();
  if (warmed) return;
  log.write(LogLevel::warning,
            LogLine("warm-up").field("problem", warmed.error().text()).field("ignoring", true));
}

void log_open_files(exports::Log& log, const Result<std::uint64_t>& limit,
                    const Result<std::uint64_t>& table) {
  if (!table) {
    log.write(LogLevel::warning,
              LogLine("open-files")
                  .field("problem", table.error().text())
                  .field("effect", "opening files may wait while memory is short"));
  } else if (limit) {
    log.write(LogLevel::debug, LogLine("open-files").field("limit", *limit).field("table", *table));
  }
}

// What a killed agent has set. Also after a reload, which may end a dry run.
void undo_settings(const agent::ProbedHost& host, const Config& config, exports::Log& log) {
  for (const std::string& note :
       kernel::restore_leftovers(host.tree, host.high_records, config.dry_run)) {
    log.write(LogLevel::info, LogLine("memory-high").field("note", note));
  }
  for (const std::string& note :
       kernel::thaw_leftovers(host.tree, host.frozen_records, config.dry_run)) {
    log.write(LogLevel::info, LogLine("cgroup-freeze").field("note", note));
  }
  // Memory QoS adopts what is left, so that no value is missing in between.
  if (agent::enforces_memory_qos(host.tree, config.memory_qos, config.dry_run)) return;
  for (const MemoryQosFile file : {MemoryQosFile::min, MemoryQosFile::low}) {
    const auto& records = file == MemoryQosFile::min ? host.min_records : host.low_records;
    for (const std::string& note :
         kernel::restore_leftovers(host.tree, records, config.dry_run, to_string(file))) {
      log.write(LogLevel::info, LogLine("memory-qos").field("note", note));
    }
  }
}

// Follows the podList, if its thread can be started.
void watch_pod_list(DaemonParts& parts, const intake::LoadedConfig& loaded, exports::Log& log) {
  auto watch = PodListWatch::start(log);
  if (!watch) {
    log.write(LogLevel::error, LogLine("no-pod-list-watch")
                                   .field("problem", watch.error().text())
                                   .field("instead", "SIGHUP reads the podList again"));
    return;
  }
  parts.pod_list = std::move(*watch);
  parts.pod_list->follow(loaded.pod_list, loaded.config.pod_list_max_age, loaded.config.known_pods);
}

void take_written_pods(DaemonParts& parts, exports::Log& log) {
  auto written = WrittenPods::create(parts.clock, log);
  if (!written) {
    log.write(LogLevel::error, LogLine("no-written-pods").field("problem", written.error().text()));
    return;
  }
  parts.written_pods = std::move(*written);
}

// Sends systemd-oomd's signal after kills. Without its thread, kills have no signal.
void send_killed_signals(DaemonParts& parts, bool on, exports::Log& log) {
  auto signals = KilledSignals::start(log);
  if (!signals) {
    log.write(LogLevel::error,
              LogLine("no-killed-signal").field("problem", signals.error().text()));
    return;
  }
  parts.killed_signals = std::move(*signals);
  parts.killed_signals->set_on(on);
  parts.signalling_marker =
      std::make_unique<SignallingMarker>(*parts.marker, *parts.killed_signals);
}

// PID 1 accepts the subscription of one unit only; all others read the properties over D-Bus.
std::unique_ptr<ManagedOomSource> managed_oom_source(const Clock& clock,
                                                     const intake::LoadedConfig& loaded,
                                                     const agent::ProbedHost& host) {
  const auto own = host.tree.path_of(::getpid());
  if (!loaded.managed_oom_by_dbus && own && is_systemd_oomd(*own)) {
    return std::make_unique<VarlinkManagedOom>(clock, VarlinkManagedOom::sockets_of_systemd());
  }
  return std::make_unique<DbusManagedOom>("");
}

// Follows systemd's properties, if the thread can be started and the host has what the rules need.
void watch_managed_oom(DaemonParts& parts, const intake::LoadedConfig& loaded,
                       const agent::ProbedHost& host, exports::Log& log) {
  if (!loaded.managed_oom) return;
  const auto refuse = [&](const std::string& problem) {
    log.write(LogLevel::error, LogLine("no-managed-oom").field("problem", problem));
  };
  if (host.tree.version() != kernel::CgroupVersion::v2) {
    return refuse("managedOOM needs cgroup v2, as systemd-oomd does");
  }
  auto marker = actuators::ManagedOomMarkerThread::start(host.tree, [&log](const auto& problem) {
    log.write(LogLevel::warning, LogLine("managed-oom").field("problem", problem));
  });
  if (!marker) return refuse(marker.error().text());
  auto watch =
      ManagedOomWatch::start(log, parts.clock, managed_oom_source(parts.clock, loaded, host));
  if (!watch) return refuse(watch.error().text());
  parts.marker = std::move(*marker);
  parts.managed_oom = std::move(*watch);
  parts.managed_oom->follow(loaded.managed_oom);
  send_killed_signals(parts, loaded.killed_signal, log);
}

// Pods that were written come before those of the podList: they are the API server's.
std::optional<KnownPods> take_pods(DaemonParts& parts) {
  std::optional<KnownPods> listed;
  if (parts.pod_list) listed = parts.pod_list->take();
  if (!parts.written_pods) return listed;
  auto written = parts.written_pods->take();
  if (written || parts.written_pods->in_force()) return written;
  return listed;
}

// False: the rulesets in force stay.
bool take_managed_rules(ManagedRules& rules, Config& in_force, exports::Log& log) {
  const auto taken = rules.take(in_force);
  if (taken) return *taken;
  log.write(LogLevel::error, LogLine("no-managed-oom").field("problem", taken.error().text()));
  return false;
}

Result<void> run_loop_with(DaemonParts& parts, const DaemonOptions& options,
                           const intake::LoadedConfig& loaded, agent::ProbedHost& host,
                           exports::Log& log) {
  const Config& config = loaded.config;
  Config in_force = config;
  ManagedRules rules(parts.managed_oom.get(), config.rules,
                     [&](const Config& next) { return parts.rules->prepare(next); });
  const agent::Parts core_with = core_parts(parts, host, log);
  agent::Core core(core_with, config);
  agent::LoopHooks hooks;
  const auto load_again = [&]() -> Result<Config> {
    intake::LoadedConfig again = TRY(options.load_config());
    log_config_warnings(log, again.warnings);
    TRY(rules.reload(again));  // nothing after it fails
    if (parts.killed_signals) parts.killed_signals->set_on(again.killed_signal);
    if (parts.pod_list) {
      parts.pod_list->follow(again.pod_list, again.config.pod_list_max_age,
                             again.config.known_pods);
    }
    if (again.managed_oom && !parts.managed_oom) {
      log.write(LogLevel::warning,
                LogLine("config").field("warning",
                                        "managedOOM is not in use; restart the agent to use it"));
    }
    if (parts.managed_oom && again.managed_oom &&
        again.managed_oom_by_dbus != loaded.managed_oom_by_dbus) {
      log.write(LogLevel::warning,
                LogLine("config").field("warning",
                                        "managedOOM.source changed; restart the agent to use it"));
    }
    in_force = reloaded_config(std::move(again.config), config, log);
    if (parts.written_pods && parts.written_pods->in_force()) {
      in_force.known_pods = *parts.written_pods->in_force();
    }
    parts.ladder->set_options(ladder_options(host, in_force));
    parts.board.set_config(in_force);
    undo_settings(host, in_force, log);
    return in_force;
  };
  hooks.reload = [&]() -> Result<Config> {
    auto next = load_again();
    if (parts.metrics) parts.metrics->record_reload(next.ok());
    return next;
  };
  if (parts.pod_list) hooks.change_fds.push_back(parts.pod_list->fd());
  if (parts.written_pods) hooks.change_fds.push_back(parts.written_pods->fd());
  if (parts.managed_oom) hooks.change_fds.push_back(parts.managed_oom->fd());
  hooks.take_change = [&]() -> std::optional<Config> {
    auto pods = take_pods(parts);
    const bool changed = take_managed_rules(rules, in_force, log);
    if (!pods && !changed) return std::nullopt;
    if (pods) in_force.known_pods = std::move(*pods);
    parts.board.set_config(in_force);
    return in_force;
  };
  hooks.ready = [] { sd_notify(0, "READY=1\nSTATUS=armed"); };
  const auto ended = agent::run_loop(core, core_with, hooks);
  end_recording(*parts.ring.recorder, log);
  end_recording(*parts.session.recorder, log);
  log_loop_work(log, parts.counts->work);
  log.write(LogLevel::info, LogLine("stop")
                                .field("evaluations", core.evaluations())
                                .field("kills", core.kills())
                                .field("dry_run_kills", core.dry_run_kills())
                                .field("kernel_oom_kills", core.kernel_kills())
                                .field("log_lines_dropped", log.dropped()));
  return ended;
}

Result<void> run(const DaemonOptions& options, const intake::LoadedConfig& loaded,
                 agent::ProbedHost& host, exports::Log& log, exports::Log* records) {
  const Config& config = loaded.config;
  DaemonParts parts;
  parts.facts = {FORESTALL_VERSION, ::getpid(),   parts.clock.now(),    host.kernel_release,
                 host.tier(),       host.reports, options.config_origin};
  undo_settings(host, config, log);
  TRY(build_parts(parts, host, config, log, records));
  kernel::give_back_start_up_memory();
  agent::protect_self(host, config.disabled);
  parts.watchdog =
      TRY(agent::Watchdog::create(host.tree, parts.clock, host.in_use(Feature::sched_fifo)));
  if (host.guard) {
    parts.watchdog->defer_to_guard(
        [&host] { return host.guard->crossings(); },
        [&host] { host.guard->postpone_standing(SystemClock().now() + kAfterWatchdog); });
  }
  warm_up(parts, log, records);
  log_start(log, host, config, options.config_origin);
  parts.board.set_config(config);
  watch_pod_list(parts, loaded, log);
  take_written_pods(parts, log);
  watch_managed_oom(parts, loaded, host, log);
  parts.facts.features = host.reports;  // complete only now
  serve_api(parts, host, config.api_socket.value_or(options.api_socket), config, log);
  record_on_disk(parts, host, config, log);
  return run_loop_with(parts, options, loaded, host, log);
}

}  // namespace

void block_loop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGCONT}) sigaddset(&set, each);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Result<void> run_daemon(const DaemonOptions& options, const intake::LoadedConfig& loaded,
                        agent::ProbedHost& host) {
  // The log starts the first thread: before it, the kernel grows the table without waiting.
  const auto limit = kernel::raise_file_limit();
  const auto table = kernel::grow_descriptor_table(kernel::kDescriptorTable);
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   log_level(options.verbose), kernel::use_service_priority, options.log_format);
  std::unique_ptr<exports::Log> records;
  if (options.prints_records) {
    records = std::make_unique<exports::Log>(exports::Log::Stream::standard_output,
                                             /*stamped=*/false, LogLevel::info,
                                             kernel::use_service_priority);
  }
  log_config_warnings(log, loaded.warnings);
  log_open_files(log, limit, table);
  auto ended =
      limit.ok() ? run(options, loaded, host, log, records.get()) : Result<void>(limit.error());
  if (!ended) log.write(LogLevel::error, LogLine("stop").field("error", ended.error().text()));
  return ended;
}

}  // namespace forestall::daemon
