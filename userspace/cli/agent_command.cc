// SPDX-License-Identifier: Apache-2.0
// `forestall agent`: probe, build, arm, loop. Every check that can fail runs before the first usage
// line is armed, so that an agent that reports READY works.
#include <fmt/format.h>
#include <signal.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>

#include "agent/drop_watch.h"
#include "agent/host.h"
#include "agent/instance_lock.h"
#include "agent/loop.h"
#include "agent/recorder.h"
#include "api/convert_status.h"
#include "api/json.h"
#include "api/record_stream.h"
#include "cli/agent_api.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/live_picture.h"
#include "cli/recording_session.h"
#include "exports/feed.h"
#include "exports/grpc_counts.h"
#include "exports/metrics.h"
#include "exports/metrics_server.h"
#include "exports/record_log.h"
#include "exports/stage_histograms.h"
#include "exports/status_board.h"
#include "kernel/residency.h"
#include "kernel/scheduling.h"
#include "sources/capacity_source.h"
#include "sources/disk_usage_source.h"
#include "sources/pressure_reader.h"
#include "sources/runtime_source.h"

namespace forestall::cli {
namespace {

using exports::LogLevel;
using exports::LogLine;

// The loop reads these signals from a signalfd. Every thread must block them, so this runs before
// the first thread starts.
void block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, each);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a reader that closes our output must not end the agent
}

void log_start(exports::Log& log, const agent::Host& host, const Config& config,
               const std::string& origin) {
  LogLine line("start");
  line.field("version", FORESTALL_VERSION)
      .field("kernel", host.kernel_release)
      .field("tier", to_string(host.tier()))
      .field("config", origin)
      .field("dry_run", config.dry_run)
      .field("thresholds", config.thresholds.size());
  for (const FeatureReport& report : host.reports) {
    line.field(to_string(report.feature), to_string(report.state));
  }
  log.write(LogLevel::info, line);
}

// Objects with the lifetime of the agent, each after those it depends on.
struct Running {
  SystemClock clock;
  api::AgentFacts facts;
  std::unique_ptr<sources::Observer> observer;
  std::unique_ptr<actuators::Ladder> ladder;
  std::unique_ptr<actuators::NodeReclaim> reclaim;
  // null: no threshold slows workloads, or it is not possible
  std::unique_ptr<actuators::Brakes> brakes;
  agent::Sources sources;
  sources::CapacitySource* capacity = nullptr;  // one of `sources`
  std::unique_ptr<agent::OomScoreAdjPatrol> patrol;
  std::unique_ptr<sources::ProcessSource> processes;  // used by the observer; null: not needed
  std::unique_ptr<agent::OomTellers> oom_tellers;
  std::unique_ptr<agent::Watchdog> watchdog;
  std::unique_ptr<agent::Foresight> foresight;
  std::unique_ptr<agent::GuardKeeper> guard;  // null: disabled or not available
  exports::DropCounts drops;
  exports::StageHistograms stages;
  exports::StatusBoard board;
  exports::GrpcCounts grpc_counts;
  std::unique_ptr<exports::Feed> feed;
  std::unique_ptr<agent::DropWatch> drop_watch;
  std::unique_ptr<exports::Metrics> metrics;  // null: no metrics address
  // Each recorder has its own pressure reader, which is opened when a recording starts.
  struct Recording {
    std::optional<sources::PressureReader> pressure;
    std::unique_ptr<agent::Recorder> recorder;
  };
  Recording ring;     // the agent's own, on disk
  Recording session;  // requested over gRPC, while it lasts
  std::vector<std::unique_ptr<exports::RecordSink>> sinks;
  std::unique_ptr<LivePicture> picture;  // null: no status page
  // Last: their threads use the members above, and each uses the one before it.
  std::unique_ptr<exports::LiveStreams> live;
  std::unique_ptr<exports::MetricsServer> metrics_server;
  std::unique_ptr<exports::MetricsServer> status_server;
  std::unique_ptr<AgentApi> api;  // null: no gRPC server
};

actuators::LadderOptions ladder_options(const agent::Host& host, const Config& config) {
  actuators::LadderOptions options;
  options.dry_run = config.dry_run;
  options.usable = host.usable();
  options.release_timeout = config.release_timeout;
  return options;
}

