// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon.h"

#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "agent/core.h"
#include "agent/daemon_log.h"
#include "agent/daemon_parts.h"
#include "agent/daemon_reload.h"
#include "agent/daemon_services.h"
#include "agent/loop.h"
#include "api/record_stream.h"
#include "kernel/residency.h"
#include "kernel/scheduling.h"

namespace forestall::agent {
namespace {

using exports::LogLevel;
using exports::LogLine;

// Kills a child once, from start to end, and makes a record: the pages of that path stay in memory.
void warm_up(DaemonParts& parts, exports::Log& log, const exports::Log* records) {
  if (records != nullptr) api::RecordStream::warm_up();
  const auto warmed = parts.ladder->warm_up();
  if (warmed) return;
  log.write(LogLevel::warning,
            LogLine("warm-up").field("problem", warmed.error().text()).field("ignoring", true));
}

Result<void> run_loop_with(DaemonParts& parts, const DaemonOptions& options, const Config& config,
                           Host& host, exports::Log& log) {
  const Parts core_with = core_parts(parts, host, log);
  Core core(core_with, config);
  LoopHooks hooks;
  hooks.reload = [&]() -> Result<Config> {
    std::vector<std::string> warnings;
    Config loaded = TRY(options.load_config(warnings));
    log_config_warnings(log, warnings);
    Config next = reloaded_config(std::move(loaded), config, log);
    parts.ladder->set_options(ladder_options(host, next));
    parts.board.set_config(next);
    return next;
  };
  hooks.ready = [] { sd_notify(0, "READY=1\nSTATUS=armed"); };
  const auto ended = run_loop(core, core_with, hooks);
  end_recording(*parts.ring.recorder, log);
  end_recording(*parts.session.recorder, log);
  log.write(LogLevel::info, LogLine("stop")
                                .field("looks", core.looks())
                                .field("kills", core.kills())
                                .field("kernel_oom_kills", core.kernel_kills())
                                .field("log_lines_dropped", log.dropped()));
  return ended;
}

Result<void> run(const DaemonOptions& options, const Config& config, Host& host, exports::Log& log,
                 exports::Log* records) {
  DaemonParts parts;
  parts.facts = {FORESTALL_VERSION, ::getpid(),   parts.clock.now(),    host.kernel_release,
                 host.tier(),       host.reports, options.config_origin};
  TRY(build_parts(parts, host, config, log, records));
  kernel::give_back_start_up_memory();
  protect_self(host, config.disabled);
  parts.watchdog = TRY(Watchdog::create(host.tree, parts.clock, host.in_use(Feature::sched_fifo)));
  if (host.guard) {
    parts.watchdog->heed_guard([&host] { return host.guard->counts().crossings; });
  }
  warm_up(parts, log, records);
  log_start(log, host, config, options.config_origin);
  parts.board.set_config(config);
  parts.facts.features = host.reports;  // complete only now
  serve_status(parts, options.status_socket, log);
  serve_api(parts, host, config.api_socket.value_or(options.api_socket), config, log);
  record_on_disk(parts, host, config, log);
  return run_loop_with(parts, options, config, host, log);
}

}  // namespace

void block_loop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, each);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Result<void> run_daemon(const DaemonOptions& options, const Config& config,
                        const std::vector<std::string>& warnings, Host& host) {
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   log_level(options.verbose), kernel::use_service_priority);
  std::unique_ptr<exports::Log> records;
  if (options.prints_records) {
    records = std::make_unique<exports::Log>(exports::Log::Stream::standard_output,
                                             /*stamped=*/false, LogLevel::info,
                                             kernel::use_service_priority);
  }
  log_config_warnings(log, warnings);
  auto ended = run(options, config, host, log, records.get());
  if (!ended) log.write(LogLevel::error, LogLine("stop").field("error", ended.error().text()));
  return ended;
}

}  // namespace forestall::agent