// Correlation and prediction of OOM kills, and process scores if the ranking uses them.
Result<void> build_oom_parts(Running& running, agent::Host& host, const Config& config) {
  running.oom_tellers =
      std::make_unique<agent::OomTellers>(running.sources.bpf_oom, running.sources.oom_log);
  auto scanned = TRY(agent::make_process_source(host));
  running.foresight = TRY(agent::Foresight::create(host.tree, std::move(scanned), running.clock));
  if (config.ranking != Ranking::kernel) return {};
  running.processes = TRY(agent::make_process_source(host));
  running.observer->set_processes(running.processes.get());
  return {};
}

// If the guard cannot be loaded, the agent runs without it.
void build_guard(Running& running, agent::Host& host, const Config& config, exports::Log& log) {
  if (!config.guard) return;
  agent::load_guard(host, config.disabled);
  if (!host.guard) {
    const auto& report = host.reports[static_cast<std::size_t>(Feature::guard)];
    log.write(LogLevel::error, LogLine("no-guard").field("problem", report.evidence));
    return;
  }
  running.guard = std::make_unique<agent::GuardKeeper>(agent::GuardParts{
      host.guard.get(), &host.tree, running.observer.get(), &running.clock, &log});
}

// Status page of the metrics server, for browsers on this host. Null: not available.
exports::HttpPages build_status_page(Running& running, const agent::Host& host, exports::Log& log) {
  running.picture = std::make_unique<LivePicture>(host.tree, running.clock, running.facts);
  auto live = exports::LiveStreams::create(*running.picture, running.drops.live_viewers);
  if (!live) {
    running.picture.reset();
    log.write(LogLevel::error, LogLine("no-status-page").field("problem", live.error().text()));
    return nullptr;
  }
  running.live = std::move(live).value();
  return status_pages(*running.picture, *running.live);
}

void build_recorder(Running::Recording& recording, exports::Log& log, exports::DropCounts& drops) {
  recording.recorder = std::make_unique<agent::Recorder>(log, &drops);
  recording.recorder->set_pressure_gauge([&recording](MonotonicTime now) {
    if (!recording.pressure) recording.pressure.emplace();
    return recording.pressure->read(now);
  });
}

void build_sinks(Running& running, const agent::Host& host, const Config& config, exports::Log& log,
                 exports::Log* records) {
  build_recorder(running.ring, log, running.drops);
  build_recorder(running.session, log, running.drops);
  running.sinks.push_back(std::make_unique<exports::RecordLog>(log));
  if (records != nullptr) running.sinks.push_back(std::make_unique<api::RecordStream>(*records));
  running.drops.logs = {&log};
  if (records != nullptr) running.drops.logs.push_back(records);
  running.drop_watch = std::make_unique<agent::DropWatch>(
      host.in_use(Feature::bpf) ? host.bpf.get() : nullptr,
      running.guard ? host.guard.get() : nullptr, running.oom_tellers.get(), running.drops);
  if (config.metrics_address.empty()) return;
  running.metrics = std::make_unique<exports::Metrics>(
      FORESTALL_VERSION, host.tier(),
      exports::Metrics::Recorders{&running.stages, &running.drops, &running.grpc_counts});
  const auto pages = build_status_page(running, host, log);
  auto server = exports::MetricsServer::start(config.metrics_address, *running.metrics, pages);
  if (server.ok()) {
    running.metrics_server = std::move(server).value();
    return;
  }
  // Any process may hold a port above 1024. That must not leave the node unguarded.
  running.metrics.reset();
  running.live.reset();
  running.picture.reset();
  log.write(LogLevel::error, LogLine("no-metrics").field("problem", server.error().text()));
}

bool slows(const Config& config) {
  return std::ranges::any_of(config.thresholds, [](const Threshold& threshold) {
    return threshold.response == Response::slow;
  });
}

// If memory.high cannot be written, the agent starts and only warns about those workloads.
void build_brakes(Running& running, const agent::Host& host, const Config& config,
                  exports::Log& log) {
  if (!slows(config) || has(config.disabled, Feature::memory_high)) return;
  auto brakes = actuators::Brakes::create(host.tree);
  if (brakes) {
    running.brakes = std::move(brakes).value();
  } else {
    log.write(LogLevel::warning, LogLine("own-limit")
                                     .field("problem", brakes.error().text())
                                     .field("instead", "warning instead of slowing"));
  }
}

// Serves `forestall status`. The agent runs without it if it fails.
void serve_status(Running& running, const api::AgentFacts& facts, const Options& options,
                  exports::Log& log) {
  auto server = exports::MetricsServer::start_local(
      status_socket(options),
      [&running, facts](const exports::HttpRequest& request) -> exports::HttpAnswer {
        if (request.path != "/status")
          return {404, "text/plain; charset=utf-8", "/status is served here\n"};
        const auto message = api::to_proto(facts, running.board.status(), running.stages,
                                           running.drops, running.grpc_counts, running.clock.now());
        return {200, "application/json", api::to_json(message, api::JsonStyle::pretty)};
      });
  if (server.ok()) {
    running.status_server = std::move(server).value();
  } else {
    log.write(LogLevel::error, LogLine("no-status").field("problem", server.error().text()));
  }
}

// Serves the gRPC API. The agent runs without it if it fails.
void serve_api(Running& running, const api::AgentFacts& facts, const agent::Host& host,
               const Options& options, const Config& config, exports::Log& log) {
  const std::string path = config.api_socket.value_or(api_socket(options));
  if (path.empty()) return;
  AgentApiParts parts;
  parts.status = [&running, facts] {
    return api::to_proto(facts, running.board.status(), running.stages, running.drops,
                         running.grpc_counts, running.clock.now());
  };
  parts.config = [&running] { return running.board.status().config; };
  parts.tree = &host.tree;
  parts.feed = running.feed.get();
  parts.drops = &running.drops;
  parts.counts = &running.grpc_counts;
  parts.recorder = running.session.recorder.get();
  parts.recording_facts = [&host, origin = config_origin(options)] {
    return agent::recording_facts(host, api::Recorder::agent, origin);
  };
  auto served = AgentApi::serve(path, {config.api_uids, config.api_gids}, std::move(parts));
  if (served) {
    running.api = std::move(served).value();
  } else {
    log.write(LogLevel::error, LogLine("no-api").field("problem", served.error().text()));
  }
}

Result<void> build(Running& running, agent::Host& host, const Config& config, exports::Log& log,
                   exports::Log* records) {
  const std::uint64_t files = TRY(kernel::raise_file_limit());
  log.write(LogLevel::debug, LogLine("open-files").field("limit", files));
  running.observer = TRY(sources::Observer::create(host.tree, config));
  running.ladder =
      TRY(actuators::Ladder::create(host.tree, running.clock, ladder_options(host, config)));
  running.sources = agent::make_sources(host);
  if (const std::string& runtime = config.filesystems.runtime; !runtime.empty()) {
    running.reclaim = TRY(actuators::NodeReclaim::create(runtime));
    running.sources.all.push_back(TRY(sources::RuntimeSource::create(runtime, *running.observer)));
  }
  build_brakes(running, host, config, log);
  running.patrol = std::make_unique<agent::OomScoreAdjPatrol>(host.tree, log);
  auto capacity = TRY(
      sources::CapacitySource::create(running.observer->filesystems(), running.observer->tasks()));
  running.capacity = capacity.get();
  running.sources.all.push_back(std::move(capacity));
  running.sources.all.push_back(
      std::make_unique<sources::DiskUsageSource>(running.observer->disk_walker()));
  TRY(build_oom_parts(running, host, config));
  running.feed = TRY(exports::Feed::create());
  build_guard(running, host, config, log);
  build_sinks(running, host, config, log, records);
  return {};
}

// Kills one child process and makes one record, so that the pages of that path are resident.
void warm_up(Running& running, exports::Log& log, const exports::Log* records) {
  if (records != nullptr) api::RecordStream::warm_up();
  const auto warmed = running.ladder->warm_up();
  if (warmed) return;
  log.write(LogLevel::warning,
            LogLine("warm-up").field("problem", warmed.error().text()).field("ignoring", true));
}

agent::Parts parts_of(Running& running, const agent::Host& host, exports::Log& log) {
  agent::Parts parts;
  parts.told_of_cgroups = host.in_use(Feature::bpf_cgroups);
  parts.told_of_usage = host.in_use(Feature::bpf_timer);
  parts.clock = &running.clock;
  parts.observer = running.observer.get();
  parts.ladder = running.ladder.get();
  parts.reclaim = running.reclaim.get();
  parts.brakes = running.brakes.get();
  parts.patrol = running.patrol.get();
  parts.capacity = running.capacity;
  parts.oom_tellers = running.oom_tellers.get();
  parts.watchdog = running.watchdog.get();
  parts.foresight = running.foresight.get();
  parts.guard = running.guard.get();
  for (const auto& source : running.sources.all) parts.sources.push_back(source.get());
  for (const auto& sink : running.sinks) parts.sinks.push_back(sink.get());
  for (exports::RecordSink* sink : std::initializer_list<exports::RecordSink*>{
           running.ring.recorder.get(), running.session.recorder.get(), running.drop_watch.get(),
           &running.stages, &running.board, running.feed.get()}) {
    parts.sinks.push_back(sink);
  }
  if (running.metrics) parts.sinks.push_back(running.metrics.get());
  if (running.picture) parts.sinks.push_back(running.picture.get());
  parts.log = &log;
  return parts;
}

void log_warnings(exports::Log& log, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    log.write(LogLevel::warning, LogLine("config").field("warning", warning));
  }
}

void warn_of_start(exports::Log& log, std::string_view what) {
  log.write(LogLevel::warning,
            LogLine("config").field("warning", std::string(what) +
                                                   " changed: it takes effect at the next start, "
                                                   "the current value stays in use"));
}

// SIGHUP: reads the files again; the command line still overrides them. Some settings take effect
// only at start.
Result<Config> reload(const Options& options, const Config& started, exports::Log& log) {
  std::vector<std::string> warnings;
  Config config = TRY(effective_config(options, warnings));
  log_warnings(log, warnings);
  if (config.disabled != started.disabled) warn_of_start(log, "disableFeatures");
  if (config.filesystems.runtime != started.filesystems.runtime) {
    warn_of_start(log, "filesystems.runtime");
    config.filesystems.runtime = started.filesystems.runtime;
  }
  if (config.metrics_address != started.metrics_address) {
    warn_of_start(log, "metricsAddress");
    config.metrics_address = started.metrics_address;
  }
  if (config.api_socket != started.api_socket) warn_of_start(log, "apiSocket");
  if (config.api_uids != started.api_uids || config.api_gids != started.api_gids) {
    warn_of_start(log, "apiUsers");
  }
  config.api_socket = started.api_socket;
  config.api_uids = started.api_uids;
  config.api_gids = started.api_gids;
  if (config.recording != started.recording) {
    warn_of_start(log, "recording");
    config.recording = started.recording;
  }
  if (slows(config) && !slows(started)) warn_of_start(log, "ownLimit");
  // Disabling the guard takes effect at once; enabling it needs a start, which loads it.
  if (config.guard && !started.guard) {
    warn_of_start(log, "guard");
    config.guard = false;
  }
  // Leaving the kernel ranking needs no new object.
  if (config.ranking == Ranking::kernel && started.ranking != Ranking::kernel) {
    warn_of_start(log, "ranking");
    config.ranking = started.ranking;
  }
  return config;
}

// Records to the agent's ring. If the disk fails, the agent runs without a recording.
void record_on_disk(Running& running, const agent::Host& host, const Config& config,
                    const std::string& origin, exports::Log& log) {
  if (!config.recording) return;
  const recording::Target ring{config.recording->directory, false, config.recording->max_size};
  const auto started =
      running.ring.recorder->start(ring, agent::recording_facts(host, api::Recorder::agent, origin),
                                   std::chrono::seconds(10), agent::Recorder::Opening::by_thread);
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

Result<void> guard(const Options& options, const Config& config, agent::Host& host,
                   exports::Log& log, exports::Log* records) {
  Running running;
  running.facts = {FORESTALL_VERSION, ::getpid(),   running.clock.now(),   host.kernel_release,
                   host.tier(),       host.reports, config_origin(options)};
  TRY(build(running, host, config, log, records));
  kernel::give_back_start_up_memory();
  agent::protect_self(host, config.disabled);
  running.watchdog =
      TRY(agent::Watchdog::create(host.tree, running.clock, host.in_use(Feature::sched_fifo)));
  if (running.guard != nullptr) {
    running.watchdog->heed_guard([&host] { return host.guard->counts().crossings; });
  }
  warm_up(running, log, records);
  log_start(log, host, config, config_origin(options));
  const agent::Parts parts = parts_of(running, host, log);
  running.board.set_config(config);
  api::AgentFacts& facts = running.facts;
  facts.features = host.reports;  // features are complete only here
  serve_status(running, facts, options, log);
  serve_api(running, facts, host, options, config, log);
  record_on_disk(running, host, config, config_origin(options), log);
  agent::Core core(parts, config);
  agent::LoopHooks hooks;
  hooks.reload = [&]() -> Result<Config> {
    Config next = TRY(reload(options, config, log));
    running.ladder->set_options(ladder_options(host, next));
    running.board.set_config(next);
    return next;
  };
  hooks.ready = [] { sd_notify(0, "READY=1\nSTATUS=armed"); };
  const auto ended = agent::run_loop(core, parts, hooks);
  end_recording(*running.ring.recorder, log);
  end_recording(*running.session.recorder, log);
  log.write(LogLevel::info, LogLine("stop")
                                .field("looks", core.looks())
                                .field("kills", core.kills())
                                .field("kernel_oom_kills", core.kernel_kills())
                                .field("log_lines_dropped", log.dropped()));
  return ended;
}

// Like guard(), but without services and signals: the evaluations are recorded.
Result<recording::Totals> look_on(const RecordingSession& session, const Config& config,
                                  agent::Host& host, exports::Log& log) {
  Running running;
  TRY(build(running, host, config, log, nullptr));
  agent::protect_self(host, config.disabled);
  running.watchdog = TRY(agent::Watchdog::create(host.tree, running.clock, false));
  log_start(log, host, config, session.config_origin);
  const auto facts = agent::recording_facts(host, api::Recorder::session, session.config_origin);
  TRY(running.session.recorder->start(session.target, facts, std::chrono::seconds(1)));
  const agent::Parts parts = parts_of(running, host, log);
  running.board.set_config(config);
  agent::Core core(parts, config);
  agent::LoopHooks hooks;
  hooks.reload = []() -> Result<Config> { return error("a recording keeps its configuration"); };
  if (session.duration) hooks.end_at = running.clock.now() + *session.duration;
  const auto ended = agent::run_loop(core, parts, hooks);
  // The recording is complete whatever ended the loop.
  auto totals = running.session.recorder->stop();
  TRY(ended);
  return totals;
}

}  // namespace

Result<recording::Totals> run_recording_session(const RecordingSession& session,
                                                const Config& config, const Options& options) {
  block_signals();
  auto host = TRY(agent::probe_host(config.disabled, options.cgroup_mount));
  if (host.tier() == Tier::none)
    return error("no usable event source on this host; see `forestall doctor`");
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   options.verbose ? LogLevel::debug : LogLevel::info,
                   kernel::use_service_priority);
  return look_on(session, config, host, log);
}

int run_agent(const Options& options) {
  block_signals();
  std::vector<std::string> warnings;
  const auto config = effective_config(options, warnings);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().text());
    return kExitUsage;
  }
  const auto lock = agent::InstanceLock::take(options.run_directory);
  if (!lock) {
    const bool held = lock.error().code == EWOULDBLOCK;
    fmt::print(
        stderr, "forestall agent: {}\n",
        held ? lock.error().message
             : lock.error().text() + "; run as root, or set --run-dir to a writable directory");
    return held ? kExitOtherAgent : kExitFailed;
  }
  auto host = agent::probe_host(config->disabled, options.cgroup_mount);
  // A dry run needs an event source, but no means to kill.
  const bool enough = host && (config->dry_run ? host->tier() != Tier::none : host->can_guard());
  if (!enough) {
    fmt::print(stderr, "forestall agent: {}; see `forestall doctor`\n",
               host ? "nothing can guard this host" : host.error().text());
    return kExitUnguarded;
  }
  exports::Log log(exports::Log::Stream::standard_error, /*stamped=*/true,
                   options.verbose ? LogLevel::debug : LogLevel::info,
                   kernel::use_service_priority);
  std::unique_ptr<exports::Log> records;
  if (options.output == OutputFormat::json) {
    records = std::make_unique<exports::Log>(exports::Log::Stream::standard_output,
                                             /*stamped=*/false, LogLevel::info,
                                             kernel::use_service_priority);
  }
  log_warnings(log, warnings);
  if (const auto ended = guard(options, *config, *host, log, records.get()); !ended) {
    log.write(LogLevel::error, LogLine("stop").field("error", ended.error().text()));
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace forestall::cli
